#!/usr/bin/env python3
"""Times epochs of GNAN, NBM and NAM in PyTorch and in our engine, one after the other, from the same parameters.

    gnan  logits = sum_s rho(1 / (1 + s)) / |shell s| sum over j at distance s of sum_k f_k(x[j,k]);  nbm, nam  sum_k Wo[k] f_k(x[i,k])

Invariant: before anything is timed both have computed the same loss (to TOLERANCE), or the program stops.

    dense     gnan as published: rho of every pair of nodes, n x n, and all f_k of all nodes
    distinct  gnan as kindly as it can be written densely: rho of every distinct distance, rows of training nodes alone
    plain     nbm and nam: the networks at every value of training nodes, last layers folded into what follows

What does not fit into memory is computed in blocks, and anew in the backward pass (torch.utils.checkpoint). `--rows R` computes R of the n
rows of `dense`, whose logits must be those of `distinct`, and counts their processor time n / R times: an estimate, where n x n takes too long.

    python3 scripts/peers/family_epoch.py --bin target/release --store STORE --preset cora --model gnan

Prints one JSON object on stdout and a line for people on stderr.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from torch_epoch import Problem, read_parameters, tune_allocator

if __name__ == "__main__":
    tune_allocator()

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

VARIANTS = {"gnan": ("dense", "distinct"), "nbm": ("plain",), "nam": ("plain",)}
TOLERANCE = 1e-4  # both compute in f32 and sum up to 10^8 numbers
BLOCK_FLOATS = 1 << 22  # of a hidden layer at a time: a block stays in the cache
HIDDEN = {"gnan": [64, 64], "nbm": [256, 128, 128], "nam": [64, 64, 32]}
BASES = 100


def shapes(kind, features, outputs):
    """(name, shape) of every parameter of the published sizes."""

    def network(name, widths):
        for at, (inputs, units) in enumerate(zip(widths, widths[1:])):
            yield f"{name}.layers.{at}.weight", (units, inputs)
            yield f"{name}.layers.{at}.bias", (units,)

    ends = {"gnan": outputs, "nbm": BASES, "nam": 1}
    for expert in range(1 if kind == "nbm" else features):
        yield from network(f"experts.{expert}", [1, *HIDDEN[kind], ends[kind]])
    if kind == "gnan":
        yield from network("distance", [1, *HIDDEN[kind], 1])
        return
    if kind == "nbm":
        yield "coefficients", (features, BASES)
    yield "readout.weight", (features, outputs)
    yield "readout.bias", (outputs,)


def network(parameters, name, values):
    """A network of one number at every value: N to N x outputs; without its last layer, which is given back."""
    layers = sum(key.startswith(f"{name}.layers.") and key.endswith(".weight") for key in parameters)
    hidden = values.reshape(-1, 1)
    for at in range(layers - 1):
        weight, bias = (parameters[f"{name}.layers.{at}.{part}"] for part in ("weight", "bias"))
        hidden = torch.relu(torch.addmm(bias, hidden, weight.T))
    return hidden, parameters[f"{name}.layers.{layers - 1}.weight"], parameters[f"{name}.layers.{layers - 1}.bias"]


class PerFeature:
    """Networks of their own for some features: one product for all of them in every layer."""

    def __init__(self, parameters, features, depth):
        def together(at, part):
            return torch.stack([parameters[f"experts.{k}.layers.{at}.{part}"].detach() for k in range(features)])

        # As one tensor each, so that the optimizer has few of them.
        self.weights = [together(at, "weight").transpose(1, 2).contiguous().requires_grad_() for at in range(depth)]
        self.biases = [together(at, "bias").unsqueeze(1).contiguous().requires_grad_() for at in range(depth)]

    def __call__(self, x, span):
        """x: features of the span x N; gives features x N x outputs."""
        hidden = x.unsqueeze(2)
        for at, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            hidden = torch.baddbmm(bias[span], hidden, weight[span])
            if at + 1 < len(self.weights):
                hidden = torch.relu(hidden)
        return hidden


def spans(count, floats):
    """Slices of so many things that take so many floats each, to fit a block."""
    size = max(1, BLOCK_FLOATS // max(1, floats))
    return [slice(start, min(count, start + size)) for start in range(0, count, size)]


class Nbm:
    def __init__(self, problem, parameters, _):
        self.problem, self.parameters = problem, parameters
        self.x = problem.features[:, problem.train].T.contiguous()  # N x d

    def tensors(self):
        return list(self.parameters.values())

    def responses(self, x):
        p = self.parameters
        hidden, weight, bias = network(p, "experts.0", x)
        # a_k . (W h + b) = (a_k W) . h + a_k . b: the bases themselves are never made.
        folded, offset = p["coefficients"] @ weight, p["coefficients"] @ bias
        return torch.einsum("ikh,kh->ik", hidden.reshape(*x.shape, -1), folded) + offset

    def logits(self):
        blocks = spans(len(self.x), self.x.shape[1] * max(HIDDEN["nbm"]))
        f = torch.cat([checkpoint(self.responses, self.x[block], use_reentrant=False) for block in blocks])
        return torch.addmm(self.parameters["readout.bias"], f, self.parameters["readout.weight"])


class Nam:
    def __init__(self, problem, parameters, _):
        self.problem = problem
        self.x = problem.features[:, problem.train].contiguous()  # d x N
        self.networks = PerFeature(parameters, len(self.x), len(HIDDEN["nam"]) + 1)
        self.weight, self.bias = parameters["readout.weight"], parameters["readout.bias"]

    def tensors(self):
        return [*self.networks.weights, *self.networks.biases, self.weight, self.bias]

    def logits(self):
        blocks = spans(len(self.x), self.x.shape[1] * max(HIDDEN["nam"]))
        run = lambda block: self.networks(self.x[block], block).squeeze(2)  # noqa: E731
        f = torch.cat([checkpoint(run, block, use_reentrant=False) for block in blocks])
        return torch.addmm(self.bias, f.T, self.weight)


class Gnan:
    def __init__(self, problem, parameters, variant, few=None):
        self.problem, self.variant, self.few = problem, variant, few
        self.x = torch.cat([problem.features, torch.ones(1, problem.features.shape[1])])
        self.networks = PerFeature(parameters, len(self.x), len(HIDDEN["gnan"]) + 1)
        self.distance = {name: tensor for name, tensor in parameters.items() if name.startswith("distance")}
        distances = shortest_paths(problem)
        rows = torch.arange(len(distances)) if variant == "dense" else problem.train
        distances = distances[rows if few is None else problem.train[:few]].long()
        self.farthest = int(distances.max())
        counts = torch.stack([torch.bincount(row[row >= 0], minlength=self.farthest + 1) for row in distances])
        share = 1.0 / counts.clamp(min=1).gather(1, distances.clamp(min=0)).float()
        # 1 / (1 + s) and 1 / |shell|, which is 0 for what cannot be reached.
        self.share = torch.where(distances >= 0, share, torch.zeros(()))
        self.inverse = 1.0 / (1.0 + distances.clamp(min=0).float()) if variant == "dense" else None
        self.index = distances.clamp(min=0) if variant == "distinct" else None

    def tensors(self):
        return [*self.networks.weights, *self.networks.biases, *self.distance.values()]

    def rho(self, inverse):
        hidden, weight, bias = network(self.distance, "distance", inverse)
        return torch.addmm(bias, hidden, weight.T).reshape(inverse.shape)

    def said(self):
        """sum_k f_k: n x L."""
        blocks = spans(len(self.x), self.x.shape[1] * max(HIDDEN["gnan"]))
        run = lambda block: self.networks(self.x[block], block).sum(0)  # noqa: E731
        return sum(checkpoint(run, block, use_reentrant=False) for block in blocks)

    def logits(self):
        said = self.said()
        if self.variant == "distinct":
            rho = self.rho(1.0 / (1.0 + torch.arange(self.farthest + 1)))
            return (rho[self.index] * self.share) @ said
        run = lambda block: (self.rho(self.inverse[block]) * self.share[block]) @ said  # noqa: E731
        blocks = spans(len(self.share), len(said) * max(HIDDEN["gnan"]))
        heard = torch.cat([checkpoint(run, block, use_reentrant=False) for block in blocks])
        return heard if self.few else heard[self.problem.train]


def shortest_paths(problem):
    """Distances from every node, n x n in int16; -1 where there is no path."""
    n = problem.features.shape[1]
    # No row is empty: nodes without neighbours step to themselves.
    first, columns = (part.numpy().astype(np.int64) for part in (problem.walk.crow_indices(), problem.walk.col_indices()))
    reached = np.packbits(np.eye(n, dtype=bool), axis=1)
    distances = np.full((n, n), -1, np.int16)
    np.fill_diagonal(distances, 0)
    for distance in range(1, n):
        after = reached.copy()
        for start in range(0, n, 256):
            end = min(n, start + 256)
            near = reached[columns[first[start] : first[end]]]
            after[start:end] |= np.bitwise_or.reduceat(near, first[start:end] - first[start], axis=0)
        if (after == reached).all():
            break
        distances[np.unpackbits(after & ~reached, axis=1, count=n).astype(bool)] = distance
        reached = after
    return torch.from_numpy(distances)


def sizes(arguments, *more):
    """What tells our programs which model and data."""
    given = ["data.normalise=none", "train.dropout=0", "train.batch_size=0", *more, *arguments.set]
    return ["--dataset", arguments.store, "--preset", arguments.preset, "--model", arguments.model, "--recipe", "paper"] + [
        word for setting in given for word in ("--set", setting)
    ]


def ours(arguments, folder):
    """The loss of fresh parameters, where those are, and the seconds of each epoch."""
    start, gradients, run = (str(folder / name) for name in ("start.safetensors", "gradients.safetensors", "run"))

    def call(program, *words):
        command = [str(pathlib.Path(arguments.bin) / program), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"{' '.join(command)}\n{done.stderr}")

    call("harmonia", "init", *sizes(arguments), "--out", start)
    call("harmonia", "gradients", *sizes(arguments), "--params", start, "--out", gradients)
    loss = read_parameters(gradients, [("loss", ())])["loss"].item()
    epochs = arguments.epochs + arguments.warmup
    steps = (f"train.epochs={epochs}", "train.patience=0", f"run.threads={arguments.threads}", "run.device=cpu")
    call("harmonia-train", *sizes(arguments, *steps, "run.checkpoint_seconds=1e6"), "--out", run)
    log = next(pathlib.Path(run).rglob("metrics.jsonl")).read_text().splitlines()
    ends = [json.loads(line)["seconds"] for line in log if "seconds" in line]
    return loss, start, [after - before for before, after in zip([0.0, *ends], ends)][arguments.warmup :]


def theirs(arguments, start):
    """The loss of those parameters and the seconds of each epoch, by variant."""
    problem = Problem(arguments.store)
    features = len(problem.features) + (arguments.model == "gnan")
    kind = {"gnan": Gnan, "nbm": Nbm, "nam": Nam}[arguments.model]
    for variant in arguments.variants or VARIANTS[arguments.model]:
        parameters = read_parameters(start, list(shapes(arguments.model, features, problem.outputs)))
        model = kind(problem, parameters, variant)
        optimizer = torch.optim.Adam(model.tensors(), lr=1e-3, fused=True)
        losses, wall = [], []
        warmup = 0 if arguments.single else arguments.warmup
        while len(wall) < (1 if arguments.single else arguments.epochs + warmup):
            started = time.perf_counter()
            optimizer.zero_grad(set_to_none=True)
            logits = model.logits()
            loss = train_loss(problem, logits)
            if not losses and abs(loss.item() - arguments.expected) > TOLERANCE * abs(arguments.expected):
                raise ValueError(f"{variant}: the loss is {loss.item()}, that of the engine {arguments.expected}")
            losses.append(loss.item())
            loss.backward()
            optimizer.step()
            wall.append(time.perf_counter() - started)
            del loss, logits
        yield variant, losses[0], wall[warmup:]
        del model, optimizer, parameters


def estimated(arguments, start):
    """Processor seconds of an epoch of `dense`, by those of a few rows beside those of all responses, which every row hears."""
    problem = Problem(arguments.store)
    parameters = read_parameters(start, list(shapes("gnan", len(problem.features) + 1, problem.outputs)))
    with torch.no_grad():
        expected = Gnan(problem, parameters, "distinct").logits()[: arguments.rows]
    model, spent = Gnan(problem, parameters, "dense", arguments.rows), []
    for part in (model.said, model.logits):
        started = time.process_time()
        found = part()
        found.square().sum().backward()
        spent.append(time.process_time() - started)
    apart = (found - expected).abs().max().item() / expected.abs().max().item()
    if apart > TOLERANCE:
        raise ValueError(f"dense: logits differ by {apart} from those of distinct")
    return spent[0] + (spent[1] - spent[0]) * problem.features.shape[1] / arguments.rows


def train_loss(problem, logits):
    """As `Problem.loss`, of logits of training nodes alone."""
    if problem.softmax:
        return torch.nn.functional.cross_entropy(logits, problem.labels)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, problem.labels, reduction="sum")
    return loss / len(problem.train)


def main(command_line):
    parser = argparse.ArgumentParser(description="Times epochs of GNAN, NBM and NAM in PyTorch and in our engine.")
    parser.add_argument("--bin", default="target/release", metavar="DIR", help="where harmonia and harmonia-train are")
    parser.add_argument("--store", required=True, metavar="DIR", help="made by harmonia data convert or generate")
    parser.add_argument("--preset", required=True, help="cora, tolokers, ogbn-arxiv, ...")
    parser.add_argument("--model", required=True, choices=VARIANTS)
    parser.add_argument("--variants", nargs="*", metavar="NAME", help="of PyTorch [default: all]")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), metavar="N")
    parser.add_argument("--epochs", type=int, default=3, metavar="N", help="timed")
    parser.add_argument("--warmup", type=int, default=1, metavar="N", help="before those, not timed")
    parser.add_argument("--single", action="store_true", help="one epoch of PyTorch, without warm-up: for minutes of it")
    parser.add_argument("--rows", type=int, metavar="R", help="of gnan: also estimate dense by R rows; not with --variants dense")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of ours")
    arguments = parser.parse_args(command_line)
    load = os.getloadavg()[0]
    torch.set_num_threads(arguments.threads)
    try:
        with tempfile.TemporaryDirectory() as folder:
            loss, start, engine = ours(arguments, pathlib.Path(folder))
            arguments.expected = loss
            seconds = statistics.median(engine)
            result = {"model": arguments.model, "loss": loss, "seconds": seconds, "all_seconds": engine}
            for variant, their_loss, wall in theirs(arguments, start):
                their = statistics.median(wall)
                result[variant] = {"loss": their_loss, "seconds": their, "all_seconds": wall, "ratio": their / seconds}
                print(
                    f"{arguments.model} on {arguments.preset}: PyTorch ({variant}) {their:.3f} s an epoch, ours {seconds:.4f} s "
                    f"with validation: {their / seconds:.1f} x; losses {their_loss:.6f} and {loss:.6f}",
                    file=sys.stderr,
                )
            if arguments.rows:
                seconds_dense = estimated(arguments, start)
                result["estimate"] = {"rows": arguments.rows, "seconds": seconds_dense, "ratio": seconds_dense / seconds}
                print(f"dense by {arguments.rows} rows: {seconds_dense:.1f} s, {seconds_dense / seconds:.1f} x", file=sys.stderr)
    except (ValueError, OSError) as error:
        print(f"family_epoch.py: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result | {"threads": arguments.threads, "load": [load, os.getloadavg()[0]], "torch": torch.__version__}))
    return 0


if __name__ == "__main__":
    import warnings

    warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
    sys.exit(main(sys.argv[1:]))
