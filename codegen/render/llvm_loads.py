"""The lines of a function of LLVM IR, and loads of its elements: one, neighbours, or scattered."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import reduce

from lazyten.codegen.instructions.instructions import Address, Load, Value
from lazyten.codegen.render.llvm_functions import Defined
from lazyten.codegen.render.llvm_ops import convert
from lazyten.codegen.render.llvm_types import literal, memory_type, scalar_type, suffix, type_name
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType

MOST_SPAN = 4
"""Lanes within so many vectors of memory are loaded whole and shuffled, not one by one."""
MANY_USES = 4
"""A pointer that so many addresses are counted from is frozen. LLVM does not look through that for
how each of them depends on the loop, which takes longer than all else and finds nothing: what is
in a loop has to be there."""
LINE = 64
"""Bytes of a cache line."""
GATHERED = (4, 8)
"""Bytes of elements that processors gather. Under a mask it takes as long as lane by lane, and LLVM
a tenth; without one some processors take twice as long as for loads of their own: `gathers`."""


MANY_SUMS, LARGE, MOST_STEP, AHEAD = 9, 1 << 16, 512, 2048
"""A loop of so many sums, which is a register tile, asks for what it is going to read of an array
of so many bytes, that it goes through by at most so many an iteration, so many before it does:
processors that read ahead by themselves do so late beside single elements of many rows. Filters of
9 MB that are not in the caches take 1.7 ms so and else 2.4, others up to a twentieth less."""


@dataclass(slots=True)
class _Base:
    """A pointer that addresses are counted from: its name, the line that makes it, its uses."""

    name: str
    line: int
    uses: int = 0


class Loads:
    """Lines of text so far, and what has been named in them.

    names: of values. masks: of which masks one is made, all of which must be true. uniform: values
    that are the same in all lanes. declared: what the lines call. used: arguments of the kernel.
    sizes: bytes of these. steps: by how many elements positions grow an iteration, in a loop of
    many sums. fuses, gathers: see Target.
    """

    def __init__(self, fuses: bool, gathers: bool) -> None:
        self.fuses, self.gathers = fuses, gathers
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.masks: dict[Value, tuple[Value, ...]] = {}
        self.uniform: set[Value] = set()
        self.declared: set[str] = set()
        self.used: set[int] = set()
        self.sizes: dict[int, int] = {}
        self.steps: dict[Value, int] = {}
        self.count = 0
        self.bases: dict[tuple[str, str, str], _Base] = {}

    # ---- what the rows of the op table use ----

    def line(self, text: str) -> str:
        name = self._new()
        self.lines.append(f"  {name} = {text}")
        return name

    def intrinsic(self, name: str, result: str, *args: tuple[str, str]) -> str:
        self.declared.add(f"declare {result} @{name}({', '.join(t for t, _ in args)})")
        return self.line(f"call {result} @{name}({', '.join(f'{t} {a}' for t, a in args)})")

    def call(self, called: Defined, result: str, *args: tuple[str, str]) -> str:
        self.declared.update((*called.declares, called.text))
        return self.line(f"call {result} @{called.name}({', '.join(f'{t} {a}' for t, a in args)})")

    def _new(self) -> str:
        self.count += 1
        return f"%x{self.count}"

    # ---- memory ----

    def _pointer(self, dtype: DType, address: Address, position: str | None, offset: int) -> str:
        self.used.add(address.slot)
        pointer, kind = f"%p{address.slot}", memory_type(dtype)
        if position is not None:
            pointer = self._base(kind, pointer, position)
        if offset:
            pointer = self.line(f"getelementptr {kind}, ptr {pointer}, i64 {offset}")
        return pointer

    def _base(self, kind: str, pointer: str, position: str) -> str:
        """The pointer to an element, made once in a stretch without loops."""
        base = self.bases.get((kind, pointer, position))
        if base is None:
            name = self.line(f"getelementptr {kind}, ptr {pointer}, i64 {position}")
            base = self.bases[kind, pointer, position] = _Base(name, len(self.lines) - 1)
        base.uses += 1
        return base.name

    def _close_bases(self) -> None:
        """The end of a stretch without loops. See MANY_USES."""
        for name, line, uses in map(astuple, self.bases.values()):
            if uses >= MANY_USES:
                made = self.lines[line].replace(name, f"{name}.in", 1)
                self.lines[line] = f"{made}\n  {name} = freeze ptr {name}.in"
        self.bases.clear()

    def _lane_pointers(self, dtype: DType, address: Address, lanes: int,
                       mask: str | None) -> list[str]:
        """One pointer a lane; masked-off lanes point at element 0, which is always there."""
        if address.vector is None:
            base, first = None if address.base is None else self.names[address.base], address.offset
            return [self._pointer(dtype, address, base, first + i) for i in address.offsets]
        positions, pointers = self._positions(address, lanes, mask), []
        for i in range(lanes):
            position = self.line(f"extractelement <{lanes} x i64> {positions}, i64 {i}")
            pointers.append(self._pointer(dtype, address, position, 0))
        return pointers

    def _positions(self, address: Address, lanes: int, mask: str | None) -> str:
        """The computed places of lanes; those that are masked off are element 0."""
        assert address.vector is not None
        positions, kind = self.names[address.vector], f"<{lanes} x i64>"
        if mask is None:
            return positions
        return self.line(f"select <{lanes} x i1> {mask}, {kind} {positions}, "
                         f"{kind} zeroinitializer")

    def _load(self, item: Load) -> str:
        dtype, lanes, address = item.out.dtype, item.out.lanes, item.address
        mask = None if item.mask is None else self.names[item.mask]
        if lanes == 1:
            return self._scalar_load(dtype, address, mask)
        if address.is_contiguous:
            self._prefetch(dtype, lanes, address)
            return self._vector_load(dtype, lanes, address, mask)
        if mask is None and address.vector is None and address.span <= MOST_SPAN * lanes:
            return self._spread_load(dtype, lanes, address)
        if mask is not None and address.vector is None:
            assert item.mask is not None
            return self._near_load(dtype, lanes, address, item.mask)
        kind = type_name(dtype, lanes)
        gathered = address.vector is not None and dtype.itemsize in GATHERED
        if mask is None:
            return self._gather(dtype, lanes, address, None) if gathered and self.gathers else \
                self._lane_by_lane(dtype, lanes, address, None)
        name = self._gather(dtype, lanes, address, mask) if gathered else \
            self._lane_by_lane(dtype, lanes, address, mask)
        return self.line(f"select <{lanes} x i1> {mask}, {kind} {name}, {kind} zeroinitializer")

    def _prefetch(self, dtype: DType, lanes: int, address: Address) -> None:
        """Ask for what a later iteration reads, once for each line. See MANY_SUMS."""
        base, size = address.base, dtype.itemsize
        step = 0 if base is None else self.steps.get(base, 0) * size
        if base is None or not 0 < step <= MOST_STEP or self.sizes[address.slot] < LARGE \
                or address.offset * size % LINE >= lanes * size:
            return
        pointer = self._pointer(dtype, address, self.names[base], address.offset + AHEAD // size)
        self.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.lines.append(f"  call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")

    def _lane_by_lane(self, dtype: DType, lanes: int, address: Address, mask: str | None) -> str:
        name, kind = "poison", type_name(dtype, lanes)
        for i, pointer in enumerate(self._lane_pointers(dtype, address, lanes, mask)):
            element = f"{scalar_type(dtype)} {self._element(dtype, pointer)}"
            name = self.line(f"insertelement {kind} {name}, {element}, i64 {i}")
        return name

    def _gather(self, dtype: DType, lanes: int, address: Address, mask: str | None) -> str:
        """Lanes whose places are computed, by one instruction of all of them: where a processor has
        none, LLVM writes out lanes without a condition, but would branch for each that has one."""
        self.used.add(address.slot)
        kind, bits = f"<{lanes} x {memory_type(dtype)}>", f"<{lanes} x i1>"
        places = self.line(f"getelementptr {memory_type(dtype)}, ptr %p{address.slot}, "
                           f"<{lanes} x i64> {self._positions(address, lanes, mask)}")
        return self.intrinsic(f"llvm.masked.gather.{suffix(dtype, lanes)}.v{lanes}p0", kind,
                              (f"<{lanes} x ptr>", places), ("i32", str(dtype.itemsize)),
                              (bits, "splat (i1 true)"), (kind, "poison"))

    def _spread_load(self, dtype: DType, lanes: int, address: Address) -> str:
        """Lanes at places known in advance: of all elements from first to last, or, where those are
        no vector that a register holds, of two: one from the first on, one up to the last."""
        rest = address.span - lanes
        if not 0 < rest <= lanes or address.span & address.span - 1 == 0:
            whole = self._vector_load(dtype, address.span, address, None)
            return self._shuffle(dtype, address.span, whole, address.offsets)
        first, last = (self._vector_load(dtype, lanes, address._replace(offset=start), None)
                       for start in (address.offset, address.offset + rest))
        return self._of_two(dtype, lanes, address, first, last)

    def _of_two(self, dtype: DType, lanes: int, address: Address, first: str, last: str) -> str:
        """The lanes of an address, of the first vector of what they span and the last."""
        rest = address.span - lanes
        order = [i if i < lanes else i - rest + lanes for i in address.offsets]
        return self._shuffle(dtype, lanes, first, order, last)

    def _near_load(self, dtype: DType, lanes: int, address: Address, mask: Value) -> str:
        """Lanes near each other under a mask, from two vectors under masks of their own, or from
        one if it has them all: no element is touched but those of lanes that the mask has."""
        rest = address.span - lanes
        at = {offset: lane for lane, offset in enumerate(address.offsets)}
        if not rest:
            own = self._spread(mask, [at[o] for o in range(lanes)])
            return self._shuffle(dtype, lanes, self._vector_load(dtype, lanes, address, own),
                                 address.offsets)
        loaded = []
        for start, wanted in ((0, range(lanes)), (rest, range(lanes, address.span))):
            order = [at[o] if o in wanted and o in at else lanes
                     for o in range(start, start + lanes)]
            part = address._replace(offset=address.offset + start)
            loaded.append(self._vector_load(dtype, lanes, part, self._spread(mask, order)))
        return self._of_two(dtype, lanes, address, *loaded)

    def _spread(self, mask: Value, order: Sequence[int]) -> str:
        """A mask's lanes in this order, false past them. What all lanes have in common does not
        move, so that loops work out once what the lanes of many rows have in common."""
        parts = self._conjuncts(mask)
        apart = [m for m in parts if m not in self.uniform] or parts[:1]
        moved = [self._shuffle(dt.bool_, m.lanes, self.names[m], order, "zeroinitializer")
                 for m in apart]
        others = [self.names[m] for m in parts if m not in apart]
        kind = type_name(dt.bool_, mask.lanes)
        return reduce(lambda a, b: self.line(f"and {kind} {a}, {b}"), [*moved, *others])

    def _conjuncts(self, mask: Value) -> list[Value]:
        """The masks that all must be true where this one is."""
        return [m for part in self.masks[mask] for m in self._conjuncts(part)] \
            if mask in self.masks else [mask]

    def _scalar_load(self, dtype: DType, address: Address, mask: str | None) -> str:
        base = None if address.base is None else self.names[address.base]
        if mask is None:
            return self._element(dtype, self._pointer(dtype, address, base, address.offset))
        position = self.line(f"add i64 {base or 0}, {address.offset}")
        safe = self.line(f"select i1 {mask}, i64 {position}, i64 0")
        loaded = self._element(dtype, self._pointer(dtype, address, safe, 0))
        kind = scalar_type(dtype)
        return self.line(f"select i1 {mask}, {kind} {loaded}, {kind} {literal(0, dtype)}")

    def _vector_load(self, dtype: DType, lanes: int, address: Address, mask: str | None) -> str:
        base = None if address.base is None else self.names[address.base]
        pointer = self._pointer(dtype, address, base, address.offset)
        kind = f"<{lanes} x {memory_type(dtype)}>"
        if mask is None:
            loaded = self.line(f"load {kind}, ptr {pointer}, align {dtype.itemsize}")
        else:
            stored = dt.uint8 if dtype.kind == "b" else dtype
            name = f"llvm.masked.load.{suffix(stored, lanes)}.p0"
            loaded = self.intrinsic(name, kind, ("ptr", pointer), ("i32", str(dtype.itemsize)),
                                    (f"<{lanes} x i1>", mask), (kind, "zeroinitializer"))
        return self._from_memory(dtype, lanes, loaded)

    def _element(self, dtype: DType, pointer: str) -> str:
        """Load one element, in its register type."""
        return self._from_memory(dtype, 1, self.line(f"load {memory_type(dtype)}, ptr {pointer}"))

    def _from_memory(self, dtype: DType, lanes: int, loaded: str) -> str:
        if dtype.kind != "b":
            return loaded
        return convert(self, dt.uint8, dt.bool_, lanes, loaded)

    def _shuffle(self, dtype: DType, lanes: int, name: str, order: Sequence[int],
                 second: str = "poison") -> str:
        """Lane i of the result is lane order[i] of `name`, and past its lanes of `second`."""
        kind = type_name(dtype, lanes)
        indices = f"<{len(order)} x i32> <{', '.join(f'i32 {i}' for i in order)}>"
        return self.line(f"shufflevector {kind} {name}, {kind} {second}, {indices}")
