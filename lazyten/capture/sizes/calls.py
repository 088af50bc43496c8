"""Calls of a function of tensors with one size after the other, at sizes that were never recorded.

In: calls whose tensors differ in nothing but sizes, as a text or a cache grows. Out: their results,
by launches whose numbers formulas say: neither the function's Python runs, nor is a schedule or
code made. That is for functions which do nothing but operations of tensors, as loaded models do:
what they do follows from sizes alone. Of a few calls it follows which axes vary together; then a
region of sizes is looked at, at once (looked.py).
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import pairwise

from lazyten.capture.arrays import is_plain_argument
from lazyten.capture.dims import like
from lazyten.capture.sizes.looked import Function, Looked, launch
from lazyten.capture.state.purity import trusted
from lazyten.execution.sizes.ahead import Region
from lazyten.execution.sizes.families import LEAST_SEEN, MOST_SEEN, regions_of, telling
from lazyten.frontend.setting_table import trace_key
from lazyten.frontend.tensor import Tensor
from lazyten.storage.device import executor
from lazyten.support import check_mode, forking, observers
from lazyten.symbolic.formulas import Samples, Sizes

GROWING, IN_REGION = 3, 8
"""So many sizes of a region come before it is looked at: if they grow by the same step, as a cache
does, and if not."""


class SizedCalls:
    """A function, which must do nothing but operations of tensors, for tensors of certain types and
    numbers of axes on one device."""

    def __init__(self, function: Callable[..., list[Tensor]], known: Sequence[int],
                 told: list[int]) -> None:
        """See `looked.Function`."""
        self._function, self._lock = Function(trusted(function), known, told), forking.lock()
        self._seen: dict[tuple[int, ...], None] = {}
        self._places: tuple[int, ...] = ()
        self._columns: list[tuple[int, ...]] = []
        self._fit: Samples | None = None
        self._came: dict[Hashable, dict[Sizes, None]] = {}
        self._regions: dict[Hashable, Looked | None] = {}

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor] | None:
        """What the function gives; None where that takes a graph."""
        device = tensors[0]._storage.device
        if not all(map(is_plain_argument, tensors)) or not executor(device).has_varying \
                or observers.present() or check_mode.active():
            return None
        with self._lock:
            sizes = self._sizes(tuple([n for x in tensors for n in x.shape]))
            looked = None if sizes is None else self._looked(sizes, tensors)
            found = None if looked is None or sizes is None else looked.at(sizes)
            return None if found is None else launch(*found, tensors)

    def _sizes(self, axes: tuple[int, ...]) -> Sizes | None:
        """The sizes that tell those of all axes; None where they are not known yet."""
        if self._fit is not None:
            sizes = tuple([axes[place] for place in self._places])
            if self._fit.values(self._columns, sizes) == axes:
                return sizes
        self._seen[axes] = None
        if len(self._seen) > MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        for count in [n for n in (LEAST_SEEN, MOST_SEEN) if len(self._seen) >= LEAST_SEEN]:
            columns = list(zip(*[*self._seen][-count:], strict=True))
            found = telling(columns)
            if found is not None:
                self._columns, (self._places, self._fit) = columns, found
                break
        return None

    def _looked(self, sizes: Sizes, tensors: Sequence[Tensor]) -> Looked | None:
        """What is known of the region of these sizes; None if it is nothing, or it is too soon."""
        regions = regions_of(sizes)
        key = regions, self._places, trace_key()
        if key not in self._regions:
            came = self._came.get(key)
            if came is None:
                seen = [tuple([axes[place] for place in self._places]) for axes in self._seen]
                came = self._came[key] = {s: None for s in seen if regions_of(s) == regions}
            came[sizes] = None
            if not (_grow([*came][-GROWING:]) or len(came) >= IN_REGION):
                return None
            self._regions[key] = self._look(regions, tensors)
        return self._regions[key]

    def _look(self, regions: tuple[Region, ...], tensors: Sequence[Tensor]) -> Looked | None:
        """What is known of a region; None if it is nothing that formulas say."""
        assert self._fit is not None
        given = [like(x, tuple(x.shape)) for x in tensors]
        looked = Looked(self._function, regions, partial(_like, given, self._fit, self._columns))
        return looked if looked.is_certain else None


def _like(tensors: Sequence[Tensor], fit: Samples, columns: Sequence[tuple[int, ...]],
          sizes: Sizes) -> list[Tensor] | None:
    """Tensors like those of a call, of other sizes."""
    axes = fit.values(columns, sizes)
    if axes is None:
        return None
    left = iter(axes)
    return [like(x, tuple([next(left) for _ in x.shape])) for x in tensors]


def _grow(sizes: Sequence[Sizes]) -> bool:
    """Whether sizes that came one after the other are a step apart, and so are further ones."""
    steps = {tuple([b - a for a, b in zip(*pair, strict=True)]) for pair in pairwise(sizes)}
    return len(sizes) == GROWING and len(steps) == 1
