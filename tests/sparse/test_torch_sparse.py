"""Sparse tensors beside PyTorch's: values, types, layouts and gradients."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazyten as lt

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

Parts = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], tuple[int, ...]]
FLOATS = ("float32", "float64")
TYPES = (*FLOATS, "int64", "int32", "bool", "complex64")


@st.composite
def parts(draw: st.DrawFn, dtypes: tuple[str, ...] = TYPES, axes: tuple[int, int] = (1, 3),
          dense: int = 2) -> Parts:
    """Indices, with places that come twice and in any order, values and a shape."""
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=axes[0], max_size=axes[1])))
    more = tuple(draw(st.lists(st.integers(1, 3), max_size=dense)))
    nnz = draw(st.integers(0, 6))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    places = np.stack([rng.integers(0, n, nnz) for n in sizes]).astype(np.int64)
    return places, values_of(rng, (nnz, *more), draw(st.sampled_from(dtypes))), (*sizes, *more)


def values_of(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    if dtype == "complex64":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return (rng.normal(size=shape) if dtype in FLOATS
            else rng.integers(-2 if dtype != "bool" else 0, 3, shape)).astype(dtype)


def made(T: Any, given: Parts, requires_grad: bool = False) -> Any:
    places, values, size = given
    return T.sparse_coo_tensor(T.tensor(places), T.tensor(values), size,
                               requires_grad=requires_grad)


def assert_same(mine: Any, theirs: Any, exact: bool = False) -> None:
    """Layouts, types, shapes and elements are equal, and where values are, once coalesced."""
    if isinstance(theirs, tuple | list):
        assert len(mine) == len(theirs)
        for one, two in zip(mine, theirs, strict=True):
            assert_same(one, two, exact)
        return
    if not isinstance(theirs, torch.Tensor):
        assert mine == theirs
        return
    assert isinstance(mine, lt.Tensor)
    assert str(mine.layout).partition(".")[2] == str(theirs.layout).partition(".")[2]
    assert mine.dtype.name == str(theirs.dtype).partition(".")[2]
    assert tuple(mine.shape) == tuple(theirs.shape)
    if theirs.layout is torch.sparse_coo and not exact:
        mine, theirs = mine.coalesce(), theirs.coalesce()
    if theirs.layout is torch.sparse_coo:
        assert mine._indices().tolist() == theirs._indices().tolist()
        mine, theirs = mine._values(), theirs._values()
    elif theirs.layout is not torch.strided:
        mine, theirs = mine.to_dense(), theirs.to_dense()
    np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().resolve_conj().numpy(),
                               rtol=1e-5, atol=1e-6)


# ---- one tensor ----------------------------------------------------------------------------------

ALONE: dict[str, Callable[[Any, Any], Any]] = {
    "as it is": lambda T, x: x, "to_dense": lambda T, x: x.to_dense(),
    "coalesce": lambda T, x: x.coalesce(), "clone": lambda T, x: x.clone().detach(),
    "nnz once coalesced": lambda T, x: x.coalesce()._nnz(),
    "axes": lambda T, x: (x.sparse_dim(), x.dense_dim(), x.ndim, len(x), x.numel()),
    "kind": lambda T, x: (x.is_sparse, x.is_sparse_csr, x.is_coalesced(), x.is_complex(),
                          x.is_floating_point(), x.requires_grad, x.is_leaf),
    "times a number": lambda T, x: x * 3, "a number times": lambda T, x: 2 * x,
    "times a zero-dim tensor": lambda T, x: x * T.tensor(2),
    "select": lambda T, x: x.select(0, 0), "an index": lambda T, x: x[0], "iterated": lambda T, x:
    list(x),
    "index_select": lambda T, x: x.index_select(0, T.tensor([0, 0])),
    "narrow_copy": lambda T, x: x.narrow_copy(0, 0, 1), "cat": lambda T, x: T.cat([x, x]),
    "cat on the last axis": lambda T, x: T.cat([x, x], -1), "stack": lambda T, x: T.stack([x, x]),
    "unsqueeze": lambda T, x: x.unsqueeze(0), "unsqueeze at the end": lambda T, x: x.unsqueeze(-1),
    "zeros_like": lambda T, x: T.zeros_like(x), "new_zeros": lambda T, x: x.new_zeros(2, 3),
    "to double": lambda T, x: x.to(T.complex128 if x.is_complex() else T.float64),
    "twice itself": lambda T, x: x.to(T.float32) + x.to(T.float32)
    if not x.is_complex() else x + x,
    "zero_": lambda T, x: x.clone().zero_(),
    "to_sparse of it": lambda T, x: x.to_sparse(),
}


@given(given=parts(), name=st.sampled_from(sorted(ALONE)))
def test_operations_on_one_tensor_are_pytorchs(given: Parts, name: str) -> None:
    function = ALONE[name]
    assert_same(function(lt, made(lt, given)), function(torch, made(torch, given)))


NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    name: (lambda T, x, name=name: getattr(x, name)()) for name in (
        "abs", "asin", "asinh", "atan", "ceil", "deg2rad", "erf", "expm1", "floor", "frac", "isinf",
        "isnan", "isneginf", "isposinf", "neg", "rad2deg", "relu", "round", "sgn", "sign",
        "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "positive", "conj",
        "nan_to_num", "t", "norm", "coalesce", "isnan")} | {
    "half": lambda T, x: x / 2, "floor_divide": lambda T, x: x // 2,
    "rounded": lambda T, x: T.div(x, 2, rounding_mode="trunc"),
    "pow": lambda T, x: x ** 2, "minus": lambda T, x: -x, "abs of": lambda T, x: abs(x),
    "sum": lambda T, x: T.sparse.sum(x), "sum over the first": lambda T, x: T.sparse.sum(x, 0),
    "sum over the last": lambda T, x: T.sparse.sum(x, -1),
    "sum over two": lambda T, x: T.sparse.sum(x, (0, x.ndim - 1) if x.ndim > 1 else [0]),
    "sum as double": lambda T, x: T.sparse.sum(x, 0, dtype=T.float64),
    "the method sum": lambda T, x: x.sum(), "sum kept": lambda T, x: x.sum(0, keepdim=True),
    "transpose": lambda T, x: x.transpose(0, x.sparse_dim() - 1),
    "permute": lambda T, x: x.permute(*range(x.sparse_dim() - 1, -1, -1),
                                      *range(x.sparse_dim(), x.ndim)),
    "softmax": lambda T, x: T.sparse.softmax(x.to(T.float64), 0),
    "log_softmax": lambda T, x: T.sparse.log_softmax(x.to(T.float64), x.ndim - 1),
    "written": lambda T, x: x.clone().mul_(3).add_(x),
    "to_sparse of fewer axes": lambda T, x: x.to_dense().to_sparse(1),
    "sparse_mask": lambda T, x: (x.to_dense() + 1).sparse_mask(x.coalesce()),
    "copy_": lambda T, x: T.zeros_like(x).copy_(x),
    "any": lambda T, x: x.coalesce().any(),
    "dense plus": lambda T, x: T.ones(x.shape) + x, "dense minus": lambda T, x: T.ones(x.shape) - x,
    "added": lambda T, x: T.add(T.ones(x.shape), x, alpha=2),
    "times dense": lambda T, x: x * T.arange(x.numel()).reshape(x.shape),
    "dense times": lambda T, x: T.arange(x.numel()).reshape(x.shape) * x.coalesce(),
    "written to dense": lambda T, x: T.ones(x.shape).add_(x.float(), alpha=0.5),
}
LACKING = {"t": 2}
"""So many axes at most."""


@given(given=parts(("float32", "float64", "int64")), name=st.sampled_from(sorted(NUMBERS)))
def test_arithmetic_and_functions_are_pytorchs(given: Parts, name: str) -> None:
    if len(given[2]) > LACKING.get(name, 9) or name == "t" and len(given[0]) < len(given[2]):
        return
    function = NUMBERS[name]
    try:
        theirs = function(torch, made(torch, given))
    except (NotImplementedError, RuntimeError) as error:
        if given[1].dtype.kind == "i":  # what PyTorch has of floats alone
            return
        raise AssertionError(name) from error
    assert_same(function(lt, made(lt, given)), theirs)


# ---- two -----------------------------------------------------------------------------------------

BOTH: dict[str, Callable[[Any, Any, Any], Any]] = {
    "+": lambda T, x, y: x + y, "-": lambda T, x, y: x - y,
    "*": lambda T, x, y: (x * y).to_dense(),
    "alpha": lambda T, x, y: T.add(x, y, alpha=3), "sub": lambda T, x, y: T.sub(x, y, alpha=2),
    "coalesced": lambda T, x, y: x.coalesce() + y.coalesce(),
    "product of coalesced": lambda T, x, y: x.coalesce() * y.coalesce(),
    "is_same_size": lambda T, x, y: x.is_same_size(y), "cat": lambda T, x, y: T.cat([x, y], 0),
    "accumulated": lambda T, x, y: x.clone().add_(y, alpha=2),
}


@given(given=parts(("float32", "float64", "int64", "complex64")), seed=st.integers(0, 999),
       name=st.sampled_from(sorted(BOTH)))
def test_sums_and_products_of_two_are_pytorchs(given: Parts, seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    axes, nnz = len(given[0]), int(rng.integers(0, 6))
    places = np.stack([rng.integers(0, n, nnz) for n in given[2][:axes]]).astype(np.int64)
    other = places, values_of(rng, (nnz, *given[2][axes:]), given[1].dtype.name), given[2]
    function = BOTH[name]
    assert_same(function(lt, made(lt, given), made(lt, other)),
                function(torch, made(torch, given), made(torch, other)))


PRODUCTS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "@": lambda T, x, y, s: x @ y, "mm": lambda T, x, y, s: T.mm(x, y),
    "spmm": lambda T, x, y, s: T.spmm(x, y), "sparse.mm": lambda T, x, y, s: T.sparse.mm(x, y),
    "mv": lambda T, x, y, s: x.mv(y[:, 0]), "vector": lambda T, x, y, s: x @ y[:, 0],
    "dense first": lambda T, x, y, s: y.t() @ x.t(),
    "vector first": lambda T, x, y, s: y[:, 0] @ x.t(),
    "addmm": lambda T, x, y, s: T.addmm(T.ones(x.shape[0], y.shape[1], dtype=y.dtype), x, y,
                                        beta=2, alpha=3),
    "sparse.addmm": lambda T, x, y, s: T.sparse.addmm(
        T.ones(x.shape[0], y.shape[1], dtype=y.dtype), x, y),
    "two sparse": lambda T, x, y, s: x @ s, "mm of two": lambda T, x, y, s: T.sparse.mm(x, s),
    "linear": lambda T, x, y, s: T.nn.functional.linear(x, y.t()),
    "csr": lambda T, x, y, s: x.to_sparse_csr() @ y,
    "csr vector": lambda T, x, y, s: x.to_sparse_csr() @ y[:, 0],
    "csc": lambda T, x, y, s: x.to_sparse_csr().t() @ T.ones(x.shape[0], 2, dtype=y.dtype),
    "csr of two": lambda T, x, y, s: (x.to_sparse_csr() @ s.to_sparse_csr()).to_dense(),
    "csr and back": lambda T, x, y, s: x.to_sparse_csr().to_sparse(),
    "csc and back": lambda T, x, y, s: x.to_sparse_csc().to_sparse_coo(),
    "csr arithmetic": lambda T, x, y, s: (x.to_sparse_csr() + x.to_sparse_csr()) * 2,
    "csr row": lambda T, x, y, s: x.to_sparse_csr()[0],
    "csr times dense": lambda T, x, y, s: x.to_sparse_csr() * T.ones(x.shape, dtype=y.dtype),
    "dense plus csr": lambda T, x, y, s: T.ones(x.shape, dtype=y.dtype) + x.to_sparse_csr(),
    "csr of the transposed": lambda T, x, y, s: x.t().to_sparse_csr(),
    "csr functions": lambda T, x, y, s: x.to_sparse_csr().sin().abs(),
    "csr sum": lambda T, x, y, s: x.to_sparse_csr().sum(),
    "csr sum kept": lambda T, x, y, s: x.to_sparse_csr().sum(1, keepdim=True),
    "mean of terms": lambda T, x, y, s: T.sparse.mm(x.to_sparse_csr(), y, "mean"),
    "greatest term": lambda T, x, y, s: T.sparse.mm(x.to_sparse_csr(), y, "amax"),
    "sampled_addmm": lambda T, x, y, s: T.sparse.sampled_addmm(
        x.to_sparse_csr(), T.ones(x.shape[0], 2, dtype=y.dtype), y.t()[:2] if y.shape[1] > 1
        else T.ones(2, x.shape[1], dtype=y.dtype), beta=0.5, alpha=2),
}


@given(given=parts(FLOATS, (2, 2), 0), seed=st.integers(0, 999),
       name=st.sampled_from(sorted(PRODUCTS)))
def test_products_are_pytorchs(given: Parts, seed: int, name: str) -> None:
    rng = np.random.default_rng(seed)
    dense = values_of(rng, (given[2][1], 3), given[1].dtype.name)
    nnz = int(rng.integers(0, 6))
    places = np.stack([rng.integers(0, n, nnz) for n in (given[2][1], 2)]).astype(np.int64)
    second = places, values_of(rng, (nnz,), given[1].dtype.name), (given[2][1], 2)
    function = PRODUCTS[name]
    assert_same(*[function(T, made(T, given), T.tensor(dense), made(T, second))
                  for T in (lt, torch)])


def test_a_batch_of_sparse_matrices_times_dense_ones() -> None:
    rng = np.random.default_rng(3)
    given = rng.integers(0, 3, (3, 7)).astype(np.int64), rng.normal(size=7), (3, 3, 3)
    dense = rng.normal(size=(3, 3, 2))
    assert_same(*[T.bmm(made(T, given), T.tensor(dense)) for T in (lt, torch)])


@pytest.mark.parametrize("layout", [None, "sparse_csr"])
def test_diagonals(layout: str | None) -> None:
    def function(T: Any) -> Any:
        kind = None if layout is None else getattr(T, layout)
        return T.sparse.spdiags(T.arange(12.0).reshape(3, 4), T.tensor([0, -1, 2]), (3, 4), kind)
    assert_same(function(lt), function(torch))


# ---- gradients -----------------------------------------------------------------------------------

DIFFERENTIABLE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mm": lambda T, x, d: T.sparse.mm(x, d), "to_dense": lambda T, x, d: x.to_dense() ** 2 @ d,
    "dense first": lambda T, x, d: d.t() @ x.t(), "mv": lambda T, x, d: x.mv(d[:, 0]),
    "sum": lambda T, x, d: T.sparse.sum(x, 0).to_dense() ** 2,
    "the square": lambda T, x, d: (x * x).to_dense(),
    "plus": lambda T, x, d: (x + x * 2).to_dense(),
    "addmm": lambda T, x, d: T.sparse.addmm(d[:1, :1], x, d, alpha=2),
    "softmax": lambda T, x, d: T.sparse.softmax(x, 1).to_dense() @ d,
    "log_softmax": lambda T, x, d: T.sparse.log_softmax(x, 0).to_dense() @ d,
    "times two": lambda T, x, d: (x * 2).to_dense() @ d,
    "through csr": lambda T, x, d: T.sparse.mm(x.to_sparse_csr(), d),
    "neg": lambda T, x, d: (-x).to_dense() @ d,
    "transposed": lambda T, x, d: x.t().to_dense().t() @ d,
    "masked": lambda T, x, d: (d @ d.t()).sparse_mask(x.detach().coalesce()).to_dense() ** 2
    + x.to_dense(),
    "selected": lambda T, x, d: x.coalesce().values() ** 2,
    "dense plus": lambda T, x, d: (d @ d.t() + x) ** 2,
    "two sparse": lambda T, x, d: (x @ x.t()).to_dense() ** 2,
}


@given(given=parts(("float64",), (2, 2), 0), name=st.sampled_from(sorted(DIFFERENTIABLE)))
def test_gradients_are_pytorchs(given: Parts, name: str) -> None:
    n = max(given[2])
    given = given[0], given[1], (n, n)
    if name in ("addmm", "dense plus", "masked") and not given[1].size:
        return
    function, dense = DIFFERENTIABLE[name], np.random.default_rng(1).normal(size=(n, 3))
    found = []
    for T in (lt, torch):
        x, d = made(T, given, requires_grad=True), T.tensor(dense, requires_grad=True)
        function(T, x, d).sum().backward()
        assert x.is_leaf
        assert T is torch or x.grad.layout is lt.sparse_coo
        found.append((x.grad.to_dense(), None if d.grad is None else d.grad.to_dense()))
    theirs, others = found[1]
    where = np.zeros((n, n), bool)
    where[tuple(given[0])] = True
    np.testing.assert_allclose(found[0][0].numpy(), np.where(where, theirs.numpy(), 0), atol=1e-10)
    if others is not None:
        np.testing.assert_allclose(found[0][1].numpy(), others.numpy(), atol=1e-10)


def test_gradients_flow_to_the_values() -> None:
    def function(T: Any) -> Any:
        v = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
        x = T.sparse_coo_tensor(T.tensor([[0, 0, 1], [2, 2, 0]]), v, (2, 3))
        (T.sparse.mm(x, T.ones(3, 2)) ** 2).sum().backward()
        return v.grad, x.is_leaf, x.requires_grad
    assert_same(function(lt), function(torch))


@pytest.mark.parametrize("name", ["csr", "csc"])
def test_a_compressed_leaf_collects_a_compressed_gradient(name: str) -> None:
    def function(T: Any) -> Any:
        make = getattr(T, f"sparse_{name}_tensor")
        x = make(T.tensor([0, 1, 3]), T.tensor([1, 0, 1]), T.tensor([1.0, 2.0, 3.0]), (2, 2),
                 requires_grad=True)
        (x @ T.ones(2, 2)).sum().backward()
        return x.grad.to_dense() * (x.detach().to_dense() != 0)
    assert_same(function(lt), function(torch))


# ---- printing ------------------------------------------------------------------------------------

PRINTED: dict[str, Callable[[Any], Any]] = {
    "coordinates": lambda T: T.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.5, 5.0], (2, 3)),
    "nothing": lambda T: T.sparse_coo_tensor(size=(2, 3)),
    "dense axes": lambda T: T.sparse_coo_tensor([[0, 1]], [[1, 2], [3, 4]]),
    "double": lambda T: T.eye(3, dtype=T.float64).to_sparse(),
    "rows": lambda T: T.eye(3).to_sparse_csr(),
    "columns of double": lambda T: T.eye(3, dtype=T.float64).to_sparse_csc(),
    "a leaf": lambda T: T.eye(2).to_sparse().requires_grad_(),
    "many": lambda T: T.arange(2000.0).reshape(100, 20).to_sparse(),
}


@pytest.mark.parametrize("name", PRINTED)
def test_texts_are_pytorchs(name: str) -> None:
    mine, theirs = (repr(PRINTED[name](T)) for T in (lt, torch))
    assert mine.replace("lazyten.", "torch.") == theirs
