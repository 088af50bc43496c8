"""Decisions that give a product to tensor cores: candidates, and what they take by the estimate.

In: the model of a kernel and the output ranges that may be its grid. Out: decisions with their
units, as gpu_model.py has them. Called by gpu.py.
"""
from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import NamedTuple

from lazyten.codegen.gpu.gpu_model import LOCAL_UNITS, REGISTERS
from lazyten.codegen.gpu.local_memory import is_read_in_parts, most_copies
from lazyten.codegen.gpu.tensor_tiles import are_read_from_local, cores_for, divides
from lazyten.codegen.loops.packing import Staged
from lazyten.codegen.model.cpu_model import Model
from lazyten.codegen.model.decisions import Decisions, Sharing, Tensors
from lazyten.codegen.targets.target import Target
from lazyten.codegen.targets.tensor_cores import TensorCore
from lazyten.ir.node import Node, ranges_of, toposort
from lazyten.ir.ops import Op

WARPS = ((1, 1), (1, 2), (2, 1), (2, 2), (2, 4), (4, 2))
TILES = ((1, 1), (1, 2), (2, 2), (2, 4), (4, 4), (4, 8))
DEPTHS = (1, 2, 4)
"""Instructions after each other on what a group has in local memory."""
BUFFERS = (2, 3, 4)
"""Arrays that take turns, where local memory is filled by itself."""
MOST_SUMS = 128
"""What an item holds of the results: half of the registers that it may have."""
MATRICES_UNITS = 7.0
"""Reading four matrices at once."""
OTHER_REGISTERS = 60
"""What an item has besides its sums."""
WARPS_EACH, LEAST_WARPS = 32, 5
"""Of `busy_warps`, those of one multiprocessor; so many compute as much as fewer would."""


class Costs(NamedTuple):
    """What a group does besides its products, in units of a warp. copy: a byte that an item copies
    to local memory; as much again where it goes through registers. beside: of the shorter of
    copies and products, what they take more than the longer. part: of each part of the reduction,
    its barrier and what waits for it. latency: until a copy has come."""

    copy: float
    beside: float
    part: float
    latency: float


BY_ITEMS = Costs(2.0, 1.0, 140.0, 460.0)
"""Copy, beside, part and latency where items read local memory for tensor cores."""
BY_CORES = Costs(1.0, 0.7, 32.0, 640.0)
"""Where these read it by themselves, while copies go on."""


def tensor_candidates(model: Model, rows: Sequence[Node],
                      numbers: dict[Node, int]) -> Iterator[tuple[Decisions, float]]:
    """Decisions and their units. numbers: of the loads that local memory can hold. float32
    would lose bits, and is given away only where the kernel says that it may."""
    totals = [n for n in toposort([model.sink]) if n.op is Op.ACCUMULATE]
    cores = cores_for(totals[0], model.target.tensor_cores) if len(totals) == 1 else []
    for core in cores:
        if core.takes.is_half or model.tf32:
            yield from _candidates(model, core, totals[0], rows, numbers)


def _candidates(model: Model, core: TensorCore, total: Node, rows: Sequence[Node],
                numbers: dict[Node, int]) -> Iterator[tuple[Decisions, float]]:
    """Those of one instruction."""
    if core.is_local and not are_read_from_local(total, numbers):
        return
    for row, column in permutations(rows, 2):
        for inner in total.src[1:]:
            tensors = Tensors(core, row, column, inner)
            if divides(total, tensors, model.free):
                for shape in product(WARPS, TILES, DEPTHS):
                    yield from _candidate(model, tensors, rows, numbers, *shape)


def buffered(decisions: Decisions, buffers: int, sink: Node) -> Decisions:
    """The same with so many buffers for each operand in local memory that is read in parts."""
    return replace(decisions, staged=tuple(
        replace(s, buffers=buffers) if is_read_in_parts(s.load, decisions.group, sink) else s
        for s in decisions.staged))


def _candidate(model: Model, tensors: Tensors, rows: Sequence[Node], numbers: dict[Node, int],
               warps: tuple[int, int], tile: tuple[int, int],
               depth: int) -> Iterator[tuple[Decisions, float]]:
    row, column, inner = tensors.row, tensors.column, tensors.inner
    core, part = tensors.core, depth * tensors.core.shape[2]
    sides = [r * w * t for r, w, t in zip(core.shape, warps, tile, strict=False)]
    size = core.warp * math.prod(warps)
    copies = [-(-side * part // size) for side in sides]
    gaps = 1 if core.is_local else 5 / 4
    memory = int(sum(sides) * part * core.takes.itemsize * gaps)
    if (sides[0] > row.arg.extent or sides[1] > column.arg.extent or part > inner.arg.extent
            or size > model.target.work_group or memory > model.target.local_memory
            or max(copies) > most_copies(core.takes.itemsize)
            or core.size(core.c) * math.prod(tile) > MOST_SUMS):
        return
    blocks = {row: sides[0], column: sides[1]}
    shared = tuple(r for r in rows if r.arg.extent > blocks.get(r, 1))
    staged = tuple(Staged(load, None, number, True) for load, number in numbers.items()
                   if inner in ranges_of([load]))
    ranges = (row, column)
    decisions = Decisions(
        tile=tuple((r, n) for r, n in zip(ranges, tile, strict=True) if n > 1),
        local=tuple((r, n) for r, n in zip(ranges, warps, strict=True) if n > 1),
        group=((inner, part),), staged=staged, tensor=tensors,
        parallel=Sharing(shared, 1 if shared else 0))
    yield decisions, _units(model, core, decisions, blocks, copies, depth, memory)
    for buffers in BUFFERS if model.target.async_copies else ():
        several = buffered(decisions, buffers, model.sink)
        if several != decisions and buffers * memory <= model.target.local_memory:
            yield several, _units(model, core, several, blocks, copies, depth, memory)


def _units(model: Model, core: TensorCore, decisions: Decisions, blocks: dict[Node, int],
           copies: Sequence[int], depth: int, memory: int) -> float:
    """Units of all warps. Groups on a multiprocessor compute while others wait; fitted to some
    two hundred and forty products that were measured on an H200."""
    costs = BY_CORES if core.is_local else BY_ITEMS
    p, q = (dict(decisions.tile).get(r, 1) for r in blocks)
    buffers = max((s.buffers for s in decisions.staged), default=1)
    copied = sum(copies) * core.takes.itemsize * costs.copy * (1 if buffers > 1 else 2)
    products = depth * (p * q * core.units + _load_units(core, p, q))
    each = max(products, copied) + min(products, copied) * costs.beside + costs.part
    warps, groups = (math.prod(n) for n in (
        (n for _, n in decisions.local),
        (-(-r.arg.extent // blocks.get(r, 1)) for r in decisions.parallel.ranges)))
    registers = (p * q * core.size(core.c) + OTHER_REGISTERS) * core.warp * warps
    warps *= core.warp // model.target.warp
    processors = multiprocessors(model.target)
    beside = max(min(REGISTERS // registers, model.target.local_memory // max(buffers * memory, 1),
                     -(-groups // processors)), 1)
    waits = 4 * costs.latency / (max(buffers - 1, 0.5) * beside)
    rounds = -(-groups // (processors * beside))
    own = next(n for n in toposort([model.sink]) if n.op is Op.ACCUMULATE).src[1:]
    parts = math.prod(-(-r.arg.extent // dict(decisions.group).get(r, 1)) for r in own)
    total: float = rounds * parts * (max(beside * warps, LEAST_WARPS) * each + waits)
    return total / WARPS_EACH


def multiprocessors(target: Target) -> int:
    """How many there are of what has local memory, and runs the warps of a group."""
    return max(target.busy_warps // WARPS_EACH, 1)


def _load_units(core: TensorCore, rows: int, columns: int) -> float:
    """Reading the operands of so many instructions beside each other."""
    units = 0.0
    if core.is_local:
        return units
    for count, digits, whole in ((rows, core.a, True), (columns, core.b, core.in_word > 1)):
        elements = count * core.size(digits)
        units += (elements / core.in_word / 4 * MATRICES_UNITS if core.row and whole
                  else elements * LOCAL_UNITS)
    return units
