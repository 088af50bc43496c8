"""Programs of several processes for tests: functions of rank_programs/, run by mpiexec."""
from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

MPIEXEC = Path(sys.executable).parent / "mpiexec"
needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or not MPIEXEC.exists(),
    reason="mpi4py and mpich are not installed: make test-distributed")
SECONDS = 240
"""No program takes so long, on a busy machine either."""
SUPPORT = Path(__file__).parent
_code = tempfile.TemporaryDirectory(prefix="lazyten-ranks-")
"""Where ranks keep the code of kernels: each is compiled by one of them, for all tests of a run."""
_MAIN = ("import json, sys; from importlib import import_module; "
         "module, _, name = sys.argv[1].partition(':'); "
         "getattr(import_module('rank_programs.' + module), name)(*json.loads(sys.argv[2]))")


def finished(size: int, program: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    """A function, 'module:name', run by so many ranks of one thread each; what came of it."""
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT), "LAZYTEN_NUM_THREADS": "1",
                   "LAZYTEN_VERIFY": "1", "LAZYTEN_CACHE": _code.name}
    return subprocess.run(
        [str(MPIEXEC), "-n", str(size), sys.executable, "-c", _MAIN, program,
         json.dumps(arguments)], env=environment, text=True, capture_output=True, timeout=SECONDS,
        check=False)


def left_over() -> list[str]:
    """The processes of jobs that are still there."""
    marker, found = f"LAZYTEN_CACHE={_code.name}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text().replace("\0", " ")[:200])
        except OSError:
            continue  # it has ended meanwhile, or is none of ours
    return found


def printed(size: int, program: str, *arguments: Any) -> str:
    """What the ranks have printed; a test fails with their errors where one has any."""
    done = finished(size, program, *arguments)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


def error_of(size: int, program: str, *arguments: Any) -> str:
    """What a job that must fail says."""
    done = finished(size, program, *arguments)
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr
