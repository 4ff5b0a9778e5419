"""Beside the interpreter: its lock is free, Ctrl-C is heard, callbacks are called, nothing is left behind, nothing is heavy."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import harmonia
from harmonia import HarmoniaClassifier


def test_other_threads_go_on_during_a_fit(ring):
    x, y, edges = ring
    count, done = 0, threading.Event()

    def tick():
        nonlocal count
        while not done.is_set():
            count += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    HarmoniaClassifier(epochs=2000, patience=0, n_jobs=1).fit(np.tile(x, (20, 1)), np.tile(y, 20))
    seconds = time.perf_counter() - start
    done.set()
    thread.join()
    assert count > 50 * seconds, f"{count} in {seconds:.2f} s"


def test_ctrl_c_stops_a_fit_and_the_next_one_works(ring):
    x, y, edges = ring
    model = HarmoniaClassifier(epochs=10_000_000, patience=0)
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y, graph=edges)
    assert time.perf_counter() - start < 20
    assert "_model" not in model.__dict__
    assert model.set_params(epochs=5).fit(x, y, graph=edges).score(x, y, graph=edges) >= 0


def test_callbacks_hear_every_epoch_and_may_end_the_fit(ring, caplog):
    x, y, edges = ring
    heard = []
    model = HarmoniaClassifier(epochs=12, patience=0).fit(x, y, graph=edges, callback=heard.append)
    assert [record["epoch"] for record in heard] == list(range(1, 13)) and heard == model.history_

    class Bar:
        count = 0

        def update(self, by):
            self.count += by

    bar = Bar()
    HarmoniaClassifier(epochs=12, patience=0).fit(x, y, graph=edges, callback=bar)
    assert bar.count == 12

    def stop(record):
        if record["epoch"] == 3:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        HarmoniaClassifier(epochs=1000).fit(x, y, graph=edges, callback=stop)
    with caplog.at_level(logging.DEBUG, logger="harmonia"):
        HarmoniaClassifier(epochs=3, patience=0).fit(x, y, graph=edges)
    assert sum(record.message.startswith("epoch ") for record in caplog.records) == 3
    assert any("preset own" in record.message for record in caplog.records)


def resident() -> float:
    """Megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="skipped: memory is read from /proc")
def test_a_thousand_fits_leave_nothing_behind(ring):
    x, y, edges = ring
    model = HarmoniaClassifier(hops=2, experts=2, bases=2, hidden=[4], epochs=2, n_jobs=1)

    def fit(times):
        for _ in range(times):
            model.fit(x, y, graph=edges)
            model.predict(x, graph=edges)

    fit(200)
    before = resident()
    fit(1000)
    # A model with its data is 50 kB: a thousand that stay would be 50 MB.
    assert resident() - before < 10


def test_a_fork_has_threads_of_its_own(ring):
    x, y, edges = ring
    HarmoniaClassifier(epochs=3).fit(x, y, graph=edges)
    child = os.fork()
    if child == 0:
        HarmoniaClassifier(epochs=3).fit(x, y, graph=edges)
        os._exit(0)
    for _ in range(300):
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("a fit after a fork did not end")
    assert status == 0


def test_importing_brings_numpy_alone():
    code = "import sys, harmonia; print(' '.join(sorted(m.split('.')[0] for m in sys.modules)))"
    modules = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    assert {"numpy", "harmonia"} <= modules
    assert not modules & {"sklearn", "pandas", "scipy", "matplotlib", "torch", "networkx", "polars"}


def test_the_wheel_is_small_and_for_every_python():
    wheel = os.environ.get("HARMONIA_WHEEL")
    if not wheel:
        pytest.skip("skipped: HARMONIA_WHEEL does not say where the wheel is")
    assert "cp39-abi3-manylinux" in wheel
    names = zipfile.ZipFile(wheel).namelist()
    assert {"harmonia/py.typed", "harmonia/_harmonia.pyi"} <= set(names)
    assert os.path.getsize(wheel) < 15e6


def test_versions_agree():
    assert harmonia.__version__ == "0.1.0"
