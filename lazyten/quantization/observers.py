"""Observers: between which numbers the inputs of a layer lie, and the integers for that.

A range always has 0 in it. Where nothing was below 0, as after a ReLU, the integers are 0 to 255,
else -127 to 127; 0 is the integer 0 in both, so that padding with zeros stays what it is.
"""
from __future__ import annotations

from typing import ClassVar, NamedTuple

from lazyten.frontend import functions
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.nn.module import Module
from lazyten.quantization.affine import faked
from lazyten.support.errors import ArgumentError, DTypeError
from lazyten.support.grad_mode import no_grad


class Limits(NamedTuple):
    """One scale for all, and the least and the greatest integer, as tensors without axes."""

    scale: Tensor
    low: Tensor
    high: Tensor


class Observer(Module):
    """A range that each observed tensor may change.

    Buffers, of no axes: low (0 or less) and high (0 or more), float32, and batches, int64.
    Subclasses say what counts of a tensor (`ends`), and what becomes of it (`joined`).
    """

    low: Tensor
    high: Tensor
    batches: Tensor

    def __init__(self, device: str | None = None) -> None:
        super().__init__()
        self.register_buffer("low", functions.zeros((), device=device))
        self.register_buffer("high", functions.zeros((), device=device))
        self.register_buffer("batches", functions.zeros((), device=device, dtype=dt.int64))

    def ends(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The range of one tensor."""
        return x.amin(), x.amax()

    def joined(self, old: Tensor, new: Tensor) -> Tensor:
        """An end of the range after one more batch, which `batches` counts already."""
        raise NotImplementedError

    def observe(self, x: Tensor) -> None:
        """Take one more tensor into account. DTypeError unless it is of floats."""
        if not x.dtype.is_float:
            raise DTypeError(f"{type(self).__name__}: observed a tensor of {x.dtype.name}; only "
                             f"inputs of floats become integers")
        if not x.numel():
            return
        with no_grad():
            low, high = self.ends(x.detach().float())
            self.batches.add_(1)
            self.low.copy_(self.joined(self.low, low.clamp(max=0.0)))
            self.high.copy_(self.joined(self.high, high.clamp(min=0.0)))

    def limits(self) -> Limits:
        """The integers for the range, one scale for all."""
        positive = self.low == 0
        width = functions.where(positive, self.high / 255, self.high.maximum(-self.low) / 127)
        scale = functions.where((1.0 / width).isinf(), 1.0, width)
        return Limits(scale, functions.where(positive, 0.0, -127.0),
                      functions.where(positive, 255.0, 127.0))

    def forward(self, x: Tensor) -> Tensor:
        """What is left of x as integers; while training it counts for the range, too."""
        if self.training:
            self.observe(x)
        scale, low, high = (limit.to(x.dtype) for limit in self.limits())
        return faked(x, scale, 0.0, low, high)

    def extra_repr(self) -> str:
        return f"{self.low.item():.4g} to {self.high.item():.4g}"


class MinMax(Observer):
    """From the least to the greatest element of all batches."""

    def joined(self, old: Tensor, new: Tensor) -> Tensor:
        # the ends are on two sides of 0, so the one further off is the greater in size
        further: Tensor = functions.where(new.abs() > old.abs(), new, old)
        return further


class MovingAverage(Observer):
    """The averages of the least and of the greatest element of batches, to which each batch
    contributes a share of 0.1, and the first one all."""

    share: ClassVar[float] = 0.1

    def joined(self, old: Tensor, new: Tensor) -> Tensor:
        share: Tensor = functions.where(self.batches == 1, 1.0, self.share)
        return old + (new - old) * share


class Percentile(Observer):
    """The means over batches of what one in a thousand elements are below, and above: the largest
    of many elements are held, so that the others have finer steps."""

    part: ClassVar[float] = 0.001

    def ends(self, x: Tensor) -> tuple[Tensor, Tensor]:
        flat = x.reshape(-1)
        return flat.quantile(self.part), flat.quantile(1 - self.part)

    def joined(self, old: Tensor, new: Tensor) -> Tensor:
        return old + (new - old) / self.batches


OBSERVERS: dict[str, type[Observer]] = {
    "minmax": MinMax, "moving_average": MovingAverage, "percentile": Percentile}


def observer_named(observer: str | type[Observer], operation: str
                   ) -> type[Observer]:
    """What makes an observer. ArgumentError for an unknown name, and for what makes none."""
    if isinstance(observer, str):
        if observer not in OBSERVERS:
            raise ArgumentError(f"{operation}: observer {observer!r} is not one of "
                                f"{', '.join(OBSERVERS)}; a subclass of "
                                f"lazyten.quantization.Observer does as well")
        return OBSERVERS[observer]
    if not (isinstance(observer, type) and issubclass(observer, Observer)):
        raise ArgumentError(f"{operation}: observer {observer!r:.60} is no name and no subclass of "
                            f"lazyten.quantization.Observer; give one of {', '.join(OBSERVERS)}")
    return observer
