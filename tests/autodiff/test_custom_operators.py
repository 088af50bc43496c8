"""lt.library and lt.ops: operators that programs name, beside PyTorch's where it is installed."""
from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt

LIBRARIES = [lt, pytest.param(torch, marks=pytest.mark.torch)]
_numbers = count()


@pytest.fixture
def space() -> Iterator[str]:
    """A namespace that no other test has."""
    yield f"tests{next(_numbers)}"


def scaled(T: Any, space: str) -> Any:
    """An operator x * factor + sum of others, whose gradient is ten times the true one."""
    @T.library.custom_op(f"{space}::scaled", mutates_args=())
    def scaled(x: T.Tensor, others: list[T.Tensor], factor: float = 2.0) -> T.Tensor:  # type: ignore[name-defined]
        return x.clone() * factor + sum(others)

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        x, others, ctx.factor = inputs
        ctx.save_for_backward(x)
        ctx.count = len(others)

    def gradient(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 10 * g * ctx.factor + 0 * x, [10 * g] * ctx.count, None
    scaled.register_autograd(gradient, setup_context=keep)
    return scaled


def as_in_pytorch(space: str, T: Any) -> Any:
    x, y = T.tensor([1.0, 2.0], requires_grad=True), T.tensor([3.0, 4.0], requires_grad=True)
    operator = scaled(T, space) if T is lt else _typed(space)
    out = operator(x, [y, y], factor=3.0) + operator(x, [y], 4.0)
    (out * T.tensor([1.0, 2.0])).sum().backward()
    found = getattr(T.ops, space).scaled(x, [y])
    return [t.detach().numpy() for t in (out, found, x.grad, y.grad)]


def _typed(space: str) -> Any:
    """PyTorch reads annotations, which are texts here."""
    def function(x, others, factor=2.0):  # type: ignore[no-untyped-def]
        return x.clone() * factor + sum(others)
    function.__annotations__ = {"x": torch.Tensor, "others": list[torch.Tensor], "factor": float,
                                "return": torch.Tensor}
    operator = torch.library.custom_op(f"{space}::scaled", function, mutates_args=())

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor, ctx.count = inputs[2], len(inputs[1])
    operator.register_autograd(
        lambda ctx, g: (10 * g * ctx.factor, [10 * g] * ctx.count, None), setup_context=keep)
    return operator


def test_an_operator_computes_and_has_its_own_gradient(space: str) -> None:
    out, found, x, y = as_in_pytorch(space, lt)
    np.testing.assert_array_equal(out, [16.0, 26.0])
    np.testing.assert_array_equal(found, [5.0, 8.0])
    np.testing.assert_array_equal(x, [70.0, 140.0])
    np.testing.assert_array_equal(y, [30.0, 60.0])


@pytest.mark.torch
def test_an_operator_does_as_pytorchs(space: str) -> None:
    for ours, theirs in zip(as_in_pytorch(space, lt), as_in_pytorch(space, torch), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_operator_in_a_jitted_function_and_step_after_step(space: str) -> None:
    operator = scaled(lt, space)
    jitted = lt.jit(lambda x: operator(x, [x]) * 2)
    for n in range(5):
        x = lt.full((3,), float(n), requires_grad=True)
        assert jitted(x).tolist() == [6.0 * n] * 3
        (operator(x, [x]) * x).sum().backward()
        assert x.grad is not None and x.grad.tolist() == [33.0 * n] * 3


def test_an_operator_without_a_gradient_says_so_when_it_is_asked_for(space: str) -> None:
    lib = lt.library.Library(space, "DEF")
    assert lib.define("twice(Tensor x, *, float by=2.0) -> Tensor") == "twice"
    lib.impl("twice", lambda x, *, by=2.0: x * by, "CPU")
    x = lt.ones(2, requires_grad=True)
    y = getattr(lt.ops, space).twice(x, by=3.0)
    assert y.tolist() == [3.0, 3.0] and y.requires_grad
    with pytest.raises(lt.GradientError, match=f"{space}::twice: the operator has no gradient"):
        y.sum().backward()
    seen = []
    lt.library.register_autograd(
        f"{space}::twice", lambda ctx, g: g * ctx.by,
        setup_context=lambda ctx, inputs, keyword_only_inputs, output: seen.append(
            (len(inputs), setattr(ctx, "by", keyword_only_inputs["by"]))))
    getattr(lt.ops, space).twice(x, by=3.0).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3.0, 3.0] and seen == [(1, None)]


def test_an_operator_of_operations_is_differentiated_through(space: str) -> None:
    lt.library.define(f"{space}::cube", "(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match="the operator has no function"):
        getattr(lt.ops, space).cube(lt.ones(1))
    lt.library.impl(f"{space}::cube", "CompositeImplicitAutograd", lambda x: x ** 3)
    x = lt.tensor([2.0], requires_grad=True)
    getattr(lt.ops, space).cube.default(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [12.0]


def test_an_operator_that_writes_to_its_argument(space: str) -> None:
    @lt.library.custom_op(f"{space}::grow", mutates_args={"x"})
    def grow(x: lt.Tensor, by: float) -> None:
        x.add_(by)
    x = lt.zeros(3)
    grow(x[1:], by=2.0)
    wanted = lt.ones(3, requires_grad=True)
    with pytest.raises(lt.GradientError, match="grow writes to its arguments"):
        grow(wanted * 1, 2.0)
    with lt.no_grad():
        grow(wanted, by=2.0)
    assert wanted.tolist() == [3.0] * 3
    assert x.tolist() == [0.0, 2.0, 2.0] and repr(grow) == f"<operator {space}::grow>"


def test_what_tells_of_an_operator_is_taken_and_unused(space: str) -> None:
    operator = scaled(lt, space)

    @operator.register_fake
    def shape(x: lt.Tensor, others: list[lt.Tensor], factor: float = 2.0) -> lt.Tensor:
        raise AssertionError
    lt.library.impl(operator, "Meta", shape)
    lt.library.register_vmap(operator, shape)
    lt.library.register_autocast(f"{space}::scaled", "cpu", lt.bfloat16)
    assert operator(lt.ones(1), []).tolist() == [2.0]


def test_mistakes_say_what_to_do(space: str) -> None:
    with pytest.raises(lt.ArgumentError, match="'plain' is no name of an operator"):
        lt.library.custom_op("plain", print, mutates_args=())
    with pytest.raises(lt.ArgumentError, match="kind='NEW'"):
        lt.library.Library(space, "NEW")
    with pytest.raises(NotImplementedError, match="register_autograd"):
        lt.library.impl(f"{space}::some", "AutogradCPU", print)
    with pytest.raises(AttributeError, match=f"no operator {space}::nowhere"):
        getattr(lt.ops, space).nowhere  # noqa: B018
    with pytest.raises(OSError, match="are not for lazyten"):
        lt.ops.load_library("libother.so")
    operator = scaled(lt, space)
    operator.register_autograd(lambda ctx, g: (g, [g]))
    x = lt.ones(2, requires_grad=True)
    with pytest.raises(lt.GradientError, match="gave 2 values for 3 arguments"):
        operator(x, [x], 1.0).sum().backward()
    operator(x, [x]).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0]


def test_pytorchs_own_operators_by_their_names() -> None:
    x = lt.tensor([1.0, -2.0])
    assert lt.ops.aten.abs.default(x).tolist() == [1.0, 2.0]
    assert lt.ops.aten.add.Tensor(x, x, alpha=2).tolist() == [3.0, -6.0]
    assert lt.ops.aten.add is lt.ops.aten.add and {lt.ops.aten.relu: 1}[lt.ops.aten.relu] == 1
    with pytest.raises(NotImplementedError, match="aten::_pin_memory"):
        lt.ops.aten._pin_memory.default(x)
