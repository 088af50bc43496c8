"""`lt.jit`: a function is traced once a signature, and then run as one native call.

In: a Python function and a call of it. Out: that call's results, by launches that were recorded
once. Not here: kernels, which it gets as everybody does (execution/).

Files, in reading order:

- jit.py: `lt.jit`, the decorator, under PyTorch's name as well.
- jitted.py: `lt.jit`: functions that are traced once a signature, and then run as one native
  call.
- call.py: The arguments of one call of a jitted function, and what calls are told apart by.
- last_call.py: A call of a jitted function that is like the last one, which is known without a key.
- pieces.py: Arguments that begin elsewhere in memory at each call, such as a batch's rows of the
  data.
- capture.py: Recording one call of a function: which tensors it reads, and what it computes and
  changes.
- recording.py: What is known of a call while it is recorded: what `capture.py` fills, and others
  end.
- hooked.py: What is called with gradients of tensors that a jitted function has from outside.
- conclusion.py: What a traced call gave and what it left behind, noted at its end.
- breaks.py: Going on for real in the middle of a trace, where Python needs what a replay cannot
  give it.
- captured.py: What one call of a jitted function did, in terms that hold for all calls of its
  signature.
- changing.py: Calls of a jitted function that differ in numbers of Python: one program, with
  inputs for them.
- replay.py: Running a captured call again: tables of buffers, one native call, and the results.
- arrays.py: A captured call that only computes, of arrays and to arrays: no tensor is made of
  either.
- donation.py: Which tensors a call of a jitted function donates: those of some arguments, by
  position or name.
- dims.py: Sizes that vary from call to call of a jitted function: `lt.Dim`, and what is checked of
  each.

`jitted.py` keys a call by its arguments, unless it is like the last one; `capture.py` runs the
function once while `tracing.py`, which storages, tensors, generators and optimizers report to,
tells it what is touched. Every storage from outside then reads as a Placeholder; after the trace
all of them are put back, so a trace has no effects, and the first call is a replay like all others.
Where the function needs what a replay cannot give, a value to look at or a line to print, the trace
ends as if there had been none: the stand-ins get the memory they stood for, what was put off is
done, and the rest of the function runs (breaks.py). So its Python runs exactly once in that call,
too; later calls run it as it is, and what it records between two breaks has its plan, as anything
recorded has. What was noted is a `Captured` (captured.py): where values come from in any call, what
is written, what the host computes anew. `replay.py` makes one Plan of it and launches it through
`Executor.sequence`, which on the cpu is one native call for all kernels, or through
`Executor.limited` if it has indices to look at before something is written (checks.py): on the cpu
that is one call, too, as the list of launches may have limits in it at which it ends.
`environment.py` compares the Python state a function can reach by name with that of the trace;
purity.py refuses printing, clocks and foreign random numbers. `ResultBuffers` (result_buffers.py)
is memory for the results of a call, used again when its reference counts say that nothing reads it
any more.

What one device computes of a call is a `Segment` (segment.py). What a call updates it writes to
the tensor's own memory, and results to that of donated arguments (donation.py), where three
things allow it. The kernel: codegen/instructions/aliasing.py looks at its instructions, and names
the inputs of which it reads each element only in the iteration that writes the same element of an
output, and no element twice; not, then, where the last block overlaps the one before. The
schedule: in_place.py sees that no later kernel reads the input, and runs a kernel that replaces
it after those that read it. And the moment: reference counts say that nobody else knows the
memory; else the result has new memory in that call. Indices are looked at before the first launch
that replaces an input, so a call that fails leaves everything as it was. (Nodes never change
otherwise: this one names memory whose old contents nobody can name any more.)

Where sizes vary (`lt.Dim`, dims.py) a call is captured at each size, as its Python may do anything
with it, but plans share kernels: execution/plans/varying.py says which computation is being
planned, and codegen/templates.py has one text for many sizes. Before a region of sizes is compiled
for, the function is recorded at a few others, which shows what of its kernels differs; captured
calls of late alone keep memory.

A replay is a few comparisons of whole lists, not a walk: the call's key, the objects that names
mean, the flags of storages, and reference counts are each compared at once; only where something
differs is it looked at by name and value.
"""
