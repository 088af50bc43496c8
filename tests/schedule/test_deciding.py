"""A value that decides something is the same bits wherever it is read: in one kernel, in several,
in several realizations, and in jitted functions."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensor_values import Array

import lazyten as lt
from lazyten.ir.node import Node, toposort
from lazyten.schedule.deciding import in_several_places, is_inexact, read_by_deciding

Tensor = lt.Tensor

VALUES: dict[str, Callable[[Tensor], Tensor]] = {
    "products with itself": lambda x: x @ x.T,
    "einsum": lambda x: lt.einsum("ij,kj->ik", x, x),
    "sums of rows": lambda x: (x * x.exp()).sum(1),
    "sums of columns": lambda x: (x * x.exp()).sum(0),
    "deviations": lambda x: x.std(1),
    "softmax by a mean": lambda x: x.softmax(1) * x.mean(),
    "running sums": lambda x: x.cumsum(0) / 3,
    "products": lambda x: (1 + x / 4).prod(1),
    "norms of differences": lambda x: (x[None] - x[:, None]).square().sum(2).sqrt(),
    "layer norm": lambda x: lt.nn.functional.layer_norm(x, x.shape[1:]),
    "half precision": lambda x: (x.half() @ x.half().T).float(),
}
"""What the last bits of depend on the loops that compute it."""


def kept(v: Tensor) -> list[Tensor]:
    """What is chosen from v along its last axis, each a part of it."""
    n = v.shape[-1]
    first = v.argmax(-1, keepdim=True)
    return [v.sort(-1).values, v.sort(-1, descending=True).values, v.topk((n + 1) // 2).values,
            v.median(-1).values, v.kthvalue((n + 1) // 2).values, v.amax(-1), v.amin(-1), v.max(),
            lt.gather(v, -1, first), lt.where(v == v.amax(-1, keepdim=True), v, v.amax()),
            v.gather(-1, v.argsort(-1)), v.cummax(-1).values]


COUNTS: list[Callable[[Tensor], Tensor]] = [
    lambda v: (v == v.amax(-1, keepdim=True)).any(-1).logical_not(),
    lambda v: v < v.amin(-1, keepdim=True),
    lambda v: v.argsort(-1).sort(-1).values - lt.arange(v.shape[-1], device=v.device),
    lambda v: v.sort(-1).values.diff(dim=-1) < 0,
    lambda v: (v.sort(-1).values[..., None] == v[..., None, :]).any(-1).logical_not(),
    lambda v: (v.topk(2).values[..., None] == v[..., None, :]).any(-1).logical_not(),
    lambda v: lt.gather(v, -1, v.argmax(-1, keepdim=True)) != v.amax(-1, keepdim=True),
    lambda v: (v > v.flip(-1)) & (v.flip(-1) > v),
    lambda v: v.floor().flip(-1) != v.flip(-1).floor(),
    lambda v: (v > 0).long() + (v <= 0).long() - 1,
]
"""Zeros, whatever the values are, as long as each is one value."""


def tensors(seed: int, rows: int, columns: int, device: str) -> Tensor:
    rng = np.random.default_rng(seed)
    return lt.tensor(rng.standard_normal((rows, columns)).astype(np.float32), device=device)


SIZES = st.integers(2, 8) | st.sampled_from([12, 16, 33])


@pytest.mark.slow
@given(of=st.sampled_from(list(VALUES)), rows=SIZES, columns=SIZES, seed=st.integers(0, 1 << 20),
       jitted=st.booleans())
def test_what_is_chosen_is_an_element_of_what_it_is_chosen_from(
        device: str, of: str, rows: int, columns: int, seed: int, jitted: bool) -> None:
    def both(x: Tensor) -> list[Tensor]:
        v = VALUES[of](x)
        return [v, *kept(v)]
    x = tensors(seed, rows, columns, device)
    v, *found = map(Tensor.numpy, (lt.jit(both) if jitted else both)(x))
    for part in found:
        assert np.isin(part, v).all()
    np.testing.assert_array_equal(found[0], np.sort(v, -1))


@pytest.mark.few(15)
@pytest.mark.parametrize("of", ["sums of rows", "sums of columns", "deviations", "einsum"])
@pytest.mark.parametrize("choose", [Tensor.max, lambda v: v.sort(-1).values,
                                    lambda v: v.flatten().median()],
                         ids=["max", "sort", "median"])
def test_what_was_chosen_before_is_an_element_of_what_is_computed_later(
        device: str, of: str, choose: Callable[[Tensor], Tensor]) -> None:
    for rows, columns in ((2, 7), (3, 5), (4, 8), (6, 12)):
        for seed in range(3):
            v = VALUES[of](tensors(seed, rows, columns, device))
            found = choose(v).numpy()
            assert np.isin(found, (v + 0).numpy()).all()


@pytest.mark.slow
@given(of=st.sampled_from(list(VALUES)), rows=SIZES, columns=SIZES, seed=st.integers(0, 1 << 20),
       jitted=st.booleans())
def test_comparisons_count_as_those_of_one_value(device: str, of: str, rows: int, columns: int,
                                                 seed: int, jitted: bool) -> None:
    x = tensors(seed, rows, columns, device)
    for number, count in enumerate(COUNTS):
        def counted(x: Tensor, count: Callable[[Tensor], Tensor] = count) -> Tensor:
            return count(VALUES[of](x))
        found = (lt.jit(counted) if jitted else counted)(x)
        assert not found.numpy().any(), number


# ---- which values need it ------------------------------------------------------------------------

def inexact(x: Tensor) -> list[Node]:
    return [n for n in toposort([x.node]) if is_inexact(n)]


def product() -> Tensor:
    return lt.rand(3, 4).realize() @ lt.rand(4, 5).realize()


def places(x: Tensor, *stored: Node) -> list[Node]:
    return in_several_places(toposort([x.node]), {n: i for i, n in enumerate((x.node, *stored))})


def test_a_value_read_at_one_place_is_not_stored_for_what_it_decides() -> None:
    assert places(product().relu() + 1) == []
    v = product()
    assert read_by_deciding(toposort([(v > 0).node])) == {*inexact(v)}
    assert places(lt.where(v > 0, v * 2, v / 2)) == []
    rows = v.sum(1, keepdim=True)  # read at the row of each element, by two ways
    assert places(lt.where(rows > 0, (v - rows).exp(), rows)) == []


@pytest.mark.parametrize("choice", [
    lambda v: v == v.amax(1, keepdim=True), lambda v: v.argmax(1), lambda v: v > v.flip(1),
    lambda v: (v > v.T[:3, :1]).float() * v, lambda v: v.floor() + v.flip(0),
    lambda v: v[:, 1:] - v[:, :-1].long()],
    ids=["extremes", "positions", "orders", "masks", "roundings", "integers"])
def test_a_value_that_decides_at_two_places_is_stored(choice: Callable[[Tensor], Tensor]) -> None:
    v = product()
    assert places(choice(v)) == inexact(v)


def test_a_value_that_decides_nothing_may_be_computed_at_several_places() -> None:
    v = product()
    assert places(v + v.flip(1) + v.exp().sum()) == []


def test_a_value_that_two_kernels_read_is_stored_if_it_decides() -> None:
    v = product()
    first = (v > 0).float()
    assert places(first.sum(0) * v.sum(0), first.sum(0).node) == inexact(v)


def test_a_value_nobody_can_read_again_is_not_stored() -> None:
    x = lt.rand(4, 8).realize()

    def stored(keep: bool) -> str:
        v = x.exp().sum(1)
        found = v.max()
        if not keep:
            del v
        return lt.explain(found)
    assert "2 kernels" in stored(keep=True)
    assert "1 kernel;" in stored(keep=False)


def as_array(x: Tensor) -> Array:
    return x.numpy()


@pytest.mark.few(1)
def test_elements_that_are_constants_in_one_kernel_have_the_bits_of_the_others(device: str) -> None:
    for n in range(2, 40):
        x = lt.arange(n, device=device).float() * 0.37 + 0.1
        for f in (Tensor.sin, Tensor.exp, Tensor.log2, lambda v: v ** 1.7, lambda v: 5.3 % v):
            np.testing.assert_array_equal(as_array(f(x)[n - 1:]), as_array(f(x))[n - 1:])
            assert bool((f(x)[0] == f(x)[:1]).all())
