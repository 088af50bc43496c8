"""Functions of `lazyten` that PyTorch has beside those of nn.functional: what these call, with
arguments in an order of their own, and reductions by number.

Comes in: tensors. Goes out: tensors. Loaded when `lazyten` is asked for one of them.
"""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.frontend.tensor import Tensor
from lazyten.nn import functional as F
from lazyten.support.errors import ArgumentError

NONE = 0
"""The reduction where none is given: PyTorch's schemas say the mean, and its functions do this."""
_REDUCTIONS = ("none", "mean", "sum")


def _named(reduction: int, operation: str) -> str:
    """The name of a reduction. ArgumentError for a number that is none."""
    if reduction not in range(len(_REDUCTIONS)):
        raise ArgumentError(f"{operation}: reduction={reduction!r:.40} is not 0 (none), 1 (mean) "
                            f"or 2 (sum); names are for the function of nn.functional")
    return _REDUCTIONS[reduction]


def embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """Rows of a table by number: see nn.functional.embedding. padding_idx: -1 for none."""
    return F.embedding(indices, weight, None if padding_idx == -1 else padding_idx,
                       scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None,
               running_mean: Tensor | None, running_var: Tensor | None, training: bool,
               momentum: float, eps: float, cudnn_enabled: bool = True) -> Tensor:
    """See nn.functional.batch_norm. cudnn_enabled changes nothing."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None,
                  running_mean: Tensor | None, running_var: Tensor | None, use_input_stats: bool,
                  momentum: float, eps: float, cudnn_enabled: bool = True) -> Tensor:
    """See nn.functional.instance_norm. cudnn_enabled changes nothing."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats,
                           momentum, eps)


def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int],
                padding: Sequence[int], dilation: Sequence[int], transposed: bool,
                output_padding: Sequence[int], groups: int) -> Tensor:
    """A convolution, or a transposed one, over as many axes as `stride` has numbers."""
    axes = len(stride)
    if axes not in (1, 2, 3):
        raise ArgumentError(f"convolution: stride={stride!r:.60} has {axes} numbers; give one for "
                            f"each of 1 to 3 spatial axes")
    steps = tuple(stride), tuple(padding)
    if transposed:
        function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[axes - 1]
        return function(input, weight, bias, *steps, tuple(output_padding), groups,
                        tuple(dilation))
    plain = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    return plain(input, weight, bias, *steps, tuple(dilation), groups)


def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int]) -> tuple[Tensor, Tensor]:
    """The greatest values, and their places: see nn.functional.adaptive_max_pool1d."""
    values, places = F.adaptive_max_pool1d_with_indices(input, output_size)
    return values, places


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                     pos_weight: Tensor | None = None, reduction: int = NONE
                                     ) -> Tensor:
    """See nn.functional.binary_cross_entropy_with_logits."""
    return F.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight=pos_weight,
        reduction=_named(reduction, "binary_cross_entropy_with_logits"))


def kl_div(input: Tensor, target: Tensor, reduction: int = NONE, *, log_target: bool = False
           ) -> Tensor:
    """See nn.functional.kl_div."""
    return F.kl_div(input, target, reduction=_named(reduction, "kl_div"), log_target=log_target)


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float,
                     reduction: int) -> Tensor:
    """See nn.functional.poisson_nll_loss."""
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps,
                              reduction=_named(reduction, "poisson_nll_loss"))


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0,
                          reduction: int = NONE) -> Tensor:
    """See nn.functional.cosine_embedding_loss."""
    return F.cosine_embedding_loss(input1, input2, target, margin,
                                   reduction=_named(reduction, "cosine_embedding_loss"))


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = NONE
                         ) -> Tensor:
    """See nn.functional.hinge_embedding_loss."""
    return F.hinge_embedding_loss(input, target, margin,
                                  reduction=_named(reduction, "hinge_embedding_loss"))


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0,
                        reduction: int = NONE) -> Tensor:
    """See nn.functional.margin_ranking_loss."""
    return F.margin_ranking_loss(input1, input2, target, margin,
                                 reduction=_named(reduction, "margin_ranking_loss"))


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0,
                        p: float = 2.0, eps: float = 1e-6, swap: bool = False,
                        reduction: int = NONE) -> Tensor:
    """See nn.functional.triplet_margin_loss."""
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap,
                                 reduction=_named(reduction, "triplet_margin_loss"))


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[int],
             target_lengths: Tensor | Sequence[int], blank: int = 0, reduction: int = NONE,
             zero_infinity: bool = False) -> Tensor:
    """See nn.functional.ctc_loss."""
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank,
                      _named(reduction, "ctc_loss"), zero_infinity)
