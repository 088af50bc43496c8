"""How gradients are combined over ranks: `GradBucket`, and PyTorch's hooks of
DistributedDataParallel.

A hook takes a state, here the group or None, and a bucket, and gives a future of the mean. Those
that compress send 16 bits an element.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyten.distributed import in_place
from lazyten.distributed.group import Group
from lazyten.distributed.state import group_of
from lazyten.frontend.functions import cat
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.nn.parameter import Parameter
from lazyten.pytorch.futures import Future
from lazyten.support.errors import ArgumentError


class GradBucket:
    """Gradients that travel together, one behind the other in a flat tensor."""

    def __init__(self, index: int, is_last: bool, parameters: list[Parameter],
                 gradients: list[Tensor]) -> None:
        self._index, self._is_last, self._parameters = index, is_last, parameters
        self._shapes = [g.shape for g in gradients]
        self._buffer = cat([g.reshape(-1) for g in gradients])

    def index(self) -> int:
        """Its number: backward() comes to bucket 0 first."""
        return self._index

    def is_last(self) -> bool:
        """Whether it is the last of this backward pass."""
        return self._is_last

    def parameters(self) -> list[Parameter]:
        """Whose gradients these are."""
        return list(self._parameters)

    def buffer(self) -> Tensor:
        """All of them, flat."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Put another flat tensor in place of buffer()."""
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """One by one: parts of buffer()."""
        return parts_of(self._buffer, self._shapes)

    def parts(self, flat: Tensor) -> list[Tensor]:
        """What of a flat tensor belongs to each gradient."""
        return parts_of(flat, self._shapes)


Hook = Callable[[Any, GradBucket], Any]


def parts_of(flat: Tensor, shapes: list[Any]) -> list[Tensor]:
    """A flat tensor as tensors of these shapes."""
    rows = flat.split([shape.numel() for shape in shapes])
    return [row.reshape(shape) for row, shape in zip(rows, shapes, strict=True)]


def means_by(state: object, hook: Hook, bucket: GradBucket) -> list[Tensor]:
    """What a hook makes of a bucket, by gradients. ArgumentError for anything but a tensor of its
    size."""
    found = hook(state, bucket)
    given = found.wait() if isinstance(found, Future) else found
    if isinstance(given, list | tuple) and len(given) == 1:
        given, = given
    wanted = bucket.buffer().numel()
    if not isinstance(given, Tensor) or given.numel() != wanted:
        what = f"shape {given.shape}" if isinstance(given, Tensor) else f"{given!r:.60}"
        raise ArgumentError(f"the hook of register_comm_hook() has given {what} for bucket "
                            f"{bucket.index()}; it gives a future of a tensor of {wanted} elements")
    return bucket.parts(given.reshape(-1))


def allreduce_hook(process_group: Group | None, bucket: GradBucket) -> Future[Tensor]:
    """The mean, as without a hook."""
    group = group_of(process_group, "allreduce_hook")
    return _sum_of(bucket.buffer() / group.size, group)


def fp16_compress_hook(process_group: Group | None, bucket: GradBucket) -> Future[Tensor]:
    """The mean of gradients that are rounded to float16, to travel so."""
    mean: Future[Tensor] = fp16_compress_wrapper(allreduce_hook)(process_group, bucket)
    return mean


def bf16_compress_hook(process_group: Group | None, bucket: GradBucket) -> Future[Tensor]:
    """The mean of gradients that are rounded to bfloat16, to travel so."""
    mean: Future[Tensor] = bf16_compress_wrapper(allreduce_hook)(process_group, bucket)
    return mean


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook, of gradients that are rounded to float16 first."""
    return _compressed(hook, dt.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook, of gradients that are rounded to bfloat16 first."""
    return _compressed(hook, dt.bfloat16)


def _compressed(hook: Hook, narrow: DType) -> Hook:
    def narrower(state: Any, bucket: GradBucket) -> Future[Tensor]:
        wide = bucket.buffer().dtype
        bucket.set_buffer(bucket.buffer().to(dtype=narrow))
        found: Future[Any] = hook(state, bucket)
        widened: Future[Tensor] = found.then(lambda f: _only(f.value()).to(dtype=wide))
        return widened
    return narrower


def _sum_of(x: Tensor, group: Group) -> Future[Tensor]:
    in_place.all_reduce(x, group=group)
    total: Future[Tensor] = in_place.Work([x]).get_future().then(_only_of)
    return total


def _only_of(future: Future[Any]) -> Tensor:
    return _only(future.value())


def _only(given: Any) -> Tensor:
    found: Tensor = given[0] if isinstance(given, list | tuple) else given
    return found
