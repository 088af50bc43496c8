"""`lt.distributed.pipelining`: models whose layers ranks share out, under PyTorch's names.

In: on each rank some layers of a model, a stage; and batches, on the first. Out: their losses, on
the last, and gradients on all. Not here: layers that ranks share out inside
(distributed/tensor/parallel/), and cutting a model in stages, which is the program's business.

Files, in reading order:

- programs.py: What each stage does in a step, in which order: computing, and passing on what was
  computed.
- wires.py: What two stages pass to each other: activations of one way, and their gradients of the
  other.
- stage.py: `PipelineStage`: the part of a model that one rank has, and one step of it.
- schedules.py: `ScheduleGPipe` and `Schedule1F1B`: steps of all stages together, in micro-batches.

A step is one graph of its rank: what it computes, with an exchange, which is a collective of two
ranks, wherever something is passed on. So it is fused, planned and recorded by `lt.jit` as
everything else is, and what a rank does between exchanges runs while they travel.
"""
from __future__ import annotations

from lazyten.distributed.pipelining.schedules import (
    PipelineScheduleSingle as PipelineScheduleSingle,
)
from lazyten.distributed.pipelining.schedules import Schedule1F1B as Schedule1F1B
from lazyten.distributed.pipelining.schedules import ScheduleGPipe as ScheduleGPipe
from lazyten.distributed.pipelining.stage import PipelineStage as PipelineStage
from lazyten.pytorch.modules import later as _later
from lazyten.pytorch.refusals import refused

globals().update(refused(
    "distributed.pipelining", "give each rank its own layers: PipelineStage(module, stage_index, "
    "num_stages)", "Pipe", "SplitPoint", "build_stage", "pipe_split", "pipeline"))
globals().update(refused(
    "distributed.pipelining", "a rank has one stage: use ScheduleGPipe or Schedule1F1B",
    "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble", "ScheduleDualPipeV", "PipelineScheduleMulti"))
__all__ = ["PipelineScheduleSingle", "PipelineStage", "Schedule1F1B", "ScheduleGPipe"]
__getattr__ = _later("lazyten.distributed.pipelining")
