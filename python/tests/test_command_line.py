"""The same bits as the command line, and files that both open."""

import json

import numpy as np
import pandas
import pytest
from conftest import binary, command, data_directory

from harmonia import HarmoniaClassifier, HarmoniaRegressor, datasets, load


def parameters(directory) -> str:
    """As the model file has them."""
    raw = (directory / "best.safetensors").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    return json.loads(header["__metadata__"]["metadata"] if "metadata" in header["__metadata__"] else next(iter(header["__metadata__"].values())))[
        "parameters_sha256"
    ]


def test_the_synthetic_study_has_the_same_bits(tmp_path):
    command("harmonia-train", "--epochs", 30, "--seed", 5, "--out", tmp_path / "run")
    model = HarmoniaClassifier(epochs=30, random_state=5).fit("synthetic")
    assert model._model.parameters_sha256() == parameters(tmp_path / "run")
    said = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert model.summary_["test"] == said["test"] and model.summary_["epochs"] == said["epochs"]


def write_table(directory, x, y, edges, split):
    directory.mkdir()
    nodes = pandas.DataFrame(x, columns=[f"c{k}" for k in range(x.shape[1])])
    nodes["label"], nodes["split"] = y, split
    nodes.to_csv(directory / "nodes.csv", index_label="id")
    pandas.DataFrame(edges.T, columns=["source", "target"]).to_csv(directory / "edges.csv", index=False)


@pytest.mark.parametrize("gaps", [False, True])
def test_arrays_have_the_bits_of_a_table(ring, tmp_path, gaps):
    x, y, edges = ring
    x = x.astype(np.float32)
    if gaps:
        x[::9, 1] = np.nan
    split = np.where(np.arange(60) < 36, "train", np.where(np.arange(60) < 48, "valid", "test"))
    write_table(tmp_path / "table", x, y, edges, split)
    command("harmonia", "data", "convert", tmp_path / "table", "--format", "table", "--out", tmp_path / "store")
    command("harmonia-train", "--dataset", tmp_path / "store", "--epochs", 40, "--set", "model.hops=3", "--out", tmp_path / "run")
    frame = pandas.DataFrame(x, columns=["c0", "c1", "c2"])
    model = HarmoniaClassifier(epochs=40, hops=3)
    model.fit(frame, y, graph=edges, train=split == "train", validation=split == "valid", test=split == "test")
    assert model._model.parameters_sha256() == parameters(tmp_path / "run")
    # And so has the store, opened here.
    again = HarmoniaClassifier(epochs=40, hops=3).fit(tmp_path / "store")
    assert again._model.parameters_sha256() == parameters(tmp_path / "run")


def test_a_model_of_here_opens_there(ring, tmp_path):
    x, y, edges = ring
    model = HarmoniaClassifier(hops=2, epochs=60).fit(x, y, graph=edges, train=range(40), test=range(40, 60))
    model.save(tmp_path / "m", data=True)
    printed = json.loads(command("harmonia", "explain", tmp_path / "m", "--node", 7, "--by", "feature,hop", "--json"))
    here = model.explain_local([7], by=("feature", "hop"))[0].data
    assert printed["contributions"] == here["contributions"] and printed["logit"] == here["logit"]
    overall = json.loads(command("harmonia", "explain", tmp_path / "m", "--global", "--top", 0, "--json"))
    assert overall["features"] == model.explain_global().data["features"]
    assert json.loads(command("harmonia", "shapes", tmp_path / "m", "--json"))["features"] == [one.data for one in model.shapes()]
    changed = json.loads(command("harmonia", "intervene", tmp_path / "m", "--node", 7, "--drop-edge", "7-8", "--json", "--top", 0))
    assert changed["change"] == model.intervene(7, drop_edge=(7, 8)).change
    assert (tmp_path / "m" / "report.html").is_file()
    command("harmonia", "export", tmp_path / "m", "--format", "python", "--out", tmp_path / "score.py")
    with pytest.raises(ValueError, match="not empty"):
        model.save(tmp_path / "m")


def test_a_model_of_there_opens_here(tmp_path):
    command("harmonia-train", "--epochs", 20, "--out", tmp_path / "run")
    model = load(tmp_path / "run")
    assert isinstance(model, HarmoniaClassifier) and model._model.parameters_sha256() == parameters(tmp_path / "run")
    printed = json.loads(command("harmonia", "explain", tmp_path / "run", "--node", 3, "--json"))
    assert model.explain_local([3])[0].data == printed
    data = datasets.load("synthetic")
    assert model.predict().tolist() == model.predict(data.x, graph=data.edge_index).tolist()


def test_what_was_saved_is_loaded_with_its_classes_and_parameters(ring, tmp_path):
    x, y, edges = ring
    names = np.array(["low", "high"])[y]
    model = HarmoniaClassifier(hops=2, epochs=20, device="cpu").fit(x, names, graph=edges)
    model.save(tmp_path / "m")
    other = load(tmp_path / "m")
    assert other.get_params() == model.get_params() and other.classes_.tolist() == ["high", "low"]
    np.testing.assert_array_equal(other.predict_proba(x, graph=edges), model.predict_proba(x, graph=edges))
    assert other.history_ == model.history_ and other.shapes(1).data["knots"] == model.shapes(1).data["knots"]
    other.save(tmp_path / "again")
    assert load(tmp_path / "again").predict(x, graph=edges).tolist() == model.predict(x, graph=edges).tolist()
    numbers = HarmoniaRegressor(epochs=20).fit(x, x[:, 0])
    numbers.save(tmp_path / "n")
    assert isinstance(load(tmp_path / "n"), HarmoniaRegressor)
    with pytest.raises(ValueError, match="holds no trained model"):
        load(tmp_path)


def test_cora_has_the_same_bits_and_answers(tmp_path):
    directory = data_directory()
    binary("harmonia-train")
    command("harmonia-train", "--dataset", "cora", "--data-dir", directory, "--epochs", 20, "--offline", "--out", tmp_path / "run")
    data = datasets.load("cora", directory=directory)
    model = HarmoniaClassifier(epochs=20).fit(data)
    assert model._model.parameters_sha256() == parameters(tmp_path / "run")
    found = model.explain_local([42], by=("feature", "node", "hop"), top=5)[0]
    words = ["explain", tmp_path / "run", "--node", 42, "--by", "feature,node,hop", "--top", 5, "--json", "--offline"]
    assert json.loads(command("harmonia", *words)) == found.data
