"""A batch normalization in use, made part of the layer before it."""
from __future__ import annotations

import copy
from typing import TypeVar

from lazyten.frontend import functions
from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.nn.modules.batchnorm import _BatchNorm
from lazyten.nn.modules.conv import _ConvNd
from lazyten.nn.modules.linear import Linear
from lazyten.nn.parameter import Parameter
from lazyten.support.errors import ArgumentError, DTypeError
from lazyten.support.grad_mode import no_grad

C = TypeVar("C", bound=_ConvNd)
L = TypeVar("L", bound=Linear)


@no_grad()
def _fused(weight: Tensor, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float,
           scale: Tensor | None, shift: Tensor | None, axis: int) -> tuple[Parameter, Parameter]:
    """Weight and bias of the layer that does what both do; axis: that of the outputs."""
    factor = (var + eps).rsqrt() if scale is None else scale * (var + eps).rsqrt()
    before = functions.zeros_like(mean) if bias is None else bias
    moved = (before - mean) * factor
    along = factor.reshape([-1 if a == axis else 1 for a in range(weight.ndim)])
    return (Parameter((weight * along).to(dtype=weight.dtype), weight.requires_grad),
            Parameter((moved if shift is None else moved + shift).to(dtype=before.dtype),
                      before.requires_grad))


def fuse_conv_bn_weights(conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor,
                         bn_eps: float, bn_w: Tensor | None, bn_b: Tensor | None,
                         transpose: bool = False) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution with what a batch normalization does after it."""
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, int(transpose))


def fuse_linear_bn_weights(linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor,
                           bn_eps: float, bn_w: Tensor | None, bn_b: Tensor | None
                           ) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer with what a batch normalization does after it."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def fuse_conv_bn_eval(conv: C, bn: _BatchNorm, transpose: bool = False) -> C:
    """A copy of a convolution (`transpose`: a transposed one) that does what both do in use."""
    mean, var = _statistics(conv, bn, "fuse_conv_bn_eval")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, mean, var, bn.eps, bn.weight, bn.bias, transpose)
    return fused


def fuse_linear_bn_eval(linear: L, bn: _BatchNorm) -> L:
    """A copy of a linear layer that does what both do in use."""
    mean, var = _statistics(linear, bn, "fuse_linear_bn_eval")
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise ArgumentError(f"fuse_linear_bn_eval: out_features={linear.out_features} and "
                            f"num_features={bn.num_features} must be equal")
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, mean, var, bn.eps, bn.weight, bn.bias)
    return fused


def _statistics(layer: Module, bn: _BatchNorm, name: str) -> tuple[Tensor, Tensor]:
    if not (isinstance(layer, Module) and isinstance(bn, _BatchNorm)):
        raise DTypeError(f"{name} of {type(layer).__name__} and {type(bn).__name__}: give a layer, "
                         f"and the batch normalization that comes after it")
    if layer.training or bn.training:
        raise ArgumentError(f"{name}: both layers must be in use; call eval() of them")
    if bn.running_mean is None or bn.running_var is None:
        raise ArgumentError(f"{name}: the batch normalization has no running statistics; it is by "
                            f"its batch also in use, and cannot be part of another layer")
    return bn.running_mean, bn.running_var
