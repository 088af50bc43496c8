"""What this machine is: its processor, vectors, caches and memory.

In: nothing. Out: the Target of the processor at hand, or of one by name, and how much memory
there is.

Files, in reading order:

- host.py: What this machine is: its processor as LLVM names it, its vector unit and caches, its
  memory.
- cache_sizes.py: The sizes of this machine's data caches, as the system tells them.
- processors.py: Kinds of processors: what kernels are written for, and what LLVM calls them.
"""
