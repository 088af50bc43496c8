"""Options that many functions share: `inplace`, and `reduction` with its two older words."""
from __future__ import annotations

from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import losses
from lazyten.support.errors import ArgumentError


def placed(input: Tensor, result: Tensor, inplace: bool) -> Tensor:
    """The result; `inplace`: written to `input`, which is given back."""
    return input.copy_(result) if inplace else result


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """`reduction`, or what PyTorch's older words for it say where one of them is given."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def legacy_get_string(size_average: bool | None, reduce: bool | None,
                      emit_warning: bool = True) -> str:
    """The reduction that PyTorch's older words mean: 'mean' where none is given."""
    return reduction_of(size_average, reduce, "mean")


def get_enum(reduction: str) -> int:
    """PyTorch's number of a reduction. ArgumentError if there is none of this name."""
    names = ("none", "mean", "sum")
    if reduction not in names:
        raise ArgumentError(f"reduction={reduction!r} is not one of {', '.join(names)}")
    return names.index(reduction)


def check_floats(operation: str, *given: Tensor) -> None:
    """DTypeError where what is made of these would be integers."""
    losses.check_float(ew.result_type([x.node for x in given], operation), operation)


def reduced(loss: Tensor, reduction: str, operation: str) -> Tensor:
    """The mean, the sum, or the losses themselves."""
    return loss._unary(lambda x: losses.reduced(x, reduction, operation))
