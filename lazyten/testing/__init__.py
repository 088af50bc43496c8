"""For tests: assertions about kernels and memory (docs/testing.md), and the kit that checks a new
runtime (docs/porting.md):

    pytest --pyargs lazyten.testing.conformance --device NAME

Files, in reading order:

- comparison.py: `assert_close`: tensors that are equal but for rounding.
- creation.py: `make_tensor`: tensors of random numbers to test with, under PyTorch's name and
  limits.
- diagnosis.py: What is wrong with an array, and what in a runtime is the likely cause, in plain
  words.
- kit.py: How the conformance kit runs: its options, the order of its stages, and the scorecard at
  the end.
- performance.py: Assertions about performance that do not depend on time: kernels launched,
  memory at the peak.
- plugin.py: The pytest plugin: takes part only in runs of the conformance kit.
- scorecard.py: What the conformance kit found out about a device: `Scorecard`, as text, Markdown
  and JSON.

`lazyten/testing/` has the kit that checks a runtime (docs/porting.md): plugin.py, which pytest
finds by entry point and which does nothing in other runs; kit.py, the order of stages;
diagnosis.py, which guesses a cause from how an array differs; scorecard.py; and the stages in
`conformance/`. These, `lazyten/__main__.py` and doctor.py use the package as any program does:
they may import all of it, and nothing imports them.
"""
from __future__ import annotations

from lazyten.testing.comparison import assert_allclose as assert_allclose
from lazyten.testing.comparison import assert_close
from lazyten.testing.creation import make_tensor
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

__all__ = ["Kernels", "PeakMemory", "assert_close", "assert_kernels", "assert_peak_bytes",
           "count_kernels", "make_tensor", "peak_bytes", "watch_kernels", "watch_memory"]
