#!/usr/bin/env python3
"""Opens a store with numpy and prints what it holds; arrays are mapped, so a store of any size opens at once.

    python3 scripts/open_store.py STORE
"""

import json
import pathlib
import sys

import numpy as np


def open_store(directory):
    """(meta, arrays by file name without .npy)."""
    directory = pathlib.Path(directory)
    meta = json.loads((directory / "meta.json").read_text(encoding="utf-8"))
    return meta, {path.stem: np.load(path, mmap_mode="r") for path in sorted(directory.glob("*.npy"))}


def main(directory):
    meta, arrays = open_store(directory)
    features = arrays["features"] if "features" in arrays else arrays["features_val"]
    print(f"{meta['name']}: {meta['level']} task, {meta['classes']} classes")
    print(f"{len(arrays['row_ptr']) - 1} nodes, {len(arrays['col_idx'])} directed edges, {features.size} feature values")
    if "node_order" in arrays:
        print(f"nodes were reordered ({meta.get('node_order', 'method unknown')}): node 0 is {arrays['node_order'][0]} in the source")
    for name, array in arrays.items():
        print(f"  {name:<13} {array.dtype!s:<8} {'x'.join(map(str, array.shape))}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if not (pathlib.Path(sys.argv[1]) / "meta.json").is_file():
        sys.exit(f"{sys.argv[1]} is not a store: expected a meta.json in it")
    main(sys.argv[1])
