"""Plans run: memory for what they make, and their launches, all at once or one by one."""
from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

from lazyten.devices.program import Handle
from lazyten.execution.plans import collectives
from lazyten.execution.plans.plan import Plan
from lazyten.ir import dtype as dt
from lazyten.schedule.schedule import Schedule
from lazyten.storage.device import executor
from lazyten.storage.storage import Buffer
from lazyten.support import observers
from lazyten.support.errors import DeviceError
from lazyten.support.location import user_location
from lazyten.support.observers import Launch, Observer, Span

RUNS = 4
"""A plan that was run so often is worth a function that launches all its programs."""


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
