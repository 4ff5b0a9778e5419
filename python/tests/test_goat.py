"""GOAt: every product of the logit written out and shared by hand, and shares that add up to the network's own logit."""

import os

import numpy as np
import pytest

if not os.environ.get("CI"):
    pytest.importorskip("torch_geometric", reason="skipped: torch_geometric is not installed")

import torch  # noqa: E402

from harmonia.peers import explainers  # noqa: E402
from harmonia.peers.goat import goat, of_edges, shares  # noqa: E402

# Sums of some ten thousand products in two orders, in f64.
ROUNDING = 1e-12


@pytest.fixture
def case(monkeypatch):
    """A path of four nodes and a chord; three layers of three channels, of which some are cut off by their activation."""
    monkeypatch.setattr(explainers, "WIDTH", 3)
    generator = torch.Generator().manual_seed(5)
    network = explainers.Network(2).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    x = torch.randn(2, 4, 2, generator=generator, dtype=torch.float64)
    edges = torch.tensor([[0, 1, 1, 2, 2, 3, 0, 2], [1, 0, 2, 1, 3, 2, 2, 0]])
    return network, x, edges, explainers.normalised(edges, 4).double()


def patterns(network, x, matrix):
    """1 where a unit is on, layer by layer."""
    found, state = [], x
    for layer in network.layers:
        value = matrix @ layer.lin(state) + layer.bias
        found.append((value > 0).double())
        state = value.relu()
    return found


def written_out(network, x, matrix, target):
    """Shares of every entry, pattern and input from all products: those that begin at X, and at the bias of each layer."""
    first, second, third = [layer.lin.weight for layer in network.layers]
    on = patterns(network, x, matrix)
    readout = network.readout.weight[0]
    bias = [layer.bias for layer in network.layers]
    edges, of_patterns = torch.zeros(3, 4, 4, dtype=x.dtype), torch.zeros(3, 4, dtype=x.dtype)
    # Indices: i, j, k, m are the target and the nodes that are read one after the other, d, e, f channels behind the layers, g a feature.
    row = matrix[target]
    of_x = torch.einsum("d,d,j,de,je,jk,ef,kf,km,fg,mg->djekfmg", readout, on[2][target], row, third, on[1], matrix, second, on[0], matrix, first, x) / 7
    of_1 = torch.einsum("d,d,j,de,je,jk,ef,kf,f->djekf", readout, on[2][target], row, third, on[1], matrix, second, on[0], bias[0]) / 6
    of_2 = torch.einsum("d,d,j,de,je,e->dje", readout, on[2][target], row, third, on[1], bias[1]) / 4
    of_3 = readout * on[2][target] * bias[2] / 2
    edges[2, target] = of_x.sum((0, 2, 3, 4, 5, 6)) + of_1.sum((0, 2, 3, 4)) + of_2.sum((0, 2))
    edges[1] = of_x.sum((0, 2, 4, 5, 6)) + of_1.sum((0, 2, 4))
    edges[0] = of_x.sum((0, 1, 2, 4, 6))
    of_patterns[2, target] = of_x.sum() + of_1.sum() + of_2.sum() + of_3.sum()
    of_patterns[1] = of_x.sum((0, 2, 3, 4, 5, 6)) + of_1.sum((0, 2, 3, 4)) + of_2.sum((0, 2))
    of_patterns[0] = of_x.sum((0, 1, 2, 4, 5, 6)) + of_1.sum((0, 1, 2, 4))
    inputs = of_x.sum((0, 1, 2, 3, 4))
    inputs[target] += x[target] * network.direct.weight[0]
    return edges, of_patterns, inputs, torch.stack([of_1.sum(), of_2.sum(), of_3.sum()])


def test_shares_are_those_of_all_products_written_out(case):
    network, x, _, matrix = case
    with torch.no_grad():
        on = torch.stack([pattern.mean() for pattern in patterns(network, x, matrix)])
        assert ((on > 0.1) & (on < 0.9)).all(), "units of every kind"
        for target in range(4):
            found = shares(network, x, matrix, target)
            for instance in range(2):
                by_hand = written_out(network, x[instance], matrix, target)
                own = found.edges[:, instance], found.patterns[:, instance], found.inputs[instance], found.biases[:, instance]
                assert all((a - b).abs().max() < ROUNDING for a, b in zip(own, by_hand)), target


def test_shares_add_up_to_the_logit(case):
    network, x, edges, matrix = case
    with torch.no_grad():
        for target in range(4):
            found = shares(network, x, matrix, target)
            whole = found.edges.sum((0, 2, 3)) + found.patterns.sum((0, 2)) + found.inputs.sum((1, 2)) + found.biases.sum(0)
            for instance in range(2):
                # By PyTorch Geometric's own convolutions.
                logit = network(x[instance], edges)[target, 0]
                assert abs(whole[instance] + network.readout.bias[0] - logit) < 1e-6, "M is of f32 there"
            # What patterns have is handed on, and nothing of it is lost.
            handed = of_edges(found, matrix)
            assert (handed.sum((1, 2)) - found.edges.sum((0, 2, 3)) - found.patterns.sum((0, 2))).abs().max() < ROUNDING
            assert (handed[:, matrix == 0] == 0).all()


def test_a_pattern_goes_to_the_entries_that_made_it(case):
    """On the chain 0-1-2-3 without the chord, the first layer's pattern of node 0 is of two entries, the second's of two and five."""
    network, x, _, _ = case
    chain = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    matrix = explainers.normalised(chain, 4).double()
    found = shares(network, x, matrix, 0)
    found = found._replace(edges=torch.zeros_like(found.edges), patterns=torch.zeros_like(found.patterns))
    found.patterns[0, :, 0] = 1.0
    np.testing.assert_allclose(of_edges(found, matrix)[0], [[0.5, 0.5, 0, 0], [0] * 4, [0] * 4, [0] * 4])
    found.patterns[0, :, 0], found.patterns[1, :, 0] = 0.0, 7.0
    np.testing.assert_allclose(of_edges(found, matrix)[0], [[2, 2, 0, 0], [1, 1, 1, 0], [0] * 4, [0] * 4])


def test_answers_have_the_form_that_the_study_reads(case):
    network, x, _, matrix = case
    ask = {"instances": [0, 2], "targets": [0, 3], "edges": [[(0, 1), (1, 2)], [(2, 3)]], "nodes": 4}
    found = goat(network, x, matrix, ask)
    assert len(found["features"]) == 2 and all(score > 0 for score in found["features"])
    assert np.array(found["nodes"]).shape == (2, 2, 4)
    assert [np.array(edges).shape for edges in found["edges"]] == [(2, 2), (2, 1)]
    with torch.no_grad():
        scores = of_edges(shares(network, x, matrix, 3), matrix)
    np.testing.assert_allclose(np.array(found["edges"][1])[:, 0], (scores[:, 2, 3] + scores[:, 3, 2]).abs())
