"""What tests share: small graphs, the command line, real data."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


def binary(name: str) -> str:
    """A binary of the command line, as `cargo test` has built it."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = target / "debug" / name
    if not path.is_file():
        pytest.skip(f"skipped: {path} is not built (cargo build --bins)")
    return str(path)


def command(*words: object, **more: object) -> str:
    """What a command prints."""
    name, *rest = [str(word) for word in words]
    done = subprocess.run([binary(name), *rest], capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def data_directory() -> Path:
    """Where real datasets are: HARMONIA_DATA, or ../shared/data."""
    path = Path(os.environ.get("HARMONIA_DATA") or ROOT.parent / "shared" / "data")
    if not (path / "Cora").is_dir():
        pytest.skip("skipped: Cora is not here (HARMONIA_DATA)")
    return path


@pytest.fixture
def ring():
    """60 nodes on a ring; the class is the sign of the neighbours' first feature."""
    x = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
    after = (np.arange(60) + 1) % 60
    edges = np.stack([np.r_[np.arange(60), after], np.r_[after, np.arange(60)]])
    y = (np.roll(x[:, 0], 1) + np.roll(x[:, 0], -1) > 0).astype(int)
    return x, y, edges
