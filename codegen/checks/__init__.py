"""Checks that a user asks for: stores and comparisons that are added to a kernel.

In: a SINK, or a Function. Out: the same, with a report of what was found. Not here: reading the
report (runtimes/checks/).

Files, in reading order:

- check_accesses.py: Checks of positions, as instructions: every one that is loaded or stored at
  is compared.
- check_values.py: Checks of values, as stores of the LOOP level: NaN, infinities and integers out
  of range.
- report.py: What a checked kernel reports: an array of int64, one record for each work item.

`Kernel.checks` says what a kernel looks for while it runs; realization.py puts there what
check_mode.py finds in CHECK or `lt.check`, so that the kernel's structure, and with it every
cache, knows. A checked kernel has one argument more, the report (codegen/checks/report.py): for
each work item a record with a key for each kind of check. Keys are combined by MAX, and the
greatest is the first element of the first site, so that what is reported does not depend on the
order of loops or on threads. Two passes of the pipeline make the checks, and no renderer has a
rule for them:

- check_values.py adds STOREs to the report to the SINK, after optimize, so that decisions are
  those of the plain kernel. They test what is stored for NaN and infinities, and follow overflows
  from their op to what is stored. An integer's exact result is computed beside it in floating
  point, which is exact enough as wrapping changes it by a multiple of 2**bits.
- check_accesses.py rewrites instructions, the last step before text: each position of a Load or
  Store is compared with the argument's size, what is outside is masked off, and keys are carried
  through loops.
"""
