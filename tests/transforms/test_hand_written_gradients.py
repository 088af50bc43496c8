"""Gradients that users write, by autograd.Function, and gradcheck, which finds wrong ones."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt
from lazyten import autograd

VALUES = np.array([0.5, -1.5, 2.0])


def leaf(device: str) -> lt.Tensor:
    return lt.tensor(VALUES, device=device, requires_grad=True)


class Exponential(autograd.Function):
    """Saves what it gives."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        result, = ctx.saved_tensors
        return g * result


class ProductAndSum(autograd.Function):
    """Two outputs, an argument that is no tensor, and a separate setup_context."""

    @staticmethod
    def forward(a: Any, b: Any, factor: float) -> Any:
        return a * b * factor, a + b

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.factor = inputs[2]

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        a, b = ctx.saved_tensors
        assert ctx.needs_input_grad[2] is False
        return g * b * ctx.factor + h, g * a * ctx.factor + h, None


class Scaled(autograd.Function):
    """An argument that has a default, and what forward mode would want."""

    @staticmethod
    def forward(a: Any, factor: float = 3.0) -> Any:
        return a * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        a, ctx.factor = inputs
        ctx.save_for_forward(a, None)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.factor, None


class Once(Exponential):
    """May not be differentiated twice."""

    backward = staticmethod(autograd.once_differentiable(Exponential.backward))


class Wrong(Exponential):
    """Its gradient is off."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0] * 1.01


class WithMoreNone(Exponential):
    """Gives None for arguments that apply() was not given."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0], None, None


class TooMany(Exponential):
    """Gives two gradients for one argument."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, g


def test_functions_pass_gradcheck_and_gradgradcheck(device: str) -> None:
    x, y = leaf(device), lt.tensor(VALUES + 1, device=device, requires_grad=True)
    assert autograd.gradcheck(Exponential.apply, (x,))
    assert autograd.gradgradcheck(Exponential.apply, (x,))
    assert autograd.gradcheck(lambda a, b: ProductAndSum.apply(a, b, 3.0), (x, y))
    assert autograd.gradgradcheck(lambda a, b: ProductAndSum.apply(a, b, 3.0), (x, y))


def test_gradcheck_takes_inputs_that_are_not_computed_yet(device: str) -> None:
    x = lt.ones(2, 2, dtype=lt.float64, device=device).cos().requires_grad_()
    assert autograd.gradcheck(lambda a: (a @ a).tanh(), x)


def test_gradcheck_finds_a_wrong_gradient(device: str) -> None:
    x = leaf(device)
    with pytest.raises(lt.GradientError, match="differences"):
        autograd.gradcheck(Wrong.apply, x)
    assert not autograd.gradcheck(Wrong.apply, x, raise_exception=False)
    assert not autograd.gradgradcheck(Wrong.apply, x, raise_exception=False)


def test_a_function_may_be_differentiated_once_only(device: str) -> None:
    x = leaf(device)
    first, = autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    assert first is not None
    np.testing.assert_allclose(first.detach().numpy(), np.exp(VALUES), rtol=1e-14)
    with pytest.raises(lt.GradientError, match="once_differentiable"):
        autograd.grad(first.sum(), x)


def test_a_function_that_gives_too_many_gradients_is_named(device: str) -> None:
    with pytest.raises(lt.GradientError, match=r"TooMany.backward gave 2 gradients for 1"):
        TooMany.apply(leaf(device)).sum().backward()


def test_none_for_arguments_that_were_left_out_may_be_given(device: str) -> None:
    assert autograd.gradcheck(WithMoreNone.apply, (leaf(device),))


def test_setup_context_has_the_defaults_of_forward_and_what_is_named(device: str) -> None:
    for given, named, factor in (((), {}, 3.0), ((2.0,), {}, 2.0), ((), {"factor": 5.0}, 5.0)):
        x = leaf(device)
        y = Scaled.apply(x, *given, **named)
        y.sum().backward()
        assert y.tolist() == (x * factor).tolist()
        assert x.grad.tolist() == lt.full_like(x, factor).tolist()
    with pytest.raises(lt.ArgumentError, match=r"Exponential.apply: scale by name; give .*order"):
        Exponential.apply(leaf(device), scale=2)


def test_what_a_function_saves_is_not_changed_by_writes(device: str) -> None:
    x = leaf(device)
    y = Exponential.apply(x)
    loss = y.sum()
    with lt.no_grad():
        y.detach().zero_()
    loss.backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), np.exp(VALUES), rtol=1e-14)


class Halves(autograd.Function):
    """The two halves of a vector; the second is not differentiable."""

    @staticmethod
    def forward(ctx: Any, x: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        first, second = x[:2] * 1, x[2:] * 1
        ctx.mark_non_differentiable(second)
        return first, second

    @staticmethod
    def backward(ctx: Any, *given: Any) -> lt.Tensor:
        return lt.cat([given[0], given[1]])


def test_an_output_that_is_marked_has_no_gradient(device: str) -> None:
    x = lt.arange(4.0, device=device).requires_grad_()
    first, second = Halves.apply(x)
    assert first.requires_grad and not second.requires_grad
    (first.sum() + (second * 5).sum()).backward()
    assert x.grad is not None and x.grad.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("materialize", [True, False])
def test_a_function_says_what_it_gets_for_outputs_that_are_not_used(materialize: bool) -> None:
    got: list[Any] = []

    class Twice(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, *given: Any) -> lt.Tensor:
            got.append(given[1] if given[1] is None else given[1].tolist())
            return given[0] * 2

    x = lt.ones(2, requires_grad=True)
    Twice.apply(x)[0].sum().backward()
    assert got == [[0.0, 0.0] if materialize else None]


class MultipliedBy(autograd.Function):
    """x *= w, in place."""

    @staticmethod
    def forward(ctx: Any, x: lt.Tensor, w: lt.Tensor) -> lt.Tensor:
        ctx.save_for_backward(x.clone(), w)
        x.mul_(w)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        x, w = ctx.saved_tensors
        return g * w, g * x


def test_a_function_writes_to_an_argument_and_its_gradient_flows_through_what_was_there(
        device: str) -> None:
    for _ in range(3):
        a = lt.full((3,), 2.0, requires_grad=True, device=device)
        w = lt.full((3,), 3.0, requires_grad=True, device=device)
        b = a * a
        view = b[1:]
        assert MultipliedBy.apply(view, w[1:]) is view and b.tolist() == [4.0, 12.0, 12.0]
        (b * lt.arange(3.0, device=device)).sum().backward()
        assert a.grad is not None and a.grad.tolist() == [0.0, 12.0, 24.0]
        assert w.grad is not None and w.grad.tolist() == [0.0, 4.0, 8.0]


def test_an_argument_that_a_function_writes_to_begins_to_require_gradients() -> None:
    x, w = lt.ones(2), lt.full((2,), 3.0, requires_grad=True)
    MultipliedBy.apply(x, w)
    x.sum().backward()
    assert x.requires_grad and w.grad is not None and w.grad.tolist() == [1.0, 1.0]


def test_a_jitted_function_with_a_function_that_writes_runs_in_python() -> None:
    w = lt.full((2,), 3.0, requires_grad=True)

    @lt.jit
    def step(x: lt.Tensor) -> Any:
        y = x * 1
        MultipliedBy.apply(y, w)
        return autograd.grad(y.sum(), w)[0]

    for k in (1.0, 2.0, 3.0):
        assert step(lt.full((2,), k)).tolist() == [k, k]


def test_a_function_writes_to_no_leaf_and_to_nothing_that_it_does_not_give_back() -> None:
    class Drops(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
            ctx.mark_dirty(x)
            return x + 1

    x, w = lt.ones(2, requires_grad=True), lt.full((2,), 3.0)
    with pytest.raises(lt.GradientError, match="MultipliedBy on a leaf"):
        MultipliedBy.apply(x, w)
    assert x.tolist() == [1.0, 1.0]
    with pytest.raises(lt.GradientError, match=r"Drops: .* that forward\(\) gives back"):
        Drops.apply(x * 1)


def test_functions_work_inside_jit(device: str) -> None:
    @lt.jit
    def step(x: lt.Tensor) -> Any:
        return autograd.grad(Exponential.apply(x * 2).sum(), x)

    for shift in (0.0, 1.0, 2.0):
        x = lt.tensor(VALUES + shift, device=device, requires_grad=True)
        np.testing.assert_allclose(step(x)[0].numpy(), 2 * np.exp(2 * (VALUES + shift)), rtol=1e-13)


@pytest.mark.torch
@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 1), (), (1, 1, 1)])
def test_a_written_gradient_of_a_larger_shape_and_type_is_brought_to_its_arguments(
        shape: tuple[int, ...]) -> None:
    found = []
    for library in (lt, torch):
        class Scaled(library.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any, factor: Any) -> Any:
                ctx.save_for_backward(x, factor)
                return x * factor

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                x, factor = ctx.saved_tensors
                return (g * factor).double(), (g * x).half()

        x = library.arange(6.0).reshape(2, 3).requires_grad_()
        factor = library.ones(shape).requires_grad_()
        if len(shape) > 2:
            x = library.arange(6.0).reshape(1, 2, 3).requires_grad_()
        Scaled.apply(x, factor).sum().backward()
        assert str(factor.grad.dtype).endswith("float32") and factor.grad.shape == shape
        found.append([x.grad.numpy(), factor.grad.numpy()])
    for mine, other in zip(*found, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_gradcheck_takes_options_that_change_nothing_here() -> None:
    x = leaf("cpu")
    assert autograd.gradcheck(lt.sin, x, fast_mode=True, check_forward_ad=True, nondet_tol=1e-3)
    assert autograd.gradgradcheck(lt.sin, x, fast_mode=True, check_fwd_over_rev=True)


def test_a_function_has_the_jvp_that_programs_pass_on_and_nobody_asks() -> None:
    class Double(lt.autograd.Function):
        """Twice its argument."""

        jvp = lt.autograd.Function.jvp

        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: lt.Tensor) -> lt.Tensor:
            return gradient * 2

    value, tangent = lt.func.jvp(Double.apply, (lt.ones(2),), (lt.full((2,), 3.0),))
    assert value.tolist() == [2.0, 2.0] and tangent.tolist() == [6.0, 6.0]
    with pytest.raises(NotImplementedError, match=r"without jvp\(\): forward mode goes by"):
        Double.jvp(None)


def test_what_no_gradient_is_wanted_of_need_not_be_a_tensor_to_be_saved() -> None:
    class Kept(lt.autograd.Function):
        """Its argument, of which anything is saved."""

        @staticmethod
        def forward(ctx: Any, x: lt.Tensor, other: Any) -> lt.Tensor:
            ctx.save_for_backward(x, other)
            return x * 2

    assert Kept.apply(lt.ones(2), "other").tolist() == [2.0, 2.0]
    with pytest.raises(lt.DTypeError, match="'other' is not a tensor; make it an attribute of"):
        Kept.apply(lt.ones(2, requires_grad=True), "other")


def test_gradcheck_gives_the_input_itself_other_values_and_its_own_again() -> None:
    layer = lt.nn.Linear(2, 3, dtype=lt.float64)
    x, before = lt.rand(4, 2, dtype=lt.float64), layer.weight.tolist()
    assert lt.autograd.gradcheck(lambda weight: layer(x), (layer.weight,))
    assert layer.weight.tolist() == before
    calls: list[lt.Tensor] = []

    def fails(weight: lt.Tensor) -> lt.Tensor:
        calls.append(weight)
        if len(calls) == 4:
            raise ZeroDivisionError
        return weight * 2
    with pytest.raises(ZeroDivisionError):
        lt.autograd.gradcheck(fails, (layer.weight,))
    assert layer.weight.tolist() == before


def test_gradcheck_takes_views_and_repeated_elements() -> None:
    whole = lt.rand(3, 4, dtype=lt.float64)
    turned, row = (x.requires_grad_() for x in (whole.detach().T, whole[:1].expand(3, 4).detach()))
    assert lt.autograd.gradcheck(lambda a, b: (a @ b).sin(), (turned, row))


def test_an_argument_given_back_where_no_gradients_flow_is_detached() -> None:
    """Gradients of what is made of it later would reach the argument else."""
    class Same(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: lt.Tensor, b: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
            return a, b

        @staticmethod
        def backward(ctx: Any, g: lt.Tensor, h: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
            return g, h

    x = lt.tensor([1.0, 2.0], requires_grad=True)
    with lt.no_grad():
        a, b = Same.apply(x, lt.ones(2))
    assert not a.requires_grad and not b.requires_grad
    (a * x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 2]


def test_an_argument_given_back_as_not_differentiable_is_detached() -> None:
    class Same(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: lt.Tensor) -> lt.Tensor:
            ctx.mark_non_differentiable(a)
            return a

        @staticmethod
        def backward(ctx: Any, g: lt.Tensor) -> lt.Tensor:
            return g

    x = lt.tensor([1.0, 2.0], requires_grad=True)
    a = Same.apply(x)
    assert not a.requires_grad and x.requires_grad
    (a * x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 2]


def test_a_written_argument_given_back_where_no_gradients_flow_is_detached() -> None:
    x = lt.tensor([1.0, 2.0], requires_grad=True)
    with lt.no_grad():
        a = WritesTwice.apply(x)[0]
    assert a.tolist() == x.tolist() == [2, 4] and not a.requires_grad and x.requires_grad


def test_a_written_argument_that_is_given_back_twice_is_the_same_both_times() -> None:
    x = lt.tensor([1.0, 2.0], requires_grad=True)
    a, b = WritesTwice.apply(x * 1)
    assert a.tolist() == b.tolist() == [2, 4] and a.requires_grad and b.requires_grad
    b.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2, 2]


class WritesTwice(lt.autograd.Function):
    """Doubles what it is given, in place."""

    @staticmethod
    def forward(ctx: Any, a: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        ctx.mark_dirty(a.mul_(2))
        return a, a

    @staticmethod
    def backward(ctx: Any, g: lt.Tensor, h: lt.Tensor) -> lt.Tensor:
        return 2 * (g + h)
