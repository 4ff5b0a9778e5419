"""scikit-learn's estimator contract without scikit-learn: the package works with numpy alone, and imports in a moment."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

Self = TypeVar("Self", bound="Base")


def not_fitted(estimator: object) -> Exception:
    """scikit-learn's own exception where it is at hand."""
    words = f"This {type(estimator).__name__} instance is not fitted yet: call fit, or harmonia.load a saved model."
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return _NotFitted(words)
    found: Exception = NotFittedError(words)
    return found


class _NotFitted(ValueError, AttributeError):
    pass


class Base:
    """``get_params``, ``set_params`` and what scikit-learn asks of an estimator."""

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor by name."""
        params: dict[str, Any] = {}
        for name in self._names():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params.update({f"{name}__{key}": nested for key, nested in value.get_params().items()})
            params[name] = value
        return params

    def set_params(self: Self, **params: Any) -> Self:
        """Sets parameters of the constructor; ``a__b`` is parameter b of parameter a."""
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, rest = key.partition("__")
            if name not in self._names():
                raise ValueError(f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {self._names()!r}.")
            if rest:
                nested.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, rest_params in nested.items():
            getattr(self, name).set_params(**rest_params)
        return self

    def __repr__(self) -> str:
        default = {name: p.default for name, p in inspect.signature(type(self).__init__).parameters.items()}
        given = [f"{name}={getattr(self, name)!r}" for name in self._names() if not _same(getattr(self, name), default[name])]
        return f"{type(self).__name__}({', '.join(given)})"


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and isinstance(value, (bool, int, float, str)) and value == default)
