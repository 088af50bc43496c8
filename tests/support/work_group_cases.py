"""Kernels for devices of work items in groups, with inputs and the interpreter's values."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from kernel_checks import run_all
from opencl_grid import GROUPS

import lazyten as lt
from lazyten.codegen.gpu.local_memory import is_read_in_parts
from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.packing import Staged, local_loads
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.codegen.model.cpu_model import Model
from lazyten.codegen.model.decisions import Decisions, Sharing
from lazyten.codegen.optimize.decision_text import check, parse
from lazyten.codegen.targets.target import Target
from lazyten.execution.plans.graph import Graph
from lazyten.ir.kernel import Given, Kernel
from lazyten.ir.node import Node
from lazyten.runtimes.contract import with_distinct_names
from lazyten.schedule.schedule import schedule
from lazyten.support.errors import ArgumentError

GPU = Target("gpu", 4, 64, threads=True, language="opencl", most_lanes=1, work_group=256,
             local_memory=48 << 10)
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A kernel, what it reads, and its values by the interpreter."""

    kernel: Kernel
    inputs: list[Array]
    wanted: Array


def case(fn: Callable[..., lt.Tensor], *inputs: Array) -> Case:
    """The one kernel that `fn` is."""
    value = fn(*(lt.tensor(x) for x in inputs))
    graph = Graph([value._storage.value], value.device)
    steps = schedule(graph.normalized(), [(b.dtype, b.size) for b in graph.buffers]).steps
    assert len(steps) == 1
    wanted = fn(*(lt.tensor(x, device="interpreter") for x in inputs)).numpy()
    return Case(steps[0].kernel, list(inputs), wanted)


def run(cases: list[Case], on: str = GROUPS) -> list[Array]:
    """The first outputs of kernels; all are one program."""
    found = run_all(on, [c.kernel for c in cases], [c.inputs for c in cases])
    return [got[0].reshape(c.wanted.shape) for c, got in zip(cases, found, strict=True)]


def check_results(cases: list[Case], on: str = GROUPS) -> None:
    named = with_distinct_names([c.kernel for c in cases])
    cases = [replace(c, kernel=k) for c, k in zip(cases, named, strict=True)]
    for c, got in zip(cases, run(cases, on), strict=True):
        given_text = "" if c.kernel.decisions is None else c.kernel.decisions.text
        np.testing.assert_allclose(got, c.wanted, rtol=2e-4, atol=2e-4, err_msg=given_text)


SIZES = st.integers(1, 70)
# Each computes something, as what only moves elements is no kernel where axes have size 1.
FUNCTIONS: dict[str, tuple[Callable[..., lt.Tensor], str]] = {
    "product": (lambda a, b: a @ b, "mk kn"),
    "transposed product": (lambda a, b: (a.T @ b.T).relu(), "km nk"),
    "batched product": (lambda a, b: a @ b, "bmk bkn"),
    "row sums": (lambda a: (a * 2).sum(1), "mk"),
    "column maxima": (lambda a: (a * 2).max(0).values, "kn"),
    "sum": (lambda a: (a * 2).sum(), "mk"),
    "softmax": (lambda a: a.softmax(1), "mn"),
    "variance": (lambda a: a.var(1, keepdim=True) + a, "mn"),
    "transposed copy": (lambda a: a.T * 2, "mn"),
    "sum of a broadcast": (lambda a, b: (a + b).sum((0, 2)), "bmk bmk"),
    "convolution": (lambda x, w: lt.nn.functional.conv2d(x.reshape(2, 3, -1, 9), w),
                    "x w"),
    "any": (lambda a: (a > 1).any(1), "mk"),
    "sums from the last row and column on": (lambda a: (a.flip((0, 1)) * 2).sum(0), "mk"),
}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A kernel of random sizes."""
    fn, operands = FUNCTIONS[draw(st.sampled_from(sorted(FUNCTIONS)))]
    sizes = {axis: draw(SIZES) for axis in "mkn"} | {"b": draw(st.integers(2, 3))}
    sizes |= dict.fromkeys("mkn", 2) if draw(st.integers(0, 9)) == 0 else {}
    shapes = {"x": (2 * 3 * 9 * (3 + sizes["m"] % 9),), "w": (1 + sizes["n"] % 20, 3, 3, 3)}
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    arrays = [rng.normal(size=shapes.get(o) or tuple(sizes[a] for a in o)).astype(np.float32)
              for o in operands.split()]
    return case(fn, *arrays)


def randomly_decided(draw: st.DrawFn, kernel: Kernel) -> str | None:
    """Decisions about work items that fit a kernel, or None where those that were drawn do not."""
    sink = merge_ranges(lower(kernel))
    model = Model(sink, GPU)
    powers = st.sampled_from([1, 1, 2, 4, 8, 16])

    def counts(ranges: list[Node], each: st.SearchStrategy[int]) -> tuple[tuple[Node, int], ...]:
        drawn = [(r, draw(each)) for r in ranges]
        return tuple((r, n) for r, n in drawn if 1 < n <= r.arg.extent)
    own = [r for body in model.reductions for r in body.own]
    local = counts(draw(st.permutations(model.outputs)), powers)
    group: tuple[tuple[Node, int], ...] = ()
    if draw(st.booleans()):
        group = counts(own, st.integers(1, 20))
    else:
        local += counts(own, powers)
    tile = counts(model.outputs, st.sampled_from([1, 1, 2, 3, 4]))
    lanes = counts([*model.outputs, *own], st.sampled_from([1, 1, 2, 4]))
    unroll = counts([r for r in own if r not in dict(group)], st.sampled_from([1, 1, 2, 3]))
    buffers = draw(st.sampled_from([1, 2, 3]))
    staged = tuple(
        Staged(load, None, i, True,
               buffers if is_read_in_parts(load, group, sink) else 1)
        for loads in local_loads(sink).values() for i, load in enumerate(loads)
        if draw(st.booleans()))
    blocks = {r: math.prod(dict(d).get(r, 1) for d in (tile, local, lanes))
              for r in model.shared_outputs}
    shared = tuple(r for r in model.shared_outputs
                   if blocks[r] < r.arg.extent and draw(st.integers(0, 3)))
    made = Decisions(local=local, tile=tile, unroll=unroll, lanes=lanes,
                     group=group if local else (), staged=staged if local else (),
                     parallel=Sharing(shared, 1 if shared else 0))
    try:
        check(made, sink, GPU)
    except ArgumentError:
        return None
    assert parse(str(made), sink, GPU) == made
    return str(made)


@st.composite
def decided_cases(draw: st.DrawFn) -> list[Case]:
    """Kernels with random decisions."""
    found = []
    for c in draw(st.lists(cases(), min_size=12, max_size=12)):
        for text in [randomly_decided(draw, c.kernel) for _ in range(2)]:
            if text is not None:
                found.append(replace(c, kernel=replace(c.kernel, decisions=Given(text))))
    return found


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)
