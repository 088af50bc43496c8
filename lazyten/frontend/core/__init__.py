"""What is said of an operation where it is defined.

Files, in reading order:

- mixed_precision.py: Mixed precision: `autocast`, within which products are computed in a low
  type, and what loses by that in float32.
"""
