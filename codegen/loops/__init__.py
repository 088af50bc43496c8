"""GRAPH to LOOP, and rewrites of loops, with their proofs.

In: a kernel's GRAPH, or a SINK of stores over ranges. Out: a SINK. Not here: which loops become
what (model/, optimize/).

Files, in reading order:

- lower.py: A kernel's GRAPH expressions become stores of LOOP expressions over loop variables.
- tile_fusion.py: Kernels that hold values a block of rows at a time, instead of storing all of
  them.
- ranges.py: Rewrites of loop variables: merge two into one, split one in parts, pad a reduction
  to vectors.
- streaming.py: Reductions over one axis that need each other, in one pass over it: streaming
  softmax.
- stops.py: From which iteration on a loop changes nothing: where a comparison of indices hides the
  rest.
- summation.py: Long sums of floats are cut into blocks that are summed up apart, so that errors
  grow slowly.
- packing.py: STAGE: copy an operand to scratch memory in a layout of its own, once, before the
  kernel's loops.
- reduction_blocking.py: Sums in blocks: all of the output with a part of the reduction, then all
  of it with the next.
- peeling.py: Peeling: the last iteration of a reduction's loop stands behind it, where only that
  is masked.
- coverage.py: What an index expression covers as its ranges run: each element once, some twice,
  or not all.
- verify_rewrites.py: Proofs that a rewrite of loop variables keeps the iteration space, by
  ranges.replace_ranges.

`lower`: every node is read at index expressions; movement ops become index arithmetic
(index_moves.py), a PAD also the validity of the loads under it, a REDUCE an ACCUMULATE over
ranges, a GATHER an index with a LOAD in it. Index arithmetic is simplified as it is made:
simplify.py applies rules.py's pattern language to the table in algebra.py, then bounds.py,
affine.py, index_algebra.py, comparisons.py. Floats are never reassociated.

A kernel that holds values is lowered in parts (codegen/loops/tile_fusion.py), a SINK for each
value held and one for the outputs, which go through the same passes. Their loops over blocks are
'parallel' from the start, so what is decided is what is inside, part by part; operands are packed
once, for all blocks. `llvm_blocks.render_blocks` writes the function that runs all parts for each
block of a chunk, in scratch memory of the chunk's own. Such kernels take no decisions as text,
and checked computations have none. On the machine of docs/benchmarks.md attention forward takes
about 10% less time by it, and no memory for scores (128 MiB at B=2, H=8, T=1024); a perceptron 0
to 6%. No rescaling is needed there: a row of scores fits. On GPUs, where it does not, streaming.py
rescales.
"""
