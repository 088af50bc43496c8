"""`lt.distributed.tensor.parallel`: layers that ranks share out, under PyTorch's names.

In: a module that all ranks have, and a plan: a style for each layer. Out: the module, with a part
of these layers' parameters. Not here: ranks that share out batches (nn/parallel/).

Files, in reading order:

- layouts.py: Between values that all ranks have whole and those of which each has a part or a
  summand.
- layers.py: Layers of which each rank has a part: what nn.Linear and nn.Embedding become.
- wholes.py: Between the whole of a DTensor and the part that a rank stores.
- dtensor.py: `DTensor`: a tensor of which each rank of a mesh stores a part, and that operations
  take whole.
- distributing.py: `distribute_module`, and tensors that are made in parts.
- styles.py: `ColwiseParallel`, `RowwiseParallel` and `SequenceParallel`: which part of a layer each
  rank has, or of sequences, and how what comes in and goes out lies on them.
- preparing.py: `PrepareModuleInput` and `PrepareModuleOutput`: what comes into a module or goes out
  is laid out in another way first.

All ranks of the group have the same batch, and compute the same loss, so gradients are those of
that loss, and each rank's own: nothing is to be averaged. Ranks that share out batches besides are
another axis of a mesh of two.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from fnmatch import fnmatchcase

from lazyten.distributed.device_mesh import DeviceMesh
from lazyten.distributed.in_place import become_as
from lazyten.distributed.tensor.parallel.dtensor import implicit_replication
from lazyten.distributed.tensor.parallel.preparing import PrepareModuleInput as PrepareModuleInput
from lazyten.distributed.tensor.parallel.preparing import PrepareModuleOutput as PrepareModuleOutput
from lazyten.distributed.tensor.parallel.styles import ColwiseParallel as ColwiseParallel
from lazyten.distributed.tensor.parallel.styles import ParallelStyle as ParallelStyle
from lazyten.distributed.tensor.parallel.styles import RowwiseParallel as RowwiseParallel
from lazyten.distributed.tensor.parallel.styles import SequenceParallel as SequenceParallel
from lazyten.nn.module import Module
from lazyten.nn.sharded_parameter import PartialParameter
from lazyten.pytorch.modules import later as _later
from lazyten.pytorch.refusals import refused
from lazyten.support.errors import ArgumentError

globals().update(refused(
    "distributed.tensor.parallel", "give a module both PrepareModuleInput and PrepareModuleOutput, "
    "one by parallelize_module of it, and one by another", "PrepareModuleInputOutput"))


def loss_parallel() -> AbstractContextManager[None]:
    """A block in which a loss may be made of logits in parts, a DTensor such as ColwiseParallel(
    use_local_output=False) gives, and of labels that all ranks have: no rank has all logits."""
    return implicit_replication()


def parallelize_module(module: Module, device_mesh: DeviceMesh | None = None,
                       parallelize_plan: ParallelStyle | Mapping[str, ParallelStyle] | None = None,
                       *, src_data_rank: int | None = 0) -> Module:
    """Have the ranks of a mesh of one axis share out layers of a module, in place; gives it.

    parallelize_plan: a style of the module itself, or styles by the names of modules in it, in
    which `*` stands for any one step: {"blocks.*.up": ColwiseParallel()}. Make the optimizer
    afterwards. src_data_rank: the rank of the group that all values begin as those of; None if they
    are the same everywhere. ArgumentError for a name that nothing has, and for a layer that cannot
    be shared out so.
    """
    if not isinstance(module, Module) or not isinstance(device_mesh, DeviceMesh):
        raise ArgumentError(f"parallelize_module of {module!r:.40} on {device_mesh!r:.40}: give a "
                            f"module, and a mesh that init_device_mesh() gave")
    if device_mesh.ndim != 1:
        raise ArgumentError(f"parallelize_module: a mesh of shape {device_mesh.shape}; give one "
                            f"axis of it, by its name: mesh['tp']")
    group = device_mesh.get_group()
    chosen = list(_chosen(module, parallelize_plan))
    if src_data_rank is not None and group.size > 1:
        become_as([t for t in (*module.parameters(), *module.buffers())
                   if not isinstance(t, PartialParameter)], group, src_data_rank)
    for name, layer, style in chosen:
        style.apply(layer, name, device_mesh)
    return module


def _chosen(module: Module, plan: ParallelStyle | Mapping[str, ParallelStyle] | None
            ) -> Iterator[tuple[str, Module, ParallelStyle]]:
    """The layers that a plan names, with their styles."""
    styles = plan if isinstance(plan, Mapping) else {} if plan is None else {"": plan}
    for pattern, style in styles.items():
        if not isinstance(style, ParallelStyle):
            raise ArgumentError(f"parallelize_module: the plan has {style!r:.60} for {pattern!r}; "
                                f"give ColwiseParallel(), RowwiseParallel(), SequenceParallel(), "
                                f"PrepareModuleInput() or PrepareModuleOutput()")
        found = [(name, layer) for name, layer in module.named_modules()
                 if _fits(name.split("."), pattern.split("."))]
        if not found:
            raise ArgumentError(f"parallelize_module: the plan names {pattern!r}, but no module of "
                                f"{type(module).__name__} is called so; named_modules() has them")
        yield from ((name, layer, style) for name, layer in found)


def _fits(name: list[str], pattern: list[str]) -> bool:
    return len(name) == len(pattern) and all(map(fnmatchcase, name, pattern))


__all__ = ["ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleOutput",
           "RowwiseParallel", "SequenceParallel", "loss_parallel", "parallelize_module"]
__getattr__ = _later("lazyten.distributed.tensor.parallel")
