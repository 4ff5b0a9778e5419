#!/usr/bin/env python3
"""Checks loss, logits and every gradient of `harmonia gradients` against PyTorch autograd, in f64.

Writes random stores with numpy (which also shows the store format), asks harmonia for fresh parameters and gradients,
recomputes them with the model written out plainly, and compares.

    pip install torch numpy safetensors
    cargo build --release && python3 scripts/check_gradients.py
"""

import json
import pathlib
import subprocess
import tempfile

import numpy as np
import torch
from safetensors.numpy import save_file
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
HARMONIA = ROOT / "target" / "release" / "harmonia"
TOLERANCE = 1e-10  # f64 sums in another order


def write_store(directory, rng, nodes, features, classes, level, directed, weighted):
    """A random store; node 0 is isolated, node 1 has a self-loop."""
    directory.mkdir()
    adjacency = np.triu(rng.random((nodes, nodes)) < 0.2) if not directed else rng.random((nodes, nodes)) < 0.2
    graph_ptr = np.array([0, nodes // 3, nodes]) if level == "graph" else np.array([0, nodes])
    block = np.searchsorted(graph_ptr, np.arange(nodes), side="right")
    adjacency &= block[:, None] == block[None, :]
    adjacency[0, :] = adjacency[:, 0] = False
    adjacency[1, 1] = True
    if not directed:
        adjacency |= adjacency.T
    weights = np.where(adjacency, 1.0, 0.0)
    if weighted:
        factor = rng.random((nodes, nodes)) + 0.5
        weights = (weights * (factor if directed else factor + factor.T)).astype(np.float32).astype(np.float64)
    rows, columns = np.nonzero(adjacency)
    np.save(directory / "row_ptr.npy", np.concatenate([[0], np.cumsum(adjacency.sum(1))]))
    np.save(directory / "col_idx.npy", columns)
    if weighted:
        np.save(directory / "edge_weights.npy", weights[rows, columns].astype(np.float32))
    x = rng.uniform(-1, 1, (nodes, features)).astype(np.float32)
    np.save(directory / "features.npy", x)
    units = 2 if level == "graph" else nodes
    labels = rng.integers(0, classes, units)
    np.save(directory / "labels.npy", labels)
    train = np.arange(units) if level == "graph" else np.arange(nodes // 2)
    np.save(directory / "train.npy", train)
    np.save(directory / "valid.npy", np.array([], dtype=np.int64))
    np.save(directory / "test.npy", np.array([], dtype=np.int64))
    np.save(directory / "graph_ptr.npy", graph_ptr)
    meta = {"format": "harmonia-store", "version": 1, "name": "random", "level": level, "classes": classes}
    (directory / "meta.json").write_text(json.dumps(meta))
    degree = weights.sum(1)
    weights[degree == 0, degree == 0] = 1.0
    walk = torch.tensor(weights / weights.sum(1, keepdims=True))
    return walk, torch.tensor(x, dtype=torch.float64), torch.tensor(labels), torch.tensor(train), graph_ptr


def logits_of(p, x, walk, graph_ptr, noise, active, level):
    """The model of the README, written out."""
    experts = len({name.split(".")[1] for name in p if name.startswith("experts.")})
    layers = len({name.split(".")[3] for name in p if name.startswith("experts.0.")})
    scores = p["embeddings"] @ p["router.gate"] + noise * torch.sigmoid(p["embeddings"] @ p["router.noise"])
    chosen = torch.zeros_like(scores).scatter(1, scores.topk(active, dim=1).indices, 1.0)
    gates = chosen * torch.sigmoid(scores)
    responses = 0
    for c in range(experts):
        h = x.unsqueeze(-1)
        for l in range(layers):
            h = h @ p[f"experts.{c}.layers.{l}.weight"].T + p[f"experts.{c}.layers.{l}.bias"]
            h = torch.relu(h) if l + 1 < layers else h
        responses = responses + gates[:, c] * (h * p["coefficients"]).sum(-1)
    strength = p["hop_logits"] ** 2 + 1e-8
    theta = strength / strength.sum(0)
    state, propagated = 0, responses
    for t in range(theta.shape[0]):
        state = state + theta[t] * propagated
        propagated = walk @ propagated
    if level == "graph":
        state = torch.stack([state[a:b].sum(0) for a, b in zip(graph_ptr[:-1], graph_ptr[1:])])
    return state @ p["readout.weight"] + p["readout.bias"]


def run(*arguments):
    subprocess.run([str(HARMONIA), *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def check(directory, case, seed):
    level, classes, directed, weighted, active, hops = case
    rng = np.random.default_rng(seed)
    store = directory / f"store-{seed}"
    walk, x, labels, train, graph_ptr = write_store(store, rng, 30, 9, classes, level, directed, weighted)
    settings = ["--store", store, "--set", "init.readout_scale=1", "--set", "init.response_slope=0", "--seed", seed]
    settings += ["--set", f"model.active={active}", "--set", f"model.hops={hops}"]
    parameters, noise_file, out = (directory / f"{name}-{seed}" for name in ("p", "n", "g"))
    run("init", *settings, "--out", parameters)
    noise = rng.standard_normal((9, 4))
    save_file({"noise": noise}, noise_file)
    run("gradients", *settings, "--params", parameters, "--noise", noise_file, "--precision", "f64", "--out", out)

    ours = load_file(out)
    p = {name: value.double().requires_grad_() for name, value in load_file(parameters).items()}
    logits = logits_of(p, x, walk, graph_ptr, torch.tensor(noise), active, level)
    if classes == 2:
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits[train, 0], labels[train].double())
    else:
        loss = torch.nn.functional.cross_entropy(logits[train], labels[train])
    loss.backward()
    theirs = {f"grad.{name}": value.grad if value.grad is not None else torch.zeros_like(value) for name, value in p.items()}
    theirs |= {"loss": loss.detach(), "logits": logits.detach()}
    assert set(ours) == set(theirs), set(ours) ^ set(theirs)
    worst = max(float((ours[n] - theirs[n]).abs().max() / (1e-6 + theirs[n].abs().max())) for n in ours)
    print(f"{level:5} {classes} classes, directed {directed}, weighted {weighted}, m {active}, T {hops}: worst {worst:.1e}")
    assert worst < TOLERANCE, f"case {case}: relative difference {worst}"


def main():
    cases = [
        ("node", 3, False, False, 2, 4),
        ("node", 2, False, False, 1, 1),
        ("node", 5, True, False, 3, 8),
        ("node", 3, True, True, 4, 3),
        ("graph", 2, False, False, 2, 5),
        ("graph", 3, False, True, 2, 2),
    ]
    with tempfile.TemporaryDirectory() as directory:
        for seed, case in enumerate(cases):
            check(pathlib.Path(directory), case, seed)
    print(f"{len(cases)} cases agree with PyTorch to {TOLERANCE}")


if __name__ == "__main__":
    main()
