"""Plans: what computes a graph, made once for its structure, and run.

In: a graph, as one of many that read other memory. Out: buffers with its values. Not here: which
kernels that takes (schedule/), and whose values they are (realization.py).

Files, in reading order:

- checks.py: Checks of indices whose values are known only once they are computed.
- collectives.py: Collectives as steps of a plan: one that begins it, and one that waits for its
  end.
- narrowing.py: Graphs for a device without float64: what is computed in it on the way is computed
  in float32.
- graph.py: A graph that is about to be computed: what it is besides the memory that it reads, and
  that.
- plan.py: Plans: a schedule with its compiled programs, and what both depend on.
- varying.py: Plans of computations whose sizes vary: what sizes have in common is made once.
- making.py: Plans by the structure of their graphs: made once, and kept while they are used.
- running.py: Plans run: memory for what they make, and their launches, all at once or one by one.
"""
