"""`distribute_module`: a module whose parameters and buffers are DTensors; and DTensors that are
made in parts, such as `zeros`."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyten.distributed.device_mesh import DeviceMesh
from lazyten.distributed.tensor.parallel.dtensor import DTensor, distribute_tensor
from lazyten.distributed.tensor.placements import Placement
from lazyten.frontend import functions, random_functions
from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.nn.parameter import Parameter
from lazyten.support.errors import ArgumentError

Changed = Callable[[Module, Any, DeviceMesh], Any]


def distribute_module(module: Module, device_mesh: DeviceMesh | None = None,
                      partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
                      input_fn: Changed | None = None, output_fn: Changed | None = None) -> Module:
    """Have a module's parameters and buffers be DTensors on a mesh, in place; gives it.

    partition_fn(name, module, mesh) is called for each module in it, and registers parameters that
    it shares out, Parameter(distribute_tensor(p, mesh, [Shard(0)])); all others are whole on each
    rank. input_fn(module, inputs, mesh) gives the inputs of forward() anew, output_fn(module,
    output, mesh) what it gives. Make the optimizer afterwards.
    """
    if not isinstance(module, Module) or not isinstance(device_mesh, DeviceMesh):
        raise ArgumentError(f"distribute_module of {module!r:.40} on {device_mesh!r:.40}: give a "
                            f"module, and a mesh that init_device_mesh() gave")
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, device_mesh)
        for own, p in list(part._parameters.items()):
            if p is not None and not isinstance(p, DTensor):
                made = Parameter(distribute_tensor(p.detach(), device_mesh), p.requires_grad)
                part._parameters[own] = made
        for own, buffer in list(part._buffers.items()):
            if buffer is not None and not isinstance(buffer, DTensor):
                part._buffers[own] = distribute_tensor(buffer, device_mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, args: input_fn(m, args, device_mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, args, output: output_fn(m, output, device_mesh))
    return module


def _made(function: Callable[..., Tensor]) -> Callable[..., DTensor]:
    def made(*size: Any, device_mesh: DeviceMesh | None = None,
             placements: Sequence[Placement] | None = None, **options: Any) -> DTensor:
        whole = function(*size, **{name: value for name, value in options.items()
                                   if name != "layout"})
        if device_mesh is None:
            raise ArgumentError(f"distributed.tensor.{function.__name__}: device_mesh is left out; "
                                f"give what init_device_mesh() gave")
        return distribute_tensor(whole, device_mesh, placements, src_data_rank=None)
    made.__name__ = function.__name__
    made.__doc__ = f"{function.__name__}() of these sizes, of which each rank stores its part."
    return made


zeros, ones = _made(functions.zeros), _made(functions.ones)
empty, full = _made(functions.empty), _made(functions.full)
rand, randn = _made(random_functions.rand), _made(random_functions.randn)
