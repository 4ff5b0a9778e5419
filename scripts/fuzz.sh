#!/usr/bin/env bash
# Damaged inputs by the million for every reader; a failure names the target, the seed and the number of the input.
#
#   scripts/fuzz.sh [INPUTS [SEED]]      10,000,000 inputs from a seed of the clock where nothing is said
set -euo pipefail
cd "$(dirname "$0")/.."

export HARMONIA_FUZZ_INPUTS="${1:-10000000}" HARMONIA_FUZZ_SEED="${2:-$(date +%s)}"
export HARMONIA_CUDA="${HARMONIA_CUDA:-off}"
# A decoder's panic that a reader has caught would be told with a backtrace, whose symbols take 120 MB: more than an input may.
export RUST_BACKTRACE=0
echo "$HARMONIA_FUZZ_INPUTS inputs from seed $HARMONIA_FUZZ_SEED"
# The limits of the tests hold as well: 5 s and 64 MiB + 300 times its size for an input. One gigabyte for all of it.
ulimit -v $((16 * 1024 * 1024)) 2>/dev/null || true
cargo test --test fuzz -- --show-output
# Targets that draw their damage by proptest, which finds the smallest input that fails.
PROPTEST_CASES="${PROPTEST_CASES:-10000}" cargo test --test hostile_files
