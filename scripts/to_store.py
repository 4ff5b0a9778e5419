#!/usr/bin/env python3
"""Writes PyTorch Geometric and DGL graphs as a store that harmonia trains on.

    from to_store import from_pyg, from_dgl
    from_pyg(Planetoid("data", "Cora")[0], "stores/cora", "cora")            # one Data: a node task
    from_pyg(TUDataset("data", "MUTAG"), "stores/mutag", "mutag")            # many Data, one y per graph: a graph task
    from_dgl(graph, "stores/own", "own")                                     # ndata feat, label, train_mask, ...
    from_dgl(list_of_graph_and_label, "stores/set", "set")

Neither library is imported: whatever has these attributes will do. The walk follows an edge from source to target, as
with every other way to make a store: row `source` lists `target`, so a node reads from those it points to (message
passing in both libraries goes the other way; swap the edges first if you want that). Duplicate edges become one; their
weights add up. The store is written beside its place and renamed, so a crash leaves nothing half-written.
"""

import json
import os
import pathlib
import shutil
import tempfile
import warnings

import numpy as np

FORMAT, VERSION = "harmonia-store", 2
PARTS = ("train", "valid", "test")


def from_pyg(data, directory, name):
    """Writes a `Data`, or a list or dataset of them, to `directory`."""
    # A dataset passes `edge_index` on from the graphs it keeps as one: it is told by its `indices`.
    several = hasattr(type(data), "indices") or not hasattr(data, "edge_index")
    graphs = [_pyg_graph(item) for item in (data if several else [data])]
    _write(graphs, several, directory, name)


def from_dgl(graph, directory, name):
    """Writes a DGL graph, or a list of graphs or of (graph, label) pairs, to `directory`."""
    several = not hasattr(graph, "ndata")
    graphs = [_dgl_graph(*item) if isinstance(item, tuple) else _dgl_graph(item) for item in (graph if several else [graph])]
    _write(graphs, several, directory, name)


def _pyg_graph(data):
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None:
        raise ValueError("expected data.edge_index, found none; give the data before ToSparseTensor")
    source, target = _array(edge_index)
    edge_weight = getattr(data, "edge_weight", None)
    edge_attr = getattr(data, "edge_attr", None)
    weight = None
    if edge_weight is not None:
        weight = _array(edge_weight)
    elif edge_attr is not None:
        edge_attr = _array(edge_attr)
        if edge_attr.size == len(source) and np.issubdtype(edge_attr.dtype, np.floating):
            weight = edge_attr
        else:
            warnings.warn("edge_attr is no column of float weights: it is left out", stacklevel=3)
    masks = [getattr(data, mask, None) for mask in ("train_mask", "val_mask", "test_mask")]
    return _graph(data.x, source, target, weight, getattr(data, "y", None), masks, getattr(data, "num_nodes", None))


def _dgl_graph(graph, label=None):
    def first(frame, *names):
        return next((frame[key] for key in names if key in frame), None)

    source, target = graph.edges()
    x = first(graph.ndata, "feat", "feature", "features", "x", "attr")
    y = first(graph.ndata, "label", "labels", "y") if label is None else label
    masks = [graph.ndata[mask] if mask in graph.ndata else None for mask in ("train_mask", "val_mask", "test_mask")]
    weight = first(graph.edata, "weight", "edge_weight", "w")
    return _graph(x, _array(source), _array(target), weight, y, masks, graph.num_nodes())


def _array(value):
    """numpy of a tensor on any device, a sparse one made dense, or of anything numpy takes."""
    if getattr(value, "is_sparse", False) or getattr(value, "is_sparse_csr", False):
        value = value.to_dense()
    for step in ("detach", "cpu", "numpy"):
        if hasattr(value, step):
            value = getattr(value, step)()
    return np.asarray(value)


def _graph(x, source, target, weight, y, masks, nodes):
    """One graph, checked on its own."""
    if x is None:
        raise ValueError("expected node features (x), found none; a constant column or the degrees will do")
    x = _array(x)
    x = (x.reshape(len(x), -1) if x.ndim != 2 else x).astype(np.float32)
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        raise ValueError(f"feature {column} of node {row} is {x[row, column]}: fill or drop missing values first")
    if nodes is not None and int(nodes) != len(x):
        raise ValueError(f"{nodes} nodes but {len(x)} rows of features")
    for ends in (source, target):
        if len(ends) and (ends.min() < 0 or ends.max() >= len(x)):
            raise ValueError(f"edges name nodes {ends.min()} to {ends.max()}: expected 0 to {len(x) - 1}")
    if weight is not None:
        weight = _array(weight).reshape(-1).astype(np.float32)
        tiny = np.finfo(np.float32).tiny
        if len(weight) != len(source) or not (np.isfinite(weight) & (weight >= tiny)).all():
            raise ValueError("expected one finite weight > 0 for every edge")
    if y is None:
        raise ValueError("expected labels (y), found none")
    masks = [None if mask is None else _array(mask).astype(bool) for mask in masks]
    return {"x": x, "source": source, "target": target, "weight": weight, "y": _array(y), "masks": masks}


def _labels(graphs, level):
    """Labels of all units as one array, the number of classes, and whether they are multi-label."""
    parts = []
    for graph in graphs:
        y = graph["y"]
        units = len(graph["x"]) if level == "node" else 1
        if y.size % units or y.ndim > 2:
            raise ValueError(f"labels of shape {y.shape} for {units} {level}s")
        parts.append(y.reshape(units, -1))
    widths = {part.shape[1] for part in parts}
    if len(widths) != 1:
        raise ValueError(f"graphs have different numbers of labels: {sorted(widths)}")
    y = np.concatenate(parts)
    if np.issubdtype(y.dtype, np.floating):
        if (y[np.isfinite(y)] % 1 != 0).any() or np.isinf(y).any():
            raise ValueError("labels are not whole numbers: harmonia classifies, it does not fit numbers")
        if y.shape[1] == 1:
            y = np.where(np.isnan(y), -1, y)
    if y.shape[1] > 1:
        if not np.isin(y, (0, 1)).all():
            raise ValueError("several labels a unit must be 0 or 1, with none missing")
        return y.astype(np.uint8), y.shape[1], True
    y = y[:, 0].astype(np.int64)
    if y.min(initial=0) < -1:
        raise ValueError(f"labels go down to {y.min()}: expected classes from 0, or -1 for none")
    if (y == -1).any() and not (y == 0).any():
        raise ValueError("labels of -1 mean 'no label', and there is no class 0: give classes from 0")
    return y.astype(np.int32), max(int(y.max(initial=0)) + 1, 2), False


def _splits(graphs, level, units):
    """Files of the split; none where there are no masks."""
    if level == "graph" or all(mask is None for graph in graphs for mask in graph["masks"]):
        return {}
    masks = []
    for part in range(3):
        of_graphs = [graph["masks"][part] for graph in graphs]
        if all(mask is None for mask in of_graphs):
            masks.append(np.zeros((units, 1), bool))
            continue
        if any(mask is None or len(mask) != len(graph["x"]) for mask, graph in zip(of_graphs, graphs)):
            raise ValueError(f"expected a {PARTS[part]} mask over the nodes of every graph")
        masks.append(np.concatenate([mask.reshape(len(mask), -1) for mask in of_graphs]))
    count = max(mask.shape[1] for mask in masks)
    if any(mask.shape[1] not in (1, count) for mask in masks):
        raise ValueError(f"masks have {[mask.shape[1] for mask in masks]} columns: expected as many splits in each")
    masks = [np.broadcast_to(mask, (units, count)) for mask in masks]
    if (sum(mask.astype(np.uint8) for mask in masks) > 1).any():
        raise ValueError("a node is in two parts of a split: expected masks that do not overlap")
    if count == 1:
        return {part: np.flatnonzero(mask[:, 0]).astype(np.uint32) for part, mask in zip(PARTS, masks)}
    codes = sum((code + 1) * mask.astype(np.uint8) for code, mask in enumerate(masks))
    return {"splits": np.ascontiguousarray(codes.T.astype(np.uint8))}


def _rows(nodes, rows, columns, weights):
    """Compressed rows: sorted, and duplicates merged."""
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    first = np.ones(len(rows), bool)
    first[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    if weights is not None:
        sums = np.add.reduceat(weights[order].astype(np.float64), np.flatnonzero(first)) if len(rows) else weights
        weights = sums.astype(np.float32)
    row_ptr = np.zeros(nodes + 1, np.uint64)
    row_ptr[1:] = np.cumsum(np.bincount(rows[first], minlength=nodes))
    return row_ptr, columns[first].astype(np.uint32), weights


def _write(graphs, several, directory, name):
    if not graphs:
        raise ValueError("expected at least one graph, found none")
    sizes = np.array([len(graph["x"]) for graph in graphs])
    if (sizes == 0).any():
        raise ValueError(f"graph {int(np.argmin(sizes))} has no nodes: drop it")
    if len({graph["x"].shape[1] for graph in graphs}) != 1:
        raise ValueError("graphs have different numbers of features")
    if len({graph["weight"] is None for graph in graphs}) != 1:
        raise ValueError("some graphs have edge weights and some have none")
    # One label per node only where every graph has exactly that many.
    by_node = all(graph["y"].ndim > 0 and len(graph["y"]) == len(graph["x"]) for graph in graphs)
    level = "node" if not several or (by_node and (sizes > 1).any()) else "graph"
    labels, classes, multi_label = _labels(graphs, level)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    nodes = int(starts[-1])

    def joined(key):
        return np.concatenate([graph[key].astype(np.int64) + start for graph, start in zip(graphs, starts)])

    weights = None if graphs[0]["weight"] is None else np.concatenate([graph["weight"] for graph in graphs])
    row_ptr, col_idx, weights = _rows(nodes, joined("source"), joined("target"), weights)
    x = np.concatenate([graph["x"] for graph in graphs])
    arrays = {"row_ptr": row_ptr, "col_idx": col_idx, "features": np.ascontiguousarray(x), "labels": labels}
    if weights is not None:
        arrays["edge_weights"] = weights
    if several:
        arrays["graph_ptr"] = starts.astype(np.uint64)
    arrays.update(_splits(graphs, level, len(labels)))
    counts = {"nodes": nodes, "directed_edges": len(col_idx), "features": x.shape[1], "graphs": len(graphs)}
    meta = {"format": FORMAT, "version": VERSION, "name": name, "level": level, "classes": classes}
    meta.update({"multi_label": multi_label, "counts": counts})
    _save(arrays, meta, pathlib.Path(directory))


def _save(arrays, meta, directory):
    if directory.exists():
        raise FileExistsError(f"{directory} already exists: remove it or choose another place")
    directory.parent.mkdir(parents=True, exist_ok=True)
    temporary = tempfile.mkdtemp(prefix=".writing-", dir=directory.parent)
    try:
        os.chmod(temporary, 0o755)
        for name, array in arrays.items():
            np.save(os.path.join(temporary, f"{name}.npy"), array)
        with open(os.path.join(temporary, "meta.json"), "w", encoding="utf-8") as file:
            json.dump(meta, file, indent=2)
        os.rename(temporary, directory)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


if __name__ == "__main__":
    print(__doc__)
