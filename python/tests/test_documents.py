"""What documents show is run: docstrings, the README's Python section, docs/python.md, the scripts under examples/python; types hold."""

import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, data_directory

MODULES = ["harmonia", "harmonia.datasets", "harmonia._estimators", "harmonia._on_graph"]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0 and found.failed == 0


def sections(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.S)


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_pages_run(page, tmp_path, monkeypatch):
    data = data_directory()
    monkeypatch.setenv("HARMONIA_DATA", str(data))
    monkeypatch.chdir(tmp_path)
    code = sections(ROOT / page)
    assert code
    state: dict = {"__name__": "page"}
    for part in code:
        exec(compile(part, page, "exec"), state)


@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / "examples" / "python").glob("*.py")))
def test_scripts_run(script, tmp_path):
    environment = dict(os.environ, MPLBACKEND="agg")
    if "HARMONIA_DATA" not in environment:
        environment["HARMONIA_DATA"] = str(data_directory())
    run = [sys.executable, ROOT / "examples" / "python" / script]
    done = subprocess.run(run, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_types_hold():
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", "../pyproject.toml", "-p", "harmonia"], cwd=ROOT / "python", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
