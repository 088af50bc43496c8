"""Affine maps of tensors, which `lazyten.nn.functional` offers."""
from __future__ import annotations

from lazyten.frontend import functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.mixed_precision import LOW, casting
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import DTypeError, ShapeError


@takes_tensors
@casting(LOW)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input (.., in) times weight (out, in) transposed, plus bias (out,), or one number for all:
    (.., out). With a weight (in,), and a bias (), it is (..)."""
    if weight.ndim not in (1, 2):
        raise ShapeError(f"linear: the weight has shape {weight.shape}; it needs (out, in), or "
                         f"(in,)")
    if not input.shape or input.shape[-1] != weight.shape[-1]:
        raise ShapeError(f"linear: input {input.shape} and weight {weight.shape}: the input's last "
                         f"axis must be {weight.shape[-1]}, the weight's axis {weight.ndim - 1}")
    outputs = weight.shape[:-1]
    if bias is not None and bias.shape not in (outputs, (), (1,) * len(outputs)):
        raise ShapeError(f"linear: the bias has shape {bias.shape}; it needs {outputs}")
    if input.dtype is not weight.dtype:
        raise DTypeError(f"linear: the input is {input.dtype.name} and the weight "
                         f"{weight.dtype.name}; convert one, for example with "
                         f"input.to(lazyten.{weight.dtype.name})")
    product = input @ (weight.T if outputs else weight)
    return product if bias is None else product + bias


@takes_tensors
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """sum over i and j of input1 (.., m)[i] * weight (out, m, n)[k, i, j] * input2 (.., n)[j], plus
    bias (out,): (.., out)."""
    if weight.ndim != 3:
        raise ShapeError(f"bilinear: the weight has shape {weight.shape}; it needs (out, in1, in2)")
    ends = [x.shape[-1] if x.ndim else None for x in (input1, input2)]
    if input1.shape[:-1] != input2.shape[:-1] or ends != list(weight.shape[1:]):
        raise ShapeError(f"bilinear: inputs {input1.shape} and {input2.shape} and weight "
                         f"{weight.shape}: the last axes must be {weight.shape[1]} and "
                         f"{weight.shape[2]}, and the others equal")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(f"bilinear: the bias has shape {bias.shape}; it needs {weight.shape[:1]}")
    result = functions.einsum("...i,kij,...j->...k", input1, weight, input2)
    return result if bias is None else result + bias
