"""`lt.fft`: transforms of signals to frequencies and back, under PyTorch's names.

In: real and complex tensors. Out: complex ones, or real ones of a spectrum that is Hermitian. Not
here: windows and spectrograms (signal/).

Files, in reading order:

- plans.py: How a transform of a length is done: its factors, and the matrices of numbers that it
  takes.
- stages.py: A transform along one axis, by a plan: products with matrices, and twiddles.
- transforms.py: Transforms along one axis, or several, under PyTorch's names.
- frequencies.py: What orders frequencies: shifts, and the frequencies themselves.

A transform is made of operations like any, so it is lazy, it fuses with what is around it, and
gradients, jit and all devices follow. The matrices are numbers in memory, computed once in float64.
"""
from lazyten.fft.frequencies import fftfreq as fftfreq
from lazyten.fft.frequencies import fftshift as fftshift
from lazyten.fft.frequencies import ifftshift as ifftshift
from lazyten.fft.frequencies import rfftfreq as rfftfreq
from lazyten.fft.transforms import fft as fft
from lazyten.fft.transforms import fft2 as fft2
from lazyten.fft.transforms import fftn as fftn
from lazyten.fft.transforms import hfft as hfft
from lazyten.fft.transforms import hfft2 as hfft2
from lazyten.fft.transforms import hfftn as hfftn
from lazyten.fft.transforms import ifft as ifft
from lazyten.fft.transforms import ifft2 as ifft2
from lazyten.fft.transforms import ifftn as ifftn
from lazyten.fft.transforms import ihfft as ihfft
from lazyten.fft.transforms import ihfft2 as ihfft2
from lazyten.fft.transforms import ihfftn as ihfftn
from lazyten.fft.transforms import irfft as irfft
from lazyten.fft.transforms import irfft2 as irfft2
from lazyten.fft.transforms import irfftn as irfftn
from lazyten.fft.transforms import rfft as rfft
from lazyten.fft.transforms import rfft2 as rfft2
from lazyten.fft.transforms import rfftn as rfftn
