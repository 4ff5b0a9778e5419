"""Parts of gpu-check.sh: whether two runs end alike, and the tables of what was measured.

    gpu_check.py agree RUN RUN          losses of all splits, relative, within TOLERANCE
    gpu_check.py report DIR ROOFLINE    seconds of epochs, milliseconds of kernels beside what they need at least
"""

import json
import sys
from pathlib import Path

# Sums in another order, grown over the epochs of a run.
TOLERANCE = 1e-3


def numbers(value, path=()):
    """Every number of a JSON document with its place, times left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not any(word in key for word in ("seconds", "time", "bytes", "memory")):
                yield from numbers(inner, (*path, key))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, float(value)


def losses(run):
    """Validation and training losses of all epochs."""
    lines = [json.loads(line) for file in sorted(Path(run).rglob("metrics.jsonl")) for line in file.open()]
    found = [(place, x) for line in lines for place, x in numbers(line) if any(word in place[-1] for word in ("nll", "loss"))]
    if not found:
        sys.exit(f"{run}: no losses in any metrics.jsonl")
    return found


def agree(a, b):
    """Exits with 1 where a loss differs."""
    a, b = losses(a), losses(b)
    if [place for place, _ in a] != [place for place, _ in b]:
        sys.exit(f"{len(a)} losses beside {len(b)}")
    worst = max(abs(x - y) / max(abs(y), 1.0) for (_, x), (_, y) in zip(a, b))
    print(f"{len(a)} losses, the largest difference {worst:.2e}")
    sys.exit(0 if worst <= TOLERANCE else 1)


def report(directory, roofline):
    """Prints the tables."""
    # Kernels of the roofline by dataset; products have names of their own there. Batches are those that sum over rows in parts.
    least = {}
    for dataset in json.loads(Path(roofline).read_text())["datasets"]:
        rows = least.setdefault(dataset.get("name", dataset.get("dataset")), {})
        for kernel in dataset.get("kernels", dataset.get("rows", [])):
            name = kernel["kernel"]
            if name.startswith("gemm"):
                name = "gemm_batch" if "+= F'" in name else "gemm"
            launches, reuse, none = rows.get(name, (0, 0.0, 0.0))
            rows[name] = (launches + kernel["launches"], reuse + kernel["ms_perfect_reuse"], none + kernel["ms_no_reuse"])
    print("## Epochs\n\n| dataset | epochs | seconds of the last, with validation |\n|---|---|---|")
    for run in sorted(Path(directory).glob("*-gpu")):
        for file in run.rglob("metrics.jsonl"):
            ends = [0.0] + [json.loads(line)["seconds"] for line in file.open()]
            print(f"| {run.name.removesuffix('-gpu')} | {len(ends) - 1} | {ends[-1] - ends[-2]:.4f} |")
    print("\n## Kernels\n")
    print("Milliseconds of a launch, each waited for; least: computed for the whole dataset, with every gather from a cache and with")
    print("none from one. Below three times the latter is what we hope for.\n")
    for times in sorted(Path(directory).glob("*.times")):
        rows = [line.split() for line in times.read_text().splitlines()]
        rows = sorted(((name, int(count), float(ms)) for name, count, ms in rows), key=lambda row: -row[2])
        print(f"### {times.stem}\n\n| kernel | launches | ms in all | ms each | least, reuse | least, none | times least |")
        print("|---|---|---|---|---|---|---|")
        for name, count, ms in rows:
            launches, reuse, none = least.get(times.stem, {}).get(name, (0, 0.0, 0.0))
            known = f"{reuse / launches:.4f} | {none / launches:.4f} | {ms / count / (reuse / launches):.1f}" if launches and reuse else "| |"
            print(f"| {name} | {count} | {ms:.3f} | {ms / count:.4f} | {known} |")
        print()


if __name__ == "__main__":
    {"agree": agree, "report": report}[sys.argv[1]](*sys.argv[2:])
