"""What a row is, and what rows are made of."""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import lazyten as lt
from lazyten.support.errors import KindError, NotOfTypeError


class Things:
    """Fresh tensors of many kinds for one row; nothing of them is computed yet."""

    def __init__(self) -> None:
        self.f = lt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        self.lazy = self.f * 2 + 1
        self.i = lt.tensor([[1, 2, 3], [4, 5, 6]])
        self.b = lt.tensor([True, False, True])
        self.v = lt.tensor([1.0, 2.0, 3.0])
        self.z = lt.tensor(1.5)
        self.none = lt.zeros(0, 3)
        self.double = lt.tensor([1.0, 2.0, 3.0], dtype=lt.float64)
        self.elsewhere = lt.tensor([1.0, 2.0, 3.0], device="cpu")
        self.labels = lt.tensor([0, 2])
        self.image, self.kernel = lt.ones(1, 2, 5, 5), lt.ones(4, 2, 3, 3)
        self.leaf = lt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
        self.layer = lt.nn.Linear(3, 2)
        self.sgd = lt.optim.SGD(self.layer.parameters(), lr=0.1, momentum=0.9)

    def tensors(self) -> dict[str, lt.Tensor]:
        """Every tensor by name, the layer's parameters among them."""
        own = {name: value for name, value in vars(self).items() if isinstance(value, lt.Tensor)}
        return own | dict(self.layer.named_parameters())


class Bad(NamedTuple):
    """A mistake: `error`'s message holds `operation`, every word of `values`, and `remedy`."""

    name: str
    call: Callable[[Things], object]
    error: type[lt.LazytenError]
    operation: str
    values: tuple[str, ...]
    remedy: str


def endless() -> list[object]:
    """A list that contains itself."""
    found: list[object] = []
    found.append(found)
    return found


def assign(x: lt.Tensor, index: object, value: object) -> None:
    """x[index] = value, as an expression."""
    x[index] = value


def set_grad(x: lt.Tensor, grad: object) -> None:
    """x.grad = grad, as an expression."""
    x.grad = grad  # type: ignore[assignment]  # a mistake on purpose


S, D, X = lt.ShapeError, lt.DTypeError, lt.IndexingError
K, N = KindError, NotOfTypeError
G, A, W, V = lt.GradientError, lt.ArgumentError, lt.StateError, lt.DeviceError
