"""`PipelineStage`: a part of a model, some layers, that one rank has."""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.distributed import state
from lazyten.distributed.group import Group
from lazyten.distributed.pipelining.wires import Parcel, Wire, described, hear, tell
from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.support.errors import ArgumentError, ShapeError
from lazyten.support.grad_mode import is_grad_enabled


class PipelineStage:
    """A stage of a model that ranks compute one after the other.

    submodule: what this rank has; it takes the tensors that the stage before gives, as arguments,
    and gives a tensor, or a tuple of them. stage_index: its number of num_stages. Stages go round
    the ranks of the group: of 2 ranks and 4 stages rank 0 has 0 and 2, rank 1 has 1 and 3. device:
    where what comes from others is put; the parameters' device, if None. input_args: an example of
    the inputs of one micro-batch, which what comes is compared with. group: the ranks, all if None.
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
        self._told: set[bool] = set()

    @property
    def is_first(self) -> bool:
        """Whether no stage is before this one."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether no stage is after this one."""
        return self.stage_index == self.num_stages - 1

    def taken(self, before: PipelineStage | None) -> Wire:
        """What comes from the stage before, of which another rank is asked once. before: that
        stage, if this rank has it."""
        key = -1, is_grad_enabled()
        if key not in self.wires:
            number = self.stage_index - 1
            heard = hear(number, self.group) if before is None else before.wires[1, key[1]]
            self._compare(heard, 0, f"stage {number} gives it")
            self.wires[key] = heard
        return self.wires[key]

    def given(self) -> Wire:
        """What goes to the next stage of another rank, which is told so once."""
        grad = is_grad_enabled()
        if grad not in self._told:
            tell(self.wires[1, grad], self.stage_index, self.group)
            self._told.add(grad)
        return self.wires[1, grad]

    def gives(self, outputs: Sequence[Tensor], batch: int) -> None:
        """See that the outputs are what the next stage awaits: what they were the first time.
        ShapeError if they are not."""
        key, found = (1, is_grad_enabled()), tuple(map(Parcel.of, outputs))
        if key not in self.wires:
            self._compare(found, 1, "its module gives")
            self.wires[key] = found
        elif found != self.wires[key]:
            raise ShapeError(f"{self.named(batch)} gives {described(found)}, but the next stage "
                             f"awaits {described(self.wires[key])}, as in the first step; give "
                             f"each step a batch of that size, or make the stages anew")

    def parameters(self) -> list[Tensor]:
        """Those that are trained."""
        return [p for p in self.submod.parameters() if p.requires_grad]

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
    if count < 1 or count % group.size:
        raise ArgumentError(f"PipelineStage: num_stages={count} for a group of {group.size} ranks; "
                            f"each rank has as many stages: give a multiple of {group.size}")
    if index not in range(group.rank, count, group.size):
        own = ", ".join(map(str, range(group.rank, count, group.size)))
        raise ArgumentError(f"PipelineStage: stage_index={index} on rank {group.rank} of the "
                            f"group; stages go round the ranks: give {own}")
