"""How scans are written: a Scan, whose body is a graph of its own.

A row of a SCAN has all parts of the state, one after the other; a Scan gives each part by itself.
So what reads rows is a SHRINK that takes a part.
"""
from __future__ import annotations

from collections.abc import Callable

from onnx import helper

from lazyten.ir.ops import IDENTITY_OPS, Op
from lazyten.onnx.writing.alike import Bodies, Term, sources_first
from lazyten.onnx.writing.varying import Size
from lazyten.onnx.writing.writer import TYPES, Writer
from lazyten.support.errors import ArgumentError

Write = Callable[[Writer, Term], None]


def scan(w: Writer, term: Term, write: Write) -> str:
    """All steps: a name, if a state of one part is the whole row; `part_of` finds those of the
    others, whose rows have gaps."""
    body: Bodies = term.arg
    given = [w.of(x) for x in term.src]
    rows, states, same = given[:body.xs], given[body.xs:body.xs + body.carried], \
        given[body.xs + body.carried:]
    inner = w.inner(len(rows) + len(states))
    own = inner.slots[:]
    inner.slots += same
    names = []
    for output in body.outputs:
        for inside in sources_first([output]):
            write(inner, inside)
        names.append(inner.add("Reshape", inner.of(output), w.ints([-1])))
    kind = TYPES[term.dtype.name]
    ends = [inner.add("Identity", name) for name in (*names[:body.carried], *names)]
    graph = helper.make_graph(
        inner.needed(ends)[0], f"body_{len(w.nodes)}",
        [helper.make_tensor_value_info(name, kind, [None])
         for name in (*own[len(rows):], *own[:len(rows)])],
        [helper.make_tensor_value_info(name, kind, [None]) for name in ends])
    turned = int(body.reverse)
    results = w.add_many("Scan", len(ends), *states, *rows, body=graph,
                         num_scan_inputs=len(rows), scan_input_directions=[turned] * len(rows),
                         scan_output_directions=[turned] * len(names))
    w.parts[term] = results[body.carried:]
    is_whole = len(names) == 1 and term.shape == (body.length, body.outputs[0].numel)
    return results[-1] if is_whole else ""


def part_of(w: Writer, term: Term) -> str | None:
    """The part of a SCAN's rows that a SHRINK takes; None for a SHRINK of something else."""
    source = term.src[0]
    while source.op in IDENTITY_OPS:
        source = source.src[0]
    if source.op is not Op.SCAN:
        return None
    body: Bodies = source.arg
    first, (start, end) = term.arg
    for number, output in enumerate(body.outputs):
        if (start, end) == (body.starts[number], body.starts[number] + output.numel):
            name = w.parts[source][number]
            whole: tuple[Size, Size] = (0, body.length)
            return name if first == whole else w.add(
                "Slice", name, w.ints([first[0]]), w.ints([first[1]]), w.ints([0]))
    raise ArgumentError(f"onnx.export(dynamic=...): {term} takes a piece of what a scan gives that "
                        f"is no part of its state; leave the axis out of dynamic")
