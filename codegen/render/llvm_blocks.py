"""The function around others, as LLVM IR: it has the runtime run chunks of them on threads.

render_llvm.py writes what one chunk is; where a kernel holds values, `render_blocks` does: all
parts of the kernel, for a block of rows at a time.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from lazyten.codegen.instructions.instructions import Function, Loop

RUN_CHUNKS = "declare void @lazyten_run_chunks(ptr, ptr, i64, i64)"


def render_blocks(name: str, parts: Sequence[Function], held: Mapping[int, int], count: int,
                  grain: int) -> tuple[str, tuple[str, ...]]:
    """The function that runs `parts`, whose texts stand before it, for each of `count` blocks, and
    what it needs declared.

    held: arguments of which each chunk, `grain` blocks, has so many bytes of its own.
    """
    arguments = max(len(part.params) for part in parts)
    lines = [f"define internal void @{name}.chunk(ptr noalias %args, i64 %first, i64 %last) "
             "nounwind {", "entry:", f"  %own = alloca ptr, i64 {arguments}",
             f"  %chunk = udiv i64 %first, {grain}"]
    for slot in range(arguments):
        lines += [f"  %t{slot} = getelementptr ptr, ptr %args, i64 {slot}",
                  f"  %p{slot} = load ptr, ptr %t{slot}"]
        pointer = f"%p{slot}"
        if slot in held:
            lines += [f"  %o{slot} = mul i64 %chunk, {held[slot]}",
                      f"  %h{slot} = getelementptr i8, ptr %p{slot}, i64 %o{slot}"]
            pointer = f"%h{slot}"
        lines += [f"  %s{slot} = getelementptr ptr, ptr %own, i64 {slot}",
                  f"  store ptr {pointer}, ptr %s{slot}"]
    lines += ["  br label %block", "block:", "  %i = phi i64 [%first, %entry], [%next, %block]",
              "  %next = add nuw nsw i64 %i, 1"]
    for part in parts:
        shared = any(isinstance(i, Loop) and i.parallel for i in part.body.items)
        lines.append(f"  call void @{part.name}.chunk(ptr %own, i64 %i, i64 %next)" if shared else
                     f"  call void @{part.name}(ptr %own)")
    lines += ["  %more = icmp ult i64 %next, %last", "  br i1 %more, label %block, label %done",
              "done:", "  ret void", "}", *entry(name, count, grain)]
    return "\n".join(lines), (RUN_CHUNKS,)


def entry(name: str, iterations: int, grain: int) -> list[str]:
    """The function that has all chunks run."""
    return ["", f"define void @{name}(ptr %args) nounwind {{",
            f"  call void @lazyten_run_chunks(ptr @{name}.chunk, ptr %args, "
            f"i64 {iterations}, i64 {grain})", "  ret void", "}"]


def counted_entry(name: str, slot: int, iterations: int, grain: int) -> list[str]:
    """The same where two elements of argument `slot` say how many iterations there are, and how
    many make a chunk."""
    return ["", f"define void @{name}(ptr %args) nounwind {{",
            f"  %at = getelementptr ptr, ptr %args, i64 {slot}", "  %counts = load ptr, ptr %at",
            f"  %one = getelementptr i64, ptr %counts, i64 {iterations}",
            "  %iterations = load i64, ptr %one",
            f"  %two = getelementptr i64, ptr %counts, i64 {grain}",
            "  %grain = load i64, ptr %two",
            f"  call void @lazyten_run_chunks(ptr @{name}.chunk, ptr %args, "
            "i64 %iterations, i64 %grain)", "  ret void", "}"]
