"""Calls of functions of tensors at sizes at which they were never recorded.

In: calls whose tensors differ in nothing but sizes, as a text or a cache grows. Out: their results,
without a graph, a schedule or code. Not here: `lt.jit(dynamic=...)`, which runs a function's Python
at each new size.

Files, in reading order:

- graph_formulas.py: A function's graphs at several sizes: whether formulas say them, and at which
  other sizes.
- launches.py: A computation at sizes at which nobody has recorded it: formulas say all numbers of
  its launches.
- looked.py: What is known of a function of tensors at the sizes of a region, and calls of such
  sizes.
- calls.py: Calls of a function of tensors with one size after the other, at sizes that were never
  recorded.

Loaded models do nothing but operations of tensors, so what they do follows from sizes alone, and
their Python need not run at each: after some sizes a region of them is looked at (looked.py), and
formulas say all numbers of what is launched at any other. Two things make that certain. Numbers
that are compared decide what a function does: so of sizes that differ in the outcome of any
comparison between what it computes of sizes, and what it knows, one each is recorded. And numbers
of launches are those of kernels that serve many sizes, where all formulas that hold agree; with
LAZYTEN_VERIFY=1 each such launch is compared with what would be planned.
"""
