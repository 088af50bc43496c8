"""What is wrong with decisions about work items and local memory; called by decision_text.

In: decisions and the kernel they are for. Out: pairs of the part at fault and what is wrong.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping

from lazyten.codegen.gpu.local_memory import is_read_in_parts
from lazyten.codegen.gpu.tensor_tiles import are_read_from_local, cores_for, divides
from lazyten.codegen.loops.ranges import is_update
from lazyten.codegen.model.decisions import Decisions, range_name
from lazyten.codegen.optimize.optimize import digits_of, local_arrays
from lazyten.codegen.targets.cp_async import MOST_BUFFERS
from lazyten.codegen.targets.target import Target
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import Op

Problems = Iterator[tuple[str, str]]


def group_problems(decisions: Decisions, sink: Node, free: Mapping[Node, frozenset[Node]],
                   target: Target) -> Problems:
    """Why a group of work items cannot do this; nothing if it can."""
    alone = [s for s in decisions.staged if s.local]
    if not decisions.local and decisions.tensor is None:
        if decisions.group or alone:
            yield ("group" if decisions.group else "stage(..., local)",
                   "is for work items of a group: it needs local(...) too")
        return
    if target.work_group == 1 or not target.local_memory:
        yield "local", "this target has no groups of work items with local memory"
        return
    if any(is_update(store, sink) for store in sink.src):
        yield "local", "this kernel stores values one after the other, in one work item"
    others = [name for name, chosen in (("block", decisions.block),
                                        ("outermost", decisions.outer)) if chosen]
    if others:
        yield others[0], "does not go together with local(...)"
    if decisions.lanes and decisions.tensor is not None:
        yield "vector", "does not go together with tensor(...)"
    for r, n in decisions.local:
        if n < 2 or n & (n - 1):
            yield f"local({range_name(r)}:{n})", "work items are a power of two, at least 2"
    if decisions.parallel.grain > 1:
        yield f"parallel(...:{decisions.parallel.grain})", "a group takes 1 iteration"
    yield from _reduction_problems(decisions, sink, free)
    yield from _part_problems(decisions, free[sink])
    yield from _tensor_problems(decisions, sink, free, target)
    yield from _buffer_problems(decisions, sink)


def memory_problems(decisions: Decisions, sink: Node, target: Target) -> Problems:
    """What is too large for a target; asked of decisions that have no other problem."""
    size = digits_of(sink, decisions)[1]
    if not size:
        return
    if size > target.work_group:
        yield "local", f"{size} work items are more than a group has, {target.work_group}"
        return
    arrays = local_arrays(sink, decisions)
    for copies, most, _ in arrays:
        if copies > most:
            yield "stage(..., local)", (f"each work item would copy {copies} elements; the limit "
                                        f"is {most}")
    total = sum(nbytes for *_, nbytes in arrays)
    if total > target.local_memory:
        yield "stage(..., local)", (f"{total:,} bytes are more than the local memory, "
                                    f"{target.local_memory:,}")


def _reduction_problems(decisions: Decisions, sink: Node,
                        free: Mapping[Node, frozenset[Node]]) -> Problems:
    chosen = {r for r, _ in decisions.local}
    outputs = chosen & free[sink]
    for node in toposort([sink]):
        own = chosen.intersection(node.src[1:]) if node.op is Op.ACCUMULATE else set()
        part = f"local({', '.join(sorted(map(range_name, own)))})"
        if len(own) > 1:
            yield part, "of a reduction, only one range is shared by work items"
        depends = chosen & free[node]
        if own and depends and depends != outputs:
            yield part, ("a reduction that work items share depends on all ranges of the output "
                         "that are in local(...), or on none, and on no other reduction's")


def _part_problems(decisions: Decisions, outputs: frozenset[Node]) -> Problems:
    split = {r for r, _ in (*decisions.local, *decisions.unroll, *decisions.lanes)}
    for r, n in decisions.group:
        part = f"group({range_name(r)}:{n})"
        if r in outputs:
            yield part, "only a reduction (r...) is read part by part"
        elif not 1 < n <= r.arg.extent:
            yield part, f"a part has at least 2 elements and at most the {r.arg.extent} there are"
        elif r in split:
            yield part, "a range that has work items, accumulators or lanes of its own has no parts"


def _buffer_problems(decisions: Decisions, sink: Node) -> Problems:
    counts = {s.buffers for s in decisions.staged if s.local and s.buffers > 1}
    for s in decisions.staged:
        if s.buffers == 1:
            continue
        part = f"stage(..., local, {s.buffers} buffers)"
        if s.buffers > MOST_BUFFERS or len(counts) > 1:
            yield part, (f"there are at most {MOST_BUFFERS} buffers, and as many for each operand "
                         "that has some")
        if not is_read_in_parts(s.load, decisions.group, sink):
            yield part, ("nothing can be copied ahead: no loop of one reduction is left around "
                         "what a group reads; use a smaller group(...)")


def _tensor_problems(decisions: Decisions, sink: Node, free: Mapping[Node, frozenset[Node]],
                     target: Target) -> Problems:
    tensors = decisions.tensor
    if tensors is None:
        return
    part = f"tensor(...: {tensors.core.name})"
    if tensors.core.name not in target.tensor_cores:
        yield part, f"this target has {', '.join(target.tensor_cores) or 'no tensor cores'}"
    totals = [n for n in toposort([sink]) if n.op is Op.ACCUMULATE]
    if len(totals) != 1 or not cores_for(totals[0], [tensors.core.name]):
        yield part, ("only a kernel whose one reduction is a sum of products of two "
                     f"{tensors.core.takes.name} can use it")
    elif not divides(totals[0], tensors, free):
        yield part, ("one factor depends on the rows and not on the columns, the other on the "
                     "columns and not on the rows, both on the reduction")
    elif tensors.core.is_local and not are_read_from_local(
            totals[0], {s.load for s in decisions.staged if s.local}):
        yield part, ("it reads both factors from local memory: they must be operands as they are, "
                     "with stage(..., local)")
    own = {r for total in totals for r in total.src[1:]}
    if any(r in own for r, _ in (*decisions.local, *decisions.unroll)):
        yield part, "its reduction has no work items or accumulators of its own"
    inner = dict(decisions.group).get(tensors.inner, 0)
    if inner % tensors.core.shape[2]:
        yield part, f"a group's part of the reduction is a multiple of {tensors.core.shape[2]}"
