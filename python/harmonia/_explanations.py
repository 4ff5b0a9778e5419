"""Explanations as objects: what ``harmonia explain --json`` prints, with tables, static HTML and plots on top.

The keys of ``.data`` are those of the command line (docs/explain.md documents each of them).
"""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence, Union, overload

import numpy as np
from numpy.typing import NDArray

from . import _html, _plots


class Explanation:
    """One prediction as the sum it is: ``intercept + terms + rest = logit``, up to ``residual``."""

    def __init__(
        self, data: dict[str, Any], by: Sequence[str], edges: Optional[list[tuple[int, int, float]]] = None, both_ways: bool = False
    ) -> None:
        self.data = data
        self.by = tuple(by)
        self._edges = edges
        #: Whether an edge was dropped both ways, as in an undirected graph.
        self.both_ways = both_ways

    @property
    def target(self) -> int:
        """The node or graph."""
        return int(self.data["target"])

    @property
    def logit(self) -> float:
        """What the terms add up to."""
        return float(self.data["logit"])

    @property
    def intercept(self) -> float:
        """The intercept, with what centring took from the terms."""
        return float(self.data["intercept"])

    @property
    def residual(self) -> float:
        """How far the sum is from the engine's own logit."""
        return float(self.data["residual"])

    @property
    def values(self) -> NDArray[np.float64]:
        """What each listed term adds, largest first."""
        return np.array([term["value"] for term in self.data["contributions"]], dtype=np.float64)

    @property
    def terms(self) -> list[dict[str, Any]]:
        """The listed terms."""
        return list(self.data["contributions"])

    @property
    def has_edges(self) -> bool:
        """Whether effects of edges were asked for."""
        return self._edges is not None

    @property
    def edges(self) -> list[tuple[int, int, float]]:
        """(reader, read from, change of the logit without the edge), of ``explain_local(..., edges=True)``."""
        if self._edges is None:
            raise ValueError("effects of edges were not asked for: explain_local(..., edges=True)")
        return [(a, b, change) for a, b, change in self._edges]

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``: a row for each term, with ``adds``."""
        return _frame([_row(self.data, term) for term in self.data["contributions"]])

    def plot(self, ax: Any = None, top: int = 15) -> Any:
        """Bars of the largest terms, by matplotlib; gives the axes."""
        return _plots.bars(ax, [(_label(t, self.by), t["value"]) for t in self.data["contributions"]][:top], _title(self.data))

    def to_pyg(self, x: Any, edge_index: Any) -> Any:
        """A ``torch_geometric.explain.Explanation``: ``node_mask`` (nodes x features, absolute values) and ``signed_node_mask``.

        Terms must be by node: ``explain_local(nodes, by=("node", "feature"), top=None)``. With ``edges=True`` there, also ``edge_mask``
        and ``signed_edge_mask``: the change of the logit when an edge is dropped.
        """
        from . import pyg

        return pyg.explanation(self, x, edge_index)

    def __repr__(self) -> str:
        return f"<Explanation of {self.data['level']} {self.target}: {self.data['class']}, logit {self.logit:.4f}, {len(self.terms)} terms>"

    def _repr_html_(self) -> str:
        return _html.page(_html.local(self.data, self.by))


class Explanations(Sequence[Explanation]):
    """Several predictions explained."""

    def __init__(self, items: Sequence[Explanation]) -> None:
        self._items = list(items)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: int) -> Explanation: ...
    @overload
    def __getitem__(self, at: slice) -> "Explanations": ...
    def __getitem__(self, at: Union[int, slice]) -> Union[Explanation, "Explanations"]:
        return Explanations(self._items[at]) if isinstance(at, slice) else self._items[at]

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self._items)

    def to_pandas(self) -> Any:
        """One table: a row for each term of each prediction."""
        return _frame([_row(item.data, term) for item in self._items for term in item.data["contributions"]])

    def plot(self, top: int = 15) -> Any:
        """One picture under the other, by matplotlib; gives the figure."""
        return _plots.several(self._items, top)

    def to_pyg(self, x: Any, edge_index: Any) -> list[Any]:
        """As :meth:`Explanation.to_pyg`, for each."""
        return [item.to_pyg(x, edge_index) for item in self._items]

    def __repr__(self) -> str:
        return "\n".join(repr(item) for item in self._items)

    def _repr_html_(self) -> str:
        return _html.page("".join(_html.local(item.data, item.by) for item in self._items))


class GlobalExplanation:
    """What a model does over many units: importances, signed effects, hop weights, experts."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @property
    def feature_names(self) -> list[str]:
        """Features, most important first."""
        return [feature["feature"] for feature in self.data["features"]]

    @property
    def importances(self) -> NDArray[np.float64]:
        """Mean absolute contribution of each of them."""
        return np.array([feature["importance"] for feature in self.data["features"]], dtype=np.float64)

    def to_pandas(self) -> Any:
        """A row for each feature: importance, and by class the importance and the mean contribution."""
        rows = []
        for feature in self.data["features"]:
            row = {"feature": feature["feature"], "importance": feature["importance"]}
            for name, value in feature["importance_by_class"].items():
                row[f"importance({name})"] = value
            for name, value in feature["signed_by_class"].items():
                row[f"signed({name})"] = value
            rows.append(row)
        return _frame(rows)

    def plot(self, ax: Any = None, top: int = 15) -> Any:
        """Bars of the most important features, by matplotlib; gives the axes."""
        pairs = list(zip(self.feature_names, self.importances.tolist()))[:top]
        return _plots.bars(ax, pairs, f"{self.data['dataset']}: mean |contribution|")

    def __repr__(self) -> str:
        head = ", ".join(self.feature_names[:3])
        return f"<GlobalExplanation of {self.data['features_total']} features over {self.data['units']} units: {head}, ...>"

    def _repr_html_(self) -> str:
        return _html.page(_html.overall(self.data))


class Shape:
    """What a feature does by itself: the exact knots of its response, or of a category what each value adds."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @property
    def name(self) -> str:
        """The feature."""
        return str(self.data["feature"])

    @property
    def knots(self) -> NDArray[np.float64]:
        """(x, f(x)) where the slope changes, in the units of the data; empty for a category."""
        return np.array(self.data.get("knots", []), dtype=np.float64).reshape(-1, 2)

    @property
    def exact(self) -> bool:
        """Whether lines between knots are the response itself; of smooth responses knots are points of it."""
        return not self.data.get("sampled", False)

    @property
    def values(self) -> dict[str, dict[str, float]]:
        """Of a category: what each value adds to each class."""
        return {value["value"]: value["adds_by_class"] for value in self.data.get("values", [])}

    def __call__(self, x: Any) -> NDArray[np.float64]:
        """f(x), linear between knots and beyond them."""
        knots, at = self.knots, np.asarray(x, dtype=np.float64)
        if not len(knots):
            raise ValueError(f"{self.name} is a category: see .values")
        inside = np.interp(at, knots[:, 0], knots[:, 1])
        left = np.minimum(at - knots[0, 0], 0.0) * self.data["left_slope"]
        right = np.maximum(at - knots[-1, 0], 0.0) * self.data["right_slope"]
        return np.asarray(inside + left + right)

    def adds(self, x: Any, output: Optional[str] = None) -> NDArray[np.float64]:
        """What a value adds to the logit of a class where all nodes that count have it, less the mean over the data."""
        weights = self.data["effect_by_class"]
        name = output if output is not None else next(iter(weights))
        if name not in weights:
            raise ValueError(f"there is no output `{name}`: expected one of {', '.join(weights)}")
        return np.asarray(weights[name] * (self(x) - self.data["centre"]))

    def plot(self, ax: Any = None) -> Any:
        """The curve with its knots, or bars of values, by matplotlib; gives the axes."""
        return _plots.shape(ax, self)

    def __repr__(self) -> str:
        what = f"{len(self.knots)} knots" if len(self.knots) else f"{len(self.values)} values"
        return f"<Shape of {self.name}: {what}>"

    def _repr_html_(self) -> str:
        return _html.page(_html.shape(self.data))


class Intervention:
    """The same prediction with something changed, exactly."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @property
    def before(self) -> float:
        """The logit as it was."""
        return float(self.data["before"])

    @property
    def after(self) -> float:
        """The logit once things are changed."""
        return float(self.data["after"])

    @property
    def change(self) -> float:
        """The difference."""
        return float(self.data["change"])

    def to_pandas(self) -> Any:
        """What each feature adds to the change."""
        return _frame([{"feature": t["feature"], "adds": t["value"]} for t in self.data["contributions"]])

    def __repr__(self) -> str:
        return f"<Intervention on {self.data['level']} {self.data['target']}: logit {self.before:.4f} -> {self.after:.4f}>"

    def _repr_html_(self) -> str:
        return _html.page(_html.change(self.data))


class Diagnosis:
    """What the graph lets hop weights mean: identifiability, conditioning, horizon, spectral responses (docs/diagnose.md)."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __repr__(self) -> str:
        return f"<Diagnosis of {self.data['dataset']}: {', '.join(key for key in self.data if key != 'dataset')}>"

    def _repr_html_(self) -> str:
        return _html.page(_html.nested(self.data))


def _row(data: dict[str, Any], term: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {data["level"]: data["target"], "class": data["class"]}
    row.update({"source" if key == "node" else key: value for key, value in term.items() if key not in ("value", "node_id", "feature_index")})
    row["adds"] = term["value"]
    return row


def _label(term: dict[str, Any], by: Sequence[str]) -> str:
    words = []
    if "feature" in term:
        words.append(str(term["feature"]))
    if "node" in term:
        words.append(f"node {term['node']}")
    hop = next((key for key in term if key not in ("feature", "feature_index", "x", "node", "node_id", "value")), None)
    if hop is not None:
        words.append(f"{hop} {term[hop]}")
    return ", ".join(words) or "all"


def _title(data: dict[str, Any]) -> str:
    return f"{data['level']} {data['target']}: logit of {data['class']} = {data['logit']:.3f} (intercept {data['intercept']:.3f})"


def _frame(rows: list[dict[str, Any]]) -> Any:
    import pandas

    return pandas.DataFrame(rows)
