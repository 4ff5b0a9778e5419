"""HARMONIA: a graph additive model that can be read.

>>> from harmonia import HarmoniaClassifier, datasets
>>> model = HarmoniaClassifier(epochs=5).fit(datasets.load("synthetic"))
>>> model.hop_weights_.shape
(4, 20)
"""

from . import datasets
from ._estimators import HarmoniaClassifier, HarmoniaRegressor, load
from ._explanations import Diagnosis, Explanation, Explanations, GlobalExplanation, Intervention, Shape
from ._harmonia import __version__
from ._on_graph import OnGraph

__all__ = [
    "Diagnosis",
    "Explanation",
    "Explanations",
    "GlobalExplanation",
    "HarmoniaClassifier",
    "HarmoniaRegressor",
    "Intervention",
    "OnGraph",
    "Shape",
    "__version__",
    "datasets",
    "load",
]
