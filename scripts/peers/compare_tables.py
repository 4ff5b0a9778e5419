#!/usr/bin/env python3
"""Test ROC-AUC of `harmonia-train` without any flag beside logistic regression, EBM and gradient boosting, on the tables of tables.py.

    python3 -m venv peers && peers/bin/pip install -r scripts/peers/requirements-tables.txt
    peers/bin/python scripts/peers/compare_tables.py --bin target/release            # --store DIR adds a store of yours

All read the same store and split. Each peer has the columns of a node alone and with the means of its neighbours at one and two
steps ("+ means"); none is tuned beyond what it does by itself (cross-validated ridge, early stopping). "tuned" (--tune) is
`harmonia tune`, 27 settings of its built-in space compared by validation ROC-AUC, and the test score of the winner. Prints one Markdown
table: mean over --seeds tables of each kind, which are generated anew, from --first on (the settings of the preset were chosen on
tables of seed 0 and 100); of a store with several splits, over the first of them.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import scipy.sparse as sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import tables


def logistic(threads):
    return make_pipeline(StandardScaler(), LogisticRegressionCV(Cs=10, scoring="neg_log_loss", max_iter=2000, n_jobs=threads))


def ebm(threads):
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(interactions=0, random_state=0, n_jobs=threads)


def boosting(_):
    return HistGradientBoostingClassifier(learning_rate=0.05, max_iter=500, early_stopping=True, random_state=0)


PEERS = [("logistic regression", logistic), ("EBM", ebm), ("gradient boosting", boosting)]


def read(store, number):
    """(X, labels, M, train, test) of a store of two classes."""
    load = lambda name: np.load(pathlib.Path(store) / f"{name}.npy")
    x, labels, pointers, neighbours = load("features").astype(float), load("labels"), load("row_ptr"), load("col_idx")
    degree = np.diff(pointers)
    walk = sparse.csr_matrix((np.ones(len(neighbours)), neighbours, pointers), shape=(len(x), len(x)))
    # A node without neighbours steps to itself.
    walk = sparse.diags(1 / np.maximum(degree, 1)) @ walk + sparse.diags((degree == 0).astype(float))
    if (pathlib.Path(store) / "splits.npy").exists():
        split = load("splits")[number]
        return x, labels, walk, np.flatnonzero(split == 1), np.flatnonzero(split == 3)
    return x, labels, walk, load("train"), load("test")


def peers(store, number, threads):
    x, labels, walk, train, test = read(store, number)
    once = walk @ x
    for name, make in PEERS:
        for suffix, columns in [("", x), (" + means", np.hstack([x, once, walk @ once]))]:
            model = make(threads).fit(columns[train], labels[train])
            yield name + suffix, roc_auc_score(labels[test], model.predict_proba(columns[test])[:, 1])


def ours(binary, store, number, out):
    command = [f"{binary}/harmonia-train", "--dataset", str(store), "--seed", str(number), "--json", "-q", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["test"]["roc_auc"]["mean"]


def tuned(binary, store, number, out):
    """Test score of what validation chose among 27 settings."""
    command = [f"{binary}/harmonia", "tune", str(store), "--seed", str(number), "--metric", "roc_auc", "--evaluate", "--json", "-q"]
    done = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["test"]["roc_auc"]["mean"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="target/release", help="directory of harmonia and harmonia-train")
    parser.add_argument("--seeds", type=int, default=3, help="tables of each kind")
    parser.add_argument("--first", type=int, default=1, help="seed of the first of them")
    parser.add_argument("--tune", action="store_true", help="search for settings too: a column more, minutes")
    parser.add_argument("--share", type=float, help="share of the nodes that are positive [default: about a fifth]")
    parser.add_argument("--nodes", type=int, default=tables.NODES)
    parser.add_argument("--splits", type=int, default=3, help="splits of each --store")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--store", action="append", default=[], help="a store of two classes to compare on too; its splits from 0 on")
    flags = parser.parse_args()
    warnings.filterwarnings("ignore")
    results = {}
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        cases = []
        for seed in range(flags.first, flags.first + flags.seeds):
            for kind in tables.KINDS:
                tables.write(home / f"csv-{seed}", kind, seed, flags.nodes, flags.share)
                store = home / f"store-{seed}-{kind}"
                convert = [f"{flags.bin}/harmonia", "data", "convert", str(home / f"csv-{seed}" / kind), "--format", "table"]
                subprocess.run([*convert, "--undirected", "--out", str(store)], check=True, capture_output=True)
                cases.append((kind, store, seed))
        cases += [(pathlib.Path(store).name, store, seed) for store in flags.store for seed in range(flags.splits)]
        for at, (kind, store, seed) in enumerate(cases):
            row = results.setdefault(kind, {})
            scores = [*peers(store, seed, flags.threads), ("harmonia", ours(flags.bin, store, seed, home / f"run-{at}"))]
            if flags.tune:
                scores.append(("tuned", tuned(flags.bin, store, seed, home / f"tune-{at}")))
            for name, score in scores:
                row.setdefault(name, []).append(100 * score)
            print(kind, seed, {name: round(each[-1], 2) for name, each in row.items()}, file=sys.stderr, flush=True)
    names = list(next(iter(results.values())))
    print("| table | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    for kind, row in results.items():
        best = max(np.mean(scores) for scores in row.values())
        shown = [f"**{np.mean(s):.2f}**" if np.mean(s) == best else f"{np.mean(s):.2f}" for s in row.values()]
        print(f"| {kind} | " + " | ".join(shown) + " |")


if __name__ == "__main__":
    main()
