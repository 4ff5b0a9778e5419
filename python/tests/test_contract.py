"""scikit-learn's contract: its own checks, clones, pickles, searches."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from harmonia import HarmoniaClassifier, HarmoniaRegressor, OnGraph

#: Checks that are expected to fail, and why. docs/python.md has the same list.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "rows of weight 0 still move which rows validate, and those decide when training ends",
    "check_sample_weight_equivalence_on_sparse_data": "rows of weight 0 still move which rows validate, and those decide when training ends",
}


def expected(estimator):
    return EXPECTED


@parametrize_with_checks(
    [HarmoniaClassifier(epochs=60, learning_rate=0.05, n_jobs=1), HarmoniaRegressor(epochs=60, learning_rate=0.05, n_jobs=1)],
    expected_failed_checks=expected,
)
def test_check_estimator(estimator, check):
    check(estimator)


def test_the_constructor_only_stores_and_clones_are_alike():
    hidden = [8, 4]
    model = HarmoniaClassifier(hops=4, experts=4, hidden=hidden, settings={"train.clip_norm": 1.0}, random_state=3)
    assert model.hidden is hidden
    other = clone(model)
    assert other is not model and other.get_params() == model.get_params()
    assert model.set_params(hops=2).hops == 2
    with pytest.raises(ValueError, match="Invalid parameter 'hop'"):
        model.set_params(hop=2)
    assert repr(HarmoniaClassifier(hops=3)) == "HarmoniaClassifier(hops=3)"


def test_a_pickle_predicts_the_same_bits(ring):
    x, y, edges = ring
    model = HarmoniaClassifier(epochs=30).fit(x, y, graph=edges)
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(model.predict_proba(x, graph=edges), other.predict_proba(x, graph=edges))
    assert other.explain_local([3], X=x, graph=edges)[0].logit == model.explain_local([3], X=x, graph=edges)[0].logit
    with pytest.raises(ValueError, match="a pickle holds the model alone"):
        other.explain_local([3])


def test_searches_without_a_graph():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2))
    y = np.where(np.abs(x[:, 0]) > 0.7, "far", "near")
    scores = cross_val_score(HarmoniaClassifier(epochs=300), x, y, cv=3)
    assert scores.mean() > 0.85
    search = GridSearchCV(HarmoniaClassifier(epochs=20), {"learning_rate": [1e-5, 5e-2]}, cv=2).fit(x, y)
    assert search.best_params_["learning_rate"] == 5e-2


def test_searches_on_a_graph_by_numbers_of_nodes(ring):
    x, y, edges = ring
    nodes = np.arange(len(x))
    on = OnGraph(HarmoniaClassifier(hops=2, epochs=150), x, edges)
    assert cross_val_score(on, nodes, y, cv=3).mean() > 0.6
    search = GridSearchCV(on, {"estimator__hops": [1, 2]}, cv=3).fit(nodes, y)
    assert search.best_params_ == {"estimator__hops": 2}


def test_the_same_seed_gives_the_same_model_on_any_number_of_threads(ring):
    x, y, edges = ring
    hashes = {
        HarmoniaClassifier(epochs=20, n_jobs=jobs, random_state=7).fit(x, y, graph=edges)._model.parameters_sha256() for jobs in (1, 2, 3)
    }
    assert len(hashes) == 1
    assert HarmoniaClassifier(epochs=20, random_state=8).fit(x, y, graph=edges)._model.parameters_sha256() not in hashes
