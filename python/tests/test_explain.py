"""What a model says: sums that add up, shapes that are the response, objects that show themselves."""

import re

import matplotlib
import numpy as np
import pytest

from harmonia import HarmoniaClassifier

matplotlib.use("agg")


@pytest.fixture(scope="module")
def fitted():
    x = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
    after = (np.arange(60) + 1) % 60
    edges = np.stack([np.r_[np.arange(60), after], np.r_[after, np.arange(60)]])
    y = np.digitize(np.roll(x[:, 0], 1) + np.roll(x[:, 0], -1), [-0.7, 0.7])
    model = HarmoniaClassifier(hops=3, epochs=120).fit(x, y, graph=edges, train=range(45), test=range(45, 60))
    return model, x, y, edges


@pytest.mark.parametrize("by", ["feature", "node", "hop", ("feature", "node"), ("feature", "node", "hop")])
def test_terms_add_up_to_the_logit_of_the_engine(fitted, by):
    model, x, _, edges = fitted
    found = model.explain_local([42, 17], by=by, top=None)
    logits = model.decision_function(x, graph=edges)
    assert [one.target for one in found] == [42, 17]
    for one in found:
        place = model.classes_.tolist().index(int(one.data["class"]))
        assert one.residual < 1e-4
        assert one.intercept + one.values.sum() == pytest.approx(logits[one.target, place], abs=1e-4)


def test_other_data_are_explained_like_those_of_training(fitted):
    model, x, _, edges = fitted
    here, there = model.explain_local([5])[0], model.explain_local([5], X=x, graph=edges)[0]
    assert here.logit == pytest.approx(there.logit, abs=1e-6) and here.values == pytest.approx(there.values, abs=1e-9)
    many = model.explain_local(range(60))
    assert many[5].values == pytest.approx(here.values, abs=1e-4)


def test_a_shape_is_the_response(fitted):
    model, x, _, edges = fitted
    shape = model.shapes("feature 1")
    assert shape.exact and shape.name == "feature 1" and len(model.shapes()) == 3
    # What one node adds at hop 0 is w theta (f(x) - c): the curve says the same of all nodes.
    theta, name = model.hop_weights_[0, 1], shape.data["weight_by_class"]
    terms = [model.explain_local([i], by=("feature", "node", "hop"), top=None, class_=0)[0] for i in (3, 8, 30)]
    for one in terms:
        term = next(t for t in one.terms if t["feature"] == "feature 1" and t["node_id"] == one.target and t["hop"] == 0)
        f = shape(x[one.target, 1]) - shape.data["centre"]
        assert term["value"] == pytest.approx(name["0"] * theta * float(f), abs=1e-5)


def test_an_intervention_is_the_prediction_of_the_changed_data(fitted):
    model, x, _, edges = fitted
    kept = ~(((edges[0] == 17) & (edges[1] == 18)) | ((edges[0] == 18) & (edges[1] == 17)))
    changed = x.copy()
    changed[17, 2] = 0.5
    found = model.intervene(node=17, drop_edge=(17, 18), set={"feature 2": 0.5}, class_=1)
    assert found.after == pytest.approx(model.decision_function(changed, graph=edges[:, kept])[17, 1], abs=1e-4)
    assert found.before == pytest.approx(model.decision_function(x, graph=edges)[17, 1], abs=1e-4)
    assert found.to_pandas()["adds"].sum() == pytest.approx(found.change, abs=1e-9)
    with pytest.raises(ValueError, match="there is no edge 17-40"):
        model.intervene(node=17, drop_edge=(17, 40))


@pytest.mark.parametrize("directed", [False, True])
def test_effects_of_edges_are_those_of_dropping_them(fitted, directed):
    model, x, _, edges = fitted
    graph = edges[:, :70] if directed else edges
    found = model.explain_local([17, 3], edges=True, class_=1, X=x, graph=graph)
    for one in found:
        assert one.both_ways != directed and len(one.edges) > 0
        for a, b, change in one.edges:
            what_if = model.intervene(one.target, drop_edge=(a, b), class_=1, X=x, graph=graph)
            assert change == pytest.approx(what_if.change, abs=1e-9)
    # Walks of two steps: from 17 to 16 and 18, and from there on.
    listed = {tuple(sorted(edge[:2])) for edge in found[0].edges}
    assert listed == ({(17, 18), (18, 19)} if directed else {(15, 16), (16, 17), (17, 18), (18, 19)})
    with pytest.raises(ValueError, match="the prediction sees 6 edges, each way counted.*expected at most 5"):
        model.explain_local([17], edges=True, most_edges=5)
    with pytest.raises(ValueError, match="edges=True"):
        _ = model.explain_local([17])[0].edges


def test_importances_and_the_diagnosis(fitted):
    model, *_ = fitted
    overall = model.explain_global()
    assert overall.data["split"] == "test" and overall.data["units"] == 15
    assert overall.feature_names[0] == "feature 0" and (np.diff(overall.importances) <= 0).all()
    # The mean size of what a feature adds, from single predictions.
    terms = model.explain_local(range(45, 60), top=None, class_=2)
    mean = np.mean([abs(t["value"]) for one in terms for t in one.terms if t["feature"] == "feature 0"])
    assert overall.data["features"][0]["importance_by_class"]["2"] == pytest.approx(mean, rel=1e-4)
    found = model.diagnose()
    assert found["hops"] == 3 and len(found["responses"]["features"]) == 3
    assert model.hop_weights_.shape == (3, 3)


def test_objects_show_themselves_without_scripts_or_network(fitted):
    model, *_ = fitted
    found = model.explain_local([1, 2], by=("feature", "node"), top=5)
    shown = [found, found[0], model.explain_global(), model.shapes(0), model.intervene(1, mean_node=2), model.diagnose()]
    for one in shown:
        html = one._repr_html_()
        assert "<script" not in html and "http" not in html and "nan" not in html.lower()
        assert len(re.findall("<table", html)) == len(re.findall("</table", html))
        assert repr(one)
    frame = found.to_pandas()
    assert list(frame.columns) == ["node", "class", "feature", "x", "source", "adds"] and len(frame) == 10
    for picture in (found.plot().axes[0], found[0].plot(), model.explain_global().plot(), model.shapes(0).plot()):
        assert picture.get_figure() is not None and picture.has_data()


def test_names_are_text_and_not_markup():
    import pandas

    frame = pandas.DataFrame({"<script>x</script>": [0.0, 1.0] * 20, "b&": [1.0, 2.0, 3.0, 4.0] * 10})
    model = HarmoniaClassifier(epochs=5).fit(frame, ["<b>", "c"] * 20)
    for one in (model.explain_local([0]), model.explain_global(), model.shapes("b&")):
        assert "<script" not in one._repr_html_() and "<b>x" not in one._repr_html_()


def test_a_report_opens_from_what_was_fitted(fitted, tmp_path):
    model, x, _, edges = fitted
    model.report(tmp_path / "report.html", nodes=[42])
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>") or page.lower().startswith("<!doctype")
    assert '"feature 0"' in page and "src=" not in page
    model.report(tmp_path / "other.html", X=x, graph=edges)
    assert "everything else was measured on" in (tmp_path / "other.html").read_text()
