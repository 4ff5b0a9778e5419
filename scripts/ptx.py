#!/usr/bin/env python3
"""What the compiler made of kernels: instructions of their hottest loop, and loads from global memory that it can have in flight.

    scripts/ptx.py [--arch compute_89] [--kernels DIR] [KERNEL ...]

Compiles DIR/all.cu (kernels/ of this checkout) to PTX with .cuda/bin/nvcc; run it on two checkouts to compare them. No GPU is needed.

  block          instructions of the stretch without a branch that has most bytes of loads under way
  loads          from global memory in it, without 64-bit offsets
  in flight      those that depend on the same number of others, so that whoever issues them waits for none of them
  bytes          that a lane asks for with these
  a load         instructions of the stretch for each of these
"""
import argparse
import collections
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOAD = re.compile(r"ld\.global(?:\.\w+)*?(?:\.v(\d))?\.[a-z](8|16|32)$")
REGISTER = re.compile(r"%\w+\d+")


def kernels_of(ptx):
    """{kernel: stretches without a branch, each a list of (opcode, operands)}"""
    found, stretches = {}, None
    for line in map(str.strip, ptx.splitlines()):
        entry = re.match(r"\.visible \.entry (\w+)\(", line)
        if entry:
            stretches = found.setdefault(entry.group(1), [[]])
        elif stretches is None or not line or line[0] in "/.{})":
            continue
        elif line.startswith("$"):
            stretches.append([])
        else:
            words = re.sub(r"^@!?%p\d+\s+", "", line).rstrip(";").split(None, 1)
            stretches[-1].append((words[0], words[1] if len(words) > 1 else ""))
            if words[0].startswith(("bra", "ret", "bar", "call")):
                stretches.append([])
    return found


def loads_of(stretch):
    """[(depth, bytes)] of its loads; a depth is the number of loads one after the other that lead to the address."""
    depth, loads = collections.defaultdict(int), []
    for opcode, operands in stretch:
        load = LOAD.match(opcode)
        target, _, rest = operands.partition("}") if operands.startswith("{") else operands.partition(",")
        reached = max((depth[name] for name in REGISTER.findall(rest)), default=0)
        if load:
            loads.append((reached, int(load.group(1) or 1) * int(load.group(2)) // 8))
            reached += 1
        for name in REGISTER.findall(target) if not opcode.startswith("st") else ():
            depth[name] = reached
    return loads


def in_flight(stretch):
    """(bytes, loads) of the depth that has most bytes."""
    bytes_of, loads = collections.Counter(), collections.Counter()
    for depth, size in loads_of(stretch):
        bytes_of[depth] += size
        loads[depth] += 1
    return max(((size, loads[depth]) for depth, size in bytes_of.items()), default=(0, 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="compute_89")
    parser.add_argument("--kernels", type=pathlib.Path, default=ROOT / "kernels")
    parser.add_argument("names", nargs="*", help="all kernels where none is named")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        ptx = pathlib.Path(scratch) / "all.ptx"
        nvcc = [ROOT / ".cuda" / "bin" / "nvcc", "-ptx", "-std=c++17", "-arch", arguments.arch, "-o", ptx]
        subprocess.run([*nvcc, arguments.kernels / "all.cu"], check=True)
        found = kernels_of(ptx.read_text())
    print("| kernel | block | loads | in flight | bytes | a load |\n|---|---|---|---|---|---|")
    for name in arguments.names or sorted(found):
        block = max(found[name], key=lambda stretch: (in_flight(stretch), -len(stretch)))
        size, loads = in_flight(block)
        each = f"{len(block) / loads:.1f}" if loads else "-"
        print(f"| {name} | {len(block)} | {len(loads_of(block))} | {loads} | {size} | {each} |")


if __name__ == "__main__":
    main()
