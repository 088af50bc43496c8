"""Views as copies, under PyTorch's names: `lt.expand_copy(x, ..)` is a tensor of its own with what
x.expand(..) shows. And what is written where a view would show it, in a copy."""
from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.forms import made_of_others
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ShapeError

F = TypeVar("F", bound=Callable[..., Any])


def _copying(view: F) -> F:
    """The function that gives copies of the views that a method gives."""
    @wraps(view)
    def copied(*args: Any, **kwargs: Any) -> Any:
        found = view(*args, **kwargs)
        return found.clone() if isinstance(found, Tensor) else tuple(x.clone() for x in found)
    name = f"{view.__name__}_copy"
    copied.__name__ = copied.__qualname__ = name
    copied.__module__ = __name__
    copied.__doc__ = f"{view.__name__}(), as a copy."
    return cast(F, takes_tensors(made_of_others(copied)))


as_strided_copy, diagonal_copy = _copying(Tensor.as_strided), _copying(Tensor.diagonal)
detach_copy, expand_copy = _copying(Tensor.detach), _copying(Tensor.expand)
narrow_copy, permute_copy = _copying(Tensor.narrow), _copying(Tensor.permute)
select_copy, split_copy = _copying(Tensor.select), _copying(Tensor.split)
split_with_sizes_copy = _copying(Tensor.split_with_sizes)
squeeze_copy, t_copy = _copying(Tensor.squeeze), _copying(Tensor.t)
transpose_copy, unbind_copy = _copying(Tensor.transpose), _copying(Tensor.unbind)
unfold_copy, unsqueeze_copy = _copying(Tensor.unfold), _copying(Tensor.unsqueeze)
view_copy = _copying(Tensor.view)


@takes_tensors
@made_of_others
def alias_copy(input: Tensor) -> Tensor:
    """A copy."""
    return input.clone()


@takes_tensors
def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any,
                       storage_offset: int | None = None) -> Tensor:
    """A copy, with what as_strided(size, stride, storage_offset) would show taken from `src`."""
    result = input.clone()
    shown = result.as_strided(size, stride, 0 if storage_offset is None else storage_offset)
    if shown.shape != src.shape:
        raise ShapeError(f"as_strided_scatter: src of shape {src.shape}; it must be {shown.shape}")
    shown.copy_(src)
    return result
