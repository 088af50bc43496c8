"""Computing values: from lazy storages to filled buffers.

A graph is first keyed by its structure, buffers numbered in visit order. A key that was seen before
skips scheduling and compilation, so a training loop compiles its step once.
"""
from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from lazyten.execution import collectives, debug, failed_writes, launch_dump
from lazyten.execution.checks import index_checks, is_outside, outside_error, reach
from lazyten.execution.sizes import planned
from lazyten.execution.sizes.families import Families, inputs_of, regions_of
from lazyten.execution.sizes.forms import Forms, Inputs
from lazyten.execution.sizes.planned import Planned
from lazyten.ir import collective as ir_collective
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import Node, make, rebuild, toposort
from lazyten.ir.numbers import Numbers, Skeleton, numbers_of
from lazyten.ir.ops import IDENTITY_OPS, Op
from lazyten.ir.scan import plain
from lazyten.schedule.deciding import read_again
from lazyten.schedule.draft import Limits
from lazyten.schedule.schedule import Schedule, schedule
from lazyten.storage import collectives as recorded
from lazyten.storage import frames, history, tracing
from lazyten.storage.device import Argument, AtSizes, Handle, Limit, Program, executor
from lazyten.storage.storage import REALIZED, Buffer, Storage
from lazyten.support import check_mode, matmul_precision, observers, passes
from lazyten.support.errors import DeviceError, IndexingError, LazytenError
from lazyten.support.location import user_location
from lazyten.support.observers import Launch, Observer, Span


class Options(NamedTuple):
    """What a plan depends on besides its graph: its device, and settings. checks, tf32: those of
    its kernels, see Kernel. sizes: the computation whose kernels it shares, if its sizes vary, and
    which size it is."""

    device: str
    checks: check_mode.Kinds
    tf32: bool
    sizes: Planned | None = None

    @classmethod
    def now(cls, device: str) -> Options:
        """For what is planned here and now."""
        return cls(device, check_mode.active(),
                   matmul_precision.allows_tf32() and executor(device).has_tf32,
                   planned.current())

    def applied(self, kernel: Kernel) -> Kernel:
        """A kernel as it is compiled."""
        if not self.checks and not self.tf32:
            return kernel
        return replace(kernel, checks=self.checks, tf32=self.tf32)

    @property
    def known(self) -> Any:
        """What the device keeps of a computation whose sizes vary; None of any other."""
        return None if self.sizes is None else self.sizes.of.on(self.device)


@dataclass(slots=True, weakref_slot=True, eq=False)
class Plan:
    """A schedule with its compiled programs, one a kernel step.

    runs: how often it was run. launch: all programs as one function, once that pays. seconds: that
    each pass took to make it. roots: the graph that was scheduled.
    """

    schedule: Schedule
    programs: tuple[Program, ...]
    options: Options
    runs: int = 0
    launch: Callable[[Sequence[Handle]], object] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    roots: tuple[Node, ...] = ()

    def launch_all(self, device: str, handles: Mapping[int, Handle]) -> None:
        """Run on these arrays, all in one call; they come in the same order each time."""
        launch = self.launch
        if launch is None:
            launch = self.launch = self.joined(device, handles)
        launch(list(handles.values()))

    def joined(self, device: str, arrays: Iterable[int], limits: Sequence[tuple[int, int]] = (),
               count: int = 0) -> Callable[[Sequence[Handle]], object]:
        """All launches as one function of the handles of these arrays, in this order. limits: after
        `count` launches the number in an array must be below one, or the rest is left out and the
        function gives False."""
        position = {array: i for i, array in enumerate(arrays)}
        launches = [[(program, [Argument(position[a], n) for a, n in arguments])
                     for _, program, arguments in launch] for launch in self.launches()]
        runtime, found = executor(device), [Limit(Argument(position[a]), n) for a, n in limits]
        if collectives.are_among(launches):
            if not limits:
                return collectives.sequence(runtime, launches)
            return collectives.guarded(runtime, launches[:count], found, launches[count:])
        if not limits:
            return runtime.sequence(launches)
        return runtime.guarded(launches[:count], found, launches[count:])

    def launches(self) -> Iterator[list[tuple[Kernel, Program, list[Argument]]]]:
        """What each launch runs: kernels with their programs, and on what memory."""
        steps = zip(self.schedule.steps, self.programs, strict=True)
        for count in self.schedule.launches:
            yield [(step.kernel, program, self.schedule.arguments_of(step))
                   for step, program in islice(steps, count)]


NO_KERNELS = frozenset({Op.COPY, Op.COLLECTIVE})
"""What no kernel computes."""
RUNS = 4
"""A plan that was run so often is worth a function that launches all its programs."""


_plans: OrderedDict[Hashable, Plan] = OrderedDict()
PLAN_LIMIT = 1024
observers.on_request(debug.asked)
observers.on_request(launch_dump.asked)
_live: WeakValueDictionary[int, Plan] = WeakValueDictionary()
"""Every plan in use, jitted functions' too."""


def realize(storages: Iterable[Storage]) -> None:
    """Compute these storages' values, all in one schedule. Those already computed cost nothing.

    What else is due is computed with them (history.beside). Inside a jitted function nothing
    happens: the captured program computes everything together.
    """
    if tracing.current() is not None:
        return
    frames.refuse_values()
    pending = [s for s in storages if s.buffer is None]
    if pending and compute_recorded is not None and compute_recorded(pending):
        pending = [s for s in pending if s.buffer is None]  # another thread wanted its node
    if not pending:
        return
    pending = _with_companions(pending)
    groups = [[s for s in pending if s.device == device]
              for device in dict.fromkeys(s.device for s in pending)]
    others = [history.beside(group) for group in groups]
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
    return is_outside(check, reached.buffer.numpy())


def computed(node: Node, device: str, keeps_graph: bool) -> Node:
    """The node once its value is in memory; a read of that memory unless it keeps its graph."""
    value = Storage(node, device, keeps_graph)
    realize([value])
    return value.value


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
    there = Storage(copy.src[0], source, keeps_graph=True)
    realize([there])
    assert there.buffer is not None
    here = Buffer.from_numpy(there.buffer.numpy(), copy.dtype, target)
    REALIZED[target][copy] = here.node(copy.shape)


def _checked_graph(roots: Sequence[Node], device: str) -> Graph:
    """The graph of these values and of what must be looked at before they count, once what it reads
    from other devices is here."""
    graph = Graph(roots, device, checked=True)
    while graph.copies:
        for copy in graph.copies:
            _copy_across(copy)
        graph = Graph(roots, device, checked=True)
    return graph


def plan_of(device: str, graph: Graph) -> Plan:
    """The plan for graphs of this structure, made if it is new."""
    key = Options.now(device), graph.key
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = _make_plan(graph, key[0])
        if len(_plans) > PLAN_LIMIT:
            _plans.popitem(last=False)
    else:
        _plans.move_to_end(key)
    return plan


def _realize_on(device: str, storages: Sequence[Storage]) -> None:
    values = [s.value for s in storages]
    graph = _checked_graph(values, device)
    if graph.collectives:
        storages = _with_collectives(graph, device, storages)
        values = [s.value for s in storages]
        graph = _checked_graph(values, device)
    again = graph.read_again()
    if again:
        storages = [*storages, *(Storage(n, device, keeps_graph=True) for n in again)]
        values += again
        graph = _checked_graph(values, device)
    known = (Options.now(device), graph.key) in _plans
    start = time.perf_counter()
    plan = plan_of(device, graph)
    spent = None if known else time.perf_counter() - start
    buffers = run(device, plan, graph.buffers, spent)
    if graph.collectives:
        _settle_collectives(graph, storages, buffers)
    for check, buffer in zip(graph.checks, buffers[len(storages):], strict=True):
        if is_outside(check, buffer.numpy()):
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


class Graph:
    """A graph about to be computed: its structural key and the buffers it reads, in visit order.

    copies: what it reads from other devices and is not here yet; there is no key until it is.
    collectives: those that are to be carried out, in order; numbered: their arguments here. The
    nodes that only steer gradients are passed over, and a node whose value is in memory is replaced
    by a read of it (unless a graph is wanted that does not depend on what was computed before).
    checked: more roots, after the others, tell how far out the index of each of `checks` reaches.
    reading: the nodes that are not made of constants alone.
    """

    def __init__(self, roots: Sequence[Node], device: str, use_realized: bool = True,
                 checked: bool = False) -> None:
        self.roots = roots
        self.realized: Mapping[Node, Node] = REALIZED[device] if use_realized else {}
        self.passed: dict[Node, Node] = {}
        seen: set[Node] = set()
        self.order = toposort(roots, self._sources, seen)
        self.checks = index_checks(self.order) if checked else []
        if self.checks:
            looked_at = list(map(reach, self.checks))
            self.roots = [*roots, *looked_at]
            self.order += toposort(looked_at, self._sources, seen)
        outside = [n for n in self.order if n.op in NO_KERNELS and n not in self.passed]
        self.copies = [n for n in outside if n.op is Op.COPY]
        self.collectives = ir_collective.collectives(outside)
        self.numbered = {n: n.arg.numbered(i) for i, n in enumerate(self.collectives)}
        self.buffers: list[Buffer] = []
        self.reading: set[Node] = set()
        self.key: Hashable = None if self.copies else self._structure()

    def _structure(self) -> Hashable:
        """What is equal for graphs that differ in nothing but which buffers they read."""
        numbers: dict[Node, int] = {}
        entries: list[Hashable] = []
        passed, reading, buffer, constant = self.passed, self.reading, Op.BUFFER, Op.CONST
        for node in self.order:
            if node in passed:
                numbers[node] = numbers[passed[node]]
                if passed[node] in reading:
                    reading.add(node)
                continue
            numbers[node] = len(entries)
            op, arg = node.op, node.arg
            if op is buffer or not reading.isdisjoint(node.src):
                reading.add(node)
            if op is buffer:
                self.buffers.append(arg)
                arg = (len(self.buffers), arg.size)
            elif op is constant:
                arg = (repr(node.value), node.shape)
            elif op is Op.COLLECTIVE:
                arg = self.numbered[node]
            entries.append((op, node.dtype, arg, tuple([numbers[s] for s in node.src])))
        return tuple(entries), tuple([numbers[r] for r in self.roots])

    def _sources(self, node: Node) -> tuple[Node, ...]:
        """What a node reads; notes the node that is read in its place, if one is."""
        if node.op is Op.BUFFER:
            return ()
        found = self.realized.get(node)
        if found is None and node.op in IDENTITY_OPS:
            found = node.src[0]
        if found is None or found is node:
            return () if node.op is Op.COPY else node.src
        self.passed[node] = found
        return (found,)

    def read_again(self) -> list[Node]:
        """What must be stored as a later graph may read it, and must find the same bits."""
        return read_again(self.order, self.roots,
                          (self.passed, self.passed.values(), self.reading, self.checks))

    @property
    def inputs(self) -> list[tuple[DType, int]]:
        """The type and size of each buffer."""
        return [(b.dtype, b.size) for b in self.buffers]

    def normalized(self) -> list[Node]:
        """The roots over BUFFER(Slot) leaves, without the nodes that were passed over."""
        memo: dict[Node, Node] = {}
        count = 0
        for node in self.order:
            if node in self.passed:
                memo[node] = memo[self.passed[node]]
            elif node.op is Op.BUFFER:
                memo[node] = make(Op.BUFFER, node.dtype, (), Slot(count, node.arg.size))
                count += 1
            elif node.op is Op.SCAN:
                memo[node] = make(Op.SCAN, node.dtype, tuple(memo[s] for s in node.src),
                                  plain(node.arg), node.place)
            elif node.op is Op.COLLECTIVE:
                memo[node] = make(Op.COLLECTIVE, node.dtype, tuple(memo[s] for s in node.src),
                                  self.numbered[node], node.place)
            else:
                memo[node] = rebuild(node, tuple(memo[s] for s in node.src))
        return [memo[r] for r in self.roots]


def _make_plan(graph: Graph, options: Options) -> Plan:
    start = time.perf_counter()
    with passes.timed() as seconds:
        roots = tuple(graph.normalized())
        plan = _varying_plan(roots, graph, options)
        if plan is None:
            made = scheduled(roots, graph.inputs, options)
            plan = Plan(made, _programs(made, options), options, roots=roots)
    plan.seconds = seconds
    _live[id(plan)] = plan
    for observer in observers.present():
        observer.made(options.device, plan, Span(start, time.perf_counter() - start))
    return plan


def scheduled(roots: Sequence[Node], inputs: Inputs, options: Options) -> Schedule:
    """The kernels that compute a normalized graph. Where they are checked, inputs start where their
    memory does, and all values are stored: reports are about those."""
    return schedule(roots, inputs, *_limits(options))


def _limits(options: Options) -> Limits:
    """Where sizes vary nothing is held, as how many rows fit a block is a matter of the size."""
    runs, plain = executor(options.device), not options.checks
    holds = plain and options.known is None
    return Limits(runs.has_offsets and plain, runs.block_bytes if holds else 0, runs.items,
                  runs.alignment)


# ---- sizes that vary -----------------------------------------------------------------------------

_families = Families()


def _varying_plan(roots: tuple[Node, ...], graph: Graph, options: Options) -> Plan | None:
    """The plan of a computation whose sizes vary: one that was given as such (Sizes.planning), or
    one of graphs that differ in nothing but sizes. None for any other."""
    device = options.device
    if options.checks or graph.collectives or executor(device).varying() is None:
        return None
    skeleton, numbers = numbers_of(roots)
    if options.sizes is not None:
        return _plan_at(roots, graph.inputs, options, skeleton, numbers)
    family = _families.of((options, skeleton))
    sizes = None if family is None else family.sizes_of(numbers)
    if family is None or sizes is None:
        if family is not None:
            family.note(numbers)
        return None
    regions = regions_of(sizes)
    if all(low == high for low, high in regions):
        return None
    for there, its, other in family.ahead(regions, skeleton):
        with family.computation.planning(there, regions):
            _look_at(other, inputs_of(other), Options.now(device), skeleton, its)
    with family.computation.planning(sizes, regions):
        return _plan_at(roots, graph.inputs, Options.now(device), skeleton, numbers)


def _plan_at(roots: tuple[Node, ...], inputs: Inputs, options: Options, skeleton: Skeleton,
             numbers: Numbers) -> Plan:
    """The plan of a computation at one of its sizes. Whoever looks on is given reasons."""
    made = None
    if not observers.present():
        made = _forms(options, skeleton).predicted(_at(options).sizes, numbers,
                                                   _limits(options).alignment)
    if made is None:
        made = _schedule_at(roots, inputs, options, skeleton, numbers)
    return Plan(made, _programs(made, options), options, roots=roots)


def _schedule_at(roots: Sequence[Node], inputs: Inputs, options: Options, skeleton: Skeleton,
                 numbers: Numbers) -> Schedule:
    """The schedule of a computation at one of its sizes, by choices that others share if it can."""
    return _forms(options, skeleton).schedule(
        _at(options).sizes, numbers, roots, inputs, _limits(options)) \
        or scheduled(roots, inputs, options)


def explained(plan: Plan) -> Schedule:
    """The schedule of a plan with reasons, also if formulas gave it."""
    made = plan.schedule
    if made.stored or plan.options.sizes is None:
        return made
    return _schedule_at(plan.roots, made.arrays[:made.inputs], plan.options,
                        *numbers_of(plan.roots))


def _forms(options: Options, skeleton: Skeleton) -> Forms:
    assert options.sizes is not None
    return options.sizes.of.forms(options.device, _at(options).region, skeleton)


def _at(options: Options) -> AtSizes:
    assert options.sizes is not None
    return options.sizes.at


def look_at(device: str, graph: Graph) -> None:
    """Have a device know the kernels of a computation whose sizes vary, at sizes that nobody has
    asked for: nothing is compiled."""
    roots = graph.normalized()
    _look_at(roots, graph.inputs, Options.now(device), *numbers_of(roots))


def _look_at(roots: Sequence[Node], inputs: Inputs, options: Options, skeleton: Skeleton,
             numbers: Numbers) -> None:
    made = scheduled(roots, inputs, options) if options.checks else \
        _schedule_at(roots, inputs, options, skeleton, numbers)
    kernels = dict.fromkeys(step.kernel for step in made.steps)
    programs = collectives.programs(kernels, options.device)
    executor(options.device).look_at([options.applied(k) for k in kernels if k not in programs],
                                     options.known, _at(options))


# ---- programs ------------------------------------------------------------------------------------

def _programs(made: Schedule, options: Options) -> tuple[Program, ...]:
    kernels = dict.fromkeys(step.kernel for step in made.steps)
    programs = collectives.programs(kernels, options.device)
    of_device = [k for k in kernels if k not in programs]
    runtime, known = executor(options.device), options.known
    ready = list(map(options.applied, of_device))
    built = runtime.build(ready) if known is None or options.sizes is None else \
        runtime.build_varying(ready, known, options.sizes.at)
    programs |= zip(of_device, built, strict=True)
    return tuple(programs[step.kernel] for step in made.steps)


def rebuild_plans() -> None:
    """Compile anew what is in use, for decisions that were given since; all of it or, where one
    does not fit, nothing."""
    made = [(plan, _programs(plan.schedule, plan.options)) for found in _live.valuerefs()
            if (plan := found()) is not None]
    for plan, programs in made:
        if programs != plan.programs:
            plan.programs, plan.launch = programs, None


def run(device: str, plan: Plan, inputs: Sequence[Buffer],
        spent: float | None = None) -> list[Buffer]:
    """Run a plan's steps on these inputs; gives the output buffers. spent: seconds that making it
    took, if that was now."""
    looking = observers.present()
    for observer in looking:
        observer.runs(device, plan, spent)
    made = plan.schedule
    blocks = reserve_blocks(device, made)
    outputs = reserve_outputs(device, made, blocks)
    handles = {a: b.handle for a, b in enumerate(inputs)}
    handles |= {a: blocks[b].handle for a, b in made.blocks.items()}
    handles |= {a: b.handle for a, b in outputs.items()}
    plan.runs += 1
    start = time.perf_counter()
    try:
        if observers.needs_launches(looking):
            _launch_each(device, plan, handles, looking)
        elif plan.runs > RUNS:
            plan.launch_all(device, handles)
        else:
            for _, program, at in chain.from_iterable(plan.launches()):
                program.launch(executor(device).resolved(handles, at))
    except BaseException as error:
        collectives.abandon()
        if isinstance(error, DeviceError):  # whoever keeps it keeps this frame
            blocks.clear()
            outputs.clear()
        raise
    for observer in looking:
        observer.ran(device, plan, Span(start, time.perf_counter() - start))
    return [outputs[a] if a in outputs else inputs[a] for a in made.outputs]


def _launch_each(device: str, plan: Plan, handles: Mapping[int, Handle],
                 looking: Sequence[Observer]) -> None:
    """Launch kernels one by one, waiting for each."""
    runtime, first = executor(device), 0
    for kernels in plan.launches():
        launch = Launch(device, plan, first, kernels)
        first += len(kernels)
        for observer in looking:
            observer.launching(launch, handles)
        spans = []
        for _, program, at in kernels:
            ready = partial(program.launch, runtime.resolved(handles, at))
            spans.append(Span(time.perf_counter(), runtime.seconds(ready)))
        for observer in looking:
            observer.launched(launch, spans)


# ---- memory --------------------------------------------------------------------------------------

def reserve_blocks(device: str, made: Schedule) -> list[Buffer]:
    """Memory for what lives between the inputs and outputs of a schedule, a buffer a block.

    DeviceError names the largest value of the block that memory is out for.
    """
    blocks: list[Buffer] = []
    try:
        for size in made.block_sizes:
            blocks.append(Buffer(device, dt.uint8, size))
    except DeviceError as error:
        array = made.largest_in(len(blocks))
        blocks.clear()  # a traceback may keep this frame alive, and must not keep memory
        raise out_of_memory(made, array, error) from error
    return blocks


def reserve_outputs(device: str, made: Schedule, blocks: list[Buffer]) -> dict[int, Buffer]:
    """Memory for each output that is computed. If there is none, `blocks` are given up too."""
    outputs: dict[int, Buffer] = {}
    for a in made.outputs:
        if a >= made.inputs and a not in outputs:
            try:
                outputs[a] = Buffer(device, *made.arrays[a])
            except DeviceError as error:
                outputs.clear()
                blocks.clear()
                raise out_of_memory(made, a, error) from error
    return outputs


def out_of_memory(made: Schedule, array: int, error: DeviceError) -> DeviceError:
    """The error that says which value of a schedule there is no memory for.

    The line is the one that asks now: a plan that was seen before was made at another.
    """
    return DeviceError(f"cannot store {made.describe(array)} (asked for at {user_location()}): "
                       f"{error}")
