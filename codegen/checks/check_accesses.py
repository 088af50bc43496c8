"""Checks of positions, as instructions: every one that is loaded or stored at is compared.

In: a Function, when nothing but its text is left to make. Out: the same Function in which an access
to an element that its argument does not have is masked off and reported (report.py). What is found
is carried through loops and stored once a work item. Positions that are constants are compared
here.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from lazyten.codegen.checks.report import LOW, WORD, WORDS, key_of
from lazyten.codegen.instructions.instructions import (
    Address,
    Barrier,
    Block,
    Carried,
    Commit,
    Compute,
    Constant,
    Copy,
    Function,
    Horizontal,
    Instruction,
    Lanes,
    Load,
    Loop,
    Matrix,
    MatrixFence,
    MatrixLoad,
    MatrixWait,
    Splat,
    Store,
    Value,
    VectorLoad,
    VectorStore,
    Wait,
    instructions_of,
)
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.ops import Op


def check_accesses(function: Function, report: int, records: int, bounds: bool) -> Function:
    """The Function with its argument `report`, of so many records, and checks if `bounds`."""
    params = [*function.params]
    params += [(dt.uint8, 0)] * (report + 1 - len(params))
    params[report] = dt.int64, records * WORDS
    function = replace(function, params=tuple(params))
    return replace(function, body=_Checker(function, report, bounds).function_body())


class _Checker:
    """Makes the new blocks. `items` is where instructions go."""

    def __init__(self, function: Function, report: int, bounds: bool) -> None:
        self.function, self.report, self.bounds = function, report, bounds
        self.ids = count(1 + max((v.id for v in _values(function.body)), default=0))
        self.constants: dict[tuple[Scalar | tuple[int, ...], DType, int], Value] = {}
        self.head: list[Instruction] = []
        self.items: list[Instruction] = []
        self.is_shared = any(isinstance(i, Loop) and i.parallel
                             for i in instructions_of(function.body))

    def function_body(self) -> Block:
        body, found = self.block(self.function.body, None)
        if found is not None and not self.is_shared:
            body.items.append(Store(Address(self.report, None, WORD["bounds"]), found, Op.MAX))
        return Block(0, [*self.head, *body.items])

    # ---- blocks ----

    def block(self, block: Block, found: Value | None) -> tuple[Block, Value | None]:
        """The checked block, and the key of what was found in it or, `found`, before it."""
        outside, self.items = self.items, []
        for item in block.items:
            if isinstance(item, Loop):
                found = self.loop(item, found)
            elif isinstance(item, Store) and item.address.slot == self.report:
                self.items.append(replace(item, address=item.address._replace(offsets=(0,)),
                                          value=self.greatest(item.value)))
            elif isinstance(item, Load | Store) and self.bounds and not self.is_inside(item):
                found = self.greater(found, self.access(item))
            else:
                self.items.append(item)
        inside, self.items = self.items, outside
        return Block(block.depth, inside), found

    def loop(self, loop: Loop, found: Value | None) -> Value | None:
        """A loop that threads share stores what was found, also before it; so does what is around
        it leave that to it. Other loops carry it."""
        if loop.parallel or any(isinstance(i, Loop) and i.parallel
                                for i in instructions_of(loop.body)):
            body, found = self.block(loop.body, found)
            if loop.parallel and found is not None:
                self.store(loop.counter, found, body)
            self.items.append(replace(loop, body=body))
            return None
        body, inside = self.block(loop.body, None)
        carried = loop.carried
        if inside is not None:
            phi, final, after = (self.value(dt.int64) for _ in range(3))
            body.items.append(Compute(after, Op.MAX, (phi, inside)))
            carried += (Carried(phi, self.constant(0, dt.int64), after, final),)
        self.items.append(replace(loop, body=body, carried=carried))
        return found if inside is None else self.greater(found, final)

    def store(self, counter: Value, found: Value, body: Block) -> None:
        """Put what was found into the record of the work item."""
        outside, self.items = self.items, body.items
        grain, words = (self.constant(n, dt.uint64) for n in (self.function.grain, WORDS))
        item = self.compute(Op.IDIV, dt.uint64, self.compute(Op.CAST, dt.uint64, counter), grain)
        base = self.compute(Op.CAST, dt.INDEX, self.compute(Op.MUL, dt.uint64, item, words))
        self.items.append(Store(Address(self.report, base, WORD["bounds"]), found, Op.MAX))
        self.items = outside

    # ---- accesses ----

    def is_inside(self, item: Load | Store) -> bool:
        """Whether the position is constant and inside."""
        address = item.address
        size = self.function.params[address.slot][1]
        return address.base is None and address.vector is None and \
            0 <= address.offset and address.offset + address.span <= size

    def access(self, item: Load | Store) -> Value:
        """Emit the access where it is inside; gives the key of where it is not."""
        is_store = isinstance(item, Store)
        value = item.value if isinstance(item, Store) else item.out
        lanes, address = value.lanes, item.address
        position = self.position(address, lanes)
        size = self.constant(self.function.params[address.slot][1], dt.uint64, lanes)
        inside = self.compute(Op.CMPLT, dt.bool_,
                              self.compute(Op.CAST, dt.uint64, position), size)
        outside = self.compute(Op.NOT, dt.bool_, inside)
        mask = inside
        if item.mask is not None:
            outside = self.compute(Op.AND, dt.bool_, outside, item.mask)
            mask = self.compute(Op.AND, dt.bool_, inside, item.mask)
        zero = self.constant(0, dt.int64, lanes)
        if lanes == 1:
            safe = self.compute(Op.WHERE, dt.INDEX, inside, position, zero)
            address = Address(address.slot, safe)
        elif not address.is_contiguous:
            address = Address(address.slot, None, vector=position)
        self.items.append(replace(item, address=address, mask=mask))
        low = self.compute(Op.AND, dt.int64, self.compute(Op.NOT, dt.int64, position),
                           self.constant(LOW, dt.int64, lanes))
        site = self.constant(key_of(2 * address.slot + is_store), dt.int64, lanes)
        key = self.compute(Op.OR, dt.int64, low, site)
        return self.greatest(self.compute(Op.WHERE, dt.int64, outside, key, zero))

    def position(self, address: Address, lanes: int) -> Value:
        """The position of each lane."""
        if address.vector is not None:
            return address.vector
        if lanes == 1:
            steps = self.constant(address.offset, dt.INDEX)
        else:
            steps = self.constant(tuple(address.offset + i for i in address.offsets), dt.INDEX,
                                  lanes)
        if address.base is None:
            return steps
        base = address.base
        if lanes > 1:
            base = self.value(dt.INDEX, lanes)
            self.items.append(Splat(base, address.base))
        return self.compute(Op.ADD, dt.INDEX, base, steps)

    # ---- values ----

    def greater(self, a: Value | None, b: Value) -> Value:
        """The greater of two keys, of which the first may be none."""
        return b if a is None else self.compute(Op.MAX, dt.int64, a, b)

    def greatest(self, keys: Value) -> Value:
        """The greatest of the lanes."""
        if keys.lanes == 1:
            return keys
        out = self.value(keys.dtype)
        self.items.append(Horizontal(out, Op.MAX, keys))
        return out

    def compute(self, op: Op, dtype: DType, *args: Value) -> Value:
        out = self.value(dtype, args[0].lanes)
        self.items.append(Compute(out, op, args))
        return out

    def constant(self, value: Scalar | tuple[int, ...], dtype: DType, lanes: int = 1) -> Value:
        """The same in every lane or, of a tuple, one for each; at the head of the function."""
        key = value, dtype, lanes
        if key not in self.constants:
            out = self.constants[key] = self.value(dtype, lanes)
            self.head.append(Lanes(out, value) if isinstance(value, tuple)
                             else Constant(out, value))
        return self.constants[key]

    def value(self, dtype: DType, lanes: int = 1) -> Value:
        return Value(next(self.ids), dtype, lanes)


def _values(block: Block) -> Iterator[Value]:
    """All values that a block and its loops define."""
    for item in instructions_of(block):
        if isinstance(item, Loop):
            yield item.counter
            for carried in item.carried:
                yield from (carried.phi, carried.final)
        elif not isinstance(item, Store | VectorLoad | VectorStore | Matrix | MatrixLoad
                            | MatrixFence | MatrixWait | Barrier | Copy | Commit | Wait):
            yield item.out
