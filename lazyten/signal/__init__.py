"""`lt.signal`: windows for spectra of signals, under PyTorch's names.

In: how long a window is. Out: tensors. Not here: spectra, which are complex.

Files, in reading order:

- windows.py: Windows: what a part of a signal is multiplied with before its spectrum is taken.
"""
from lazyten.signal import windows as windows
