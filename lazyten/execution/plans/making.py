"""Plans by the structure of their graphs: made once, and kept while they are used.

In: a graph. Out: its plan. A structure that was seen before skips scheduling and compilation, so a
training loop compiles its step once.
"""
from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from weakref import WeakValueDictionary

from lazyten.execution.plans.graph import Graph
from lazyten.execution.plans.plan import Options, Plan, programs_of
from lazyten.execution.plans.varying import planned
from lazyten.support import observers, passes
from lazyten.support.collecting import collecting_later
from lazyten.support.observers import Span

_plans: OrderedDict[Hashable, Plan] = OrderedDict()
PLAN_LIMIT = 1024
_live: WeakValueDictionary[int, Plan] = WeakValueDictionary()
"""Every plan in use, jitted functions' too."""


def is_known(device: str, graph: Graph) -> bool:
    """Whether graphs of this structure have a plan."""
    return (Options.now(device), graph.key) in _plans


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


def _make_plan(graph: Graph, options: Options) -> Plan:
    start = time.perf_counter()
    with passes.timed() as seconds, collecting_later():
        plan = planned(tuple(graph.normalized()), graph, options)
    plan.seconds = seconds
    _live[id(plan)] = plan
    for observer in observers.present():
        observer.made(options.device, plan, Span(start, time.perf_counter() - start))
    return plan


def rebuild_plans() -> None:
    """Compile anew what is in use, for decisions that were given since; all of it or, where one
    does not fit, nothing."""
    made = [(plan, programs_of(plan.schedule, plan.options)) for found in _live.valuerefs()
            if (plan := found()) is not None]
    for plan, programs in made:
        if programs != plan.programs:
            plan.programs, plan.launch = programs, None
