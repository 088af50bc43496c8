"""Computing values: from lazy storages to filled buffers."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from lazyten.execution import debug, failed_writes, interpreted, launch_dump
from lazyten.execution.plans.checks import is_outside, outside_error, reach
from lazyten.execution.plans.graph import Graph
from lazyten.execution.plans.making import is_known, plan_of
from lazyten.execution.plans.running import run
from lazyten.ir.node import Node
from lazyten.storage import collectives as recorded
from lazyten.storage import frames, history, tracing
from lazyten.storage.storage import Buffer, Storage, remember
from lazyten.support import observers
from lazyten.support.errors import IndexingError, LazytenError

observers.on_request(debug.asked, debug.DEBUG)
observers.on_request(launch_dump.asked, launch_dump.DUMP)


def realize(storages: Iterable[Storage], is_look: bool = True) -> None:
    """Compute these storages' values, all in one schedule. Those already computed cost nothing.

    What else is due is computed with them (history.beside), if somebody looks at them; not where
    they are only to be read from memory. Inside a jitted function nothing happens: the captured
    program computes everything together.
    """
    if tracing.current() is not None:
        return
    frames.refuse_values()
    if is_look:
        frames.looked()
    pending = [s for s in storages if s.buffer is None]
    if pending and compute_recorded is not None and compute_recorded(pending):
        pending = [s for s in pending if s.buffer is None]  # another thread wanted its node
    if not pending:
        return
    pending = _with_companions(pending)
    groups = [[s for s in pending if s.device == device]
              for device in dict.fromkeys(s.device for s in pending)]
    others = [history.beside(group) if is_look else [] for group in groups]
    if is_look:
        history.looked(pending)
    try:
        for group, besides in zip(groups, others, strict=True):
            realize_beside(group, besides)
    except IndexingError:
        undo_writes(pending)
        raise


compute_recorded: Callable[[Sequence[Storage]], bool] | None = None
"""Computes what a frame knows (frame_runs.py, which needs this module)."""


def realize_beside(asked: Sequence[Storage], others: Sequence[Storage]) -> None:
    """Compute values of one device, and others with them, if that is possible: what is wrong with
    the others comes up where they are asked for."""
    device = asked[0].device
    try:
        _realize_on(device, [*asked, *others])
    except LazytenError:
        if not others:
            raise
        history.forget(others)
        _realize_on(device, asked)


def undo_writes(asked: Iterable[Storage]) -> None:
    """An index is outside: undo writes, to what was asked for and others, that depend on such."""
    failed_writes.undo(asked, _is_refused)


def _is_refused(check: Node, device: str) -> bool:
    """Whether an index is outside, or is computed by means of one that is."""
    reached = Storage(reach(check), device, keeps_graph=True)
    try:
        _realize_on(device, [reached])
    except IndexingError:
        return True
    assert reached.buffer is not None
    return is_outside(check, reached.buffer)


def computed(node: Node, device: str, keeps_graph: bool) -> Node:
    """The node once its value is in memory; a read of that memory unless it keeps its graph."""
    value = Storage(node, device, keeps_graph)
    realize([value])
    memory = None if keeps_graph else value.buffer  # also of a graph that was computed before
    return value.value if memory is None else memory.node(node.shape)


def _with_companions(storages: Iterable[Storage]) -> list[Storage]:
    """These storages and what came out of the same backward passes, each once."""
    found: dict[Storage, None] = {}
    for storage in storages:
        found[storage] = None
        for reference in storage.companions:
            other = reference()
            if other is not None and other.buffer is None:
                found[other] = None
        storage.companions = ()
    return list(found)


def _copy_across(copy: Node) -> None:
    """Compute what a COPY reads on the other device, and copy it."""
    source, target = copy.arg
    there = Storage(copy.src[0], source, keeps_graph=False)
    realize([there])
    assert there.buffer is not None
    remember(target, copy, Buffer.from_numpy(there.buffer.numpy(), copy.dtype, target))


def _checked_graph(roots: Sequence[Node], device: str) -> Graph:
    """The graph of these values and of what must be looked at before they count, once what it reads
    from other devices is here."""
    graph = Graph(roots, device, checked=True)
    while graph.copies:
        for copy in graph.copies:
            _copy_across(copy)
        graph = Graph(roots, device, checked=True)
    return graph


def _realize_on(device: str, storages: Sequence[Storage]) -> None:
    values = [s.value for s in storages]
    graph = _checked_graph(values, device)
    if graph.collectives:
        storages = _with_collectives(graph, device, storages)
        values = [s.value for s in storages]
        graph = _checked_graph(values, device)
    elif graph.is_joint:  # what was recorded before comes first
        carry_out()
    again = graph.read_again()
    if again:
        storages = [*storages, *(Storage(n, device, keeps_graph=True) for n in again)]
        values += again
        graph = _checked_graph(values, device)
    if interpreted.pays(device, graph, interpreted.line()):
        buffers = interpreted.interpret(device, graph, graph.buffers)
    else:
        known = is_known(device, graph)
        start = time.perf_counter()
        plan = plan_of(device, graph)
        spent = None if known else time.perf_counter() - start
        buffers = run(device, plan, graph.buffers, spent)
    if graph.collectives:
        _settle_collectives(graph, storages, buffers)
    for check, buffer in zip(graph.checks, buffers[len(storages):], strict=True):
        if is_outside(check, buffer):
            _refuse_index(check, device)
    for storage, value, buffer in zip(storages, values, buffers, strict=False):
        storage.settle(value, buffer, value in graph.reading)


def _with_collectives(graph: Graph, device: str, storages: Sequence[Storage]) -> list[Storage]:
    """These values, and those of all collectives that are to be carried out with them: each is
    carried out once, and has its value from then on. What is due on another device is done
    before."""
    found = list(storages)
    while True:
        due = [n for n in recorded.due(graph.collectives)
               if graph.realized.get(n) is None and all(n is not s.value for s in found)]
        if not due:
            return found
        elsewhere = [n for n in due if n.arg.device != device]
        if elsewhere:
            _realize_on(elsewhere[-1].arg.device, [
                Storage(elsewhere[-1], elsewhere[-1].arg.device, keeps_graph=True)])
        else:
            found += [Storage(n, device, keeps_graph=True) for n in due]
        graph = _checked_graph([s.value for s in found], device)


def _settle_collectives(graph: Graph, storages: Sequence[Storage],
                        buffers: Sequence[Buffer]) -> None:
    """Record what collectives gave, before anything else can go wrong: nobody may carry them out
    again."""
    for storage, buffer in zip(storages, buffers, strict=False):
        if storage.value in graph.collectives:
            storage.settle(storage.value, buffer, True)
    recorded.done(graph.collectives)


def carry_out() -> None:
    """Carry out all collectives that were recorded."""
    while waiting := recorded.waiting():
        node = waiting[-1]
        _realize_on(node.arg.device, [Storage(node, node.arg.device, keeps_graph=True)])
        recorded.done([node])


def _refuse_index(check: Node, device: str) -> None:
    """IndexingError for the first value of an index that is outside."""
    index = Storage(check.src[0], device, keeps_graph=True)
    realize([index])
    raise outside_error(check, index.read())
