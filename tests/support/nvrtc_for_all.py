"""A pytest plugin: NVIDIA's compiler must take each kernel that any test has built on any device.

`make test-nvrtc` runs the suite with it. What a test builds for the first time are CUDA programs,
compiled when the test is over; an error is the test's. A kernel is for one kind of GPU, and others
like it for the other: which, follows from its text. Of kernels that differ in their names and
numbers alone the compiler gets one, whichever process of whichever run has it first.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import wraps
from typing import Any
from zlib import crc32

import nvrtc
import pytest

from lazyten.codegen.pipeline import generate
from lazyten.devices.program import Program
from lazyten.ir.kernel import Kernel, held_values, structure
from lazyten.runtimes.contract import Runtime, program_text, with_distinct_names
from lazyten.runtimes.cuda.compiler import OPTIONS, own_name
from lazyten.runtimes.cuda.cuda import target_of
from lazyten.runtimes.cuda.driver import Properties

GPUS = {f"sm_{own_name(architecture)}": target_of(Properties(
    "", architecture, memory=80 << 30, local_memory=48 << 10, most_threads=1024, warp=32,
    registers=1 << 16, multiprocessors=108, l2=40 << 20))
    for architecture in (80, 90)}

_built: dict[str, Kernel] = {}
"""What the test has built and none before it, by structure."""
_compiled: set[str] = set()


def _note(kernel: Kernel) -> None:
    """Remember a kernel: without decisions, which are another device's, and as it is where no value
    is held, which GPUs do not."""
    plain = replace(kernel, decisions=None)
    if not held_values(plain.outputs):
        key = structure(replace(plain, name=""))
        if key not in _compiled:
            _built.setdefault(key, plain)


def _noting(build: Any) -> Any:
    @wraps(build)
    def noted(self: Runtime[Any], kernels: Sequence[Kernel]) -> list[Program]:
        programs: list[Program] = build(self, kernels)
        for kernel in kernels:
            _note(kernel)
        return programs
    return noted


Runtime.build = _noting(Runtime.build)  # type: ignore[method-assign]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Compile what is new."""
    built = dict(_built)
    _compiled.update(built)
    _built.clear()
    for number, (architecture, target) in enumerate(GPUS.items()):
        kernels = with_distinct_names([kernel for key, kernel in built.items()
                                       if crc32(key.encode()) % len(GPUS) == number])
        options = [f"-arch={architecture}", *OPTIONS]
        texts = {nvrtc.taken(text, options): text
                 for text in (generate(kernel, target) for kernel in kernels)}
        new = {file: text for file, text in texts.items() if not file.exists()}
        if new:
            assert nvrtc.compile_cuda(program_text(list(new.values())), options)
            for file in new:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many kernels that were, where tests ran in this process."""
    if _compiled:
        terminalreporter.write_line(f"NVRTC took {len(_compiled)} kernels for {' or '.join(GPUS)}")
