"""What new lengths of sequences cost an LSTM: the first call of each, later ones, and how many
kernels were launched first there. `python -m benchmarks.recurrent`, with LAZYTEN_CACHE=0 for a
process that has compiled nothing before.
"""
from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import lazyten as lt
from lazyten.testing import watch_kernels

FEATURES, HIDDEN, BATCH = 32, 64, 16
LENGTHS = 5, 20, 100, 21, 99
CALLS = 9

Step = Callable[[lt.Tensor], tuple[lt.Tensor, ...]]


def programs() -> dict[str, Step]:
    """A layer forwards, and with all gradients, each eager and jitted."""
    layer = lt.nn.LSTM(FEATURES, HIDDEN)

    def forward(x: lt.Tensor) -> tuple[lt.Tensor, ...]:
        return layer(x)[0].detach(),

    def gradients(x: lt.Tensor) -> tuple[lt.Tensor, ...]:
        loss = layer(x)[0].square().mean()
        return loss.detach(), *lt.autograd.grad(loss, list(layer.parameters()))
    return {"forward, eager": forward, "forward, jitted": lt.jit(forward),
            "with gradients, eager": gradients, "with gradients, jitted": lt.jit(gradients)}


def main() -> None:
    """Print a line a program and length. Each call has a new input."""
    lt.manual_seed(0)
    for name, program in programs().items():
        known: set[object] = set()
        for length in LENGTHS:
            inputs = [lt.randn(length, BATCH, FEATURES).realize() for _ in range(CALLS)]
            milliseconds = []
            with watch_kernels() as seen:
                for x in inputs:
                    start = time.perf_counter()
                    lt.realize(*program(x))
                    milliseconds.append((time.perf_counter() - start) * 1e3)
            found = {step.kernel for _, made in seen.schedules for step in made.steps}
            print(f"{name:22} {length:3} steps: first {milliseconds[0]:7.1f} ms, "
                  f"{len(found - known):2} new kernels; later {min(milliseconds[1:]):6.2f} least, "
                  f"{median(milliseconds[1:]):6.2f} median")
            known |= found


if __name__ == "__main__":
    main()
