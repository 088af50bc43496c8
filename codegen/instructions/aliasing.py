"""Which arguments of a kernel may be one memory: an output and an input that it replaces.

In: a kernel's functions, in the order of their calls. Out: pairs of argument numbers (output,
input). An element of such an input is read only in the iteration that writes the same element of
the output, before it does, and no element is written twice: not where the last block of a loop
overlaps the one before. So each thread may run any chunk, and the memory may be the same.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from lazyten.codegen.instructions.instructions import Address, Block, Function, Load, Loop, Store
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType

Pair = tuple[int, int]
NO_PARAM = (dt.uint8, 0)


class Access(NamedTuple):
    """A Load or Store: item number `position` of `block`, which runs `trips` times."""

    item: Load | Store
    block: Block
    position: int
    trips: int

    @property
    def place(self) -> Address:
        """Where it is, whatever the array."""
        return self.item.address._replace(slot=0)


def in_place_pairs(functions: Sequence[Function], outputs: int, inputs: int) -> tuple[Pair, ...]:
    """The pairs of a kernel with so many outputs and inputs."""
    params = _params(functions)
    loads: defaultdict[int, list[Access]] = defaultdict(list)
    stores: defaultdict[int, list[Access]] = defaultdict(list)
    for function in functions:
        for access in _accesses(function.body, 1):
            found = loads if isinstance(access.item, Load) else stores
            found[access.item.address.slot].append(access)
    written = [o for o in range(min(outputs, len(params)))
               if _writes_each_once(stores[o], params[o][1])]
    return tuple((o, i) for o in written for i in range(outputs, min(outputs + inputs, len(params)))
                 if _are_alike(params[o], params[i]) and _reads_before(loads[i], stores[o]))


def _params(functions: Sequence[Function]) -> tuple[tuple[DType, int], ...]:
    """What the arguments are: the largest that a function reads or writes of each."""
    return tuple(max(known, key=lambda param: param[1])
                 for known in zip_longest(*(f.params for f in functions), fillvalue=NO_PARAM))


def _accesses(block: Block, trips: int) -> Iterator[Access]:
    for position, item in enumerate(block.items):
        if isinstance(item, Loop):
            yield from _accesses(item.body, trips * item.extent)
        elif isinstance(item, Load | Store):
            yield Access(item, block, position, trips)


def _are_alike(output: tuple[DType, int], given: tuple[DType, int]) -> bool:
    """Whether two arrays have equally many elements of one size."""
    return output[1] == given[1] and output[0].itemsize == given[0].itemsize


def _writes_each_once(stores: Sequence[Access], size: int) -> bool:
    """Whether the stores, which reach every element, are as many as there are elements."""
    if any(map(_is_special, stores)):
        return False
    return sum(len(s.item.address.offsets) * s.trips for s in stores) == size


def _reads_before(loads: Sequence[Access], stores: Sequence[Access]) -> bool:
    """Whether each load is in a block of the stores, where the same elements are then stored."""
    after = {(id(s.block), s.place): s.position for s in stores}
    return bool(loads) and all(not _is_special(a) and a.position < after.get(
        (id(a.block), a.place), -1) for a in loads)


def _is_special(access: Access) -> bool:
    """Whether some elements are left out, combined with what is there, or known only when run."""
    item = access.item
    combines = isinstance(item, Store) and item.combiner is not None
    return combines or item.mask is not None or item.address.vector is not None
