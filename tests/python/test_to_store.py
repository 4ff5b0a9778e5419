"""Checks scripts/to_store.py with objects that only look like those of PyTorch Geometric and DGL.

    python3 -m unittest tests/test_to_store.py
"""

import os
import pathlib
import sys
import tempfile
import types
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from open_store import open_store  # noqa: E402
from to_store import from_dgl, from_pyg  # noqa: E402


class Tensor:
    """What of a tensor the script may use."""

    def __init__(self, values, dtype=None):
        self.values = np.array(values, dtype)

    def detach(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return self.values


def data(**parts):
    """A Data of three nodes: 0 -> 1 twice, 2 -> 0, 1 -> 1."""
    whole = {
        "x": Tensor([[1, 2], [3, 4], [5, 6]], np.float64),
        "edge_index": Tensor([[0, 2, 0, 1], [1, 0, 1, 1]]),
        "y": Tensor([1, 0, 2]),
    }
    whole.update(parts)
    return types.SimpleNamespace(**whole)


class ToStore(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.TemporaryDirectory()
        self.addCleanup(self.root.cleanup)

    def store(self, item, write=from_pyg):
        directory = pathlib.Path(self.root.name) / f"s{len(os.listdir(self.root.name))}"
        write(item, directory, "own")
        return open_store(directory)

    def refused(self, reason, item, write=from_pyg):
        with self.assertRaisesRegex(ValueError, reason):
            write(item, pathlib.Path(self.root.name) / "never", "own")
        self.assertFalse([name for name in os.listdir(self.root.name) if name.startswith((".", "never"))])

    def same(self, arrays, **expected):
        self.assertEqual(sorted(arrays), sorted(expected))
        for name, values in expected.items():
            self.assertEqual(arrays[name].tolist(), values, name)

    def test_node_task(self):
        masks = {f"{part}_mask": Tensor([node == i for node in range(3)]) for i, part in enumerate(["train", "val", "test"])}
        meta, arrays = self.store(data(edge_weight=Tensor([0.5, 1, 2, 4], np.float32), **masks))
        self.same(
            arrays,
            # Node 0 points to 1 twice (0.5 + 2), node 1 to itself, node 2 to 0.
            row_ptr=[0, 1, 2, 3],
            col_idx=[1, 1, 0],
            edge_weights=[2.5, 4, 1],
            features=[[1, 2], [3, 4], [5, 6]],
            labels=[1, 0, 2],
            train=[0],
            valid=[1],
            test=[2],
        )
        types_ = [arrays[name].dtype for name in ("row_ptr", "col_idx", "features", "labels", "train")]
        self.assertEqual(types_, [np.uint64, np.uint32, np.float32, np.int32, np.uint32])
        counts = {"nodes": 3, "directed_edges": 3, "features": 2, "graphs": 1}
        expected = {"format": "harmonia-store", "version": 2, "name": "own", "level": "node", "classes": 3}
        self.assertEqual(meta, expected | {"multi_label": False, "counts": counts})

    def test_edge_attr_is_a_weight_only_as_one_float_column(self):
        _, arrays = self.store(data(edge_attr=Tensor([[1.0], [2], [3], [4]])))
        self.assertEqual(arrays["edge_weights"].tolist(), [4, 4, 2])
        for attributes in (Tensor([[1.0, 2]] * 4), Tensor([[0], [1], [2], [0]])):
            with self.assertWarnsRegex(UserWarning, "left out"):
                _, arrays = self.store(data(edge_attr=attributes))
            self.assertNotIn("edge_weights", arrays)

    def test_labels(self):
        meta, arrays = self.store(data(y=Tensor([[1, 0], [0, 0], [1, 1]], np.float32)))
        self.assertEqual((meta["multi_label"], meta["classes"], arrays["labels"].shape), (True, 2, (3, 2)))
        meta, arrays = self.store(data(y=Tensor([[1.0], [np.nan], [0.0]])))
        self.assertEqual((meta["multi_label"], arrays["labels"].tolist()), (False, [1, -1, 0]))
        self.refused("does not fit numbers", data(y=Tensor([0.5, 1, 2])))
        self.refused("no class 0", data(y=Tensor([1, -1, 1])))
        self.refused("0 or 1", data(y=Tensor([[1, 2], [0, 0], [1, 1]])))
        self.refused("expected labels", data(y=None))

    def test_several_splits(self):
        train = Tensor([[True, False], [False, True], [False, False]])
        test = Tensor([[False, True], [False, False], [True, False]])
        _, arrays = self.store(data(train_mask=train, test_mask=test))
        self.assertEqual(arrays["splits"].tolist(), [[1, 0, 3], [3, 1, 0]])
        self.assertNotIn("train", arrays)
        self.refused("two parts", data(train_mask=train, test_mask=train))

    def test_graph_task(self):
        empty = Tensor(np.zeros((2, 0)), np.int64)
        one = types.SimpleNamespace(x=Tensor([[7.0, 8]]), edge_index=empty, y=Tensor([0]))
        meta, arrays = self.store([data(y=Tensor([1])), one, data(y=Tensor([1]))])
        self.assertEqual((meta["level"], arrays["graph_ptr"].tolist()), ("graph", [0, 3, 4, 7]))
        self.assertEqual(arrays["labels"].tolist(), [1, 0, 1])
        self.assertEqual(arrays["row_ptr"].tolist(), [0, 1, 2, 3, 3, 4, 5, 6])
        self.assertEqual(arrays["col_idx"].tolist(), [1, 1, 0, 5, 5, 4])
        meta, arrays = self.store([data(y=Tensor([[1, 0]])), data(y=Tensor([[1, 1]]))])
        self.assertEqual((meta["level"], meta["multi_label"], arrays["labels"].tolist()), ("graph", True, [[1, 0], [1, 1]]))
        # A label per node in every graph: a node task over many graphs.
        meta, arrays = self.store([data(), data(y=Tensor([0, 0, 1]))])
        self.assertEqual((meta["level"], arrays["labels"].tolist()), ("node", [1, 0, 2, 0, 0, 1]))
        self.refused("different numbers of features", [data(y=Tensor([1])), data(x=Tensor([[1.0]] * 3), y=Tensor([0]))])
        self.refused("at least one graph", [])

    def test_a_dataset_that_passes_edge_index_on_is_still_many_graphs(self):
        class Dataset:
            edge_index = Tensor([[0, 2, 0, 1], [1, 0, 1, 1]])

            def indices(self):
                return range(2)

            def __iter__(self):
                return iter([data(y=Tensor([0])), data(y=Tensor([1]))])

        meta, arrays = self.store(Dataset())
        self.assertEqual((meta["level"], arrays["graph_ptr"].tolist()), ("graph", [0, 3, 6]))

    def test_bad_graphs(self):
        self.refused("expected 0 to 2", data(edge_index=Tensor([[0], [3]])))
        self.refused("feature 1 of node 0 is nan", data(x=Tensor([[1, np.nan], [3, 4], [5, 6]])))
        self.refused("weight > 0", data(edge_weight=Tensor([1.0, 1, 0, 1])))
        self.refused("expected node features", data(x=None))
        self.refused("4 nodes but 3 rows", data(num_nodes=4))
        self.store(data())
        with self.assertRaisesRegex(FileExistsError, "already exists"):
            from_pyg(data(), pathlib.Path(self.root.name) / "s0", "own")

    def test_dgl(self):
        graph = types.SimpleNamespace(
            ndata={"feat": Tensor([[1.0], [2], [3]]), "label": Tensor([0, 1, 1]), "train_mask": Tensor([1, 0, 1], bool)},
            edata={"w": Tensor([2.0, 3])},
            edges=lambda: (Tensor([0, 1]), Tensor([2, 2])),
            num_nodes=lambda: 3,
        )
        _, arrays = self.store(graph, from_dgl)
        self.assertEqual((arrays["row_ptr"].tolist(), arrays["col_idx"].tolist()), ([0, 1, 2, 2], [2, 2]))
        self.assertEqual((arrays["edge_weights"].tolist(), arrays["train"].tolist()), ([2, 3], [0, 2]))
        meta, arrays = self.store([(graph, Tensor(1)), (graph, Tensor([0]))], from_dgl)
        self.assertEqual((meta["level"], arrays["labels"].tolist()), ("graph", [1, 0]))


if __name__ == "__main__":
    unittest.main()
