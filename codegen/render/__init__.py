"""Instructions to text: LLVM IR, and dialects of C.

In: a Function. Out: text. Here an op has a spelling and no meaning: that is its row in ir/ops.py.

Files, in reading order:

- render_llvm.py: Renders a Function as LLVM IR text: `define void @name(ptr %args)`.
- llvm_loads.py: The lines of a function of LLVM IR, and loads of its elements: one, neighbours,
  or scattered.
- llvm_blocks.py: The function around others, as LLVM IR: it has the runtime run chunks of them on
  threads.
- llvm_types.py: How LLVM spells types and constants: in registers, in memory, and in names of
  intrinsics.
- llvm_functions.py: Functions of LLVM IR for ops that have no instruction, defined beside the
  kernels that call them.
- llvm_ops.py: How LLVM spells each elementwise op: a table row an op.
- rarely.py: What of a block is computed only where a RARELY asks for it.
- render_c.py: Renders a Function as a kernel in a dialect of C: `kernel void kernel_NAME(T *p0, T
  *p1, ...)`.
- c_ops.py: How C spells each elementwise op: a table row an op.
- group_text.py: How C spells what the work items of a group do together: local arrays, barriers,
  combining.
- vector_text.py: How C spells aligned accesses to neighbours in memory: VectorLoad and
  VectorStore.
- async_copy.py: How C spells copies from memory to local memory: Copy, Commit and Wait.

`render_llvm`: text, with a table row an op (llvm_ops.py). It needs no optimization pass of LLVM.
A register tile asks for what it is going to read of large arrays (llvm_loads.py).
Or `render_c` (c_ops.py) in one of the dialects of C, which are records (dialect.py): OpenCL C,
the same for compilers made from Clang, plain C for runtimes like examples/lazyten_c, and CUDA
C++. A target's `language` says which, by name, or is such a record itself, so that another
package can bring a language.
"""
