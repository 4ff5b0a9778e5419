#!/usr/bin/env bash
# All set-up and all tests, on a machine with Rust, a C++ compiler and Python. Real datasets are found by HARMONIA_DATA or
# in ../shared/data; tests that need an absent one, or a GPU, print "skipped: ...".
#
# Without a GPU, the suite for one and short trainings run on an emulator of it, where the emulator's sources are at hand
# (HARMONIA_PTX_EMULATOR=DIR, or ../shared/tools/ptx): tests build it into the target directory. Elsewhere they skip.
#
# Everything is built once, in the development profile (which is optimised): the main job and the doctor run from it too.
set -euo pipefail
cd "$(dirname "$0")/.."

# Nothing is built a second time there: what makes a second build quick would only slow down the first.
if [ -n "${CI:-}" ]; then export CARGO_INCREMENTAL=0; fi

step() { printf '\n== %s\n' "$*"; "$@"; }

cargo fmt --version >/dev/null 2>&1 || step rustup component add rustfmt
cargo clippy --version >/dev/null 2>&1 || step rustup component add clippy

# nvcc, NVRTC and libclang into .cuda: build.rs then compiles the kernels for every GPU generation.
step scripts/install-nvcc.sh

# numpy and scipy, for the scripts that open and write stores from Python, and for exported models; onnxruntime, which runs the latter
# in ONNX: without it their test says that it skips.
export PYTHONPATH="$PWD/.python${PYTHONPATH:+:$PYTHONPATH}"
if ! python3 -c 'import numpy, scipy, onnxruntime' 2>/dev/null; then
    step python3 -m pip install --quiet --upgrade --target .python numpy scipy onnxruntime ||
        step python3 -m pip install --quiet --upgrade --target .python numpy scipy
fi

# A browser, for the tests of report.html, METIS, for those of partitions, and an MPI library, for those of several processes; where one
# is not there and cannot be installed, they say that they skip.
browser() { { command -v chromium || command -v google-chrome; } && command -v chromedriver; }
metis() { python3 -c 'import ctypes; ctypes.CDLL("libmetis.so.5")' 2>/dev/null; }
packages=()
browser >/dev/null || packages+=(chromium chromium-driver)
metis || packages+=(libmetis5)
mpi() { command -v mpicc && command -v mpirun; }
mpi >/dev/null || packages+=(libopenmpi-dev openmpi-bin)
if [ "${#packages[@]}" -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    step apt-get update -qq || true
    step apt-get install -y -qq --no-install-recommends "${packages[@]}" || true
fi

# With MPI everything is built for it, once. Its bindings are made by the libclang of .cuda, unless there is another.
features=()
if mpi >/dev/null; then features=(--features harmonia/mpi); fi
# What the check for GPUs tests is what was built here.
export HARMONIA_TEST_FEATURES="${features[*]}"
if ! ls /usr/lib/llvm-*/lib/libclang*.so* >/dev/null 2>&1; then export LIBCLANG_PATH="${LIBCLANG_PATH:-$PWD/.cuda/lib}"; fi

step cargo fmt --all --check
# Licences, sources, duplicates, bans: tests/supply_chain.rs holds deny.toml everywhere; known faults need a database.
if command -v cargo-deny >/dev/null; then
    step cargo deny check bans licenses sources
    cargo deny check advisories || echo "note: advisories were not checked, or there are some: see above"
fi
# nvcc runs once, for the tests: clippy's runs of build.rs, which are its own, and the documentation do without.
HARMONIA_CUDA=off step cargo clippy --workspace --all-targets "${features[@]}" -- -D warnings
# The library by itself, without formats and commands. (What lies between, the feature `runs`, is what the wheel is built with.)
HARMONIA_CUDA=off step cargo clippy --lib --no-default-features -- -D warnings
# With the examples, because these bring the features of test dependencies, which everything was checked with above.
HARMONIA_CUDA=off RUSTDOCFLAGS="-D warnings" step cargo doc --workspace --no-deps --lib --examples "${features[@]}"
# --show-output: a test that has to skip says so.
step cargo test --workspace --no-fail-fast "${features[@]}" -- --show-output
# From here on what the tests were built with: `cargo run` would build once more, with the features of fewer crates.
built="${CARGO_TARGET_DIR:-target}/debug"
for example in fit_predict explain embed; do step "$built/examples/$example"; done
# The Python package, held against the command line that was just built.
step scripts/test-python.sh
# The main job as the README starts it, with fewer epochs and its directory out of the way.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
step "$built/harmonia-train" --epochs 20 --out "$scratch/run"
# The check for whoever has a GPU, at tiny sizes: on the GPU of this machine, or on what the tests have built.
emulator=$(ls -dt "${CARGO_TARGET_DIR:-target}"/tmp/ptx-emulator-* 2>/dev/null | head -n 1 || true)
if "$built/harmonia" doctor --json | grep -q '"device": "cuda"'; then
    step scripts/gpu-check.sh --tiny --out "$scratch/gpu-check.md"
elif [ -n "$emulator" ]; then
    LD_LIBRARY_PATH=$PWD/$emulator HARMONIA_CUDA_LIB=$PWD/.cuda/lib PTXEMU_CUOBJDUMP=$PWD/.cuda/bin/cuobjdump PTXEMU_CAP=89 \
        step scripts/gpu-check.sh --tiny --out "$scratch/gpu-check.md"
else
    echo "skipped: no GPU"
fi
# What the machine has, and what the compiler made of every kernel.
step "$built/harmonia" doctor
step "$built/harmonia" doctor --kernels
