#!/usr/bin/env python3
"""Five tables of different kinds, as somebody's own data would be: nodes.csv and edges.csv, from known probabilities.

    python3 scripts/peers/tables.py --out tables            # tables/linear/nodes.csv, tables/linear/edges.csv, ...
    harmonia data convert tables/linear --format table --out stores/linear

Columns are in units of their own (income in thousands, ages in years), some say nothing, and of two classes the positive one is
the rarer. p(node) = sigmoid(own terms + terms of neighbours + noise that no column shows). Needs numpy; a seed gives the same files.

    linear          own columns and means of neighbours, all straight lines
    nonlinear       humps, thresholds and waves of own columns and of neighbours'
    categorical     columns of 0 and 1, one for each value of four categories, and shares of values among neighbours
    heterophilous   neighbours are unlike each other, and what they have speaks against the class; two steps away it speaks for it
    no-graph        edges at random that mean nothing
"""

import argparse
import pathlib

import numpy as np

NODES = 3000
DEGREE = 8
KINDS = ["linear", "nonlinear", "categorical", "heterophilous", "no-graph"]


def edges_between(rng, groups, inside):
    """Undirected pairs: each node draws neighbours of its own group with probability `inside`, else of any other."""
    members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    others = [np.flatnonzero(groups != group) for group in range(groups.max() + 1)]
    pairs = set()
    for node in range(len(groups)):
        for _ in range(rng.integers(1, DEGREE)):
            pool = members[groups[node]] if rng.random() < inside else others[groups[node]]
            other = int(rng.choice(pool))
            if other != node:
                pairs.add((min(node, other), max(node, other)))
    return sorted(pairs)


def mean_of_neighbours(pairs, values):
    """M values: of a node without neighbours its own value, as everywhere in harmonia."""
    sums, counts = np.zeros(values.shape), np.zeros(len(values))
    for a, b in pairs:
        sums[a] += values[b]
        sums[b] += values[a]
        counts[a] += 1
        counts[b] += 1
    shape = (len(values),) + (1,) * (values.ndim - 1)
    alone = (counts == 0).reshape(shape)
    return np.where(alone, values, sums / np.maximum(counts, 1).reshape(shape))


def standard(values):
    return (values - values.mean()) / values.std()


def numbers(rng, nodes, groups=None):
    """Ten columns in units of their own; with groups, the first four differ between them."""
    shift = np.zeros(nodes) if groups is None else groups - groups.mean()
    return {
        "income": np.exp(3.4 + 0.5 * (rng.standard_normal(nodes) + 0.8 * shift)),
        "age": np.clip(44 + 14 * (rng.standard_normal(nodes) + 0.8 * shift), 18, 95).round(),
        "balance": 1200 * (rng.standard_normal(nodes) + 0.8 * shift),
        "orders": rng.poisson(np.exp(1.0 + 0.3 * shift)).astype(float),
        "days_since": rng.exponential(60, nodes).round(),
        "visits": rng.poisson(12, nodes).astype(float),
        "rating": np.clip(rng.normal(3.6, 0.8, nodes), 1, 5).round(1),
        "discount": rng.beta(2, 6, nodes),
        "is_member": (rng.random(nodes) < 0.3).astype(float),
        "latitude": rng.uniform(46, 54, nodes),
    }


def categories(rng, nodes, groups):
    """One column of 0 and 1 for each value of four categories; the first two depend on the group of a node."""
    columns = {}
    for name, size, bound in [("region", 6, True), ("plan", 4, True), ("channel", 5, False), ("device", 8, False)]:
        drawn = rng.integers(0, size, nodes)
        drawn = np.where(bound & (rng.random(nodes) < 0.5), groups % size, drawn)
        columns.update({f"{name}={value}": (drawn == value).astype(float) for value in range(size)})
    return columns


def table(kind, seed, nodes=NODES, share=None):
    """(columns, labels, pairs, the best possible ranking: its probabilities); `share` of the nodes are positive."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    groups = rng.integers(0, 4, nodes)
    if kind == "heterophilous":
        groups = rng.integers(0, 2, nodes)
    inside = {"heterophilous": 0.1, "no-graph": 0.25}.get(kind, 0.7)
    pairs = edges_between(rng, groups, inside)
    columns = categories(rng, nodes, groups) if kind == "categorical" else numbers(rng, nodes, groups)
    own = {name: standard(values) for name, values in columns.items()}
    near = {name: mean_of_neighbours(pairs, values) for name, values in own.items()}
    if kind == "linear":
        logit = 0.9 * own["income"] - 0.7 * own["days_since"] + 0.5 * own["is_member"]
        logit += 1.2 * near["age"] - 1.0 * near["balance"]
    elif kind == "nonlinear":
        logit = 1.6 * np.exp(-(own["age"] ** 2)) + 1.2 * (own["days_since"] > 0.7) - 0.9 * np.abs(own["balance"])
        logit += 1.5 * mean_of_neighbours(pairs, np.sin(2 * own["latitude"])) + np.tanh(2 * own["discount"])
        logit += 1.5 * mean_of_neighbours(pairs, (own["income"] > 0.5).astype(float))
    elif kind == "categorical":
        effects = {"region=0": 0.8, "region=1": -0.9, "plan=2": 1.1, "channel=3": -0.8, "device=1": 0.7, "device=5": -0.7}
        logit = sum(effect * columns[name] for name, effect in effects.items())
        logit = 1.4 * logit + 3.0 * mean_of_neighbours(pairs, columns["plan=2"] - columns["region=3"])
    elif kind == "heterophilous":
        twice = {name: mean_of_neighbours(pairs, near[name]) for name in ["income", "balance"]}
        logit = 0.8 * own["income"] - 1.6 * near["income"] - 1.4 * near["balance"] + 1.2 * twice["balance"]
        logit += 0.6 * np.abs(own["visits"])
    else:
        logit = 1.1 * own["income"] - 0.9 * np.abs(own["age"]) + 1.0 * (own["orders"] > 0) + 0.7 * np.sin(2 * own["latitude"])
    logit = standard(logit) * 1.5 + 0.5 * rng.standard_normal(nodes)
    at = np.quantile(logit, 0.85)
    if share is not None:
        low, high = logit.min() - 20, logit.max() + 20
        for _ in range(60):
            at = (low + high) / 2
            low, high = (at, high) if np.mean(1 / (1 + np.exp(at - logit))) > share else (low, at)
    # Without a share, a fifth is positive.
    chance = 1 / (1 + np.exp(-(logit - at)))
    return columns, (rng.random(nodes) < chance).astype(int), pairs, chance


def write(directory, kind, seed, nodes=NODES, share=None):
    directory = pathlib.Path(directory) / kind
    directory.mkdir(parents=True, exist_ok=True)
    columns, labels, pairs, _ = table(kind, seed, nodes, share)
    # A part of its own seed: half trains, a quarter each validates and tests.
    order = np.random.default_rng([seed, 99]).permutation(nodes)
    split = np.empty(nodes, dtype=object)
    split[order[: nodes // 2]] = "train"
    split[order[nodes // 2 : 3 * nodes // 4]] = "valid"
    split[order[3 * nodes // 4 :]] = "test"
    with open(directory / "nodes.csv", "w", encoding="utf-8") as file:
        file.write(",".join(["id", *columns, "label", "split"]) + "\n")
        for node in range(nodes):
            values = [f"{columns[name][node]:.6g}" for name in columns]
            file.write(",".join([f"C{node}", *values, ["no", "yes"][labels[node]], split[node]]) + "\n")
    with open(directory / "edges.csv", "w", encoding="utf-8") as file:
        file.write("source,target\n" + "".join(f"C{a},C{b}\n" for a, b in pairs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--share", type=float, help="share of the nodes that are positive [default: about a fifth]")
    flags = parser.parse_args()
    for each in KINDS:
        write(flags.out, each, flags.seed, flags.nodes, flags.share)
        print(pathlib.Path(flags.out) / each)
