"""Decisions: chosen, applied, written as text and read back.

In: a SINK whose ranges are merged. Out: Decisions, and the SINK as they make it.

Files, in reading order:

- optimize.py: Decide which loops become vectors, register tiles and accumulators, and rewrite
  them.
- cache_blocking.py: Which parts of operands the loops work on at a time, so that those stay in
  the caches.
- parallel.py: Which loop of a kernel its threads share: called by optimize, after everything else
  is decided.
- index_sets.py: Index-set splitting: an output that is put together from pieces has loops for
  each piece.
- candidates.py: Decisions worth timing on a machine: the static model's best few, and neighbours
  of what is used.
- decision_text.py: Decisions as text: what DEBUG=3 prints, read back.
- group_checks.py: What is wrong with decisions about work items and local memory; called by
  decision_text.

The passes from `merge` to `scalars` merge loops that every index steps through as through one, and
those of reductions over the same data that do not need each other; make two of a loop that
indices divide by a constant; choose vector axes, register tiles and accumulators by a
static model of the cycles (cpu_model.py; loop_bodies.py: a loop body once its vector axes are
chosen; accesses.py: loads and stores) that knows extents, strides, reuse, masks, the number of
vector registers and the lines that windows read. It does not know what a kernel computes.
ranges.py does the splitting; the last block of an output overlaps the one before, a reduction's
tail is masked (in code of its own behind the loop, of which peeling.py makes it), and so are the
last lanes of a vector that is longer than its axis. summation.py
cuts long sums of floats into blocks with sums of their own, so that errors grow slowly. packing.py
has operands packed that are read often and far apart.
cache_blocking.py orders the loops of what is larger than the second cache: threads take chunks,
inside the other loops, of which an operand's part stays there. There a long sum is computed in
blocks (reduction_blocking.py): all outputs, in a scratch array, with one block of the reduction,
then with the next; the last one goes to the outputs. So is a long sum of windows: the runs that it
is cut into anyway are its blocks, so that neighbouring register tiles find weights and windows in
the first cache.

Before all of them, index_sets.py may cut a nest in parts at constants that a loop's counter is
compared with, as `cat` leaves them: a part reads one piece without masks, where the whole would
read all pieces for each element. It also cuts off what stands before and behind whole periods of a
loop that an output's index divides, as that of a diagonal. Parts are functions that one call runs
after each other, each with decisions of its own, and may be cut again along another range. Only
machine code has them, where a function more is a call more; kernels of given decisions, checked
ones, and those of sizes that vary stay whole.

After all other decisions optimize may make one loop of the stores 'parallel' (parallel.py), or
one of two short ones: where the model's estimate is large, all stores have the loop, and little
would be computed by every thread again. The loop stays where it is in the nest. The text is
`@name.chunk(args, first, last)`, which runs that loop from first to last, and `@name(args)`,
which has the runtime's `lazyten_run_chunks` call it for chunks of a fixed size, one after the
other if there is one thread. So every kernel is still called as `name(args)`, by Python or by
other code. Chunks depend on the kernel alone, and a reduction's loop is never shared: results do
not depend on threads. Instead the scheduler makes large reductions to a few numbers two
(lazyten/schedule/split_reductions.py), the first of which has an axis of up to 64 parts to share;
what is left over of that axis is the second's.
"""
