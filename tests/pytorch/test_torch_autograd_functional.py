"""lt.autograd.functional beside PyTorch's: results, their nesting, and gradients through them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

X, Y = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], [0.3, -0.6, 1.2]
V, W = [[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]], [-1.0, 0.5, 2.0]
Function = Callable[..., Any]

MANY: dict[str, tuple[Function, tuple[Any, ...], tuple[Any, ...]]] = {  # with v of inputs, outputs
    "one": (lambda x: (x * x).sum(1), (X,), (V, [2.0, -1.0])),
    "two inputs": (lambda x, y: x.exp() * y, (X, Y), ((V, W), V)),
    "two outputs": (lambda x: (x.sin(), (x**3).sum()), (X,), (V, (V, 1.5))),
    "a tuple of one": (lambda x: (x.tanh(),), (X,), (V, (W and V,))),
    "unused": (lambda x, y: y * 2, (X, Y), ((V, W), W)),
}
ONE: dict[str, tuple[Function, tuple[Any, ...], Any]] = {
    "one": (lambda x: (x**3).sum(), (X,), V),
    "one element": (lambda x: (x**3).sum().reshape(1, 1), (X,), V),
    "two": (lambda x, y: (x.sin() * y * y).sum(), (X, Y), (V, W)),
    "linear": (lambda x: x.sum(), (X,), V),
}


def as_tensors(library: Any, values: Any, graph: bool = False) -> Any:
    if isinstance(values, tuple):
        return tuple(as_tensors(library, v, graph) for v in values)
    made = library.tensor(np.asarray(values), dtype=library.float64)
    return made.requires_grad_() if graph else made


def flat(found: Any) -> tuple[Any, list[Any]]:
    """How results are nested, and the tensors in them. (PyTorch's forward mode gives lists.)"""
    if isinstance(found, (tuple, list)):
        parts = [flat(f) for f in found]
        return tuple(nesting for nesting, _ in parts), [t for _, tensors in parts for t in tensors]
    return (), [found]


def compare(call: Callable[[Any, Any, bool], Any], inputs: tuple[Any, ...], single: bool) -> None:
    for graph in (False, True):
        sides = []
        for library in (lt, torch):
            at = as_tensors(library, inputs, graph)
            nesting, tensors = flat(call(library, at[0] if single else at, graph))
            assert all(t.requires_grad <= graph for t in tensors)
            total = sum((t * t).sum() for t in tensors)
            if graph and total.requires_grad:
                total.backward()
            sides.append((nesting, [t.detach().numpy() for t in tensors],
                          [None if t.grad is None else t.grad.numpy() for t in at]))
        assert sides[0][0] == sides[1][0]
        for mine, other in zip(sides[0][1], sides[1][1], strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)
            assert mine.shape == other.shape
        for mine, other in zip(sides[0][2], sides[1][2], strict=True):
            if other is not None and np.any(other):
                np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
@pytest.mark.parametrize("name", MANY)
def test_jacobians_are_torchs(name: str, strategy: str, single: bool) -> None:
    func, inputs, _ = MANY[name]
    if single and len(inputs) > 1:
        return

    def call(library: Any, at: Any, graph: bool) -> Any:
        options = {"strategy": strategy} if library is lt or not graph else {}
        if strategy == "forward-mode" and library is torch and not graph:
            options["vectorize"] = True
        return library.autograd.functional.jacobian(func, at, create_graph=graph, **options)

    compare(call, inputs, single)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("product", ["vjp", "jvp"])
@pytest.mark.parametrize("name", MANY)
def test_products_are_torchs(name: str, product: str, single: bool) -> None:
    func, inputs, (along_inputs, along_outputs) = MANY[name]
    if single and len(inputs) > 1:
        return
    v = along_inputs if product == "jvp" else along_outputs
    if product == "jvp" and not single and not isinstance(v, tuple):
        v = (v,)
    compare(lambda library, at, graph: getattr(library.autograd.functional, product)(
        func, at, as_tensors(library, v), create_graph=graph), inputs, single)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("product", ["hessian", "hvp", "vhp"])
@pytest.mark.parametrize("name", ONE)
def test_second_derivatives_are_torchs(name: str, product: str, single: bool) -> None:
    func, inputs, v = ONE[name]
    if single and len(inputs) > 1:
        return
    given = v if single or isinstance(v, tuple) else (v,)
    if name == "linear":  # PyTorch's gradient has no graph then, with create_graph
        for library in (lt, torch):
            at = as_tensors(library, inputs[0])
            rest = () if product == "hessian" else (as_tensors(library, v),)
            _, tensors = flat(getattr(library.autograd.functional, product)(func, at, *rest))
            assert not tensors[-1].numpy().any()
        return

    def call(library: Any, at: Any, graph: bool) -> Any:
        rest = () if product == "hessian" else (as_tensors(library, given),)
        return getattr(library.autograd.functional, product)(func, at, *rest, create_graph=graph)

    compare(call, inputs, single)


@pytest.mark.parametrize("outer", ["reverse-mode", "forward-mode"])
def test_both_ways_to_a_hessian_are_torchs(outer: str) -> None:
    found = [library.autograd.functional.hessian(
        lambda x, y: (x.exp() * y).sum(), as_tensors(library, (X, Y)), vectorize=True,
        outer_jacobian_strategy=outer) for library in (lt, torch)]
    for mine, other in zip(*[flat(f)[1] for f in found], strict=True):
        np.testing.assert_allclose(mine.numpy(), other.detach().numpy(), rtol=1e-9)


@pytest.mark.parametrize(("function", "func", "inputs", "options"), [
    ("vjp", lambda x: x * 2, X, {}), ("jvp", lambda x: x * 2, X, {}),
    ("vjp", lambda x: x * 2, X, {"v": W}), ("jvp", lambda x: x * 2, X, {"v": W}),
    ("hvp", lambda x: x * 2, X, {"v": V}), ("hessian", lambda x: (x.sum(), x.sum()), X, {}),
    ("jacobian", lambda x: 3, X, {}), ("jacobian", lambda x: x, 3.0, {"strategy": "sideways"}),
    ("jacobian", lambda x, y: x * 2, (X, Y), {"strict": True}),
    ("vhp", lambda x: x.sum(), X, {"v": V, "strict": True}),
    ("hessian", lambda x: x.sum(), X, {"strict": True})])
def test_what_torch_refuses_is_refused(function: str, func: Function, inputs: Any,
                                       options: dict[str, Any]) -> None:
    for library in (torch, lt):
        given = {k: as_tensors(library, v) if k == "v" else v for k, v in options.items()}
        with pytest.raises((RuntimeError, TypeError, ValueError, AssertionError)) as error:
            getattr(library.autograd.functional, function)(
                func, as_tensors(library, inputs), **given)
    assert isinstance(error.value, lt.LazytenError)


def test_versions_and_refused_names_are_where_torchs_are() -> None:
    from importlib import import_module
    for module in ("hub", "profiler", "multiprocessing", "version", "autograd.functional"):
        theirs = import_module(f"torch.{module}")
        names = getattr(theirs, "__all__", ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"])
        assert [n for n in names if not hasattr(import_module(f"lazyten.{module}"), n)] == []
