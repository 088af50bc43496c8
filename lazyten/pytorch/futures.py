"""`lt.futures`: results that come later, under PyTorch's names."""
from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

T = TypeVar("T")
S = TypeVar("S")

__all__ = ["Future", "collect_all", "wait_all"]


class Future(Generic[T]):
    """A result that comes later: `set_result` gives it, `wait` waits for it."""

    def __init__(self, *, devices: Any = None) -> None:
        self._inner: concurrent.futures.Future[T] = concurrent.futures.Future()

    def set_result(self, result: T) -> None:
        """Give the result."""
        self._inner.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Give an error in place of a result, which `wait` raises."""
        self._inner.set_exception(result)

    def wait(self) -> T:
        """The result, once it is there."""
        return self._inner.result()

    value = wait

    def done(self) -> bool:
        """Whether the result is there."""
        return self._inner.done()

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """What a function of this future gives, once the result is there."""
        later: Future[S] = Future()

        def give(_: Any) -> None:
            try:
                later.set_result(callback(self))
            except Exception as error:
                later.set_exception(error)
        self._inner.add_done_callback(give)
        return later

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Call a function with this future, once the result is there."""
        self._inner.add_done_callback(lambda _: callback(self))


def collect_all(futures: Iterable[Future[Any]]) -> Future[list[Future[Any]]]:
    """The futures, once all have their results."""
    given, whole = list(futures), Future[list[Future[Any]]]()
    left = len(given)

    def count(_: Future[Any]) -> None:
        nonlocal left
        left -= 1
        if not left:
            whole.set_result(given)
    for future in given:
        future.add_done_callback(count)
    if not given:
        whole.set_result(given)
    return whole


def wait_all(futures: Iterable[Future[Any]]) -> list[Any]:
    """The results of all, once they are there."""
    return [f.wait() for f in futures]
