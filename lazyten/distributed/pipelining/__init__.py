"""`lt.distributed.pipelining`: models whose layers ranks share out, under PyTorch's names.

In: on each rank some layers of a model, one stage or several; and batches, on the first stage's.
Out: their losses, on the last stage's, and gradients on all. Not here: layers that ranks share out
inside (distributed/tensor/parallel/), and cutting a model in stages, which is the program's
business.

Files, in reading order:

- programs.py: What each rank does in a step, in which order: computing, and passing on what was
  computed.
- wires.py: What two stages pass to each other: activations of one way, and their gradients of the
  other.
- stage.py: `PipelineStage`: a part of a model, some layers, that one rank has.
- step.py: `Step`: what one rank does of a step, as its program says: computing, and passing on.
- schedules.py: Schedules: steps of all stages together, in micro-batches.

A step is one graph of its rank: what it computes, with an exchange, which is a collective of two
ranks, wherever something is passed on. So it is fused, planned and recorded by `lt.jit` as
everything else is, and what a rank does between exchanges runs while they travel.
"""
from __future__ import annotations

from lazyten.distributed.pipelining.schedules import PipelineScheduleMulti as PipelineScheduleMulti
from lazyten.distributed.pipelining.schedules import (
    PipelineScheduleSingle as PipelineScheduleSingle,
)
from lazyten.distributed.pipelining.schedules import Schedule1F1B as Schedule1F1B
from lazyten.distributed.pipelining.schedules import ScheduleGPipe as ScheduleGPipe
from lazyten.distributed.pipelining.schedules import (
    ScheduleInterleaved1F1B as ScheduleInterleaved1F1B,
)
from lazyten.distributed.pipelining.schedules import ScheduleLoopedBFS as ScheduleLoopedBFS
from lazyten.distributed.pipelining.stage import PipelineStage as PipelineStage
from lazyten.pytorch.modules import later as _later
from lazyten.pytorch.refusals import refused

globals().update(refused(
    "distributed.pipelining", "give each rank its own layers: PipelineStage(module, stage_index, "
    "num_stages)", "Pipe", "SplitPoint", "build_stage", "pipe_split", "pipeline"))
globals().update(refused(
    "distributed.pipelining", "stages go round the ranks, and a backward pass is computed at once: "
    "use ScheduleInterleaved1F1B or ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble",
    "ScheduleZBVZeroBubble", "ScheduleDualPipeV"))
__all__ = ["PipelineScheduleMulti", "PipelineScheduleSingle", "PipelineStage", "Schedule1F1B",
           "ScheduleGPipe", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS"]
__getattr__ = _later("lazyten.distributed.pipelining")
