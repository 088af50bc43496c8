"""The compiler's table of contents: from a kernel to target text, pass by pass.

PASSES is the whole way; lazyten/support/passes.py says in a line what each is for, and runs them.
They take and give a `Job` (job.py): a kernel, whose `Part`s are the functions that its text will
have, each as a SINK of loops, then as instructions, then as text. Most kernels are one part. What
packs an operand is a part that runs before; a kernel that holds values has a part for each, which
one function runs for a block of rows at a time. The passes are the same for all of them.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from lazyten.codegen.gpu.gpu_stream import streamed
from lazyten.codegen.gpu.local_memory import Group, group_of, stage_in_local
from lazyten.codegen.gpu.stream_tiles import with_streamed_matrices
from lazyten.codegen.gpu.tensor_tiles import with_matrices
from lazyten.codegen.instructions.division import divides, expand_divisions, floats_of
from lazyten.codegen.instructions.instructions import Function
from lazyten.codegen.instructions.linearize import linearize
from lazyten.codegen.instructions.narrow import narrow
from lazyten.codegen.instructions.vector_access import vectorize_accesses
from lazyten.codegen.job import Job, Part, describe, generated, verify_job
from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.packing import fill
from lazyten.codegen.loops.peeling import has_masks, peel_reductions
from lazyten.codegen.loops.ranges import in_scalars, merge_ranges, share_ranges
from lazyten.codegen.loops.reduction_blocking import carry
from lazyten.codegen.loops.tile_fusion import lower_blocks
from lazyten.codegen.model.decisions import Decisions
from lazyten.codegen.numerics.decompose import decompose
from lazyten.codegen.optimize.index_sets import may_be_split, split_index_sets
from lazyten.codegen.optimize.optimize import (
    decide,
    decide_part,
    digits_of,
    loop_nest,
    parts_of_groups,
    share,
    split,
    tensors_of_groups,
)
from lazyten.codegen.render import render_llvm
from lazyten.codegen.targets.dialect import DIALECTS, dialect_of
from lazyten.codegen.targets.generated import Generated
from lazyten.codegen.targets.target import Target
from lazyten.ir.inspection import verify
from lazyten.ir.kernel import Kernel, held_values
from lazyten.ir.node import Node, make, ranges_of
from lazyten.support.errors import ArgumentError
from lazyten.support.location import attribute_to
from lazyten.support.passes import Driver, Pass, always, is_verifying


def generate(kernel: Kernel, target: Target) -> Generated:
    """The text of one kernel for a target."""
    with attribute_to(kernel.where):
        if is_verifying():
            verify(kernel.outputs, "graph")
        if kernel.checks and target.work_group > 1:  # each work item has a record of its own
            target, kernel = replace(target, local_memory=0), replace(kernel, decisions=None)
        return generated(DRIVER.run(PASSES, Job(kernel, target)))


DRIVER = Driver(verify_job, describe, lambda job: job.kernel.name)


# ---- when ----------------------------------------------------------------------------------------

def _any(job: Job, part: Part) -> bool:
    return True


def _in_blocks(job: Job, part: Part) -> bool:
    """Whether a part is run for a block of rows at a time."""
    return job.blocks is not None and not part.packs


def _is_shared(job: Job, part: Part) -> bool:
    return bool(part.decisions.parallel.ranges) or _in_blocks(job, part)


def _is_checked(job: Job, part: Part) -> bool:
    return bool(job.kernel.checks)


def _on_gpu(job: Job, part: Part) -> bool:
    """Whether work items run in groups."""
    return job.target.work_group > 1


def _has_masked_loops(job: Job, part: Part) -> bool:
    """Whether masks may be for the last iteration of a loop alone, the text is for one size, and
    no check looks at what a reduction has before its last iteration."""
    return not (job.in_one or job.kernel.checks or _on_gpu(job, part)) and has_masks(part.sink)


def _is_narrowed(job: Job, part: Part) -> bool:
    return _on_gpu(job, part) and not job.kernel.checks


def _has_vectors(job: Job, part: Part) -> bool:
    """Whether text in a language of scalars reads and writes neighbours in memory at once."""
    dialect = dialect_of(job.target.language)
    return _is_narrowed(job, part) and dialect is not None and bool(dialect.whole)


# ---- from a kernel to loops ----------------------------------------------------------------------

def _lower(job: Job) -> Job:
    kernel, target = job.kernel, job.target
    if target.language != "llvm" or not target.threads or kernel.checks \
            or not held_values(kernel.outputs):
        return replace(job, parts=(Part(lower(kernel)),), free=job.arguments)
    if kernel.decisions is not None:
        raise ArgumentError(f"{kernel.decisions.where}: kernel {kernel.name} runs in parts, a "
                            "block of rows at a time, and takes no decisions; leave them out")
    blocks = lower_blocks(kernel, job.arguments)
    return replace(job, parts=tuple(map(Part, blocks.parts)), blocks=blocks,
                   free=job.arguments + len(blocks.held))


def _has_pieces(job: Job) -> bool:
    """Whether loops choose between pieces of an output, a part more is but a call more, and nobody
    speaks of the loops as one nest."""
    return (job.target.language == "llvm" and not job.in_one and job.blocks is None
            and job.kernel.decisions is None and not job.kernel.checks
            and may_be_split(job.parts[0].sink))


def _index_sets(job: Job) -> Job:
    part, = job.parts
    sinks = split_index_sets(part.sink, job.target)
    return replace(job, parts=tuple(Part(s, is_partial=len(sinks) > 1) for s in sinks))


def _decide(job: Job) -> Job:
    """Decisions for each part, and the numbers of the scratch arrays that it takes by them."""
    made, free = [], job.free
    for part in job.parts:
        part = replace(part, decisions=_decisions(job, part), scratch=free)
        free += len(part.packed) + len(part.decisions.block)
        made.append(part)
    return replace(job, parts=tuple(made), free=free)


def _decisions(job: Job, part: Part) -> Decisions:
    given = job.kernel.decisions
    if given is not None and not part.packs:
        from lazyten.codegen.optimize.decision_text import parse
        return parse(given.text, part.sink, job.target, given.where)
    if _in_blocks(job, part):
        return decide_part(part.sink, job.target)
    return decide(part.sink, job.target, job.kernel.tf32)


def _split(job: Job, part: Part) -> Part:
    strides, size = digits_of(part.sink, part.decisions)
    sink = split(part.sink, part.decisions, part.scratch)
    return replace(part, sink=sink, group=Group(size, strides))


def _pack(job: Job) -> Job:
    """What packs is a function of its own, which has come through the passes so far as well."""
    filled = [fill(part.sink, part.packed, part.scratch) for part in job.parts]
    new = tuple(Part(sink, packs=True) for sinks, _ in filled for sink in sinks)
    packing = DRIVER.run(TO_LOOPS, replace(job, parts=new))
    parts = (replace(part, sink=sink) for part, (_, sink) in zip(job.parts, filled, strict=True))
    return replace(packing, parts=(*packing.parts, *parts))


def _share(job: Job, part: Part) -> Node:
    if job.blocks is not None and _in_blocks(job, part):
        return share_ranges(part.sink, job.blocks.ranges)
    return share(part.sink, part.decisions)


def _stage(job: Job, part: Part) -> Part:
    size, strides = part.group.size, part.group.strides
    inside = parts_of_groups(part.sink, part.decisions)
    sink, copying = stage_in_local(part.sink, part.shared, inside, size,
                                   part.decisions.swizzled)
    return replace(part, sink=sink, group=group_of(sink, strides, size, copying))


def _tensor(job: Job, part: Part) -> Part:
    tensors = tensors_of_groups(part.decisions)
    assert tensors is not None
    if tensors.under is not None:
        sink = with_streamed_matrices(part.sink, tensors)
    else:
        sink = with_matrices(part.sink, tensors, parts_of_groups(part.sink, part.decisions))
    strides = {**part.group.strides, **tensors.strides()}
    return replace(part, sink=sink, group=group_of(sink, strides, part.group.size))


def _name(job: Job) -> Job:
    name, packing = job.kernel.name, job.packing
    names = [f"{name}_stage{i}" for i in range(packing)]
    others = len(job.parts) - packing
    names += [name] if others == 1 and job.blocks is None else \
        [f"{name}_part{i}" for i in range(others)]
    return replace(job, parts=tuple(replace(part, name=name, nest=loop_nest(part.sink))
                                    for name, part in zip(names, job.parts, strict=True)))


# ---- from loops to text --------------------------------------------------------------------------

def _check_values(job: Job) -> Job:
    """All functions write to one report, with records for the work items of the largest."""
    from lazyten.codegen.checks.check_values import check_values
    records = max(map(_work_items, job.parts))
    return replace(job, records=records, parts=tuple(
        replace(part, sink=check_values(
            part.sink, job.arguments - 1, len(job.kernel.outputs), records,
            part.decisions.parallel.grain, job.kernel.checks)) for part in job.parts))


def _work_items(part: Part) -> int:
    return max((-(-r.arg.extent // part.decisions.parallel.grain) for r in ranges_of([part.sink])
                if r.arg.kind == "parallel"), default=1)


def _linearize(job: Job, part: Part) -> Function:
    grain, group = part.decisions.parallel.grain, part.group
    return linearize(part.name, part.sink, grain, group.size, group.strides,
                     job.target.masked_loads, job.target.adds_pairs)


def _check_accesses(job: Job, part: Part) -> Function:
    from lazyten.codegen.checks.check_accesses import check_accesses
    return check_accesses(part.instructions, job.arguments - 1, job.records,
                          "bounds" in job.kernel.checks)


def _render(job: Job, part: Part) -> Part:
    text, declares = renderer(job.target)(part.instructions)
    return replace(part, text=text, declares=declares)


def renderer(target: Target) -> Callable[[Function], tuple[str, tuple[str, ...]]]:
    """Makes a Function text, and the lines that must stand before it. ArgumentError for a language
    that there is not."""
    language = target.language
    if language == "llvm":
        return partial(render_llvm.render, fuses=target.fuses, gathers=target.gathers)
    dialect = dialect_of(language)
    if dialect is None:
        raise ArgumentError(f"no renderer writes the language {language!r}; use one of "
                            f"{', '.join(('llvm', *DIALECTS))}, or a dialect.Dialect")
    from lazyten.codegen.render import render_c
    return partial(render_c.render, dialect=dialect)


# ---- the passes ----------------------------------------------------------------------------------

When = Callable[[Job, Part], bool]


def _each(name: str, when: When, run: Callable[[Job, Part], Part]) -> Pass[Job]:
    """A pass over each part that needs it."""
    return Pass(name, lambda job: any(when(job, part) for part in job.parts),
                lambda job: replace(job, parts=tuple(
                    run(job, part) if when(job, part) else part for part in job.parts)))


def _loops(name: str, when: When, run: Callable[[Job, Part], Node]) -> Pass[Job]:
    """The same where all that changes is the SINK."""
    return _each(name, when, lambda job, part: replace(part, sink=run(job, part)))


def _code(name: str, when: When, run: Callable[[Job, Part], Function]) -> Pass[Job]:
    """The same where all that changes is the instructions."""
    return _each(name, when, lambda job, part: replace(part, function=run(job, part)))


TO_LOOPS = (
    _loops("merge", _any, lambda job, part: merge_ranges(part.sink)),
    Pass("decide", always, _decide),
    _each("split", _any, _split),
    Pass("pack", lambda job: any(part.packed for part in job.parts), _pack),
)
"""Those that what packs an operand comes through, too, before it is a part like any other."""

PASSES = (
    Pass("lower", always, _lower),
    Pass("index_sets", _has_pieces, _index_sets),
    TO_LOOPS[0],
    _loops("stream", _on_gpu, lambda job, part: streamed(part.sink, job.target)),
    *TO_LOOPS[1:],
    _loops("share", _is_shared, _share),
    _loops("carry", lambda job, part: bool(part.decisions.block),
           lambda job, part: carry(part.sink, part.scratch + len(part.packed))),
    _loops("peel", _has_masked_loops, lambda job, part: peel_reductions(part.sink)),
    _each("stage", lambda job, part: bool(part.group.size), _stage),
    _each("tensor", lambda job, part: part.decisions.tensor is not None, _tensor),
    _loops("scalars", _on_gpu, lambda job, part: in_scalars(part.sink)),
    Pass("name", always, _name),
    Pass("check_values", lambda job: bool(job.kernel.checks), _check_values),
    _loops("decompose", _any, lambda job, part: make(
        part.sink.op, part.sink.dtype, tuple(decompose(part.sink.src, job.target)))),
    _code("linearize", _any, _linearize),
    _code("check_accesses", _is_checked, _check_accesses),
    _code("narrow", _is_narrowed, lambda job, part: narrow(part.instructions)),
    _code("vectorize", _has_vectors,
          lambda job, part: vectorize_accesses(part.instructions, job.kernel.unaligned)),
    _code("divide", lambda job, part: divides(part.instructions),
          lambda job, part: expand_divisions(part.instructions, floats_of(job.target))),
    _each("render", _any, _render),
)
"""What becomes of a kernel, in this order; of each pass, when it is needed and what it does."""
