#!/usr/bin/env python3
"""Time of a fit on Cora: from Python and by the command line, in turn; the ratio is to be at most 1.05.

    HARMONIA_DATA=DIR python3 scripts/bench_python.py target/release/harmonia-train [--epochs 200] [--times 5]

Both were built in the same profile. Seconds are those of training (`summary.seconds`); beside them those of the whole `fit`, and of the
whole command, which also starts a process, opens the dataset and writes a run directory.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harmonia import HarmoniaClassifier, datasets


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", help="harmonia-train")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    data = datasets.load("cora")
    there: list[tuple[float, float]] = []
    here: list[tuple[float, float]] = []
    for _ in range(arguments.times):
        with tempfile.TemporaryDirectory() as scratch:
            words = [arguments.command, "--dataset", "cora", "--epochs", str(arguments.epochs), "--set", "train.patience=0", "--offline"]
            start = time.perf_counter()
            subprocess.run([*words, "--out", f"{scratch}/run"], check=True, capture_output=True)
            whole = time.perf_counter() - start
            summary = json.loads((Path(scratch) / "run" / "summary.json").read_text())
            there.append((summary["seconds"], whole))
        start = time.perf_counter()
        model = HarmoniaClassifier(epochs=arguments.epochs, patience=0).fit(data)
        here.append((model.summary_["seconds"], time.perf_counter() - start))
        assert model.summary_["epochs"] == summary["epochs"] and model.summary_["test"] == summary["test"]
    training = [statistics.median(one[0] for one in side) for side in (here, there)]
    whole = [statistics.median(one[1] for one in side) for side in (here, there)]
    print(f"training, {arguments.epochs} epochs: Python {training[0]:.3f} s, command line {training[1]:.3f} s, ratio {training[0] / training[1]:.3f}")
    print(f"all of it: fit {whole[0]:.3f} s, command {whole[1]:.3f} s, ratio {whole[0] / whole[1]:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
