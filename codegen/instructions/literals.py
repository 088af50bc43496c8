"""Numbers of instructions that differ from size to size: found, and read from memory instead.

In: a Function for one size of an axis. `literals_of` takes it apart into its numbers and a
skeleton, which has all the rest: Functions of equal skeletons are one text, but for numbers.
`reading` makes a Function that finds some of the numbers in one more argument, so that one text
serves all of these; `with_numbers` puts others in their place, for proofs.

A number is a constant at each of its uses (two that are equal at one size need not be at
another), the extent of a loop, and how far an address or its lanes are from the base.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, NamedTuple

from lazyten.codegen.instructions.instructions import (
    Address,
    Block,
    Carried,
    Compute,
    Constant,
    Function,
    Instruction,
    Lanes,
    Load,
    Loop,
    Splat,
    Value,
)
from lazyten.devices.program import SLOT_BYTES, in_slot
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.ops import Op

FIRST_READ, FIRST_SUM = -(1 << 40), -(1 << 41)
"""Numbers of new values, downwards: no pass before has come so far."""


class Literal(NamedTuple):
    """One number, or one for each lane."""

    dtype: DType
    values: tuple[Scalar, ...]

    @property
    def bits(self) -> bytes:
        """The numbers as they are in memory, a slot each."""
        return b"".join([in_slot(v, self.dtype) for v in self.values])


class Parts(NamedTuple):
    """A Function taken apart. together: literals that are all read, or none of them."""

    skeleton: Hashable
    literals: tuple[Literal, ...]
    together: tuple[int, ...]


def literals_of(function: Function) -> Parts:
    """The numbers of a function in the order in which they are met, and all else."""
    reader = _Walk(lambda literal: None)
    reader.block(function.body)
    grain = Literal(dt.INDEX, (function.grain,))
    types = tuple(dtype for dtype, _ in function.params)
    skeleton = (function.name, types, bool(function.grain), function.group, function.arrays,
                tuple(reader.skeleton))
    together = () if reader.parallel is None else (reader.parallel, len(reader.literals))
    return Parts(skeleton, (*reader.literals, grain), together)


def reading(function: Function, places: Sequence[int | None], slot: int) -> Function:
    """The same function, which reads some of its numbers from argument `slot`.

    places: for each of its literals the first slot of it there, or None for those that stay.
    """
    found = iter(places)
    loads = _Loads(slot=slot)
    walk = _Walk(lambda literal: None if (at := next(found)) is None else _Read(
        partial(loads.get_at, literal, at)))
    body = walk.block(function.body)
    grain = next(found)
    counts = None
    if walk.parallel is not None and grain is not None:
        iterations = places[walk.parallel]
        assert iterations is not None
        counts = slot, iterations, grain
    size = max((p or 0 for p in places), default=0) + 1
    unused = (dt.uint8, 0)
    missing = [unused] * (slot - len(function.params))
    params = (*function.params, *missing, (dt.int64, size))
    body.items[:0] = loads.items
    return replace(function, params=params, body=body, counts=counts)


def with_numbers(function: Function, literals: Sequence[Literal],
                 params: Sequence[tuple[DType, int]]) -> Function:
    """The same function with other numbers, for arguments of other sizes."""
    found = iter(literals)
    news = _News()

    def choose(literal: Literal) -> _Read | None:
        new = next(found)
        return None if new == literal else _Read(
            partial(news.get, new), int(new.values[0]) if new.dtype is dt.INDEX else 0)
    body = _Walk(choose).block(function.body)
    body.items[:0] = news.items
    grain, = next(found).values
    return replace(function, body=body, grain=int(grain), params=tuple(
        (dtype, new[1] if size else size) for (dtype, size), new
        in zip(function.params, params, strict=False)))


@dataclass
class _News:
    """Values that are made at the beginning, each once, with new names."""

    items: list[Instruction] = field(default_factory=list)
    made: dict[Hashable, Value] = field(default_factory=dict)

    def new(self, key: Hashable, dtype: DType, lanes: int,
            make: Callable[[Value], Instruction]) -> Value:
        """A value of a name that no linearized function has."""
        if key not in self.made:
            self.made[key] = Value(FIRST_READ - len(self.made), dtype, lanes)
            self.items.append(make(self.made[key]))
        return self.made[key]

    def get(self, literal: Literal, lanes: int) -> Value:
        """A number with so many lanes."""
        if len(literal.values) > 1:
            values = tuple(int(v) for v in literal.values)
            return self.new(literal, literal.dtype, lanes, lambda out: Lanes(out, values))
        return self.new((literal, lanes), literal.dtype, lanes,
                        lambda out: Constant(out, literal.values[0]))


@dataclass
class _Loads(_News):
    """The same for numbers that are read from an argument."""

    slot: int = 0

    def get_at(self, literal: Literal, at: int, lanes: int) -> Value:
        """A number from its place there, with so many lanes."""
        if len(literal.values) > 1:
            return self._read(literal.dtype, len(literal.values), at)
        scalar = self._read(literal.dtype, 1, at)
        return scalar if lanes == 1 else self.new(
            (scalar, lanes), literal.dtype, lanes, lambda out: Splat(out, scalar))

    def _read(self, dtype: DType, lanes: int, at: int) -> Value:
        step = SLOT_BYTES // dtype.itemsize
        address = Address(self.slot, None, at * step, tuple(range(0, lanes * step, step)))
        return self.new((dtype, at), dtype, lanes, lambda out: Load(out, address))


class _Read(NamedTuple):
    """What stands in the place of a number. value: it, with so many lanes. extent: of a loop."""

    value: Callable[[int], Value]
    extent: int | None = None


class _Walk:
    """Goes through a function once, in one order: notes its numbers and its skeleton, and makes it
    anew with what `choose` gives for a number in the place of it (None: the number)."""

    def __init__(self, choose: Callable[[Literal], _Read | None]) -> None:
        self.choose = choose
        self.skeleton: list[Hashable] = []
        self.literals: list[Literal] = []
        self.constants: dict[Value, Constant] = {}
        self.numbers: dict[Value, int] = {}
        self.made = 0
        self.parallel: int | None = None  # the literal that says how often it runs
        self.before: list[Instruction] = []

    def block(self, block: Block) -> Block:
        """The block anew."""
        new = Block(block.depth)
        for item in block.items:
            if isinstance(item, Constant):
                self._constant(item, new)
                continue
            self.skeleton.append(type(item).__name__)
            made = self._loop(item) if isinstance(item, Loop) else self._instruction(item)
            new.items += [*self._taken(), made]
        self.skeleton.append("end")
        return new

    def _taken(self) -> list[Instruction]:
        before, self.before = self.before, []
        return before

    def _constant(self, item: Constant, new: Block) -> None:
        """Looked at where it is used."""
        new.items.append(item)
        self.constants[item.out] = item

    def _literal(self, dtype: DType, values: tuple[Scalar, ...]) -> _Read | None:
        literal = Literal(dtype, values)
        self.literals.append(literal)
        return self.choose(literal)

    # ---- values ----

    def _defined(self, value: Value) -> Value:
        self.numbers[value] = len(self.numbers)
        self.skeleton.append((value.dtype, value.lanes))
        return value

    def _used(self, value: Value) -> Value:
        constant = self.constants.get(value)
        if constant is None:
            self.skeleton.append(self.numbers[value])
            return value
        if not _may_vary(value.dtype):
            self.skeleton.append((repr(constant.value), value.dtype, value.lanes))
            return value
        self.skeleton.append(("number", value.dtype, value.lanes))
        read = self._literal(value.dtype, (constant.value,))
        return value if read is None else read.value(value.lanes)

    # ---- instructions ----

    def _instruction(self, item: Any) -> Instruction:
        if isinstance(item, Lanes):
            return self._lanes(item)
        new = {}
        for f in fields(item):
            new[f.name] = self._field(f.name, getattr(item, f.name))
        made: Instruction = type(item)(**new)
        return made

    def _field(self, name: str, value: Any) -> Any:
        if isinstance(value, Value):
            return self._defined(value) if name == "out" else self._used(value)
        if isinstance(value, Address):
            return self._address(value)
        if isinstance(value, tuple) and value and isinstance(value[0], Value):
            return tuple(self._field("out" if name == "outs" else name, v) for v in value)
        self.skeleton.append(value)
        return value

    def _lanes(self, item: Lanes) -> Instruction:
        self._defined(item.out)
        read = self._literal(item.out.dtype, item.values)
        if read is None:
            return item
        return Compute(item.out, Op.CAST, (read.value(item.out.lanes),))

    def _loop(self, loop: Loop) -> Loop:
        self._defined(loop.counter)
        self.skeleton.append(loop.parallel)
        if loop.parallel:
            self.parallel = len(self.literals)
        read = self._literal(dt.INDEX, (loop.extent,))
        extent, stop = loop.extent, None if loop.stop is None else self._used(loop.stop)
        if read is not None and read.extent is not None:
            extent = read.extent
        elif read is not None and not loop.parallel:
            stop = read.value(1)
        carried = [(self._defined(c.phi), self._used(c.initial)) for c in loop.carried]
        body = self.block(loop.body)
        ends = [(self._used(c.next), self._defined(c.final)) for c in loop.carried]
        made = tuple(Carried(phi, initial, after, final) for (phi, initial), (after, final)
                     in zip(carried, ends, strict=True))
        return replace(loop, extent=extent, body=body, carried=made, stop=stop)

    # ---- addresses ----

    def _address(self, at: Address) -> Address:
        """Where it is from a base that has the offset in it, where that is read."""
        self.skeleton.append((at.slot, at.is_local, at.base is None, at.vector is None))
        base = None if at.base is None else self._used(at.base)
        vector = None if at.vector is None else self._used(at.vector)
        offset = self._literal(dt.INDEX, (at.offset,))
        if offset is not None:
            base = self._sum(base, offset.value(1))
        if sorted(at.offsets) == list(range(len(at.offsets))):
            self.skeleton.append(at.offsets)
            by_lane = None
        else:
            by_lane = self._literal(dt.INDEX, at.offsets)
        made = at._replace(base=base, offset=0 if offset else at.offset, vector=vector)
        if by_lane is None:
            return made
        return self._at_lanes(made, by_lane.value(len(at.offsets)))

    def _sum(self, a: Value | None, b: Value) -> Value:
        if a is None:
            return b
        return self._compute(Op.ADD, a, b)

    def _compute(self, op: Op, *args: Value) -> Value:
        self.made += 1
        out = Value(FIRST_SUM - self.made, args[0].dtype, args[0].lanes)
        self.before.append(Compute(out, op, args))
        return out

    def _at_lanes(self, at: Address, by_lane: Value) -> Address:
        """The positions of lanes, computed: base + offset + that of each."""
        base = at.base
        if at.offset:
            self.made += 1
            offset = Value(FIRST_SUM - self.made, dt.INDEX, 1)
            self.before.append(Constant(offset, at.offset))
            base = self._sum(base, offset)
        if base is None:
            return Address(at.slot, None, vector=by_lane, is_local=at.is_local)
        self.made += 1
        wide = Value(FIRST_SUM - self.made, dt.INDEX, by_lane.lanes)
        self.before.append(Splat(wide, base))
        return Address(at.slot, None, vector=self._compute(Op.ADD, wide, by_lane),
                       is_local=at.is_local)


def _may_vary(dtype: DType) -> bool:
    """Whether a number of this type can be read from memory as it is in a register."""
    return dtype.is_int or dtype in (dt.float32, dt.float64)
