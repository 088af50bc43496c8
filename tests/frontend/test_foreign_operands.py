"""Operands of classes with operators of their own, which tensors leave the work to."""
from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest

import lazyten as lt

OPERATORS = {"radd": operator.add, "rsub": operator.sub, "rmul": operator.mul,
             "rtruediv": operator.truediv, "rfloordiv": operator.floordiv, "rmod": operator.mod,
             "rpow": operator.pow, "rmatmul": operator.matmul, "rand": operator.and_,
             "ror": operator.or_, "rxor": operator.xor, "rlshift": operator.lshift,
             "rrshift": operator.rshift}
COMPLEX = ("radd", "rsub", "rmul", "rtruediv", "rpow", "rmatmul")


def of_class(base: type) -> Any:
    """An instance of a class whose operators give their names and the other operand."""
    methods = {f"__{name}__": lambda self, other, name=name: (name, other) for name in OPERATORS}
    return type("Own", (base,), methods)(*([(1, 2)] if base is tuple else []))


@pytest.mark.parametrize("base", [object, tuple])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_left_to_a_class_that_has_its_own(base: type, name: str) -> None:
    x, other = lt.tensor([1, 2]), of_class(base)
    for left in (x, x * 1j) if name in COMPLEX else (x,):
        found, given = OPERATORS[name](left, other)
        assert found == name and given is left


def test_a_method_and_a_class_without_operators_are_still_errors() -> None:
    x = lt.tensor([1, 2])
    calls: list[Callable[[], Any]] = [lambda: x.add(of_class(tuple)), lambda: x + object(),
                                      lambda: lt.mul(x, of_class(object))]
    for call in calls:
        with pytest.raises(lt.DTypeError, match="must be a tensor, an array or a number"):
            call()
    assert x.add((1, 2)).tolist() == [2, 4]


@pytest.mark.parametrize("other", [object(), {}, int, None, "1"],
                         ids=["object", "dict", "class", "None", "text"])
def test_another_object_is_not_equal_to_a_tensor(other: Any) -> None:
    for x in (lt.ones(2), lt.ones(2) * 1j, lt.eye(2).to_sparse()):
        assert (x == other) is False and (x != other) is True
        assert (other == x) is False and other in [x, other]
    assert lt.ones(()) == ANY
    with pytest.raises(NotImplementedError, match="== is not there for sparse"):
        _ = lt.eye(2).to_sparse() == 1


def test_functions_that_are_attributes_of_a_class_are_not_given_its_instance() -> None:
    class Net(lt.nn.Module):
        """Functions as attributes, which are none of Python's to PyTorch."""

        act, conv, plus = lt.relu, lt.nn.functional.conv1d, lt.add

        def forward(self, x: lt.Tensor) -> lt.Tensor:
            return self.plus(self.act(self.conv(x, x)), x)  # type: ignore[arg-type, call-arg]

    x = lt.tensor([[[2.0]]])
    for _ in range(3):
        assert Net()(x).item() == 6
    with pytest.raises(lt.DTypeError, match="input is Net"):
        lt.nn.functional.conv2d(Net(), x)  # type: ignore[arg-type]


def test_functions_that_make_or_join_tensors_are_no_methods_of_a_class_either() -> None:
    class Rows:
        """Functions as attributes."""

        join, stack, zeros, count, of, like = (lt.cat, lt.vstack, lt.zeros, lt.arange, lt.tensor,
                                               lt.full_like)
        array, wider, default, numbers = (lt.from_numpy, lt.promote_types, lt.get_default_dtype,
                                          lt.range)

    rows: Any = Rows()
    x = lt.ones(2)
    for _ in range(2):
        assert rows.join([x, x]).shape == (4,) and rows.stack([x, x]).shape == (2, 2)
        assert rows.zeros(2, 3).shape == (2, 3) and rows.count(3).tolist() == [0, 1, 2]
        assert rows.of([1.0]).tolist() == [1] and rows.like(x, 2).tolist() == [2, 2]
        assert rows.array(np.ones(3)).shape == (3,) and rows.default() is lt.float32
        assert rows.wider(lt.float32, lt.float64) is lt.float64
        assert rows.numbers(0, 2).tolist() == [0, 1, 2]
    assert pickle.loads(pickle.dumps(lt.cat)) is lt.cat
    assert pickle.loads(pickle.dumps(lt.range)) is lt.range
    with pytest.raises(lt.DTypeError, match="cat of a object"):
        lt.cat(object())  # type: ignore[arg-type]
