"""`lt.autograd.functional`: products and matrices of derivatives at a point, under PyTorch's names.

`func` takes tensors and gives one or a tuple; `inputs` is a tensor or a tuple. Results are nested
as PyTorch's. They are made of the transforms of `lt.func`: one walk, with no loop over rows,
whatever `vectorize` and `strategy` say. create_graph: results can be differentiated again; else
they are detached. strict: GradientError for an output that depends on no input, or an input that
an output does not depend on; else derivatives are zeros there.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyten import func as transforms
from lazyten.autograd import grad
from lazyten.frontend.functions import ones_like
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ArgumentError, DTypeError, GradientError, ShapeError
from lazyten.support.grad_mode import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Given = Tensor | tuple[Tensor, ...]
Function = Callable[..., Any]
STRATEGIES = ("forward-mode", "reverse-mode")


def vjp(func: Function, inputs: Given, v: Given | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """(outputs, sums over the outputs of v * d output / d input); v is as the outputs, and may be
    left out for one number."""
    at = _tensors("vjp", inputs, "inputs")
    _check(strict, func, at, "vjp")
    outputs, pull = transforms.vjp(func, *at)
    weights = _vector("vjp", v, _tensors("vjp", outputs, "outputs of the function"))
    products = pull(weights if isinstance(outputs, tuple) else weights[0])
    return _two((outputs, _as_given(products, inputs)), create_graph)


def jvp(func: Function, inputs: Given, v: Given | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """(outputs, sums over the inputs of d output / d input * v); v is as the inputs, and may be
    left out for one number."""
    at = _tensors("jvp", inputs, "inputs")
    _check(strict, func, at, "jvp")
    return _two(transforms.jvp(func, at, _vector("jvp", v, at)), create_graph)


def jacobian(func: Function, inputs: Given, create_graph: bool = False, strict: bool = False,
             vectorize: bool = False, strategy: str = "reverse-mode") -> Any:
    """For an output of shape s and an input of shape t a tensor of shape s + t: for tuples of
    outputs a tuple, and for tuples of inputs one in it."""
    at = _tensors("jacobian", inputs, "inputs")
    _check(strict, func, at, "jacobian")
    chosen = tuple(range(len(at))) if isinstance(inputs, tuple) else 0
    return _kept(_by(strategy, "jacobian")(func, chosen)(*at), create_graph)


def hessian(func: Function, inputs: Given, create_graph: bool = False, strict: bool = False,
            vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode") -> Any:
    """The second derivatives of one number: for inputs of shapes s and t a tensor of shape s + t,
    for tuples of inputs a tuple of tuples."""
    at = _tensors("hessian", inputs, "inputs")
    number = _of_one_number("hessian", func)
    _check(strict, number, at, "hessian")
    chosen = tuple(range(len(at))) if isinstance(inputs, tuple) else 0
    rows = transforms.jacrev(number, chosen)
    if strict:
        _check(True, transforms.grad(number, tuple(range(len(at)))), at, "hessian")
    return _kept(_by(outer_jacobian_strategy, "hessian")(rows, chosen)(*at), create_graph)


def hvp(func: Function, inputs: Given, v: Given | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """(output, the matrix of second derivatives of one number times v), by forward mode over
    reverse mode."""
    at, gradient, output = _of_second_order("hvp", func, inputs, strict)
    _, product = transforms.jvp(gradient, at, _vector("hvp", v, at))
    return _two((output, _as_given(product, inputs)), create_graph)


def vhp(func: Function, inputs: Given, v: Given | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:
    """(output, v times the matrix of second derivatives of one number), by reverse mode twice."""
    at, gradient, output = _of_second_order("vhp", func, inputs, strict)
    _, pull = transforms.vjp(gradient, *at)
    return _two((output, _as_given(pull(_vector("vhp", v, at)), inputs)), create_graph)


def _of_second_order(operation: str, func: Function, inputs: Given,
                     strict: bool) -> tuple[tuple[Tensor, ...], Function, Tensor]:
    """The inputs, the gradient for each of them as a function, and the function's value."""
    at = _tensors(operation, inputs, "inputs")
    number = _of_one_number(operation, func)
    _check(strict, number, at, operation)
    gradient = transforms.grad(number, tuple(range(len(at))))
    if strict:
        _check(True, gradient, at, operation)
    with enable_grad():
        return at, gradient, func(*at)


def _tensors(operation: str, given: Any, what: str) -> tuple[Tensor, ...]:
    found = given if isinstance(given, tuple) else (given,)
    for t in found:
        if not isinstance(t, Tensor):
            raise DTypeError(f"{operation}: {what} hold {type(t).__name__} {t!r:.40}; they must be "
                             f"a tensor or a tuple of tensors")
    return found


def _vector(operation: str, v: Any, like: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """What is multiplied with: as `like`, 1 where that is one number and nothing is given."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise ArgumentError(f"{operation}: v may be left out only for one number; here it has "
                                f"the shapes {[tuple(t.shape) for t in like]}")
        return (ones_like(like[0]),)
    given = _tensors(operation, v, "v")
    shapes = [[tuple(t.shape) for t in side] for side in (given, like)]
    if shapes[0] != shapes[1]:
        raise ShapeError(f"{operation}: v has shapes {shapes[0]}; they must be {shapes[1]}")
    return given


def _by(strategy: str, operation: str) -> Callable[..., Function]:
    if strategy not in STRATEGIES:
        raise ArgumentError(f"{operation}: strategy {strategy!r} is not one of {STRATEGIES}")
    return transforms.jacfwd if strategy == "forward-mode" else transforms.jacrev


def _of_one_number(operation: str, func: Function) -> Function:
    """The function with its one element as a tensor of no axes."""
    def number(*inputs: Tensor) -> Tensor:
        output = func(*inputs)
        if not isinstance(output, Tensor):
            raise DTypeError(f"{operation}: the function gives {type(output).__name__}; it must "
                             f"give one tensor of one element")
        if output.numel() != 1:
            raise ShapeError(f"{operation}: the function gives a tensor of shape {output.shape}; "
                             f"it must have one element")
        return output.reshape(())
    return number


def _check(strict: bool, func: Function, at: tuple[Tensor, ...], operation: str) -> None:
    """GradientError if an output does not depend on an input, where that is asked for."""
    if not strict:
        return
    with enable_grad():
        leaves = [t.detach().requires_grad_() for t in at]
        outputs = _tensors(operation, func(*leaves), "outputs of the function")
        for number, output in enumerate(outputs):
            known = grad(output.sum(), leaves, allow_unused=True) if output.requires_grad else \
                [None] * len(leaves)
            for place, part in enumerate(known):
                if part is None:
                    raise GradientError(f"{operation}: output {number} does not depend on input "
                                        f"{place}, and strict=True; strict=False gives zeros")


def _as_given(found: tuple[Tensor, ...], inputs: Given) -> Given:
    return found if isinstance(inputs, tuple) else found[0]


def _two(results: tuple[Any, ...], create_graph: bool) -> tuple[Any, Any]:
    first, second = _kept(results, create_graph)
    return first, second


def _kept(results: Any, create_graph: bool) -> Any:
    """The results, without their graphs unless these are wanted."""
    if create_graph:
        return results
    if isinstance(results, tuple):
        return tuple(_kept(r, False) for r in results)
    return results.detach()
