"""The whole way from a kernel to target text, pass by pass."""
from __future__ import annotations

import os

from lazyten.codegen.decompose import decompose
from lazyten.codegen.generated import Generated
from lazyten.codegen.linearize import linearize
from lazyten.codegen.lower import lower
from lazyten.codegen.optimize import loop_nest, optimize
from lazyten.codegen.render_llvm import render
from lazyten.codegen.target import Target
from lazyten.kernel import Kernel
from lazyten.node import Node, make, verify

VERIFY = bool(os.environ.get("LAZYTEN_VERIFY"))
"""Check every stage's nodes; tests turn it on."""


def generate(kernel: Kernel, target: Target) -> Generated:
    """Lower, optimize, decompose, linearize and render one kernel for a target."""
    if VERIFY:
        verify(kernel.outputs, "graph")
    sink, decisions = optimize(_checked(lower(kernel)), target)
    nest = loop_nest(_checked(sink))
    stores = decompose(sink.src)
    function = linearize(kernel.name, _checked(make(sink.op, sink.dtype, tuple(stores))),
                         decisions.parallel.grain)
    text, declares = render(function)
    loops = f"{decisions}\n{nest}" if nest else str(decisions)
    return Generated(kernel.name, text, declares, loops, kernel.where)


def _checked(sink: Node) -> Node:
    if VERIFY:
        verify([sink], "loop")
    return sink
