"""narrow: index arithmetic in 32 bits where its values fit.

In: a Function whose index arithmetic is int64, as linearize makes it. Out: the same Function with
int32 (and uint32) in the place of scalars whose bounds are known and fit. GPUs have no 64-bit
integer units. What needs the wide value gets a CAST of the narrow one.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lazyten.codegen.instructions.instructions import (
    Across,
    Address,
    Barrier,
    Block,
    Carried,
    Commit,
    Compute,
    Constant,
    Copy,
    Function,
    Instruction,
    Load,
    Loop,
    Matrix,
    MatrixDescriptor,
    MatrixFence,
    MatrixLoad,
    MatrixWait,
    Store,
    Value,
    VectorLoad,
    VectorStore,
    Wait,
    WorkItem,
    addresses_of,
    instructions_of,
)
from lazyten.ir import dtype as dt
from lazyten.ir.ops import Op

Bounds = tuple[int, int]
INT32: Bounds = (-(1 << 31), (1 << 31) - 1)
_NARROW = {dt.int64: dt.int32, dt.uint64: dt.uint32}


def narrow(function: Function) -> Function:
    """The function with 32-bit index arithmetic; only scalars are looked at."""
    return replace(function, body=_Narrowing(_offsets_of(function)).block(function.body))


def _offsets_of(function: Function) -> dict[Value, Bounds]:
    """For each base of an address the least and the greatest offset that is added to it."""
    found: dict[Value, Bounds] = {}
    for item in instructions_of(function.body):
        for address in addresses_of(item):
            if address.base is not None:
                low, high = found.get(address.base, (0, 0))
                found[address.base] = min(low, address.offset), max(high, address.offset)
    return found


class _Narrowing:
    """offsets: added to each base. bounds: of values that are narrow. wide: those of them that are
    cast where the walk is."""

    def __init__(self, offsets: dict[Value, Bounds]) -> None:
        self.offsets = offsets
        self.bounds: dict[Value, Bounds] = {}
        self.wide: set[Value] = set()

    def block(self, block: Block) -> Block:
        out = Block(block.depth)
        before = set(self.wide)
        for item in block.items:
            out.items.append(self._item(item, out))
        self.wide = before
        return out

    def _item(self, item: Instruction, out: Block) -> Instruction:
        if isinstance(item, Loop):
            return self._loop(item, out)
        if isinstance(item, Barrier | Matrix | MatrixFence | MatrixWait | Commit | Wait):
            return item
        if isinstance(item, Copy):
            return replace(item, target=self._address(item.target, out),
                           source=self._address(item.source, out))
        if isinstance(item, Store):
            mask = None if item.mask is None else self._whole(item.mask, out)
            return replace(item, address=self._address(item.address, out),
                           value=self._whole(item.value, out), mask=mask)
        if isinstance(item, Load | MatrixLoad | MatrixDescriptor):
            return replace(item, address=self._address(item.address, out))
        if isinstance(item, Constant | WorkItem):
            return replace(item, out=self._defined(item.out, _own_bounds(item)))
        if isinstance(item, Compute):
            return self._compute(item, out)
        if isinstance(item, Across):
            return replace(item, source=self._whole(item.source, out))
        assert not isinstance(item, VectorLoad | VectorStore), "these come later"
        assert item.out.lanes > 1 or item.out.dtype not in _NARROW, item
        return item

    def _loop(self, loop: Loop, out: Block) -> Loop:
        carried = [c._replace(initial=self._whole(c.initial, out)) for c in loop.carried]
        stop = None if loop.stop is None else self._whole(loop.stop, out)
        counter = self._defined(loop.counter, (0, loop.extent - 1))
        body = self.block(loop.body)
        carried = [self._carried(c, body) for c in carried]
        return replace(loop, counter=counter, body=body, carried=tuple(carried), stop=stop)

    def _carried(self, c: Carried, body: Block) -> Carried:
        return c._replace(next=self._whole(c.next, body))

    def _compute(self, item: Compute, out: Block) -> Compute:
        rule = _RULES.get(item.op)
        known = [self.bounds.get(a) for a in item.args]
        integers = [b for a, b in zip(item.args, known, strict=True) if a.dtype in _NARROW]
        if None not in integers and integers:
            narrow_args = tuple(_narrowed(a) if a in self.bounds else a for a in item.args)
            if item.op is Op.CAST and item.out.dtype not in _NARROW or \
                    item.op in (Op.CMPLT, Op.CMPNE):
                return replace(item, args=narrow_args)
            if rule is not None and item.out.dtype in _NARROW:
                limits = rule([b for b in integers if b is not None])
                if item.out.dtype is dt.uint64 and (limits is None or limits[0] < 0):
                    limits = None
                made = self._defined(item.out, limits)
                if made is not item.out:
                    return replace(item, out=made, args=narrow_args)
        return replace(item, args=tuple(self._whole(a, out) for a in item.args))

    def _defined(self, value: Value, limits: Bounds | None) -> Value:
        """The value in its narrow type, if it has one and the limits fit."""
        if (limits is None or value.dtype not in _NARROW or value.lanes > 1
                or limits[0] < INT32[0] or limits[1] > INT32[1]):
            return value
        self.bounds[value] = limits
        return _narrowed(value)

    def _whole(self, value: Value, out: Block) -> Value:
        """A value in the type it had, cast in block `out` if it is narrow."""
        if value not in self.bounds:
            return value
        if value not in self.wide:
            self.wide.add(value)
            low, high = self.bounds[value]
            out.items.append(Constant(value, low) if low == high else
                             Compute(value, Op.CAST, (_narrowed(value),)))
        return value

    def _address(self, address: Address, out: Block) -> Address:
        """With a base of 32 bits, if base and offset are counts that are added in as many.

        Where one may be below 0 they are added in 64: renderers have unsigned integers of 32 bits,
        whose sum is the position, but NVIDIA's compiler computes an address from that of an element
        nearby, which need not be one where that is left out.
        """
        if address.base in self.bounds:
            low, high = self.offsets[address.base]
            if self.bounds[address.base][0] < 0 or low < 0 or high > INT32[1]:
                return address._replace(base=self._whole(address.base, out))
            return address._replace(base=_narrowed(address.base))
        if address.vector in self.bounds:
            return address._replace(vector=_narrowed(address.vector))
        return address


def _narrowed(value: Value) -> Value:
    return value._replace(dtype=_NARROW[value.dtype])


def _own_bounds(item: Constant | WorkItem) -> Bounds | None:
    if isinstance(item, WorkItem):
        return 0, item.extent - 1
    return (int(item.value), int(item.value)) if item.out.dtype in _NARROW else None


def _product(b: list[Bounds]) -> Bounds:
    ends = [x * y for x in b[0] for y in b[1]]
    return min(ends), max(ends)


def _quotient(b: list[Bounds]) -> Bounds | None:
    if b[1][0] <= 0:
        return None
    ends = [x // y for x in b[0] for y in b[1]]
    return min(ends), max(ends)


_RULES: dict[Op, Callable[[list[Bounds]], Bounds | None]] = {
    Op.ADD: lambda b: (b[0][0] + b[1][0], b[0][1] + b[1][1]),
    Op.SUB: lambda b: (b[0][0] - b[1][1], b[0][1] - b[1][0]),
    Op.MUL: _product,
    Op.NEG: lambda b: (-b[0][1], -b[0][0]),
    Op.NOT: lambda b: (~b[0][1], ~b[0][0]),
    Op.MAX: lambda b: (max(b[0][0], b[1][0]), max(b[0][1], b[1][1])),
    Op.IDIV: _quotient,
    Op.MOD: lambda b: (0, b[1][1] - 1) if b[1][0] > 0 else None,
    Op.WHERE: lambda b: (min(b[0][0], b[1][0]), max(b[0][1], b[1][1])),
    Op.CAST: lambda b: b[0],
}
"""Bounds of a result from those of its integer operands; None where they are not known."""
