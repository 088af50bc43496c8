"""What is asked of a device: memory, programs and launches.

In: kernels, and the host's arrays. Out: memory with values in it. Not here: which devices there
are, by name (storage/device.py), and how one does what is asked of it (runtimes/, whose
contract.py is what devices that compile text have in common).

Files, in reading order:

- program.py: A compiled kernel, how it is launched, and what tells it from one at other sizes.
- executor.py: `Executor`: what realizing needs of a device, as each runtime does it.
"""
