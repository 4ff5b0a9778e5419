"""What ``fit`` makes of labels, weights and seeds; its errors are in scikit-learn's words."""

from __future__ import annotations

import warnings
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

from . import _inputs


def target(y: Any, count: int, estimator: object) -> NDArray[Any]:
    name = type(estimator).__name__
    if y is None:
        raise ValueError(f"{name} requires y to be passed, but the target y is None")
    if _inputs.is_sparse(y):
        raise TypeError("expected y as an array, found a sparse matrix: give y.toarray()")
    array = _inputs.to_numpy(y)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: expected real numbers in y")
    if array.ndim == 2 and array.shape[1] == 1:
        _warn_column()
        array = array[:, 0]
    if array.ndim not in (1, 2):
        raise ValueError(f"bad input shape {array.shape}: expected y of one or two dimensions")
    if len(array) != count:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: X has {count}, y has {len(array)}")
    return array


def _warn_column() -> None:
    words = "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,), for example using ravel()."
    kind: type[Warning] = UserWarning
    try:
        from sklearn.exceptions import DataConversionWarning

        kind = DataConversionWarning
    except ImportError:
        pass
    warnings.warn(words, kind, stacklevel=5)


def known(array: NDArray[Any]) -> NDArray[np.bool_]:
    if array.dtype.kind == "f":
        return np.asarray(~np.isnan(array), dtype=bool)
    if array.dtype == object:
        return np.array([value is not None and value == value for value in array], dtype=bool)
    return np.ones(len(array), dtype=bool)


def weights(sample_weight: Any, count: int) -> tuple[Optional[NDArray[np.float32]], NDArray[np.bool_]]:
    """Weights above 0; units of weight 0 have no part."""
    counted = np.ones(count, dtype=bool)
    if sample_weight is None:
        return None, counted
    weights = _inputs.to_numpy(sample_weight).astype(np.float64)
    if weights.ndim == 0:
        weights = np.full(count, float(weights))
    if weights.shape != (count,):
        raise ValueError(f"sample_weight has shape {weights.shape}: expected ({count},) (Sample weights must be 1D array or scalar)")
    if (weights < 0).any() or not np.isfinite(weights).all():
        raise ValueError("sample_weight has negative or infinite numbers: expected 0 or more")
    counted = weights > 0
    if not counted.any():
        raise ValueError("sample_weight has a weight of zero for every sample: expected some above 0")
    if (weights[counted] == weights[counted][:1]).all():
        # Weights that are all alike are none.
        return None, counted
    return np.ascontiguousarray(np.where(counted, weights, 1.0), dtype=np.float32), counted


def hold_out(
    train: NDArray[np.int64], strata: Optional[NDArray[np.int64]], fraction: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Some of each class for validation, at least one unit in all, and one of each class to train on."""
    if not 0 < fraction < 1:
        raise ValueError(f"validation_fraction is {fraction}: expected a number between 0 and 1")
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(train)
    groups = [shuffled] if strata is None else [shuffled[strata[shuffled] == c] for c in np.unique(strata[shuffled])]
    # Largest first, so that where one unit is all that can be spared it is one of many.
    groups.sort(key=len, reverse=True)
    held = [group[: min(max(int(round(fraction * len(group))), 0), len(group) - 1)] for group in groups]
    valid = np.concatenate(held)
    if not len(valid):
        valid = groups[0][:1]
    return np.sort(np.setdiff1d(train, valid)), np.sort(valid)


def seed(random_state: Any) -> int:
    if random_state is None:
        return int(np.random.randint(2**31 - 1))
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    draw = getattr(random_state, "integers", None) or getattr(random_state, "randint", None)
    if draw is None:
        raise ValueError(f"random_state is {random_state!r}: expected None, a whole number or a generator of numpy")
    return int(draw(2**31 - 1))


def other_names(fitted: list[str], given: list[str]) -> str:
    """In scikit-learn's words."""
    words = "The feature names should match those that were passed during fit.\n"
    new, gone = sorted(set(given) - set(fitted)), sorted(set(fitted) - set(given))
    for head, names in (("Feature names unseen at fit time:\n", new), ("Feature names seen at fit time, yet now missing:\n", gone)):
        if names:
            words += head + "".join(f"- {name}\n" for name in names[:5]) + ("- ...\n" if len(names) > 5 else "")
    if not new and not gone:
        words += "Feature names must be in the same order as they were in fit.\n"
    return words
