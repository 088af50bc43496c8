"""`PipelineStage`: the part of a model that one rank has, and one step of it."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from lazyten.autograd import backward
from lazyten.distributed import state
from lazyten.distributed.group import Group
from lazyten.distributed.pipelining.programs import FORWARD, Compute, Pass
from lazyten.distributed.pipelining.wires import Parcel, Wire, described, exchanged, hear, tell
from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.support.errors import ArgumentError, LazytenError, ShapeError
from lazyten.support.grad_mode import is_grad_enabled, no_grad
from lazyten.support.trees import of_kind


class PipelineStage:
    """A stage of a model that ranks compute one after the other.

    submodule: what this rank has; it takes the tensors that the stage before gives, as arguments,
    and gives a tensor, or a tuple of them. stage_index: its number of num_stages; that of the rank
    in the group. device: where what comes from others is put; the parameters' device, if None.
    input_args: an example of the inputs of one micro-batch, which what comes is compared with.
    group: the ranks, all if None, in the order of stages.
    """

    def __init__(self, submodule: Module, stage_index: int, num_stages: int,
                 device: str | None = None, input_args: Tensor | tuple[Tensor, ...] | None = None,
                 output_args: Tensor | tuple[Tensor, ...] | None = None,
                 group: Group | None = None, dw_builder: None = None) -> None:
        self.group = state.group_of(group, "PipelineStage")
        _check(submodule, stage_index, num_stages, self.group, dw_builder)
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device = str(device or next((p.device for p in submodule.parameters()), "cpu"))
        self.examples = [None if x is None else [
            Parcel.of(t) for t in (x if isinstance(x, tuple) else (x,))]
            for x in (input_args, output_args)]
        self.wires: dict[tuple[int, bool], Wire] = {}

    @property
    def is_first(self) -> bool:
        """Whether no stage is before this one."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether no stage is after this one."""
        return self.stage_index == self.num_stages - 1

    def wire(self, peer: int) -> Wire:
        """What comes from the stage before (-1), which it is asked for once, or goes to the next
        (1)."""
        key = peer, is_grad_enabled()
        if key not in self.wires:
            heard = hear(self.group, self.stage_index - 1)
            self._compare(heard, 0, f"stage {self.stage_index - 1} gives it")
            self.wires[key] = heard
        return self.wires[key]

    def tell(self, outputs: Sequence[Tensor], batch: int) -> None:
        """See that the outputs are what the next stage awaits; the first time, say what they are.
        ShapeError if they are not."""
        key, found = (1, is_grad_enabled()), tuple(map(Parcel.of, outputs))
        if key not in self.wires:
            self._compare(found, 1, "its module gives")
            tell(found, self.group, self.stage_index + 1)
            self.wires[key] = found
        elif found != self.wires[key]:
            raise ShapeError(f"{self.named(batch)} gives {described(found)}, but the next stage "
                             f"awaits {described(self.wires[key])}, as in the first step; give "
                             f"each step a batch of that size, or make the stages anew")

    def _compare(self, found: Wire, which: int, words: str) -> None:
        wanted = self.examples[which]
        if wanted is not None and [(p.shape, p.dtype) for p in found] != [
                (p.shape, p.dtype) for p in wanted]:
            raise ShapeError(f"pipeline stage {self.stage_index} of {self.num_stages}: {words} "
                             f"{described(found)}, but {('input', 'output')[which]}_args says "
                             f"{described(wanted)}, for one micro-batch")

    def named(self, batch: int) -> str:
        """Which micro-batch of which stage, for errors."""
        return f"pipeline stage {self.stage_index} of {self.num_stages}, micro-batch {batch},"


def _check(submodule: Module, index: int, count: int, group: Group, builder: object) -> None:
    if not isinstance(submodule, Module):
        raise ArgumentError(f"PipelineStage of {submodule!r:.40}: give a module")
    if builder is not None:
        raise ArgumentError("PipelineStage: dw_builder; gradients of weights are not split off "
                            "here: leave it out")
    if count != group.size:
        raise ArgumentError(f"PipelineStage: num_stages={count} for a group of {group.size} "
                            f"ranks; each rank has one stage")
    if index != group.rank:
        raise ArgumentError(f"PipelineStage: stage_index={index} on rank {group.rank} of the "
                            f"group; stages are in the order of ranks: give {group.rank}")


class Step:
    """One step of a stage. inputs, options: of each micro-batch what its module is called with on
    the first stage, and by name on any; loss: gives that of a micro-batch from what the last stage
    gives, if gradients are asked for; share: of the step's loss in each of these; batches: how
    many there are."""

    def __init__(self, stage: PipelineStage, batches: int, inputs: Sequence[tuple[Any, ...]],
                 options: Sequence[dict[str, Any]], loss: Callable[[int, Any], Tensor] | None,
                 share: float) -> None:
        self.stage, self.batches, self.share = stage, batches, share
        self.inputs, self.options, self.loss = inputs, options, loss
        self.came: dict[Compute, list[Tensor | None]] = {}
        self.given: dict[Compute, list[Tensor | None]] = {}
        self.taken: dict[int, list[Tensor]] = {}
        self.results: dict[int, Any] = {}
        self.losses: dict[int, Tensor] = {}
        self.sent: list[Tensor] = []
        self.last: Tensor | None = None

    def compute(self, what: Compute) -> None:
        """Do one thing of a program. An error names the stage and the micro-batch."""
        try:
            (self._forward if what.kind == FORWARD else self._backward)(what)
        except LazytenError as error:
            taken = described([Parcel.of(t) for t in self.taken.get(what.batch, ())])
            words = f"{self.stage.named(what.batch)} {what.kind} of {taken}"
            if str(error).startswith("pipeline stage"):
                raise
            raise type(error)(f"{words}: {error}") from error

    def exchange(self, step: Pass) -> None:
        """Pass on what was computed, and get what is computed next of."""
        stage = self.stage
        wire = stage.wire(step.peer)
        nothing: list[Tensor | None] = [None] * len(wire)
        values = nothing if step.sent is None else self.given.pop(step.sent)
        came, every = exchanged(wire, step, values, stage.stage_index, stage.group, stage.device,
                                self.last)
        self.last = None
        self.sent += every
        if step.received is not None:
            self.came[step.received] = came

    def _forward(self, what: Compute) -> None:
        stage, batch = self.stage, what.batch
        args = self.inputs[batch] if stage.is_first else self._received(what)
        self.taken[batch] = [x for x in args if isinstance(x, Tensor)]
        result = stage.submod(*args, **self.options[batch])
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        if not all(isinstance(x, Tensor) for x in outputs):
            raise ArgumentError(f"the module gives {type(result).__name__}; a stage gives a "
                                f"tensor, or a tuple of them")
        if not stage.is_last:
            stage.tell(outputs, batch)
            self.given[what] = list(outputs)
            self.results[batch] = outputs
            return
        self.results[batch] = result
        if self.loss is not None:
            self.losses[batch] = self.loss(batch, result)
            if self.losses[batch].numel() != 1:
                raise ShapeError(f"loss_fn gives a tensor of shape {self.losses[batch].shape}; it "
                                 f"must have one element")

    def _received(self, what: Compute) -> tuple[Tensor, ...]:
        """What came from the stage before, as leaves that gradients reach."""
        found = []
        for parcel, x in zip(self.stage.wire(-1), self.came.pop(what), strict=True):
            assert x is not None
            found.append(x.detach().requires_grad_(parcel.has_gradient and is_grad_enabled()))
        return tuple(found)

    def _backward(self, what: Compute) -> None:
        stage, batch = self.stage, what.batch
        result, taken = self.results[batch], self.taken.pop(batch)
        with self._last_alone(batch):
            if stage.is_last:
                loss = self.losses[batch]
                self.losses[batch], self.results[batch] = loss.detach(), _detached(result)
                (loss if self.share == 1 else loss * self.share).backward()
            else:
                came = self.came.pop(Compute(what.kind, batch))
                del self.results[batch]
                pairs = [(x, g) for x, g in zip(result, came, strict=True) if g is not None]
                if pairs:
                    backward([x for x, _ in pairs], [g for _, g in pairs])
        if not stage.is_first:
            self.given[what] = [x.grad if x.grad is not None else x.detach() * 0 for x in taken]
        self.last = self._first_elements()

    def _last_alone(self, batch: int) -> AbstractContextManager[Any]:
        """Gradients of ranks that have the same stage are averaged once, in the end."""
        no_sync = getattr(self.stage.submod, "no_sync", None)
        return no_sync() if no_sync is not None and batch < self.batches - 1 else nullcontext()

    def _first_elements(self) -> Tensor | None:
        """A number that is known once all gradients are: what is to be computed after these is
        made after it. So what a micro-batch has left in memory is not kept longer."""
        with no_grad():
            firsts = [p.grad.detach().reshape(-1)[0].float() for p in self.gradients_of()
                      if p.grad is not None and p.grad.numel()]
            return sum(firsts[1:], firsts[0]) if firsts else None

    def gradients_of(self) -> list[Tensor]:
        """The parameters that are trained."""
        return [p for p in self.stage.submod.parameters() if p.requires_grad]


def _detached(result: Any) -> Any:
    if isinstance(result, Tensor):
        return result.detach()
    return of_kind(type(result), [x.detach() for x in result])
