"""Plans of computations whose sizes vary: what sizes have in common is made once.

In: a graph that has no plan, of a computation that was given as varying (Sizes.planning), or that
differs from earlier ones in nothing but sizes. Out: its plan, without a schedule or code of its own
where that is known of other sizes.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from lazyten.devices.program import AtSizes
from lazyten.execution.plans import collectives
from lazyten.execution.plans.graph import Graph
from lazyten.execution.plans.plan import Options, Plan, limits_of, programs_of, scheduled
from lazyten.execution.sizes.families import Families, Family, inputs_of, regions_of
from lazyten.execution.sizes.forms import Forms, Inputs
from lazyten.ir.node import Node
from lazyten.ir.numbers import Numbers, Skeleton, numbers_of
from lazyten.schedule.kept_schedules import kept_schedule
from lazyten.schedule.schedule import Schedule
from lazyten.storage.device import executor
from lazyten.support import forking
from lazyten.support.later import Later

_families, _lock = Families(), forking.lock()


def forget_families() -> None:
    """What comes next is planned as if no graph had been seen; plans that are known stay."""
    _families.clear()


def planned(roots: tuple[Node, ...], graph: Graph, options: Options) -> Plan:
    """The plan of a graph: of its own, or what it shares with others of a computation whose sizes
    vary. Such a one was given (Sizes.planning), or is a family of graphs."""
    if options.checks or graph.is_joint or not executor(options.device).has_varying:
        return _of_its_own(roots, graph, options)
    skeleton, numbers = numbers_of(roots)
    if options.sizes is not None:
        with options.sizes.of.lock:
            return _plan_at(roots, graph.inputs, options, skeleton, numbers)
    with _lock:
        family = _families.of(skeleton, options)
    if family is None:
        return _of_its_own(roots, graph, options)
    with family.computation.lock:
        plan = _of_family(family, roots, graph, options, skeleton, numbers)
        if plan is None:
            plan = _of_its_own(roots, graph, options)
            family.note(numbers, plan.programs)
        return plan


def _of_family(family: Family, roots: tuple[Node, ...], graph: Graph, options: Options,
               skeleton: Skeleton, numbers: Numbers) -> Plan | None:
    """A plan that a graph shares with its family; None where it is not known by its sizes, or other
    sizes are no graphs."""
    sizes = family.sizes_of(numbers)
    if sizes is None:
        return None
    regions = regions_of(sizes)
    try:
        for there, its, other in family.ahead(regions):
            with family.computation.planning(there, regions):
                _look_at(other, inputs_of(other), Options.now(options.device), skeleton, its)
    except Exception:  # nobody has asked for these sizes
        family.leave(regions)
    if not family.serves(regions):
        return None
    with family.computation.planning(sizes, regions):
        return _plan_at(roots, graph.inputs, Options.now(options.device), skeleton, numbers)


def _of_its_own(roots: tuple[Node, ...], graph: Graph, options: Options) -> Plan:
    """A plan that nothing is shared with; its schedule is on disk if an earlier process made it."""
    make = partial(scheduled, roots, graph.inputs, options)
    made = make() if options.checks else \
        kept_schedule(executor(options.device), graph.key, roots, graph.inputs, make)
    return Plan(made, programs_of(made, options), options, roots=roots)


def _plan_at(roots: tuple[Node, ...], inputs: Inputs, options: Options, skeleton: Skeleton,
             numbers: Numbers) -> Plan:
    """The plan of a computation at one of its sizes. Of a schedule by formulas reasons are worked
    out when somebody asks."""
    made = _forms(options, skeleton).predicted(_at(options).sizes, numbers,
                                               limits_of(options).alignment)
    if made is None:
        made = _schedule_at(roots, inputs, options, skeleton, numbers)
    else:
        again = partial(_schedule_at, roots, inputs, options, skeleton, numbers)
        made = replace(made, stored=Later(lambda: again().stored),
                       saved=Later(lambda: again().saved))
    return Plan(made, programs_of(made, options), options, roots=roots)


def _schedule_at(roots: Sequence[Node], inputs: Inputs, options: Options, skeleton: Skeleton,
                 numbers: Numbers) -> Schedule:
    """The schedule of a computation at one of its sizes, by choices that others share if it can."""
    return _forms(options, skeleton).schedule(
        _at(options).sizes, numbers, roots, inputs, limits_of(options)) \
        or scheduled(roots, inputs, options)


def _forms(options: Options, skeleton: Skeleton) -> Forms:
    assert options.sizes is not None
    return options.sizes.of.forms(options.device, _at(options).region, skeleton)


def _at(options: Options) -> AtSizes:
    assert options.sizes is not None
    return options.sizes.at


def look_at(device: str, graph: Graph) -> None:
    """Have a device know the kernels of a computation whose sizes vary, at sizes that nobody has
    asked for: nothing is compiled."""
    roots, options = graph.normalized(), Options.now(device)
    assert options.sizes is not None
    with options.sizes.of.lock:
        _look_at(roots, graph.inputs, options, *numbers_of(roots))


def _look_at(roots: Sequence[Node], inputs: Inputs, options: Options, skeleton: Skeleton,
             numbers: Numbers) -> None:
    made = scheduled(roots, inputs, options) if options.checks else \
        _schedule_at(roots, inputs, options, skeleton, numbers)
    kernels = dict.fromkeys(step.kernel for step in made.steps)
    programs = collectives.programs(kernels, options.device)
    executor(options.device).look_at([options.applied(k) for k in kernels if k not in programs],
                                     options.known, _at(options))
