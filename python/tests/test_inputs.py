"""What goes in: arrays, frames, sparse matrices, graphs of every kind, masks, gaps; and what is refused, in whose words."""

import re

import networkx
import numpy as np
import pandas
import polars
import pytest
import scipy.sparse

from harmonia import HarmoniaClassifier, HarmoniaRegressor


def fit(x, y, **more):
    return HarmoniaClassifier(epochs=15).fit(x, y, **more)


def sha(model):
    return model._model.parameters_sha256()


def test_graphs_of_every_kind_are_the_same_graph(ring):
    x, y, edges = ring
    matrix = scipy.sparse.csr_matrix((np.ones(120), edges), shape=(60, 60))
    nx = networkx.Graph()
    nx.add_nodes_from(range(60))
    nx.add_edges_from(edges.T.tolist())
    kinds = [edges, edges.tolist(), matrix, matrix.tocoo(), scipy.sparse.csc_array(matrix), matrix.toarray(), nx]
    kinds[1] = np.array(kinds[1])
    assert len({sha(fit(x, y, graph=kind)) for kind in kinds}) == 1
    assert sha(fit(x, y, graph=(edges, np.full(120, 2.0)))) != sha(fit(x, y))
    directed = networkx.DiGraph(nx)
    directed.remove_edge(1, 0)
    assert sha(fit(x, y, graph=directed)) != sha(fit(x, y, graph=nx))


def test_arrays_of_every_kind_are_the_same_features(ring):
    x, y, edges = ring
    frame = pandas.DataFrame(x, columns=["a", "b", "c"])
    hashes = {
        sha(fit(x, y, graph=edges)),
        sha(fit(x.astype(np.float64), y, graph=edges)),
        sha(fit(np.asfortranarray(x), y, graph=edges)),
        sha(fit(x.tolist(), y.tolist(), graph=edges)),
        sha(fit(frame, pandas.Series(y), graph=edges)),
        sha(fit(polars.DataFrame(frame.to_dict("list")), y, graph=edges)),
    }
    assert len(hashes) == 1
    model = fit(frame, y, graph=edges)
    assert list(model.feature_names_in_) == ["a", "b", "c"] and model.n_features_in_ == 3
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame[["b", "a", "c"]], graph=edges)


def test_sparse_features_are_those_of_the_dense_array(ring):
    _, y, edges = ring
    words = (np.random.default_rng(0).random((60, 40)) < 0.05).astype(np.float32)
    dense, sparse = fit(words, y, graph=edges), fit(scipy.sparse.csr_matrix(words), y, graph=edges)
    assert sha(dense) == sha(sparse)
    np.testing.assert_array_equal(dense.predict_proba(words, graph=edges), sparse.predict_proba(scipy.sparse.csr_array(words), graph=edges))


def test_frames_have_categories_dates_and_gaps():
    rng = np.random.default_rng(0)
    plan = rng.choice(["free", "pro", "team"], size=200)
    age = rng.normal(40, 10, size=200)
    age[::7] = np.nan
    frame = pandas.DataFrame({"age": age, "plan": pandas.Categorical(plan), "since": pandas.Timestamp("2024-01-01"), "on": age > 40})
    model = HarmoniaClassifier(epochs=300).fit(frame, plan == "pro")
    assert model.score(frame, plan == "pro") == 1.0
    assert model.n_features_in_ == 4 and set(model.shapes("plan").values) == {"free", "pro", "team"}
    new = pandas.DataFrame({"age": [np.nan, 30.0], "plan": ["pro", "unheard"], "since": frame["since"][:2], "on": [True, False]})
    assert model.predict(new).tolist() == [True, False]
    changed = model.intervene(0, set={"plan": "pro" if plan[0] != "pro" else "free"})
    assert (changed.after > changed.before) == (plan[0] != "pro")
    with pytest.raises(ValueError, match="`plan` is missing in row 0"):
        model.predict(new.assign(plan=[None, "pro"]))


@pytest.mark.parametrize("others", [{}, {"plan": ["a", "b"] * 20, "since": pandas.Timestamp("2024-01-01")}])
def test_columns_of_another_kind_are_refused(others):
    frame = pandas.DataFrame({"age": np.arange(40.0), "on": np.arange(40.0) > 7, **others})
    model = HarmoniaClassifier(epochs=5).fit(frame, frame["age"] > 20)
    assert model.predict(frame.assign(age=True, on=1.0)).shape == (40,)
    for change, words in [
        ({"age": "x"}, "column `age` holds words: expected numbers, as when the model was fitted"),
        ({"age": pandas.Timestamp("2024-01-01")}, "column `age` holds dates: expected numbers"),
        ({"on": "yes"}, "column `on` holds words: expected numbers"),
        *([({"since": 3.0}, "column `since` holds numbers: expected dates")] if others else []),
    ]:
        with pytest.raises(ValueError, match=re.escape(words)):
            model.predict(frame.assign(**change))


def test_units_without_a_label_are_not_trained_on(ring):
    x, y, edges = ring
    known = np.arange(60) % 3 != 0
    missing = np.where(known, y.astype(float), np.nan)
    minus = np.where(known, y, -1)
    none = np.where(known, y.astype(object), None)
    assert len({sha(fit(x, labels, graph=edges)) for labels in (missing, minus, none)}) == 1
    assert sha(fit(x, minus, graph=edges)) == sha(fit(x, y, graph=edges, train=known))
    # Without a class 0, -1 is a class.
    assert fit(x, np.where(y == 1, 1, -1), graph=edges).classes_.tolist() == [-1, 1]


def test_masks_and_numbers_name_units(ring):
    x, y, edges = ring
    mask = np.arange(60) < 30
    valid = (np.arange(60) >= 30) & (np.arange(60) < 45)
    by_mask = fit(x, y, graph=edges, train=mask, validation=valid)
    assert sha(by_mask) == sha(fit(x, y, graph=edges, train=np.arange(30), validation=range(30, 45)))
    with pytest.raises(ValueError, match="train names unit 60: expected 0 to 59"):
        fit(x, y, graph=edges, train=[60])
    with pytest.raises(ValueError, match="unit 0 is in the train split and in the validation split"):
        fit(x, y, graph=edges, train=mask, validation=mask)


def test_graphs_are_predicted_by_batch():
    rng = np.random.default_rng(0)
    sizes = rng.integers(3, 7, size=60)
    batch = np.repeat(np.arange(60), sizes)
    x = rng.normal(size=(len(batch), 2))
    starts = np.r_[0, np.cumsum(sizes)]
    edges = np.array([(i, i + 1) for a, b in zip(starts, starts[1:]) for i in range(a, b - 1)]).T
    edges = np.concatenate([edges, edges[::-1]], axis=1)
    y = np.array([x[a:b, 0].sum() > 0 for a, b in zip(starts, starts[1:])])
    model = HarmoniaClassifier(epochs=60).fit(x, y, graph=edges, batch=batch)
    assert model.predict(x, graph=edges, batch=batch).shape == (60,)
    assert model.score(x, y, graph=edges, batch=batch) > 0.8
    term = model.explain_local([5], by=("node", "feature"), top=None)[0]
    assert len(term.terms) == 2 * sizes[5] and term.residual < 1e-4


def test_several_labels_and_several_numbers(ring):
    x, _, edges = ring
    bits = (x > 0).astype(int)
    model = HarmoniaClassifier(epochs=200).fit(x, bits, graph=edges)
    assert model.predict(x, graph=edges).shape == (60, 3) and model.score(x, bits, graph=edges) > 0.5
    numbers = HarmoniaRegressor(epochs=200).fit(x, np.abs(x[:, :2]) * 1000)
    assert numbers.predict(x).shape == (60, 2) and numbers.score(x, np.abs(x[:, :2]) * 1000) > 0.8


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x, y, e: (x, y, np.array([[0], [60]])), "an edge names node 60: expected 0 to 59"),
        (lambda x, y, e: (np.where(x > 9, x, np.inf), y, e), "infinity"),
        (lambda x, y, e: (x, y[:-1], e), "X has 60, y has 59"),
        (lambda x, y, e: (x, np.zeros(60), e), "at least 2 classes"),
        (lambda x, y, e: (x, x[:, 0], e), "continuous"),
        (lambda x, y, e: (x, y, (e, np.full(120, -1.0))), "weights must be > 0"),
        (lambda x, y, e: (x, y, np.zeros((3, 5))), "expected a graph as"),
    ],
)
def test_what_is_wrong_is_said(ring, change, words):
    x, y, edges = change(*ring)
    with pytest.raises(ValueError, match=words):
        fit(x, y, graph=edges)


def test_settings_are_refused_in_the_words_of_the_command_line(ring):
    x, y, edges = ring
    for settings, words in [
        ({"train.epoch": 9}, "did you mean `train.epochs`"),
        ({"train.dropout": 1.5}, "train.dropout is 1.5"),
        ({"run.device": "gpu"}, "there is no device `gpu`"),
    ]:
        with pytest.raises(ValueError, match=words):
            HarmoniaClassifier(settings=settings).fit(x, y, graph=edges)
    with pytest.raises(ArithmeticError):
        HarmoniaClassifier(learning_rate=1e30, epochs=50, settings={"train.optimizer": "adam"}).fit(x * 1e15, y, graph=edges)
