#!/usr/bin/env python3
"""Bytes a cycle that kernels move by their machine code, beside a plain copy: a multiprocessor that issues in order, simulated.

    scripts/sass.py [--arch sm_80] [--kernels DIR] [--listing] NAME=WARPS[,TURNS] ...

Compiles DIR/all.cu (kernels/ of this checkout) and a copy with .cuda/bin/nvcc, and disassembles both with .cuda/bin/nvdisasm. WARPS are
those that a multiprocessor holds; `harmonia doctor --kernels` has them. No GPU is needed, and the answer is the same on every machine.

What is simulated is the steady state: the loop of a kernel that asks memory for most bytes (of equals one that works in shared memory, then
the shortest), or the loop around it where CASES says so, over and over, by all warps. Inner loops take TURNS, or what CASES says; where
the way through a loop around has a branch forward, the longest way through the inner one is taken. What is assumed:

  issue        four partitions, an instruction each a cycle, of the warp that could go first; what ptxas wrote into an instruction holds:
               cycles to the warp's next, scoreboards set and waited for
  arithmetic   16 lanes of integers a partition, 16 of floats (sm_80) or 32: an instruction of a warp holds them two cycles, or one; wide
               products of integers four
  shared       an access of 128 bytes a cycle, no two lanes in a bank; an answer after 30 cycles. Requests to memory pass here too
  memory       no byte is in a cache, but for those that lanes share (columns, offsets: a sector each); multiprocessors share the bandwidth
               evenly; an answer comes 500 cycles after its bytes had their turn. Stores take their turn and nobody waits for them
"""
import argparse
import collections
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Of an A100 (80 GB), an RTX 4090 and an H100 (SXM): GB/s, multiprocessors, GHz; cycles an instruction of a warp holds the lanes of floats.
DEVICES = {"sm_80": (2039, 108, 1.41, 2), "sm_89": (1008, 128, 2.52, 1), "sm_90": (3350, 132, 1.98, 1)}
PARTITIONS, LANES, SECTOR = 4, 32, 32
SHARED, MEMORY, OTHER, READ = 30, 500, 20, 12
TURNS, WARM_UP = 4, 2
NONE = 7

# Turns of inner loops, whether the loop around is simulated, lanes that are not idle: ogbn-products, whose responses have 48 pieces (six
# halvings), rows 50 entries and states 48 columns, 100 features.
Case = collections.namedtuple("Case", "turns around lanes", defaults=(1, False, LANES))
CASES = {
    "knots_forward": Case(6),
    "knots_backward": Case(6),
    "walk_rows4_f32": Case(12, True, 24),
    "propagate_forward_wide4_f32": Case(8, True, 25),
}

COPY = """extern "C" __global__ void copy(float4* to, const float4* from, unsigned turns) {
    const unsigned step = gridDim.x * blockDim.x;
    const float4* at = from + blockIdx.x * blockDim.x + threadIdx.x;
    for (to += blockIdx.x * blockDim.x + threadIdx.x; turns > 0; --turns, at += 4 * step, to += 4 * step) {
        const float4 a = __ldg(at), b = __ldg(at + step), c = __ldg(at + 2 * step), d = __ldg(at + 3 * step);
        to[0] = a, to[step] = b, to[2 * step] = c, to[3 * step] = d;
    }
}
"""

# `goal`: where a branch leads; `size`: bytes of a lane.
Instruction = collections.namedtuple("Instruction", "text stall writes reads waits pipe hold size goal")


def instruction(text, control, float_hold, labels):
    """What the simulation has to know of it."""
    name = re.sub(r"^@!?U?P\w+\s+", "", text).split()[0].split(".")
    wide = next((words for part, words in (("128", 4), ("64", 2)) if part in name[1:]), 1)
    if name[0] in ("LDG", "LDS", "LD", "STG", "STS", "ST"):
        pipe, hold = name[0], wide
    elif name[0] in ("FFMA", "FMUL", "FADD"):
        pipe, hold = "floats", float_hold
    elif name[0] == "IMAD":
        pipe, hold = "floats", 4 if "WIDE" in name else 2
    elif name[0].startswith(("U", "B", "EXIT", "WARPSYNC", "NOP", "S2", "CS2R", "MUFU", "SHFL", "YIELD")):
        pipe, hold = "", 0
    else:
        pipe, hold = "integers", 2
    goal = labels.get(re.search(r"\.L_x_\d+", text).group()) if name[0] == "BRA" else None
    return Instruction(text, control & 15, control >> 5 & 7, control >> 8 & 7, control >> 11 & 63, pipe, hold, 4 * wide, goal)


def kernels_of(sass, float_hold):
    """{kernel: its instructions}"""
    found, lines, labels = {}, None, None
    for line in sass.splitlines():
        if entry := re.match(r"\.text\.(\w+):", line):
            lines, labels = found[entry.group(1)] = [], {}
        elif label := re.match(r"(\.L_x_\d+):", line):
            labels[label.group(1)] = len(lines)
        elif code := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?) ;\s+/\* 0x", line):
            lines.append([code.group(1)])
        elif lines and len(lines[-1]) == 1 and (high := re.match(r"\s+/\* 0x([0-9a-f]{16}) \*/", line)):
            lines[-1].append(int(high.group(1), 16) >> 41)
    return {
        name: [instruction(text, control, float_hold, labels) for text, control in lines]
        for name, (lines, labels) in found.items()
    }


def loops_of(code):
    """[(first, last)] of every loop: a branch back."""
    return sorted((i.goal, at) for at, i in enumerate(code) if i.goal is not None and i.goal < at)


def within(inner, outer):
    return inner != outer and outer[0] <= inner[0] and inner[1] <= outer[1]


def hottest(code):
    """The loop a warp spends its time in."""
    loops = loops_of(code)

    def asked(loop):
        body = code[loop[0]:loop[1] + 1]
        return sum(i.size for i in body if i.pipe == "LDG"), any(i.pipe == "LDS" for i in body), loop[0] - loop[1]

    inner = [loop for loop in loops if not any(within(other, loop) and asked(other)[0] for other in loops)]
    return max(inner, key=asked)


def straight(code, loop, turns):
    """One turn of a loop in the order of issue: its inner loops take `turns`, and no branch forward is taken."""
    issued, left, at = [], {}, loop[0]
    while at <= loop[1]:
        issued.append(code[at])
        goal = code[at].goal
        if goal is None or at == loop[1]:
            at += 1
        elif goal < at:
            left[at] = left.get(at, turns) - 1
            at = goal if left[at] > 0 else at + 1
        else:
            at = goal if not code[at].text.startswith("@") else at + 1
    return issued


def around(code, hot, turns):
    """One turn of the loop around `hot`, by the longest way that leads through it; `hot` takes `turns`, other loops one."""
    first, last = min((loop for loop in loops_of(code) if within(hot, loop)), key=lambda loop: loop[1] - loop[0])

    def ways(at):
        goal, always = code[at].goal, not code[at].text.startswith("@")
        return ([] if goal is None else [goal]) + ([] if goal is not None and always else [at + 1])

    def way(start, end):
        """The longest without a branch back; where ptxas has put a block behind the loop, and there is none, the shortest."""
        best = {end: (0, None)}
        for at in range(end - 1, start - 1, -1):
            known = [(best[to][0] + 1, to) for to in ways(at) if at < to and to in best]
            if known:
                best[at] = max(known)
        front = list(best)
        while start not in best and front:
            reached = {at: to for to in front for at in range(len(code)) if to in ways(at) and at not in best}
            best |= {at: (0, to) for at, to in reached.items()}
            front = list(reached)
        found, at = [], start
        while at != end:
            found.append(code[at])
            at = best[at][1]
        return found

    return way(first, hot[0]) + turns * straight(code, hot, 1) + way(hot[1] + 1, last) + [code[last]]


def bytes_of(trace, lanes):
    """Bytes that each instruction moves from or to memory: where some are wide, narrow ones are the same for all lanes."""
    wide = any(i.size > 4 for i in trace if i.pipe == "LDG")
    return [(SECTOR if wide and i.size == 4 else i.size * lanes) if i.pipe in ("LDG", "STG") else 0 for i in trace]


def simulate(trace, sizes, warps, device):
    """Bytes a cycle of a multiprocessor."""
    bandwidth, multiprocessors, clock, _ = device
    per_cycle = bandwidth / multiprocessors / clock
    ready, place, turns = [0.0] * warps, [0] * warps, [0] * warps
    boards = [[0.0] * 8 for _ in range(warps)]
    slots = [0.0] * PARTITIONS
    lanes = [{"integers": 0.0, "floats": 0.0} for _ in range(PARTITIONS)]
    shared = memory = moved = 0.0
    started = None

    def earliest(warp):
        i, part = trace[place[warp]], warp % PARTITIONS
        time = max(ready[warp], slots[part], lanes[part].get(i.pipe, shared if i.pipe else 0.0))
        return max([time, *(boards[warp][board] for board in range(6) if i.waits >> board & 1)])

    times = [earliest(warp) for warp in range(warps)]
    while True:
        now, _, warp = min((time, ready[warp], warp) for warp, time in enumerate(times))
        current = earliest(warp)
        if current > now:
            times[warp] = current
            continue
        i, size, part = trace[place[warp]], sizes[place[warp]], warp % PARTITIONS
        slots[part] = now + 1
        ready[warp] = now + max(i.stall, 1)
        done = now + OTHER
        if i.pipe in lanes[part]:
            lanes[part][i.pipe] = now + i.hold
        elif i.pipe:
            shared = now + i.hold
            done = shared + SHARED
            if size:
                moved += size
                memory = max(memory, now) + size / per_cycle
                done = memory + MEMORY
        for board, time in ((i.writes, done), (i.reads, now + READ)):
            if board != NONE:
                boards[warp][board] = max(boards[warp][board], time)
        place[warp] += 1
        if place[warp] == len(trace):
            place[warp] = 0
            turns[warp] += 1
            # What has had its turn by now.
            served = moved - max(0.0, memory - now) * per_cycle
            if started is None and min(turns) >= WARM_UP:
                started = (now, served)
            elif started is not None and min(turns) >= WARM_UP + TURNS:
                return (served - started[1]) / (now - started[0])
        for other in range(part, warps, PARTITIONS):
            times[other] = earliest(other)


def disassembled(arch, sources):
    """{kernel: its instructions} of some files."""
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        binary = pathlib.Path(scratch) / "cubin"
        (pathlib.Path(scratch) / "copy.cu").write_text(COPY)
        for source in (*sources, pathlib.Path(scratch) / "copy.cu"):
            nvcc = [ROOT / ".cuda/bin/nvcc", "-cubin", "-O3", "-std=c++17", "-arch", arch, "-o", binary, source]
            subprocess.run(nvcc, check=True)
            text = subprocess.run([ROOT / ".cuda/bin/nvdisasm", "-c", "-hex", binary], check=True, capture_output=True, text=True)
            found |= kernels_of(text.stdout, DEVICES[arch][3])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="sm_80", choices=sorted(DEVICES))
    parser.add_argument("--kernels", type=pathlib.Path, default=ROOT / "kernels")
    parser.add_argument("--listing", action="store_true", help="print the instructions of a turn")
    parser.add_argument("wanted", nargs="+", metavar="NAME=WARPS[,TURNS]")
    arguments = parser.parse_args()
    code = disassembled(arguments.arch, [arguments.kernels / "all.cu"])
    print("| kernel | warps | instructions of a turn | bytes of a turn | bytes a cycle | of a copy |\n|---|---|---|---|---|---|")
    plain = None
    for name, numbers in (wanted.split("=") for wanted in ["copy=64", *arguments.wanted]):
        case, hot = CASES.get(name, Case()), hottest(code[name])
        warps, turns = (*map(int, numbers.split(",")), case.turns)[:2]
        trace = (around if case.around else straight)(code[name], hot, turns)
        if arguments.listing:
            print("\n".join(f"{i.stall:3} w{i.writes} r{i.reads} {i.waits:06b} {i.pipe:9} {i.text}" for i in trace))
        sizes = bytes_of(trace, case.lanes)
        rate = simulate(trace, sizes, warps, DEVICES[arguments.arch])
        plain = plain or rate
        print(f"| {name} | {warps} | {len(trace)} | {sum(sizes)} | {rate:.2f} | {100 * rate / plain:.0f} % |")


if __name__ == "__main__":
    main()
