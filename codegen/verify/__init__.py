"""Proofs that a loop nest and its instructions do what the kernel says.

In: what a pass made. Out: nothing, or an InternalError that names what is wrong.

Files, in reading order:

- readback.py: Integers and conditions of instructions, read back as index expressions.
- accesses.py: A proof that a kernel's instructions stay within their arguments and arrays, and
  fill outputs.
- loops.py: A proof that a loop nest visits each element just once, from the nest alone.

With LAZYTEN_VERIFY=1, as in all tests, what every pass gives is proven, and an InternalError
names what is wrong. Of a schedule draft.py shows that steps read what is there, and that no two
arrays are in one memory at a time. Of kernels node.py's `verify` looks at single nodes; three
modules of codegen look at the rest:

- loops/verify_rewrites.py: each time loops become other loops, in `ranges.replace_ranges`, the
  only place where they do. The rewrite puts expressions over new ranges in the place of old ones,
  so what is computed for an element stays the same, and what must be shown is that the iteration
  space does: no old range is left, the new ones take an output's range through all its values
  (several times, where the last of some blocks overlaps: equal values are then stored twice) and
  a reduction's through each just once, or masked past the end, so that the identity is combined;
  ACCUMULATEs bind just those; of merged ranges every expression is one of their row-major
  position.
- loops.py: the nest alone, after each pass that changes it. A STORE depends on loops of outputs
  only, so no step or lane of a reduction reaches it uncombined; its position goes through all
  elements of its argument, and through none twice but where blocks overlap; a reduction's range
  is bound once; a value has one vector axis (or a work item takes neighbours of several loops,
  until they are written out).
- accesses.py: instructions, when linearize has made them. Positions and masks are read back as
  index expressions over loops, items and lanes (readback.py). Then each Load, Store and Copy is
  inside by intervals, by the mask's inequalities times constants, or at all points there are. A
  masked scalar Store is inside without its mask.

Both proofs of positions count exactly (coverage.py): a sum in mixed radix is one run of
neighbours, and where runs start is enumerated, up to 4 million (65,536 for a nest as a whole,
which the rewrites prove part by part). What is longer is not looked at. What is in a group's
arrays is proven to be inside, not to be what was meant; nor are the layouts of tensor cores.
Tests break nests, rewrites and accesses by hand (tests/codegen/test_verify.py).
"""
