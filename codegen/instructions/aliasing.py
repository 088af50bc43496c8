"""Which arguments of a kernel may be one memory: an output and an input that it replaces.

In: a kernel's functions, in the order of their calls. Out: pairs of argument numbers (output,
input). An element of such an input is read only in the iteration that writes the same element of
the output, before it does, and no element is written twice: not where the last block of a loop
overlaps the one before. So each thread may run any chunk, and the memory may be the same. An input
may also be what updates begin with: it is only copied, element by element, before them. Where the
memory is the same nothing needs to be copied: renderers leave such loops out (`copied`).
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from lazyten.codegen.instructions.instructions import (
    Address,
    Block,
    Compute,
    Constant,
    Function,
    Lanes,
    Load,
    Loop,
    Store,
)
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
    written = {o: _writes_each_once(stores[o], params[o][1])
               for o in range(min(outputs, len(params)))}
    return tuple((o, i) for o in written for i in range(outputs, min(outputs + inputs, len(params)))
                 if _are_alike(params[o], params[i]) and (
                     written[o] and _reads_before(loads[i], stores[o])
                     or _is_updated(loads[i], stores[o])))


def copied(loop: Loop) -> Pair | None:
    """(where to, where from) of a loop that does nothing but to copy elements of an argument to
    the same places of another one; None for other loops."""
    accesses = list(_accesses(loop.body, 1))
    slots = {(isinstance(a.item, Load), a.item.address.slot) for a in accesses}
    if loop.carried or len(slots) != 2 or not _only_indices(loop.body):
        return None
    loads, stores = _apart(accesses)
    if not (loads and stores and _copies(loads, stores)):
        return None
    return stores[0].item.address.slot, loads[0].item.address.slot


def updated(block: Block) -> set[int]:
    """The arguments of which some elements are combined with what is there, or stored where memory
    says."""
    return {a.item.address.slot for a in _accesses(block, 1)
            if isinstance(a.item, Store) and _is_special(a)}


def _only_indices(block: Block) -> bool:
    """Whether all that is computed is where elements are."""
    return all(_only_indices(item.body) and not item.carried if isinstance(item, Loop) else
               isinstance(item, Load | Store) or isinstance(item, Compute | Constant | Lanes)
               and item.out.dtype.is_int for item in block.items)


def _apart(accesses: Sequence[Access]) -> tuple[list[Access], list[Access]]:
    """Loads, and stores."""
    loads = [a for a in accesses if isinstance(a.item, Load)]
    return loads, [a for a in accesses if isinstance(a.item, Store)]


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


def _is_updated(loads: Sequence[Access], stores: Sequence[Access]) -> bool:
    """Whether stores first copy what is read to the same places, and only then put values in
    places that are known when run, or combine them with what is there. (Loops that both share
    take all of an update's places apart.)"""
    count = next((n for n, s in enumerate(stores) if _is_special(s)), 0)
    return 0 < count and all(map(_is_special, stores[count:])) and _copies(loads, stores[:count])


def _copies(loads: Sequence[Access], stores: Sequence[Access]) -> bool:
    """Whether the stores copy what is read to the same places of another argument, and nothing else
    is read."""
    read = {a.item.out: a for a in loads if isinstance(a.item, Load) and not _is_special(a)}
    source = [read.get(s.item.value) for s in stores if isinstance(s.item, Store)]
    return len(read) == len(loads) and {id(a) for a in source} == {id(a) for a in read.values()} \
        and all(a is not None and a.block is s.block and a.place == s.place
                for a, s in zip(source, stores, strict=True))


def _is_special(access: Access) -> bool:
    """Whether some elements are left out, combined with what is there, or known only when run."""
    item = access.item
    combines = isinstance(item, Store) and item.combiner is not None
    return combines or item.mask is not None or item.address.vector is not None
