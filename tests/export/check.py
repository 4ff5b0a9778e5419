"""Holds the exported scorers score.py, score.sql and score.onnx, and the numbers of score.json, against predictions.csv.

    python check.py store DIRECTORY      features and graph of a store
    python check.py table DIRECTORY      nodes.csv and edges.csv as they are

Prints a line for each format: its name and the largest difference, or what is lacking.
"""
import csv
import json
import os
import sqlite3
import sys
from datetime import datetime, timezone

import numpy as np
import scipy.sparse as sp

import score

COLUMNS = score.MODEL["table"]


def place(column, text):
    """One number for a cell, NaN where it is missing, as the ONNX graph reads it."""
    text = text.strip()
    if column["kind"] in ("category", "ordered"):
        return float(column["values"].index(text)) if text in column["values"] else np.nan
    if text == "" or text.lower() in score.MODEL["missing"]:
        return np.nan
    if column["kind"] == "date":
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() / 86400.0
    return {"true": 1.0, "false": 0.0}.get(text) if text in ("true", "false") else float(text)


def of_store(directory):
    load = lambda name: np.load(os.path.join(directory, name + ".npy"))
    pointers, targets = load("row_ptr"), load("col_idx")
    n = len(pointers) - 1
    matrix = sp.csr_array((np.ones(len(targets)), targets, pointers), shape=(n, n))
    if os.path.exists(os.path.join(directory, "features.npy")):
        x = load("features").astype(np.float32)
    else:
        parts = (load("features_val"), load("features_idx"), load("features_ptr"))
        x = sp.csr_array(parts, shape=(n, len(COLUMNS))).toarray().astype(np.float32)
    graph = None
    if score.MODEL["level"] == "graph":
        graph = np.searchsorted(load("graph_ptr")[1:], np.arange(n), side="right")
    nodes = [[at, *map(float, row)] for at, row in enumerate(x)]
    edges = [[int(a), int(b)] for a, b in zip(*matrix.tocoo().coords)]
    return x, x, matrix, graph, nodes, (["source", "target"], edges), list(range(n))


def of_table(directory):
    read = lambda name: csv.DictReader(open(os.path.join(directory, name), newline="", encoding="utf-8"))
    rows, edges = list(read("nodes.csv")), list(read("edges.csv"))
    at = {row["id"]: place for place, row in enumerate(rows)}
    ends = [[at[edge[end]] for edge in edges] for end in ("source", "target")]
    weight = [float(edge["weight"]) for edge in edges] if "weight" in edges[0] else None
    cells = np.array([[place(column, row[column["name"]]) for column in COLUMNS] for row in rows], np.float32)
    nodes = [[row["id"], *(row[column["name"]] for column in COLUMNS)] for row in rows]
    names = list(edges[0])
    listed = (names, [[edge[name] for name in names] for edge in edges])
    return cells, score.features(rows), score.adjacency(len(rows), *ends, weight), None, nodes, listed, list(at)


def by_sql(nodes, edges, graph, keys):
    quoted = lambda names: ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    base = sqlite3.connect(":memory:")
    names = ["id", *(column["name"] for column in COLUMNS)] + (["graph"] if graph is not None else [])
    rows = nodes if graph is None else [[*row, int(of)] for row, of in zip(nodes, graph)]
    for called, columns, content in (("nodes", names, rows), ("edges", *edges)):
        base.execute(f"CREATE TABLE {called} ({quoted(columns)})")
        base.executemany(f"INSERT INTO {called} VALUES ({', '.join('?' * len(columns))})", content)
    base.executescript(open("score.sql").read())
    found = {}
    for key, output, logit in base.execute("SELECT id, output, logit FROM harmonia_prediction"):
        found.setdefault(key, {})[output] = logit
    keys = keys if graph is None else range(int(max(graph)) + 1)
    return score.probabilities(np.array([[found[key][at] for at in sorted(found[key])] for key in keys]))


def operators(model, edges, walk, graph):
    """How much every node counts for every other, term by term."""
    n, hops, spread = len(walk), len(model["hop_weights"]), model.get("spread", "walks")
    power = lambda of, t: np.linalg.matrix_power(of, t)
    if spread == "walks":
        return [power(walk, t) for t in range(hops)]
    if spread == "laplacian":
        # D^1/2 M D^-1/2, in which a lazy walk is lazy too.
        root = np.sqrt(edges.sum(axis=1))
        return [power(np.eye(n) - root[:, None] * walk / root, t) for t in range(hops)]
    if spread == "distances":
        within = [power(np.eye(n) + (edges > 0), t) > 0 for t in range(hops)]
        shells = [within[0]] + [now & ~before for before, now in zip(within, within[1:])]
        return [shell / np.maximum(shell.sum(axis=1, keepdims=True), 1) for shell in shells]
    network = model["pairs"]
    pairs = np.stack([power(walk, t) for t in range(len(network["weights"][0]))], axis=2)
    units = np.maximum(pairs @ np.array(network["weights"]).T + np.array(network["biases"]), 0)
    together = np.ones((n, n)) if graph is None else np.equal.outer(graph, graph)
    return [together * units[:, :, h] for h in range(units.shape[2])] + [together]


def by_json(cells, matrix, graph):
    """The sum as the documentation writes it, from the numbers of score.json alone; M is dense, and hops are powers of it."""
    model = json.load(open("score.json"))
    x = []
    for column, cell in zip(model["table"], cells.T.astype(float)):
        missing = np.isnan(cell)
        if column["kind"] == "category":
            x += [cell == place for place in range(len(column["values"]))]
        else:
            x.append(np.where(missing, column["median"] or 0.0, cell))
        x += [missing] if column["gaps"] else []
    x = np.stack(x, axis=1).astype(np.float32)
    own = x.shape[1]
    if model["structure"]:
        x = score.structure(x, matrix)
    if model["scaling"] == "rows":
        copies = score.copies()
        sums = x[:, : own * copies : copies].sum(axis=1, keepdims=True)
        x[:, : own * copies] /= np.where(sums == 0, 1, sums)
    elif model["scaling"]:
        mean, deviation = (np.array(model["scaling"]["columns"][part]) for part in ("mean", "deviation"))
        x = (x - mean) / deviation
    f = np.empty(x.shape)
    for k, shape in enumerate(model["responses"]):
        if "waves" in model:
            z, c = (np.array(model["waves"][part]) for part in ("frequencies", "phases"))
            terms = [a * np.cos(z * x[:, k] + c) for a, z, c in zip(shape["coefficients"], z, c)]
            f[:, k] = model["waves"]["height"] * sum(terms)
            continue
        at, value = np.array(shape["knots"]).T
        slopes = np.r_[shape["left_slope"], np.diff(value) / np.diff(at), shape["right_slope"]]
        piece = np.searchsorted(at, x[:, k])
        near = np.clip(piece, 0, len(at) - 1)
        f[:, k] = value[near] + slopes[piece] * (x[:, k] - at[near])
    edges = matrix.toarray().astype(float)
    loops = edges.sum(axis=1) == 0
    if model["walk"]["self_loops"]:
        loops |= edges.diagonal() == 0
    edges += np.diag(loops.astype(float))
    walk = edges / edges.sum(axis=1, keepdims=True)
    if model["walk"]["lazy"]:
        walk = (np.eye(len(x)) + walk) / 2
    sums, weights = 0.0, np.array(model["weights"])
    for operator, theta in zip(operators(model, edges, walk, graph), model["hop_weights"]):
        sums = sums + operator @ ((f * np.array(theta)) @ weights)
    if graph is not None:
        sums = np.stack([sums[graph == one].sum(axis=0) for one in range(int(max(graph)) + 1)])
    return score.probabilities(sums + np.array(model["bias"]))


def by_onnx(cells, matrix, graph):
    import onnxruntime

    edges = matrix.tocoo()
    given = {
        "x": cells,
        "edge_index": np.array(edges.coords, np.int64),
        "edge_weight": edges.data.astype(np.float32),
        "batch": None if graph is None else np.asarray(graph, np.int64),
    }
    session = onnxruntime.InferenceSession("score.onnx", providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    wanted = "predictions" if score.MODEL["objective"] == "squared" else "probabilities"
    return dict(zip(names, session.run(None, {one.name: given[one.name] for one in session.get_inputs()})))[wanted]


def main(form, directory):
    cells, x, matrix, graph, nodes, edges, keys = {"store": of_store, "table": of_table}[form](directory)
    head, *rows = csv.reader(open("predictions.csv", newline="", encoding="utf-8"))
    wanted = "prediction" if score.MODEL["objective"] == "squared" else "p("
    expected = np.array([[float(row[at]) for at, name in enumerate(head) if name.startswith(wanted)] for row in rows])
    ways = {
        "python": lambda: score.probabilities(score.score(x, matrix, graph)),
        "sql": lambda: by_sql(nodes, edges, graph, keys),
        "json": lambda: by_json(cells, matrix, graph),
        "onnx": lambda: by_onnx(cells, matrix, graph),
    }
    for name, way in ways.items():
        if not os.path.exists({"python": "score.py"}.get(name, f"score.{name}")):
            continue
        try:
            found = way()
        except ImportError as error:
            print(f"skipped: {name}, {error}")
            continue
        assert found.shape == expected.shape, (name, found.shape, expected.shape)
        print(name, float(abs(found - expected).max()), float(np.ptp(expected)))


main(*sys.argv[1:3])
