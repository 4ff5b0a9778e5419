"""Values as the words the engine reads, and its words as values; what it tells while it trains."""

from __future__ import annotations

import json
import logging
from typing import Any, Callable, Optional

import numpy as np
from numpy.typing import NDArray

logger = logging.getLogger("harmonia")


def toml(value: Any) -> str:
    """A value as ``--set`` reads it: JSON is TOML but for what is not used here."""
    if isinstance(value, str):
        return value
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def word(value: Any) -> Optional[str]:
    return None if value is None else str(value)


def cell(value: Any) -> str:
    """A value as a table would have it."""
    if value is None or value != value:
        return "missing"
    return str(value).lower() if isinstance(value, (bool, np.bool_)) else str(value)


def classes(names: list[str]) -> NDArray[Any]:
    """Names of classes; numbers where they are numbered."""
    if names == [f"class {at}" for at in range(len(names))]:
        return np.arange(len(names))
    whole = all(name.lstrip("-").isdigit() and str(int(name)) == name for name in names)
    return np.array([int(name) for name in names] if whole else names)


def plain(params: dict[str, Any]) -> dict[str, Any]:
    """Those that JSON can keep."""
    kept = {}
    for name, value in params.items():
        try:
            kept[name] = json.loads(json.dumps(value.item() if isinstance(value, np.generic) else value))
        except TypeError:
            continue
    return kept


def wants_epochs(callback: Any) -> bool:
    return callback is not None or logger.isEnabledFor(logging.DEBUG)


def listener(callback: Any) -> Callable[[str, str], None]:
    def listen(what: str, text: str) -> None:
        if what == "epoch":
            record = json.loads(text)
            logger.debug("epoch %d: training loss %.4f, validation %s", record["epoch"], record["train_loss"], record["validation"])
            if callback is not None:
                callback.update(1) if hasattr(callback, "update") else callback(record)
        else:
            logger.log(logging.WARNING if what == "warning" else logging.INFO, "%s", text)

    return listen
