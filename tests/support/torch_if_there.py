"""PyTorch for the files of which only some tests need it: those have the marker `torch`.

Where it is not installed conftest.py skips them, and a test without the marker that uses it fails.
"""
from __future__ import annotations

from typing import Any

import pytest


class Absent:
    """Stands for the package where it is not installed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # pytest looks at all that a module has
            raise AttributeError(name)
        pytest.fail(f"the test uses torch.{name}, so it needs the marker: @pytest.mark.torch")


torch: Any
try:
    import torch
except ImportError:
    torch = Absent()
