"""Operators of particular fields. Files, in reading order:

- signals.py: Fourier transforms, windows, mel weights.
- chance.py: random numbers.
- integers.py: products and convolutions of quantized integers.
- texts.py: strings.
- learning.py: ai.onnx.ml.
- trees.py: its trees, and linear models.
- vectors.py: its support vector machines.
- features.py: its categories, and maps.
- training.py: ai.onnx.preview.training.
"""
from lazyten.onnx.operators.special import chance as chance
from lazyten.onnx.operators.special import features as features
from lazyten.onnx.operators.special import integers as integers
from lazyten.onnx.operators.special import learning as learning
from lazyten.onnx.operators.special import signals as signals
from lazyten.onnx.operators.special import texts as texts
from lazyten.onnx.operators.special import training as training
from lazyten.onnx.operators.special import trees as trees
from lazyten.onnx.operators.special import vectors as vectors
