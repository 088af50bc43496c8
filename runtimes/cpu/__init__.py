"""The device cpu: LLVM IR to machine code in this process, and its threads.

Files, in reading order:

- cpu.py: The cpu runtime: LLVM IR text to machine code in this process, through llvmlite.
- own_code.py: Machine code of texts that are the runtime's own, and no kernel's: the thread pool,
  and what goes through a list of launches.
- sequence.py: Many launches by one call: a list of them as data, and the code that goes through
  it.
- thread_pool.py: Threads for the cpu runtime without a C extension: a pool whose code is LLVM IR.
- thread_pool_code.py: The thread pool's code as LLVM IR: see thread_pool.py, which fills it in
  and starts it.

The cpu runtime's pool (thread_pool.py, thread_pool_code.py) is one LLVM module, loaded when the
first shared kernel is. The launching thread takes chunks as its workers do and waits only for
those that have begun. The pool's code is never freed, workers block signals, and a forked child
begins without any.
"""
