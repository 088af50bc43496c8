"""`Executor`: what realizing needs of a device, as each runtime does it."""
from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from lazyten.devices.program import Argument, AtSizes, Handle, Launch, Limit, Program
from lazyten.ir import dtype as dt
from lazyten.ir.collective import Collective, Joined, Ranks, Refused
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel
from lazyten.support.errors import DeviceError, InternalError


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Bytes of a device's memory: handed out now, kept for reuse, and the most ever handed out at a
    time (since `reset_peak`)."""

    in_use: int
    pooled: int
    peak: int


class Kept(ABC):
    """What was worked out for devices like one and may serve later processes, by a key that says
    all it depends on besides the device and lazyten itself."""

    @abstractmethod
    def find(self, key: str) -> bytes | None:
        """What was kept under this key, if it is there and may be trusted."""

    @abstractmethod
    def keep(self, key: str, data: bytes) -> None:
        """Keep this, if the disk lets us."""


class Executor(ABC):
    """What realizing needs of a device; to port, subclass `lazyten.runtimes.contract.Runtime`."""

    contract: int
    """The version of the contract that a runtime of another package was written for."""

    has_offsets = False
    """Whether there is `with_offset`: kernels that differ only in where their inputs start are then
    one."""

    block_bytes = 0
    """How much of a value a kernel may hold at a time, where the kernels that make and read it run
    as one, a block of rows after the other; 0 where kernels cannot do that."""

    has_streams = False
    """Whether there are kernels that it `streams`."""

    alignment = 16
    """Bytes: where there are offsets, kernels differ, too, in which inputs start at no multiple of
    this."""

    has_varying = False
    """Whether there is `varying`: programs that serve many sizes."""

    is_host = False
    """Whether the host itself computes, in memory that `view` shows: what is not worth compiling is
    interpreted then (execution/interpreted.py)."""

    kept: Kept | None = None
    """Where schedules for this device are kept for later processes; None: nowhere."""

    @property
    def items(self) -> int:
        """How many work items keep the device busy that share what they read in groups; 0 where
        there are no groups."""
        return 0

    def streams(self, kernel: Kernel) -> bool:
        """Whether it runs a kernel in one pass whose reductions need each other, and would
        otherwise compute others inside of them again."""
        return False

    @property
    def has_tf32(self) -> bool:
        """Whether kernels can multiply float32 in tf32."""
        return False

    def __init__(self, index: int = 0) -> None:
        self.index = index

    @classmethod
    def find(cls, name: str) -> int | None:
        """The number of the device that a user calls `name`; None where devices have only numbers.

        DeviceError if there is none of this name.
        """
        return None

    @classmethod
    def devices(cls) -> Sequence[str]:
        """What each device is, in the order of their numbers; they need not be started for it.

        DeviceError, with what to install, where none can be used.
        """
        return ["this machine"]

    @classmethod
    def notes(cls) -> Sequence[str]:
        """What people should know of how the runtime is installed, a sentence each."""
        return ()

    @property
    def dtypes(self) -> frozenset[DType]:
        """Element types that kernels may use."""
        return frozenset(dt.ALL)

    def features(self) -> dict[str, str]:
        """What the device can do, for people: a name and a value for each."""
        return {}

    @abstractmethod
    def alloc(self, nbytes: int) -> Handle:
        """Uninitialized memory of `nbytes` bytes (0 is allowed)."""

    @abstractmethod
    def free(self, handle: Handle) -> None:
        """Give memory back; the handle is not used again."""

    def memory_stats(self) -> MemoryStats:
        """How much memory is handed out and kept. DeviceError if the runtime does not count it."""
        raise self._uncounted()

    def reset_peak(self, at_least: int = 0) -> None:
        """Let the peak of `memory_stats` be what is in use now, or `at_least` if that is more."""
        raise self._uncounted()

    def _uncounted(self) -> DeviceError:
        return DeviceError(f"{type(self).__name__} does not count its memory; measure on a device "
                           "that does, such as 'cpu'")

    def empty_cache(self) -> None:
        """Give memory that is kept for reuse back to the system; by default, there is none."""
        return

    @abstractmethod
    def copy_in(self, handle: Handle, source: np.ndarray[Any, Any]) -> None:
        """Copy a contiguous host array to the start of the memory."""

    @abstractmethod
    def copy_out(self, target: np.ndarray[Any, Any], handle: Handle) -> None:
        """Copy the start of the memory to a contiguous host array, once all launches are done."""

    def peek(self, handle: Handle, nbytes: int) -> bytes | None:
        """The first bytes of memory, where the host can read them at once; else None."""
        return None

    def view(self, handle: Handle, nbytes: int) -> np.ndarray[Any, Any] | None:
        """The first bytes of the memory as an array over it, once all launches are done; None where
        it is not the host's. What is on such a device can share memory with NumPy."""
        return None

    @abstractmethod
    def build(self, kernels: Sequence[Kernel]) -> list[Program]:
        """Compile kernels, each to one program."""

    def varying(self) -> Any:
        """What the device keeps of a computation at several sizes, for `build_varying`; None where
        each size has kernels of its own."""
        return None

    def build_varying(self, kernels: Sequence[Kernel], known: Any,
                      sizes: AtSizes) -> list[Program]:
        """The same as `build` at one of several sizes: kernels of one text for many of these.

        known: what `varying` gave, to which this adds."""
        return self.build(kernels)

    def at_numbers(self, program: Program, memory: Handle, offset: int,
                   scratch: Sequence[int]) -> Program:
        """A program that is `at_size` at another one: it reads its numbers from this byte of memory
        on, in slots, and works in so many bytes."""
        raise InternalError(f"{type(self).__name__} has no programs that serve many sizes")

    def look_at(self, kernels: Sequence[Kernel], known: Any, sizes: AtSizes) -> None:
        """Add to `known` what `build_varying` would, and compile nothing yet."""
        return

    @property
    def target_label(self) -> str:
        """What kernels are optimized for, as files of decisions name it; empty if there is nothing
        to decide."""
        return ""

    def candidates(self, kernel: Kernel) -> list[str]:
        """Decisions that may make this kernel faster than those it has, the likeliest first."""
        return []

    def estimates(self, kernel: Kernel) -> list[tuple[str, float]]:
        """Decisions with the cycles of one core that are expected of each: the kernel's own first,
        then others. Empty where nothing is decided, or there is no such estimate."""
        return []

    def generate(self, kernels: Sequence[Kernel]) -> Sequence[Any]:
        """The kernels' texts for this device, made anew, pass by pass; none where kernels stay
        graphs."""
        return ()

    def with_offset(self, handle: Handle, nbytes: int) -> Handle:
        """The same memory from byte `nbytes` on, a multiple of the size of its elements, for the
        arguments of a launch; good as long as `handle` is."""
        raise NotImplementedError

    def resolved(self, buffers: Sequence[Handle] | Mapping[int, Handle],
                arguments: Sequence[Argument]) -> list[Handle]:
        """The arguments of a launch as handles."""
        return [self.with_offset(buffers[n], offset) if offset else buffers[n]
                for n, offset in arguments]

    def sequence(self, launches: Sequence[Launch]) -> Callable[[Sequence[Handle]], object]:
        """One function that makes these launches in order, on these of its buffers.

        A runtime that can make many launches at the cost of one call, or run the programs of one
        launch together, does it better than this.
        """
        def launch_all(buffers: Sequence[Handle]) -> None:
            for program, arguments in chain.from_iterable(launches):
                program.launch(self.resolved(buffers, arguments))
        return launch_all

    def guarded(self, before: Sequence[Launch], limits: Sequence[Limit],
                after: Sequence[Launch]) -> Callable[[Sequence[Handle]], bool]:
        """One function for the launches `before` and, if all numbers are within their limits then,
        those `after`; it says whether they are."""
        first, rest = (self.sequence(part) if part else None for part in (before, after))

        def launch_all(buffers: Sequence[Handle]) -> bool:
            if first is not None:
                first(buffers)
            found = np.empty(1, np.int64)
            for memory, below in limits:
                self.copy_out(found, self.resolved(buffers, [memory])[0])
                if not 0 <= found[0] < below:
                    return False
            if rest is not None:
                rest(buffers)
            return True
        return launch_all

    def takes(self, what: Collective, dtype: DType) -> bool:
        """Whether the device carries out collectives like this by itself, of elements of this type,
        once it is joined to others. By default, all go by way of the host's memory."""
        return False

    def join(self, ranks: Ranks, place: str) -> Joined | Refused:
        """Join the device to those of other ranks, who all call this at once; all get the same,
        whether they are joined or not. place: what it is for, in errors' words."""
        raise NotImplementedError

    @abstractmethod
    def synchronize(self) -> None:
        """Return when every launch is done."""

    def seconds(self, launch: Callable[[], None]) -> float:
        """How long what `launch` launches takes."""
        self.synchronize()
        start = time.perf_counter()
        launch()
        self.synchronize()
        return time.perf_counter() - start
