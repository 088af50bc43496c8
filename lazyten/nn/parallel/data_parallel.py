"""`DataParallel`, for programs that make it of one device."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyten.nn.module import Module
from lazyten.support.errors import DeviceError


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
