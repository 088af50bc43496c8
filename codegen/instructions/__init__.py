"""LOOP to instructions, and passes over instructions.

In: LOOP nodes as optimize and numerics leave them. Out: a Function, typed instructions in nested
blocks, which renderers spell.

Files, in reading order:

- instructions.py: What linearize makes and renderers read: typed instructions in nested blocks.
- builder.py: Builds instructions, each placed in the outermost block where its operands are
  known.
- scopes.py: What linearize knows while it goes: the loops that are open, and the values in them.
- memory.py: Where linearize reads and writes: addresses, and the loads that they are made for.
- staging.py: How linearize fills arrays in the local memory of a group: STAGEs.
- accumulation.py: How linearize runs the loops of reductions: ACCUMULATE.
- local_matrices.py: How linearize multiplies by tensor cores that read local memory by themselves,
  while items go on.
- matrices.py: How linearize multiplies by tensor cores: the loops of a MATRIX, and what items hold
  of operands.
- streams.py: How linearize runs reductions that go over one axis together, as they need each other:
  RESCALED.
- linearize.py: LOOP expressions become instructions in nested loops.
- narrow.py: Index arithmetic in 32 bits where its values fit.
- vector_access.py: Accesses of a work item to neighbours in memory become one, where it is
  aligned.
- congruence.py: Congruences: what integers leave when divided by a power of two, whatever loops
  count to.
- division.py: Floor division and its remainder become what machines have: QUOTIENT, REMAINDER and
  FLOOR.
- literals.py: Numbers of instructions that differ from size to size: found, and read from memory
  instead.
- aliasing.py: Which arguments of a kernel may be one memory: an output and an input that it
  replaces.

`linearize`: instructions in structured loops (instructions.py, builder.py); a value is computed
once, in the outermost loop body its ranges allow. Loads and stores whose lanes are far apart, but
whose instances in a register tile are neighbours (a transpose; what a convolution stores with
channels as lanes), are read and stored along the tile and exchanged by shuffles.

Loads that may be outside are masked or address what is inside; tests run kernels between pages
that may not be touched.
"""
