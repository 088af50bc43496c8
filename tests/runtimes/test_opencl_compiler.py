"""Compilers of drivers run in processes of their own, which they may end: errors, never an end of
the user's process, no hang, and nothing left behind."""
from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Timer

import pytest
from c_kernels import leaf

from lazyten.codegen.targets.generated import Generated
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import make
from lazyten.ir.ops import Op
from lazyten.runtimes.opencl import compiler as opencl_compiler
from lazyten.runtimes.opencl.compiler import EndedError
from lazyten.runtimes.opencl.devices import device_of
from lazyten.runtimes.opencl.drivers import UNKNOWN, driver_of
from lazyten.runtimes.opencl.opencl import OpenCLRuntime
from lazyten.runtimes.opencl.programs import split
from lazyten.support.errors import CompileError

pytestmark = [pytest.mark.opencl,
              pytest.mark.skipif(os.name != "posix", reason="there are no such processes")]

@pytest.fixture(autouse=True)
def apart() -> None:
    """Tests are of drivers that compile in processes of their own."""
    if not (driver_of(device_of(0)) or UNKNOWN).apart:
        pytest.skip("this driver compiles in the user's process")


WORKER = """
import os, sys, time
from lazyten.runtimes.opencl import compile_worker as worker
answer = worker.answer
def other(context, device, text, options):
    if "kernel_bad" in text:
        {does}
    return answer(context, device, text, options)
worker.answer = other
worker.main()
"""
ABORTS = "print('LLVM ERROR: Cannot select: v16f32 = fsqrt', flush=True); os.abort()"
"""What PoCL does with AVX-512."""


def command(does: str) -> tuple[str, ...]:
    """A process whose driver does this with a kernel called 'bad'."""
    return sys.executable, "-c", WORKER.format(does=does)


def kernels(*names: str) -> list[Kernel]:
    """Different kernels of these names."""
    x = leaf(1, (64,), dt.float32)
    ops = (Op.NEG, Op.SQRT, Op.EXP, Op.RECIPROCAL, Op.EXP2, Op.SIN, Op.LOG2)
    return [Kernel(name, (make(op, dt.float32, (x,)),), ((dt.float32, 64),))
            for name, op in zip(names, ops, strict=False)]


def test_a_driver_that_ends_the_process_is_an_error_that_names_the_kernel(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_compiler, "COMMAND", command(ABORTS))
    runtime = OpenCLRuntime()
    with pytest.raises(CompileError, match=r"(?s)refuses kernel bad \(.*it ended the process that "
                       r"called it \(SIGABRT\): LLVM ERROR: Cannot select: v16f32"):
        runtime.build(kernels("a", "b", "bad", "d", "e", "f", "g"))
    assert [p.name for p in runtime.build(kernels("a", "b"))] == ["a", "b"]


MAXIMA = """
kernel void maxima(global uint *restrict p0, global const uint *restrict p1) {
  uint a1 = 0u;
  for (uint i2 = 0; i2 < 8; ++i2) {
    for (uint i5 = 0; i5 < 33; ++i5) {
      uint a7 = (-2147483648u);
      for (uint i8 = 0; i8 < 3; ++i8) {
        uint x11 = p1[i2 * 99u + i5 + i8 * 33u];
        a7 = ((int)a7 > (int)x11) ? a7 : x11;
      }
      a1 = a1 + a7;
    }
  }
  p0[0] = a1;
}
"""


def test_what_ends_intels_compiler_does_not_end_the_process() -> None:
    runtime = OpenCLRuntime()
    compiler = runtime.builder.compiler
    assert compiler is not None
    if not runtime.device.driver_version.startswith("2026.22.10"):
        pytest.skip("another version of the driver may compile this")
    with pytest.raises(EndedError, match=r"ended the process that called it \(SIGSEGV\)"):
        compiler.compile([MAXIMA], runtime.options)
    assert compiler.compile(["kernel void f(global int *p) { p[0] = 1; }"], runtime.options)


def test_a_driver_that_does_not_return_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_compiler, "COMMAND", command("time.sleep(1000)"))
    runtime = OpenCLRuntime()
    runtime.build(kernels("a"))
    monkeypatch.setattr(opencl_compiler, "PROGRAM_SECONDS", 0.5)
    with pytest.raises(CompileError, match=r"(?s)kernel bad .*it did not return within 0.5 s"):
        runtime.build([kernels("a", "bad")[1]])
    monkeypatch.setattr(opencl_compiler, "PROGRAM_SECONDS", 300.0)
    assert [p.name for p in runtime.build(kernels("a", "b", "c")[2:])] == ["c"]


def test_what_the_driver_prints_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_compiler, "COMMAND", command("os.write(1, b'warning')"))
    assert [p.name for p in OpenCLRuntime().build(kernels("bad"))] == ["bad"]


@pytest.mark.parametrize("other", [("/nowhere/python",), (sys.executable, "-c", "")],
                         ids=["cannot be started", "ends"])
def test_without_a_process_this_one_compiles(other: tuple[str, ...],
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_compiler, "COMMAND", other)
    runtime = OpenCLRuntime()
    assert [p.name for p in runtime.build(kernels("a", "b"))] == ["a", "b"]
    assert runtime.builder.compiler is None


def test_processes_for_another_device_are_not_used() -> None:
    runtime = OpenCLRuntime()
    compiler = runtime.builder.compiler
    assert compiler is not None
    compiler.identity += "another driver"
    assert [p.name for p in runtime.build(kernels("a"))] == ["a"]
    assert runtime.builder.compiler is None


def test_a_process_that_has_ended_in_between_is_replaced() -> None:
    runtime = OpenCLRuntime()
    runtime.build(kernels("a"))
    compiler = runtime.builder.compiler
    assert compiler is not None
    first, = compiler._workers
    first.process.kill()
    assert [p.name for p in runtime.build(kernels("a", "b")[1:])] == ["b"]
    again, = compiler._workers
    assert again.process.pid != first.process.pid
    again.process.send_signal(signal.SIGSTOP)  # it ends while it is asked
    Timer(1, again.process.kill).start()
    assert [p.name for p in runtime.build(kernels("a", "b", "c")[2:])] == ["c"]


def test_processes_end_with_the_runtime() -> None:
    runtime = OpenCLRuntime()
    runtime.build(kernels("a"))
    compiler = runtime.builder.compiler
    assert compiler is not None
    process = compiler._workers[0].process
    del compiler, runtime
    gc.collect()
    assert process.returncode is not None


PARENT = """
import os, sys
sys.path[:0] = {path!r}
from test_opencl_compiler import command, kernels
from lazyten.runtimes.opencl import compiler as opencl_compiler
from lazyten.runtimes.opencl.opencl import OpenCLRuntime
opencl_compiler.COMMAND = command({does!r})
OpenCLRuntime().build(kernels("bad"))
"""


def test_a_process_ends_with_the_one_that_started_it_whatever_the_driver_does(
        tmp_path: Path) -> None:
    note = tmp_path / "pid"
    does = f"open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    path = [str(Path(__file__).parent), *sys.path]
    parent = subprocess.Popen([sys.executable, "-c", PARENT.format(path=path, does=does)])
    try:
        wait(lambda: note.exists() and bool(note.read_text()))
    finally:
        parent.kill()
        parent.wait()
    wait(lambda: not alive(int(note.read_text())))


def wait(until: object) -> None:
    end = time.monotonic() + 120
    while not until():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether a process is there that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


FORKS = """
import os, sys
sys.path[:0] = {path!r}
from test_opencl_compiler import kernels
from lazyten.runtimes.opencl.opencl import OpenCLRuntime
runtime = OpenCLRuntime()
compiler = runtime.builder.compiler
runtime.builder.compiler.compile(["kernel void a(global int *x) {{ x[0] = 1; }}"], [])
before = compiler._workers[0].process.pid
child = os.fork()
binary, = compiler.compile(["kernel void b(global int *x) {{ x[0] = 2; }}"], [])
same = compiler._workers[0].process.pid == before
if child == 0:
    os._exit(0 if len(binary.code) and not same else 1)
print(os.waitpid(child, 0)[1], same)
compiler.compile(["kernel void c(global int *x) {{ x[0] = 2; }}"], [])
print(compiler._workers[0].process.pid == before)
"""


def test_a_fork_starts_its_own_processes_and_leaves_its_parents() -> None:
    path = [str(Path(__file__).parent), *sys.path]
    done = subprocess.run([sys.executable, "-W", "error", "-c", FORKS.format(path=path)],
                          text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (0, "0 True\nTrue\n"), done.stderr


def test_parts_of_a_build_are_as_long_and_in_order() -> None:
    def text(size: int) -> Generated:
        return Generated(name=str(size), source="x" * size, declares=(), loops="")
    given = [text(n) for n in (50, 10, 10, 10, 10, 10, 30, 30, 30, 30)]
    for most in range(1, 6):
        parts = split(given, most)
        assert [k for part in parts for k in part] == given
        assert len(parts) == min(most, 2)
    assert [sum(len(k.source) for k in part) for part in split(given, 2)] == [100, 120]
    assert split(given[:3], 4) == [given[:3]]
