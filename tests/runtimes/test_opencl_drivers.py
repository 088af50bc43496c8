"""What a driver must not get, and that none can end the process: tables, trials, refusals."""
from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from c_kernels import every_op, leaf
from opencl_grid import GROUPS
from opencl_grid import NAME as GRID

import lazyten as lt
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.dialect import CLANG_OPENCL
from lazyten.codegen.targets.target import Target
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import make
from lazyten.ir.ops import Op
from lazyten.runtimes.code_cache import CodeCache
from lazyten.runtimes.opencl import drivers as opencl_drivers
from lazyten.runtimes.opencl import opencl
from lazyten.runtimes.opencl import programs as opencl_programs
from lazyten.runtimes.opencl import trial as opencl_trial
from lazyten.runtimes.opencl import trial_worker as opencl_trial_worker
from lazyten.runtimes.opencl.opencl import OpenCLRuntime
from lazyten.runtimes.opencl.targets import cpu_target
from lazyten.storage.device import executor
from lazyten.support.disk_cache import DiskCache
from lazyten.support.errors import CompileError, DeviceError

pytestmark = pytest.mark.opencl

INTEL = next(row for row in opencl_drivers.DRIVERS if row.platform.startswith("Intel"))
ENDS_ITSELF = (sys.executable, "-c", "import os; print('cannot select', flush=True); os.abort()")
HANGS = (sys.executable, "-c", "import time; time.sleep(60)")
FAILS = (sys.executable, "-c", "import sys; sys.exit('wrong numbers: MOD of float32')")
PASSES = (sys.executable, "-c", "")


# ---- the table -----------------------------------------------------------------------------------

def device(platform: str, version: str) -> Any:
    """As pyopencl describes one with 16 lanes of float."""
    return SimpleNamespace(platform=SimpleNamespace(name=platform), driver_version=version,
                           version="OpenCL 3.0",
                           native_vector_width_float=16, local_mem_size=0, double_fp_config=1)


def test_a_driver_is_known_by_its_platforms_name_and_its_version() -> None:
    pocl = "Portable Computing Language"
    old = opencl_drivers.driver_of(device(pocl, "3.0-rc2"))
    assert old is not None and (old.vector_bytes, old.call_lanes) == (32, 4)
    assert opencl_drivers.driver_of(device(pocl, "30.1")) is None
    assert opencl_drivers.driver_of(device("NVIDIA CUDA", "3.0")) is None


def test_what_drivers_read_from_the_environment_is_set_where_the_user_has_not(
        monkeypatch: pytest.MonkeyPatch) -> None:
    for given, found in (("", "loops"), ("loopvec", "loopvec")):
        monkeypatch.setenv("POCL_WORK_GROUP_METHOD", given)
        if not given:
            monkeypatch.delenv("POCL_WORK_GROUP_METHOD")
        opencl_drivers.apply_settings()
        assert os.environ["POCL_WORK_GROUP_METHOD"] == found


def test_kernels_keep_to_the_limits_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAZYTEN_TARGET", raising=False)
    given = device("", "")
    wide, limited = (cpu_target(given, driver) for driver in (
        opencl_drivers.UNKNOWN, opencl_drivers.DRIVERS[0]))
    assert (wide.vector_bytes, limited.vector_bytes) == (64, 32)
    assert isinstance(limited.language, type(CLANG_OPENCL)) and limited.language.call_lanes == 4


def test_a_named_target_is_that_of_the_device_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, found in {"x86-64-v2": (16, 16), "x86-64-v4": (64, 32)}.items():
        monkeypatch.setenv("LAZYTEN_TARGET", name)
        made = cpu_target(device("", ""))
        assert (made.vector_bytes, made.vector_registers, made.l2_bytes) == (
            *found, Target().l2_bytes)


CALL = re.compile(r"\b(?:sqrt|fmod|floor|copysign)\(([^()]*)\)")


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64], ids=lambda d: d.name)
def test_built_in_functions_get_no_more_lanes_than_the_dialect_says(dtype: dt.DType) -> None:
    def calls(lanes: int) -> set[str]:
        language = replace(CLANG_OPENCL, call_lanes=lanes)
        target = Target("opencl-cpu", 64, 32, threads=True, language=language, most_lanes=16)
        made = [generate(kernel, target) for kernel in every_op(dtype, 64)]
        return {argument.strip() for kernel in made for call in CALL.findall(kernel.source)
                for argument in call.split(",")}
    assert all(re.search(r"\.s[0-9a-f]{4}$", argument) for argument in calls(4))
    assert not any("." in argument for argument in calls(16))
    assert all(re.search(r"\.s[0-9a-f]$", argument) for argument in calls(1))


@pytest.mark.parametrize("op, words", [(Op.MAX, "2147483648"), (Op.CMPLT, "2147483648"),
                                       (Op.WHERE, "get_work_dim()")])
@pytest.mark.parametrize("lanes", [1, 4])
def test_what_the_driver_compares_wrongly_is_written_otherwise(lanes: int, op: Op,
                                                               words: str) -> None:
    kinds = (dt.bool_, dt.int32, dt.int32) if op is Op.WHERE else (dt.int32,) * 2
    given = tuple([leaf(1 + n, (8,), kind) for n, kind in enumerate(kinds)])
    result = dt.bool_ if op is Op.CMPLT else dt.int32
    kernel = Kernel("integers", (make(op, result, given),), tuple([(kind, 8) for kind in kinds]))
    for row in (opencl_drivers.DRIVERS[0], INTEL):
        language = cpu_target(device("", ""), row).language
        target = Target("opencl-cpu", 4 * lanes, 16, language=language, most_lanes=lanes)
        assert (words in generate(kernel, target).source) == (row is INTEL)


@pytest.mark.slow
def test_maxima_of_integers_next_to_the_least_are_right() -> None:
    """Intel's compiler crashed on the first, and gave other numbers for the second."""
    values = np.random.default_rng(0).integers(-50, 50, (8, 3, 33), np.int32)
    x = lt.tensor(values, device="opencl")
    assert x.amax(1).sum().item() == values.max(1).sum()
    kept = lt.tensor(values[:2], device="opencl").repeat_interleave(3, dim=0)
    index = (lt.arange(kept.numel(), device="opencl").reshape(kept.shape) // 2 * 4 + 2) % 3
    found = kept.scatter_reduce(-1, index, kept, "amin", include_self=False)
    known, places = kept.to("interpreter"), index.to("interpreter")
    wanted = known.scatter_reduce(-1, places, known, "amin", include_self=False)
    assert found.tolist() == wanted.tolist()
    padded = lt.tensor(values[0, 0, :17], device=GRID)
    assert (~padded).max().item() == (~values[0, 0, :17]).max()


def test_without_the_linker_that_a_driver_calls_the_error_says_what_to_install(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_drivers.shutil, "which", lambda name: None)
    pocl = device("Portable Computing Language", "3.0-rc2")
    row = opencl_drivers.driver_of(pocl)
    assert row is not None
    with pytest.raises(DeviceError, match=r"links kernels.*there is no 'ld': install gcc"):
        opencl_drivers.check_usable(row, pocl, "EPYC")


# ---- a driver without a row ----------------------------------------------------------------------

@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No driver has a row, and what passed is kept in a folder of its own."""
    monkeypatch.setattr(opencl_drivers, "DRIVERS", ())
    monkeypatch.setattr(opencl_trial, "open_cache",
                        lambda context: CodeCache(context, DiskCache(tmp_path)))
    opencl_trial.failure.cache_clear()
    yield
    opencl_trial.failure.cache_clear()


@pytest.mark.few(2)
@pytest.mark.parametrize(("command", "reason"), [
    (ENDS_ITSELF, r"ended the process that compiled a few kernels \(SIGABRT\): cannot select"),
    (HANGS, r"did not compile and run a few kernels within"),
    (FAILS, r"failed on a few kernels: wrong numbers: MOD of float32"),
    (("/nowhere/python",), r"cannot be tried: .*No such file"),
], ids=["ends the process", "hangs", "computes wrong numbers", "cannot be started"])
def test_an_unknown_driver_that_fails_its_trial_is_an_error(
        unknown: None, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...],
        reason: str) -> None:
    monkeypatch.setattr(opencl_trial, "COMMAND", command)
    monkeypatch.setattr(opencl_trial, "SECONDS", 1.0 if command is HANGS else 60.0)
    for _ in range(2):
        with pytest.raises(DeviceError, match=rf"^OpenCL device .* cannot be used: .*{reason}"):
            OpenCLRuntime()


def test_what_passed_is_not_tried_again(unknown: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (PASSES, ENDS_ITSELF):
        monkeypatch.setattr(opencl_trial, "COMMAND", command)
        opencl_trial.failure.cache_clear()  # as in the next process
        assert OpenCLRuntime().target.vector_bytes >= 16


def test_what_failed_is_tried_again_by_the_next_process(unknown: None,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_trial, "COMMAND", FAILS)
    assert opencl_trial.failure(0, "a driver") is not None
    monkeypatch.setattr(opencl_trial, "COMMAND", PASSES)
    assert opencl_trial.failure(0, "a driver") is not None
    opencl_trial.failure.cache_clear()
    assert opencl_trial.failure(0, "a driver") is None


@pytest.mark.slow
def test_a_driver_that_works_passes_its_trial(unknown: None) -> None:
    done = subprocess.run([*opencl_trial.COMMAND, "0"], text=True, capture_output=True,
                          env=os.environ | {"LAZYTEN_CACHE": "0"})
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_trial_finds_wrong_numbers() -> None:
    x = leaf(1, (75,), dt.float32)
    right, wrong = (Kernel(op.name, (make(op, dt.float32, (x,)),), ((dt.float32, 75),))
                    for op in (Op.SQRT, Op.NEG))
    runtime = executor("opencl")
    assert isinstance(runtime, OpenCLRuntime)
    root, negative = runtime.build([right, wrong])
    assert opencl_trial_worker.wrong_outputs(runtime, right, root) == []
    assert opencl_trial_worker.wrong_outputs(runtime, right, negative) == ["SQRT of float32"]


# ---- programs that a driver refuses --------------------------------------------------------------

REFUSED = """
import lazyten as lt
from lazyten.runtimes.opencl import programs as opencl_programs
x = lt.tensor([1.0, 2.0], device="opencl")
(x + 1).numpy()
text = opencl_programs.program_text
opencl_programs.program_text = lambda kernels: text(kernels).replace(*{change!r})
try:
    (x * 3).numpy()
except lt.CompileError as error:
    print("kernel map_2" in str(error))
opencl_programs.program_text = text
print((x * 5).tolist())
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("change", [("kernel void", "! kernel void"), ("kernel void", "void"),
                                    ("{", "{ missing(1);")],
                         ids=["not C", "no kernel", "an unknown function"])
def test_after_a_refused_program_the_process_goes_on_and_ends_normally(
        change: tuple[str, str], tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", REFUSED.format(change=change)], text=True,
                          capture_output=True, env=os.environ | {"TMPDIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (0, "True\n[5.0, 10.0]\n"), done.stderr


@pytest.mark.slow
def test_no_kernel_is_asked_for_its_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intel's driver answers INVALID_PROGRAM."""
    def invalid(kernel: object) -> None:
        raise AssertionError("a kernel was asked")
    monkeypatch.setattr(opencl.package().Kernel, "program", property(invalid))
    step = lt.jit(lambda x: ((x @ x).relu() + 1).sum(0))
    x = lt.eye(5, device="opencl")
    for _ in range(2):
        assert step(x).tolist() == [6] * 5
    x = lt.eye(5, device=GROUPS)
    assert step(x).tolist() == [6] * 5


@pytest.mark.parametrize("level", ["0", "3"])
def test_warnings_of_a_driver_are_shown_from_debug_3_on(
        level: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    text = opencl_programs.program_text
    monkeypatch.setattr(opencl_programs, "program_text",
                        lambda kernels: "#warning of the driver\n" + text(kernels))
    monkeypatch.setenv("DEBUG", level)
    factor = 7 + int(level)  # the program is not one that is there already
    assert (lt.tensor([1.0, 2.0], device="opencl") * factor).tolist() == [factor, 2 * factor]
    printed = capfd.readouterr()
    assert ("of the driver" in printed.out) == (level == "3")
    assert level == "3" or printed.err == ""


@pytest.mark.parametrize("name", ["there", "elsewhere"])
def test_a_context_lives_on_where_a_program_has_not_its_kernel(name: str) -> None:
    """Released, it could end the process: PoCL counts what is left of a program."""
    runtime = OpenCLRuntime()
    context = weakref.ref(runtime.context)
    x = leaf(1, (4,), dt.float32)
    compiled = runtime.compile(runtime.generate(
        [Kernel("there", (make(Op.NEG, dt.float32, (x,)),), ((dt.float32, 4),))]))
    for table in compiled:
        table["elsewhere"] = table["there"]
    refused = ""
    try:
        runtime.load(compiled, [name])
    except CompileError as error:
        refused = str(error)
    assert ("made a program without kernel elsewhere" in refused) == (name == "elsewhere")
    del runtime, compiled
    gc.collect()
    assert (context() is not None) == (name == "elsewhere")
