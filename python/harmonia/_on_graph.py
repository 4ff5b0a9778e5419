"""Index masks for scikit-learn's searches: samples are numbers of nodes, the graph stays whole."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from . import _inputs
from ._base import Base, not_fitted

Self = TypeVar("Self", bound="OnGraph")


class OnGraph(Base):
    """An estimator on one graph, whose samples are the numbers of its nodes.

    ``cross_val_score`` and ``GridSearchCV`` take rows of X away; rows of a graph must stay. Here ``fit(nodes, y)`` trains on these
    nodes of the whole graph, and ``predict(nodes)`` predicts them.

    >>> import numpy as np
    >>> from harmonia import HarmoniaClassifier, OnGraph
    >>> x = np.random.default_rng(0).normal(size=(40, 2))
    >>> ring = np.array([[*range(40), *range(40)], [(i + 1) % 40 for i in range(40)] + [(i - 1) % 40 for i in range(40)]])
    >>> model = OnGraph(HarmoniaClassifier(epochs=20), x, ring)
    >>> model.fit(np.arange(30), (x[:30, 0] > 0).astype(int)).predict([38, 39]).shape
    (2,)
    """

    def __init__(self, estimator: Any, X: Any, graph: Any) -> None:
        self.estimator = estimator
        self.X = X
        self.graph = graph

    def fit(self: Self, nodes: Any, y: Any) -> Self:
        """Trains on some nodes, whose labels are ``y``."""
        at, count = _numbers(nodes), int(self.X.shape[0])
        given = _inputs.to_numpy(y)
        labels = np.full((count, *given.shape[1:]), None, dtype=object) if given.dtype.kind not in "f" else np.full((count, *given.shape[1:]), np.nan)
        labels[at] = given
        if self.estimator._estimator_type == "regressor":
            labels = labels.astype(np.float64)
        self.estimator_ = type(self.estimator)(**self.estimator.get_params(deep=False))
        self.estimator_.fit(self.X, labels, graph=self.graph, train=np.unique(at))
        if hasattr(self.estimator_, "classes_"):
            self.classes_ = self.estimator_.classes_
        return self

    def _of(self, method: str, nodes: Any) -> Any:
        if "estimator_" not in self.__dict__:
            raise not_fitted(self)
        return getattr(self.estimator_, method)(self.X, graph=self.graph)[_numbers(nodes)]

    def predict(self, nodes: Any) -> Any:
        """As the estimator, of these nodes."""
        return self._of("predict", nodes)

    def predict_proba(self, nodes: Any) -> Any:
        """As the estimator, of these nodes."""
        return self._of("predict_proba", nodes)

    def decision_function(self, nodes: Any) -> Any:
        """As the estimator, of these nodes."""
        return self._of("decision_function", nodes)

    def score(self, nodes: Any, y: Any) -> float:
        """Accuracy, or R2."""
        found, truth = self.predict(nodes), _inputs.to_numpy(y)
        if self.estimator._estimator_type == "classifier":
            return float(np.mean(found == truth))
        return float(1 - np.mean((truth - found) ** 2) / np.var(truth))

    def __sklearn_clone__(self) -> "OnGraph":
        # The graph is shared: clones differ in settings.
        return OnGraph(type(self.estimator)(**self.estimator.get_params(deep=False)), self.X, self.graph)

    def __sklearn_tags__(self) -> Any:
        return self.estimator.__sklearn_tags__()


def _numbers(nodes: Any) -> Any:
    return _inputs.to_numpy(nodes).reshape(-1).astype(np.int64)
