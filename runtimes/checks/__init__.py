"""A checked kernel's report to an error.

In: a program that was compiled with checks, and its report. Out: the user's error.

Files, in reading order:

- checked.py: Programs of kernels that were compiled with checks: each launch is looked at before
  it counts.
- violations.py: The error for what a checked kernel has found, and which of its findings are
  errors.
- origins.py: Where in a kernel's expression a NaN, an infinity or an overflow is made, by
  evaluating it.

Runtimes know nothing of it: contract.py wraps the program in a `CheckedProgram`
(runtimes/checks/checked.py), which launches it, reads the report and has violations.py make the
error. origins.py finds the op at fault by evaluating the kernel's expression in NumPy. The
interpreter reports the same findings by that alone: it has no positions of its own, but for
NumPy's, which are checked.
"""
