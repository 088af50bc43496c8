"""`set_float32_matmul_precision`: whether products of float32 may round their factors to tf32.

A setting of the whole process, with PyTorch's names. realization.py asks for it when it has kernels
compiled (`Kernel.tf32`), jitted.py because a captured call keeps the kernels it was made with.
"""
from __future__ import annotations

from lazyten.support.errors import ArgumentError

PRECISIONS = ("highest", "high", "medium")

_chosen = PRECISIONS[0]


def set_float32_matmul_precision(precision: str) -> None:
    """How exact sums of products of float32 are, from here on and in all threads: those of matmul,
    einsum, linear and convolutions, whatever they are written with.

    'highest', the default: factors keep their 24 bits. 'high' and 'medium', which are the same
    here: devices with instructions for it (NVIDIA's GPUs from sm_80 on) may round factors to the 11
    bits of tf32; they add up in float32. Other devices compute as before.

    ArgumentError for another name.
    """
    global _chosen
    if precision not in PRECISIONS:
        raise ArgumentError(f"set_float32_matmul_precision: there is no precision {precision!r}; "
                            f"use one of {', '.join(map(repr, PRECISIONS))}")
    _chosen = precision


def get_float32_matmul_precision() -> str:
    """The precision that was set, 'highest' if none was."""
    return _chosen


def allows_tf32() -> bool:
    """Whether factors of float32 may be rounded to tf32."""
    return _chosen != PRECISIONS[0]
