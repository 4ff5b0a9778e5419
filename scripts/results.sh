#!/usr/bin/env bash
# The table of accuracies in docs/results.md, measured again: every dataset of which the raw files are at hand, by both
# recipes, with the protocol of the paper. A row per dataset and recipe: score, negative log-likelihood, seconds.
#
#     scripts/results.sh [DATA_DIR] [DATASET ...]
set -euo pipefail
cd "$(dirname "$0")/.."
data=${1:-${HARMONIA_DATA:-../shared/data}}
if [ $# -gt 0 ]; then shift; fi
graphs="mutag proteins dd aids mutagenicity herg-karim"
nodes="cora citeseer tolokers"
chosen=${*:-$graphs $nodes}

cargo build --release --quiet --bin harmonia-train
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

printf '| dataset | recipe | accuracy %% | ROC-AUC %% | NLL | runs | seconds |\n|---|---|---|---|---|---|---|\n'
for dataset in $chosen; do
    case " $graphs " in
    *" $dataset "*) protocol="--folds 10 --repeats 3" ;;
    *) protocol="--seeds 5" ;;
    esac
    for recipe in paper tuned; do
        start=$(date +%s)
        # shellcheck disable=SC2086 # the protocol is several words
        target/release/harmonia-train --dataset "$dataset" --recipe "$recipe" $protocol --data-dir "$data" --offline \
            --quiet --json --out "$scratch/$dataset-$recipe" >"$scratch/result.json"
        python3 - "$dataset" "$recipe" "$(($(date +%s) - start))" "$scratch/result.json" <<'PYTHON'
import json, statistics, sys
dataset, recipe, seconds, path = sys.argv[1:]
runs = json.load(open(path))["runs"]
def cell(key, factor):
    values = [factor * run["test"][key] for run in runs if run["test"].get(key) is not None]
    return f"{statistics.mean(values):.{2 if factor > 1 else 4}f} ± {statistics.stdev(values):.{2 if factor > 1 else 4}f}"
print(f"| {dataset} | {recipe} | {cell('accuracy', 100)} | {cell('roc_auc', 100)} | {cell('nll', 1)} | {len(runs)} | {seconds} |", flush=True)
PYTHON
    done
done
