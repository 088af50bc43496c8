"""`ColwiseParallel` and `RowwiseParallel`: which part of a layer each rank has, and how what comes
in and goes out lies on them.
"""
from __future__ import annotations

from abc import ABC, abstractmethod

from lazyten.distributed.group import Group
from lazyten.distributed.tensor.parallel.layers import (
    ColwiseEmbedding,
    ColwiseLinear,
    RowwiseEmbedding,
    RowwiseLinear,
    Sharing,
)
from lazyten.distributed.tensor.placements import Placement, Replicate, Shard
from lazyten.nn.module import Module
from lazyten.nn.modules.linear import Linear
from lazyten.nn.modules.sparse import Embedding
from lazyten.nn.sharded_parameter import PartialParameter, SplitParameter
from lazyten.support.errors import ArgumentError

LAST = Shard(-1)


class ParallelStyle(ABC):
    """How a layer is shared out: a value of a plan of parallelize_module()."""

    _linear: type[Linear]
    _embedding: type[Embedding]
    _axes: dict[str, int]
    """Of a Linear's parameters, which axis is cut."""
    _embedding_axis: int

    def __init__(self, *, input_layouts: Placement | None = None,
                 output_layouts: Placement | None = None, use_local_output: bool = True) -> None:
        if not use_local_output:
            raise ArgumentError(f"{type(self).__name__}: use_local_output=False asks for a "
                                f"DTensor, and each rank has tensors of its own; leave it out")
        self.input_layouts = self._checked(input_layouts, "input_layouts")
        self.output_layouts = self._checked(output_layouts, "output_layouts")

    @abstractmethod
    def _usual(self, kind: type[Module]) -> tuple[Placement, Placement]:
        """How inputs and outputs of a layer lie where nothing is said."""

    def _checked(self, layout: Placement | None, name: str) -> Placement | None:
        if layout is None or layout in (LAST, Replicate()):
            return layout
        raise ArgumentError(f"{type(self).__name__}: {name}={layout!r:.60}; it is Replicate() or "
                            f"Shard(-1), parts of the last axis")

    def apply(self, module: Module, name: str, group: Group) -> None:
        """Share a layer out, in place. ArgumentError for one of which this is not known, and for
        sizes that the ranks do not divide."""
        found = {Linear: self._linear, Embedding: self._embedding}.get(type(module))
        what = f"{type(self).__name__} of {name or 'the module'}, {module!r:.80},"
        if found is None:
            raise ArgumentError(f"{what} is not known: it is of a Linear or an Embedding, and of "
                                f"no class made of these; name the layers inside in the plan")
        if any(isinstance(p, PartialParameter) for p in module.parameters(recurse=False)):
            raise ArgumentError(f"{what}: its parameters are shared out already")
        takes, gives = self._usual(found)
        takes, gives = self.input_layouts or takes, self.output_layouts or gives
        how = Sharing(group, takes == Replicate(), gives == Replicate())
        axes = self._axes if isinstance(module, Linear) else {"weight": self._embedding_axis}
        _check(module, what, how, axes, group.size)
        for own, axis in axes.items():
            p = module._parameters.get(own)
            if p is not None:
                module._parameters[own] = SplitParameter.of(p, group, axis)
        module.__class__ = type(found.__name__, (found,),
                                {"_sharing": how, "__module__": found.__module__})

    def __repr__(self) -> str:
        return (f"{type(self).__name__}(input_layouts={self.input_layouts}, "
                f"output_layouts={self.output_layouts})")


def _check(module: Module, what: str, how: Sharing, axes: dict[str, int], size: int) -> None:
    if isinstance(module, Embedding):
        if module.max_norm is not None or module.scale_grad_by_freq:
            raise ArgumentError(f"{what}: max_norm and scale_grad_by_freq need all of the weight; "
                                f"leave them out, or the layer whole")
        if not how.takes_whole:
            raise ArgumentError(f"{what}: all ranks have the same numbers of rows: "
                                f"input_layouts=Replicate()")
    inner, outer = (1, 0) if isinstance(module, Linear) else (0, 1)
    cut = {axes["weight"]} | ({inner} if not how.takes_whole else set()) | (
        {outer} if not how.gives_whole else set())
    shape = module.get_parameter("weight").shape
    for axis in sorted(cut):
        is_rows = isinstance(module, Embedding) and axis == 0  # which no rank puts together again
        if shape[axis] < size or shape[axis] % size and not is_rows:
            raise ArgumentError(f"{what}: axis {axis} of the weight has size {shape[axis]}, which "
                                f"{size} ranks cannot share out evenly; give it a multiple of "
                                f"{size}, or leave the layer whole")


class ColwiseParallel(ParallelStyle):
    """Each rank has some of the outputs of a Linear, or of the features of an Embedding.

    input_layouts: Replicate() unless Shard(-1) is given; output_layouts: Shard(-1) unless
    Replicate() is given, which gathers.
    """

    _linear, _embedding = ColwiseLinear, ColwiseEmbedding
    _axes, _embedding_axis = {"weight": 0, "bias": 0}, 1

    def _usual(self, kind: type[Module]) -> tuple[Placement, Placement]:
        return Replicate(), LAST


class RowwiseParallel(ParallelStyle):
    """Each rank has some of the inputs of a Linear, or of the rows of an Embedding (its
    vocabulary), and the ranks sum what they make of them.

    input_layouts: Shard(-1) for a Linear, unless Replicate() is given; output_layouts: Replicate()
    unless Shard(-1) is given, of which each rank gets its part.
    """

    _linear, _embedding = RowwiseLinear, RowwiseEmbedding
    _axes, _embedding_axis = {"weight": 1}, 0

    def _usual(self, kind: type[Module]) -> tuple[Placement, Placement]:
        return Replicate() if issubclass(kind, Embedding) else LAST, Replicate()
