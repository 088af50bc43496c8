"""Finding the operation whose gradient is the first to become NaN."""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.autodiff import gradient
from lazyten.autodiff.gradient import Step
from lazyten.execution.realization import realize
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import reductions
from lazyten.storage.placement import default_device
from lazyten.storage.storage import Storage
from lazyten.support.errors import GradientError


class set_detect_anomaly:
    """From here on, or within this block, each backward pass is computed at once, step by step, and
    a GradientError names the line of the operation whose gradient first became NaN."""

    def __init__(self, mode: bool = True, check_nan: bool = True) -> None:
        self._before = gradient.observer
        gradient.observer = _check if mode and check_nan else None

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        gradient.observer = self._before


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """set_detect_anomaly(mode, check_nan)."""
    set_detect_anomaly(mode, check_nan)


def is_anomaly_enabled() -> bool:
    """Whether backward passes look for NaN."""
    return gradient.observer is _check


is_anomaly_check_nan_enabled = is_anomaly_enabled


class detect_anomaly(set_detect_anomaly):
    """Within this block backward passes look for NaN, unless check_nan is False; see
    set_detect_anomaly."""

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__(check_nan)


def _check(steps: Sequence[Step]) -> None:
    """GradientError for the first step that gives NaN."""
    if not steps:
        return
    nodes = [part for _, _, part in steps]
    buffers = [n for n in toposort(nodes) if n.op is Op.BUFFER]
    device = buffers[0].arg.device if buffers else default_device()
    found = [Storage(_has_nan(part), device) for part in nodes]
    realize(found)
    for (node, source, _), flag in zip(steps, found, strict=True):
        if flag.read().item():
            raise GradientError(f"{gradient.operation_name(node)} gave NaN: the gradient of "
                                f"{node.dtype.name} {node.shape}, computed at {node.where}, for "
                                f"its input of shape {source.shape}; check the values there, or "
                                f"keep them away from where the derivative is infinite")


def _has_nan(x: Node) -> Node:
    return reductions.any(ew.not_equal(x, x), tuple(range(len(x.shape))))
