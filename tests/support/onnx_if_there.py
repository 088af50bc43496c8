"""Whether tests can use the package onnx: not by its import alone, as the folder tests/onnx has its
name."""
from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest


def lacking() -> str | None:
    """What is missing; None if the package is there."""
    spec = find_spec("onnx")
    is_there = spec is not None and spec.origin is not None
    return None if is_there else "the package onnx is not installed"


def needed() -> Any:
    """The package; the file that asks for it is skipped where it is missing."""
    reason = lacking()
    if reason is not None:
        pytest.skip(reason, allow_module_level=True)
    import onnx
    return onnx
