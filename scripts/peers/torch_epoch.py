#!/usr/bin/env python3
"""Times epochs (forward, backward, Adam) of HARMONIA written in PyTorch on the CPU: what our engine is compared with.

    logits = beta + sum_t theta_t (*) M^t F Wo,    F[i,k] = a_k . sum_c pi[k,c] psi_c(x[i,k])

Invariant: every variant computes the same loss and gradients; they differ only in what is evaluated and in which order.

    plain             every expert on every element, hops at feature width: the formulas as they stand
    plain-checkpoint  the same, experts recomputed in the backward pass so that it fits into memory
    routed            only the experts each feature is routed to
    table             routed, distinct values of each feature evaluated once and looked up (bags of words)
    classes           routed, hops at class width in Horner form
    table-classes     both

    python3 scripts/peers/torch_epoch.py --store STORE --variant routed --threads 2

Prints one JSON object on stdout and a line for people on stderr. README.md beside this file has the details.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import sys
import time

# glibc hands large blocks back to the system when they are freed, and every epoch pays for its page faults again.
# Without mmap and trimming, blocks stay in the heap and are reused. (A high MALLOC_MMAP_THRESHOLD_ would do as well,
# but not every glibc takes a high one.) These are read when a process starts, hence the exec.
TUNED_ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 46)}


def tune_allocator():
    """Starts this program again with the allocator tuned; what the caller's environment sets is left as it is."""
    environment = TUNED_ALLOCATOR | dict(os.environ)
    if environment != dict(os.environ):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


# Before torch is imported: it would be loaded twice.
if __name__ == "__main__" and "--default-allocator" not in sys.argv:
    tune_allocator()

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from open_store import open_store  # noqa: E402

VARIANTS = ("plain", "plain-checkpoint", "routed", "table", "classes", "table-classes")
HOP_FLOOR = 1e-8  # keeps hop weights defined where every alpha is 0


class Problem:
    """A store as tensors. Features are kept d x n: an expert then takes whole rows of the features routed to it."""

    def __init__(self, directory, seed=0, dtype=torch.float32):
        meta, arrays = open_store(directory)
        if meta["level"] != "node":
            raise ValueError(f"{directory} is a graph task; only node tasks are compared here")
        nodes = len(arrays["row_ptr"]) - 1
        self.features = torch.from_numpy(dense_features(arrays, meta, nodes)).to(dtype)
        self.walk, self.walk_transposed = transition(arrays, nodes, dtype)
        self.train = torch.from_numpy(training_nodes(directory, arrays, seed))
        labels = torch.from_numpy(np.array(arrays["labels"], np.int64))[self.train]
        self.softmax = meta["classes"] > 2 and not meta.get("multi_label", False)
        # As in the engine, two classes are one logit.
        self.outputs = meta["classes"] if self.softmax or meta.get("multi_label", False) else 1
        self.labels = labels if self.softmax else labels.reshape(-1, self.outputs).to(dtype)

    def loss(self, logits):
        """Mean over training nodes of softmax or (summed over outputs) sigmoid cross-entropy."""
        logits = logits[self.train]
        if self.softmax:
            return functional.cross_entropy(logits, self.labels)
        return functional.binary_cross_entropy_with_logits(logits, self.labels, reduction="sum") / len(self.train)


def dense_features(arrays, meta, nodes):
    """X^T, d x n, from either form of features."""
    if "features" in arrays:
        return np.array(arrays["features"].T, np.float32, order="C")
    # A store from elsewhere may come without counts, and then says how wide it is only by its largest column.
    width = meta["counts"]["features"] if "counts" in meta else int(arrays["features_idx"].max()) + 1
    features = np.zeros((width, nodes), np.float32)
    rows = np.repeat(np.arange(nodes), np.diff(arrays["features_ptr"].astype(np.int64)))
    features[arrays["features_idx"], rows] = arrays["features_val"]
    return features


def training_nodes(directory, arrays, seed):
    """Ids of the training nodes; of several splits, that of the seed."""
    if "train" in arrays:
        return np.array(arrays["train"], np.int64)
    if "splits" in arrays:
        splits = arrays["splits"]
        return np.flatnonzero(splits[seed % len(splits)] == 1)
    raise ValueError(f"{directory} has no split; expected train.npy or splits.npy")


def transition(arrays, nodes, dtype):
    """M = D^-1 A and M^T as CSR matrices; a node without neighbours steps to itself."""
    row_ptr = arrays["row_ptr"].astype(np.int64)
    columns = arrays["col_idx"].astype(np.int64)
    weights = np.array(arrays["edge_weights"], np.float64) if "edge_weights" in arrays else np.ones(len(columns))
    isolated = np.diff(row_ptr) == 0
    columns = np.insert(columns, row_ptr[:-1][isolated], np.flatnonzero(isolated))
    weights = np.insert(weights, row_ptr[:-1][isolated], 1.0)
    row_ptr[1:] += np.cumsum(isolated)
    weights /= np.repeat(np.add.reduceat(weights, row_ptr[:-1]), np.diff(row_ptr))
    # MKL, behind torch, takes 32-bit indices and converts others at every product.
    index = torch.int32 if len(columns) < 2**31 else torch.int64

    def csr(row_ptr, columns, values):
        row_ptr, columns = (torch.as_tensor(part).to(index) for part in (row_ptr, columns))
        values = torch.as_tensor(values).to(dtype)
        return torch.sparse_csr_tensor(row_ptr, columns, values, (nodes, nodes), check_invariants=False)

    walk = csr(row_ptr, columns, weights)
    by_column = walk.to_sparse_csc()
    return walk, csr(by_column.ccol_indices(), by_column.row_indices(), by_column.values())


class Step(torch.autograd.Function):
    """M state. Autograd would transpose M anew in every backward pass, so both matrices are made once."""

    @staticmethod
    def forward(context, state, walk, transposed):
        context.transposed = transposed
        # On rows this wide torch's own kernel is faster than MKL.
        return torch.sparse.mm(walk, state, "sum")

    @staticmethod
    def backward(context, gradient):
        return torch.sparse.mm(context.transposed, gradient.contiguous(), "sum"), None, None


class AddStep(torch.autograd.Function):
    """addend + M state, at class width, where MKL is the faster one."""

    @staticmethod
    def forward(context, addend, state, walk, transposed):
        context.transposed = transposed
        return torch.addmm(addend, walk, state)

    @staticmethod
    def backward(context, gradient):
        return gradient, context.transposed @ gradient.contiguous(), None, None


class Table:
    """Distinct values of every feature (d x widest, zero-padded) and the place there of each element of X^T."""

    def __init__(self, features):
        columns = []
        for k, row in enumerate(features):
            columns.append(np.unique(row.numpy(), return_inverse=True))
            # Rows are padded to the widest: one feature without repeated values makes the table as large as X.
            if len(columns[-1][0]) == len(row):
                raise ValueError(
                    f"feature {k} has {len(row)} distinct values on as many nodes: a table saves nothing, "
                    "use --variant routed or classes"
                )
        width = max(len(values) for values, _ in columns)
        self.values = torch.zeros(len(columns), width, dtype=features.dtype)
        self.place = torch.empty(features.shape, dtype=torch.int64)
        for k, (values, inverse) in enumerate(columns):
            self.values[k, : len(values)] = torch.from_numpy(values)
            self.place[k] = torch.from_numpy(inverse) + k * width

    def look_up(self, responses):
        # index_select's backward adds up about twice as fast as that of gather or of indexing.
        return responses.reshape(-1).index_select(0, self.place.view(-1)).view(self.place.shape)


class Model:
    """Parameters by the names of our checkpoints, and the forward pass of a variant."""

    def __init__(self, variant, problem, parameters, active):
        self.parameters, self.problem, self.active = parameters, problem, active
        self.experts = parameters["router.gate"].shape[1]
        self.layers = sum(name.startswith("experts.0.") and name.endswith(".weight") for name in parameters)
        self.evaluate_all = variant.startswith("plain")
        self.recompute = variant == "plain-checkpoint"
        self.class_space = variant.endswith("classes")
        self.table = Table(problem.features) if variant.startswith("table") else None
        if self.recompute:
            # Experts draw nothing random, so nothing random has to be replayed.
            self.apply = lambda *arguments: checkpoint(
                self.expert_everywhere, *arguments, use_reentrant=False, preserve_rng_state=False
            )
        else:
            self.apply = self.expert_everywhere

    def loss(self, noise=None):
        """Loss over the training nodes; `noise` is d x C, None for none."""
        gates, chosen = self.route(noise)
        if self.evaluate_all:
            responses = self.all_responses(self.problem.features, gates)
        elif self.table is None:
            responses = self.routed_responses(self.problem.features, gates, chosen)
        else:
            responses = self.table.look_up(self.routed_responses(self.table.values, gates, chosen))
        logits = self.logits_by_class(responses) if self.class_space else self.logits_by_feature(responses)
        return self.problem.loss(logits)

    def route(self, noise):
        """Gates (d x C, 0 where not selected) and the experts selected for each feature (d x m)."""
        p = self.parameters
        scores = p["embeddings"] @ p["router.gate"]
        if noise is not None:
            scores = scores + noise * torch.sigmoid(p["embeddings"] @ p["router.noise"])
        # A stable sort and not topk: equal scores go to the lower expert.
        chosen = scores.detach().sort(dim=1, descending=True, stable=True).indices[:, : self.active]
        selected = torch.zeros_like(scores).scatter(1, chosen, 1.0)
        return selected * torch.sigmoid(scores), chosen

    def layer(self, c, index):
        name = f"experts.{c}.layers.{index}"
        return self.parameters[f"{name}.weight"], self.parameters[f"{name}.bias"]

    def expert_everywhere(self, c, x, coefficients):
        """coefficients_k . psi_c(x_k) as one would write it: a Linear on the last dimension. x is d x n."""
        hidden = x.unsqueeze(-1)
        for index in range(self.layers):
            hidden = functional.linear(hidden, *self.layer(c, index))
            hidden = hidden.relu_() if index + 1 < self.layers else hidden
        return torch.bmm(hidden, coefficients.unsqueeze(-1)).squeeze(-1)

    def all_responses(self, x, gates):
        total = 0
        for c in range(self.experts):
            total = total + self.apply(c, x, gates[:, c, None] * self.parameters["coefficients"])
        return total

    def expert_on_rows(self, c, x, coefficients):
        """The same for some rows of x (k x n), tuned: nodes innermost (k x width x n), and the linear output layer
        folded into the coefficients, so that bases are never formed for an element. Together twice as fast."""
        rows = len(x)
        hidden = x.unsqueeze(1)
        for index in range(self.layers - 1):
            weight, bias = self.layer(c, index)
            hidden = torch.baddbmm(bias[:, None], weight.expand(rows, -1, -1), hidden).relu_()
        weight, bias = self.layer(c, self.layers - 1)
        level, slopes = (coefficients @ bias)[:, None, None], (coefficients @ weight).unsqueeze(1)
        return torch.baddbmm(level, slopes, hidden).squeeze(1)

    def routed_responses(self, x, gates, chosen):
        responses = torch.zeros_like(x)
        for c in range(self.experts):
            rows = (chosen == c).any(1).nonzero().squeeze(1)
            if len(rows) > 0:
                coefficients = gates[rows, c, None] * self.parameters["coefficients"][rows]
                part = self.expert_on_rows(c, x[rows], coefficients)
                # index_add_ says it better but took two to fifteen times as long.
                responses = responses.index_put_((rows,), part, accumulate=True)
        return responses

    def hop_weights(self):
        strength = self.parameters["hop_logits"] ** 2 + HOP_FLOOR
        return strength / strength.sum(0)

    def logits_by_feature(self, responses):
        """H = sum_t theta_t (*) M^t F, then the readout."""
        theta = self.hop_weights()
        state = responses.T.contiguous()
        hidden = theta[0] * state
        for t in range(1, len(theta)):
            state = Step.apply(state, self.problem.walk, self.problem.walk_transposed)
            hidden = torch.addcmul(hidden, theta[t], state)
        return torch.addmm(self.parameters["readout.bias"], hidden, self.parameters["readout.weight"])

    def logits_by_class(self, responses):
        """beta + G_0 + M(G_1 + M(G_2 + ...)), G_t = F (theta_t (*) Wo), all G_t by one product."""
        weights = self.hop_weights().unsqueeze(-1) * self.parameters["readout.weight"]  # T x d x L
        terms = (responses.T @ weights.transpose(0, 1).flatten(1)).split(weights.shape[2], dim=1)
        state = terms[-1].contiguous()
        for term in reversed(terms[:-1]):
            state = AddStep.apply(term, state, self.problem.walk, self.problem.walk_transposed)
        return state + self.parameters["readout.bias"]


def shapes(features, outputs, experts, bases, hidden, embedding, hops):
    """(name, shape) of every parameter, as Layout::new in src/model/parameters.rs has them."""
    widths = [1, *hidden, bases]
    for c in range(experts):
        for index, (inputs, width) in enumerate(zip(widths, widths[1:])):
            yield f"experts.{c}.layers.{index}.weight", (width, inputs)
            yield f"experts.{c}.layers.{index}.bias", (width,)
    yield "coefficients", (features, bases)
    yield "embeddings", (features, embedding)
    yield "router.gate", (embedding, experts)
    yield "router.noise", (embedding, experts)
    yield "hop_logits", (hops, features)
    yield "readout.weight", (features, outputs)
    yield "readout.bias", (outputs,)


def fresh_parameters(expected, seed, dtype=torch.float32):
    """A random start in the manner of torch.nn.Linear: uniform in +-1/sqrt(fan-in); hop logits 1, readout bias 0."""
    random = torch.Generator().manual_seed(seed)
    parameters, fan_in = {}, 1
    for name, shape in expected:
        if name == "embeddings" or name == "coefficients":
            values = torch.randn(shape, generator=random, dtype=dtype)
            values /= shape[1] ** 0.5 if name == "coefficients" else 1.0
        elif name == "hop_logits" or name == "readout.bias":
            values = torch.full(shape, float(name == "hop_logits"), dtype=dtype)
        else:
            # Router and readout are inputs x outputs; an expert's weight is outputs x inputs and its bias follows it.
            if not name.endswith(".bias"):
                fan_in = shape[1] if name.startswith("experts.") else shape[0]
            values = (2 * torch.rand(shape, generator=random, dtype=dtype) - 1) / fan_in**0.5
        parameters[name] = values.requires_grad_()
    return parameters


def read_parameters(path, expected, dtype=torch.float32):
    """The parameters in a safetensors file: header length (u64), JSON header, raw little-endian values."""
    content = pathlib.Path(path).read_bytes()
    length = int.from_bytes(content[:8], "little")
    if length > len(content) - 8:
        raise ValueError(f"{path}: expected a safetensors file, found {len(content)} bytes without a whole header")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    parameters = {}
    for name, shape in expected:
        entry = header.get(name)
        if entry is None or tuple(entry["shape"]) != shape or entry["dtype"] not in ("F32", "F64"):
            raise ValueError(f"{path}: expected `{name}` of shape {list(shape)} in F32 or F64, found {entry}; give the "
                             "store and the sizes (--experts, --bases, ...) it was made with")
        start, end = entry["data_offsets"]
        values = np.frombuffer(data[start:end], "<f4" if entry["dtype"] == "F32" else "<f8").reshape(shape)
        parameters[name] = torch.tensor(values, dtype=dtype).requires_grad_()
    return parameters


def arguments_of(command_line):
    parser = argparse.ArgumentParser(description="Times epochs of HARMONIA in PyTorch on the CPU.")
    count = {"type": int, "metavar": "N"}
    parser.add_argument("--store", required=True, metavar="DIR", help="made by harmonia data convert or generate")
    parser.add_argument("--variant", required=True, choices=VARIANTS)
    parser.add_argument("--experts", default=4, **count)
    parser.add_argument("--active", default=2, help="experts each feature uses", **count)
    parser.add_argument("--bases", default=8, **count)
    parser.add_argument("--hidden", default="16,8", metavar="N,N", help="hidden widths of an expert")
    parser.add_argument("--embedding", default=16, **count)
    parser.add_argument("--hops", default=4, help="walk lengths 0 to N - 1", **count)
    parser.add_argument("--threads", default=os.cpu_count(), **count)
    parser.add_argument("--epochs", default=5, help="timed", **count)
    parser.add_argument("--warmup", default=1, help="before those, not timed", **count)
    parser.add_argument("--seed", default=0, **count)
    parser.add_argument("--learning-rate", default=1e-3, type=float, metavar="X")
    parser.add_argument("--parameters", metavar="FILE", help="start from this safetensors file of ours")
    parser.add_argument("--no-noise", action="store_true", help="route without noise")
    parser.add_argument("--default-allocator", action="store_true", help="leave malloc alone: slower, smaller peak")
    arguments = parser.parse_args(command_line)
    arguments.hidden = [int(width) for width in arguments.hidden.split(",")]
    for name in ("experts", "active", "bases", "embedding", "hops", "threads", "epochs"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} is {getattr(arguments, name)}; it must be at least 1")
    if arguments.active > arguments.experts:
        parser.error(f"--active is {arguments.active} but there are only {arguments.experts} experts")
    return arguments


def measure(arguments):
    """Runs the epochs; what is printed."""
    torch.set_num_threads(arguments.threads)
    problem = Problem(arguments.store, arguments.seed)
    sizes = (arguments.experts, arguments.bases, arguments.hidden, arguments.embedding, arguments.hops)
    expected = list(shapes(len(problem.features), problem.outputs, *sizes))
    if arguments.parameters:
        parameters = read_parameters(arguments.parameters, expected)
    else:
        parameters = fresh_parameters(expected, arguments.seed)
    model = Model(arguments.variant, problem, parameters, arguments.active)
    optimizer = torch.optim.Adam(parameters.values(), lr=arguments.learning_rate, fused=True)
    random = torch.Generator().manual_seed(arguments.seed + 1)

    losses, wall, processor = [], [], []
    for _ in range(arguments.warmup + arguments.epochs):
        started, started_processor = time.perf_counter(), time.process_time()
        noise = None
        if not arguments.no_noise:
            noise = torch.randn(len(problem.features), arguments.experts, generator=random)
        optimizer.zero_grad(set_to_none=True)
        loss = model.loss(noise)
        loss.backward()
        optimizer.step()
        wall.append(time.perf_counter() - started)
        processor.append(time.process_time() - started_processor)
        losses.append(loss.item())
        # Or its graph would live until the next epoch has built another.
        del loss
    timed = wall[arguments.warmup :]
    return {
        "variant": arguments.variant,
        "seconds": statistics.median(timed),
        "all_seconds": timed,
        "cpu_seconds": statistics.median(processor[arguments.warmup :]),
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "loss": losses[0],
        "threads": arguments.threads,
        "torch": torch.__version__,
    }


def main(command_line):
    arguments = arguments_of(command_line)
    try:
        result = measure(arguments)
    except (ValueError, OSError) as error:
        print(f"torch_epoch.py: {error}", file=sys.stderr)
        return 2
    print(
        f"{result['variant']}: {result['seconds']:.3f} s an epoch (median of {len(result['all_seconds'])}), "
        f"{result['cpu_seconds']:.3f} s of processor, peak {result['peak_rss_bytes'] / 2**30:.2f} GiB, "
        f"first loss {result['loss']:.6f}",
        file=sys.stderr,
    )
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    import warnings

    # Every product warns that sparse CSR is in beta.
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
    sys.exit(main(sys.argv[1:]))
