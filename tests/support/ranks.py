"""Programs of several processes for tests: functions of rank_programs/, run by mpiexec."""
from __future__ import annotations

import importlib.util
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from rank_server import REPLIES

MPIEXEC = Path(sys.executable).parent / "mpiexec"
needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or not MPIEXEC.exists(),
    reason="mpi4py and mpich are not installed: make test-distributed")
SECONDS = 240
"""No program takes so long, on a busy machine either."""
SUPPORT = Path(__file__).parent
_CODE = "LAZYTEN_TEST_CODE"
"""The variable that says where ranks keep the code of kernels, if somebody has a folder: then each
is compiled once for all processes of pytest-xdist."""
_own_code = tempfile.TemporaryDirectory(prefix="lazyten-ranks-")
_code = os.environ.get(_CODE, _own_code.name)
_ALONE = f"LAZYTEN_TEST_JOB={_own_code.name}"
"""What the environment of jobs has that run one program alone."""
_MAIN = "import json, rank_server, sys; rank_server.called(sys.argv[1], json.loads(sys.argv[2]))"


def _environment() -> dict[str, str]:
    """Ranks import what this process imports: where mutate.py runs the tests, a changed copy."""
    paths = os.pathsep.join([str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": paths, "LAZYTEN_NUM_THREADS": "1",
            "LAZYTEN_VERIFY": "1", "LAZYTEN_CACHE": _code}


def share_code() -> None:
    """Have the processes that this one starts keep code together."""
    os.environ.setdefault(_CODE, _own_code.name)


def finished(size: int, program: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    """A function, 'module:name', run by so many new ranks of one thread each; what came of it."""
    name, _, value = _ALONE.partition("=")
    return subprocess.run(
        [str(MPIEXEC), "-n", str(size), sys.executable, "-c", _MAIN, program,
         json.dumps(arguments)], env={**_environment(), name: value}, text=True,
        capture_output=True, timeout=SECONDS, check=False)


def left_over() -> list[str]:
    """The processes of jobs of one program that are still there."""
    marker, found = _ALONE.encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text().replace("\0", " ")[:200])
        except OSError:
            continue  # it has ended meanwhile, or is none of ours
    return found


class _Job:
    """So many ranks that run one program after another: starting them takes longer than most do."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._made = tempfile.TemporaryDirectory(prefix="lazyten-job-")
        self._folder = Path(self._made.name)
        names = [*map(str, range(size)), REPLIES]
        for name in names:
            os.mkfifo(self._folder / name)
        # A pipe that is opened for both ways waits for nobody: a rank may have failed to start.
        *self._pipes, self._replies = [os.open(self._folder / name, os.O_RDWR) for name in names]
        self._process = subprocess.Popen(
            [str(MPIEXEC), "-n", str(size), sys.executable, str(SUPPORT / "rank_server.py"),
             self._made.name], env=_environment(), stdin=subprocess.DEVNULL,
            stderr=(self._folder / "errors.txt").open("w"))

    def printed(self, program: str, arguments: tuple[Any, ...]) -> str:
        """What the ranks print; a test fails with their errors where one has any."""
        for pipe in self._pipes:
            os.write(pipe, json.dumps((program, arguments)).encode() + b"\n")
        deadline, through = time.monotonic() + SECONDS, 0
        while through < self.size:
            if select.select([self._replies], [], [], 0.2)[0]:
                through += len(os.read(self._replies, self.size))
            elif self._process.poll() is not None or time.monotonic() > deadline:
                self._process.terminate()
                self.end()
                pytest.fail(f"{program} on {self.size} ranks: {through} went through it\n"
                            + (self._folder / "errors.txt").read_text()[-6000:])
        return "".join((self._folder / f"{rank}.txt").read_text() for rank in range(self.size))

    def end(self) -> None:
        """No more programs."""
        _jobs.pop(self.size, None)
        for pipe in (*self._pipes, self._replies):
            os.close(pipe)
        self._process.wait()


_jobs: dict[int, _Job] = {}


def end_jobs() -> None:
    """End the ranks that served tests, and what they kept."""
    for job in list(_jobs.values()):
        job.end()
        job._made.cleanup()
    _own_code.cleanup()


def printed(size: int, program: str, *arguments: Any) -> str:
    """What a function, 'module:name', prints on so many ranks; a test fails with their errors where
    one has any. The ranks have run other programs before, and serve others afterwards."""
    if size not in _jobs:
        _jobs[size] = _Job(size)
    return _jobs[size].printed(program, arguments)


def error_of(size: int, program: str, *arguments: Any) -> str:
    """What a job that must fail says."""
    done = finished(size, program, *arguments)
    assert done.returncode != 0, done.stdout
    return done.stdout + done.stderr
