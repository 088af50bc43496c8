"""The whole way from a kernel to target text, pass by pass."""
from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from lazyten.codegen import render_c, render_llvm
from lazyten.codegen.decision_text import parse
from lazyten.codegen.decisions import Decisions
from lazyten.codegen.decompose import decompose
from lazyten.codegen.dialect import CLANG_OPENCL, CUDA, OPENCL
from lazyten.codegen.generated import Generated
from lazyten.codegen.instructions import Function
from lazyten.codegen.linearize import linearize
from lazyten.codegen.lower import lower
from lazyten.codegen.narrow import narrow
from lazyten.codegen.optimize import Optimized, loop_nest, optimize
from lazyten.codegen.target import Target
from lazyten.kernel import Given, Kernel
from lazyten.location import attribute_to
from lazyten.node import Node, make, toposort, verify
from lazyten.ops import Op

VERIFY = bool(os.environ.get("LAZYTEN_VERIFY"))
"""Check every stage's nodes; tests turn it on."""

RENDERERS: dict[str, Callable[[Function], tuple[str, tuple[str, ...]]]] = {
    "llvm": render_llvm.render,
    "opencl": partial(render_c.render, dialect=OPENCL),
    "clang-opencl": partial(render_c.render, dialect=CLANG_OPENCL),
    "cuda": partial(render_c.render, dialect=CUDA),
}
"""By a target's language: a Function to its text, and the lines that must stand before it."""


def generate(kernel: Kernel, target: Target) -> Generated:
    """Lower, optimize, decompose, linearize and render one kernel for a target."""
    with attribute_to(kernel.where):
        return _generate(kernel, target)


def _generate(kernel: Kernel, target: Target) -> Generated:
    if VERIFY:
        verify(kernel.outputs, "graph")
    arguments = len(kernel.outputs) + len(kernel.inputs)
    given = None if kernel.decisions is None else partial(_given, kernel.decisions, target)
    steps = optimize(_checked(lower(kernel)), target, arguments, given)
    names = [f"{kernel.name}_stage{i}" for i in range(len(steps) - 1)] + [kernel.name]
    texts: list[str] = []
    declares: dict[str, None] = {}
    loops: list[str] = []
    functions: list[Function] = []
    for name, (sink, decisions, group) in zip(names, steps, strict=True):
        nest = loop_nest(_checked(sink))
        title = f"{decisions} (given)" if given and name == kernel.name else str(decisions)
        loops.append(f"{title}\n{nest}" if nest else title)
        stores = decompose(sink.src)
        function = linearize(name, _checked(make(sink.op, sink.dtype, tuple(stores))),
                             decisions.parallel.grain, group.size, group.strides)
        if target.work_group > 1:
            function = narrow(function)
        text, declared = RENDERERS[target.language](function)
        functions.append(function)
        texts.append(text)
        declares.update(dict.fromkeys(declared))
    return Generated(kernel.name, "\n".join(texts), tuple(declares), "\n\n".join(loops),
                     kernel.where, tuple(names), _scratch_bytes(steps, arguments),
                     tuple(f.work_items for f in functions), tuple(f.group for f in functions))


def _given(given: Given, target: Target, sink: Node) -> Decisions:
    return parse(given.text, sink, target, given.where)


def _scratch_bytes(steps: list[Optimized], arguments: int) -> tuple[int, ...]:
    """The bytes of each scratch array, in the order of their arguments."""
    params = {n.arg.slot: n.dtype.itemsize * n.arg.size
              for n in toposort([step.sink for step in steps]) if n.op is Op.PARAM}
    return tuple(params[slot] for slot in sorted(params) if slot >= arguments)


def _checked(sink: Node) -> Node:
    if VERIFY:
        verify([sink], "loop")
    return sink
