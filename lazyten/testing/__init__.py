"""For tests: assertions about kernels and memory (docs/testing.md), and the kit that checks a new
runtime (docs/porting.md):

    pytest --pyargs lazyten.testing.conformance --device NAME
"""
from __future__ import annotations

from lazyten.testing.performance import (
    Kernels,
    PeakMemory,
    assert_kernels,
    assert_peak_bytes,
    count_kernels,
    peak_bytes,
    watch_kernels,
    watch_memory,
)

__all__ = ["Kernels", "PeakMemory", "assert_kernels", "assert_peak_bytes", "count_kernels",
           "peak_bytes", "watch_kernels", "watch_memory"]
