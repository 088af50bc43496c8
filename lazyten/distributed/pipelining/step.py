"""`Step`: what one rank does of a step, as its program says: computing, and passing on."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lazyten.autograd import backward
from lazyten.distributed.pipelining.programs import FORWARD, Compute, Pass
from lazyten.distributed.pipelining.stage import PipelineStage
from lazyten.distributed.pipelining.wires import Parcel, Wire, described, exchanged
from lazyten.frontend.tensor import Tensor
from lazyten.nn.parallel.distributed import DistributedDataParallel
from lazyten.support.errors import ArgumentError, LazytenError, ShapeError
from lazyten.support.grad_mode import is_grad_enabled, no_grad
from lazyten.support.trees import of_kind


class Step:
    """One step of a rank. inputs, options: of each micro-batch what the first stage's module is
    called with, and each stage's by name; loss: gives that of a micro-batch from what the last
    stage gives, if gradients are asked for; share: of the step's loss in each of these."""

    def __init__(self, stages: Sequence[PipelineStage], inputs: Sequence[tuple[Any, ...]],
                 options: Sequence[dict[str, Any]],
                 loss: Callable[[int, Any], Tensor] | None, share: float) -> None:
        self.stages = {stage.stage_index: stage for stage in stages}
        self.group, self.share = stages[0].group, share
        self.inputs, self.options, self.loss = inputs, options, loss
        self.came: dict[Compute, list[Tensor | None]] = {}
        self.given: dict[Compute, list[Tensor | None]] = {}
        self.taken: dict[Compute, list[Tensor]] = {}
        self.results: dict[Compute, Any] = {}
        self.outputs: dict[int, Any] = {}
        self.losses: dict[int, Tensor] = {}
        self.sent: list[Tensor] = []
        self.last: Tensor | None = None

    def compute(self, what: Compute) -> None:
        """Do one thing of a program. An error names the stage and the micro-batch."""
        try:
            (self._forward if what.kind == FORWARD else self._backward)(what)
        except LazytenError as error:
            taken = described([Parcel.of(t) for t in self.taken.get(_forward_of(what), ())])
            words = f"{self.stages[what.stage].named(what.batch)} {what.kind} of {taken}"
            if str(error).startswith("pipeline stage"):
                raise
            raise type(error)(f"{words}: {error}") from error

    def exchange(self, step: Pass) -> None:
        """Pass on what was computed, and get what is computed next of."""
        wire, device = self._wire(step)
        nothing: list[Tensor | None] = [None] * len(wire)
        values = nothing if step.sent is None else self.given.pop(step.sent)
        came, every = exchanged(wire, step, values, self.group, device, self.last)
        self.last = None
        self.sent += every
        if step.received is not None:
            self.came[step.received.reader] = came

    def _wire(self, step: Pass) -> tuple[Wire, str]:
        """What travels between the two stages of a pass, and the device where it is put here."""
        lower, upper = (self.stages.get(step.wire + i) for i in (0, 1))
        if upper is not None:
            return upper.taken(lower), upper.device
        assert lower is not None
        return lower.given(), lower.device

    def _forward(self, what: Compute) -> None:
        stage, batch = self.stages[what.stage], what.batch
        args = self.inputs[batch] if stage.is_first else self._received(what)
        self.taken[what] = [x for x in args if isinstance(x, Tensor)]
        with _sharing_out(stage, batch == len(self.inputs) - 1, forward=True):
            result = stage.submod(*args, **self.options[batch])
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        if not all(isinstance(x, Tensor) for x in outputs):
            raise ArgumentError(f"the module gives {type(result).__name__}; a stage gives a "
                                f"tensor, or a tuple of them")
        if not stage.is_last:
            stage.gives(outputs, batch)
            self.given[what] = list(outputs)
            self.results[what] = outputs
            return
        self.outputs[batch] = result
        if self.loss is not None:
            self.losses[batch] = self.loss(batch, result)
            if self.losses[batch].numel() != 1:
                raise ShapeError(f"loss_fn gives a tensor of shape {self.losses[batch].shape}; it "
                                 f"must have one element")

    def _received(self, what: Compute) -> tuple[Tensor, ...]:
        """What came from the stage before, as leaves that gradients reach."""
        wire = self.stages[what.stage].wires[-1, is_grad_enabled()]
        found = []
        for parcel, x in zip(wire, self.came.pop(what), strict=True):
            assert x is not None
            found.append(x.detach().requires_grad_(parcel.has_gradient and is_grad_enabled()))
        return tuple(found)

    def _backward(self, what: Compute) -> None:
        stage, batch, forward = self.stages[what.stage], what.batch, _forward_of(what)
        taken = self.taken.pop(forward)
        with _sharing_out(stage, batch == len(self.inputs) - 1, forward=False):
            if stage.is_last:
                loss = self.losses[batch]
                self.losses[batch], self.outputs[batch] = loss.detach(), _detached(
                    self.outputs[batch])
                (loss if self.share == 1 else loss * self.share).backward()
            else:
                came, result = self.came.pop(what), self.results.pop(forward)
                pairs = [(x, g) for x, g in zip(result, came, strict=True) if g is not None]
                if pairs:
                    backward([x for x, _ in pairs], [g for _, g in pairs])
        if not stage.is_first:
            self.given[what] = [x.grad if x.grad is not None else x.detach() * 0 for x in taken]
        self.last = _first_elements(stage)


@contextmanager
def _sharing_out(stage: PipelineStage, is_last: bool, forward: bool) -> Iterator[None]:
    """Gradients of ranks that have the same stage are averaged once, as the last micro-batch's are
    there: those go backward in their order. Units that have parts of parameters are told as they go
    forward, too; DistributedDataParallel shares buffers out then, for each."""
    told = [] if is_last else [m for m in stage.submod.modules() if getattr(
        m, "require_backward_grad_sync", False)
        and not (forward and isinstance(m, DistributedDataParallel))]
    for module in told:
        module.require_backward_grad_sync = False
    try:
        yield
    finally:
        for module in told:
            module.require_backward_grad_sync = True


def _forward_of(what: Compute) -> Compute:
    """What the same stage has computed forward of the same micro-batch."""
    return Compute(FORWARD, what.batch, what.stage)


def _first_elements(stage: PipelineStage) -> Tensor | None:
    """A number that is known once all gradients of a stage are: what is to be computed after these
    is made after it. So what a micro-batch has left in memory is not kept longer."""
    with no_grad():
        firsts = [p.grad.detach().reshape(-1)[0].float() for p in stage.parameters()
                  if p.grad is not None and p.grad.numel()]
        return sum(firsts[1:], firsts[0]) if firsts else None


def _detached(result: Any) -> Any:
    if isinstance(result, Tensor):
        return result.detach()
    return of_kind(type(result), [x.detach() for x in result])
