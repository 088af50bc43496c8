"""`explain`: why each value of a computation is stored, and what the alternative would cost."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from lazyten.execution.debug import count_text
from lazyten.execution.plans.graph import Graph
from lazyten.execution.plans.plan import Options, scheduled
from lazyten.ir.kernel import held_values
from lazyten.ir.node import Node
from lazyten.schedule.cost import StoredValue
from lazyten.schedule.schedule import Schedule
from lazyten.schedule.steps import Step
from lazyten.storage.storage import Storage
from lazyten.support.location import Location


def explain_storages(storages: Iterable[Storage]) -> str:
    """One paragraph a kernel that realizing these storages would run."""
    given = list(storages)
    if not given:
        return "nothing to compute: no tensors were given"
    graph = Graph([s.value for s in given], given[0].device)
    if again := graph.read_again():
        graph = Graph([*graph.roots, *again], given[0].device)
    options = Options.now(given[0].device)
    return explain_schedule(scheduled(graph.normalized(), graph.inputs, options))


def explain_schedule(made: Schedule) -> str:
    """One paragraph a kernel, and a line on the memory between them."""
    if not made.steps:
        return "nothing to compute: the values are in memory already"
    shared = sum(made.block_sizes)
    between = (*made.blocks, *made.aliases)
    alone = sum(made.arrays[a][0].itemsize * made.arrays[a][1] for a in between)
    values, saved = iter(made.stored), iter(made.saved)
    steps = enumerate(made.steps)
    lines: list[str] = []
    for count in made.launches:
        for number, step in islice(steps, count):
            own = list(islice(values, len(step.kernel.outputs)))
            lines.append(_paragraph(number, step, own, next(saved)))
        if count > 1:
            lines.append(f"   one launch for the last {count} kernels, which need nothing of each "
                         f"other, spares {count - 1}")
    lines.append(f"{count_text(made)}; intermediate values take {shared:,} "
                 f"bytes ({alone:,} if none shared memory)")
    return "\n".join(lines)


def _paragraph(number: int, step: Step, values: Sequence[StoredValue], saved: float) -> str:
    """What one kernel stores. saved: what it spares against a kernel for each value."""
    text = f"{number}: {step.kernel.name} stores " + "\n   and ".join(
        _value(d, step.kernel.where) for d in values)
    if len(values) > 1:
        text += f"\n   one kernel for these {len(values)} saves {saved:,.0f}"
    elif saved:
        text += f"\n   and what only it reads stays in registers, which saves {saved:,.0f}"
    return "\n   ".join([text, *map(_held, held_values(step.kernel.outputs))])


def _held(value: Node) -> str:
    """A value that a kernel holds."""
    nbytes = value.numel * value.dtype.itemsize
    return (f"and holds {value.dtype.name}{list(value.shape)}, {value.arg[1]} rows at a time: only "
            f"it reads them, and {nbytes:,} bytes are never stored")


def _value(value: StoredValue, line: Location | None) -> str:
    """Why a value is stored, and its line: the kernel's, of a step of a scan."""
    node = value.node
    at = node.where or line
    where = f"  ({at})" if at else ""
    text = (f"{node.dtype.name}{list(node.shape)}, {node.numel * node.dtype.itemsize:,} bytes: "
            f"{value.reason}{where}")
    if value.was_weighed:
        text += (f"\n   stored costs {value.stored_cost:,.0f}; computed again at each read "
                 f"{value.inline_cost:,.0f}")
    return text
