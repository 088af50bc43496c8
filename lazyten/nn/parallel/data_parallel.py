"""`DataParallel`, for programs that make it of one device."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyten.nn.module import Module
from lazyten.pytorch.refusals import refused
from lazyten.support.errors import DeviceError

parts = refused(
    "nn.parallel", "a module is on one device, and its batch is not shared out; processes share it "
    "by lazyten.nn.parallel.DistributedDataParallel (docs/distributed.md)",
    "gather", "parallel_apply", "replicate", "scatter", "scatter_kwargs")
"""What PyTorch's DataParallel is made of."""


class DataParallel(Module):
    """A module in another, as programs for several GPUs have it: names in its state begin with
    `module.`. It does what the module does; a batch is not shared out."""

    def __init__(self, module: Module, device_ids: Sequence[Any] | None = None,
                 output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise DeviceError(f"DataParallel: device_ids {list(device_ids)} are several, and a "
                              f"module is on one device; leave them out")
        self.module = module
        self.device_ids = list(device_ids or [])
        self.output_device, self.dim = output_device, dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(module: Module, inputs: Any, device_ids: Sequence[Any] | None = None,
                  output_device: Any = None, dim: int = 0,
                  module_kwargs: dict[str, Any] | None = None) -> Any:
    """module(*inputs, **module_kwargs), as DataParallel does it; inputs: a tuple, or the only one.
    DeviceError for several devices."""
    given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*given, **(module_kwargs or {}))
