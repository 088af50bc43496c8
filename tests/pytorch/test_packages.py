"""Packages for PyTorch, unchanged, in programs that `python -m lazyten run` runs: they print what
they print with PyTorch. (What they do is in tests/packages; .ci/requirements-packages.txt has the
packages.)"""
from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "packages"
NEEDS = {"vision": "torchvision", "transformers_models": "transformers", "metrics": "torchmetrics",
         "processes": "gpytorch"}
pytestmark = pytest.mark.torch


def printed(*command: str) -> Any:
    """What a program prints, as JSON."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "lazyten lacks" not in done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def compare(ours: Any, theirs: Any, place: str) -> None:
    """The same containers of numbers that agree to 1e-6: losses of transformers are float32."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), place
        for key in theirs:
            compare(ours[key], theirs[key], f"{place}, {key}")
    elif isinstance(theirs, list) and any(isinstance(t, list) for t in theirs):
        assert len(ours) == len(theirs), place
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            compare(mine, other, f"{place}[{number}]")
    else:
        np.testing.assert_allclose(ours, theirs, 1e-6, 1e-8, err_msg=place)


@pytest.mark.parametrize("name", NEEDS)
def test_a_package_does_in_lazyten_what_it_does_in_pytorch(name: str) -> None:
    package, script = NEEDS[name], str(FOLDER / f"{name}.py")
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    if subprocess.run([sys.executable, "-c", f"import {package}"], capture_output=True).returncode:
        pytest.skip(f"{package} is of another build than the PyTorch that is installed")
    compare(printed("-m", "lazyten", "run", script), printed(script), name)
