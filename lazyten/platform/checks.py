"""`lt._check` and its like: what PyTorch's own code checks its arguments with, and packages too."""
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import DTypeError

Message = Callable[[], Any] | None


def _check_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """An error of this type, which says what `message` gives, unless `cond` holds."""
    if not isinstance(cond, bool):
        raise DTypeError(f"_check: a condition is a bool, not {type(cond).__name__} {cond!r:.40}; "
                         f"look at a tensor by bool(), or use _check_tensor_all")
    if message is not None and not callable(message):
        raise DTypeError(f"_check: message is a function that gives a text, not {message!r:.40}; "
                         f"write lambda: {message!r:.40}")
    if not cond:
        raise error_type("Expected cond to be True, but got False" if message is None
                         else str(message()))


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """The same unless all elements of a tensor of bool hold."""
    if not isinstance(cond, Tensor):
        raise DTypeError(f"_check_tensor_all: a condition is a tensor of bool, not "
                         f"{type(cond).__name__} {cond!r:.40}")
    _check_with(error_type, bool(cond.all()), message)


_check = partial(_check_with, RuntimeError)
_check_index = partial(_check_with, IndexError)
_check_value = partial(_check_with, ValueError)
_check_type = partial(_check_with, TypeError)
_check_not_implemented = partial(_check_with, NotImplementedError)
_check_tensor_all = partial(_check_tensor_all_with, RuntimeError)
