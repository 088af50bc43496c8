"""Index arithmetic: affine forms, bounds, rewrite rules, simplification, views, formulas.

In: nodes, mostly of the LOOP level, movement ops, strides. Out: equal expressions with less work,
intervals, one View for a chain of moves. Not here: what loops become (codegen/loops/).

Files, in reading order:

- affine.py: Affine forms: an index expression as constant + sum of coefficient * term.
- bounds.py: Bounds: the interval that an integer or bool expression lies in.
- narrow_moves.py: Integers are moved, and so may be stored, in the fewest bytes that hold them.
- rules.py: Rewrite rules as data: a pattern language, and the engine that finds the rule for a
  node.
- algebra.py: The table of algebraic rules that hold for every dtype they name, exactly, wrapping
  included.
- index_algebra.py: Index algebra: the least division and remainder of sums of loop variables, and
  sums of those.
- comparisons.py: Comparisons of index expressions, one or several: decided, or with the fewest
  terms.
- simplify.py: LOOP expressions with the same values and less work.
- index_moves.py: Index moves: which element below a movement op each of its elements comes from,
  as expressions.
- strides.py: Arithmetic of strides and boxes, on plain integers.
- view.py: Views: how an array of some shape lies in a flat buffer.
- fitting.py: Whole numbers that were seen at several sizes, as expressions of these sizes.
- formulas.py: What numbers become at other sizes: formulas that hold at all sizes seen so far.
"""
