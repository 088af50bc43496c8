"""Options that many functions share: `inplace`, and `reduction` with its two older words."""
from __future__ import annotations

from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import losses


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


def reduced(loss: Tensor, reduction: str, operation: str) -> Tensor:
    """The mean, the sum, or the losses themselves."""
    return loss._unary(lambda x: losses.reduced(x, reduction, operation))
