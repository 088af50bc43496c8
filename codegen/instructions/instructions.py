"""What linearize makes and renderers read: typed instructions in nested blocks.

A Value is a scalar (lanes 1) or a vector. Loops are structured, run at least once, and carry values
from one iteration to the next, so a renderer may use SSA phis or mutable variables as it likes.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lazyten.codegen.targets.tensor_cores import TensorCore
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.ops import Op


class Value(NamedTuple):
    """The result of one instruction."""

    id: int
    dtype: DType
    lanes: int


MASKED = (4, 8)
"""Bytes of elements of which an instruction reads those that a mask says (Target.masked_loads)."""


class Address(NamedTuple):
    """Elements of argument `slot`: element `base + offset + offsets[lane]` for each lane.

    base: an int64 scalar, or None for 0. offsets: constants, the least of them 0. vector: if given,
    an int64 vector of positions instead of all that. is_local: of the group's array `slot` instead.
    """

    slot: int
    base: Value | None
    offset: int = 0
    offsets: tuple[int, ...] = (0,)
    vector: Value | None = None
    is_local: bool = False

    @property
    def is_contiguous(self) -> bool:
        """Whether the lanes are neighbours, in order."""
        return self.vector is None and self.offsets == tuple(range(len(self.offsets)))

    @property
    def span(self) -> int:
        """From the first to the last element touched."""
        return max(self.offsets) + 1

    def is_near(self, dtype: DType) -> bool:
        """Whether lanes that are masked off need not keep the others from being read with their
        neighbours: one or two masked loads of as many elements (Target.masked_loads) have them
        all."""
        lanes = len(self.offsets)
        return (self.vector is None and dtype.itemsize in MASKED and self.span <= 2 * lanes
                and len(set(self.offsets)) == lanes)


@dataclass(frozen=True, slots=True)
class Constant:
    """out = the same value in every lane."""

    out: Value
    value: Scalar


@dataclass(frozen=True, slots=True)
class Lanes:
    """out = a constant integer for each lane."""

    out: Value
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Splat:
    """out = the scalar in every lane."""

    out: Value
    source: Value


@dataclass(frozen=True, slots=True)
class Compute:
    """out = op of args, elementwise; all have the same lanes."""

    out: Value
    op: Op
    args: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """out = memory at `address`; lanes whose mask is false read nothing and are 0."""

    out: Value
    address: Address
    mask: Value | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """Write `value` at `address`, combined with what is there if there is a combiner.

    Where the mask is false the element keeps its value; that of a scalar must be inside the array.
    A store with a combiner is scalar.
    """

    address: Address
    value: Value
    combiner: Op | None = None
    mask: Value | None = None


@dataclass(frozen=True, slots=True)
class VectorLoad:
    """outs = neighbours in memory, scalars, from `address` on: one access, aligned to its size."""

    outs: tuple[Value, ...]
    address: Address


@dataclass(frozen=True, slots=True)
class VectorStore:
    """Write scalars to neighbours in memory from `address` on, where the mask is true: one access,
    aligned to its size."""

    address: Address
    values: tuple[Value, ...]
    mask: Value | None = None


@dataclass(frozen=True, slots=True)
class Horizontal:
    """out = the lanes of `source` combined to one scalar, halves by halves."""

    out: Value
    combiner: Op
    source: Value


@dataclass(frozen=True, slots=True)
class WorkItem:
    """out = a digit of the work item's number in its group: number // stride % extent."""

    out: Value
    stride: int
    extent: int


@dataclass(frozen=True, slots=True)
class Across:
    """out = `source` of the work items that differ in one digit only, combined, in all of them.

    Item i and item i + half of the extent first, then quarters, ...; all items of the group come
    here. extent: of the digit, a power of two. array: of the group, an element for each item.
    """

    out: Value
    combiner: Op
    source: Value
    stride: int
    extent: int
    array: int


@dataclass(frozen=True, slots=True)
class Matrix:
    """outs = c + a @ b by the tensor cores; each is what one item of a warp holds. a, b: elements,
    or words of 32 bits in which they are, or one MatrixDescriptor each. transposed: of those,
    whether their lines are not along the reduction. With MatrixDescriptors outs are there after a
    MatrixWait, and c is used no more."""

    outs: tuple[Value, ...]
    core: TensorCore
    a: tuple[Value, ...]
    b: tuple[Value, ...]
    c: tuple[Value, ...]
    transposed: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """out = where a matrix is in local memory, for a tensor core that reads it there: in swizzled
    rows of `width` bytes, from `address` on, whose offsets are of the first and the last element.
    apart: bytes from rows to the next rows of the same lines (PTX's leading dimension)."""

    out: Value
    address: Address
    width: int
    apart: int


@dataclass(frozen=True, slots=True)
class MatrixFence:
    """Before the first Matrix of MatrixDescriptors: what items wrote to its c is seen."""


@dataclass(frozen=True, slots=True)
class MatrixWait:
    """All such Matrix instructions of the warp are done, and have read local memory."""


@dataclass(frozen=True, slots=True)
class MatrixLoad:
    """All items of a warp read matrices of 8 rows of 16 bytes from local memory, one for each of
    `outs`. The address of item 8 * j + i is that of row i of matrix j. Of each matrix item
    4 * i + j gets a word of 32 bits: element j of row i, or, of elements of 16 bits, the two from
    2 * j on; transposed: those of column i."""

    outs: tuple[Value, ...]
    address: Address
    transposed: bool


@dataclass(frozen=True, slots=True)
class Barrier:
    """All items of the group come here before any goes on; what they stored locally is seen.
    to_cores: by tensor cores that read local memory by themselves, too."""

    to_cores: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """`count` neighbours of type `dtype` from memory at `source` to the group's at `target`, or
    zeros where `mask` is false; where `when` is false nothing happens. It is done some time before
    a Wait for it; until then nobody looks there. One access, aligned to its size."""

    target: Address
    source: Address
    dtype: DType
    mask: Value | None = None
    when: Value | None = None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Commit:
    """The item's Copies since the last Commit are a batch."""


@dataclass(frozen=True, slots=True)
class Wait:
    """All batches of the item are done but the last `pending` ones."""

    pending: int


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Lane i of out = lane order[i] of `first`, or, past its lanes, of `second`."""

    out: Value
    first: Value
    second: Value
    order: tuple[int, ...]


class Carried(NamedTuple):
    """A value carried by a loop: `phi` is `initial` at first, then `next`; afterwards `final`."""

    phi: Value
    initial: Value
    next: Value
    final: Value


@dataclass(slots=True, eq=False)
class Block:
    """Instructions in order; depth counts the loops around. Built by linearize, then only read."""

    depth: int = 0
    items: list[Instruction] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Loop:
    """for counter in range(extent): body, with extent at least 1.

    parallel: a call of the function runs only a chunk of it, so that threads can share it. stop:
    how often it runs, 1 to extent, where that is known only in a launch.
    """

    counter: Value
    extent: int
    body: Block
    carried: tuple[Carried, ...] = ()
    parallel: bool = False
    stop: Value | None = None


Instruction = (Constant | Lanes | Splat | Compute | Load | Store | VectorLoad | VectorStore
               | Horizontal | WorkItem | Across | Matrix | MatrixLoad | MatrixDescriptor
               | MatrixFence | MatrixWait | Barrier | Copy | Commit | Wait | Shuffle | Loop)


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel in instructions.

    params: each argument's element type and size, in slot order. grain: iterations of the parallel
    loop that a thread takes at a time; 0 where there is no such loop. group: work items that run an
    iteration of the parallel loop together; 0 where each has chunks of its own. arrays: element
    types and sizes of what a group has in local memory. counts: where a launch says how often the
    parallel loop runs, the argument and the two elements that have that number and the grain.
    """

    name: str
    params: tuple[tuple[DType, int], ...]
    body: Block
    grain: int = 0
    group: int = 0
    arrays: tuple[tuple[DType, int], ...] = ()
    counts: tuple[int, int, int] | None = None

    @property
    def work_items(self) -> int:
        """How many items the chunks of the parallel loop take; without one it is one chunk."""
        chunks = (-(-item.extent // self.grain) for item in instructions_of(self.body)
                  if isinstance(item, Loop) and item.parallel)
        return max(self.group, 1) * max(chunks, default=1)


def instructions_of(block: Block) -> Iterator[Instruction]:
    """All instructions of a block and of the loops in it."""
    for item in block.items:
        yield item
        if isinstance(item, Loop):
            yield from instructions_of(item.body)


def addresses_of(item: Instruction) -> tuple[Address, ...]:
    """Where a Load, a Store or a Copy reads and writes; of others nothing."""
    if isinstance(item, Copy):
        return item.target, item.source
    return (item.address,) if isinstance(item, Load | MatrixLoad | MatrixDescriptor | Store) \
        else ()


def format_block(block: Block, indent: str = "") -> str:
    """A readable listing, for DEBUG and tests."""
    lines: list[str] = []
    for item in block.items:
        if isinstance(item, Loop):
            carried = ", ".join(f"v{c.phi.id} = v{c.initial.id}" for c in item.carried)
            suffix = f": {carried}" if carried else ""
            word = "parallel for" if item.parallel else "for"
            lines.append(f"{indent}{word} v{item.counter.id} < {item.extent}{suffix}")
            lines.append(format_block(item.body, indent + "  "))
        else:
            lines.append(indent + _format(item))
    return "\n".join(lines)


def _name(value: Any) -> str:
    if isinstance(value, Address):
        return _place(value)
    if type(value) is tuple:
        return f"({', '.join(map(_name, value))})"
    return f"v{value.id}" if isinstance(value, Value) else str(value)


def _place(at: Address) -> str:
    """arg1[v4 + 8 + (0, 1, 2, 3)]: elements of argument 1."""
    base = at.base if at.vector is None else at.vector
    parts = [_name(base)] if base is not None else []
    parts += [str(at.offset)] if at.offset else []
    parts += [_name(at.offsets)] if at.offsets != (0,) else []
    return f"{'local' if at.is_local else 'arg'}{at.slot}[{' + '.join(parts) or 0}]"


def _result(value: Value) -> str:
    """v4 float32x8: eight numbers."""
    lanes = f"x{value.lanes}" if value.lanes > 1 else ""
    return f"{_name(value)} {value.dtype.name}{lanes}"


def _format(item: Instruction) -> str:
    if isinstance(item, Compute):
        return f"{_result(item.out)} = {item.op.name} {' '.join(map(_name, item.args))}"
    fields = [getattr(item, f) for f in item.__slots__ if f != "out"]
    out = f"{_result(item.out)} = " if hasattr(item, "out") else ""
    words = (_name(value) for value in fields if value is not None and value is not False)
    return " ".join([f"{out}{type(item).__name__}", *words])
