"""Computations at sizes that vary: plans for a new size that cost neither a schedule nor code.

In: a graph at one size after the other, as a text grows by a word or a batch is smaller. Out: at
each its schedule, and what devices need to know for programs that serve many sizes. Not here: those
programs (codegen/templates.py), and `lt.jit(dynamic=...)`, whose sizes the user names.

Files, in reading order:

- ahead.py: Which sizes to look at, around those that are asked for.
- forms.py: Schedules of one graph at many sizes: made by the same choices, or by formulas.
- planned.py: What is being planned at one of many sizes: which computation, and which size.
- families.py: Graphs that differ in nothing but numbers: which of these are the sizes, and other
  sizes' graphs.
"""
