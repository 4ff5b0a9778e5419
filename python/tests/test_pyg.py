"""torch_geometric: its Data goes in, its Explanation comes out, its metrics run on it."""

import json
import os
import shutil
import sys

import numpy as np
import pytest
from conftest import command, data_directory

if not os.environ.get("CI"):
    pytest.importorskip("torch_geometric", reason="skipped: torch_geometric is not installed")

import torch  # noqa: E402
import torch_geometric  # noqa: E402
from torch_geometric.explain.metric import fidelity, unfaithfulness  # noqa: E402

from harmonia import HarmoniaClassifier, pyg  # noqa: E402


@pytest.fixture
def data(ring):
    x, y, edges = ring
    data = torch_geometric.data.Data(x=torch.as_tensor(x), edge_index=torch.as_tensor(edges), y=torch.as_tensor(y))
    data.train_mask, data.val_mask = torch.arange(60) < 40, torch.arange(60) >= 50
    data.test_mask = ~(data.train_mask | data.val_mask)
    return data


def test_data_is_what_arrays_are(data, ring):
    x, y, edges = ring
    own = HarmoniaClassifier(epochs=30).fit(data)
    mask = np.arange(60)
    arrays = HarmoniaClassifier(epochs=30).fit(x, y, graph=edges, train=mask < 40, validation=mask >= 50, test=(mask >= 40) & (mask < 50))
    assert own._model.parameters_sha256() == arrays._model.parameters_sha256()
    assert own.predict(data).tolist() == arrays.predict(x, graph=edges).tolist()


def test_masks_are_the_terms_and_metrics_run_on_them(data):
    model = HarmoniaClassifier(hops=2, epochs=100).fit(data)
    explainer = pyg.explainer(model)
    found = explainer(data.x, data.edge_index, index=7)
    terms = model.explain_local([7], by=("node", "feature"), top=None, class_=int(model.predict(data)[7]))[0]
    assert found.node_mask.shape == data.x.shape and (found.node_mask >= 0).all()
    assert float(found.signed_node_mask.sum() + found.intercept) == pytest.approx(terms.logit, abs=1e-4)
    assert (found.signed_node_mask.abs() == found.node_mask).all()
    positive, negative = fidelity(explainer, found)
    assert 0 <= positive <= 1 and 0 <= negative <= 1
    assert 0 <= unfaithfulness(explainer, found) <= 1
    direct = terms.to_pyg(data.x, data.edge_index)
    assert torch.equal(direct.node_mask, found.node_mask)
    with pytest.raises(ValueError, match="expected them by node"):
        model.explain_local([7])[0].to_pyg(data.x, data.edge_index)


def test_edge_masks_are_exact_deletions(data):
    model = HarmoniaClassifier(hops=2, epochs=100).fit(data)
    explainer = pyg.explainer(model, edges=True)
    found = explainer(data.x, data.edge_index, index=7)
    assert found.validate() and found.edge_mask.shape == (data.edge_index.shape[1],)
    assert (found.signed_edge_mask.abs() == found.edge_mask).all() and found.edge_mask.max() > 0
    class_ = int(model.predict(data)[7])
    for at, (a, b) in enumerate(data.edge_index.t().tolist()):
        change = model.intervene(7, drop_edge=(a, b), class_=class_).change
        assert float(found.signed_edge_mask[at]) == pytest.approx(change, abs=1e-5)
    # Node 7 reads from 6 and 8, and of walks of one step nothing else matters.
    matters = {tuple(sorted(ends)) for ends in data.edge_index[:, found.edge_mask > 0].t().tolist()}
    assert matters == {(6, 7), (7, 8)}
    positive, negative = fidelity(explainer, found)
    assert 0 <= positive <= 1 and 0 <= negative <= 1 and 0 <= unfaithfulness(explainer, found) <= 1
    assert 0 <= unfaithfulness(explainer, found, top_k=2) <= 1
    direct = model.explain_local([7], by=("node", "feature"), top=None, class_=class_, edges=True)[0]
    assert torch.equal(direct.to_pyg(data.x, data.edge_index).edge_mask, found.edge_mask)


def test_a_mask_of_edges_is_heard_by_the_model(data):
    model = HarmoniaClassifier(hops=2, epochs=100).fit(data)
    explainer = pyg.explainer(model, edges=True)
    gone = ((data.edge_index == 7).any(dim=0) & (data.edge_index == 8).any(dim=0)).float()
    masked = explainer.get_masked_prediction(data.x, data.edge_index, edge_mask=1 - gone)
    without = model.decision_function(data.x.numpy(), graph=data.edge_index[:, gone == 0].numpy())
    assert np.array_equal(masked[:, 1].numpy(), without.astype(np.float32))
    assert not torch.equal(masked, explainer.get_prediction(data.x, data.edge_index))
    nothing = explainer.get_masked_prediction(data.x, data.edge_index, edge_mask=torch.zeros(data.edge_index.shape[1]))
    assert np.array_equal(nothing[:, 1].numpy(), model.decision_function(data.x.numpy()).astype(np.float32))


@pytest.mark.parametrize("layer", ["gcn", "gat", "sage", "transformer"])
def test_peers_train_on_the_same_split(layer, ring, tmp_path):
    from harmonia import datasets, peers
    from test_command_line import write_table

    x, y, edges = ring
    write_table(tmp_path / "table", x, y, edges, np.where(np.arange(60) < 40, "train", "valid"))
    data = datasets.convert(tmp_path / "table", tmp_path / "store", format="table")
    peer = peers.GraphNetwork(layer, epochs=30).fit(data)
    assert peer.predict().shape == (60,) and np.allclose(peer.predict_proba().sum(axis=1), 1, atol=1e-5)
    again = peers.GraphNetwork(layer, epochs=30).fit(tmp_path / "store")
    assert (again.predict_proba() == peer.predict_proba()).all()
    if layer == "gcn":
        assert peer.explain(3, epochs=5).node_mask.shape == data.x.shape
        assert peer.explain(3, by="pgexplainer", epochs=2).edge_mask.shape == (data.edge_index.shape[1],)
    with pytest.raises(ValueError, match="expected one of"):
        peers.GraphNetwork("gin").fit(data)


def test_a_counterfactual_turns_the_prediction_with_what_matters():
    """Of a network that reads one column of the node itself, this is what has to change, as little as it takes, and nothing else."""
    from harmonia.peers import explainers

    network = explainers.Network(3)
    for parameter in network.parameters():
        torch.nn.init.zeros_(parameter)
    with torch.no_grad():
        network.direct.weight[0, 1] = 4.0
    x = torch.tensor([[0.9, 0.5, 0.1], [0.2, -0.6, 0.3], [0.1, 0.2, 0.3]])[None]
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    ask = {"instances": [0, 1], "targets": [0, 1], "nodes": 3}
    found = explainers.counterfactual(network, x, edges, ask)
    # From 0.5 and from -0.6 to the other side of 0, with a step of Adam to spare.
    moved = np.array(found["nodes"])[0] * 3
    assert ((moved.diagonal() >= [0.5, 0.6]) & (moved.diagonal() < [0.72, 0.82])).all(), moved
    assert (moved - np.pad(np.diag(moved.diagonal()), ((0, 0), (0, 1))) == 0).all(), moved
    assert found["features"][0] == found["features"][2] == 0 and found["features"][1] > 0


@pytest.mark.parametrize("study", ["recovery", "node-accuracy", "graph-accuracy"])
def test_networks_and_explainers_are_rows_of_studies(study, tmp_path):
    """They enter the tables that ours are in."""
    shutil.copytree(data_directory() / "MUTAG", tmp_path / "data" / "MUTAG")
    words = ["--smallest", "--json", "--quiet", "--data-dir", tmp_path / "data", "--peers", sys.executable]
    results = json.loads(command("harmonia", "study", study, "--out", tmp_path / "s", *words))

    def cell(table, row, column):
        found = next(one for one in results["tables"] if one["name"] == table)
        return next(row_ for row_ in found["rows"] if row_[0] == row)[found["head"].index(column)]["value"]

    if study == "recovery":
        for model, table in [("GCN", "nodes"), ("GCN + GNNExplainer", "edges"), ("GCN + PGExplainer", "edges")]:
            assert abs(cell(table, model, "Spearman")) <= 1 and cell("features", model, "probe coverage") <= 1
        # Neither a mask nor the size of a change has a sign.
        assert cell("nodes", "GCN + GNNExplainer", "signed NRMSE") is None and cell("nodes", "GCN", "signed NRMSE") > 0
        assert cell("nodes", "GCN + UCExplainer", "signed NRMSE") is None and abs(cell("nodes", "GCN + UCExplainer", "Spearman")) <= 1
        assert cell("nodes", "GCN + GOAt", "SignAgree@4") is None and abs(cell("edges", "GCN + GOAt", "Spearman")) <= 1
        assert 0 <= cell("features", "GCN + GOAt", "NDCG@4") <= 1 and 0 <= cell("nodes", "GCN + GOAt", "Precision@4") <= 1
        assert 0 <= cell("features", "GCN + UCExplainer", "NDCG@4") <= 1 and cell("edges", "GCN + UCExplainer", "Spearman") is None
    else:
        dataset = "synthetic" if study == "node-accuracy" else "mutag"
        assert all(0 <= cell("accuracy", model, dataset) <= 100 for model in ("GCN", "GAT", "GraphSAGE", "Graph Transformer"))
