"""`lt.quantization`: models with integers in place of floats.

In: modules, with floats as weights. Out: copies of them that keep weights as integers of 8 or 4
bits (`quantize`), and multiply integers where they were given examples; or that train for that
(`prepare`, `convert`). The integers come back as operations of tensors, so that schedules fuse them
as any other. Not here: formats of files (onnx/ reads quantized models).

Files, in reading order:

- affine.py: Integers in place of floats, each with a scale and a zero point.
- weights.py: Weights as integers: in 8 bits, or in 4, two to a byte.
- layers.py: Layers whose weight is kept as integers.
- observers.py: Observers: between which numbers the inputs of a layer lie, and the integers for
  that.
- static.py: Layers that multiply integers: inputs in 8 bits, by a scale found beforehand.
- training.py: Layers that train for what integers will leave of their weights and inputs.
- dynamic.py: `quantize_dynamic`: linear layers with integers as weights, chosen in PyTorch's way.
- converting.py: `quantize`, and `prepare` and `convert` for models that train for it.
"""
from lazyten.pytorch.modules import later as _later
from lazyten.quantization.affine import (
    fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine,
)
from lazyten.quantization.converting import convert, prepare, quantize
from lazyten.quantization.dynamic import (
    default_dynamic_qconfig,
    per_channel_dynamic_qconfig,
    quantize_dynamic,
)
from lazyten.quantization.observers import MinMax, MovingAverage, Observer, Percentile
from lazyten.quantization.weights import QuantizedWeight, nbytes_of

__getattr__ = _later("lazyten.quantization")
__all__ = [
    "MinMax", "MovingAverage", "Observer", "Percentile", "QuantizedWeight", "convert",
    "default_dynamic_qconfig", "fake_quantize_per_channel_affine",
    "fake_quantize_per_tensor_affine", "nbytes_of", "per_channel_dynamic_qconfig", "prepare",
    "quantize", "quantize_dynamic",
]
