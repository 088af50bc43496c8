"""Schedules: steps of all stages together, in micro-batches."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from lazyten.distributed.pipelining import programs
from lazyten.distributed.pipelining.programs import Compute
from lazyten.distributed.pipelining.stage import PipelineStage
from lazyten.distributed.pipelining.step import Step
from lazyten.frontend.functions import cat, realize, stack
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ArgumentError, ShapeError
from lazyten.support.grad_mode import no_grad
from lazyten.support.trees import of_kind

Loss = Callable[[Any, Any], Tensor]


class _Schedule(ABC):
    """What schedules have in common.

    n_microbatches: in how many parts of one size each batch is cut, along axis 0. loss_fn: of what
    the last stage gives for a micro-batch, and its part of the target; gives one number. With
    scale_grads gradients are those of the mean of these losses, without of their sum. All ranks
    make the same schedule. How inputs are cut, and results joined, cannot be chosen:
    args_chunk_spec, kwargs_chunk_spec and output_merge_spec must be left out.
    """

    def __init__(self, stages: Sequence[PipelineStage], n_microbatches: int, loss_fn: Loss | None,
                 specs: tuple[None, ...], scale_grads: bool) -> None:
        name = type(self).__name__
        if not isinstance(n_microbatches, int) or n_microbatches < 1:
            raise ArgumentError(f"{name}: n_microbatches={n_microbatches!r}; give 1 or more")
        if any(spec is not None for spec in specs):
            raise ArgumentError(f"{name}: batches are cut, and results joined, along axis 0; leave "
                                f"args_chunk_spec, kwargs_chunk_spec and output_merge_spec out")
        self._stages, self._count, self._loss_fn = stages, n_microbatches, loss_fn
        self.scale_grads = scale_grads
        self._first, self._last = stages[0].is_first, stages[-1].is_last
        group = stages[0].group
        orders = [self._order(rank, group.size, len(stages), n_microbatches)
                  for rank in range(group.size)]
        self._programs = [programs.with_passes(every)[group.rank] for every in (
            [programs.forwards(order) for order in orders], orders)]

    @staticmethod
    @abstractmethod
    def _order(rank: int, ranks: int, chunks: int, batches: int) -> list[Compute]:
        """What a rank of `chunks` stages computes in a training step."""

    def step(self, *args: Any, target: Any = None, losses: list[Tensor] | None = None,
             **kwargs: Any) -> Any:
        """One step: gradients are added to `.grad` of each stage's parameters.

        args: the batch, on the rank of the first stage alone. kwargs: what the modules of this
        rank's stages are called with by name. Tensors in both are cut along axis 0, other values
        are given to all micro-batches. target: on the rank of the last stage. losses: a list there,
        which becomes that of the micro-batches'. Gives what the last stage gives for the whole
        batch there, and None elsewhere. All ranks call it. ShapeError for a batch that cannot be
        cut evenly, and for one of another size than in the first step.
        """
        if self._loss_fn is None and self._last:
            raise ArgumentError(f"{type(self).__name__}.step: there is no loss to differentiate; "
                                f"give the schedule loss_fn=, or call eval()")
        return self._run(True, args, target, losses, kwargs)

    def eval(self, *args: Any, target: Any = None, losses: list[Tensor] | None = None,
             **kwargs: Any) -> Any:
        """The same without gradients."""
        with no_grad():
            return self._run(False, args, target, losses, kwargs)

    def _run(self, trains: bool, args: tuple[Any, ...], target: Any,
             losses: list[Tensor] | None, kwargs: dict[str, Any]) -> Any:
        count = self._count
        if args and not self._first:
            raise ArgumentError(f"{self._named()}: the batch is given to the first stage alone; "
                                f"others get what the stage before them gives")
        inputs = self._cut(args, "args")
        names, values = tuple(kwargs), self._cut(tuple(kwargs.values()), "kwargs")
        loss = self._losses(target, trains or losses is not None)
        work = Step(self._stages, inputs, [dict(zip(names, v, strict=True)) for v in values], loss,
                    1 / count if self.scale_grads else 1)
        for what in self._programs[trains]:
            if isinstance(what, Compute):
                work.compute(what)
            else:
                work.exchange(what)
        if losses is not None and self._last:
            losses[:] = [work.losses[i] for i in range(count)]
        output = _joined([work.outputs[i] for i in range(count)]) if self._last else None
        _carry_out(work, output, trains)
        return output

    def _named(self) -> str:
        numbers = ", ".join(str(stage.stage_index) for stage in self._stages)
        return f"{type(self).__name__} on stage{'s' * (len(self._stages) > 1)} {numbers}"

    def _losses(self, target: Any, is_wanted: bool) -> Callable[[int, Any], Tensor] | None:
        """The loss of a micro-batch, from what the last stage gives."""
        function = self._loss_fn
        if not self._last or function is None or not is_wanted:
            return None
        if target is None:
            raise ArgumentError(f"{self._named()}, the last: give target=, which loss_fn compares "
                                f"with")
        targets = self._cut((target,), "target")
        return lambda batch, output: function(output, targets[batch][0])

    def _cut(self, values: tuple[Any, ...], name: str) -> list[tuple[Any, ...]]:
        """The arguments of each micro-batch."""
        count = self._count
        for number, x in enumerate(values):
            if isinstance(x, Tensor) and (not x.ndim or not x.shape[0] or x.shape[0] % count):
                raise ShapeError(f"{self._named()}: {name}[{number}] has shape {x.shape}; axis 0 "
                                 f"must be a multiple of the {count} micro-batches")
        parts = [x.chunk(count) if isinstance(x, Tensor) else [x] * count for x in values]
        return [tuple(p[i] for p in parts) for i in range(count)]


class PipelineScheduleSingle(_Schedule):
    """A schedule for one stage a rank. stage: this rank's; of the rest see _Schedule."""

    def __init__(self, stage: PipelineStage, n_microbatches: int, loss_fn: Loss | None = None,
                 args_chunk_spec: None = None, kwargs_chunk_spec: None = None,
                 output_merge_spec: None = None, scale_grads: bool = True) -> None:
        name = type(self).__name__
        if not isinstance(stage, PipelineStage):
            raise ArgumentError(f"{name}: {stage!r:.40} is no PipelineStage")
        if stage.num_stages != stage.group.size:
            raise ArgumentError(f"{name}: a rank has one stage, but there are {stage.num_stages} "
                                f"of {stage.group.size} ranks; ScheduleInterleaved1F1B and "
                                f"ScheduleLoopedBFS take several")
        super().__init__([stage], n_microbatches, loss_fn,
                         (args_chunk_spec, kwargs_chunk_spec, output_merge_spec), scale_grads)


class PipelineScheduleMulti(_Schedule):
    """A schedule for several stages a rank. stages: all of this rank's, in their order; of the
    rest see _Schedule."""

    def __init__(self, stages: Sequence[PipelineStage], n_microbatches: int,
                 loss_fn: Loss | None = None, args_chunk_spec: None = None,
                 kwargs_chunk_spec: None = None, output_merge_spec: None = None,
                 scale_grads: bool = True) -> None:
        name = type(self).__name__
        if not isinstance(stages, list | tuple) or not stages or not all(
                isinstance(stage, PipelineStage) for stage in stages):
            raise ArgumentError(f"{name}: {stages!r:.60}; give a list of this rank's "
                                f"PipelineStages")
        group, count = stages[0].group, stages[0].num_stages
        if any(stage.group is not group or stage.num_stages != count for stage in stages):
            raise ArgumentError(f"{name}: stages of different groups or num_stages; make all of "
                                f"them with the same")
        wanted, found = [*range(group.rank, count, group.size)], [s.stage_index for s in stages]
        if found != wanted:
            raise ArgumentError(f"{name}: stages {found} on rank {group.rank} of the group; it has "
                                f"stages {wanted} of {count}: give these, in this order")
        super().__init__(stages, n_microbatches, loss_fn,
                         (args_chunk_spec, kwargs_chunk_spec, output_merge_spec), scale_grads)


class ScheduleGPipe(PipelineScheduleSingle):
    """All micro-batches forward, then all backward: a stage keeps what all of them need."""

    _order = staticmethod(programs.gpipe)


class Schedule1F1B(PipelineScheduleSingle):
    """One micro-batch forward and one backward in turns, as soon as all stages have something to
    do: a stage keeps what as many need as there are stages from it on."""

    _order = staticmethod(programs.one_forward_one_backward)


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """All micro-batches forward, a stage of each rank after the other, then all backward."""

    _order = staticmethod(programs.gpipe)


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """Rounds of as many micro-batches as ranks: of a round one stage of each rank after the other,
    forward and backward in turns. With v stages a rank it waits for others 1/v as long as 1F1B
    with one stage of all these layers, and passes on v times as much."""

    _order = staticmethod(programs.interleaved)


def _joined(results: list[Any]) -> Any:
    """The whole batch's results."""
    first = results[0]
    if not isinstance(first, Tensor):
        return of_kind(type(first), [_joined(list(parts)) for parts in zip(*results, strict=True)])
    return cat(results) if first.ndim else stack(results)


def _carry_out(work: Step, output: Any, trains: bool) -> None:
    """Compute all of it together, on this rank too if it looks at nothing. (In lt.jit the whole
    function is.)"""
    outputs = [output] if isinstance(output, Tensor) else list(output or ())
    gradients = [p.grad for stage in work.stages.values() for p in stage.parameters()
                 if p.grad is not None] if trains else []
    realize(*outputs, *gradients, *work.losses.values(), *work.sent)
