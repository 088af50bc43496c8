"""Plans: built, cached, run and reported; and what runs before anybody asks.

In: storages that somebody looks at. Out: the same, with buffers. Not here: which kernels that
takes (schedule/), and a function's recorded launches (capture/).

Files, in reading order:

- failed_writes.py: Writes in place that cannot be computed, as an index is outside: they are
  undone.
- blas.py: The threads of NumPy's products of matrices: one, where others have work to do, too.
- node_by_node.py: A graph's values by NumPy, node by node, where that costs less than compiling
  it.
- interpreted.py: Graphs that are interpreted: computed node by node, where compiling them would
  not pay.
- realization.py: Computing values: from lazy storages to filled buffers.
- frame_runs.py: Computing what was recorded in a frame: programs that are found by what they
  compute.
- frame_updates.py: Updates in place: the results of a frame's program in memory that nobody will
  look at any more.
- segment.py: The part of a call that one device computes: its memory, its launches, its
  results.
- result_buffers.py: Memory for the results of a jitted function, which serves again once nobody
  reads it any more.
- aliasing.py: Arrays that take the memory of others: what a step writes, that of what it is the
  last to read.
- debug.py: What DEBUG=1..5 prints while computing: schedules, kernels, loops, machine code,
  passes.
- launch_dump.py: Launches kept in files: the environment variable LAZYTEN_DUMP, and
  `lt.dump_kernels`.
- launch_file.py: Files of launches: what a kernel was given, to be run again.
- trial.py: Timing decisions for one kernel, on buffers of its own, once their results are known
  to be right.
- background.py: Computing values that nobody has asked for, before too much hangs on them.
- lineage.py: What a detached tensor and its views share: the gradients written through them
  since.

`realization.py` computes values by plans (plans/): a graph is keyed by structure (buffers numbered
in visit order), so a step that was seen before skips scheduling and compilation; `Storage.settle`
then drops the history, unless a gradient may still be asked for, and `REALIZED` remembers where
values are (but for those of constants alone, whose nodes are the plan's too and would live as
long). What one backward() made is computed together (`Storage.companions`), so reading the loss
does not compute the forward pass twice.

A graph that was not seen before, but differs from earlier ones in nothing but numbers, is one of a
family (sizes/): after a few of them it is known which of its numbers are sizes, and what it is at
others. Kernels are then made for a region of sizes at once, and plans between follow by formulas.
What does nothing but operations of tensors needs no graph at a further size, either
(capture/sizes/).

Where a line of the user's asks for one small graph after the other, each another, further ones are
interpreted (interpreted.py) by the op table's meanings, until one has come so often that compiling
it would have cost less.

background.py computes without a look: a value whose history is long, with all that hangs on that
history, so that whatever is made next has a short one; an updated parameter once a graph is built
on it, so no graph holds the step before; a gradient before another is added to it; the older half
of many pending values. A value that keeps its graph is the user's memory, and stays; what
detach() reads of it is memory once it is computed. Bounds are such that a loop is cut at the same
place each time, and its chunks are one plan: depth, with reductions counted as several
operations, and a span of nodes, both larger where a training step is larger. Nothing of this
happens in a trace or under a transform.
"""
