#!/usr/bin/env bash
# The Python package: the wheel (in the development profile, which is optimised), installed into fresh environments, and its tests.
# Run it after scripts/test.sh, which builds the command line that the package is held against bit by bit; the engine is compiled
# once more, with the features of the wheel.
#
# Real data as in scripts/test.sh. torch_geometric takes 5.9 GB while the tests run, and comes in CI and where HARMONIA_TEST_TORCH is 1;
# elsewhere its tests say that they skip. In CI they cannot.
set -euo pipefail
cd "$(dirname "$0")/.."
# Packages of other steps are not those of a fresh environment.
unset PYTHONPATH

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# uv installs torch in 20 seconds, pip in four minutes. What it unpacks is linked from here and goes with it.
export UV_CACHE_DIR="$scratch/cache"
python3 -m venv "$scratch/tools"
"$scratch/tools/bin/python" -m pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2' 'uv>=0.9,<1'
uv="$scratch/tools/bin/uv"
# Where uv does not know the way to packages, pip may.
fresh() {
    python3 -m venv "$1"
    "$uv" pip install --quiet --python "$1/bin/python" "${@:2}" ||
        "$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"
}

start=$SECONDS
HARMONIA_CUDA=off "$scratch/tools/bin/maturin" build --quiet --strip --out "$scratch" --interpreter python3
wheel=$(echo "$scratch"/*.whl)
echo "$(basename "$wheel"): $(stat -c %s "$wheel") bytes, $((SECONDS - start)) s"

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

packages=("$wheel" pytest mypy scipy pandas polars scikit-learn networkx matplotlib)
# The packages of `harmonia[peers]`, as pinned.
if [ "${HARMONIA_TEST_TORCH:-${CI:+1}}" = 1 ]; then packages[0]="$wheel[peers]"; fi
start=$SECONDS
fresh "$scratch/tests" "${packages[@]}"
echo "environment of the tests: $(du -sm "$scratch/tests" | cut -f1) MB, $((SECONDS - start)) s"
HARMONIA_WHEEL="$wheel" "$scratch/tests/bin/python" -m pytest -q -rs --durations=10 python/tests
