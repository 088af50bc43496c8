"""The cost model of processors, and the record of decisions.

In: a SINK and decisions. Out: half cycles. Not here: the estimate for work items in groups
(gpu/).

Files, in reading order:

- accesses.py: What a kernel's work costs in the cycle model: loads and stores, packed or not, and
  arithmetic.
- arithmetic.py: What an elementwise op costs in the cycle model: the instructions that are made of
  it.
- loop_bodies.py: The cycle model's innermost code: a body, and the same with its vector axes
  chosen.
- cpu_model.py: The static model behind optimize: how many cycles a kernel would take with given
  decisions.
- decisions.py: Decisions: what becomes of a kernel's ranges, as optimize applies it and DEBUG=3
  prints it.
"""
