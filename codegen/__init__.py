"""From a kernel to target text: lower, optimize, linearize, render.

In: a Kernel of ir/. Out: `Generated` text, for a Target. Start with pipeline.py, the list of
passes. Rooms, in the order of the flow: targets (what machines are), loops, model, optimize, gpu,
numerics, instructions, verify, checks, render.

Files, in reading order:

- pipeline.py: The compiler's table of contents: from a kernel to target text, pass by pass.
- job.py: A kernel on its way from a graph to text: what the passes of pipeline.py take and give.
- templates.py: Kernels that serve all sizes of an axis: one text, whose numbers a launch finds in
  memory.
- predictions.py: What a kernel's numbers are at a size at which nobody has made instructions of it.

A `Kernel` (kernel.py) is a tuple of output GRAPH expressions whose BUFFER leaves have `Slot`
arguments. `codegen/pipeline.py` is the whole way from there to text. Its passes take and give a
`Job` (job.py), whose parts are the functions of the text.
"""
