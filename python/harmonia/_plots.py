"""Pictures by matplotlib, which is imported here and when somebody asks for one."""

from __future__ import annotations

from typing import Any, Optional, Sequence


def _axes(ax: Any, height: float) -> Any:
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    # No pyplot: nothing global, no window, no backend.
    return Figure(figsize=(7, height), layout="constrained").add_subplot()


def bars(ax: Any, pairs: Sequence[tuple[str, float]], title: str) -> Any:
    """Horizontal bars, the first on top."""
    ax = _axes(ax, 0.6 + 0.28 * max(len(pairs), 1))
    names, values = [name for name, _ in pairs], [value for _, value in pairs]
    ax.barh(range(len(pairs)), values, color=["#2f6fb3" if value >= 0 else "#c2452d" for value in values])
    ax.set_yticks(range(len(pairs)), names)
    ax.invert_yaxis()
    ax.axvline(0, color="black", linewidth=0.8)
    ax.set_title(title, fontsize=10)
    return ax


def several(explanations: Sequence[Any], top: int) -> Any:
    """One below the other."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.2 * max(len(explanations), 1)), layout="constrained")
    for at, explanation in enumerate(explanations):
        explanation.plot(figure.add_subplot(len(explanations), 1, at + 1), top)
    return figure


def shape(ax: Any, found: Any, range_: Optional[tuple[float, float]] = None) -> Any:
    """A curve over the data, or values as bars."""
    if not len(found.knots):
        return bars(ax, [(value, next(iter(adds.values()))) for value, adds in found.values.items()], found.name)
    import numpy as np

    ax = _axes(ax, 3)
    low, high = range_ or found.data.get("range") or (found.knots[0, 0], found.knots[-1, 0])
    inside = found.knots[(found.knots[:, 0] > low) & (found.knots[:, 0] < high), 0]
    at = np.concatenate([[low], inside, [high]])
    ax.plot(at, found(at), color="#2f6fb3")
    ax.plot(inside, found(inside), ".", color="#2f6fb3", markersize=4)
    ax.set_xlabel(found.name)
    ax.set_ylabel("f")
    return ax
