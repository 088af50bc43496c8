"""Layers for sequences: attention and transformers.

In: tensors with an axis of positions. Out: the same. `lazyten.nn` offers the layers. Not here: the
functions that they call (nn/functions/).

Files, in reading order:

- attention.py: `MultiheadAttention`: the weights of several heads, and options kept.
- transformer.py: Transformers: layers of attention and of perceptrons, stacked.
"""
