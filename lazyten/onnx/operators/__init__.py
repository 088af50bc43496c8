"""The operators: one small function each, in the table of lazyten/onnx/table.py.

Functions are of lazyten's public ones; positions are inputs, keywords attributes.
Files, in reading order:

- on_arrays.py: what operators give of small constants, by NumPy alone.
- elementwise.py: an element for an element.
- reductions.py: one element of many; cumulative sums.
- shapes.py: elements moved; what tells of shapes.
- indexing.py: elements taken or put by index, and sorted.
- linear.py: products of matrices.
- windows.py: convolutions and poolings.
- normalization.py: normalizations, softmax.
- attention.py: attention, rotary embeddings.
- recurrent.py: RNN, GRU, LSTM.
- control.py: If, Loop, Scan.
- sequences.py: sequences, optional values, Identity.
- types.py: Constant, Cast, quantization.
- image.py: padding, resizing, sampling, regions, boxes.
- resizing.py: the weights that Resize multiplies by.

Signals, random numbers, quantized products, texts, trees and steps of optimizers are in `special/`.
"""
from lazyten.onnx.operators import attention as attention
from lazyten.onnx.operators import control as control
from lazyten.onnx.operators import elementwise as elementwise
from lazyten.onnx.operators import image as image
from lazyten.onnx.operators import indexing as indexing
from lazyten.onnx.operators import linear as linear
from lazyten.onnx.operators import normalization as normalization
from lazyten.onnx.operators import recurrent as recurrent
from lazyten.onnx.operators import reductions as reductions
from lazyten.onnx.operators import sequences as sequences
from lazyten.onnx.operators import shapes as shapes
from lazyten.onnx.operators import types as types
from lazyten.onnx.operators import windows as windows
