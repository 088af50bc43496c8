"""What programs use beside tensors and networks, under PyTorch's names.

Files, in reading order:

- checkpoint.py: `checkpoint`, `checkpoint_sequential`: activations that are computed again rather
  than kept.
- _pytree.py: nested containers as lists of leaves.
- _foreach_utils.py: groups of tensors that are alike.
- quasirandom.py: `lt.quasirandom`: points that fill a cube evenly, under PyTorch's names.
- benchmark.py: how long statements take.
- event_records.py: messages of TensorBoard's files as bytes.
- event_summaries.py: what TensorBoard shows, as such messages.
- tensorboard.py: files that TensorBoard shows, under PyTorch's names.

The room data/ has data sets and loaders: `lazyten.utils.data`.
"""
from __future__ import annotations

from lazyten.pytorch.modules import later as _later
from lazyten.utils import _foreach_utils, _pytree, checkpoint, data, tensorboard

__getattr__ = _later("lazyten.utils", "benchmark")
__all__ = ["_foreach_utils", "_pytree", "checkpoint", "data", "tensorboard"]
