"""Memory that is reused: pools and allocators.

In: sizes. Out: handles of memory. Not here: devices' own calls.

Files, in reading order:

- memory_pool.py: Memory that is reused: what the cpu runtime allocates from, and aligned host
  memory.
- allocator.py: Device memory in blocks that are split and merged: what the cuda and opencl
  runtimes use.
- pooled.py: A runtime whose memory comes from a pool.
"""
