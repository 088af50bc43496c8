"""Work items in groups: local memory, tensor cores, the estimate, the candidates.

In: the model of a kernel for a target whose `work_group` is above 1. Out: Decisions, and the SINK
with STAGEs in local memory and MATRIX nodes.

Files, in reading order:

- gpu.py: Decisions for a device of many work items: which of them share what, and what is in
  local memory.
- gpu_model.py: What a kernel takes on a device of many work items, with given decisions: a static
  estimate.
- gpu_tensor.py: Decisions that give a product to tensor cores: candidates, and what they take by
  the estimate.
- gpu_stream.py: Decisions for a streamed sum: tensor cores for it, and for the product that its
  rows are made of.
- local_memory.py: What the work items of a group do together: their digits, and STAGE in local
  memory.
- tensor_tiles.py: Tensor cores: the rewrite that puts an instruction in the place of a tile.
- stream_tiles.py: Tensor cores for a streamed sum: what one product gives is a factor of the next.

Where `Target.work_group` is above 1, values are scalars and `gpu.py` decides instead of the
search for vectors. Its candidates are a grid over the output axes that no store or reduction goes
without, and: nothing more, an item for each output, neighbours along one axis; a reduction, or a
row, that the items of a group share; tiles. `gpu_model.py` estimates each: instructions of a
warp, the 32-byte sectors that its loads and stores touch (worked out item by item from the
strides), what groups copy to local memory, steps of combining, and how much of the device the
warps keep busy.

- **'local' ranges** are to the items of a group what 'vector' ranges are to lanes: a range is
  split into loops, a register tile, items and lanes. Each is a digit of the item's number in its
  group, with a stride (`local_memory.strides_of`): the outputs' digits first, the last of them
  fastest, then a reduction's, or in their place if it does not depend on them, as a softmax's row
  sum. What differs in a digit that a value does not depend on computes the same value; a store is
  done by the first items only.
- A reduction with a 'local' range ends in an `Across`: a tree in local memory, halves first,
  whose result all items get. In CUDA text the steps within a warp are shuffles, with the same
  additions. So bits depend on the decisions, never on timing. There are no float atomics.
  Reductions of much to few numbers are two kernels, as on processors
  (lazyten/schedule/split_reductions.py). So are contractions whose results are too few for the
  work items that keep a device busy (`Executor.items`, the estimate's number): partial sums with
  an axis of parts, then their sum (split-K). What is a contraction follows from extents: it reads
  each element many times.
- **STAGE** (`local_memory.stage_in_local`) is the LOOP node of an array in local memory: what a
  LOAD reads while all ranges stand still but tile, items and `group(...)`, the part of a
  reduction that is taken at a time. All items fill it, neighbours in the operand by neighbours,
  and rows are padded to an odd length where those stores would meet in one bank. Masks are
  applied on the way in. linearize fills STAGEs where the loops that they depend on begin, between
  barriers. A transposed copy and a convolution go the same way as a product. All loops have
  constant trips and a group runs one iteration of the grid, so barriers are never in divergent
  code.
- **Buffers that take turns** (`stage(argument 1, local, 2 buffers)`, `local_memory.in_turns`): a
  STAGE in a reduction's loop is an array for each of so many iterations, and is filled as many
  but one ahead; or, with an array for every iteration, all in front of the loop, which then copies
  nothing. linearize copies what the first iterations read in front of the loop; an
  iteration waits for its own, comes to the loop's only barrier, and starts to copy for a later
  one (Copy, Commit and Wait of instructions.py). In CUDA text a Copy of 4, 8 or 16 aligned bytes
  is cp.async, which goes on meanwhile and writes zeros where a mask is off; all else, and all on
  devices without it, is copied on the spot, so any kernel may have buffers. Operands of 16 bits
  keep their order in memory then, so that 8 of them are one copy. The estimate takes two buffers,
  and a shorter part of the reduction if that makes room, where `Target.async_copies` says that
  copies go on by themselves.
- **Tensor cores** are a table (`tensor_cores.py`): a row says which digits of rows and columns an
  item of a warp holds. Output axes and the reduction get 'vector' ranges of the instruction's
  extents, which `with_matrices` replaces by the row's digits: 'local' for the item's number in its
  warp, 'unroll' for what it holds; the ACCUMULATE becomes a MATRIX. Factors are 16-bit floats as
  they are in memory, and their products are not rounded to 16 bits before they are added, which is
  a sum's freedom to contract. An operand in local memory is there in its own order; where its rows
  are 16 aligned bytes, a warp reads it by matrices of eight rows (matrices.py, PTX's ldmatrix),
  turned over where the reduction goes along the columns. The row for tf32 is used only where
  decisions ask for it, or where `set_float32_matmul_precision` lets it (`Kernel.tf32`, which a
  device without it never gets). In CUDA text an instruction is a function `lazyten_mma_NAME` with
  PTX in it, left out under `LAZYTEN_ON_CPU`; the tests define it in C++.
- **Tensor cores that read local memory by themselves** (`TensorCore.is_local`, wgmma.py, of sm_90a)
  get both factors from STAGEs, as descriptors (MatrixDescriptor). There a matrix is in rows of
  128, 64 or 32 bytes, along the side that is neighbours in memory, so both sides of a product may
  be transposed.
  Copies write rows as wholes; `local_memory.py` swizzles their lines of 16 bytes, so that the
  tensor core finds those of 8 rows in different banks. The part of the reduction that is in local
  memory is written out, since nobody may touch the results between MatrixFence and MatrixWait.
  Copies for a later iteration begin while the products run, which the iteration waits for
  (`local_matrices.py`).
- **Streamed sums** (loops/streaming.py): two products, and a softmax between them, in one pass over
  the axis that they share, as attention is. `gpu_stream.py` says when that pays, by a rule of four
  constants, and which shapes there are; the scheduler asks it (`Executor.streams`) before it joins
  the three kernels. Results of the first product stay in the registers where the second reads its
  factor (`stream_tiles.py`), as weights in 16 bits: so float32, whose weights would lose bits, runs
  by three kernels. A loop over keys ends behind the last one that a group's rows see
  (loops/stops.py).
- **16-bit floats** that a device has (`Target.halves`, native_half.py) are neither decoded by
  formulas nor computed in float32: half.py leaves their conversions and `+`, `-`, `*`, between
  BITCASTs of what is in memory. Text calls a function for each, which the dialect defines: PTX,
  with explicit rounding so that nothing is contracted, or OpenCL C. One rounding gives the bits
  of two, since float32 has more than twice the bits. Packed pairs are not used: such kernels wait
  for memory.
- `narrow.py` makes index arithmetic 32 bits wide where bounds show that it fits. A base may be
  below 0 as long as its offset is not added, so text adds them before it makes a pointer of the
  sum.
- **Vectors in memory.** Values stay scalars. 'vector' ranges are neighbours that one item takes;
  they become 'unroll' ranges once STAGEs are laid out, with vectors innermost and rows padded by
  whole ones. Maps of large arrays, rows, register tiles and copies to local memory have them.
  Then `vector_access.py`, a pass over instructions, makes scalar Loads and Stores of one base one
  access of 2 or 4 elements, at most 16 bytes, wherever it is aligned, whatever they come from.
  congruence.py proves that: the domain is remainders modulo powers of two. Arrays of a group and
  arguments are aligned; an argument that starts at an offset which is no multiple of
  `Executor.alignment` is in `Kernel.unaligned`, and is read element by element.
- **Rows in registers.** Where all ranges over a row are split into work items, lanes and copies
  without a loop, what reductions and stores read and compute of it is the same value, made once:
  a softmax reads its input and computes exp one time. The estimate finds what is the same by
  putting one range in the place of those with the same digits; and where rows stay in memory it
  counts more for what the cache of a multiprocessor does not keep until it is read again.
- `Generated.groups` says how many items a function's groups have; 0 where any grouping does.
  `Generated.local`: what a launch asks for where the arrays of a group are more than a kernel may
  declare (`Dialect.most_declared`).

Missing: vectors of masked loads; wgmma of tf32, whose factors nobody would round, and with a factor
in registers; copies by the GPU's TMA.
"""
