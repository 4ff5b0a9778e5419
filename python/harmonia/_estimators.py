"""The estimators: a classifier, a regressor, and how a kept one is read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Optional, Union, cast

import numpy as np
from numpy.typing import NDArray

from . import _harmonia, _inputs, _targets, _words
from ._common import PYTHON_FILE, HarmoniaBase


class HarmoniaClassifier(HarmoniaBase):
    """Predicts classes of nodes, graphs or plain rows.

    >>> import numpy as np
    >>> from harmonia import HarmoniaClassifier
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> ring = np.array([range(60), [(i + 1) % 60 for i in range(60)]])
    >>> both_ways = np.concatenate([ring, ring[::-1]], axis=1)
    >>> y = (np.roll(x[:, 0], 1) + np.roll(x[:, 0], -1) > 0).astype(int)
    >>> model = HarmoniaClassifier(hops=2, epochs=100).fit(x, y, graph=both_ways, train=range(40), test=range(40, 60))
    >>> model.predict(x, graph=both_ways).shape
    (60,)
    >>> bool(model.explain_local([50])[0].residual < 1e-4)
    True
    """

    _estimator_type = "classifier"
    classes_: NDArray[Any]

    def _labels(self, y: Any, count: int) -> tuple[dict[str, Any], NDArray[np.bool_], Optional[NDArray[np.int64]]]:
        array = _targets.target(y, count, self)
        if array.ndim == 2:
            if not np.isin(array, (0, 1)).all():
                raise ValueError("y has several columns: expected 0 or 1 in each (one label each); numbers are for HarmoniaRegressor")
            self.classes_ = np.arange(array.shape[1])
            bits = np.ascontiguousarray(array, dtype=np.uint8)
            return {"bits": bits}, np.ones(count, dtype=bool), None
        known = _targets.known(array)
        values = array[known]
        if values.dtype.kind == "f":
            if not np.isfinite(values).all():
                raise ValueError("Input y contains infinity: expected classes")
            if (values != np.floor(values)).any():
                raise ValueError("Unknown label type: continuous. Expected classes in y; numbers are for HarmoniaRegressor")
            if array.dtype.kind == "f" and not known.all():
                values = values.astype(np.int64)
        elif values.dtype == object:
            values = np.array(values.tolist())
        if values.dtype.kind in "iu" and (values == -1).any() and (values == 0).any():
            known[known] = values != -1
            values = values[values != -1]
        self.classes_, inverse = np.unique(values, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"expected at least 2 classes in y, found {len(self.classes_)} class")
        ids = np.full(count, -1, dtype=np.int64)
        ids[known] = inverse
        return {"classes": (ids, len(self.classes_)), "class_names": [str(c) for c in self.classes_.tolist()]}, known, ids

    def _take_labels(self, data: _harmonia.Data) -> None:
        if data.task == "numbers":
            raise ValueError(f"{data.name} has numbers to fit, not classes: use HarmoniaRegressor")
        self.classes_ = _words.classes(data.class_names)

    def decision_function(self, X: Any = None, *, graph: Any = None, batch: Any = None) -> NDArray[np.float64]:
        """Logits: one for each unit of two classes, else units x classes."""
        logits = self._logits(X, graph, batch).astype(np.float64)
        return logits[:, 0] if logits.shape[1] == 1 and len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any = None, *, graph: Any = None, batch: Any = None) -> NDArray[np.float64]:
        """Probabilities, units x classes (of several labels: of each label)."""
        return self._fitted().probabilities(self._logits(X, graph, batch))

    def predict(self, X: Any = None, *, graph: Any = None, batch: Any = None) -> NDArray[Any]:
        """Most probable class of each unit, of ``X`` or of the data of training; of several labels 0 or 1 for each."""
        logits = self._logits(X, graph, batch)
        if not self._fitted().has_one_class:
            return (logits > 0).astype(np.int64)
        places = (logits[:, 0] > 0).astype(np.int64) if logits.shape[1] == 1 else logits.argmax(axis=1)
        return cast("NDArray[Any]", self.classes_[places])

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, graph: Any = None, batch: Any = None) -> float:
        """Accuracy."""
        right: NDArray[Any] = np.asarray(self.predict(X, graph=graph, batch=batch) == _inputs.to_numpy(y))
        if right.ndim == 2:
            right = np.asarray(right.all(axis=1))
        return float(np.average(right, weights=sample_weight))

    def _kept(self) -> dict[str, Any]:
        return {**super()._kept(), "classes": self.classes_.tolist(), "dtype": self.classes_.dtype.str}

    def _restore(self, kept: dict[str, Any]) -> None:
        super()._restore(kept)
        if "classes" in kept:
            self.classes_ = np.array(kept["classes"], dtype=np.dtype(kept["dtype"]))
        else:
            self.classes_ = _words.classes(self._fitted().class_names)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        return tags


class HarmoniaRegressor(HarmoniaBase):
    """Predicts numbers, in their own units.

    >>> import numpy as np
    >>> from harmonia import HarmoniaRegressor
    >>> x = np.linspace(-2, 2, 80)[:, None]
    >>> model = HarmoniaRegressor(epochs=200).fit(x, np.abs(x[:, 0]))
    >>> bool(model.score(x, np.abs(x[:, 0])) > 0.9)
    True
    >>> model.shapes(0).knots.shape[1]
    2
    """

    _estimator_type = "regressor"

    def _labels(self, y: Any, count: int) -> tuple[dict[str, Any], NDArray[np.bool_], Optional[NDArray[np.int64]]]:
        array = _targets.target(y, count, self)
        try:
            with np.errstate(over="ignore"):
                values = np.ascontiguousarray(array.reshape(count, -1), dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise ValueError(f"expected numbers in y: {error}") from None
        if np.isinf(values).any():
            raise ValueError("Input y contains infinity or a value too large for float32")
        self._single = array.ndim == 1
        names = ["target"] if values.shape[1] == 1 else [f"target {at}" for at in range(values.shape[1])]
        return {"values": values, "class_names": names}, np.asarray(~np.isnan(values).any(axis=1)), None

    def _take_labels(self, data: _harmonia.Data) -> None:
        if data.task != "numbers":
            raise ValueError(f"{data.name} has classes, not numbers to fit: use HarmoniaClassifier")
        self._single = len(data.class_names) == 1

    def predict(self, X: Any = None, *, graph: Any = None, batch: Any = None) -> NDArray[np.float64]:
        """Numbers, of ``X`` or of the data of training."""
        values = self._logits(X, graph, batch).astype(np.float64)
        return values[:, 0] if values.shape[1] == 1 and getattr(self, "_single", True) else values

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, graph: Any = None, batch: Any = None) -> float:
        """R2; of several targets their mean."""
        truth = _inputs.to_numpy(y).astype(np.float64)
        found = self.predict(X, graph=graph, batch=batch).reshape(truth.shape)
        weights = None if sample_weight is None else np.asarray(sample_weight)
        mean = np.average(truth, axis=0, weights=weights)
        off = np.average((truth - found) ** 2, axis=0, weights=weights)
        spread = np.average((truth - mean) ** 2, axis=0, weights=weights)
        return float(np.mean(1 - off / np.where(spread == 0, 1, spread)))

    def _kept(self) -> dict[str, Any]:
        return {**super()._kept(), "single": getattr(self, "_single", True)}

    def _restore(self, kept: dict[str, Any]) -> None:
        super()._restore(kept)
        self._single = bool(kept.get("single", len(self._fitted().class_names) <= 1))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.multi_output = True
        return tags


def load(path: Union[str, os.PathLike[str]]) -> Any:
    """A model that was saved here or trained by the command line: a :class:`HarmoniaClassifier` or :class:`HarmoniaRegressor`."""
    model = _harmonia.Model.load(path)
    file = Path(path) / PYTHON_FILE
    kept: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    kind = HarmoniaRegressor if model.is_regression else HarmoniaClassifier
    names = kind._names()
    estimator = kind(**{name: value for name, value in kept.get("params", {}).items() if name in names})
    estimator._model = model
    estimator._restore(kept)
    return estimator
