"""Groups of tensors that are alike, for optimizers that update many at once."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyten.support.errors import ArgumentError

Groups = dict[tuple[Any, Any], tuple[list[list[Any]], list[int]]]


def _group_tensors_by_device_and_dtype(tensorlistlist: Sequence[Sequence[Any]],
                                       with_indices: bool = False) -> Groups:
    """The places at which the first list has tensors of one device and dtype: what each list has
    there, and, with_indices, their numbers. ArgumentError for lists of different lengths."""
    if not tensorlistlist or len({len(row) for row in tensorlistlist}) != 1:
        raise ArgumentError(f"groups of tensors: lists of {[len(r) for r in tensorlistlist]} "
                            f"tensors; give one or more of equal length")
    found: Groups = {}
    for number, first in enumerate(tensorlistlist[0]):
        rows, numbers = found.setdefault((first.device, first.dtype),
                                         ([[] for _ in tensorlistlist], []))
        for row, tensors in zip(rows, tensorlistlist, strict=True):
            row.append(tensors[number])
        if with_indices:
            numbers.append(number)
    return found


def _get_foreach_kernels_supported_devices() -> list[str]:
    """None: what is written as a loop is fused, too."""
    return []


_get_fused_kernels_supported_devices = _get_foreach_kernels_supported_devices


def _has_foreach_support(tensors: Sequence[Any], device: Any) -> bool:
    """False: a loop over the tensors does as well."""
    return False


def _device_has_foreach_support(device: Any) -> bool:
    """False: a loop over the tensors does as well."""
    return False
