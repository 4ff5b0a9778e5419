"""Checks every variant of scripts/peers/torch_epoch.py: loss and gradients against the model in dense matrices.

    python3 -m unittest discover -s tests/python -p test_torch_epoch.py      # needs torch and numpy
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np

try:
    import torch
except ImportError:
    print("skipped: torch is not here (pip install -r scripts/peers/requirements.txt)", file=sys.stderr)
    raise unittest.SkipTest("torch is not here (pip install -r scripts/peers/requirements.txt)") from None

PEERS = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "peers"
sys.path.insert(0, str(PEERS))
import torch_epoch as peer  # noqa: E402

SINGLE_TOLERANCE = 1e-5  # f32 sums of a few hundred terms, taken in another order
DOUBLE_TOLERANCE = 1e-12  # the same in f64: what is left is a wrong formula
NODES, FEATURES, ACTIVE = 60, 7, 2
SIZES = {"experts": 4, "bases": 3, "hidden": [6, 5], "embedding": 4, "hops": 4}


def write_store(directory, classes=3, sparse=False, weighted=False, multi_label=False):
    """A random directed graph: node 0 has no neighbours, node 1 has a self-loop, features take four values."""
    directory.mkdir()
    random = np.random.default_rng(5)
    adjacency = random.random((NODES, NODES)) < 0.1
    adjacency[0] = False
    adjacency[1, 1] = True
    rows, columns = np.nonzero(adjacency)
    weights = random.uniform(0.5, 2, len(rows)).astype(np.float32) if weighted else np.ones(len(rows), np.float32)
    x = random.choice([0.0, 0.0, -1.0, 0.5, 2.0], (NODES, FEATURES)).astype(np.float32)
    labels = random.integers(0, 2, (NODES, classes)) if multi_label else random.integers(0, classes, NODES)
    arrays = {"row_ptr": np.concatenate([[0], np.cumsum(adjacency.sum(1))]), "col_idx": columns, "labels": labels}
    if sparse:
        arrays["features_ptr"] = np.concatenate([[0], np.cumsum((x != 0).sum(1))])
        arrays |= {"features_idx": np.nonzero(x)[1], "features_val": x[x != 0]}
    else:
        arrays["features"] = x
    if weighted:
        arrays["edge_weights"] = weights
    for name, array in (arrays | {"train": np.arange(0, NODES, 2)}).items():
        np.save(directory / f"{name}.npy", array)
    counts = {"nodes": NODES, "directed_edges": len(rows), "features": FEATURES, "graphs": 1}
    meta = {"format": "harmonia-store", "version": 2, "name": "random", "level": "node", "classes": classes}
    (directory / "meta.json").write_text(json.dumps(meta | {"multi_label": multi_label, "counts": counts}))
    walk = np.zeros((NODES, NODES))
    walk[rows, columns] = weights
    walk[0, 0] = 1
    return x, walk / walk.sum(1, keepdims=True), labels


def dense_loss(p, x, walk, labels, noise, softmax):
    """The model with dense matrices, feature by feature; nothing of the script is used."""
    scores = p["embeddings"] @ p["router.gate"] + noise * torch.sigmoid(p["embeddings"] @ p["router.noise"])
    responses = torch.zeros_like(x)
    for k in range(FEATURES):
        best = sorted(range(SIZES["experts"]), key=lambda c: (-scores[k, c].item(), c))[:ACTIVE]
        for c in best:
            hidden = x[:, k : k + 1]
            for index in range(3):
                weight, bias = (p[f"experts.{c}.layers.{index}.{part}"] for part in ("weight", "bias"))
                hidden = hidden @ weight.T + bias
                hidden = hidden.clamp(min=0) if index < 2 else hidden
            column = torch.sigmoid(scores[k, c]) * (hidden @ p["coefficients"][k])
            responses = responses + column[:, None] * torch.eye(FEATURES, dtype=x.dtype)[k]
    strength = p["hop_logits"] ** 2 + 1e-8
    theta = strength / strength.sum(0)
    state = sum(theta[t] * (torch.linalg.matrix_power(walk, t) @ responses) for t in range(SIZES["hops"]))
    logits = (state @ p["readout.weight"] + p["readout.bias"])[::2]
    if softmax:
        return -(logits - logits.logsumexp(1, keepdim=True)).gather(1, labels[::2, None]).mean()
    y = labels[::2].reshape(len(logits), -1)
    return -torch.where(y == 1, torch.sigmoid(logits), torch.sigmoid(-logits)).log().sum() / len(logits)


class TorchEpoch(unittest.TestCase):
    def setUp(self):
        root = tempfile.TemporaryDirectory()
        self.addCleanup(root.cleanup)
        self.root = pathlib.Path(root.name)
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        # On a problem this small threads only wait for each other, on a busy machine for minutes.
        torch.set_num_threads(1)

    def start(self, outputs, dtype):
        """Fresh parameters, hop logits and bias moved off their symmetric start, and routing noise."""
        p = peer.fresh_parameters(peer.shapes(FEATURES, outputs, **SIZES), 1, dtype)
        random = torch.Generator().manual_seed(2)
        with torch.no_grad():
            for name in ("hop_logits", "readout.bias"):
                p[name] += torch.randn(p[name].shape, generator=random, dtype=torch.float64).to(dtype)
        return p, torch.randn(FEATURES, SIZES["experts"], generator=random, dtype=torch.float64).to(dtype)

    def compare(self, dtype, tolerance, outputs=3, **store):
        directory = self.root / f"store{len(list(self.root.iterdir()))}"
        x, walk, labels = write_store(directory, **store)
        p, noise = self.start(outputs, dtype)
        exact = {name: value.detach().double().requires_grad_() for name, value in p.items()}
        dense = (torch.from_numpy(part) for part in (x.astype(np.float64), walk, labels))
        loss = dense_loss(exact, *dense, noise.double(), outputs > 2 and not store.get("multi_label"))
        loss.backward()
        problem = peer.Problem(directory, dtype=dtype)
        for variant in peer.VARIANTS:
            for value in p.values():
                value.grad = None
            ours = peer.Model(variant, problem, p, ACTIVE).loss(noise)
            ours.backward()
            self.assertLess(abs(ours.item() - loss.item()), tolerance * loss.item(), variant)
            for name, value in p.items():
                if value.grad is None:  # an expert nobody chose
                    value.grad = torch.zeros_like(value)
                reference = exact[name].grad if exact[name].grad is not None else torch.zeros_like(exact[name])
                difference = (value.grad.double() - reference).abs().max().item()
                scale = max(g.grad.abs().max().item() for g in exact.values() if g.grad is not None)
                self.assertLessEqual(difference, tolerance * scale, f"{variant}: gradient of {name}")

    def test_every_variant_is_the_dense_model(self):
        self.compare(torch.float32, SINGLE_TOLERANCE)
        self.compare(torch.float64, DOUBLE_TOLERANCE)

    def test_weights_and_sparse_features(self):
        self.compare(torch.float64, DOUBLE_TOLERANCE, weighted=True, sparse=True)

    def test_two_classes_are_one_logit_and_many_labels_are_summed(self):
        self.compare(torch.float64, DOUBLE_TOLERANCE, outputs=1, classes=2)
        self.compare(torch.float64, DOUBLE_TOLERANCE, outputs=3, multi_label=True)

    def test_equal_scores_go_to_the_lower_expert(self):
        write_store(self.root / "store")
        p, _ = self.start(3, torch.float64)
        with torch.no_grad():
            p["router.gate"].zero_()
        _, chosen = peer.Model("routed", peer.Problem(self.root / "store", dtype=torch.float64), p, ACTIVE).route(None)
        self.assertEqual(chosen.tolist(), [[0, 1]] * FEATURES)

    def test_several_splits_are_taken_by_seed(self):
        write_store(self.root / "store")
        (self.root / "store" / "train.npy").unlink()
        splits = np.zeros((2, NODES), np.uint8)
        splits[0, [3, 5]], splits[1, [4]], splits[1, [3]] = 1, 1, 2
        np.save(self.root / "store" / "splits.npy", splits)
        trained = [peer.Problem(self.root / "store", seed).train.tolist() for seed in (0, 1, 2)]
        self.assertEqual(trained, [[3, 5], [4], [3, 5]])

    def test_a_table_of_distinct_values_is_refused(self):
        with self.assertRaisesRegex(ValueError, "a table saves nothing"):
            peer.Table(torch.arange(40.0).view(2, 20))

    def run_script(self, *arguments):
        flags = ["--experts", 4, "--bases", 3, "--hidden", "6,5", "--embedding", 4, "--hops", 4, "--threads", 1]
        command = [sys.executable, PEERS / "torch_epoch.py", "--store", self.root / "store", *flags, *arguments]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)

    def test_the_program_starts_from_given_parameters(self):
        write_store(self.root / "store")
        p, _ = self.start(3, torch.float32)
        header, data = {"__metadata__": {"harmonia": "{}"}}, b""
        for name, value in p.items():
            raw = value.detach().numpy().astype("<f8" if name == "embeddings" else "<f4").tobytes()
            kind = "F64" if name == "embeddings" else "F32"
            offsets = [len(data), len(data) + len(raw)]
            header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": offsets}
            data += raw
        text = json.dumps(header).encode()
        file = self.root / "p.safetensors"
        file.write_bytes(len(text).to_bytes(8, "little") + text + data)

        result = self.run_script("--variant", "classes", "--epochs", 3, "--no-noise", "--parameters", file)
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        expected = peer.Model("plain", peer.Problem(self.root / "store"), p, ACTIVE).loss().item()
        self.assertLess(abs(report["loss"] - expected), SINGLE_TOLERANCE * expected)
        self.assertEqual((report["variant"], len(report["all_seconds"]), report["threads"]), ("classes", 3, 1))
        self.assertGreater(report["peak_rss_bytes"], 0)

        result = self.run_script("--variant", "classes", "--bases", 9, "--parameters", file)
        self.assertEqual(result.returncode, 2)
        self.assertIn("expected `experts.0.layers.2.weight` of shape [9, 5]", result.stderr)


if __name__ == "__main__":
    unittest.main()
