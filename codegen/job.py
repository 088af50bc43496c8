"""A kernel on its way from a graph to text: what the passes of pipeline.py take and give."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from lazyten.codegen.gpu.local_memory import Group
from lazyten.codegen.instructions.aliasing import in_place_pairs
from lazyten.codegen.instructions.instructions import Function, format_block
from lazyten.codegen.loops.packing import Staged
from lazyten.codegen.loops.tile_fusion import Blocks
from lazyten.codegen.model.accesses import LINE
from lazyten.codegen.model.decisions import Decisions
from lazyten.codegen.render.group_text import asked_bytes
from lazyten.codegen.render.llvm_blocks import render_blocks
from lazyten.codegen.targets.dialect import dialect_of
from lazyten.codegen.targets.generated import Generated
from lazyten.codegen.targets.target import Target
from lazyten.codegen.verify.accesses import verify_accesses
from lazyten.codegen.verify.loops import verify_loops
from lazyten.ir.inspection import dump, verify
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import Op

MOST_CHUNKS = 32
"""Chunks of a kernel's blocks: each has scratch memory of its own."""

ALIASING = frozenset({"llvm"})
"""Languages in whose text arguments may be one memory: pointers of C are `restrict`."""

NOTHING_DECIDED, NO_GROUP = Decisions(), Group()


@dataclass(frozen=True, slots=True)
class Part:
    """One function of a kernel on its way: a SINK, once linearized a `function`, at last `text`.

    packs: whether it packs an operand of others, before them. is_partial: whether other parts store
    the rest of its outputs. scratch: the first argument of what it has packed, after which come the
    sums of its blocks. group: what a group of work items does. nest: its loops once all is decided,
    for people. declares: lines that its text needs.
    """

    sink: Node
    packs: bool = False
    is_partial: bool = False
    decisions: Decisions = NOTHING_DECIDED
    scratch: int = 0
    group: Group = NO_GROUP
    name: str = ""
    nest: str = ""
    function: Function | None = None
    text: str = ""
    declares: tuple[str, ...] = ()

    @property
    def packed(self) -> list[Staged]:
        """The operands that are packed beforehand."""
        return [s for s in self.decisions.staged if not s.local]

    @property
    def shared(self) -> list[Staged]:
        """The operands that go to local memory."""
        return [s for s in self.decisions.staged if s.local]

    @property
    def instructions(self) -> Function:
        """The function, of a part that has come so far."""
        assert self.function is not None
        return self.function


@dataclass(frozen=True, slots=True)
class Job:
    """A kernel on its way to text for a target.

    in_one: whether its loops are to be one nest, which decisions for other sizes fit. free: the
    first argument number that is not taken. blocks: what its parts are run for, if it holds values.
    records: of the report that a checked kernel has.
    """

    kernel: Kernel
    target: Target
    in_one: bool = False
    parts: tuple[Part, ...] = ()
    free: int = 0
    blocks: Blocks | None = None
    records: int = 0

    @property
    def arguments(self) -> int:
        """How many arguments are not scratch memory; a report is the last."""
        return len(self.kernel.outputs) + len(self.kernel.inputs) + bool(self.kernel.checks)

    @property
    def packing(self) -> int:
        """How many parts come first, as they pack operands."""
        return sum(part.packs for part in self.parts)


def verify_job(old: Job, new: Job) -> None:
    """Raise InternalError unless the loops that a pass has made visit each element just once, and
    the instructions that are made of them stay inside of arrays. (A work item may take neighbours
    of several loops, and has no vectors in the end.)"""
    before = {part.sink for part in old.parts}
    for part in new.parts:
        if part.sink not in before:
            verify([part.sink], "loop")
            verify_loops(part.sink, new.target.work_group == 1, not part.is_partial)
    if all(part.function is None for part in old.parts):
        for part in new.parts:
            if part.function is not None:
                verify_accesses(part.function, not part.is_partial)


def describe(job: Job) -> str:
    """The parts as they are: loops, instructions or text, each with what was decided."""
    return "\n\n".join(f"{part.decisions}\n{_body(part)}" for part in job.parts)


def _body(part: Part) -> str:
    if part.text:
        return part.text
    return dump([part.sink]) if part.function is None else format_block(part.function.body)


def generated(job: Job) -> Generated:
    """The parts as one: their texts, and what a runtime must know to launch them."""
    if job.blocks is not None:
        return _in_blocks(job, job.blocks)
    kernel, functions = job.kernel, [part.instructions for part in job.parts]
    titles = [str(part.decisions) for part in job.parts]
    decided = "" if job.parts[-1].is_partial else titles[-1]
    if kernel.decisions is not None:
        titles[-1] += " (given)"
    loops = (f"{title}\n{part.nest}" if part.nest else title
             for title, part in zip(titles, job.parts, strict=True))
    in_place = in_place_pairs(functions, len(kernel.outputs), len(kernel.inputs)) \
        if job.target.language in ALIASING and not kernel.checks else ()
    return Generated(kernel.name, "\n".join(part.text for part in job.parts), _declares(job),
                     "\n\n".join(loops), kernel.where, tuple(part.name for part in job.parts),
                     _scratch_bytes(job.parts, job.arguments),
                     tuple(f.work_items for f in functions), tuple(f.group for f in functions),
                     job.records, in_place, decided, _local_bytes(functions, job.target))


def _in_blocks(job: Job, blocks: Blocks) -> Generated:
    """One function that runs the parts for each block, after those that pack."""
    kernel, packing = job.kernel, job.parts[:job.packing]
    before = [part.instructions for part in packing]
    functions = [part.instructions for part in job.parts[job.packing:]]
    grain = -(-blocks.number // MOST_CHUNKS)
    chunks = -(-blocks.number // grain)
    held = {job.arguments + i: -(-n // LINE) * LINE for i, n in enumerate(blocks.held)}
    text, declares = render_blocks(kernel.name, functions, held, blocks.number, grain)
    title = f"{len(functions)} parts for each of {blocks.number} blocks, {grain} a chunk"
    loops = [title, *(f"{part.decisions}\n{part.nest}" for part in job.parts)]
    return Generated(kernel.name, "\n\n".join([*(part.text for part in job.parts), text]),
                     tuple(dict.fromkeys((*_declares(job), *declares))), "\n\n".join(loops),
                     kernel.where, (*(part.name for part in packing), kernel.name),
                     (*(chunks * n for n in held.values()),
                      *_scratch_bytes(packing, job.arguments + len(held))),
                     (*(f.work_items for f in before), chunks), (0,) * (len(packing) + 1))


def _declares(job: Job) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(part.declares for part in job.parts)))


def _local_bytes(functions: Sequence[Function], target: Target) -> tuple[int, ...]:
    """What a launch of each must ask for."""
    dialect = dialect_of(target.language)
    if dialect is None:
        return ()
    found = tuple(asked_bytes(f.arrays, dialect) for f in functions)
    return found if any(found) else ()


def _scratch_bytes(parts: tuple[Part, ...], arguments: int) -> tuple[int, ...]:
    """The bytes of each scratch array, in the order of their arguments."""
    params = {n.arg.slot: n.dtype.itemsize * n.arg.size
              for n in toposort([part.sink for part in parts]) if n.op is Op.PARAM}
    return tuple(params[slot] for slot in sorted(params) if slot >= arguments)
