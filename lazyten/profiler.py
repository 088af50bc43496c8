"""`lt.profiler`: PyTorch's record of what ran, which lazyten refuses: it has its own."""
from __future__ import annotations

from lazyten.pytorch.refusals import refused

globals().update(refused(
    "profiler", "operations run fused and later than they are called, so times of calls say "
    "nothing; lazyten.profile() says what ran by kernel and by line, and writes a trace "
    "(docs/seeing.md), lazyten.explain(x) what will run",
    "DeviceType", "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity",
    "kineto_available", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler"))
