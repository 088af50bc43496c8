"""What programs use beside modules: `lazyten.nn.utils`.

In: modules, parameters and tensors. Out: the same.

Files, in reading order:

- rnn.py: Sequences of different lengths, padded and packed, under PyTorch's names.
"""
from lazyten.nn.utils import rnn

__all__ = ["rnn"]
