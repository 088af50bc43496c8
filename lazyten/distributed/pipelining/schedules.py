"""`ScheduleGPipe` and `Schedule1F1B`: steps of all stages together, in micro-batches."""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from lazyten.distributed.pipelining import programs
from lazyten.distributed.pipelining.programs import Compute, Program
from lazyten.distributed.pipelining.stage import PipelineStage, Step
from lazyten.frontend.functions import cat, realize, stack
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ArgumentError, ShapeError
from lazyten.support.grad_mode import no_grad
from lazyten.support.trees import of_kind

Loss = Callable[[Any, Any], Tensor]


class PipelineScheduleSingle(ABC):
    """A schedule for one stage a rank.

    stage: this rank's. n_microbatches: in how many parts of one size each batch is cut, along axis
    0. loss_fn: of what the last stage gives for a micro-batch, and its part of the target; gives
    one number. With scale_grads gradients are those of the mean of these losses, without of their
    sum. All ranks make the same schedule. How inputs are cut, and results joined, cannot be chosen:
    args_chunk_spec, kwargs_chunk_spec and output_merge_spec must be left out.
    """

    def __init__(self, stage: PipelineStage, n_microbatches: int, loss_fn: Loss | None = None,
                 args_chunk_spec: None = None, kwargs_chunk_spec: None = None,
                 output_merge_spec: None = None, scale_grads: bool = True) -> None:
        name = type(self).__name__
        if not isinstance(stage, PipelineStage):
            raise ArgumentError(f"{name}: {stage!r:.40} is no PipelineStage")
        if not isinstance(n_microbatches, int) or n_microbatches < 1:
            raise ArgumentError(f"{name}: n_microbatches={n_microbatches!r}; give 1 or more")
        if (args_chunk_spec, kwargs_chunk_spec, output_merge_spec) != (None, None, None):
            raise ArgumentError(f"{name}: batches are cut, and results joined, along axis 0; leave "
                                f"args_chunk_spec, kwargs_chunk_spec and output_merge_spec out")
        self._stage, self._count, self._loss_fn = stage, n_microbatches, loss_fn
        self.scale_grads = scale_grads
        self._programs = [self._program(order) for order in (programs.forwards, self._order)]

    @staticmethod
    @abstractmethod
    def _order(stage: int, stages: int, batches: int) -> list[Compute]:
        """What a stage computes in a training step."""

    def _program(self, order: Callable[[int, int, int], list[Compute]]) -> Program:
        stages = self._stage.num_stages
        return programs.with_passes([order(s, stages, self._count) for s in range(stages)],
                                    self._stage.stage_index)

    def step(self, *args: Any, target: Any = None, losses: list[Tensor] | None = None,
             **kwargs: Any) -> Any:
        """One step: gradients are added to `.grad` of each stage's parameters.

        args: the batch, on the first stage alone. kwargs: what this stage's module is called with
        by name. Tensors in both are cut along axis 0, other values are given to all micro-batches.
        target: on the last stage. losses: a list there, which becomes that of the micro-batches'.
        Gives what the last stage gives for the whole batch there, and None elsewhere. All ranks
        call it. ShapeError for a batch that cannot be cut evenly, and for one of another size than
        in the first step.
        """
        if self._loss_fn is None and self._stage.is_last:
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
        stage, count = self._stage, self._count
        if args and not stage.is_first:
            raise ArgumentError(f"{type(self).__name__} on stage {stage.stage_index}: the batch is "
                                f"given to the first stage alone; others get what the stage before "
                                f"them gives")
        inputs = self._cut(args, "args")
        names, values = tuple(kwargs), self._cut(tuple(kwargs.values()), "kwargs")
        loss = self._losses(target, trains or losses is not None)
        work = Step(stage, count, inputs, [dict(zip(names, v, strict=True)) for v in values], loss,
                    1 / count if self.scale_grads else 1)
        for what in self._programs[trains]:
            if isinstance(what, Compute):
                work.compute(what)
            else:
                work.exchange(what)
        if losses is not None and stage.is_last:
            losses[:] = [work.losses[i] for i in range(count)]
        output = _joined([work.results[i] for i in range(count)]) if stage.is_last else None
        _carry_out(work, output, trains)
        return output

    def _losses(self, target: Any, is_wanted: bool) -> Callable[[int, Any], Tensor] | None:
        """The loss of a micro-batch, from what the last stage gives."""
        function = self._loss_fn
        if not self._stage.is_last or function is None or not is_wanted:
            return None
        if target is None:
            raise ArgumentError(f"{type(self).__name__} on stage {self._stage.stage_index}, the "
                                f"last: give target=, which loss_fn compares with")
        targets = self._cut((target,), "target")
        return lambda batch, output: function(output, targets[batch][0])

    def _cut(self, values: tuple[Any, ...], name: str) -> list[tuple[Any, ...]]:
        """The arguments of each micro-batch."""
        count = self._count
        for number, x in enumerate(values):
            if isinstance(x, Tensor) and (not x.ndim or not x.shape[0] or x.shape[0] % count):
                raise ShapeError(
                    f"{type(self).__name__} on stage {self._stage.stage_index}: {name}[{number}] "
                    f"has shape {x.shape}; axis 0 must be a multiple of the {count} micro-batches")
        parts = [x.chunk(count) if isinstance(x, Tensor) else [x] * count for x in values]
        return [tuple(p[i] for p in parts) for i in range(count)]


class ScheduleGPipe(PipelineScheduleSingle):
    """All micro-batches forward, then all backward: a stage keeps what all of them need."""

    _order = staticmethod(programs.gpipe)


class Schedule1F1B(PipelineScheduleSingle):
    """One micro-batch forward and one backward in turns, as soon as all stages have something to
    do: a stage keeps what as many need as there are stages from it on."""

    _order = staticmethod(programs.one_forward_one_backward)


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
    gradients = [p.grad for p in work.gradients_of() if p.grad is not None] if trains else []
    realize(*outputs, *gradients, *work.losses.values(), *work.sent)
