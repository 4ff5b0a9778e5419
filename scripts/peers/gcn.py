#!/usr/bin/env python3
"""Trains a graph convolutional network (PyTorch Geometric) on a store of ours, on the CPU: score and time beside ours.

Node tasks: two GCNConv layers on the store's own split, or each of its splits in turn; the epoch with the best validation
accuracy (two classes: ROC-AUC) is scored. Graph tasks: three GCNConv layers, summed over nodes, then two linear ones; folds
dealt at random by class, one tests and the next validates.

    python3 scripts/peers/gcn.py --store STORE [--runs 5] [--epochs 200] [--threads 2]

Prints one JSON object on stdout. Settings are the usual ones (hidden 16, dropout 0.5, rate 1e-2, decay 5e-4 for bags of words;
hidden 64, rate 1e-3 for the others); nothing was searched.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

import numpy as np
import torch
import torch.nn.functional as functional
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_add_pool

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from open_store import open_store  # noqa: E402

FOLDS = 10


def roc_auc(labels, scores):
    """Area under the ROC curve of two classes; ties count half."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positive = labels == 1
    count = positive.sum()
    return float((rank[positive].sum() - count * (count + 1) / 2) / (count * (len(labels) - count)))


def scores(logits, labels):
    """Accuracy and, of two classes, ROC-AUC."""
    found = {"accuracy": float((logits.argmax(1) == labels).float().mean())}
    if logits.shape[1] == 2:
        found["roc_auc"] = roc_auc(labels.numpy(), (logits[:, 1] - logits[:, 0]).numpy())
    return found


class NodeNetwork(torch.nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.first, self.second = GCNConv(features, hidden), GCNConv(hidden, classes)

    def forward(self, x, edges):
        x = functional.dropout(x, 0.5, self.training)
        x = functional.dropout(self.first(x, edges).relu(), 0.5, self.training)
        return self.second(x, edges)


class GraphNetwork(torch.nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        widths = [features, hidden, hidden, hidden]
        self.layers = torch.nn.ModuleList(GCNConv(*pair) for pair in zip(widths, widths[1:]))
        self.between, self.last = torch.nn.Linear(hidden, hidden), torch.nn.Linear(hidden, classes)

    def forward(self, batch):
        x = batch.x
        for layer in self.layers:
            x = layer(x, batch.edge_index).relu()
        x = self.between(global_add_pool(x, batch.batch)).relu()
        return self.last(functional.dropout(x, 0.5, self.training))


def features_of(arrays, nodes, features):
    if "features" in arrays:
        return torch.tensor(np.asarray(arrays["features"], dtype=np.float32).reshape(nodes, features))
    pointers, columns, values = (np.asarray(arrays[f"features_{part}"]) for part in ("ptr", "idx", "val"))
    dense = np.zeros((nodes, features), dtype=np.float32)
    dense[np.repeat(np.arange(nodes), np.diff(pointers.astype(np.int64))), columns] = values
    return torch.tensor(dense)


def train(steps, score, model, rate, decay, epochs):
    """Test scores of the epoch with the best validation score."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=decay)
    best, kept = -1.0, None
    for _ in range(epochs):
        model.train()
        for loss in steps(model):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            valid, test = score(model)
        merit = valid.get("roc_auc", valid["accuracy"])
        if merit > best:
            best, kept = merit, test
    return kept


def node_runs(meta, arrays, x, edges, labels, options):
    splits = np.asarray(arrays["splits"]) if "splits" in arrays else None
    sparse = "features_ptr" in arrays
    x = functional.normalize(x, p=1, dim=1) if sparse else (x - x.mean(0)) / x.std(0).clamp(min=1e-6)
    hidden, rate, decay = (16, 1e-2, 5e-4) if sparse else (64, 1e-2, 0.0)
    for seed in range(options.runs):
        torch.manual_seed(seed)
        if splits is None:
            parts = [torch.tensor(np.asarray(arrays[part], dtype=np.int64)) for part in ("train", "valid", "test")]
        else:
            # 1 train, 2 validation, 3 test: one row per split.
            parts = [torch.tensor(np.flatnonzero(splits[seed % len(splits)] == part)) for part in (1, 2, 3)]
        learn, valid, test = parts
        model = NodeNetwork(x.shape[1], hidden, meta["classes"])

        def steps(model):
            yield functional.cross_entropy(model(x, edges)[learn], labels[learn])

        def score(model):
            logits = model(x, edges)
            return scores(logits[valid], labels[valid]), scores(logits[test], labels[test])

        yield train(steps, score, model, rate, decay, options.epochs)


def graph_runs(meta, arrays, x, edges, labels, options):
    pointers = np.asarray(arrays["graph_ptr"])
    # Edges are in the order of their first node, so those of a graph are together.
    ends = np.searchsorted(edges[0].numpy(), pointers)
    graphs = [
        Data(x=x[start:stop], edge_index=edges[:, first:last] - start, y=labels[at : at + 1])
        for at, (start, stop, first, last) in enumerate(zip(pointers, pointers[1:], ends, ends[1:]))
    ]
    for run in range(options.runs):
        repeat, fold = divmod(run, FOLDS)
        torch.manual_seed(run)
        generator = np.random.default_rng(repeat)
        dealt = np.empty(len(graphs), dtype=int)
        for label in range(meta["classes"]):
            members = generator.permutation(np.flatnonzero(labels.numpy() == label))
            dealt[members] = np.arange(len(members)) % FOLDS
        validates = (fold + 1) % FOLDS
        learn = [graphs[at] for at in np.flatnonzero((dealt != fold) & (dealt != validates))]
        loaders = [DataLoader([graphs[at] for at in np.flatnonzero(dealt == part)], 256) for part in (validates, fold)]
        loader = DataLoader(learn, 32, shuffle=True)
        model = GraphNetwork(x.shape[1], 64, meta["classes"])

        def steps(model):
            for batch in loader:
                yield functional.cross_entropy(model(batch), batch.y)

        def score(model):
            found = []
            for loader in loaders:
                batches = [(model(batch), batch.y) for batch in loader]
                found.append(scores(*(torch.cat(parts) for parts in zip(*batches))))
            return found

        yield train(steps, score, model, 1e-3, 0.0, options.epochs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", required=True, type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=5, help="seeds; of graph tasks folds, ten of which are a repeat")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    meta, arrays = open_store(options.store)
    counts = meta["counts"]
    x = features_of(arrays, counts["nodes"], counts["features"])
    sources = np.repeat(np.arange(counts["nodes"]), np.diff(np.asarray(arrays["row_ptr"]).astype(np.int64)))
    edges = torch.tensor(np.stack([sources, np.asarray(arrays["col_idx"], dtype=np.int64)]))
    labels = torch.tensor(np.asarray(arrays["labels"], dtype=np.int64))
    runs = graph_runs if meta["level"] == "graph" else node_runs
    start, worked = time.perf_counter(), time.process_time()
    tests = list(runs(meta, arrays, x, edges, labels, options))
    result = {"store": meta["name"], "runs": len(tests), "seconds": round(time.perf_counter() - start, 1)}
    # Processor time of all threads: what is left to compare by where other work is on the cores.
    result["cpu_seconds"] = round(time.process_time() - worked, 1)
    for key in tests[0]:
        values = [100 * test[key] for test in tests]
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        result[key] = [round(statistics.mean(values), 2), round(spread, 2)]
    print(json.dumps(result | {"epochs": options.epochs, "threads": options.threads, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
