"""`lt.profiler`: PyTorch's record of what ran, which lazyten refuses: it has its own."""
from __future__ import annotations

from lazyten.support.refusals import refused

globals().update(refused(
    "profiler", "operations run fused and later than they are called, so times of calls say "
    "nothing; DEBUG=2 in the environment prints each kernel with its speed (docs/debug.md), "
    "lazyten.explain(x) what will run, lazyten.testing.watch_kernels() counts",
    "DeviceType", "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity",
    "kineto_available", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler"))
