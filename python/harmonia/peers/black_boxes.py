"""GCN, GAT, GraphSAGE or a graph transformer on the splits of a store of ours: test accuracies.

`harmonia study node-accuracy --peers PYTHON` and `graph-accuracy` run it, one process for a dataset, a model and a seed; they write the
store with the very splits that additive models are trained on.

    python -m harmonia.peers.black_boxes --store STORE --task TASK.json --out ANSWER.json

The task: {"model": "GCN" | "GAT" | "GraphSAGE" | "Graph Transformer", "seed": 0, "epochs": 200, "patience": 50}. The paper prints no
settings of these; here they have the usual ones and nothing was searched. Nodes: two layers, hidden width 16 for bags of words and 64
for others (GAT: 8 heads of 8; transformer: 4 heads of 16), dropout 0.5, Adam with rate 1e-2 (5e-3 where there is attention) and
decay 5e-4 for bags of words. Graphs: three layers of 64, summed over nodes, two linear ones, dropout 0.5, rate 1e-3, batches of 32.
The epoch with the best validation score (ROC-AUC of two classes, accuracy of more) is tested.
"""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np
import torch
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from ._asked import Store, answer
from .networks import HEADS, GraphNetwork, NodeNetwork, accuracy, merit_of, train

#: The paper's names.
LAYER = {"GCN": "gcn", "GAT": "gat", "GraphSAGE": "sage", "Graph Transformer": "transformer"}
BATCH = 32


def splits_of(store: Store) -> list[list[Any]]:
    """Train, validation and test units of every split of the store."""
    arrays = store.arrays
    if "splits" not in arrays:
        return [[torch.tensor(np.asarray(arrays[part], dtype=np.int64)) for part in ("train", "valid", "test")]]
    return [[torch.tensor(np.flatnonzero(row == part)) for part in (1, 2, 3)] for row in np.asarray(arrays["splits"])]


def node_runs(store: Store, task: Any, x: Any, edges: Any, labels: Any) -> Iterator[Any]:
    """The test accuracy of every split."""
    sparse = "features_ptr" in store.arrays
    x = functional.normalize(x, p=1, dim=1) if sparse else (x - x.mean(0)) / x.std(0).clamp(min=1e-6)
    layer = LAYER[task["model"]]
    heads = HEADS.get(layer, 1)
    hidden = 16 if sparse and heads == 1 else 64
    rate, decay = (5e-3 if heads > 1 else 1e-2), (5e-4 if sparse else 0.0)
    for learn, valid, test in splits_of(store):
        torch.manual_seed(task["seed"])
        model = NodeNetwork(layer, x.shape[1], store.meta["classes"], hidden=hidden, heads=heads)

        def steps(model: Any = model, learn: Any = learn) -> Iterator[Any]:
            yield functional.cross_entropy(model(x, edges)[learn], labels[learn])

        def merit(model: Any = model, valid: Any = valid) -> float:
            return merit_of(model(x, edges)[valid], labels[valid])

        def tested(model: Any = model, test: Any = test) -> float:
            return accuracy(model(x, edges)[test], labels[test])

        yield train(model, steps, merit, tested, rate=rate, decay=decay, epochs=task["epochs"], patience=task["patience"])


def graph_runs(store: Store, task: Any, x: Any, edges: Any, labels: Any) -> Iterator[Any]:
    """The test accuracy of every fold."""
    pointers = np.asarray(store.arrays["graph_ptr"])
    # Edges are in the order of the node that reads, so those of a graph are together.
    ends = np.searchsorted(edges[1].numpy(), pointers)
    graphs = [
        Data(x=x[start:stop], edge_index=edges[:, first:last] - int(start), y=labels[at : at + 1])
        for at, (start, stop, first, last) in enumerate(zip(pointers, pointers[1:], ends, ends[1:]))
    ]
    layer = LAYER[task["model"]]
    for fold, parts in enumerate(splits_of(store)):
        torch.manual_seed(task["seed"] * 1000 + fold)
        learn, valid, test = ([graphs[at] for at in part] for part in parts)
        loader = DataLoader(learn, BATCH, shuffle=True)
        model = GraphNetwork(layer, x.shape[1], store.meta["classes"], heads=HEADS.get(layer, 1))

        def steps(model: Any = model, loader: Any = loader) -> Iterator[Any]:
            for batch in loader:
                yield functional.cross_entropy(model(batch), batch.y)

        def of(part: Any, model: Any = model) -> tuple[Any, Any]:
            batches = [(model(batch), batch.y) for batch in DataLoader(part, 256)]
            logits, truth = (torch.cat(found) for found in zip(*batches))
            return logits, truth

        def merit(of: Any = of, valid: Any = valid) -> float:
            return merit_of(*of(valid))

        def tested(of: Any = of, test: Any = test) -> float:
            return accuracy(*of(test))

        yield train(model, steps, merit, tested, rate=1e-3, decay=0.0, epochs=task["epochs"], patience=task["patience"])


def accuracies(store: Store, task: Any) -> dict[str, Any]:
    """Percent, of every split."""
    labels = torch.tensor(np.asarray(store.arrays["labels"], dtype=np.int64))
    runs = graph_runs if store.meta["level"] == "graph" else node_runs
    return {"accuracies": [100 * found for found in runs(store, task, store.features(), store.edges(store.nodes), labels)]}


if __name__ == "__main__":
    answer(__doc__.splitlines()[0], accuracies)
