"""What `harmonia study --peers PYTHON` asks by files: a store, a task, and where the answer goes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray


class Store(NamedTuple):
    """A store as it lies on disk, arrays mapped: nodes in its own order, with all splits."""

    meta: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]

    @property
    def nodes(self) -> int:
        """How many."""
        return int(self.meta["counts"]["nodes"])

    def features(self) -> Any:
        """X, nodes x columns."""
        arrays, width = self.arrays, int(self.meta["counts"]["features"])
        if "features" in arrays:
            return torch.tensor(np.asarray(arrays["features"], dtype=np.float32).reshape(self.nodes, width))
        x = torch.zeros(self.nodes, width)
        rows = np.repeat(np.arange(self.nodes), np.diff(arrays["features_ptr"]))
        x[torch.tensor(rows), torch.tensor(arrays["features_idx"].astype(np.int64))] = torch.tensor(np.asarray(arrays["features_val"]))
        return x

    def edges(self, nodes: int) -> Any:
        """2 x E, of the first so many nodes: the node below reads the one above it."""
        pointers = np.asarray(self.arrays["row_ptr"][: nodes + 1]).astype(np.int64)
        readers = np.repeat(np.arange(nodes), np.diff(pointers))
        return torch.tensor(np.stack([np.asarray(self.arrays["col_idx"][: pointers[-1]], dtype=np.int64), readers]))


def answer(what: str, of: Callable[[Store, Any], dict[str, Any]]) -> None:
    """Reads what is asked and writes what ``of`` answers."""
    parser = argparse.ArgumentParser(description=what)
    parser.add_argument("--store", required=True, type=Path)
    parser.add_argument("--task", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    # Studies run processes side by side.
    torch.set_num_threads(1)
    meta = json.loads((options.store / "meta.json").read_text(encoding="utf-8"))
    arrays = {path.stem: np.load(path, mmap_mode="r") for path in sorted(options.store.glob("*.npy"))}
    found = of(Store(meta, arrays), json.loads(options.task.read_text(encoding="utf-8")))
    options.out.write_text(json.dumps({**found, "torch": torch.__version__}), encoding="utf-8")
