"""Files of decisions, and the search for better ones.

In: decisions as text, in files or found by timing. Out: decisions for kernels by the hash of
their expression. Not here: what decisions mean (codegen/model/, codegen/optimize/).

Files, in reading order:

- records.py: Decisions that a user gives for kernels: files of them, and which one a kernel has.
- tuning.py: Lt.tune and lt.load_decisions: better decisions for kernels, from this machine or
  from a file.
- tuning_search.py: The search for better decisions for one kernel, within a time limit.
- tuning_process.py: A worker process that may be asked anything: it is ended if it takes too
  long, and started again.
- tuning_worker.py: The process that compiles and times candidates: `python -m
  lazyten.tuning.tuning_worker`.

Decisions have a text that reads back: lazyten/ir/decision_grammar.py has what can be read at all,
which a file must be when it is loaded, and codegen/optimize/decision_text.py checks it against a
kernel, so that whatever is accepted computes the right values. A `Kernel` may carry some
(`Kernel.decisions`); its `structure`, and so every cache of programs, depends on them.
`Runtime.build` attaches what the user gave: lazyten/tuning/records.py finds it by a hash of the
kernel's expression and the target's label. `lt.tune` (lazyten/tuning/tuning.py) watches which
plans a function runs, ranks their kernels by time, and has tuning_search.py walk from candidate
to candidate (codegen/optimize/candidates.py, through `Executor.candidates`). Each is compiled,
checked and timed by trial.py in a worker process (tuning_process.py, tuning_worker.py), as it may
hang or crash. `making.rebuild_plans` then compiles anew what is in use; jitted functions
notice at their next call.
"""
