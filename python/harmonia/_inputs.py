"""What users have, as the arrays the engine takes.

Everything is recognised by its shape and methods; none of pandas, polars, scipy, networkx and torch is imported. X is passed on as it is
where layouts agree (float32, C order), and the engine reads it where it is; everything else is brought into that form, and the engine
reads the array that was made for it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Optional, Sequence

import numpy as np
from numpy.typing import NDArray

from . import _harmonia


@dataclass
class Table:
    """X as the engine takes it: dense or sparse, with names, and what the columns of a frame are."""

    rows: int
    cols: int
    dense: Optional[NDArray[np.float32]] = None
    sparse: Optional[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], int]] = None
    names: Optional[list[str]] = None
    #: JSON of the columns, where they are more than numbers.
    columns: Optional[str] = None


def is_sparse(x: Any) -> bool:
    """Whether it is a matrix or an array of scipy.sparse."""
    return hasattr(x, "tocsr") and hasattr(x, "nnz")


def is_frame(x: Any) -> bool:
    """Whether it is a table of pandas or polars."""
    return hasattr(x, "columns") and hasattr(x, "__getitem__") and hasattr(x, "shape") and hasattr(x, "to_numpy")


def to_numpy(array: Any) -> NDArray[Any]:
    """Numpy, torch (on any device), lists."""
    if hasattr(array, "detach"):
        array = array.detach().cpu().numpy()
    return np.asarray(array)


def table(x: Any, schema: Optional[str] = None) -> Table:
    """X of whatever holds it. ``schema``: the columns of a model, by which words are numbered."""
    if is_frame(x):
        return _frame(x, None if schema is None else json.loads(schema))
    if is_sparse(x):
        return _sparse(x)
    array = to_numpy(x)
    if array.dtype.kind == "c" or (array.dtype == object and any(isinstance(v, complex) for v in array.ravel()[:1])):
        raise ValueError("Complex data not supported: expected real numbers")
    if array.dtype.kind in "OSU":
        array = _as_numbers(array)
    if array.ndim == 1:
        raise ValueError(
            f"Expected 2D array, got 1D array instead:\narray={array}.\nReshape your data either using array.reshape(-1, 1) if "
            "your data has a single feature or array.reshape(1, -1) if it contains a single sample."
        )
    if array.ndim != 2:
        raise ValueError(f"expected X of rows and columns, found {array.ndim} dimensions (Found array with dim {array.ndim})")
    _check_sizes(*array.shape)
    return Table(array.shape[0], array.shape[1], dense=_floats(array))


def _as_numbers(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype == object:
        odd = next((v for v in array.ravel() if isinstance(v, (dict, list, tuple, set))), None)
        if odd is not None:
            raise TypeError(f"argument must be a string or a real number, not '{type(odd).__name__}'")
    try:
        return array.astype(np.float64)
    except ValueError as error:
        raise ValueError(f"expected numbers in X: {error}; words are columns of a pandas or polars DataFrame") from None


def _check_sizes(rows: int, cols: int) -> None:
    if rows == 0:
        raise ValueError(f"Found array with 0 sample(s) (shape=({rows}, {cols})) while a minimum of 1 is required.")
    if cols == 0:
        raise ValueError(f"0 feature(s) (shape=({rows}, {cols})) while a minimum of 1 is required.")


def _floats(array: NDArray[Any]) -> NDArray[np.float32]:
    """float32 in rows; what does not fit is an error, not an infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        floats = np.ascontiguousarray(array, dtype=np.float32)
    # Without an array of the size of X beside it. The largest number that is no NaN is an infinity where there is one.
    if max(np.fmax.reduce(floats, axis=None), -np.fmin.reduce(floats, axis=None)) == np.inf:
        at = tuple(int(i) for i in np.argwhere(np.isinf(floats))[0])
        raise ValueError(f"X has an infinity, or a value too large for float32, in row {at[0]}, column {at[1]} (Input X contains infinity)")
    return floats


def _sparse(x: Any) -> Table:
    csr = x.tocsr()
    if csr.dtype.kind == "c":
        raise ValueError("Complex data not supported: expected real numbers")
    _check_sizes(*csr.shape)
    data = np.asarray(csr.data, dtype=np.float32)
    if not np.isfinite(data).all():
        raise ValueError("sparse X contains NaN or infinity: expected finite numbers (Input X contains NaN or infinity)")
    sparse = (_longs(csr.indptr), _longs(csr.indices), np.ascontiguousarray(data), int(csr.shape[1]))
    return Table(int(csr.shape[0]), int(csr.shape[1]), sparse=sparse)


def _longs(array: Any) -> NDArray[np.int64]:
    return np.ascontiguousarray(array, dtype=np.int64)


# --- frames -------------------------------------------------------------------------------------------------------------------------


def _frame(x: Any, schema: Optional[list[dict[str, Any]]]) -> Table:
    """Columns one by one: numbers, booleans, dates, categories."""
    labels = list(x.columns)
    strings = [isinstance(label, str) for label in labels]
    if any(strings) and not all(strings):
        kinds = sorted({type(label).__name__ for label in labels})
        raise TypeError(
            f"Feature names are only supported if all input features have string names, but your input has {kinds} as feature name / "
            "column name types. If you want feature names to be stored and validated, you must convert them all to strings, by using "
            "X.columns = X.columns.astype(str) for example."
        )
    _check_sizes(int(x.shape[0]), len(labels))
    known = {column["name"]: column for column in schema or []}
    values, columns = [], []
    for at, label in enumerate(labels):
        column, numbers = _column(x[label] if not hasattr(x, "iloc") else x.iloc[:, at], str(label), known.get(str(label)))
        values.append(numbers)
        columns.append(column)
    dense = _floats(np.stack(values, axis=1))
    plain = all(column["kind"] == "number" for column in columns) and schema is None
    names = [str(label) for label in labels] if all(strings) else None
    if not all(strings):
        for at, column in enumerate(columns):
            column["name"] = f"feature {at}"
    return Table(dense.shape[0], dense.shape[1], dense=dense, names=names, columns=None if plain else json.dumps(columns))


def _column(column: Any, name: str, known: Optional[dict[str, Any]]) -> tuple[dict[str, Any], NDArray[np.float64]]:
    """What a column is, and its cells as numbers: of a category the place of the value, NaN where it is missing."""
    dtype = str(column.dtype).lower()
    described: dict[str, Any] = {"name": name, "kind": "number"}
    if known is not None and known["kind"] in ("category", "ordered"):
        return known, _places(column, known["values"])
    if "datetime" in dtype or dtype.startswith("date"):
        described["kind"] = "date"
        stamps = np.asarray(column.to_numpy(), dtype="datetime64[ms]")
        days = stamps.astype(np.int64) / 86_400_000.0
        return described, np.where(np.isnat(stamps), np.nan, days)
    if dtype.startswith(("cat", "enum")):
        values, ordered = _categories(column)
        described.update(kind="ordered" if ordered else "category", values=values)
        return described, _places(column, values)
    if dtype.startswith(("object", "str", "utf8", "string")):
        cells = _cells(column)
        if all(isinstance(cell, (int, float, np.number)) for cell in cells if cell is not None):
            return described, np.array([np.nan if cell is None else float(cell) for cell in cells])
        words = sorted({str(cell) for cell in cells if cell is not None})
        described.update(kind="category", values=words)
        return described, _places(column, words)
    if dtype.startswith("bool"):
        described["kind"] = "boolean"
    numbers = column.to_numpy()
    if numbers.dtype == object:
        cells = _cells(column)
        return described, np.array([np.nan if cell is None else float(cell) for cell in cells])
    return described, np.asarray(numbers, dtype=np.float64)


_NUMBERS = {"number", "boolean"}
_HOLDS = {"number": "numbers", "boolean": "numbers", "date": "dates", "category": "words", "ordered": "words"}


def _check_kinds(columns: Table, schema: Optional[str]) -> None:
    """Refuses words and dates where a model has seen numbers, and so on: they would be read as the numbers that stand for them."""
    known = {column["name"]: column["kind"] for column in json.loads(schema or "[]")}
    for at, column in enumerate(json.loads(columns.columns or "[]")):
        fitted, found = known.get(column["name"], "number"), column["kind"]
        # What is missing everywhere is of every kind.
        is_empty = columns.dense is not None and bool(np.isnan(columns.dense[:, at]).all())
        if fitted != found and not {fitted, found} <= _NUMBERS and not is_empty:
            raise ValueError(f"column `{column['name']}` holds {_HOLDS[found]}: expected {_HOLDS[fitted]}, as when the model was fitted")


def _categories(column: Any) -> tuple[list[str], bool]:
    if hasattr(column, "cat") and hasattr(column.cat, "categories"):
        return [str(value) for value in column.cat.categories], bool(column.cat.ordered)
    return sorted({str(cell) for cell in _cells(column) if cell is not None}), False


def _cells(column: Any) -> list[Any]:
    """Python objects; None where a value is missing."""
    cells = column.to_list() if hasattr(column, "to_list") else list(column)
    return [None if cell is None or cell != cell or str(cell) == "<NA>" else cell for cell in cells]


def _places(column: Any, values: Sequence[str]) -> NDArray[np.float64]:
    """The number of each value; -1 for one that is not among them."""
    place = {value: float(at) for at, value in enumerate(values)}
    return np.array([np.nan if cell is None else place.get(str(cell), -1.0) for cell in _cells(column)])


# --- graphs -------------------------------------------------------------------------------------------------------------------------


@dataclass
class Links:
    """A graph as compressed rows: row i lists the nodes that node i reads from."""

    starts: NDArray[np.int64]
    indices: NDArray[np.int64]
    weights: Optional[NDArray[np.float32]]
    node_names: Optional[list[str]] = None


def links(graph: Any, nodes: int) -> Optional[Links]:
    """A scipy matrix, a networkx graph, an edge_index (2 x E, as in PyTorch Geometric) or a dense n x n matrix; ``None``: no edges."""
    if graph is None:
        return None
    if is_sparse(graph):
        coo = graph.tocoo()
        if coo.shape != (nodes, nodes):
            raise ValueError(f"the graph is {coo.shape[0]} x {coo.shape[1]}, and X has {nodes} rows: expected {nodes} x {nodes}")
        kept = coo.data != 0
        return _compressed(nodes, coo.row[kept], coo.col[kept], np.asarray(coo.data)[kept])
    if hasattr(graph, "adj") and hasattr(graph, "number_of_nodes"):
        return _networkx(graph, nodes)
    weights = None
    if isinstance(graph, tuple) and len(graph) == 2 and to_numpy(graph[0]).ndim == 2:
        graph, weights = graph
    ends = to_numpy(graph)
    if ends.ndim == 2 and ends.shape[0] == 2 and ends.dtype.kind in "iu":
        data = None if weights is None else to_numpy(weights).reshape(-1)
        return _compressed(nodes, ends[0], ends[1], data)
    if ends.shape == (nodes, nodes):
        rows, cols = np.nonzero(ends)
        return _compressed(nodes, rows, cols, ends[rows, cols])
    raise ValueError(
        f"expected a graph as a scipy matrix, a networkx graph, integers of shape (2, edges) or a {nodes} x {nodes} matrix; found "
        f"{type(graph).__name__} of shape {ends.shape}"
    )


def _networkx(graph: Any, nodes: int) -> Links:
    names = list(graph.nodes)
    if len(names) != nodes:
        raise ValueError(f"the graph has {len(names)} nodes, and X has {nodes} rows: expected one row for each node, in its order")
    place = {name: at for at, name in enumerate(names)}
    ends = [(place[a], place[b], data.get("weight", 1.0)) for a, b, data in graph.edges(data=True)]
    if not graph.is_directed():
        ends += [(b, a, weight) for a, b, weight in ends if a != b]
    array = np.array(ends, dtype=np.float64).reshape(-1, 3)
    found = _compressed(nodes, array[:, 0].astype(np.int64), array[:, 1].astype(np.int64), array[:, 2])
    found.node_names = None if names == list(range(nodes)) else [str(name) for name in names]
    return found


def _compressed(nodes: int, rows: NDArray[Any], cols: NDArray[Any], data: Optional[NDArray[Any]]) -> Links:
    """Sorted, repeats merged: of a weighted graph they add up. Weights that are all 1 are none."""
    rows, cols = np.asarray(rows, dtype=np.int64), np.asarray(cols, dtype=np.int64)
    if rows.size and (min(rows.min(), cols.min()) < 0 or max(rows.max(), cols.max()) >= nodes):
        worst = max(int(rows.max()), int(cols.max())) if max(rows.max(), cols.max()) >= nodes else min(int(rows.min()), int(cols.min()))
        raise ValueError(f"an edge names node {worst}: expected 0 to {nodes - 1}, the rows of X")
    keys, first, inverse = np.unique(rows * nodes + cols, return_index=True, return_inverse=True)
    del first
    weights = None
    if data is not None and not (np.asarray(data) == 1).all():
        # In single precision and in the order given, as the engine adds them.
        weights = np.zeros(keys.size, dtype=np.float32)
        np.add.at(weights, inverse.reshape(-1), np.asarray(data, dtype=np.float32))
    starts = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(keys // max(nodes, 1), minlength=nodes)[:nodes], out=starts[1:])
    return Links(starts, np.ascontiguousarray(keys % max(nodes, 1)), weights)


def of_pyg(X: Any, y: Any, graph: Any, batch: Any, parts: Sequence[Any]) -> tuple[Any, Any, Any, list[Any]]:
    """The parts of a torch_geometric Data (or of anything with ``x`` and ``edge_index``); arrays as they are."""
    if not (hasattr(X, "x") and hasattr(X, "edge_index")):
        return X, y, graph, [*parts, batch]
    own = [getattr(X, name, None) for name in ("train_mask", "val_mask", "test_mask")]
    # Several masks side by side, as of ten splits: the first.
    own = [mask if mask is None or to_numpy(mask).ndim == 1 else to_numpy(mask)[:, 0] for mask in own]
    weight = getattr(X, "edge_weight", None)
    if X.x is None:
        raise ValueError("expected data.x, found none: harmonia reads features of nodes")
    ends = to_numpy(X.edge_index)
    given = [part if part is not None else mask for part, mask in zip(parts, own)]
    found = getattr(X, "y", None) if y is None else y
    batch = getattr(X, "batch", None) if batch is None else batch
    return to_numpy(X.x), found, graph if graph is not None else (ends if weight is None else (ends, weight)), [*given, batch]


# --- units --------------------------------------------------------------------------------------------------------------------------


def units(chosen: Any, count: int, what: str) -> NDArray[np.int64]:
    """Units by a mask or by numbers."""
    array = to_numpy(chosen)
    if array.dtype == bool:
        if array.shape != (count,):
            raise ValueError(f"{what} is a mask of shape {array.shape}: expected ({count},)")
        return np.flatnonzero(array).astype(np.int64)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{what} is {array.dtype} of shape {array.shape}: expected a mask, or the numbers of units")
    if array.min() < 0 or array.max() >= count:
        raise ValueError(f"{what} names unit {int(array.max() if array.max() >= count else array.min())}: expected 0 to {count - 1}")
    return np.ascontiguousarray(array, dtype=np.int64)


def graph_starts(batch: Any, nodes: int) -> list[int]:
    """First node of each graph and the end, of the graph of each node, as PyTorch Geometric's ``batch`` has it."""
    array = to_numpy(batch)
    if array.shape != (nodes,):
        raise ValueError(f"batch has shape {array.shape}: expected the graph of each of the {nodes} nodes")
    if nodes and (array[0] != 0 or (np.diff(array) < 0).any() or (np.diff(array) > 1).any()):
        raise ValueError("batch must rise from 0 without gaps: nodes of a graph stand together")
    return [0, *(np.flatnonzero(np.diff(array)) + 1).tolist(), nodes]


def dataset_of(
    x: Any,
    graph: Any = None,
    batch: Any = None,
    schema: Optional[str] = None,
    **labels: Any,
) -> tuple["_harmonia.Data", Table]:
    """The engine's dataset of X and a graph, and X as it was read, for a model with these columns (none: plain numbers without gaps)."""
    columns = table(x, schema)
    _check_kinds(columns, schema)
    if schema is None and columns.dense is not None and np.isnan(columns.dense.max()):
        row, column = (int(i) for i in np.argwhere(np.isnan(columns.dense))[0])
        raise ValueError(f"column {column} is missing in row {row} (NaN), and no value was missing when the model was fitted: fill it in")
    edges = links(graph, columns.rows)
    data = _harmonia.Data.of_arrays(
        x=columns.dense,
        sparse=columns.sparse,
        names=columns.names,
        columns=columns.columns,
        schema=schema if columns.sparse is None else None,
        graph=None if edges is None else (edges.starts, edges.indices, edges.weights),
        starts=None if batch is None else graph_starts(batch, columns.rows),
        node_names=None if edges is None else edges.node_names,
        **labels,
    )
    return data, columns
