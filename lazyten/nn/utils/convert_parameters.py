"""Parameters as one vector, and back."""
from __future__ import annotations

from collections.abc import Iterable

from lazyten.frontend import functions
from lazyten.frontend.tensor import Tensor
from lazyten.nn.utils.clip_grad import tensors_listed
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError
from lazyten.support.grad_mode import no_grad


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of the parameters in one vector, through which gradients flow."""
    given = tensors_listed(parameters, "parameters_to_vector")
    if not given:
        raise ArgumentError("parameters_to_vector: there are no parameters; was the iterator used "
                            "up before?")
    return functions.cat([p.reshape(-1) for p in given])


@no_grad()
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of a vector to the parameters, in order and in place."""
    if not isinstance(vec, Tensor):
        raise DTypeError(f"vector_to_parameters: the vector is {type(vec).__name__} {vec!r:.40}; "
                         f"give a tensor")
    given = tensors_listed(parameters, "vector_to_parameters")
    if vec.ndim != 1 or vec.numel() < sum(p.numel() for p in given):
        raise ShapeError(f"vector_to_parameters: the vector has shape {vec.shape}, and the "
                         f"parameters {sum(p.numel() for p in given)} elements")
    start = 0
    for p in given:
        p.copy_(vec.detach()[start:start + p.numel()].reshape(p.shape))
        start += p.numel()
