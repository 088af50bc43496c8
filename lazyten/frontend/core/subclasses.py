"""Subclasses of Tensor that programs write: a tensor as an instance of one."""
from __future__ import annotations

from typing import Any, TypeVar, cast

from lazyten.frontend.core import overriding
from lazyten.frontend.core.tensor_core import Tensor, TensorCore
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError
from lazyten.support.location import is_our_class

S = TypeVar("S")


class SubclassMethods(TensorCore[Tensor]):
    """How a tensor becomes an instance of a subclass, which may have attributes of its own.

    What an operation on instances of it gives are instances, too: `__torch_function__`, which
    a subclass may define anew, is given each operation.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """A class whose `__new__` makes instances of tensors has nothing left to initialize."""
        super().__init_subclass__(**options)
        if "__new__" in vars(cls) and "__init__" not in vars(cls):
            cls.__init__ = _nothing  # type: ignore[method-assign]
        if not is_our_class(cls) and overriding.takes_over(cls):
            overriding.takers.add(cls)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What an operation gives, with tensors as instances of this class; NotImplemented if
        another class takes part that is no part of this one."""
        if not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        with overriding.NotAsked():
            result = func(*args, **(kwargs or {}))
        return overriding.as_class(result, cls)

    def as_subclass(self, cls: type[S]) -> S:
        """The same tensor as an instance of a subclass of Tensor: values and gradients are shared.
        ArgumentError for another class."""
        if not (isinstance(cls, type) and issubclass(cls, TensorCore)):
            raise ArgumentError(f"as_subclass({cls!r:.60}): give a subclass of lazyten.Tensor")
        result: Any = object.__new__(cls)
        result._storage, result._moves = self._storage, self._moves
        result._lineage, result._grad, result._value = self._lineage, None, None
        if result._lineage is not None and tracing.active is not None:
            tracing.made(result)
        return cast(S, result)

    @staticmethod
    def _make_subclass(cls: type[S], data: Any, require_grad: bool = False) -> S:
        """The values of a tensor, detached, as an instance of a subclass of Tensor."""
        result: Any = data.detach().as_subclass(cls)
        return cast(S, result.requires_grad_() if require_grad else result)


def _nothing(self: Any, *args: Any, **options: Any) -> None:
    """What initializes an instance that is made already."""
