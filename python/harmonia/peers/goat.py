"""GOAt (Lu et al., ICLR 2024: graph output attribution) of the network that ``explainers`` trains.

A convolution is V = M H W + b and H' = P * V, where P is 1 where V is positive and 0 elsewhere. With P written out, the logit is a sum of
products of numbers: one entry of M and one of P for every layer that a product goes through, one of X (or one of a bias), and weights.
What a product is worth goes in equal shares to its numbers but the weights; a number has the sum over the products that it is in.

    a product that begins at X goes through L layers:      2 L + 1 numbers
    one that begins at the bias of layer l, counted from 1: 2 (L - l) + 2 numbers

Sums of products are linear in where they begin, so that one pass forward with every beginning divided by its count, and one backward, find all
shares; the products themselves are never listed. The entry of an edge counts in every layer that it stands in, as in the authors' program.
Invariant: all shares, the readout's bias and what the direct path reads add up to the logit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class Shares(NamedTuple):
    """Of every number in a logit; a batch of instances comes first everywhere."""

    #: Entries of M: layers x instances x readers x nodes.
    edges: Any
    #: Activation patterns: layers x instances x nodes.
    patterns: Any
    #: X, with what the direct path reads of it: instances x nodes x features.
    inputs: Any
    #: Biases of the layers: layers x instances.
    biases: Any


@torch.no_grad()
def shares(model: Any, x: Any, matrix: Any, target: int) -> Shares:
    """Of the logit of a node, for instances x nodes x features and the normalised matrix, whose rows are readers."""
    depth = len(model.layers)
    state, share = x, x / (2 * depth + 1)
    patterns, before, behind = [], [], []
    for at, layer in enumerate(model.layers):
        value = matrix @ layer.lin(state) + layer.bias
        pattern = (value > 0).to(x.dtype)
        # What a row hands to its readers, and what of it has gone through the pattern.
        before.append(layer.lin(share))
        share = pattern * (matrix @ before[-1] + layer.bias / (2 * (depth - at)))
        behind.append(share)
        patterns.append(pattern)
        state = pattern * value
    gradient = torch.zeros_like(state)
    gradient[:, target] = model.readout.weight[0]
    edges, of_patterns, biases = [], [], []
    for at in reversed(range(depth)):
        layer = model.layers[at]
        of_patterns.append((gradient * behind[at]).sum(2))
        gradient = gradient * patterns[at]
        edges.append(matrix * (gradient @ before[at].transpose(1, 2)))
        biases.append((gradient * layer.bias).sum((1, 2)) / (2 * (depth - at)))
        gradient = matrix.T @ gradient @ layer.lin.weight
    inputs = x * gradient / (2 * depth + 1)
    inputs[:, target] += x[:, target] * model.direct.weight[0]
    by_layer = [torch.stack(parts[::-1]) for parts in (edges, of_patterns, biases)]
    return Shares(by_layer[0], by_layer[1], inputs, by_layer[2])


def of_edges(found: Shares, matrix: Any) -> Any:
    """Entries of M over all layers, instances x readers x nodes, and with them what patterns have.

    The pattern of a node in layer l was made by the entries that the first l layers read on the way to it: its share goes to these in
    equal parts, as the authors have it; an entry that is read in two layers gets two.
    """
    there = (matrix != 0).to(matrix.dtype)
    entries = there.sum(1)
    within = [torch.eye(len(matrix), dtype=matrix.dtype)]
    scores = found.edges.sum(0)
    for patterns in found.patterns:
        # Nodes whose rows are read in one of the layers up to this one, as often as they are.
        rows = torch.stack(within).sum(0)
        within.append((within[-1] @ there > 0).to(matrix.dtype))
        scores = scores + ((patterns / (rows @ entries)) @ rows)[:, :, None] * there
    return scores


def goat(model: Any, x: Any, matrix: Any, ask: Any) -> dict[str, Any]:
    """Scores as the study asks for them.

    Of an edge: the size of what both its directions have. Of a node and of a feature: what its numbers in X have, of a feature as the
    mean size over targets; patterns are left out there, whose parts would be the same for all features.
    """
    whole = x[slice(*ask["instances"])]
    of_nodes, of_features = [], torch.zeros(x.shape[2], dtype=x.dtype)
    edges: list[Any] = []
    for target, candidates in zip(ask["targets"], ask["edges"]):
        found = shares(model, whole, matrix, target)
        of_nodes.append(found.inputs.sum(2))
        of_features += found.inputs.sum(1).abs().mean(0) / len(ask["targets"])
        scores = of_edges(found, matrix)
        i, j = torch.tensor(candidates, dtype=torch.long).reshape(-1, 2).T
        edges.append((scores[:, i, j] + scores[:, j, i]).abs().tolist())
    return {"features": of_features.tolist(), "nodes": torch.stack(of_nodes, 1).tolist(), "edges": edges}
