"""Affine layers, the one that changes nothing, and a softmax over many classes."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lazyten.frontend import functions
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.nn import functional as F
from lazyten.nn.containers import ModuleList, Sequential
from lazyten.nn.module import Module
from lazyten.nn.modules.base import Layer, check_counts, set_uniform
from lazyten.nn.parameter import Parameter
from lazyten.pytorch.modules import later as _later
from lazyten.support.errors import ArgumentError, ShapeError

__getattr__ = _later("lazyten.nn.modules.linear")


class Identity(Module):
    """What comes in; takes any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Layer):
    """y = x W^T + b: (.., in_features) to (.., out_features).

    weight (out_features, in_features) and bias (out_features,), if there is one, are uniform up to
    1 / sqrt(in_features) at first. ShapeError for an input whose last axis is another.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(self, in_features: int, out_features: int, bias: bool = True,
                 device: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__()
        check_counts("Linear", 0, in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        shapes = self._shapes()
        self._parameter("weight", shapes["weight"], device, dtype)
        self._parameter("bias", shapes["bias"], device, dtype, bias)
        self.reset_parameters()

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}

    def reset_parameters(self) -> None:
        """Draw weight and bias anew: uniform up to 1 / sqrt(in_features)."""
        set_uniform(self.weight, self.in_features)
        if self.bias is not None:
            set_uniform(self.bias, self.in_features)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (f"in_features={self.in_features}, out_features={self.out_features}, "
                f"bias={self.bias is not None}")


class Bilinear(Layer):
    """functional.bilinear: (.., in1_features) and (.., in2_features) to (.., out_features)."""

    weight: Parameter
    bias: Parameter | None

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True,
                 device: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__()
        check_counts("Bilinear", 1, in1_features=in1_features)
        check_counts("Bilinear", 0, in2_features=in2_features, out_features=out_features)
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        self._parameter("weight", (out_features, in1_features, in2_features), device, dtype)
        self._parameter("bias", (out_features,), device, dtype, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew: uniform up to 1 / sqrt(in1_features)."""
        set_uniform(self.weight, self.in1_features)
        if self.bias is not None:
            set_uniform(self.bias, self.in1_features)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
                f"out_features={self.out_features}, bias={self.bias is not None}")


class _ASMoutput(NamedTuple):
    """The logarithm of each target's probability, and the mean of these with the other sign."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """log softmax over many classes, of which the rare ones are in clusters (E. Grave and others,
    2017): the head has the classes before cutoffs[0] and the clusters; each tail, from cutoff to
    cutoff, has div_value times fewer features than the one before.

    Here every tail is worked out for every example: the results are those of PyTorch, which leaves
    out what no target needs.
    """

    def __init__(self, in_features: int, n_classes: int, cutoffs: Sequence[int],
                 div_value: float = 4.0, head_bias: bool = False, device: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__()
        ends = list(cutoffs)
        if not ends or ends != sorted({*ends}) or any(
                not isinstance(c, int) or not 0 < c < n_classes for c in ends):
            raise ArgumentError(f"AdaptiveLogSoftmaxWithLoss: cutoffs {ends} must be increasing "
                                f"whole numbers, above 0 and below the {n_classes} classes")
        self.in_features, self.n_classes = in_features, n_classes
        self.cutoffs, self.div_value, self.head_bias = [*ends, n_classes], div_value, head_bias
        self.shortlist_size, self.n_clusters = ends[0], len(ends)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i, (first, end) in enumerate(zip(ends, self.cutoffs[1:], strict=True)):
            inner = int(in_features // div_value ** (i + 1))
            self.tail.append(Sequential(Linear(in_features, inner, False, device, dtype),
                                        Linear(inner, end - first, False, device, dtype)))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for layer in self.modules():
            if isinstance(layer, Linear):
                layer.reset_parameters()

    def log_prob(self, input: Tensor) -> Tensor:
        """(batch, in_features) to the logarithms of the probabilities of all classes."""
        head = F.log_softmax(self.head(input), 1)
        tails = [F.log_softmax(tail(input), 1) + head[:, self.shortlist_size + i].unsqueeze(1)
                 for i, tail in enumerate(self.tail)]
        return functions.cat([head[:, :self.shortlist_size], *tails], 1)

    def predict(self, input: Tensor) -> Tensor:
        """(batch, in_features) to the most likely classes (batch,)."""
        return self.log_prob(input).argmax(1)

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        if (target_.ndim, target_.shape) not in ((0, input_.shape[:-1]), (1, input_.shape[:1])) \
                or input_.ndim != target_.ndim + 1:
            raise ShapeError(f"AdaptiveLogSoftmaxWithLoss: the input has shape {input_.shape} and "
                             f"the target {target_.shape}; they need to be (batch, in_features) "
                             f"and (batch,), or both without a batch")
        if not target_.ndim:
            output, loss = self.forward(input_.unsqueeze(0), target_.unsqueeze(0))
            return _ASMoutput(output.squeeze(0), loss)
        chosen = -F.nll_loss(self.log_prob(input_), target_, reduction="none")
        return _ASMoutput(chosen, -chosen.mean())
