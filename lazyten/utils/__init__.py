"""What programs use beside tensors and networks, under PyTorch's names.

Files, in reading order:

- checkpoint.py: `checkpoint`, `checkpoint_sequential`: activations that are computed again rather
  than kept.
- tensorboard.py: PyTorch's writer for TensorBoard, which is refused.

The room data/ has data sets and loaders: `lazyten.utils.data`.
"""
from __future__ import annotations

from lazyten.utils import checkpoint, data, tensorboard

__all__ = ["checkpoint", "data", "tensorboard"]
