#!/usr/bin/env bash
# Trains, kills, resumes, converts, explains and predicts at random under limits on memory and file size, then holds what is
# left against a run that nothing happened to: the same bits, no litter.
#
#   scripts/soak.sh [SECONDS [SEED]]     an hour where nothing is said; BIN=DIR for programs that are built already
set -euo pipefail
cd "$(dirname "$0")/.."

seconds="${1:-3600}"
seed="${2:-$(($(date +%s) % 32768))}"
RANDOM="$seed"
echo "soaking for $seconds s from seed $seed"
if [ -z "${BIN:-}" ]; then
    HARMONIA_CUDA="${HARMONIA_CUDA:-off}" cargo build --release --bins
    BIN="${CARGO_TARGET_DIR:-target}/release"
fi
BIN=$(cd "$BIN" && pwd)
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
cd "$home"
export XDG_CACHE_HOME="$home/cache" HOME="$home"

mkdir tables
{ echo source,target; for i in $(seq 0 199); do echo "n$i,n$(((i * 7 + 1) % 200))"; done; } >tables/edges.csv
{
    echo id,a,b,label,split
    for i in $(seq 0 199); do
        part=train; [ $((i % 5)) = 3 ] && part=valid; [ $((i % 5)) = 4 ] && part=test
        echo "n$i,$((i % 17)),$(((i * 3) % 29)),$([ $((i % 17)) -gt 8 ] && echo yes || echo no),$part"
    done
} >tables/nodes.csv

limits() { ulimit -v $((6 * 1024 * 1024)); ulimit -f 65536; }
train() { (limits; exec "$BIN/harmonia-train" --quiet --memory 1G "$@"); }
harmonia() { (limits; exec "$BIN/harmonia" --quiet --memory 1G "$@"); }
settings=(--set 'model.hidden=[4]' --set run.checkpoint_seconds=0 --set train.dropout=0.2 --set train.patience=0 --epochs 400)

harmonia data convert tables --format table --out whole-store >/dev/null
train --dataset whole-store "${settings[@]}" --seeds 2 --out whole >/dev/null

# Runs a command and kills it after a moment; it may also come to its end, but must not fail.
struck() {
    local program="$1"
    shift
    (limits; exec "$BIN/$program" --quiet --memory 1G "$@" >out.txt 2>err.txt) &
    local pid=$! status=0
    sleep "0.$(printf %03d $((RANDOM % 700)))"
    kill -9 "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || status=$?
    if [ "$status" != 0 ] && [ "$status" != 137 ]; then
        echo "ended with $status: $program $*"; cat err.txt; exit 1
    fi
}

same() {
    for file in seed-0/best.safetensors seed-1/best.safetensors seed-0/last.safetensors seed-1/last.safetensors; do
        cmp "whole/$file" "$1/$file"
    done
    if find . -name '.harmonia-*' -o -name '*.harmonia-replaced' | grep -q .; then
        echo "litter:"; find . -name '.harmonia-*'; exit 1
    fi
}

end=$((SECONDS + seconds)) rounds=0 kills=0
while [ "$SECONDS" -lt "$end" ]; do
    rm -rf store run p.csv
    while [ ! -d store ]; do
        struck harmonia data convert tables --format table --out store; kills=$((kills + 1))
    done
    diff -r whole-store store
    while [ ! -e run/summary.json ]; do
        if [ -e run/config.toml ]; then
            struck harmonia-train --resume run
        else
            struck harmonia-train --dataset whole-store "${settings[@]}" --seeds 2 --out run
        fi
        kills=$((kills + 1))
        # Readers in between: they find the last whole model, or say that there is none yet.
        if [ -e run/seed-0/best.safetensors ]; then harmonia explain run --node n3 >/dev/null; fi
    done
    train --resume run >/dev/null
    for _ in 1 2 3; do
        struck harmonia predict run --out p.csv
        struck harmonia report run --quick
        kills=$((kills + 2))
    done
    harmonia predict run --out p.csv >/dev/null
    harmonia report run --quick >/dev/null
    same run
    rounds=$((rounds + 1))
done
harmonia data info whole-store --verify >/dev/null
echo "$rounds rounds, $kills blows: the same bits, no litter"
