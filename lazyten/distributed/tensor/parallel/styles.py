"""`ColwiseParallel`, `RowwiseParallel` and `SequenceParallel`: which part of a layer each rank has,
or of sequences, and how what comes in and goes out lies on them.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from lazyten.distributed.device_mesh import DeviceMesh
from lazyten.distributed.tensor.parallel.dtensor import DTensor
from lazyten.distributed.tensor.parallel.layers import (
    LAST,
    ColwiseEmbedding,
    ColwiseLinear,
    OfSequences,
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


class ParallelStyle(ABC):
    """How a layer is shared out: a value of a plan of parallelize_module()."""

    @abstractmethod
    def apply(self, module: Module, name: str, mesh: DeviceMesh) -> None:
        """Share a layer out, in place. ArgumentError for one of which this is not known, and for
        sizes that the ranks do not divide."""


class _ByWeights(ParallelStyle):
    """Each rank has a part of a layer's weights."""

    _linear: type[Linear]
    _embedding: type[Embedding]
    _axes: dict[str, int]
    """Of a Linear's parameters, which axis is cut."""
    _embedding_axis: int
    _of_sequences: str
    """Which of its layouts may be a part of sequences."""

    def __init__(self, *, input_layouts: Placement | None = None,
                 output_layouts: Placement | None = None, use_local_output: bool = True) -> None:
        self.use_local_output = use_local_output
        self.input_layouts = self._checked(input_layouts, "input_layouts")
        self.output_layouts = self._checked(output_layouts, "output_layouts")

    @abstractmethod
    def _usual(self, kind: type[Module]) -> tuple[Placement, Placement]:
        """How inputs and outputs of a layer lie where nothing is said."""

    def _checked(self, layout: Placement | None, name: str) -> Placement | None:
        may = isinstance(layout, Shard) and name == self._of_sequences and layout.dim >= 0
        if layout is None or layout in (Shard(LAST), Replicate()) or may:
            return layout
        more = ", or Shard(1), of sequences" if name == self._of_sequences else ""
        raise ArgumentError(f"{type(self).__name__}: {name}={layout!r:.60}; it is Replicate() or "
                            f"Shard(-1), parts of the last axis{more}")

    def apply(self, module: Module, name: str, mesh: DeviceMesh) -> None:
        """See ParallelStyle."""
        group = mesh.get_group()
        found = {Linear: self._linear, Embedding: self._embedding}.get(type(module))
        what = f"{type(self).__name__} of {name or 'the module'}, {module!r:.80},"
        if found is None:
            raise ArgumentError(f"{what} is not known: it is of a Linear or an Embedding, and of "
                                f"no class made of these; name the layers inside in the plan")
        if any(isinstance(p, PartialParameter) for p in module.parameters(recurse=False)):
            raise ArgumentError(f"{what}: its parameters are shared out already")
        takes, gives = self._usual(found)
        how = Sharing(group, *map(_axis, (self.input_layouts or takes,
                                          self.output_layouts or gives)))
        axes = self._axes if isinstance(module, Linear) else {"weight": self._embedding_axis}
        _check(module, what, how, axes, group.size)
        for own, axis in axes.items():
            p = module._parameters.get(own)
            if p is not None:
                module._parameters[own] = SplitParameter.of(p, group, axis)
        module.__class__ = type(found.__name__, (found,),
                                {"_sharing": how, "__module__": found.__module__})
        _take_and_give(module, mesh, self.input_layouts or takes,
                       None if self.use_local_output else self.output_layouts or gives)

    def __repr__(self) -> str:
        return (f"{type(self).__name__}(input_layouts={self.input_layouts}, "
                f"output_layouts={self.output_layouts})")


def _take_and_give(module: Module, mesh: DeviceMesh, takes: Placement, gives: Placement | None
                   ) -> None:
    """Have a layer take this rank's part of a DTensor; and give one, if gives says how that
    lies."""
    def own(_: Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([x.redistribute(placements=[takes])._part_here() if isinstance(x, DTensor)
                      else x for x in args])
    module.register_forward_pre_hook(own)
    if gives is not None:
        module.register_forward_hook(lambda _, args, output: DTensor.from_local(
            output, mesh, [gives]))


def _axis(layout: Placement) -> int | None:
    """The axis that is cut, if one is."""
    return layout.dim if isinstance(layout, Shard) else None


def _check(module: Module, what: str, how: Sharing, axes: dict[str, int], size: int) -> None:
    if isinstance(module, Embedding):
        if module.max_norm is not None or module.scale_grad_by_freq:
            raise ArgumentError(f"{what}: max_norm and scale_grad_by_freq need all of the weight; "
                                f"leave them out, or the layer whole")
        if how.takes is not None:
            raise ArgumentError(f"{what}: all ranks have the same numbers of rows: "
                                f"input_layouts=Replicate()")
    inner, outer = (1, 0) if isinstance(module, Linear) else (0, 1)
    cut = {axes["weight"]} | ({inner} if how.takes == LAST else set()) | (
        {outer} if how.gives == LAST else set())
    shape = module.get_parameter("weight").shape
    for axis in sorted(cut):
        is_rows = isinstance(module, Embedding) and axis == 0  # which no rank puts together again
        if shape[axis] < size or shape[axis] % size and not is_rows:
            raise ArgumentError(f"{what}: axis {axis} of the weight has size {shape[axis]}, which "
                                f"{size} ranks cannot share out evenly; give it a multiple of "
                                f"{size}, or leave the layer whole")


class ColwiseParallel(_ByWeights):
    """Each rank has some of the outputs of a Linear, or of the features of an Embedding.

    input_layouts: Replicate() unless Shard(-1) is given, or Shard(1) for a Linear of which each
    rank has a part of the sequences (batch, length, features), which it joins; output_layouts:
    Shard(-1) unless Replicate() is given, which gathers. use_local_output=False: it gives a
    DTensor.
    """

    _linear, _embedding = ColwiseLinear, ColwiseEmbedding
    _axes, _embedding_axis = {"weight": 0, "bias": 0}, 1
    _of_sequences = "input_layouts"

    def _usual(self, kind: type[Module]) -> tuple[Placement, Placement]:
        return Replicate(), Shard(LAST)


class RowwiseParallel(_ByWeights):
    """Each rank has some of the inputs of a Linear, or of the rows of an Embedding (its
    vocabulary), and the ranks sum what they make of them.

    input_layouts: Shard(-1) for a Linear, unless Replicate() is given; output_layouts: Replicate()
    unless Shard(-1) is given, of which each rank gets its part, or Shard(1), of which it gets its
    part of the sequences (batch, length, features).
    """

    _linear, _embedding = RowwiseLinear, RowwiseEmbedding
    _axes, _embedding_axis = {"weight": 1}, 0
    _of_sequences = "output_layouts"

    def _usual(self, kind: type[Module]) -> tuple[Placement, Placement]:
        return Replicate() if issubclass(kind, Embedding) else Shard(LAST), Replicate()


class SequenceParallel(ParallelStyle):
    """Each rank computes some positions of sequences, which come in parts and go out so: of a
    layer that computes each by itself, as LayerNorm, RMSNorm and Dropout do.

    Its parameters stay whole, and their gradients are sums over all positions. sequence_dim: the
    axis of positions, for who reads the plan. use_local_output: tensors are this rank's own either
    way. Dropout's masks are alike on ranks that have the same seed.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_dim, self.use_local_output = sequence_dim, use_local_output

    def apply(self, module: Module, name: str, mesh: DeviceMesh) -> None:
        """See ParallelStyle."""
        what = f"SequenceParallel of {name or 'the module'}, {module!r:.80},"
        if isinstance(module, OfSequences) or any(isinstance(p, PartialParameter)
                                                  for p in module.parameters()):
            raise ArgumentError(f"{what}: it is shared out already")
        _take_and_give(module, mesh, Shard(self.sequence_dim), None)
        kind = type(module)
        module.__class__ = type(kind.__name__, (OfSequences, kind),
                                {"_group": mesh.get_group(), "__module__": kind.__module__})

    def __repr__(self) -> str:
        return f"SequenceParallel(sequence_dim={self.sequence_dim})"
