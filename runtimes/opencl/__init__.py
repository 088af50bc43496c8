"""The device opencl: OpenCL C through pyopencl, and what is known of drivers.

Files, in reading order:

- opencl.py: The opencl runtime: OpenCL C to whatever device has a driver, through pyopencl.
- devices.py: The OpenCL devices of this machine: which there are, and which one a number or a
  name means.
- targets.py: What kernels may use of an OpenCL device.
- drivers.py: What is known of OpenCL's drivers: a row for each that was seen to work, with its
  limits.
- trial.py: A driver is tried in a process of its own before the user's depends on it.
- trial_worker.py: What a driver is tried with: `python -m lazyten.runtimes.opencl.trial_worker
  0`.
- intel.py: Intel's OpenCL runtime for processors, as pip installs it: OpenCL's loader is told
  where it is.
- programs.py: Programs of OpenCL: from the texts of kernels, or from what is kept on disk.
- compiler.py: OpenCL programs are compiled by processes of their own, which a driver may end.
- compile_worker.py: Compiles OpenCL programs for another process: `python -m
  lazyten.runtimes.opencl.compile_worker`.

OpenCL has two mappings. On processors a work item is what a thread is to the cpu runtime: the
same vectors, register tiles and packing, and the chunks of the loop that
`parallel.choose_parallel` shares. The text calls no built-in function of OpenCL in its loops, as
PoCL does not inline them: vectors are read through pointers to types of small alignment, and a
multiply-add is an expression that may be contracted. What is left of built-in functions (sqrt,
fmod, floor, copysign) takes `Dialect.call_lanes` lanes at most. GPUs have a mapping of their own,
below. Both give the cpu's bits for every op, but where a multiply-add may round once or twice;
floats are never contracted otherwise. The kernels of a build are one program (a few, where
processes compile them), and one entry of the disk cache. Arguments are set anew at each launch:
that takes 0.5 us, and an argument that is kept would keep memory alive.

Drivers' compilers abort. Those of rows with `apart` run in processes of their own
(compile_worker.py), started while kernels are generated, several for a large build; compiler.py
asks them for binaries, and programs.py makes programs of these. A compiler that dies is an error
of the kernel that it died of, which is found by compiling each alone. A process reads its
requests in a thread of its own, so it ends when the program does, whatever the driver is doing.
If none can be started, the user's process compiles. drivers.py is a table of drivers by name and
version, with limits that targets.py puts into the target (vectors of 32 bytes and 4 lanes an
argument on PoCL 3: with AVX-512 its functions of 64-byte vectors abort, never return, or compute
wrong numbers). A driver without a row is tried first: trial.py starts a process that compiles and
runs kernels of many kinds (trial_worker.py) and keeps on disk that it passed; if it does not, the
device is an error that says why. intel.py shows the loader the driver that Intel's wheel brings,
whose own file names a path of elsewhere: by OCL_ICD_VENDORS, for as long as devices.py looks for
devices.
"""
