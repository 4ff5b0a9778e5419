"""Known datasets, stores, and files made into stores.

Nothing is fetched unless ``download=True`` says so.

>>> from harmonia import datasets
>>> data = datasets.load("synthetic")
>>> data.x.shape
(24576, 20)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import _harmonia

_Path = Union[str, "os.PathLike[str]"]

#: Where datasets are, as the command line reads it too.
VARIABLE = "HARMONIA_DATA"


class Dataset:
    """A dataset of the engine: features, labels, graph and split, as arrays where somebody asks."""

    def __init__(self, data: _harmonia.Data) -> None:
        self.data = data

    @property
    def name(self) -> str:
        """What it is called."""
        return self.data.name

    @property
    def x(self) -> NDArray[np.float32]:
        """Features, nodes x columns."""
        return self.data.x()

    @property
    def y(self) -> NDArray[Any]:
        """Class of each unit (-1: none), or units x numbers."""
        return self.data.y()

    @property
    def edge_index(self) -> NDArray[np.int64]:
        """Edges, 2 x E."""
        return self.data.edge_index()

    @property
    def batch(self) -> Optional[NDArray[np.int64]]:
        """The graph of each node, where graphs are predicted."""
        if self.data.level != "graph":
            return None
        return np.repeat(np.arange(self.data.graphs), np.diff(self.data.starts()))

    @property
    def train(self) -> NDArray[np.int64]:
        """Training units of its own split; empty where it has none."""
        return self.data.parts()[0]

    @property
    def validation(self) -> NDArray[np.int64]:
        """Validation units."""
        return self.data.parts()[1]

    @property
    def test(self) -> NDArray[np.int64]:
        """Test units."""
        return self.data.parts()[2]

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns."""
        return self.data.feature_names

    @property
    def class_names(self) -> list[str]:
        """Names of the classes."""
        return self.data.class_names

    def __repr__(self) -> str:
        d = self.data
        graphs = f"{d.graphs} graphs, " if d.level == "graph" else ""
        return f"<Dataset {d.name}: {graphs}{d.nodes} nodes, {d.directed_edges} directed edges, {len(d.feature_names)} features>"


def load(name: _Path, *, directory: Optional[_Path] = None, index: int = 0, download: bool = False) -> Dataset:
    """A known dataset by name, or the store at a path.

    ``directory``: where datasets are (the environment variable HARMONIA_DATA, or the user's cache directory); ``index``: which
    synthetic dataset; ``download``: fetch the files of a known dataset that is not here.
    """
    place = os.environ.get(VARIABLE) or None if directory is None else directory
    text = os.fspath(name)
    if Path(text).is_dir():
        text = str(Path(text).resolve())
    return Dataset(_harmonia.Data.named(text, None if place is None else str(Path(place).resolve()), index=index, download=download))


def list_datasets(directory: Optional[_Path] = None) -> list[dict[str, Any]]:
    """Every known dataset: name, task (node or graph), licence, and whether it is here.

    >>> "cora" in [known["name"] for known in list_datasets()]
    True
    """
    place = os.environ.get(VARIABLE) or None if directory is None else directory
    known = _harmonia.known_datasets(place)
    return [{"name": name, "task": task, "licence": licence, "here": here} for name, task, licence, here in known]


def convert(source: _Path, target: _Path, *, format: str, directed: bool = False, regression: bool = False) -> Dataset:  # noqa: A002
    """Makes a store of files, as ``harmonia data convert`` does: format is table, smiles, ogb, planetoid, tudataset, ..."""
    _harmonia.convert(source, target, format=format, directed=directed, regression=regression)
    return load(target)


def open_dataset(X: Any) -> Optional[Dataset]:
    """A dataset, a name or a path; none where ``X`` is arrays."""
    if isinstance(X, Dataset):
        return X
    if isinstance(X, (str, os.PathLike)):
        return load(X)
    return None


