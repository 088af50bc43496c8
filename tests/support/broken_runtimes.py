"""The example runtime of examples/lazyten_c, broken in ways that runtimes are: what the conformance
kit must find. Run as a program it lets the kit check them, and prints what it found as JSON."""
from __future__ import annotations

import ctypes
import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lazyten_c import CRuntime

from lazyten.codegen.targets.target import Target
from lazyten.devices.executor import Executor
from lazyten.support.errors import DeviceError

LIBRARIES: dict[str, Any] = {}


class Healthy(CRuntime):
    """The example as it is, but for a cache of compiled texts that all runtimes here share."""

    options: Sequence[str] = ()

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.compiler = [*self.compiler, *self.options]

    def compile(self, kernels: Any) -> Any:
        key = repr((self.compiler, [(k.declares, k.source) for k in kernels]))
        if key not in LIBRARIES:
            LIBRARIES[key] = super().compile(kernels)
        return LIBRARIES[key]


class Uncounted(Healthy):
    """Keeps all memory, and does not say how much it is."""

    memory_stats = Executor.memory_stats
    reset_peak = Executor.reset_peak

    def free(self, handle: int) -> None:
        pass


class StaleCopies(Healthy):
    """Keeps what it once read of a handle."""

    def copy_out(self, target: Any, handle: int) -> None:
        kept = self.__dict__.setdefault("kept", {})
        if (handle, target.nbytes) not in kept:
            super().copy_out(target, handle)
            kept[handle, target.nbytes] = target.copy()
        target[...] = kept[handle, target.nbytes]


class Misaligned(Healthy):
    """Memory starts 16 bytes late."""

    def alloc(self, nbytes: int) -> int:
        return super().alloc(nbytes + 16) + 16

    def free(self, handle: int) -> None:
        super().free(handle - 16)


class GivesTwice(Healthy):
    """Freed memory goes into a list for the next alloc, by mistake two times."""

    def alloc(self, nbytes: int) -> int:
        free = self.__dict__.setdefault("free_list", {}).get(nbytes, [])
        address = free.pop() if free else super().alloc(nbytes)
        self.__dict__.setdefault("of", {})[address] = nbytes
        return address

    def free(self, handle: int) -> None:
        self.free_list.setdefault(self.of[handle], []).extend([handle, handle])


class Leaks(Healthy):
    """Gives nothing back."""

    def free(self, handle: int) -> None:
        pass


class Unwaited(Uncounted):
    """Launches are done by a thread, and copies do not wait for it."""

    def launch(self, function: Any, buffers: Sequence[int]) -> None:
        def late() -> None:
            time.sleep(0.03)
            CRuntime.launch(self, function, buffers)
        threading.Thread(target=late).start()


class FreesEarly(Uncounted):
    """Launches wait until somebody reads; freed memory does not wait for them."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.queue: list[Callable[[], None]] = []

    def launch(self, function: Any, buffers: Sequence[int]) -> None:
        self.queue.append(lambda: CRuntime.launch(self, function, buffers))

    def synchronize(self) -> None:
        while self.queue:
            self.queue.pop(0)()

    def copy_in(self, handle: int, source: Any) -> None:
        self.synchronize()
        super().copy_in(handle, source)

    def copy_out(self, target: Any, handle: int) -> None:
        self.synchronize()
        super().copy_out(target, handle)

    def free(self, handle: int) -> None:
        ctypes.memset(handle, 0xFF, self._sizes[handle])


class Swaps(Healthy):
    """Exchanges the last two arguments of kernels with many."""

    def launch(self, function: Any, buffers: Sequence[int]) -> None:
        *first, a, b = buffers if len(buffers) > 3 else (*buffers[:-2], *buffers[-2:][::-1])
        super().launch(function, [*first, b, a])


class WrongOffset(Healthy):
    """Takes bytes for elements."""

    def with_offset(self, handle: int, nbytes: int) -> int:
        return handle + nbytes // 4


class RoundsDown(Healthy):
    """Work items in groups of 8, and the last group, which is not full, is left out."""

    target = Target("c", language="c", vector_bytes=4, most_lanes=1, threads=True,
                                work_group=8)

    def launch(self, function: Any, buffers: Sequence[int]) -> None:
        call, items = function
        super().launch((call, items if items == 1 else items // 8 * 8), buffers)


class KeepsHandles(Uncounted):
    """A sequence that goes on with the buffers of its first call."""

    def sequence(self, launches: Any) -> Any:
        run, first = super().sequence(launches), []

        def launch_all(buffers: Any) -> None:
            first.append(list(buffers))
            run(first[0])
        return launch_all


class NoNan(Healthy):
    """Compiles as if there were no NaN."""

    options = ("-ffinite-math-only",)


class Rewrites(Healthy):
    """Kernels are not what they should be: `rewritten` is their text."""

    def compile(self, kernels: Any) -> Any:
        return super().compile([replace(k, source=self.rewritten(k.source)) for k in kernels])

    def rewritten(self, source: str) -> str:
        raise NotImplementedError


class MasksWithOnes(Rewrites):
    """A load that is masked off gives 1."""

    def rewritten(self, source: str) -> str:
        return re.sub(r"( = x\d+ \? p\d+\[[^]]+\]) : \S+;", r"\1 : 1;", source)


class KeepsSums(Rewrites):
    """Accumulators start with what they had at last."""

    def rewritten(self, source: str) -> str:
        return re.sub(r"^( +\w+ a\d+) = [^;]+;", r"static\1;", source, flags=re.MULTILINE)


class DividesByReciprocals(Rewrites):
    """a / b is a * (1 / b), which is rounded twice."""

    def rewritten(self, source: str) -> str:
        return re.sub(r"((?:float|double) x\d+ = )(\w+) / (\w+);", r"\1\2 * (1 / \3);", source)


class Dirty(Healthy):
    """New memory is full of ones, as it may be."""

    def alloc(self, nbytes: int) -> int:
        address = super().alloc(nbytes)
        ctypes.memset(address, 0xFF, nbytes)
        return address


class OnlyTheLast(Dirty):
    """Of a kernel's functions only the last runs, the one that has the kernel's name."""

    def load(self, compiled: Any, names: Sequence[str]) -> Any:
        return [(call, 0 if "_stage" in name else items)
                for name, (call, items) in zip(names, super().load(compiled, names), strict=True)]


class LosesAnItem(Dirty):
    """Each seventh launch of a shared kernel goes without one work item."""

    target = replace(CRuntime.target, threads=True)

    def launch(self, function: Any, buffers: Sequence[int]) -> None:
        call, items = function
        launches = self.__dict__.setdefault("launches", Counter())
        launches[call.__name__] += items > 1
        super().launch((call, items - (launches[call.__name__] % 7 == 6)), buffers)


class ForgetsOffsets(Healthy):
    """In a sequence all arguments start where their memory does."""

    def resolved(self, buffers: Any, arguments: Any) -> Any:
        return [buffers[number] for number, _ in arguments]


class WrongMemoryError(Healthy):
    """Lets the system's error through when memory is out."""

    def alloc(self, nbytes: int) -> int:
        try:
            return super().alloc(nbytes)
        except DeviceError as error:
            raise MemoryError from error


class RunsBackwards(Healthy):
    """Long sequences run from the last launch to the first."""

    def sequence(self, launches: Any) -> Any:
        return super().sequence(launches if len(launches) < 6 else launches[::-1])


class WrongError(Healthy):
    """Lets the compiler's own error through."""

    def compile(self, kernels: Any) -> Any:
        try:
            return super().compile(kernels)
        except Exception as error:
            raise ValueError("the compiler failed") from error


def main(folder: Path, options: dict[str, list[str]]) -> None:
    """Let the kit check these devices, each with options of its own."""
    found = {}
    for name, more in options.items():
        card = folder / f"{name}.json"
        pytest.main(["-q", "-p", "lazyten.testing.plugin", "-p", "no:cacheprovider", "--pyargs",
                     *more, "--device", name, "--scorecard", str(card)])
        found[name] = json.loads(card.read_text())
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
