"""`lt.export`: programs ahead of time, that run where there is no Python.

In: a function of tensors, or a module. Out: C source, an object file, a shared library or a module
of WebAssembly, with a C header. Kernels are made by the passes that make all others; here is what
stands around them.

Files, in reading order:

- program.py: what a program is made of, whatever it is written in: records.
- naming.py: names in C.
- capturing.py: a function, traced once: a graph over named arrays.
- planning.py: from a graph to calls of kernels on memory.
- targets.py: what programs can be made for.
- header.py: the header.
- c_source.py: a program as C source.
- llvm_object.py: a program as machine code, by LLVM.
- wasm.py: a module of WebAssembly from an object file.
- exporting.py: `export`: files, all or none.

A training step is a function as any other: what it changes in place is the program's state. Where
optimizers count steps in Python, they count them in tensors here (`Observer.without_python`).
"""
