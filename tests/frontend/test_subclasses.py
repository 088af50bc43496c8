"""Subclasses of Tensor that programs write, attributes of tensors, and names of their types."""
from __future__ import annotations

import dataclasses
import inspect
import warnings
from typing import Any, Optional

import pytest

import lazyten as lt


class Picture(lt.Tensor):
    """A tensor with a caption, as PyTorch's users write one."""

    caption: str

    def __new__(cls, data: Any, *, caption: str = "") -> Any:
        """A picture of these values."""
        result = lt.as_tensor(data).as_subclass(cls)
        result.caption = caption
        return result


def test_a_subclass_holds_the_tensor_that_it_is_made_of() -> None:
    x = lt.arange(4.0)
    picture = Picture(x, caption="four")
    assert type(picture) is Picture and isinstance(picture, lt.Tensor)
    assert picture.caption == "four" and picture.tolist() == [0.0, 1.0, 2.0, 3.0]
    picture.add_(1)
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0] and type(picture[1:] * 2) is lt.Tensor


def test_gradients_flow_to_what_a_subclass_is_made_of() -> None:
    x = lt.ones(3, requires_grad=True)
    (Picture(x * 2) ** 2).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [8.0] * 3
    made: Any = lt.Tensor._make_subclass(Picture, x, True)
    assert type(made) is Picture and made.requires_grad and made.is_leaf
    with pytest.raises(lt.ArgumentError, match=r"as_subclass\(<class 'int'>\): give a subclass"):
        x.as_subclass(int)


def test_a_subclass_that_wants_to_take_operations_over_is_told_once_that_it_does_not() -> None:
    class Watching(lt.Tensor):
        """A class with PyTorch's hook of operations."""

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
                               ) -> Any:
            raise AssertionError
    with pytest.warns(UserWarning, match="Watching.__torch_function__ is not called"):
        x = lt.ones(2).as_subclass(Watching)
    assert type(x + 1) is lt.Tensor
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lt.ones(2).as_subclass(Watching)


def test_a_subclass_with_an_initializer_of_its_own() -> None:
    class Named(lt.Tensor):
        """One that makes itself as Tensor does."""

        def __init__(self, data: Any, title: str) -> None:
            super().__init__(data)
            self.title = title
    assert Named([1, 2], "a").title == "a" and Named([1, 2], "a").tolist() == [1.0, 2.0]


def test_tensors_take_attributes_and_results_have_none() -> None:
    x = lt.ones(2)
    x.mark = 3
    assert x.mark == 3 and not hasattr(x + 0, "mark") and not hasattr(x[:], "mark")


def test_writes_are_counted() -> None:
    x = lt.zeros(3)
    before = x._version
    x.add_(1)
    x[1:].mul_(2)
    assert x._version == before + 2 == x[0]._version


def test_types_of_tensors_are_classes_that_annotations_name() -> None:
    def function(x: lt.LongTensor | None = None, y: Optional[lt.FloatTensor] = None) -> None:  # noqa: UP045
        """Annotated, as programs annotate."""
    assert inspect.isclass(lt.LongTensor) and isinstance(lt.arange(3), lt.LongTensor)
    assert not isinstance(lt.arange(3), lt.FloatTensor | lt.BoolTensor)
    assert lt.FloatTensor | None  # evaluated, as without `from __future__ import annotations`
    assert lt.FloatTensor([1, 2]).dtype is lt.float32 and lt.LongTensor(2, 3).shape == (2, 3)
    assert repr(lt.LongTensor) == "lazyten.LongTensor" and function() is None


def test_an_element_type_is_no_dataclass() -> None:
    """Libraries take the fields of dataclasses for parts of a batch."""
    assert not dataclasses.is_dataclass(lt.float32)
