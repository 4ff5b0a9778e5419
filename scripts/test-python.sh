#!/usr/bin/env bash
# The Python package: the wheel (in the development profile, which is optimised), installed into fresh environments, and its tests.
# Run it after scripts/test.sh, which builds the command line that the package is held against bit by bit; it compiles the engine once more.
#
# Real data as in scripts/test.sh. torch_geometric takes 5.5 GB and is installed where HARMONIA_TEST_TORCH says 1, and in CI; elsewhere,
# and where it cannot be installed, its tests say that they skip.
set -euo pipefail
cd "$(dirname "$0")/.."
# Packages of other steps are not those of a fresh environment.
unset PYTHONPATH

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fresh() { python3 -m venv "$1" && "$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"; }

fresh "$scratch/tools" 'maturin>=1.9,<2'
HARMONIA_CUDA=off "$scratch/tools/bin/maturin" build --quiet --strip --out "$scratch" --interpreter python3
wheel=$(echo "$scratch"/*.whl)
echo "$(basename "$wheel"): $(stat -c %s "$wheel") bytes"

# With numpy alone.
fresh "$scratch/alone" "$wheel"
"$scratch/alone/bin/python" - <<'PY'
import numpy as np
from harmonia import HarmoniaClassifier
x = np.linspace(-1, 1, 40)[:, None]
model = HarmoniaClassifier(epochs=50).fit(x, x[:, 0] > 0)
assert model.predict(x).shape == (40,) and model.explain_local([3])[0]._repr_html_()
print("numpy alone: fits, predicts, explains")
PY

fresh "$scratch/tests" "$wheel" pytest mypy scipy pandas polars scikit-learn networkx matplotlib
if [ "${HARMONIA_TEST_TORCH:-${CI:+1}}" = 1 ]; then
    # The packages of `harmonia[peers]`, as pinned.
    timeout 900 "$scratch/tests/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel[peers]" ||
        echo "skipped: torch_geometric cannot be installed"
fi
HARMONIA_WHEEL="$wheel" "$scratch/tests/bin/python" -m pytest -q -rs python/tests
