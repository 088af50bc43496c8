"""Embeddings: rows of a weight by number, and numbers as rows of zeros and a one."""
from __future__ import annotations

from lazyten.frontend import functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node
from lazyten.nn.functions.distances import vector_norm
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import losses, shapes
from lazyten.support.errors import ArgumentError, ShapeError
from lazyten.support.grad_mode import no_grad


@takes_tensors
def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None,
              max_norm: float | None = None, norm_type: float = 2.0,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """weight[input]: a row of `weight` (rows, features) for each integer.

    padding_idx: a row that gets no gradient. max_norm: rows that are looked up are first scaled
    down to this `norm_type`-norm, in the weight itself. scale_grad_by_freq: a row's gradient is
    divided by how often `input` has it.
    """
    if weight.ndim != 2:
        raise ShapeError(f"embedding: the weight has shape {weight.shape}; it needs (rows, "
                         f"features)")
    if sparse:
        raise ArgumentError("embedding: sparse=True asks for a sparse gradient, and gradients are "
                            "dense; leave it out")
    if max_norm is not None:
        _renormalize(input, weight, max_norm, norm_type)
    rows: Tensor = weight[input]
    if scale_grad_by_freq:
        ones = functions.ones(input.numel(), dtype=weight.dtype, device=weight.device)
        counts = functions.zeros(weight.shape[0], dtype=weight.dtype, device=weight.device)
        counts = counts.index_add(0, input.reshape(-1), ones)[input].unsqueeze(-1)
        rows = Tensor._result(ew.with_gradient(rows.node, (rows.node, counts.node), _over_counts),
                              rows)
    if padding_idx is None:
        return rows
    padding = shapes.as_int(padding_idx, "embedding", "padding_idx")
    if not -weight.shape[0] <= padding < weight.shape[0]:
        raise ArgumentError(f"embedding: padding_idx={padding} is outside the {weight.shape[0]} "
                            f"rows of the weight")
    is_padding = (input % weight.shape[0] == padding % weight.shape[0]).unsqueeze(-1)
    held: Tensor = functions.where(is_padding, rows.detach(), rows)
    return held


def _over_counts(g: Node, node: Node) -> tuple[Node, None]:
    return ew.true_divide(g, node.src[2]), None


def _renormalize(input: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Rows of the weight that `input` names, scaled in place to a norm of `max_norm` at most."""
    most = shapes.as_number(max_norm, "embedding", "max_norm")
    with no_grad():
        places = input.reshape(-1)
        rows = weight.detach()[places]
        size = vector_norm(rows, norm_type, 1, "embedding")
        weight[places] = functions.where(size > most, rows * (most / (size + 1e-7)), rows)


@takes_tensors
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 (.., num_classes): 1 at each label, 0 elsewhere. A label outside is an IndexError once
    it is computed. -1 counts the classes: one more than the greatest label, read for it."""
    classes = shapes.as_int(num_classes, "one_hot", "num_classes")
    if classes == -1:
        if not tensor.numel():
            raise ArgumentError(f"one_hot of shape {tensor.shape}: there are no labels to count "
                                f"classes of; give num_classes")
        classes = int(tensor.max().item()) + 1
    shapes.countable((*tensor.shape, max(classes, 1)), "one_hot")
    return tensor._unary(lambda x: losses.one_hot(x, classes))
