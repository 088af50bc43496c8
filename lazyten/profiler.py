"""`lt.profiler`: PyTorch's record of what ran, which lazyten refuses, as it has its own; names for
parts of programs are taken."""
from __future__ import annotations

from contextlib import ContextDecorator

from lazyten.pytorch.refusals import refused

globals().update(refused(
    "profiler", "operations run fused and later than they are called, so times of calls say "
    "nothing; lazyten.profile() says what ran by kernel and by line, and writes a trace "
    "(docs/seeing.md), lazyten.explain(x) what will run",
    "DeviceType", "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity",
    "EventList", "emit_itt", "emit_nvtx", "profile", "schedule", "supported_activities",
    "tensorboard_trace_handler"))


def kineto_available() -> bool:
    """False: PyTorch's profiler is not there."""
    return False


class record_function(ContextDecorator):
    """A name for what this block, or the function it decorates, does; nothing reads it."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        return self

    def __exit__(self, *raised: object) -> None:
        """Nothing."""
