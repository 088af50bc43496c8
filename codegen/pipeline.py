"""The whole way from a kernel to target text, pass by pass."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from lazyten.codegen import render_c, render_llvm
from lazyten.codegen.access import LINE
from lazyten.codegen.blocks import lower_blocks
from lazyten.codegen.check_accesses import check_accesses
from lazyten.codegen.check_values import check_values
from lazyten.codegen.decision_text import parse
from lazyten.codegen.decisions import Decisions
from lazyten.codegen.decompose import decompose
from lazyten.codegen.dialect import DIALECTS, Dialect, dialect_of
from lazyten.codegen.generated import Generated
from lazyten.codegen.in_place import in_place_pairs
from lazyten.codegen.instructions import Function
from lazyten.codegen.linearize import linearize
from lazyten.codegen.lower import lower
from lazyten.codegen.narrow import narrow
from lazyten.codegen.optimize import Optimized, decide_part, loop_nest, optimize
from lazyten.codegen.ranges import share_ranges
from lazyten.codegen.target import Target
from lazyten.codegen.vector_access import vectorize_accesses
from lazyten.codegen.verify_accesses import verify_accesses
from lazyten.codegen.verify_loops import verify_loops
from lazyten.codegen.verify_rewrites import VERIFY
from lazyten.errors import ArgumentError
from lazyten.kernel import Given, Kernel, held_values
from lazyten.location import attribute_to
from lazyten.node import Node, make, ranges_of, toposort, verify
from lazyten.ops import Op


def renderer(language: str | Dialect) -> Callable[[Function], tuple[str, tuple[str, ...]]]:
    """Makes a Function text, and the lines that must stand before it. ArgumentError for a language
    that there is not."""
    if language == "llvm":
        return render_llvm.render
    dialect = dialect_of(language)
    if dialect is None:
        raise ArgumentError(f"no renderer writes the language {language!r}; use one of "
                            f"{', '.join(('llvm', *DIALECTS))}, or a dialect.Dialect")
    return partial(render_c.render, dialect=dialect)


def has_vectors(language: str | Dialect) -> bool:
    """Whether text in a language of scalars reads and writes neighbours in memory at once."""
    dialect = dialect_of(language)
    return dialect is not None and bool(dialect.whole)


MOST_CHUNKS = 32
"""Chunks of a kernel's blocks: each has scratch memory of its own."""

ALIASING = frozenset({"llvm"})
"""Languages in whose text arguments may be one memory: pointers of C are `restrict`."""


def generate(kernel: Kernel, target: Target) -> Generated:
    """Lower, optimize, decompose, linearize and render one kernel for a target."""
    with attribute_to(kernel.where):
        return _generate(kernel, target)


def _generate(kernel: Kernel, target: Target) -> Generated:
    if VERIFY:
        verify(kernel.outputs, "graph")
    if target.language == "llvm" and target.threads and not kernel.checks \
            and held_values(kernel.outputs):
        return _in_blocks(kernel, target)
    arguments = len(kernel.outputs) + len(kernel.inputs) + bool(kernel.checks)
    if kernel.checks and target.work_group > 1:  # each work item has a record of its own
        target, kernel = replace(target, local_memory=0), replace(kernel, decisions=None)
    target = replace(target, tf32=kernel.tf32)
    given = None if kernel.decisions is None else partial(_given, kernel.decisions, target)
    steps = optimize(_checked(lower(kernel)), target, arguments, given)
    names = [f"{kernel.name}_stage{i}" for i in range(len(steps) - 1)] + [kernel.name]
    texts: list[str] = []
    declares: dict[str, None] = {}
    loops: list[str] = []
    functions: list[Function] = []
    records = max(map(_work_items, steps)) if kernel.checks else 0
    render = renderer(target.language)
    for name, (sink, decisions, group) in zip(names, steps, strict=True):
        nest = loop_nest(_checked(sink))
        title = f"{decisions} (given)" if given and name == kernel.name else str(decisions)
        loops.append(f"{title}\n{nest}" if nest else title)
        if kernel.checks:
            sink = check_values(sink, arguments - 1, len(kernel.outputs), records,
                                decisions.parallel.grain, kernel.checks)
        stores = decompose(sink.src, target.halves)
        function = linearize(name, _checked(make(sink.op, sink.dtype, tuple(stores))),
                             decisions.parallel.grain, group.size, group.strides)
        if VERIFY:
            verify_accesses(function)
        if kernel.checks:
            function = check_accesses(function, arguments - 1, records, "bounds" in kernel.checks)
        elif target.work_group > 1:
            function = narrow(function)
            if has_vectors(target.language):
                function = vectorize_accesses(function, kernel.unaligned)
        text, declared = render(function)
        functions.append(function)
        texts.append(text)
        declares.update(dict.fromkeys(declared))
    in_place = in_place_pairs(functions, len(kernel.outputs), len(kernel.inputs)) \
        if target.language in ALIASING and not kernel.checks else ()
    return Generated(kernel.name, "\n".join(texts), tuple(declares), "\n\n".join(loops),
                     kernel.where, tuple(names), _scratch_bytes(steps, arguments),
                     tuple(f.work_items for f in functions), tuple(f.group for f in functions),
                     records, in_place)


def _in_blocks(kernel: Kernel, target: Target) -> Generated:
    """The same for a kernel that holds values: one function runs its parts for each block."""
    if kernel.decisions is not None:
        raise ArgumentError(f"{kernel.decisions.where}: kernel {kernel.name} runs in parts, a "
                            "block of rows at a time, and takes no decisions; leave them out")
    arguments = len(kernel.outputs) + len(kernel.inputs)
    blocks = lower_blocks(kernel, arguments)
    packing: list[Optimized] = []
    parts: list[Optimized] = []
    for sink in blocks.parts:
        scratch = arguments + len(blocks.held) + len(packing)
        *before, part = optimize(_checked(sink), target, scratch, partial(decide_part, target))
        packing += before
        parts.append(part._replace(sink=share_ranges(part.sink, blocks.ranges)))
    names = [f"{kernel.name}_stage{i}" for i in range(len(packing))]
    names += [f"{kernel.name}_part{i}" for i in range(len(parts))]
    functions = [linearize(name, make(step.sink.op, step.sink.dtype,
                                      tuple(decompose(_checked(step.sink).src))),
                           step.decisions.parallel.grain)
                 for name, step in zip(names, (*packing, *parts), strict=True)]
    if VERIFY:
        for function in functions:
            verify_accesses(function)
    grain = -(-blocks.number // MOST_CHUNKS)
    held = {arguments + i: -(-n // LINE) * LINE for i, n in enumerate(blocks.held)}
    rendered = [render_llvm.render(f) for f in functions]
    rendered.append(render_llvm.render_blocks(kernel.name, functions[len(packing):], held,
                                              blocks.number, grain))
    declares = dict.fromkeys(line for _, lines in rendered for line in lines)
    title = f"{len(parts)} parts for each of {blocks.number} blocks, {grain} a chunk"
    loops = [title, *(f"{step.decisions}\n{loop_nest(step.sink)}" for step in (*packing, *parts))]
    chunks = -(-blocks.number // grain)
    return Generated(kernel.name, "\n\n".join(text for text, _ in rendered), tuple(declares),
                     "\n\n".join(loops), kernel.where, (*names[:len(packing)], kernel.name),
                     (*(chunks * n for n in held.values()),
                      *_scratch_bytes(packing, arguments + len(held))),
                     (*(f.work_items for f in functions[:len(packing)]), chunks),
                     (0,) * (len(packing) + 1))


def _work_items(step: Optimized) -> int:
    """How many records the work items of a function need."""
    sink, decisions, _ = step
    return max((-(-r.arg.extent // decisions.parallel.grain) for r in ranges_of([sink])
                if r.arg.kind == "parallel"), default=1)


def _given(given: Given, target: Target, sink: Node) -> Decisions:
    return parse(given.text, sink, target, given.where)


def _scratch_bytes(steps: list[Optimized], arguments: int) -> tuple[int, ...]:
    """The bytes of each scratch array, in the order of their arguments."""
    params = {n.arg.slot: n.dtype.itemsize * n.arg.size
              for n in toposort([step.sink for step in steps]) if n.op is Op.PARAM}
    return tuple(params[slot] for slot in sorted(params) if slot >= arguments)


def _checked(sink: Node) -> Node:
    """What a pass gives; the nest is looked at before instructions are made of it, or loops."""
    if VERIFY:
        verify([sink], "loop")
        verify_loops(sink)
    return sink
