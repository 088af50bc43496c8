"""`lazyten.nn.grad`: the gradients of convolutions as functions, under PyTorch's names.

Each is what backward() would give a convolution's input, or its weight, for a gradient of the
result; the other operand is given, and its shape alone of the one that is asked for. Gradients
flow through them.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyten.autograd import grad
from lazyten.frontend.functions import zeros
from lazyten.frontend.tensor import Tensor
from lazyten.nn import functional as F
from lazyten.support.grad_mode import enable_grad, is_grad_enabled


def _pulled_back(given: Tensor, shape: Sequence[int], convolved: Callable[[Tensor], Tensor],
                 grad_output: Tensor) -> Tensor:
    """What flows to the operand of this shape; that of a linear function is the same everywhere."""
    flows = is_grad_enabled() and (given.requires_grad or grad_output.requires_grad)
    with enable_grad():
        operand = zeros(tuple(shape), dtype=given.dtype, device=given.device, requires_grad=True)
        (found,) = grad(convolved(operand), operand, grad_output, create_graph=flows)
    assert found is not None  # what is convolved depends on both
    return found


def _input_gradient(convolution: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def input_gradient(input_size: Sequence[int], weight: Tensor, grad_output: Tensor,
                       stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                       groups: int = 1) -> Tensor:
        return _pulled_back(weight, input_size, lambda x: convolution(
            x, weight, None, stride, padding, dilation, groups), grad_output)
    name = f"{convolution.__name__}_input"
    input_gradient.__name__ = input_gradient.__qualname__ = name
    input_gradient.__doc__ = f"The gradient of {convolution.__name__} for an input of a shape."
    return input_gradient


def _weight_gradient(convolution: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def weight_gradient(input: Tensor, weight_size: Sequence[int], grad_output: Tensor,
                        stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                        groups: int = 1) -> Tensor:
        return _pulled_back(input, weight_size, lambda w: convolution(
            input, w, None, stride, padding, dilation, groups), grad_output)
    name = f"{convolution.__name__}_weight"
    weight_gradient.__name__ = weight_gradient.__qualname__ = name
    weight_gradient.__doc__ = f"The gradient of {convolution.__name__} for a weight of a shape."
    return weight_gradient


conv1d_input, conv1d_weight = _input_gradient(F.conv1d), _weight_gradient(F.conv1d)
conv2d_input, conv2d_weight = _input_gradient(F.conv2d), _weight_gradient(F.conv2d)
conv3d_input, conv3d_weight = _input_gradient(F.conv3d), _weight_gradient(F.conv3d)
