#!/usr/bin/env python3
"""What the compiler made of kernels: instructions, loads from global memory, and how many of them are in flight.

    scripts/sass.py [--arch sm_89] [--kernels DIR] [KERNEL ...]

Compiles DIR/all.cu (kernels/ of this checkout) with .cuda/bin/nvcc and reads `cuobjdump -sass`. For each kernel:

  instructions   of the whole kernel, without padding
  loop           of its loop with most loads from global memory for each pass: those instructions
  loads          LDG in that loop, and how many bytes a lane asks for with them
  in flight      the longest run of LDG without a branch, or a use of what one of them loaded, in between

Run it on two checkouts to compare them. No GPU is needed.
"""
import argparse
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*([^;]*);")
BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def kernels_of(sass):
    """{kernel: [(address, predicated, opcode, operands)]}"""
    found, current = {}, None
    for line in sass.splitlines():
        name = re.search(r"Function : (\w+)", line)
        if name:
            current = found.setdefault(name.group(1), [])
        match = INSTRUCTION.match(line)
        if match and current is not None:
            current.append((int(match.group(1), 16), bool(match.group(2)), match.group(3), match.group(4)))
    return found


def is_load(instruction):
    return instruction[2].startswith("LDG")


def width(instruction):
    parts = instruction[2].split(".")
    return next((BYTES[part] for part in parts if part in BYTES), 4)


def registers(instruction):
    """What a load writes."""
    first = re.match(r"R(\d+)", instruction[3])
    return {int(first.group(1)) + at for at in range(max(1, width(instruction) // 4))} if first else set()


def used(instruction):
    operands = instruction[3].split(",", 1)
    text = instruction[3] if instruction[2].startswith("ST") else (operands[1] if len(operands) > 1 else "")
    return {int(number) for number in re.findall(r"\bR(\d+)", text)}


def in_flight(code):
    most, run, pending = 0, 0, set()
    for instruction in code:
        if instruction[2].split(".")[0] in ("BRA", "EXIT", "BRX", "CALL", "RET", "BAR", "WARPSYNC", "BSYNC"):
            run, pending = 0, set()
        elif used(instruction) & pending:
            run, pending = 0, set()
        if is_load(instruction):
            run, pending = run + 1, pending | registers(instruction)
            most = max(most, run)
    return most


def loops(code):
    """Stretches from the target of a branch back to the branch."""
    place = {address: at for at, (address, *_) in enumerate(code)}
    for at, (address, _, opcode, operands) in enumerate(code):
        target = re.search(r"0x([0-9a-f]+)", operands)
        if opcode.startswith("BRA") and target and int(target.group(1), 16) < address:
            yield code[place.get(int(target.group(1), 16), at): at + 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="sm_89")
    parser.add_argument("--kernels", type=pathlib.Path, default=ROOT / "kernels")
    parser.add_argument("names", nargs="*", help="all kernels where none is named")
    arguments = parser.parse_args()
    tools = ROOT / ".cuda" / "bin"
    with tempfile.TemporaryDirectory() as scratch:
        cubin = pathlib.Path(scratch) / "all.cubin"
        subprocess.run([tools / "nvcc", "-cubin", "-std=c++17", "-arch", arguments.arch, "-o", cubin,
                        arguments.kernels / "all.cu"], check=True)
        listing = subprocess.run([tools / "cuobjdump", "-sass", cubin], check=True, capture_output=True, text=True)
    found = kernels_of(listing.stdout)
    print("| kernel | instructions | loop | loads in it | bytes of a lane | in flight |\n|---|---|---|---|---|---|")
    for name in arguments.names or sorted(found):
        code = found[name]
        while code and code[-1][2] in ("NOP", "BRA"):
            code = code[:-1]
        inner = max(loops(code), key=lambda loop: (in_flight(loop), -len(loop)), default=code)
        loads = [instruction for instruction in inner if is_load(instruction)]
        print(f"| {name} | {len(code)} | {len(inner)} | {len(loads)} | {sum(map(width, loads))} | {in_flight(inner)} |")


if __name__ == "__main__":
    main()
