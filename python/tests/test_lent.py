"""X without a copy: where it is read, that bits do not depend on it, and what may be written to it when."""

import gc
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from harmonia import HarmoniaClassifier, _inputs, load


def model(**more):
    return HarmoniaClassifier(hops=2, epochs=8, normalise="none", **more)


def address(x):
    return _inputs.dataset_of(x)[0].x_address()


def unlendable(x):
    """The same numbers in memory that Python can write to, whatever flags of numpy say."""
    return np.frombuffer(bytearray(x.tobytes()), dtype=x.dtype).reshape(x.shape)


def test_rows_of_float32_are_read_where_they_are(ring):
    x, *_ = ring
    assert address(x) == x.ctypes.data
    assert address(x[10:50]) == x.ctypes.data + 10 * 3 * 4
    still = np.frombuffer(x.tobytes(), dtype=np.float32).reshape(x.shape)
    assert not still.flags.writeable and address(still) == still.ctypes.data
    for other in (unlendable(x), np.asfortranarray(x), x.astype(np.float64), x[:, :2]):
        assert address(other) != other.ctypes.data


def test_bits_are_those_of_a_copy(ring):
    x, y, edges = ring
    copies = [x, unlendable(x), np.asfortranarray(x), x.astype(np.float64)]
    fitted = [model().fit(copy, y, graph=edges) for copy in copies]
    assert len({one._model.parameters_sha256() for one in fitted}) == 1
    logits = [one.decision_function(copy, graph=edges) for one in fitted for copy in copies]
    assert all(np.array_equal(one, logits[0]) for one in logits)
    assert len({one.explain_local([3])[0].logit for one in fitted}) == 1


GROWTH = """
import numpy as np, resource
from harmonia import _inputs
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
x = np.random.default_rng(0).random((100_000, 800), dtype=np.float32)
before = peak()
data, _ = _inputs.dataset_of(x)
print(x.nbytes / 2**20, peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="skipped: peaks of memory are counted in KiB on Linux")
def test_a_large_x_takes_no_memory_beside_itself():
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    size, growth = map(float, done.stdout.split())
    # What grows is a graph without edges, offsets of 8 bytes for each of 100,000 nodes.
    assert size > 300 and growth < size / 20, done.stdout


def test_x_is_read_only_while_the_engine_works_and_free_afterwards(ring):
    x, y, edges = ring
    rows = x[:]
    seen = []

    def look(record):
        seen.append((x.flags.writeable, rows.flags.writeable))

    fitted = model().fit(rows, y, graph=edges, callback=look)
    assert set(seen) == {(False, False)} and x.flags.writeable and rows.flags.writeable

    def write(record):
        rows[0, 0] = 1.0

    with pytest.raises(ValueError, match="read-only"):
        model().fit(rows, y, graph=edges, callback=write)
    assert x.flags.writeable and rows.flags.writeable
    fitted.predict()
    fitted.predict(rows, graph=edges)
    fitted.explain_global()
    assert x.flags.writeable and rows.flags.writeable
    x.flags.writeable = False
    model().fit(x, y, graph=edges)
    assert not x.flags.writeable


def test_several_fits_at_once_share_an_array(ring):
    x, y, edges = ring
    rows = x[:]
    expected = model().fit(x, y, graph=edges)._model.parameters_sha256()
    found = []

    def fit(array):
        for _ in range(10):
            found.append(model(n_jobs=1).fit(array, y, graph=edges)._model.parameters_sha256())

    threads = [threading.Thread(target=fit, args=(array,)) for array in (x, rows, x[:])]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert found == [expected] * 30 and x.flags.writeable and rows.flags.writeable


def test_a_model_keeps_its_array(ring):
    x, y, edges = ring
    own = x.copy()
    fitted = model().fit(own, y, graph=edges)
    before = fitted.decision_function()
    del own
    gc.collect()
    np.random.default_rng(0).normal(size=(1000, 60, 3))
    np.testing.assert_array_equal(fitted.decision_function(), before)


def test_what_is_written_after_the_fit_is_noticed(ring, tmp_path):
    x, y, edges = ring
    fitted = model().fit(x, y, graph=edges)
    before, kept = fitted.decision_function(), x[5, 1]
    x[5, 1] += 1e-3
    for ask in (fitted.predict, lambda: fitted.explain_local([3]), fitted.explain_global, lambda: fitted.save(tmp_path / "d", data=True)):
        with pytest.raises(ValueError, match="X was changed after the fit"):
            ask()
    # The model itself is as it was: it predicts what is given, is saved and pickled.
    assert not np.array_equal(fitted.decision_function(x, graph=edges), before)
    fitted.save(tmp_path / "m")
    assert load(tmp_path / "m")._model.parameters_sha256() == fitted._model.parameters_sha256()
    assert pickle.loads(pickle.dumps(fitted)).predict(x, graph=edges).shape == (60,)
    x[5, 1] = kept
    np.testing.assert_array_equal(fitted.decision_function(), before)


def test_what_is_written_during_a_fit_by_a_view_from_before_is_noticed(ring):
    x, y, edges = ring
    view = x[:5]

    def write(record):
        view[0, 0] += 1

    with pytest.raises(RuntimeError, match="X was changed while the model was fitted"):
        model().fit(x, y, graph=edges, callback=write)
    assert x.flags.writeable


def test_results_come_out_without_a_copy(ring):
    x, y, edges = ring
    fitted = model().fit(x, y, graph=edges)
    logits = fitted._model.logits()
    # The memory is that of the engine's own vector: numpy holds its owner.
    base = logits.base
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    assert base is not None and not isinstance(base, np.ndarray) and logits.flags.writeable
