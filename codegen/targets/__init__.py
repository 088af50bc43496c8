"""What is known of processors and languages: records and tables.

In: nothing. Out: what optimize, linearize and renderers ask about a processor or a language. A
new one is a record here, or in another package.

Files, in reading order:

- target.py: What the code generator must know of a processor: a `Target`.
- generated.py: What code generation hands to a runtime: `Generated`, one a kernel.
- dialect.py: The dialects of C that render_c writes, each a record of what differs from the
  others.
- native_half.py: 16-bit floats in hardware: what a device has, and the functions that text calls
  for it.
- cp_async.py: Copies to shared memory that go on while threads compute: PTX's cp.async, as
  functions.
- near.py: Functions that a device computes by one instruction to fewer bits than the op table asks.
- ldmatrix.py: Matrices of 8 rows of 16 bytes, read from shared memory by a warp: PTX's ldmatrix,
  as functions.
- wgmma.py: Products that tensor cores take from shared memory, while threads go on: PTX's wgmma.
- tensor_cores.py: The tensor cores that there are: a row for each instruction.
"""
