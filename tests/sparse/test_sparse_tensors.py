"""Sparse tensors by themselves: errors, jitted functions, modules and files, what is refused."""
from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten import nn

WHERE = [[0, 1, 1], [2, 0, 2]]


def matrix() -> Any:
    return lt.sparse_coo_tensor(WHERE, [3.0, 4.0, 5.0], (2, 3))


def test_a_sparse_tensor_is_a_tensor_of_its_kind() -> None:
    x = matrix()
    assert isinstance(x, lt.Tensor)
    assert lt.is_tensor(x)
    assert isinstance(x, lt.sparse.FloatTensor)
    assert not isinstance(x, lt.sparse.DoubleTensor)
    assert not isinstance(lt.ones(2), lt.sparse.FloatTensor)


# ---- errors --------------------------------------------------------------------------------------

ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "an index outside": (lambda: lt.sparse_coo_tensor([[0], [3]], [1.0], (2, 3)), IndexError,
                         "found index 3 for axis 1, whose size is 3"),
    "a negative index": (lambda: lt.sparse_coo_tensor([[-1]], [1.0], (2,)), IndexError,
                         "negative index -1 for axis 0"),
    "more values than indices": (lambda: lt.sparse_coo_tensor([[0]], [1.0, 2.0]), ValueError,
                                 r"are for 1 values, but values have shape \(2,\)"),
    "a size of other axes": (lambda: lt.sparse_coo_tensor([[0]], [1.0], (2, 3)), ValueError,
                             r"the size is \(2, 3\), but indices are for 1 axes"),
    "indices of one axis": (lambda: lt.sparse_coo_tensor([0, 1], [1.0, 2.0]), ValueError,
                            r"indices have shape \(2,\)"),
    "indices that are masks": (lambda: lt.sparse_coo_tensor(lt.tensor([[True]]), [1.0]),
                               lt.DTypeError, "indices are bool"),
    "said to be coalesced": (
        lambda: lt.sparse_coo_tensor([[1, 0]], [1.0, 2.0], is_coalesced=True,
                                     check_invariants=True), ValueError, "not in order"),
    "values before coalesce": (lambda: matrix().values(), NotImplementedError,
                               r"values\(\) of a tensor that is not coalesced"),
    "sums of other shapes": (lambda: matrix() + matrix().t(), ValueError,
                             r"add of sparse tensors \(2, 3\) and \(3, 2\)"),
    "sparse plus dense": (lambda: matrix() + lt.ones(2, 3), NotImplementedError,
                          "use dense \\+ sparse"),
    "products of other shapes": (lambda: matrix() @ lt.ones(2, 2), ValueError,
                                 r"matmul of shapes \(2, 3\) and \(2, 2\)"),
    "products of other types": (lambda: matrix() @ lt.ones(3, 2, dtype=lt.float64), TypeError,
                                "float32 and float64"),
    "times a larger one": (lambda: matrix() * lt.ones(4, 2, 3), ValueError, "is not expanded"),
    "by a dense one": (lambda: matrix() / lt.ones(2, 3), NotImplementedError, "0/0 is no 0"),
    "to the power 0": (lambda: matrix() ** 0, NotImplementedError, "each 0 would become 1"),
    "an axis twice": (lambda: lt.sparse.sum(matrix(), (0, 0)), IndexError, "an axis twice"),
    "select outside": (lambda: matrix().select(1, 3), IndexError, "index 3 is outside of axis 1"),
    "a mask as an index": (lambda: matrix()[lt.tensor([0])], NotImplementedError, "an index by"),
    "cat of other shapes": (lambda: lt.cat([matrix(), matrix().t()]), ValueError,
                            "cat of sparse tensors"),
    "rows that begin late": (lambda: lt.sparse_csr_tensor([1, 2], [0, 0], [1.0, 2.0], (1, 2)),
                             ValueError, "go from 1 to 2"),
    "rows that fall": (lambda: lt.sparse_csr_tensor([0, 2, 1, 2], [0, 0], [1.0, 2.0], (3, 2)),
                       ValueError, "fall from 2 to 1, at 1"),
    "a column outside": (lambda: lt.sparse_csr_tensor([0, 1], [5], [1.0], (1, 2)), IndexError,
                         "found index 5 for axis 1"),
    "rows of columns": (lambda: matrix().to_sparse_csc().crow_indices(), NotImplementedError,
                        "of layout lazyten.sparse_csc"),
    "batches of rows": (lambda: lt.ones(2, 2, 2).to_sparse_csr(), NotImplementedError,
                        "it is for matrices"),
    "values of a dense tensor": (lambda: lt.ones(2).values(), NotImplementedError,
                                 "to_sparse\\(\\) first"),
    "numpy": (lambda: matrix().numpy(), TypeError, "to_dense"),
    "a parameter": (lambda: nn.Parameter(matrix()), NotImplementedError, "Parameter"),
    "into a dense one": (lambda: lt.ones(2, 3).copy_(matrix()), NotImplementedError, "to_dense"),
    "with out": (lambda: lt.mm(matrix(), lt.ones(3, 2), out=lt.ones(2, 2)), NotImplementedError,
                 "mm with out="),
    "backward": (lambda: matrix().requires_grad_().backward(), lt.GradientError, "reduce it"),
    "a leaf written": (lambda: matrix().requires_grad_().mul_(2), lt.GradientError,
                       "write to a sparse leaf"),
    "scale_grad_by_freq": (
        lambda: nn.Embedding(3, 2, sparse=True, scale_grad_by_freq=True)(lt.tensor([1])),
        ValueError, "leave one of them out"),
    "bags of the greatest": (
        lambda: nn.EmbeddingBag(3, 2, sparse=True, mode="max")(lt.tensor([[1]])), ValueError,
        "leave sparse out"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_what_is_wrong(name: str) -> None:
    function, kind, words = ERRORS[name]
    with pytest.raises(kind, match=words) as caught:
        function()
    assert isinstance(caught.value, lt.LazytenError)


def with_gradient() -> nn.Embedding:
    layer = nn.Embedding(4, 2, sparse=True)
    layer(lt.tensor([1])).sum().backward()
    return layer


def test_optimizers_of_dense_gradients_refuse_sparse_ones_and_change_nothing() -> None:
    layer = with_gradient()
    for optimizer in (lt.optim.Adam(layer.parameters()), lt.optim.RMSprop(layer.parameters())):
        with pytest.raises(lt.GradientError, match="does not support sparse gradients"):
            optimizer.step()
    with pytest.raises(lt.GradientError, match=r"weight_decay=0\.1 is of all elements"):
        lt.optim.SGD(layer.parameters(), lr=0.1, weight_decay=0.1).step()
    layer.weight.grad = layer.weight.grad.to_dense()  # type: ignore[union-attr]
    with pytest.raises(lt.GradientError, match="SparseAdam does not support dense gradients"):
        lt.optim.SparseAdam(layer.parameters()).step()
    with pytest.raises(lt.ArgumentError, match="lr=0"):
        lt.optim.SparseAdam(layer.parameters(), lr=0)


def test_norms_of_sparse_gradients_are_refused_as_in_pytorch() -> None:
    layer = with_gradient()
    for clip in (nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_):
        with pytest.raises(NotImplementedError, match=f"{clip.__name__} of gradients"):
            clip(layer.parameters(), 1.0)


def test_a_sampled_product_is_added_to_a_part_of_the_input() -> None:
    made = lt.sparse.sampled_addmm(matrix().to_sparse_csr(), lt.ones(2, 4), lt.ones(4, 3), beta=0.5,
                                   alpha=2.0)
    assert made.values().tolist() == [9.5, 10.0, 10.5]


def test_what_is_not_held_takes_no_part_in_a_softmax() -> None:
    x = lt.sparse_coo_tensor(WHERE, [-999.0, -1000.0, -1001.0], (2, 3))
    expected = lt.tensor([-1000.0, -1001.0]).softmax(0).tolist()
    assert lt.sparse.softmax(x, 1)._values().tolist() == [1.0, *expected]


def test_a_sum_over_a_sparse_axis_has_each_place_once() -> None:
    total = lt.sparse.sum(matrix(), 0)
    assert total.is_coalesced() and total.indices().tolist() == [[0, 2]]
    assert total.values().tolist() == [4.0, 8.0]


def test_the_switch_of_checks() -> None:
    switch = lt.sparse.check_sparse_tensor_invariants
    assert not switch.is_enabled()
    with switch():
        assert switch.is_enabled()
        with pytest.raises(ValueError, match="not in order"):
            lt.sparse_coo_tensor([[1, 0]], [1.0, 2.0], is_coalesced=True)
        with switch(False):
            assert not switch.is_enabled()
    assert switch(True)(switch.is_enabled)()
    assert not switch.is_enabled()


# ---- no method takes values for all elements -----------------------------------------------------

OF_ANY_KIND = frozenset((
    "dim", "numel", "nelement", "size", "element_size", "is_floating_point", "is_complex",
    "is_signed", "is_contiguous", "get_device", "ndimension", "is_inference", "is_pinned",
    "is_conj", "is_neg", "is_coalesced", "sparse_dim", "dense_dim", "type", "realize",
    "storage_offset", "describe", "is_shared", "cuda"))


METHODS = sorted(name for name in dir(lt.Tensor) if not name.startswith("_")
                 and inspect.isfunction(inspect.getattr_static(lt.Tensor, name)))
CONVERSIONS = frozenset(("bfloat16", "bool", "byte", "cdouble", "cfloat", "char", "clone", "cpu",
                         "cuda", "double", "float", "half", "int", "long", "short"))
"""Their argument says how elements lie in memory, which a sparse tensor's do not."""


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_what_a_method_gives_is_that_of_the_dense_tensor_or_refused(layout: str) -> None:
    arguments = [[], [matrix().coalesce()], [lt.ones(2, 3)], [2], [2.5], [0, 1], [0, 0, 1]]
    for name in METHODS:
        if name in OF_ANY_KIND:
            continue
        for args in arguments[:1] if name in CONVERSIONS else arguments:
            x = matrix().coalesce().to_sparse(layout=getattr(lt, layout))
            try:
                found = getattr(x, name)(*args)
            except (lt.LazytenError, TypeError, AttributeError):
                continue
            dense = [a.to_dense() if isinstance(a, lt.Tensor) else a for a in args]
            compare(found, lambda name=name, dense=dense: getattr(
                matrix().to_dense(), name)(*dense), name)


NOT_OF_DENSE = frozenset(("coalesce", "indices", "values", "crow_indices", "col_indices",
                          "taken_apart", "sparse_mask", "to_sparse", "to_dense", "register_hook",
                          "detach_", "requires_grad_", "retain_grad"))


def compare(found: Any, expected: Callable[[], Any], name: str) -> None:
    if name in NOT_OF_DENSE or not isinstance(found, lt.Tensor | tuple | bool | int | float):
        return
    others = expected()
    if isinstance(found, tuple):
        for one, other in zip(found, others, strict=True):
            compare(one, lambda other=other: other, name)
    elif isinstance(found, lt.Tensor):
        assert found.dtype is others.dtype
        np.testing.assert_allclose(found.to_dense().numpy(), others.to_dense().numpy())
    else:
        assert found == others


REFUSED = ("zeros_like", "exp", "ones_like", "full_like", "rand_like", "randn_like", "cos",
           "where", "einsum", "sort", "max", "logical_not", "isclose", "nonzero", "eq", "dropout")


@pytest.mark.parametrize("name", REFUSED[1:])
def test_functions_that_would_make_zeros_something_else_are_refused(name: str) -> None:
    function: Any = getattr(lt, name)
    options = {"full_like": (2,), "where": (1, 2), "isclose": (matrix(),), "eq": (0,),
               "dropout": (0.5, True)}.get(name, ())
    given = ("ij,jk", matrix(), lt.ones(3, 2)) if name == "einsum" else (matrix(), *options)
    with pytest.raises(NotImplementedError, match="sparse"):
        function(*given)


# ---- jitted functions ----------------------------------------------------------------------------

JITTED: dict[str, Callable[[Any, Any], Any]] = {
    "@": lambda a, x: a @ x, "dense first": lambda a, x: x.t() @ a.t(), "sum": lambda a, x: a.sum(),
    "to_dense": lambda a, x: a.to_dense(), "times": lambda a, x: (a * 2 + a).to_dense(),
    "times dense": lambda a, x: (a * x.t()[:2]).to_dense(),
    "sparse sum": lambda a, x: lt.sparse.sum(a, 1).to_dense(),
    "a sparse result": lambda a, x: a * x.sum(), "softmax": lambda a, x: lt.sparse.softmax(a, 1),
    "plus": lambda a, x: x.t()[:2] + a,
}


@pytest.mark.parametrize("name", JITTED)
@pytest.mark.parametrize("kind", ["coo", "csr"])
def test_a_jitted_function_takes_and_gives_sparse_tensors(name: str, kind: str) -> None:
    if kind == "csr" and name in ("softmax", "sum", "sparse sum"):
        return
    jitted = lt.jit(JITTED[name])
    for factor in (1.0, 2.0, -3.0):
        a = matrix().coalesce() * factor
        a = a.to_sparse_csr() if kind == "csr" else a
        x = lt.arange(9.0).reshape(3, 3) * factor
        found, expected = jitted(a, x), JITTED[name](a, x)
        assert found.layout is expected.layout
        np.testing.assert_allclose(found.to_dense().numpy(), expected.to_dense().numpy(), rtol=1e-6)


def test_what_looks_at_indices_is_run_for_real_in_a_jitted_function() -> None:
    jitted = lt.jit(lambda a: a.coalesce() * 2)
    for factor in (1, 2, 3):
        found = jitted(matrix() * factor).values().tolist()
        assert found == [6 * factor, 8 * factor, 10 * factor]


def test_an_index_outside_is_found_when_a_jitted_function_has_computed_it() -> None:
    def product(i: Any, x: Any) -> Any:
        return lt.sparse_coo_tensor(i, lt.ones(2), (2, 3)) @ x
    jitted = lt.jit(product)
    assert jitted(lt.tensor([[0, 1], [2, 0]]), lt.ones(3, 1)).tolist() == [[1.0], [1.0]]
    with pytest.raises(IndexError):
        jitted(lt.tensor([[0, 1], [2, 3]]), lt.ones(3, 1)).numpy()


def test_a_jitted_step_trains_values_through_a_sparse_product() -> None:
    def run(wrap: Callable[[Any], Any]) -> list[float]:
        v = lt.tensor([1.0, 2.0, 3.0], requires_grad=True)
        optimizer = lt.optim.Adam([v], lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            a = lt.sparse_coo_tensor(WHERE, v, (2, 3))
            loss = ((lt.sparse.mm(a, x) - 1) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()
        wrapped = wrap(step)
        return [wrapped(lt.ones(3, 2) * i).item() for i in range(4)]
    assert run(lt.jit) == pytest.approx(run(lambda f: f), rel=1e-6)


@pytest.mark.parametrize("kind", [lt.optim.SGD, lt.optim.SparseAdam])
def test_a_jitted_step_of_a_layer_with_sparse_gradients_is_as_one_that_is_not(kind: Any) -> None:
    def run(wrap: Callable[[Any], Any]) -> Any:
        lt.manual_seed(0)
        layer = nn.Embedding(5, 2, sparse=True)
        optimizer = kind(layer.parameters(), lr=0.5)

        def step(labels: Any) -> None:
            optimizer.zero_grad()
            (layer(labels) ** 2).sum().backward()
            assert layer.weight.grad.is_sparse  # type: ignore[union-attr]
            optimizer.step()
        wrapped = wrap(step)
        for labels in ([1, 1], [0, 3], [3, 3]):
            wrapped(lt.tensor(labels))
        return layer.weight.detach().numpy()
    np.testing.assert_allclose(run(lt.jit), run(lambda f: f), rtol=1e-6)


# ---- transforms of functions ---------------------------------------------------------------------

def test_transforms_go_through_products_with_what_functions_find_by_name() -> None:
    a, x = matrix(), lt.arange(3.0)
    assert lt.func.grad(lambda x: (a @ x).sum())(x).tolist() == [4.0, 0.0, 8.0]
    assert lt.vmap(lambda x: a @ x)(lt.ones(2, 3)).tolist() == [[3.0, 9.0]] * 2
    assert lt.func.jacrev(lambda x: a @ x)(x).tolist() == a.to_dense().tolist()
    assert lt.func.jvp(lambda x: a @ x, (x,), (x,))[1].tolist() == [6.0, 10.0]


@pytest.mark.parametrize("function", [
    lambda: lt.vmap(lambda a: a.to_dense())(lt.eye(2).to_sparse()),
    lambda: lt.vmap(lambda x: matrix() * x.sum())(lt.ones(2, 3)),
    lambda: lt.func.grad(lambda a: a.sum())(matrix())])
def test_transforms_refuse_sparse_arguments_and_results(function: Callable[[], Any]) -> None:
    with pytest.raises(lt.LazytenError, match="a sparse tensor or a DTensor; let it find it"):
        function()


# ---- gradients by finite differences -------------------------------------------------------------

@pytest.mark.parametrize("seed", [0, 1])
def test_gradients_are_those_of_finite_differences(seed: int) -> None:
    rng, n, nnz = np.random.default_rng(seed), 3, 5
    places = lt.tensor(rng.integers(0, n, (2, nnz)))
    dense = lt.tensor(rng.normal(size=(n, 2)), requires_grad=True)
    values = lt.tensor(rng.normal(size=nnz), requires_grad=True)

    def function(v: Any, d: Any) -> Any:
        a = lt.sparse_coo_tensor(places, v, (n, n))
        return lt.sparse.softmax(a * a + a, 1) @ d + (a @ a).to_dense() @ d + a.t() @ d
    assert lt.autograd.gradcheck(function, (values, dense))


# ---- modules, copies, files ----------------------------------------------------------------------

class Graph(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("links", matrix())
        self.register_buffer("rows", matrix().to_sparse_csr())

    def forward(self, x: Any) -> Any:
        return self.links @ x + self.rows @ x


def test_buffers_are_converted_copied_saved_and_loaded(tmp_path: Path) -> None:
    module = Graph()
    expected = module(lt.ones(3, 1)).numpy()
    assert module.double().links.dtype is lt.float64
    module.float()
    other = copy.deepcopy(module)
    other.links.zero_()
    assert other.links._nnz() == 0
    np.testing.assert_array_equal(module(lt.ones(3, 1)).numpy(), expected)
    path = tmp_path / "state.safetensors"
    lt.save(module.state_dict(), path)
    state = lt.load(path)
    assert state["links"].layout is lt.sparse_coo
    assert state["rows"].layout is lt.sparse_csr
    other.load_state_dict(state)
    np.testing.assert_array_equal(other(lt.ones(3, 1)).numpy(), expected)


def test_a_saved_leaf_is_one_again(tmp_path: Path) -> None:
    lt.save({"x": matrix().coalesce().requires_grad_()}, tmp_path / "x")
    x = lt.load(tmp_path / "x")["x"]
    assert x.requires_grad
    assert x.is_leaf
    assert x.is_coalesced()
    assert copy.deepcopy(x).requires_grad


def test_sparse_tensors_are_saved_in_lists_and_tuples(tmp_path: Path) -> None:
    x = matrix().coalesce()
    lt.save({"all": [(x, 1), [lt.ones(2), x.to_sparse_csr()]]}, tmp_path / "x")
    (first, one), (ones, second) = lt.load(tmp_path / "x")["all"]
    assert (one, ones.tolist()) == (1, [1, 1])
    assert first.layout is lt.sparse_coo and second.layout is lt.sparse_csr
    for found in (first, second):
        assert found.to_dense().tolist() == x.to_dense().tolist()


def test_a_copy_is_independent_and_detach_shares_values() -> None:
    x = matrix()
    same, other = x.detach(), x.clone()
    x._values().mul_(2)
    assert same._values().tolist() == [6.0, 8.0, 10.0]
    assert other._values().tolist() == [3.0, 4.0, 5.0]


def test_retained_gradients_and_hooks_are_sparse() -> None:
    seen = []
    x = matrix().requires_grad_()
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: seen.append(g))
    (y @ lt.ones(3, 1)).sum().backward()
    assert y.grad.is_sparse
    assert seen[0].is_sparse
    assert x.grad.coalesce().values().tolist() == [2.0, 2.0, 2.0]
    x.grad = None
    assert x.grad is None


def test_tensors_are_compared_and_realized() -> None:
    x, y = matrix(), matrix().coalesce() * 2
    lt.realize(x, y)
    lt.testing.assert_close(x * 2, y)
    for other in (y * 1.1, y.to_dense(), y.to_sparse_csr(), y.double()):
        with pytest.raises(AssertionError):
            lt.testing.assert_close(y, other)


def test_on_meta_there_are_shapes() -> None:
    x = lt.sparse_coo_tensor(lt.empty(2, 3, dtype=lt.int64, device="meta"),
                             lt.empty(3, device="meta"), (4, 5), device="meta")
    assert (x @ lt.empty(5, 2, device="meta")).shape == (4, 2)
    assert x.to_dense().shape == (4, 5)
    assert "nnz=3" in repr(x)


def test_on_another_device(device: str) -> None:
    x = matrix().to(device)
    assert x.device == device
    assert x._indices().device == device
    assert (x @ lt.ones(3, 2, device=device)).tolist() == [[3.0, 3.0], [9.0, 9.0]]
    assert x.cpu().to_dense().tolist() == matrix().to_dense().tolist()


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0,), (2, 0, 3)])
def test_what_has_no_elements_is_made_sparse_and_computed_with(shape: tuple[int, ...]) -> None:
    x = lt.zeros(shape).to_sparse()
    assert x._nnz() == 0 and x.to_dense().shape == shape
    assert (lt.ones(shape) + x).shape == shape and x.sum().item() == 0
    if len(shape) == 2:
        n, m = shape
        w = lt.ones(m, 2, requires_grad=True)
        product = x @ w
        product.sum().backward()
        assert product.tolist() == [[0, 0]] * n
        assert w.grad is not None and w.grad.tolist() == [[0, 0]] * m
        assert lt.bmm(lt.zeros(2, n, m).to_sparse(), lt.ones(2, m, 4)).shape == (2, n, 4)
