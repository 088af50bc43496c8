"""Collectives as steps of a plan: one that begins it, and one that waits for its end.

In: the kernels of a schedule. Out: programs for those that are collectives; sequences of launches
with them among the device's own; and `abandon`. The group says who carries one out: the device
itself (ir/collective.py), which queues it, or the host (`Group.start`), for which this moves
values there and back, where they are not there.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from lazyten.devices.executor import Executor
from lazyten.devices.program import Handle, Launch, Limit, Program
from lazyten.ir.collective import Array, Collective, Flight, Part, collective_of
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel
from lazyten.storage.device import executor

Run = Callable[[Sequence[Handle]], object]
_under_way: list[Begin] = []


class Begin(Program):
    """Begins a collective, of the argument after the first, or of several one after the other."""

    def __init__(self, what: Collective, kernel: Kernel, device: str) -> None:
        self.name, self.source = kernel.name, ""
        self.what, self.kernel, self.device = what, kernel, device
        self.words = what.words_of(kernel.outputs[0].src)
        self.flight: Flight | None = None
        self.sent: Array | None = None
        self.received: Array | None = None
        self.result: Handle = None

    def launch(self, buffers: Sequence[Handle]) -> None:
        """Gather what is sent, and begin."""
        self.result, *given = buffers
        for other in _under_way:
            if other.flight is not None:
                other.flight.progress()
        _under_way.append(self)
        agreed = self.what.group.agreement(self.what, self.device, self.kernel.outputs[0].dtype,
                                           self.words, self.kernel.where)
        if agreed.joined is None:
            self.flight = self._by_host(given, agreed)
        else:
            self.flight = self._by_device(given, agreed)

    def _by_device(self, given: Sequence[Handle], agreed: Any) -> Flight:
        output = self.kernel.outputs[0]
        parts = [Part(handle, size) for handle, (_, size) in zip(given, self.kernel.inputs,
                                                                 strict=True)]
        return _Queued(agreed.joined.begin(self.what, output.dtype, parts,
                                           Part(self.result, output.numel), agreed.place))

    def _by_host(self, given: Sequence[Handle], agreed: Any) -> Flight:
        output, runtime = self.kernel.outputs[0], executor(self.device)
        parts = [_values(runtime, handle, dtype, size)
                 for handle, (dtype, size) in zip(given, self.kernel.inputs, strict=True)]
        self.sent = parts[0] if len(parts) == 1 else np.concatenate(parts)
        seen = _seen(runtime, self.result, output.dtype, output.numel)
        self.received = np.empty(output.numel, output.dtype.numpy) if seen is None else seen
        return self.what.group.start(self.what, self.sent, self.received, agreed)

    def end(self) -> None:
        """Wait, and leave what came where it belongs."""
        flight, received = self.flight, self.received
        assert flight is not None
        try:
            flight.wait()
        finally:
            self.forget()
        if received is None:
            return
        runtime = executor(self.device)
        if _seen(runtime, self.result, self.kernel.outputs[0].dtype, received.size) is None:
            runtime.copy_in(self.result, received)

    def forget(self) -> None:
        """It is not under way any more."""
        _under_way.remove(self)
        self.flight = self.sent = self.received = None


class _Queued:
    """A collective that the device itself carries out: at its end nothing waits but what is
    launched later."""

    def __init__(self, end: Callable[[], None]) -> None:
        self.wait = end

    def progress(self) -> None:
        """It needs none."""


class End(Program):
    """Waits for a collective."""

    def __init__(self, begun: Begin, kernel: Kernel) -> None:
        self.name, self.source, self.begun = kernel.name, "", begun

    def launch(self, buffers: Sequence[Handle]) -> None:
        """Return when its result is there."""
        self.begun.end()


def _seen(runtime: Executor, handle: Handle, dtype: DType, size: int) -> Array | None:
    """Device memory as an array over it, where it is the host's."""
    found = runtime.view(handle, size * dtype.itemsize)
    return None if found is None else found.view(dtype.numpy)


def _values(runtime: Executor, handle: Handle, dtype: DType, size: int) -> Array:
    """What is in device memory, flat, on the host; once all launches are done."""
    seen = _seen(runtime, handle, dtype, size)
    if seen is None:
        seen = np.empty(size, dtype.numpy)
        runtime.copy_out(seen, handle)
    return seen


def programs(kernels: Iterable[Kernel], device: str) -> dict[Kernel, Program]:
    """A program for each of these that is a collective."""
    found: dict[Kernel, Program] = {}
    begun: dict[int, Begin] = {}
    for kernel in kernels:
        what = collective_of(kernel)
        if what is not None:
            if what.is_end:
                found[kernel] = End(begun[what.serial], kernel)
            else:
                found[kernel] = begun[what.serial] = Begin(what, kernel, device)
    return found


def _is_collective(launch: Launch) -> bool:
    return isinstance(launch[0][0], Begin | End)


def are_among(launches: Sequence[Launch]) -> bool:
    """Whether a plan's launches have collectives among them."""
    return any(map(_is_collective, launches))


def sequence(runtime: Executor, launches: Sequence[Launch]) -> Run:
    """One function for launches with collectives among them: the device's own ones in between are
    one call each."""
    parts = [Executor.sequence(runtime, list(part)) if is_collective else
             runtime.sequence(list(part)) for is_collective, part in groupby(
                 launches, _is_collective)]

    def launch_all(buffers: Sequence[Handle]) -> None:
        try:
            for part in parts:
                part(buffers)
        except BaseException:
            abandon()
            raise
    return launch_all


def guarded(runtime: Executor, before: Sequence[Launch], limits: Sequence[Limit],
            after: Sequence[Launch]) -> Callable[[Sequence[Handle]], bool]:
    """`Executor.guarded` of launches with collectives among them."""
    first, rest = sequence(runtime, before), sequence(runtime, after)

    def launch_all(buffers: Sequence[Handle]) -> bool:
        first(buffers)
        found: np.ndarray[Any, Any] = np.empty(1, np.int64)
        for memory, below in limits:
            runtime.copy_out(found, runtime.resolved(buffers, [memory])[0])
            if not 0 <= found[0] < below:
                abandon()
                return False
        rest(buffers)
        return True
    return launch_all


def abandon() -> None:
    """What is under way is of no use any more; but its memory is, until it has ended."""
    for begun in list(_under_way):
        try:
            if begun.flight is not None:
                begun.flight.wait()
        except Exception:  # the first error is the one to tell
            pass
        finally:
            begun.forget()

