"""The device meta: tensors of a shape and a type, without values.

In: kernels. Out: nothing; what would be read is an error.

Files, in reading order:

- meta.py: A runtime that computes nothing, so that a model is there before its weights.
"""
