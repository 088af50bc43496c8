"""`lt.version`: which lazyten this is, under PyTorch's names. For no library of PyTorch's is it
built, so their versions are None."""
from __future__ import annotations

__version__ = "0.1.0"
debug = False
cuda: str | None = None
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
git_version: str | None = None
