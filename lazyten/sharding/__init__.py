"""Graphs whose values ranks share out: SHARD nodes become this rank's part of the work.

In: a graph that each rank has the same, with SHARD nodes that say which values a group shares out,
and along which axis. Out: a graph of what this rank computes, with COLLECTIVEs where ranks need
what others have. Its roots are whole on each rank, and the same but for the order of sums. Not
here: who records SHARD nodes (distributed/annotating.py), and how collectives are scheduled
(schedule/scans.py).

Files, in reading order:

- splits.py: How ranks compute a node apart: a rule an op, of the axes that its sources are cut
  along.
- choosing.py: Which nodes ranks do compute apart: not those whose results cost more to send than
  to compute.
- local.py: This rank's part of each node, and the collectives between parts and wholes.
- spreading.py: How far annotations spread: how each node of a graph can be computed apart, bodies
  of scans, too.
- joining.py: Small sums over ranks that need nothing of each other are one, as each costs a
  message.
- partition.py: The pass: a graph with SHARD nodes to one without, a group of ranks after the other.

What is known of a value is one thing: it is whole on each rank, or each has its part of one axis
(or of each of several equal intervals of it, as remain of a cut axis that was joined with others).
An annotation spreads forward, from sources to what is computed of them (Xu et al., 2021, GSPMD,
https://arxiv.org/abs/2105.04663): elementwise ops and movements of other axes keep it, a reduction
over the axis gives each rank a summand, which an all_reduce makes whole. Gradients carry it back,
as the gradient of SHARD is one. What has no rule takes whole sources: an all_gather before it. So
a batch that is shared out makes a step data parallel, and a weight a layer tensor parallel, with
the collectives of Megatron-LM (Shoeybi et al., 2019, https://arxiv.org/abs/1909.08053).
"""
from __future__ import annotations
