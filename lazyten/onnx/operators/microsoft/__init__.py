"""Operators of com.microsoft: those that onnxruntime's optimizer and quantizer put into models.

Each is a function of tensors like those beside it; what one of them cannot do here is refused when
a model is loaded. Files, in reading order:

- fused.py: activations, products and convolutions in one with what stands beside them.
- normalization.py: normalizations of sums, and of embeddings.
- attention.py: attention with its projections, masks and past keys.
- positions.py: what positions add to the scores of attention.
- grouped.py: attention with caches of fixed size, rotary embeddings.
- states.py: linear attention and convolutions that keep a state.
- quantized.py: what computes with quantized integers.
- packed.py: weights of few bits.
- experts.py: mixtures of experts.
- arrays.py: older forms of operators that the standard has by now.
- older.py: what the standard took back.
- signals.py: spectra, windows along an axis, parts of images.
- texts.py: texts in parts.
"""
from lazyten.onnx.operators.microsoft import arrays as arrays
from lazyten.onnx.operators.microsoft import attention as attention
from lazyten.onnx.operators.microsoft import experts as experts
from lazyten.onnx.operators.microsoft import fused as fused
from lazyten.onnx.operators.microsoft import grouped as grouped
from lazyten.onnx.operators.microsoft import normalization as normalization
from lazyten.onnx.operators.microsoft import older as older
from lazyten.onnx.operators.microsoft import packed as packed
from lazyten.onnx.operators.microsoft import positions as positions
from lazyten.onnx.operators.microsoft import quantized as quantized
from lazyten.onnx.operators.microsoft import signals as signals
from lazyten.onnx.operators.microsoft import states as states
from lazyten.onnx.operators.microsoft import texts as texts
