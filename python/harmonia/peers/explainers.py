"""The graph convolutional network of the synthetic study, and what explainers of PyTorch Geometric say about it.

`harmonia study recovery --peers PYTHON` runs it, one process for a dataset and a model seed: it writes the store and the
questions (targets, candidate edges, probes), and measures what is answered by the code that measures additive models.

    python -m harmonia.peers.explainers --store STORE --task TASK.json --out ANSWER.json

The network and its training are the paper's: three layers of 32 channels and a linear path from the target's own features; AdamW,
rate 5e-4 on a cosine to 1e-6, batches of 16 instances, gradients clipped at 1, at most 400 epochs, 100 without a better validation
loss, the best epoch kept. Explainers see one instance's graph and one target's logit.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from torch_geometric.explain import Explainer, GNNExplainer, PGExplainer
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from ._asked import Store, answer
from .goat import goat

WIDTH = 32
BATCH = 16
RATE, LAST_RATE = 5e-4, 1e-6
PATIENCE = 100
# As the paper says of GNNExplainer on source nodes, and for the others too.
STEPS, STEP = 100, 0.01
# PGExplainer learns one network for all targets: rounds over them.
ROUNDS = 30
# Of counterfactuals, as the paper says.
CHANGES, CHANGE, LARGEST = 500, 0.1, 1.0


class Network(torch.nn.Module):
    """Three convolutions and a direct path; one logit a node."""

    def __init__(self, features: int) -> None:
        super().__init__()
        widths = [features, WIDTH, WIDTH, WIDTH]
        self.layers = torch.nn.ModuleList(GCNConv(*pair) for pair in zip(widths, widths[1:]))
        self.readout, self.direct = torch.nn.Linear(WIDTH, 1), torch.nn.Linear(features, 1, bias=False)

    def embed(self, x: Any, edges: Any) -> Any:
        for layer in self.layers:
            x = layer(x, edges).relu()
        return x

    def forward(self, x: Any, edges: Any) -> Any:
        return self.readout(self.embed(x, edges)) + self.direct(x)


def normalised(edges: Any, nodes: int) -> Any:
    """What convolutions multiply by: a row for every node that reads."""
    index, weight = gcn_norm(edges, None, nodes)
    # Messages go from the first row of the index to the second.
    return torch.zeros(nodes, nodes).index_put((index[1], index[0]), weight, accumulate=True)


def dense(x: Any, edges: Any, model: Any) -> Any:
    """The same for many instances of one graph at once: products with the small normalised matrix."""
    matrix = normalised(edges, x.shape[1])
    state = x
    for layer in model.layers:
        state = (matrix @ layer.lin(state) + layer.bias).relu()
    return (model.readout(state) + model.direct(x)).squeeze(-1)


def train(model: Any, x: Any, labels: Any, edges: Any, parts: list[Any], epochs: int, generator: Any) -> Any:
    """Keeps the parameters of the best validation loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs, LAST_RATE)
    best, kept, waited = float("inf"), None, 0
    for _ in range(epochs):
        for batch in parts[0][torch.randperm(len(parts[0]), generator=generator)].split(BATCH):
            optimizer.zero_grad()
            loss = functional.binary_cross_entropy_with_logits(dense(x[batch], edges, model), labels[batch])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        schedule.step()
        with torch.no_grad():
            logits = dense(x[parts[1]], edges, model)
            valid = functional.binary_cross_entropy_with_logits(logits, labels[parts[1]]).item()
        waited += 1
        if valid < best:
            best, kept, waited = valid, copy.deepcopy(model.state_dict()), 0
        if waited >= PATIENCE:
            break
    model.load_state_dict(kept)
    return model.eval()


class OneLogit(torch.nn.Module):
    """What explainers see: logits of the nodes of one instance, n x 1."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Any, edges: Any, **_: Any) -> Any:
        return self.model(x, edges)


def explainer(model: Any, algorithm: Any, kind: str = "model", **masks: Any) -> Any:
    config = {"mode": "binary_classification", "task_level": "node", "return_type": "raw"}
    return Explainer(OneLogit(model), algorithm, explanation_type=kind, model_config=config, **masks)


def undirected(mask: Any, edges: Any, candidates: Any) -> list[float]:
    """Scores of the candidates: the mean over both directions."""
    place = {(int(i), int(j)): at for at, (i, j) in enumerate(edges.t().tolist())}
    return [0.5 * float(mask[place[i, j]] + mask[place[j, i]]) for i, j in candidates]


def without(edges: Any, i: int, j: int) -> Any:
    gone = ((edges[0] == i) & (edges[1] == j)) | ((edges[0] == j) & (edges[1] == i))
    return edges[:, ~gone]


@torch.no_grad()
def itself(model: Any, x: Any, edges: Any, ask: Any) -> dict[str, Any]:
    """What the network's own logit does: nodes replaced by the mean, edges taken out."""
    nodes, mean = ask["nodes"], torch.tensor(ask["mean"], dtype=torch.float32)
    of_nodes: list[Any] = []
    of_edges: list[Any] = [[] for _ in ask["targets"]]
    diagonal = torch.arange(nodes)
    for instance in range(*ask["instances"]):
        own = x[instance]
        before = dense(own[None], edges, model)[0]
        replaced = own.repeat(nodes, 1, 1)
        replaced[diagonal, diagonal] = mean
        after = dense(replaced, edges, model)
        of_nodes.append([(before[target] - after[:, target]).tolist() for target in ask["targets"]])
    whole = x[slice(*ask["instances"])]
    before = dense(whole, edges, model)
    for at, (target, candidates) in enumerate(zip(ask["targets"], ask["edges"])):
        after = torch.stack([dense(whole, without(edges, i, j), model)[:, target] for i, j in candidates], 1)
        of_edges[at] = (before[:, target, None] - after).abs().tolist()
    return {"nodes": of_nodes, "edges": of_edges, "signed": True}


@torch.no_grad()
def probes(model: Any, x: Any, edges: Any, ask: Any) -> list[Any]:
    """Changes of all logits of the first instance when one feature of one node moves from 0."""
    base = x[ask["instances"][0]]
    changes = []
    for column, node, number in ask["probes"]:
        both = base.repeat(2, 1, 1)
        both[0, node, column], both[1, node, column] = 0.0, number
        logits = dense(both, edges, model)
        changes.append((logits[1] - logits[0]).tolist())
    return changes


def gnn_explainer(model: Any, x: Any, edges: Any, ask: Any) -> dict[str, Any]:
    """A mask per feature, one per edge, one per node: three explanations of every target."""
    features = torch.zeros(x.shape[2])
    of_nodes: list[Any] = []
    of_edges: list[Any] = [[] for _ in ask["targets"]]
    for instance in range(*ask["instances"]):
        own, row = x[instance], []
        for at, target in enumerate(ask["targets"]):
            def explained(own: Any = own, target: int = target, **masks: Any) -> Any:
                return explainer(model, GNNExplainer(epochs=STEPS, lr=STEP), **masks)(own, edges, index=target)

            features += explained(node_mask_type="common_attributes").node_mask[0]
            mask = explained(edge_mask_type="object").edge_mask
            of_edges[at].append(undirected(mask, edges, ask["edges"][at]))
            row.append(explained(node_mask_type="object").node_mask[:, 0].tolist())
        of_nodes.append(row)
    count = len(of_nodes) * len(ask["targets"])
    return {"features": (features / count).tolist(), "nodes": of_nodes, "edges": of_edges}


def pg_explainer(model: Any, x: Any, edges: Any, ask: Any) -> dict[str, Any]:
    """One network that scores edges, trained on the targets that are explained."""
    algorithm = PGExplainer(epochs=ROUNDS, lr=0.003)
    asked = explainer(model, algorithm, kind="phenomenon", edge_mask_type="object")
    targets = [(instance, target) for instance in range(*ask["instances"]) for target in ask["targets"]]
    with torch.no_grad():
        classes = (dense(x[slice(*ask["instances"])], edges, model) > 0).long()
    label = {(i, t): classes[i - ask["instances"][0]] for i, t in targets}
    for round_ in range(ROUNDS):
        for instance, target in targets:
            algorithm.train(round_, asked.model, x[instance], edges, target=label[instance, target], index=target)
    of_edges: list[Any] = [[] for _ in ask["targets"]]
    for instance, target in targets:
        mask = asked(x[instance], edges, index=target, target=label[instance, target]).edge_mask
        at = ask["targets"].index(target)
        of_edges[at].append(undirected(mask, edges, ask["edges"][at]))
    return {"edges": of_edges}


def counterfactual(model: Any, x: Any, edges: Any, ask: Any) -> dict[str, Any]:
    """The features half of UCExplainer (COMBINEX): for every target, a change of all features of its instance that turns the
    prediction around. What is made small is the mean square of the change and, as long as the prediction is as it was, the loss of the
    opposite class. Kept is the cheapest change that turns it, or else the last. Targets do not meet: all are changed at once.
    """
    targets = torch.tensor([target for _ in range(*ask["instances"]) for target in ask["targets"]])
    whole = x[slice(*ask["instances"])].repeat_interleave(len(ask["targets"]), 0)
    each = torch.arange(len(targets))

    def logit_of(own: Any) -> Any:
        return dense(own, edges, model)[each, targets]

    with torch.no_grad():
        wanted = (logit_of(whole) <= 0).float()
    change = torch.zeros_like(whole, requires_grad=True)
    adam = torch.optim.Adam([change], lr=CHANGE)
    kept, cheapest = whole.clone(), torch.full((len(targets),), float("inf"))
    for _ in range(CHANGES):
        changed = (whole + change).clamp(-LARGEST, LARGEST)
        logit = logit_of(changed)
        turned = (logit > 0).float() == wanted
        loss = functional.binary_cross_entropy_with_logits(logit, wanted, reduction="none") * ~turned + (change**2).mean((1, 2))
        better = ~torch.isfinite(cheapest) | (turned & (loss < cheapest))
        kept[better] = changed[better].detach()
        cheapest = torch.where(turned & (loss < cheapest), loss.detach(), cheapest)
        adam.zero_grad()
        loss.sum().backward()
        adam.step()
    moved = (kept - whole).abs()
    of_nodes = moved.mean(2).reshape(-1, len(ask["targets"]), ask["nodes"])
    return {"features": moved.mean((0, 1)).tolist(), "nodes": of_nodes.tolist()}


def rows(store: Store, task: Any) -> dict[str, Any]:
    """The answers of the network itself and of its explainers, and what probes move."""
    ask = task["questions"]
    nodes = ask["nodes"]
    x, labels = store.features(), torch.tensor(np.asarray(store.arrays["labels"], dtype=np.float32))
    x, labels = x.reshape(-1, nodes, x.shape[1]), labels.reshape(-1, nodes)
    # The first instance's graph: all are copies of it.
    edges = store.edges(nodes)
    parts = [torch.tensor(np.unique(np.asarray(store.arrays[part], dtype=np.int64) // nodes)) for part in ("train", "valid")]
    torch.manual_seed(task["seed"])
    generator = torch.Generator().manual_seed(task["seed"])
    model = train(Network(x.shape[2]), x, labels, edges, parts, task["epochs"], generator)
    with torch.no_grad():
        apart = (dense(x[:1], edges, model)[0] - model(x[0], edges)[:, 0]).abs().max().item()
    if apart > 1e-4:
        raise SystemExit(f"products with the dense matrix differ from the convolutions by {apart}")
    found = [
        {"model": "GCN", "answer": itself(model, x, edges, ask)},
        {"model": "GCN + GNNExplainer", "answer": gnn_explainer(model, x, edges, ask)},
        {"model": "GCN + GOAt", "answer": goat(model, x, normalised(edges, nodes), ask)},
        {"model": "GCN + PGExplainer", "answer": pg_explainer(model, x, edges, ask)},
        {"model": "GCN + UCExplainer", "answer": counterfactual(model, x, edges, ask)},
    ]
    return {"rows": found, "probes": probes(model, x, edges, ask)}


if __name__ == "__main__":
    answer(__doc__.splitlines()[0], rows)
