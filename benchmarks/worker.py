"""One process for each framework: checks a case against NumPy, then times it when asked.

The parent (`__main__`) takes the frameworks in turn, so all but one process wait on their pipe
while one is timed. Separate processes keep one framework's spinning threads, allocator and garbage
out of another's timings, and a crash or hang costs one cell of the table.
"""
from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection

import numpy as np

from benchmarks.case import Case, flat
from benchmarks.cases import CASES
from benchmarks.frameworks import Framework, NotWritten, Tensor, hold_to_cores, load
from benchmarks.measure import NOT_WRITTEN

TIMEOUT_S = 90.0  # for one preparation, which may compile, or one timing
WARM_UPS = 3  # calls before timing; TinyJit captures on the second, lazyten traces again
LONG_S = 0.5
WAKE_S = 0.01  # a processor that has been idle takes milliseconds to come back
START = multiprocessing.get_context("spawn")


class Runner:
    """Prepares and times cases in this process."""

    def __init__(self, framework: Framework, cases: Mapping[str, Case]) -> None:
        self.framework = framework
        self.cases = cases
        self.case: Case | None = None
        self.call: Callable[[], Tensor] | None = None
        self.finish: Callable[[Tensor], object] = discard

    def prepare(self, name: str) -> str:
        """Set up a case and check its results: '' when they agree with NumPy's, else why not."""
        self.release()
        case = self.cases[name]
        try:
            call = case.prepare(self.framework)
            compare(case, call, self.framework)
            finish = self.framework.finish if case.waits else discard
            warm_up(lambda: finish(call()))
        except NotWritten:
            return NOT_WRITTEN
        except Exception as error:  # whatever a framework raises belongs in its cell of the table
            return described(error)
        self.case, self.call, self.finish = case, call, finish
        gc.collect()
        gc.freeze()  # a collection before each timing has little left to look at
        return ""

    def time(self, loops: int) -> float:
        """Seconds for one call (or one of its `parts`): the mean of `loops` calls, after others for
        WAKE_S seconds."""
        if self.case is None or self.call is None:
            raise RuntimeError("time() before a prepare() that succeeded")
        call, finish = self.call, self.finish
        gc.collect()
        gc.disable()
        try:
            begun = time.perf_counter()
            while time.perf_counter() - begun < WAKE_S:
                finish(call())
            start = time.perf_counter()
            for _ in range(loops):  # no result outlives its call: nothing can be computed once only
                finish(call())
            return (time.perf_counter() - start) / (loops * self.case.parts)
        finally:
            gc.enable()

    def release(self) -> None:
        """Drop the current case's tensors."""
        self.case = self.call = None
        gc.unfreeze()
        gc.collect()


def described(error: Exception) -> str:
    """An error's type and message, for the notes under the table."""
    return f"{type(error).__name__}: {error}".strip()


def warm_up(run: Callable[[], object]) -> None:
    """WARM_UPS calls, or fewer where they take long: all were called while checking."""
    start = time.perf_counter()
    for _ in range(WARM_UPS):
        run()
        if time.perf_counter() - start > LONG_S:
            return


def discard(result: Tensor) -> None:
    """Drop a result without waiting for it."""


def compare(case: Case, call: Callable[[], Tensor], framework: Framework) -> None:
    """Raise AssertionError unless the first `checked` results are the reference's."""
    for want in case.reference():
        np.testing.assert_allclose(flat(call(), framework.to_numpy), want, rtol=0,
                                   atol=case.tolerance * float(np.abs(want).max()))


def serve(connection: Connection, name: str, threads: int) -> None:
    """The worker's loop: answer ('prepare', case) and ('time', loops) until the pipe closes.

    A framework that cannot be loaded answers every `prepare` with the reason.
    """
    hold_to_cores(threads)
    runner, problem = None, ""
    try:
        runner = Runner(load(name, threads), {case.name: case for case in CASES})
    except Exception as error:  # as in `prepare`
        problem = described(error)
    while True:
        try:
            request, argument = connection.recv()
        except EOFError:
            return
        connection.send(getattr(runner, request)(argument) if runner else problem)


class RemoteRunner:
    """A Runner in a process of its own, started when first needed and again after a crash."""

    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        self.threads = threads
        self.connection: Connection | None = None

    def prepare(self, name: str) -> str:
        """As Runner.prepare; also says when the process died or hung."""
        try:
            return str(self.ask("prepare", name))
        except (EOFError, TimeoutError, OSError) as error:
            self.close()
            return "timed out" if isinstance(error, TimeoutError) else "crashed"

    def time(self, loops: int) -> float:
        """As Runner.time; NaN when the process died or hung."""
        try:
            return float(str(self.ask("time", loops)))
        except (EOFError, TimeoutError, OSError):
            self.close()
            return float("nan")

    def ask(self, request: str, argument: str | int) -> object:
        """Send one request and wait for its answer, TIMEOUT_S at most."""
        if self.connection is None:
            self.connection, theirs = START.Pipe()
            self.process = START.Process(target=serve, args=(theirs, self.name, self.threads),
                                         daemon=True)
            self.process.start()
            theirs.close()
        self.connection.send((request, argument))
        if not self.connection.poll(TIMEOUT_S):
            raise TimeoutError
        return self.connection.recv()

    def close(self) -> None:
        """End the process."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
            self.process.kill()
            self.process.join()
