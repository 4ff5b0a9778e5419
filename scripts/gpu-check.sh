#!/usr/bin/env bash
# For the first person with a GPU: builds, runs everything that needs one, and writes one file to send back: the device, what
# passed and what failed, seconds of epochs, and milliseconds of each kernel beside the least that docs/roofline.md computes.
#
#   scripts/gpu-check.sh [--out gpu-check.md] [--bandwidth GB/S --tflops F]     an hour; the two numbers are those of the card
#   scripts/gpu-check.sh --tiny                                                 what is built, small graphs: minutes, emulated too
#
# Nothing stops at a failure: each is a line of the file. Ends with 1 where one failed, 2 where there is no GPU.
set -uo pipefail
cd "$(dirname "$0")/.."

out=gpu-check.md tiny= peak=()
while [ $# -gt 0 ]; do
    case $1 in
        --out) out=$2; shift ;;
        --tiny) tiny=1 ;;
        --bandwidth | --tflops) peak+=("$1" "$2"); shift ;;
        *) echo "usage: scripts/gpu-check.sh [--tiny] [--out FILE] [--bandwidth GB/S] [--tflops F]" >&2; exit 2 ;;
    esac
    shift
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
target=${CARGO_TARGET_DIR:-target}
failed=0

say() { printf '%s\n' "$*" | tee -a "$out"; }

# check NAME COMMAND...: a line of the table; what a failure said is kept below it.
check() {
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s: %s\n' "$name" "$*" >&2
    if "$@" >"$work/log" 2>&1; then
        say "| $name | passed | $((SECONDS - start)) s |"
    else
        failed=1
        say "| $name | **failed** | $((SECONDS - start)) s |"
        { printf '\n### %s\n\n    %s\n\n```text\n' "$name" "$*"; tail -n 60 "$work/log"; printf '```\n'; } >>"$work/failures"
    fi
}
skip() { say "| $1 | skipped: $2 | |"; }

if [ -n "$tiny" ]; then
    # What scripts/test.sh has built; nothing is compiled here.
    bin=$target/debug tests=(cargo test --workspace ${HARMONIA_TEST_FEATURES:-}) scales="0.002 0.0001"
else
    bin=$target/release tests=(cargo test --release --workspace) scales="1 1"
    scripts/install-nvcc.sh || true
    cargo build --release --workspace --bins || exit 1
fi
read -r arxiv_scale products_scale <<<"$scales"

: >"$out"
say "# GPU check"
say
say "$(date -u +%Y-%m-%d), harmonia $("$bin/harmonia" --version | head -n 1), $(uname -sm)${tiny:+, tiny sizes}"
say
say '```text'
"$bin/harmonia" doctor | tee -a "$out"
command -v nvidia-smi >/dev/null && nvidia-smi | tee -a "$out"
say '```'
if ! "$bin/harmonia" doctor --json | grep -q '"device": "cuda"'; then
    say
    say "No GPU that can be used: the lines above say why."
    exit 2
fi

say
say "| what | outcome | time |"
say "|---|---|---|"
check "driver, memory, products (tests/cuda.rs)" "${tests[@]}" --test cuda -- --test-threads=1 \
    memory_keeps_what_is_written any_thread_may_call products_are_row_major
if [ -n "$tiny" ]; then
    skip "every kernel against the CPU (tests/kernels.rs)" "runs by itself in scripts/test.sh"
    skip "compute-sanitizer" "tiny"
    skip "cargo bench" "tiny"
else
    check "every kernel against the CPU (tests/kernels.rs)" "${tests[@]}" --test kernels -- every_op_agrees_on_a_gpu
    if command -v compute-sanitizer >/dev/null; then
        suite=$("${tests[@]}" --test kernels --no-run --message-format=json 2>/dev/null |
            sed -n 's/.*"executable":"\([^"]*kernels-[^"]*\)".*/\1/p' | tail -n 1)
        for tool in memcheck racecheck initcheck synccheck; do
            check "compute-sanitizer $tool" compute-sanitizer --tool "$tool" --error-exitcode 1 "$suite" \
                --exact every_op_agrees_on_a_gpu_in_few_blocks
        done
    else
        skip "compute-sanitizer" "not installed (part of the CUDA toolkit)"
    fi
    check "cargo bench" cargo bench --bench ops
    [ -d "$target/criterion" ] && cp -r "$target/criterion" "${out%.md}-criterion"
fi

# From a readout of zero, the first gradients are rounding errors, which Adam blows up to whole steps: no two devices agree.
start=(--set init.readout_scale=1)
# Trainings: on the GPU, on the CPU where that is quick, and once more with each kernel timed.
epochs() {
    local name=$1 compare=$2
    shift 2
    check "$name on the GPU" "$bin/harmonia-train" "$@" "${start[@]}" --device cuda --json --out "$work/$name-gpu"
    check "$name, each kernel timed" env HARMONIA_CUDA_TIMES="$work/$name.times" \
        "$bin/harmonia-train" "$@" "${start[@]}" --device cuda --json --out "$work/$name-timed"
    if [ "$compare" = yes ]; then
        check "$name on the CPU" "$bin/harmonia-train" "$@" "${start[@]}" --device cpu --json --out "$work/$name-cpu"
        check "$name: the same losses" python3 scripts/gpu_check.py agree "$work/$name-gpu" "$work/$name-cpu"
    fi
}
if [ -d "${HARMONIA_DATA:-../shared/data}/Cora" ]; then
    mkdir -p "$work/data"
    cp -rL "${HARMONIA_DATA:-../shared/data}/Cora" "$work/data/Cora"
    chmod -R u+w "$work/data"
    epochs cora yes --dataset cora --data-dir "$work/data" --epochs "$([ -n "$tiny" ] && echo 2 || echo 50)"
else
    skip "cora" "not found (set HARMONIA_DATA)"
fi
for like in "ogbn-arxiv $arxiv_scale" "ogbn-products $products_scale"; do
    read -r like scale <<<"$like"
    check "$like, $scale of its size, generated" "$bin/harmonia" data generate --like "$like" --scale "$scale" --out "$work/$like"
    epochs "$like" "$([ -n "$tiny" ] && echo yes || echo no)" --store "$work/$like" --preset "$like" --epochs 2
done

say
python3 scripts/gpu_check.py report "$work" "$("$bin/harmonia" doctor --roofline --json ${peak[@]+"${peak[@]}"} >"$work/roofline.json" &&
    echo "$work/roofline.json")" | tee -a "$out"
[ -f "$work/failures" ] && { say; say "## What failed"; cat "$work/failures" >>"$out"; }
printf '\nwritten: %s\n' "$out" >&2
exit "$failed"
