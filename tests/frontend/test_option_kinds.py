"""An option of a kind that its operation does not take is a TypeError, whatever it led to."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.nn import functional as F

X = lt.ones(3, 4)


@pytest.mark.parametrize(("use", "message"), [
    (lambda: lt.cdist(X, lt.ones(3, 3), lt.tensor([0, 1])), "cdist: p is Tensor"),
    (lambda: F.max_pool2d(X, X), "max_pool2d: kernel_size is Tensor"),
    (lambda: F.max_pool2d(lt.ones(3, 4, 4, 4, 4), "a"), "max_pool2d: kernel_size is str 'a'"),
    (lambda: X.diagonal(X), "diagonal: the offset is a whole number"),
    (lambda: X.cholesky(9), "cholesky: upper is int 9; it takes bool"),
    (lambda: X.clone(memory_format=X), "memory_format=tensor")])
def test_it_is_a_type_error_that_names_it(use: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message) as caught:
        use()
    assert isinstance(caught.value, lt.LazytenError)


def test_an_option_of_a_kind_that_is_taken_is_not_to_blame() -> None:
    for axis in (9, np.int64(9), lt.tensor(9)):
        with pytest.raises(IndexError, match="axis 9 is outside") as caught:
            X.sum(axis)  # type: ignore[call-overload]
        assert not isinstance(caught.value, TypeError)
    with pytest.raises(lt.ShapeError) as shape:
        F.max_pool2d(X[0], np.int64(2))  # type: ignore[arg-type]
    assert not isinstance(shape.value, TypeError)


def test_types_that_an_operation_is_not_for_are_named_as_in_pytorch() -> None:
    for use in (lambda: X ^ X, lambda: lt.gcd(X, X), lambda: lt.nextafter(X.int(), X.int())):
        with pytest.raises(NotImplementedError) as caught:
            use()
        assert isinstance(caught.value, lt.DTypeError)


def test_windows_are_of_two_types() -> None:
    for dtype in (lt.int64, lt.float16):
        with pytest.raises(ValueError, match="float32 or float64") as caught:
            lt.signal.windows.hann(5, dtype=dtype)
        assert isinstance(caught.value, TypeError)


def test_a_parameter_shares_the_memory_of_its_tensor() -> None:
    x = lt.zeros(3)
    p = lt.nn.Parameter(x)
    x.fill_(2)
    assert p.tolist() == [2, 2, 2] and p.is_leaf and not x.requires_grad
    (p * p).sum().backward()
    with lt.no_grad():
        p -= p.grad
    assert x.tolist() == [-2, -2, -2] and x.grad is None
    frozen = lt.nn.Parameter(y := lt.zeros(2, 4), requires_grad=False)
    y[:, ::2] = 1
    assert frozen.tolist() == [[1, 0, 1, 0]] * 2


def test_a_parameter_of_what_is_not_alone_is_a_copy() -> None:
    whole = lt.zeros(4)
    part = lt.nn.Parameter(whole[:2])
    again = lt.nn.Parameter(part.data)
    with lt.no_grad():
        part += 1
    assert whole.tolist() == [0] * 4 and again.tolist() == [0, 0]
    w = lt.ones(2, requires_grad=True)
    assert lt.nn.Parameter(w) is not w and w.requires_grad and w.is_leaf


def test_what_views_of_a_tensor_show_stays_the_tensors_when_a_parameter_is_made_of_it() -> None:
    x = lt.zeros(3)
    views = x[1:], x.detach()
    p = lt.nn.Parameter(x)
    x[2] = 5
    views[0][0] = 7
    assert x.tolist() == views[1].tolist() == [0, 7, 5] and views[0].tolist() == [7, 5]
    assert p.tolist() == [0, 0, 0] and not x.requires_grad
    del views
    again = lt.nn.Parameter(x)
    x[0] = 1
    assert again.tolist() == [1, 7, 5]


def test_numbers_and_sizes_may_be_numpys() -> None:
    assert [part.tolist() for part in lt.arange(5).chunk(np.uint8(2))] == [[0, 1, 2], [3, 4]]
    x = lt.rand(1, 2, 4, 6)
    found = lt.nn.functional.adaptive_avg_pool2d(x, np.array([2, 3]))
    assert found.shape == (1, 2, 2, 3)
    assert lt.nn.functional.adaptive_avg_pool2d(x, np.array(2)).shape == (1, 2, 2, 2)
