"""`lt.signal`: windows for spectra of signals, and these spectra, under PyTorch's names.

In: how long a window is, and signals. Out: tensors. Not here: transforms of whole signals (fft/).

Files, in reading order:

- windows.py: Windows: what a part of a signal is multiplied with before its spectrum is taken.
- spectra.py: Spectra of the parts of a signal one after another, and back: `lt.stft` and
  `lt.istft`.
"""
from lazyten.signal import windows as windows
