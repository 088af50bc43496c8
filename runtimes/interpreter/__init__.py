"""The device interpreter: NumPy over the op table, the oracle of all others.

In: kernels, as graphs. Out: NumPy arrays by the meanings of the op table, without code
generation.

Files, in reading order:

- interpreter.py: The NumPy interpreter: a runtime that evaluates kernels with the op table's own
  meanings.
"""
