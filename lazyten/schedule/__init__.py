"""Graph to kernels: what is stored, fused and launched together, and in which memory.

In: the GRAPH of all that is to be computed at once. Out: a Schedule: launches of kernels in
order, and which memory each result lives in. Passes take and give records of their own, and most
do not know each other. Not here: loops (codegen/).

Files, in reading order:

- cost.py: The scheduler's one cost model: which values are worth storing to memory.
- fusion.py: Which stored values one kernel computes together: kernels with several outputs.
- tile_fusion.py: Which values a kernel holds a block of rows at a time instead of storing all of
  them.
- streaming.py: Which kernels become one that a device runs in one pass over what they share:
  attention.
- split_reductions.py: Reductions with too few results to share become two: many partial results,
  then one of those.
- offsets.py: Constant offsets of a kernel's inputs, moved from its expression to the pointers of
  its launch.
- launches.py: Which kernels are launched together: small ones that need nothing of each other.
- memory.py: Memory of a schedule: the order of steps where it is large, and which values share it.
- deciding.py: Values that decide something: they must be the same bits wherever they are read.
- draft.py: A graph on its way to a schedule: what the passes of schedule.py take and give.
- choices.py: What a scheduler chose for a graph by its sizes, for graphs that differ in nothing but
  sizes.
- steps.py: Steps of a schedule: each kernel's expression over its own arguments, and its name.
- scans.py: Graphs with SCANs and COLLECTIVEs, in sections: the kernels of a scan's body are made
  once, and run for each step; a collective is a step that no device runs.
- schedule.py: The scheduler: the kernels that compute a graph, and the memory they share.
- schedule_file.py: A schedule as bytes, for a later process that has the same graph: written and
  read back.
- kept_schedules.py: Schedules on disk, so that a later process which has the same graph schedules
  nothing.

`cost.py` decides which values are stored, with one model: work to compute an element, how often
it is read, loads, stores, launches. Equal reads in one kernel count once, and a value that only
depends on the outer loops of its kernel is computed once for all inner iterations: that is how a
softmax's row maximum and row sum stay inside one kernel. On devices with groups no 16-bit float
is stored in float32 for being read often: local memory and tensor cores take it as it is.

Then `deciding.py` looks for values that must be the same bits wherever they are read. The last
bits of a sum of floats depend on the loops that compute it, so where something is decided by one
(a comparison, a rounding, a position) it is computed in one place of one kernel, or stored.
realization.py stores such a value, too, if a tensor that was not asked for still knows it, as
reference counts tell: `m = x.max()` now and `x == m` later see the same x. Nothing else differs
from kernel to kernel: constants are folded by ops alone that have the same bits everywhere.

An expression deeper than 500 operations is cut, so that a chain of 100,000 becomes 200 launches
of one program. `fusion.py` decides, in the same model's units, which of the stored values one
kernel computes: values of equal shapes (but for axes of size 1) that read the same values, or
each other at their own positions only, such as a parameter with its optimizer state, or a maximum
with its index. What a kernel reads of its own values is their expression, so it never reads what
it writes; no kernel may stand between two values of one.

`tile_fusion.py` then looks for values that one kernel makes and only one reads, where both have
their first axes in common: scores, their softmax and its product with the values of attention;
the hidden values of a perceptron. One kernel runs both for a block of rows, then for the next, if
that moves fewer bytes: what is held is never stored, but each block reads again what all read,
such as weights. In the kernel's expression such a value is a CONTIGUOUS with the argument (axes,
rows). Devices say how many bytes a block may take (`Executor.block_bytes`); only the cpu holds
any. `steps.py` makes the kernels, with names that tell what they do and the sizes of their first
output; equal expressions over equal inputs share one.

`streaming.py` looks for a product of a softmax whose scores are products, and asks the device
whether it runs the three kernels as one (`Executor.streams`). What nobody else reads of them is
then never stored; what they read of indices alone, such as a causal mask, is computed in place.

`offsets.py` first takes constant offsets out of the expressions: an input that is only read from
some element on is an argument that starts there, so that the steps of a recurrent net, which read
`x[:, t]`, are one kernel. What is cut from a computed value it cuts from the inputs, so that a
step of the backward pass is one kernel, too. `launches.py` then decides which small kernels that
need nothing of each other are one launch, such as an optimizer's updates of all parameters; a
launch is what a device may run in any order or at once.

Before all else SHARD nodes become this rank's part of a graph (lazyten/sharding).

A graph with SCANs is scheduled in sections (`scans.py`): what comes before a scan, the scan, what
comes between it and the next, and so on, each a graph without scans, so that no other pass knows
them. A scan's body is scheduled like any graph, once; its steps are then repeated on other rows,
by offsets, as many times as the scan is long. So a recurrent layer costs the scheduler the same for
all lengths, and a new length compiles only what is not in the scan: the products before and after
it. The price is that nothing is fused into a scan from outside. Devices without offsets, and
kernels with checks, get the nodes of all steps.

A new graph of 64 nodes or more is first looked up on disk (`kept_schedules.py`), by a digest of its
structure and what the device says of itself. What is found are kernels as expressions, arrays and
memory; code is found by kernel, as ever. Lines are those of the graph that is there now. A graph
with what is no text (a scan's body, a collective), checks or sizes that vary is scheduled each
time.

Where intermediate values take 16 MiB or more, `memory.py` runs what frees memory first, if
that lowers the peak. It lets values share blocks by lifetime, the largest first, and
live in the memory of outputs that are not written yet; in jitted functions also in that of a
value which their kernel replaces. (That is worth 0 to 3% of the memory between kernels, as most
such kernels are fused.) `explanation.py` prints all of it. `schedule.py` has the passes, from a
`Draft` (draft.py) to one of which more is known.
"""
