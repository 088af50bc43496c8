"""Gradients compared with differences of values: tests for hand-written ones."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lazyten.autodiff import gradient as _gradient
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node
from lazyten.support.errors import ArgumentError, GradientError
from lazyten.support.grad_mode import no_grad
from lazyten.support.trees import flatten

Array = np.ndarray[Any, Any]


class GradcheckError(GradientError):
    """A gradient that differs from what differences of values give."""


def gradcheck(func: Callable[..., Any], inputs: Tensor | Sequence[Any], eps: float = 1e-6,
              atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True,
              nondet_tol: float = 0.0, check_undefined_grad: bool = True,
              check_grad_dtypes: bool = False, check_batched_grad: bool = False,
              check_batched_forward_grad: bool = False, check_forward_ad: bool = False,
              check_backward_ad: bool = True, fast_mode: bool = False,
              masked: bool | None = None) -> bool:
    """Whether the gradients of `func(*inputs)` agree with central differences of its values.

    inputs: of float64 where gradients are checked (requires_grad), since `eps` is small beside the
    precision of narrower types. Raises GradcheckError, with both, where they differ; or gives False
    if not raise_exception. The other options are PyTorch's and change nothing: all elements are
    always checked, the same graph always gives the same bits, and forward mode and batches are made
    of the graph that is checked.
    """
    if not callable(func):
        raise ArgumentError(f"gradcheck of {type(func).__name__} {func!r:.60}: give the function, "
                            f"and then its inputs")
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    wanted = [i for i, x in enumerate(given) if isinstance(x, Tensor) and x.requires_grad]
    if not wanted or any(given[i].dtype.bits < 64 for i in wanted):
        raise ArgumentError("gradcheck: give at least one input of float64 with requires_grad; "
                            "differences of narrower types are too coarse")
    outputs = _floats(func(*given))
    graphs, nodes = [x.node for x in outputs], [given[i].node for i in wanted]  # as long as lazy
    for number, (output, graph) in enumerate(zip(outputs, graphs, strict=True)):
        found = _analytic(output, graph, nodes)
        for i, jacobian in zip(wanted, found, strict=True):
            expected = _numeric(func, given, i, number, eps)
            if not np.allclose(jacobian, expected, rtol, atol, equal_nan=True):
                if not raise_exception:
                    return False
                raise GradcheckError(f"gradcheck: output {number} for input {i}: the gradient is\n"
                                     f"{jacobian}\nbut differences of values give\n{expected}")
    return True


def gradgradcheck(func: Callable[..., Any], inputs: Tensor | Sequence[Any],
                  grad_outputs: Sequence[Tensor] | None = None, eps: float = 1e-6,
                  atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True,
                  gen_non_contig_grad_outputs: bool = False, nondet_tol: float = 0.0,
                  check_undefined_grad: bool = True, check_grad_dtypes: bool = False,
                  check_batched_grad: bool = False, check_fwd_over_rev: bool = False,
                  check_rev_over_rev: bool = True, fast_mode: bool = False,
                  masked: bool = False) -> bool:
    """gradcheck of the gradients of `func`, weighted with `grad_outputs` (or fixed numbers); the
    options of PyTorch's that gradcheck takes and does not need change nothing here, either."""
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    outputs = _floats(func(*given))
    weights = grad_outputs
    if weights is None:
        draw = np.random.default_rng(0)
        weights = [Tensor._copy_of(draw.uniform(0.5, 1.5, t.shape), t.dtype, t.device, True)
                   for t in outputs]

    def first(*args: Any) -> tuple[Tensor, ...]:
        inner, factors = args[:len(given)], args[len(given):]
        wanted = [x for x, old in zip(inner, given, strict=True)
                  if isinstance(old, Tensor) and old.requires_grad]
        total: list[Any] = [None] * len(wanted)
        for output, factor in zip(_floats(func(*inner)), factors, strict=True):
            parts = _gradient.vjp(output.node, factor.node, [t.node for t in wanted])
            for place, part in enumerate(parts):
                if part is not None:
                    value = Tensor._of(part, output.device, True)
                    total[place] = value if total[place] is None else total[place] + value
        return tuple(t for t in total if t is not None)

    return gradcheck(first, [*given, *weights], eps, atol, rtol, raise_exception)


def _floats(result: Any) -> list[Tensor]:
    return [t for t in flatten(result)[0] if isinstance(t, Tensor) and t.dtype.is_float]


def _analytic(output: Tensor, graph: Node, wanted: Sequence[Node]) -> list[Array]:
    """The Jacobian for each of the nodes: (elements of the output, elements of the node)."""
    found = [np.zeros((output.numel(), n.numel)) for n in wanted]
    if not output.requires_grad:
        return found
    for row in range(output.numel()):
        one = np.zeros(output.numel())
        one[row] = 1.0
        cotangent = Tensor._copy_of(one.reshape(output.shape), output.dtype, output.device)
        parts = _gradient.vjp(graph, cotangent.node, wanted)
        for jacobian, part in zip(found, parts, strict=True):
            if part is not None:
                jacobian[row] = Tensor._of(part, output.device).numpy().reshape(-1)
    return found


def _numeric(func: Callable[..., Any], inputs: Sequence[Any], place: int, number: int,
             eps: float) -> Array:
    """The Jacobian by central differences. The input itself has the other values meanwhile, as
    `func` may know it otherwise than as its argument: a parameter of a module."""
    x = inputs[place]
    base = x.detach().numpy().copy()
    columns = []
    try:
        for position in range(base.size):
            ends = []
            for step in (eps, -eps):
                moved = base.copy()
                moved.flat[position] += step
                given = [*inputs[:place], _with_values(x, moved), *inputs[place + 1:]]
                output = _floats(func(*given))[number]
                with no_grad():
                    ends.append(output.detach().numpy().reshape(-1).astype(np.float64))
            columns.append((ends[0] - ends[1]) / (2 * eps))
    finally:
        _with_values(x, base)
    return np.stack(columns, 1) if columns else np.zeros((0, 0))


def _with_values(x: Tensor, values: Array) -> Tensor:
    """A tensor that has these values now; a copy of one that shows an element at several places."""
    if any(n > 1 and not step for n, step in zip(x.shape, x.stride(), strict=True)):
        return Tensor._copy_of(values, x.dtype, x.device, True)
    with no_grad():
        x.detach().copy_(Tensor._copy_of(values, x.dtype, x.device))
    return x
