"""Programs of CUDA text that run on the CPU."""
from __future__ import annotations

from typing import Any

import cuda_on_cpu
import numpy as np
import pytest

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def driver() -> Any:
    """The driver for tests, started."""
    cuda_on_cpu.driver()
    from lazyten.runtimes.cuda import driver as cuda_driver

    cuda_driver.start()
    return cuda_driver


class Program:
    """A program on the device, by its only kernel."""

    def __init__(self, driver: Any, source: str, name: str) -> None:
        self.driver, self.context = driver, driver.Context(0)
        self.module = self.context.load(cuda_on_cpu.shared_library(source))
        self.function = self.context.function(self.module, name)

    def __call__(self, output: Array, inputs: list[Array], block: int, grid: int = 1) -> Array:
        context = self.context
        addresses = [context.allocate(max(a.nbytes, 1)) for a in (output, *inputs)]
        for address, array in zip(addresses[1:], inputs, strict=True):
            context.copy_in(address, array.ctypes.data, array.nbytes)
        context.launch(self.driver.KernelLaunch(self.function, (grid, 1, 1), (block, 1, 1),
                                                addresses))
        context.copy_out(output.ctypes.data, addresses[0], output.nbytes)
        context.synchronize()
        for address in addresses:
            context.release(address)
        return output


def results(program: Program, output: Array, inputs: list[Array], block: int,
            grid: int = 1) -> list[Array]:
    """What a program gives in each order of its threads."""
    found = []
    for order in cuda_on_cpu.ORDERS:
        cuda_on_cpu.run_in_order(order)
        found.append(program(output.copy(), inputs, block, grid))
    return found
