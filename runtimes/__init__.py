"""Runtimes: a folder a device. See contract.py for what a new one must provide.

In: kernels. Out: programs, launches, memory. contract.py is what a new device implements; each
device has a folder; memory/ and checks/ are for all.

Files, in reading order:

- contract.py: What a new device must provide: subclass `Runtime`, and lazyten runs on it.
- code_cache.py: Compiled kernels on disk, so that the next process compiles nothing that this one
  did.
- claims.py: Work that processes which share a folder divide among them: what one makes, others wait
  for.
- overlap.py: Two steps of a build at once: the second step of one item beside the first step of
  the next.

`runtimes/contract.py` is what a new device implements: memory, compile, load, launch,
synchronize, and its target, a record of what it can do; `cpu.py` (llvmlite's MCJIT, memory_pool.py,
host.py, processors.py, cache_sizes.py), `opencl.py` (pyopencl, devices.py, allocator.py), `cuda.py`
and `interpreter.py` (lazyten/ir/evaluation.py: NumPy over the op table, the oracle) are the present
ones; `pooled.py` is how the first three allocate. A plan runs by `Executor.sequence`, a list of
launches; on the cpu the list is data (sequence.py), and one piece of code that is compiled once
goes through it. Arguments of a launch may start at any element (`Executor.has_offsets`), so no
load assumes more alignment than its element has. `device.py` finds runtimes by name, or others by
entry point, which say for which version of the contract (`CONTRACT`) they were written.

Equal kernels are compiled once, in two stages. `Runtime.build` (runtimes/contract.py) finds a
program that is still in use by the kernel's `structure`: its expression as text, equal in every
process. What is missing goes through `translate`, where a runtime may look on disk first. The cpu
runtime does (runtimes/code_cache.py over lazyten/support/disk_cache.py), for text and object code
together, so a hit skips the whole code generator: contract.py imports it only where something is
missing. Processes that begin at once, as the ranks of a job do, divide what is missing among them:
one claims a kernel and makes it, the others read it (claims.py). While LLVM compiles one kernel in
a thread, Python generates the next (overlap.py): LLVM's calls are one at a time, but leave Python
to others. The pool and the code that goes through a sequence are entries, too
(runtimes/cpu/own_code.py). An entry is one kernel, not one build: graphs share most kernels, and 50
object files load into one engine in 2 ms. Nothing read from disk is trusted: an entry holds its
whole key and a checksum, and what is off in any way is compiled again. The key has a digest of
lazyten's source, and a source file younger than the process keeps the disk out altogether, as the
process may run its old text.
"""
