#!/usr/bin/env python3
"""Trains GCN, GAT, GraphSAGE or a graph transformer (PyTorch Geometric) on the splits of a store of ours; test accuracies.

`harmonia study node-accuracy --peers PYTHON` and `graph-accuracy` run it, one process for a dataset, a model and a seed; they write the
store with the very splits that additive models are trained on.

    python3 scripts/peers/black_boxes.py --store STORE --task TASK.json --out ANSWER.json

The task: {"model": "GCN" | "GAT" | "GraphSAGE" | "Graph Transformer", "seed": 0, "epochs": 200, "patience": 50}. The paper prints no
settings of these; here they have the usual ones and nothing was searched. Nodes: two layers, hidden width 16 for bags of words and 64
for others (GAT: 8 heads of 8; transformer: 4 heads of 16), dropout 0.5, Adam with rate 1e-2 (5e-3 where there is attention) and
decay 5e-4 for bags of words. Graphs: three layers of 64, summed over nodes, two linear ones, dropout 0.5, rate 1e-3, batches of 32.
The epoch with the best validation score (ROC-AUC of two classes, accuracy of more) is tested.
"""

import argparse
import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as functional
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, TransformerConv, global_add_pool

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from gcn import features_of, scores  # noqa: E402
from open_store import open_store  # noqa: E402

# Layer from a width to another, of which attention takes a share for each of its heads.
LAYERS = {
    "GCN": lambda inputs, outputs, _: GCNConv(inputs, outputs),
    "GraphSAGE": lambda inputs, outputs, _: SAGEConv(inputs, outputs),
    "GAT": lambda inputs, outputs, heads: GATConv(inputs, outputs // heads, heads=heads),
    "Graph Transformer": lambda inputs, outputs, heads: TransformerConv(inputs, outputs // heads, heads=heads),
}
HEADS = {"GAT": 8, "Graph Transformer": 4}
GRAPH_WIDTH = 64
BATCH = 32
DROPOUT = 0.5


class NodeNetwork(torch.nn.Module):
    def __init__(self, model, features, hidden, classes):
        super().__init__()
        self.first = LAYERS[model](features, hidden, HEADS.get(model, 1))
        self.second = LAYERS[model](hidden, classes, 1)

    def forward(self, x, edges):
        x = functional.dropout(x, DROPOUT, self.training)
        x = functional.dropout(self.first(x, edges).relu(), DROPOUT, self.training)
        return self.second(x, edges)


class GraphNetwork(torch.nn.Module):
    def __init__(self, model, features, classes):
        super().__init__()
        widths = [features, GRAPH_WIDTH, GRAPH_WIDTH, GRAPH_WIDTH]
        layer = LAYERS[model]
        self.layers = torch.nn.ModuleList(layer(*pair, HEADS.get(model, 1)) for pair in zip(widths, widths[1:]))
        self.between = torch.nn.Linear(GRAPH_WIDTH, GRAPH_WIDTH)
        self.last = torch.nn.Linear(GRAPH_WIDTH, classes)

    def forward(self, batch):
        x = batch.x
        for layer in self.layers:
            x = layer(x, batch.edge_index).relu()
        x = self.between(global_add_pool(x, batch.batch)).relu()
        return self.last(functional.dropout(x, DROPOUT, self.training))


def splits_of(arrays):
    """(train, validation, test) units of every split of the store."""
    if "splits" not in arrays:
        return [[torch.tensor(np.asarray(arrays[part], dtype=np.int64)) for part in ("train", "valid", "test")]]
    return [[torch.tensor(np.flatnonzero(row == part)) for part in (1, 2, 3)] for row in np.asarray(arrays["splits"])]


def train(steps, score, model, rate, decay, task):
    """Test scores of the epoch with the best validation score."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=decay)
    best, kept, waited = -1.0, None, 0
    for _ in range(task["epochs"]):
        model.train()
        for loss in steps():
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            valid, test = score()
        merit = valid.get("roc_auc", valid["accuracy"])
        waited += 1
        if merit > best:
            best, kept, waited = merit, test, 0
        if waited >= task["patience"]:
            break
    return kept


def node_runs(task, meta, arrays, x, edges, labels):
    sparse = "features_ptr" in arrays
    x = functional.normalize(x, p=1, dim=1) if sparse else (x - x.mean(0)) / x.std(0).clamp(min=1e-6)
    name = task["model"]
    heads = HEADS.get(name, 1)
    hidden = 16 if sparse and heads == 1 else 64
    rate, decay = (5e-3 if heads > 1 else 1e-2), (5e-4 if sparse else 0.0)
    for learn, valid, test in splits_of(arrays):
        torch.manual_seed(task["seed"])
        model = NodeNetwork(name, x.shape[1], hidden, meta["classes"])

        def steps(model=model, learn=learn):
            yield functional.cross_entropy(model(x, edges)[learn], labels[learn])

        def score(model=model, valid=valid, test=test):
            logits = model(x, edges)
            return scores(logits[valid], labels[valid]), scores(logits[test], labels[test])

        yield train(steps, score, model, rate, decay, task)


def graph_runs(task, meta, arrays, x, edges, labels):
    pointers = np.asarray(arrays["graph_ptr"])
    # Edges are in the order of the node that reads, so those of a graph are together.
    ends = np.searchsorted(edges[1].numpy(), pointers)
    graphs = [
        Data(x=x[start:stop], edge_index=edges[:, first:last] - int(start), y=labels[at : at + 1])
        for at, (start, stop, first, last) in enumerate(zip(pointers, pointers[1:], ends, ends[1:]))
    ]
    for fold, (learn, *others) in enumerate(splits_of(arrays)):
        torch.manual_seed(task["seed"] * 1000 + fold)
        loader = DataLoader([graphs[at] for at in learn], BATCH, shuffle=True)
        loaders = [DataLoader([graphs[at] for at in part], 256) for part in others]
        model = GraphNetwork(task["model"], x.shape[1], meta["classes"])

        def steps(model=model, loader=loader):
            for batch in loader:
                yield functional.cross_entropy(model(batch), batch.y)

        def score(model=model, loaders=loaders):
            found = []
            for part in loaders:
                batches = [(model(batch), batch.y) for batch in part]
                found.append(scores(*(torch.cat(parts) for parts in zip(*batches))))
            return found

        yield train(steps, score, model, 1e-3, 0.0, task)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", required=True, type=pathlib.Path)
    parser.add_argument("--task", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    task = json.loads(options.task.read_text(encoding="utf-8"))
    meta, arrays = open_store(options.store)
    counts = meta["counts"]
    x = features_of(arrays, counts["nodes"], counts["features"])
    readers = np.repeat(np.arange(counts["nodes"]), np.diff(np.asarray(arrays["row_ptr"]).astype(np.int64)))
    # Rows read from columns.
    edges = torch.tensor(np.stack([np.asarray(arrays["col_idx"], dtype=np.int64), readers]))
    labels = torch.tensor(np.asarray(arrays["labels"], dtype=np.int64))
    runs = graph_runs if meta["level"] == "graph" else node_runs
    tests = list(runs(task, meta, arrays, x, edges, labels))
    answer = {"accuracies": [100 * test["accuracy"] for test in tests], "torch": torch.__version__}
    options.out.write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
