"""Graph networks with the usual settings: layers by name, one network for nodes, one for graphs, one loop that trains both."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, TransformerConv, global_add_pool

Kept = TypeVar("Kept")

#: A layer from a width to another, of which attention takes a share for each of its heads.
LAYERS: dict[str, Callable[[int, int, int], Any]] = {
    "gcn": lambda inputs, outputs, _: GCNConv(inputs, outputs),
    "gat": lambda inputs, outputs, heads: GATConv(inputs, outputs // heads, heads=heads),
    "sage": lambda inputs, outputs, _: SAGEConv(inputs, outputs),
    "transformer": lambda inputs, outputs, heads: TransformerConv(inputs, outputs // heads, heads=heads),
}
#: Heads of those that have any; the last layer has one.
HEADS = {"gat": 8, "transformer": 4}


class NodeNetwork(torch.nn.Module):
    """Logits of nodes: layers with dropout before each of them."""

    def __init__(self, layer: str, features: int, classes: int, *, hidden: int = 64, depth: int = 2, heads: int = 1, dropout: float = 0.5) -> None:
        super().__init__()
        widths = [features, *[hidden] * (depth - 1), classes]
        of = LAYERS[layer]
        self.layers = torch.nn.ModuleList(of(a, b, heads if at < depth - 1 else 1) for at, (a, b) in enumerate(zip(widths, widths[1:])))
        self.dropout = dropout

    def forward(self, x: Any, edge_index: Any) -> Any:
        """Nodes x classes."""
        for at, layer in enumerate(self.layers):
            x = layer(functional.dropout(x, self.dropout, self.training), edge_index)
            x = x.relu() if at + 1 < len(self.layers) else x
        return x


class GraphNetwork(torch.nn.Module):
    """Logits of graphs: three layers, summed over nodes, and two linear ones."""

    def __init__(self, layer: str, features: int, classes: int, *, hidden: int = 64, heads: int = 1, dropout: float = 0.5) -> None:
        super().__init__()
        widths = [features, hidden, hidden, hidden]
        self.layers = torch.nn.ModuleList(LAYERS[layer](a, b, heads) for a, b in zip(widths, widths[1:]))
        self.between = torch.nn.Linear(hidden, hidden)
        self.last = torch.nn.Linear(hidden, classes)
        self.dropout = dropout

    def forward(self, batch: Any) -> Any:
        """Graphs x classes."""
        x = batch.x
        for layer in self.layers:
            x = layer(x, batch.edge_index).relu()
        x = self.between(global_add_pool(x, batch.batch)).relu()
        return self.last(functional.dropout(x, self.dropout, self.training))


def train(
    model: Any,
    steps: Callable[[], Iterable[Any]],
    merit: Callable[[], float],
    keep: Callable[[], Kept],
    *,
    rate: float,
    decay: float,
    epochs: int,
    patience: Optional[int] = None,
) -> Optional[Kept]:
    """What ``keep`` says in the epoch with the best ``merit``. ``steps``: the losses of an epoch, one after the other."""
    adam = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=decay)
    best, kept, waited = -1.0, None, 0
    for _ in range(epochs):
        model.train()
        for loss in steps():
            adam.zero_grad()
            loss.backward()
            adam.step()
        model.eval()
        waited += 1
        with torch.no_grad():
            found = merit()
            if found > best:
                best, kept, waited = found, keep(), 0
        if waited == patience:
            break
    return kept


def accuracy(logits: Any, labels: Any) -> float:
    """The share that is right."""
    return float((logits.argmax(1) == labels).float().mean())


def merit_of(logits: Any, labels: Any) -> float:
    """What an epoch is chosen by: ROC-AUC of two classes, accuracy of more."""
    if logits.shape[1] != 2:
        return accuracy(logits, labels)
    return roc_auc(labels.numpy(), (logits[:, 1] - logits[:, 0]).numpy())


def roc_auc(labels: NDArray[Any], scores: NDArray[Any]) -> float:
    """Area under the ROC curve of two classes; ties count half."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[place]
    positive = labels == 1
    count = positive.sum()
    return float((rank[positive].sum() - count * (count + 1) / 2) / (count * (len(labels) - count)))
