"""Subclasses of Tensor that programs write, attributes of tensors, and names of their types."""
from __future__ import annotations

import copy
import dataclasses
import inspect
from typing import Any, ClassVar, Optional

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
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0] and type(picture[1:] * 2) is Picture
    assert type(picture.detach()) is type(lt.exp(picture)) is type(1 - picture) is type(picture.T)
    assert type(picture.T) is type(picture.data) is Picture
    assert type(copy.deepcopy(picture)) is type(lt.stack([x, picture])) is Picture
    assert type(picture.max(0)) is type(x.max(0)) and type(picture.sort()[1]) is Picture
    assert type(x * 2) is lt.Tensor


def test_gradients_flow_to_what_a_subclass_is_made_of() -> None:
    x = lt.ones(3, requires_grad=True)
    (Picture(x * 2) ** 2).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [8.0] * 3
    made: Any = lt.Tensor._make_subclass(Picture, x, True)
    assert type(made) is Picture and made.requires_grad and made.is_leaf
    with pytest.raises(lt.ArgumentError, match=r"as_subclass\(<class 'int'>\): give a subclass"):
        x.as_subclass(int)


class Watched(lt.Tensor):
    """A tensor that remembers the names of operations."""

    names: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.names.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


def test_a_subclass_is_given_every_operation() -> None:
    x = lt.ones(2, 2).as_subclass(Watched)
    Watched.names.clear()
    y: Any = lt.nn.functional.relu(x.add(1)) @ lt.eye(2)
    lt.stack([lt.ones(2, 2), y]).sum(0)
    x[0] = 3
    assert Watched.names == ["add", "relu", "matmul", "stack", "sum", "__setitem__"]
    assert type(y) is Watched and x[0].tolist() == [3.0, 3.0]
    with lt._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is lt.Tensor
    weight = lt.nn.Parameter(lt.ones(2))
    assert type(weight * 2) is lt.Tensor and lt.overrides.has_torch_function((1, x))
    assert not lt.overrides.has_torch_function((weight, lt.eye(2)))


class Diagonal:
    """No tensor, but some functions take it."""

    def __init__(self, value: float) -> None:
        self.value = value

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert types == {cls}
        return args[0].value if func is lt.mean else NotImplemented


@pytest.mark.parametrize("function", [
    lt.broadcast_tensors, lt.meshgrid, lt.block_diag, lt.cartesian_prod, lt.atleast_1d,
    lt.atleast_2d, lt.atleast_3d, lt.chain_matmul], ids=lambda f: f.__name__)
def test_a_class_that_nobody_knows_takes_functions_of_several_tensors_over(function: Any) -> None:
    class Taker:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
                               ) -> Any:
            return func, types, len(args)

    assert function(Taker(), lt.ones(2, 2)) == (function, {Taker}, 2)


def test_a_class_that_is_no_tensor_takes_functions_over() -> None:
    assert lt.mean(Diagonal(3.0)) == lt.mean(Diagonal(3.0)) == 3.0  # pyright: ignore
    for x in (lt.ones(2), Diagonal(2.0)):
        with pytest.raises(TypeError, match="add of Diagonal: the __torch_function__"):
            lt.add(x, Diagonal(1.0))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unsupported operand"):
        lt.ones(2) + Diagonal(1.0)  # type: ignore[operator]


def test_of_two_classes_the_subclass_is_asked_first() -> None:
    class Louder(Watched):
        """A class of that class."""

    result: Any = lt.ones(2).as_subclass(Watched) + lt.ones(2).as_subclass(Louder)
    assert type(result) is Louder
    with pytest.raises(TypeError, match="gave NotImplemented"):
        lt.add(lt.ones(2).as_subclass(Watched), Picture([1.0, 2.0]))


def test_a_mode_is_given_every_operation_within_its_block() -> None:
    class Names(lt.overrides.TorchFunctionMode):
        """What is called, by name."""

        def __init__(self) -> None:
            self.names: list[str] = []

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None
                               ) -> Any:
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Names() as outer:
        lt.ones(2).exp()
        with Names() as inner:
            lt.ones(2).sin() + 1
    lt.ones(2).cos()
    assert [n for n in outer.names if n != "ones"] == ["exp", "sin", "add"]
    assert [n for n in inner.names if n != "ones"] == ["sin", "add"]


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


def test_a_histogram_has_its_parts_by_name() -> None:
    found: Any = lt.histogram(lt.arange(6.0), 3)
    assert found.hist.tolist() == [2.0] * 3 and found.bin_edges.shape == (4,)
