"""PyTorch's arguments as lazyten's, and the tensors in arguments and results."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import lazyten as lt


class Untranslatable(Exception):
    """An argument of a kind that lazyten does not have: of complex halves, or sparse."""


FORMATS = {torch.contiguous_format: lt.contiguous_format, torch.strided: lt.strided,
           torch.preserve_format: lt.preserve_format, torch.channels_last: lt.channels_last,
           torch.channels_last_3d: lt.channels_last_3d}


def translated(given: Any, leaves: list[Any]) -> Any:
    """The same argument for lazyten. leaves: gets the tensors of it that require gradients.

    (A module becomes one of its class with default options: PyTorch's samples have no others.)"""
    if isinstance(given, torch.Tensor):
        return _tensor(given, leaves)
    if isinstance(given, torch.dtype):
        return _type(given)
    if isinstance(given, torch.device) or given == "cpu":
        return lt.get_default_device()
    if isinstance(given, torch.memory_format | torch.layout):
        if given not in FORMATS:
            raise Untranslatable("sparse")
        return FORMATS[given]
    if isinstance(given, torch.Generator):
        return lt.Generator()
    if isinstance(given, torch.nn.Module):
        return getattr(lt.nn, type(given).__name__)()
    if isinstance(given, dict):
        return {name: translated(x, leaves) for name, x in given.items()}
    if isinstance(given, list | tuple):
        parts = [translated(x, leaves) for x in given]
        return parts if isinstance(given, list) else tuple(parts)
    return given


def _type(dtype: torch.dtype) -> Any:
    name = str(dtype).removeprefix("torch.")
    if dtype is torch.complex32:
        raise Untranslatable("complex")
    if not hasattr(lt, name):
        raise Untranslatable(name)
    return getattr(lt, name)


def _tensor(given: torch.Tensor, leaves: list[Any]) -> lt.Tensor:
    """A tensor with the same values, type and strides, in as much memory."""
    if given.layout is not torch.strided:
        raise Untranslatable("sparse")
    kind = _type(given.dtype)
    if given.is_complex():
        pairs = _tensor(torch.view_as_real(given.detach().resolve_conj()), [])
        made = lt.view_as_complex(pairs)
        if given.requires_grad:
            leaves.append(made.requires_grad_())
        return made
    memory = given.untyped_storage().nbytes() // given.itemsize
    made = lt.tensor(values(given)).to(kind)
    if memory != given.numel() or not given.is_contiguous() and min(given.stride(), default=0) >= 0:
        whole = given.detach().as_strided((memory,), (1,), 0)
        made = lt.tensor(values(whole)).to(kind).as_strided(
            tuple(given.shape), given.stride(), given.storage_offset())
    if given.requires_grad:
        made.requires_grad_()
        leaves.append(made)
    return made


def values(x: Any) -> np.ndarray[Any, Any]:
    """A tensor's values, of either library; those of 16-bit floats in float32."""
    x = x.detach()
    wide = x.float() if "float16" in str(x.dtype) or "float8" in str(x.dtype) else x
    found: np.ndarray[Any, Any] = wide.resolve_conj().resolve_neg().numpy(
        force=True) if isinstance(x, torch.Tensor) else wide.numpy()
    return found


def tensors(given: Any) -> Iterator[Any]:
    """The tensors in arguments or results, in order, of either library."""
    if isinstance(given, lt.Tensor | torch.Tensor):
        yield given
    elif isinstance(given, dict):
        for part in given.values():
            yield from tensors(part)
    elif isinstance(given, list | tuple):
        for part in given:
            yield from tensors(part)
