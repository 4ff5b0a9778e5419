"""Scores new data with one trained HARMONIA model, which stands below. Needs numpy and scipy, nothing else.

    python THIS_FILE nodes.csv edges.csv > predictions.csv

or, in a program:

    logits = score(features(rows), walk(nodes, source, target, weight))

A prediction is a plain sum: logit = bias + sum over features, source nodes and walk lengths (or other terms) of
weight * hop weight * (M^t)[i, j] * response(x[j]).
"""
import csv
import json
import math
import sys
from datetime import datetime, timezone

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

MODEL = json.loads("@MODEL@")


def cell(column, text):
    """The features of one cell: its number, or 0 and 1 for each value of a category; then whether it is missing."""
    text = "" if text is None else str(text).strip()
    missing = text == "" or text.lower() in MODEL["missing"]
    kind, value = column["kind"], None
    if kind == "category":
        known = text in column["values"]
        x = [1.0 if text == other else 0.0 for other in column["values"]]
        missing = not known
    else:
        if kind == "ordered":
            value = float(column["values"].index(text)) if text in column["values"] else None
        elif missing:
            value = None
        elif kind == "date":
            moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
            moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
            value = moment.timestamp() / 86400.0
        else:
            value = {"true": 1.0, "false": 0.0}.get(text.lower())
            value = float(text) if value is None else value
        missing = value is None
        if missing and column["median"] is None:
            raise ValueError(f"column {column['name']}: a value is missing, and the model has seen none that are")
        x = [column["median"] if missing else value]
    return x + [1.0 if missing else 0.0] if column["gaps"] else x


def features(rows):
    """X of rows that map the names of columns to cells; every column of the model has to be there."""
    absent = [column["name"] for column in MODEL["table"] if rows and column["name"] not in rows[0]]
    if absent:
        raise ValueError(f"columns that the model reads are missing: {absent}")
    return np.array([[x for column in MODEL["table"] for x in cell(column, row[column["name"]])] for row in rows], np.float32)


def adjacency(nodes, source, target, weight=None):
    """A of a list of edges, both ways unless the model knows directions; without weights, repeats are one edge."""
    source, target = np.asarray(source, int), np.asarray(target, int)
    values = np.ones(len(source)) if weight is None else np.asarray(weight, np.float32).astype(float)
    matrix = sp.csr_array((values, (source, target)), shape=(nodes, nodes))
    matrix.sum_duplicates()
    if not MODEL["directed"]:
        both_ways = abs(matrix - matrix.T).nnz == 0
        if weight is None:
            matrix = matrix + matrix.T
        elif not both_ways:
            loops = sp.diags_array(matrix.diagonal())
            matrix = matrix + matrix.T - loops
    matrix = sp.csr_array(matrix)
    if weight is None:
        matrix.data[:] = 1.0
    return matrix


def stepped(matrix):
    """A of the walk: a node without neighbours steps to itself, a lazy one as often as to all others."""
    matrix = sp.csr_array(matrix, dtype=float)
    nodes = matrix.shape[0]
    loops = np.zeros(nodes)
    if MODEL["walk"]["self_loops"]:
        loops[matrix.diagonal() == 0] = 1.0
    alone = np.diff(matrix.indptr) == 0
    loops[alone] = 1.0
    matrix = sp.csr_array(matrix + sp.diags_array(loops))
    return sp.csr_array(matrix + sp.diags_array(matrix.sum(axis=1))) if MODEL["walk"]["lazy"] else matrix


def transition(matrix):
    """M = D^-1 A."""
    matrix = stepped(matrix)
    return sp.csr_array(sp.diags_array(1.0 / matrix.sum(axis=1)) @ matrix)


def laplacian(matrix):
    """I - D^-1/2 A D^-1/2."""
    matrix = stepped(matrix)
    root = sp.diags_array(matrix.sum(axis=1) ** -0.5)
    return sp.csr_array(sp.eye_array(matrix.shape[0]) - root @ matrix @ root)


def structure(x, matrix):
    """Columns that say where a node stands in its graph, behind those of x."""
    wanted = MODEL["structure"]
    if wanted is None:
        return x
    pattern = sp.csr_array((np.ones(len(matrix.indices)), matrix.indices, matrix.indptr), shape=matrix.shape)
    degree = np.diff(pattern.indptr) - (pattern.diagonal() != 0)
    parts = [x]
    for word in wanted["words"]:
        if word == "degree":
            parts.append(degree[:, None])
        elif word == "log-degree":
            parts.append(np.log1p(degree)[:, None])
        elif word == "bias":
            parts.append(np.ones((len(x), 1)))
        elif word in ("returns", "log-returns"):
            walk = transition(matrix)
            two = walk @ walk
            steps = [two.diagonal(), (two * walk.T).sum(axis=1), (two * two.T).sum(axis=1)]
            steps = np.float32(np.stack(steps, axis=1))
            parts.append(np.log(steps.astype(float) + 1e-6) if word == "log-returns" else steps)
        elif word == "triangles":
            both = pattern + pattern.T
            both = sp.csr_array(both - sp.diags_array(both.diagonal()))
            both.eliminate_zeros()
            both.data[:] = 1.0
            parts.append(np.log1p(((both @ both) * both).sum(axis=1) / 2)[:, None])
        elif word == "label-by-degree":
            bucket = np.minimum(degree, 6)
            parts.append(np.stack([x[:, k] * (bucket == b) for k, b in wanted["kept"]], axis=1))
    return np.repeat(np.concatenate(parts, axis=1).astype(np.float32), copies(), axis=1)


def copies():
    """Of every column, where classes have responses of their own."""
    return max(1, len((MODEL["structure"] or {}).get("copies", [])))


def scaled(x, own):
    scaling = MODEL["scaling"]
    if scaling is None:
        return x
    if scaling == "rows":
        sums = x[:, : own : copies()].sum(axis=1, keepdims=True, dtype=np.float32)
        x = x.copy()
        x[:, :own] /= np.where(sums == 0, 1, sums)
        return x
    mean, deviation = (np.array(scaling["columns"][part], np.float32) for part in ("mean", "deviation"))
    return (x - mean) / deviation


def response(shape, x):
    """A function of lines between knots and beyond them, or a sum of cosines."""
    if "coefficients" in shape:
        waves = MODEL["waves"]
        angles = np.outer(x, waves["frequencies"]) + np.array(waves["phases"])
        return waves["height"] * np.cos(angles) @ np.array(shape["coefficients"])
    at, value = np.array(shape["knots"]).T
    y = np.interp(x, at, value)
    left, right = x < at[0], x > at[-1]
    y[left] = value[0] + shape["left_slope"] * (x[left] - at[0])
    y[right] = value[-1] + shape["right_slope"] * (x[right] - at[-1])
    return y


def powers(operator, terms):
    """terms[0] + operator (terms[1] + operator (...))."""
    sums = terms[-1]
    for term in reversed(terms[:-1]):
        sums = operator @ sums + term
    return sums


def by_distance(matrix, terms):
    """Means over the nodes at each distance from a node."""
    sums = np.zeros_like(terms[0])
    for start in range(0, len(sums), 256):
        rows = np.arange(start, min(len(sums), start + 256))
        distances = dijkstra(matrix, indices=rows, unweighted=True, limit=len(terms) - 0.5)
        for distance, term in enumerate(terms):
            near = distances == distance
            sums[rows] += near @ term / np.maximum(near.sum(axis=1, keepdims=True), 1)
    return sums


def by_pairs(matrix, terms, graph):
    """Sums over the nodes of a graph, by a network of the walk probabilities of each pair; the last term is of all pairs."""
    network, walk = MODEL["pairs"], transition(matrix)
    weights, biases = np.array(network["weights"]), np.array(network["biases"])
    graph = np.zeros(len(terms[0]), int) if graph is None else np.asarray(graph, int)
    sums = np.zeros_like(terms[0])
    for start in range(0, len(sums), 64):
        rows = np.arange(start, min(len(sums), start + 64))
        reached = [np.eye(len(sums))[rows]]
        for _ in range(weights.shape[1] - 1):
            reached.append(reached[-1] @ walk)
        together = graph[rows][:, None] == graph[None, :]
        for term, weight, bias in zip(terms, weights, biases):
            unit = sum(w * step for w, step in zip(weight, reached)) + bias
            sums[rows] += (together * np.maximum(unit, 0.0)) @ term
        sums[rows] += together @ terms[-1]
    return sums


def score(x, matrix, graph=None):
    """Logits (of a regression, numbers) of every node, or of every graph, where `graph` is the number of each node's."""
    own = x.shape[1] * copies()
    x = scaled(structure(np.asarray(x, np.float32), matrix), own).astype(float)
    weights = np.array(MODEL["weights"])
    f = np.stack([response(shape, x[:, k]) for k, shape in enumerate(MODEL["responses"])], axis=1)
    terms = [(f * theta) @ weights for theta in np.array(MODEL["hop_weights"])]
    spread = MODEL.get("spread", "walks")
    if spread == "distances":
        sums = by_distance(matrix, terms)
    elif spread == "pairs":
        sums = by_pairs(matrix, terms, graph)
    else:
        sums = powers(laplacian(matrix) if spread == "laplacian" else transition(matrix), terms)
    if MODEL["level"] == "graph":
        total = np.zeros((int(np.max(graph)) + 1, sums.shape[1]))
        np.add.at(total, np.asarray(graph, int), sums)
        sums = total
    return sums + np.array(MODEL["bias"])


def probabilities(logits):
    """Of every class; of a regression the numbers themselves."""
    if MODEL["objective"] == "squared":
        return logits
    if len(MODEL["classes"]) == 2 and logits.shape[1] == 1:
        p = 1.0 / (1.0 + np.exp(-logits))
        return np.concatenate([1.0 - p, p], axis=1)
    if MODEL["objective"] == "sigmoid":
        return 1.0 / (1.0 + np.exp(-logits))
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def main(nodes_file, edges_file):
    rows = list(csv.DictReader(open(nodes_file, newline="", encoding="utf-8")))
    names = {row.get("id", str(at)): at for at, row in enumerate(rows)}
    edges = list(csv.DictReader(open(edges_file, newline="", encoding="utf-8")))
    ends = [[names[edge[end]] for edge in edges] for end in ("source", "target")]
    weight = [float(edge["weight"]) for edge in edges] if edges and "weight" in edges[0] else None
    graph = None
    if MODEL["level"] == "graph":
        known = {}
        graph = [known.setdefault(row["graph"], len(known)) for row in rows]
    result = probabilities(score(features(rows), adjacency(len(rows), *ends, weight), graph))
    out = csv.writer(sys.stdout, lineterminator="\n")
    squared = MODEL["objective"] == "squared"
    out.writerow(["id"] + [name if squared else f"p({name})" for name in MODEL["classes"]])
    keys = list(names) if graph is None else list(known)
    out.writerows([key] + [f"{value:.9g}" for value in row] for key, row in zip(keys, result))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(f"usage: python {sys.argv[0]} nodes.csv edges.csv > predictions.csv", file=sys.stderr)
        sys.exit(2)
    main(*sys.argv[1:3])
