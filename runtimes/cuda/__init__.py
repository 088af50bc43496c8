"""The device cuda: CUDA C++ through NVIDIA's driver and run-time compiler.

Files, in reading order:

- cuda.py: The cuda runtime: CUDA C++ to NVIDIA's GPUs, through NVIDIA's driver and run-time
  compiler.
- compiler.py: NVRTC, NVIDIA's run-time compiler, through cuda-bindings: CUDA C++ to machine code
  of a GPU.
- copies.py: Copies between host arrays and a GPU, in parts, through pinned memory.
- driver.py: NVIDIA's driver, as much of it as the cuda runtime uses: a thin layer over
  cuda-bindings.
- nccl.py: NCCL, NVIDIA's library of collectives, as much of it as is used: a thin layer over
  nccl4py.
- joined.py: A GPU joined to those of other ranks by NCCL.
- graphs.py: Captured programs on a GPU: all launches of a sequence as one CUDA graph.

`cuda.py` runs CUDA C++ on NVIDIA's driver. `driver.py` is all that calls it, with integers for
handles; `compiler.py` is NVRTC. A handle is an address, so arguments may start anywhere. There is
one stream: memory that is freed serves what is queued next, without waiting. Collectives alone have
another (`joined.py`), and a sequence with collectives in it is cut at them. `graphs.py` makes a
sequence a CUDA graph for each set of addresses that comes a second time, with the programs of a
launch side by side, each with its own scratch memory; `copies.py` copies through pinned memory.
Finalizers may run anywhere, so they only note modules and graphs, which the next load drops. A
mistake of a kernel shows later: `_queued` knows what may be at fault since something was waited
for. Both GPU runtimes allocate from `allocator.py`, a MemoryPool whose blocks are parts of
segments: addresses on cuda, sub-buffers on OpenCL (whole buffers where a device aligns those to
more than 512 bytes). Because of that alignment arguments of OpenCL's kernels cannot start at any
element.

There is no GPU where tests run, so tests have a driver of their own:
tests/support/fake_cuda_driver.cpp has the functions that cuda-bindings looks up, queues what is
asynchronous until something waits, and runs modules that g++ made of CUDA text and
tests/support/cuda_on_cpu.h, whose threads are fibers. All of the runtime but NVIDIA's own code is
run by it; NCCL's place is taken by tests/support/fake_nccl.py, which has MPI carry the values.
"""
