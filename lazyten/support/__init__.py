"""What knows no tensors: errors, the user's place in the source, settings, files, trees.

In: nothing of lazyten. Out: what every other room may use. Not here: anything that knows a node
or a tensor.

Files, in reading order:

- errors.py: Every error a user can meet.
- location.py: Where in the user's program an operation was written: the first frame outside this
  package.
- variables.py: Environment variables that are looked at all the time: `os.environ.get` takes a
  microsecond.
- trees.py: Nested lists, tuples and dicts as flat lists of leaves: what jitted and transformed
  functions take and give.
- disk_cache.py: Files that spare work which was done before: a folder of entries, found again by
  their key.
- later.py: Sequences that are worked out once somebody looks at them.
- remembered.py: A cache for what is likely to come again, and mostly does not the first time.
- grad_mode.py: Whether operations are recorded for gradients: `no_grad()`, `enable_grad()`.
- check_mode.py: Which checks kernels are compiled with: the environment variable CHECK, and
  `lt.check`.
- threads.py: How many threads a kernel may run on: `lt.set_num_threads`, `lt.get_num_threads`.
- matmul_precision.py: `set_float32_matmul_precision`: whether products of float32 may round their
  factors to tf32.
- paths.py: The check of what users give as the path of a file or a folder.
- forking.py: What a child of fork() must find: no lock that is held by a thread it does not have.
- collecting.py: Blocks that make many objects which stay: Python looks for cycles of garbage
  afterwards.
- observers.py: Who is told what the compiler makes and what runs: one list for all who look on.
- passes.py: Passes by name: what each does, in order, and the driver that runs them.

fork() copies one thread, and what another holds at that moment nobody gives back in the child. So
a fork waits until no other thread holds a lock of ours, imports or compiles (forking.py): locks
are made by `forking.lock`, and what imports or compiles is `undivided`.
"""
