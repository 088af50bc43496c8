"""Makes a program that differs short: as long as the same kind of difference stays, statements go,
values become numbers that are written out, and those fewer."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import lazyten as lt
from fuzz.libraries import Lazyten, Names, default_device
from fuzz.program import Program, Statement

Fails = Callable[[Program], bool]
LONGEST = 16
"""Elements of a tensor that is written out."""


def shrink(program: Program, fails: Fails, tries: int = 400) -> Program:
    """The shortest program found within so many tries that `fails` like this one."""
    left = tries
    improved = True
    while improved and left > 0:
        improved = False
        for smaller in _smaller(program):
            left -= 1
            if left <= 0:
                break
            if smaller != program and fails(smaller):
                program, improved = smaller, True
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    """Programs that are one step simpler, the boldest steps first."""
    yield from _fewer_looks(program)
    yield from _fewer_statements(program)
    yield from _shorter_functions(program)
    yield from _written_out(program)
    yield from _smaller_numbers(program)


def _fewer_looks(program: Program) -> Iterator[Program]:
    if program.observed and program.leaves:
        yield replace(program, leaves=())
        yield replace(program, observed=())
    for names in ("observed", "leaves"):
        now: tuple[str, ...] = getattr(program, names)
        if len(now) > 1:
            yield from (replace(program, **{names: (name,)}) for name in now)  # type: ignore[arg-type]
        if len(now) == 1 and (program.leaves if names == "observed" else program.observed):
            yield replace(program, **{names: ()})  # type: ignore[arg-type]


def _fewer_statements(program: Program) -> Iterator[Program]:
    """One or several statements left out; what read a value then reads an operand of it."""
    statements = program.statements
    needed = _needed(program)
    if len(needed) < len(statements):
        yield from filter(None, [program.of(needed)])
    for i in reversed(range(len(statements))):
        rest = statements[:i] + statements[i + 1:]
        gone = statements[i].target
        yield from filter(None, [program.of(rest)])
        for instead in statements[i].operands if gone else ():
            renamed = tuple(s.renamed({str(gone): instead}) for s in rest)
            moved = replace(program, observed=tuple(
                instead if n == gone else n for n in program.observed))
            yield from filter(None, [moved.of(renamed)])


def _needed(program: Program) -> tuple[Statement, ...]:
    """Without statements that only name what nobody reads."""
    read = {*program.observed, *program.leaves}
    kept = []
    for s in reversed(program.statements):
        if s.target is None or s.target in read:
            kept.append(s)
            read |= s.reads
    return tuple(reversed(kept))


def _shorter_functions(program: Program) -> Iterator[Program]:
    for i, s in enumerate(program.statements):
        for j in range(len(s.body)):
            body = s.body[:j] + s.body[j + 1:]
            known = {*s.parameters, *(b.target for b in body)}
            results = [s.result] if s.result in known else [b.target for b in body if b.target]
            for result in results[-1:] or list(s.parameters[:1]):
                yield from filter(None, [program.of((
                    *program.statements[:i], replace(s, body=body, result=result),
                    *program.statements[i + 1:]))])
        if s.form == "@lt.jit":
            yield from filter(None, [program.of((*program.statements[:i], replace(s, form=""),
                                                 *program.statements[i + 1:]))])


def _written_out(program: Program) -> Iterator[Program]:
    """A statement's value as numbers instead."""
    names: Names = {}
    library = Lazyten("interpreter")
    with default_device("interpreter"):
        names = library.start(program)
        for i, s in enumerate(program.statements):
            try:
                library.execute(s, names)
            except Exception:
                return
            value = names.get(s.target or "")
            if isinstance(value, lt.Tensor) and value.numel() <= LONGEST and s.row != "written":
                text = _literal(np.asarray(value.detach().numpy()), value)
                yield from filter(None, [program.of((
                    *program.statements[:i], Statement(s.target, text, row="written"),
                    *program.statements[i + 1:]))])


def _literal(array: np.ndarray[Any, Any], like: Any) -> str:
    grad = ", requires_grad=True" if like.requires_grad else ""
    numbers = str(array.tolist()).replace("nan", "float('nan')").replace("inf", "float('inf')")
    dtype = "bool_" if like.dtype.name.startswith("bool") else like.dtype.name
    return f"lt.tensor({numbers}, dtype=lt.{dtype}{grad})"


def _smaller_numbers(program: Program) -> Iterator[Program]:
    """Fewer elements of what is written out, and rounder ones; no gradient."""
    for i, s in enumerate(program.statements):
        if not s.form.startswith("lt.tensor("):
            continue
        try:
            value = eval(s.form, {"lt": lt})
        except (lt.LazytenError, IndexError, KeyError, SyntaxError):
            continue
        array = np.asarray(value.detach().numpy())
        for smaller in _cut(array):
            form = _literal(smaller, value)
            yield from filter(None, [program.of((
                *program.statements[:i], replace(s, form=form), *program.statements[i + 1:]))])
        if value.requires_grad:
            form = s.form.replace(", requires_grad=True", "")
            plain = replace(program, leaves=tuple(n for n in program.leaves if n != s.target))
            yield from filter(None, [plain.of((
                *program.statements[:i], replace(s, form=form), *program.statements[i + 1:]))])


def _cut(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    for axis, n in enumerate(array.shape):
        if n > 1:
            yield array.take(range(n // 2), axis)
            yield array.take(range(n - 1), axis)
    if array.dtype.kind == "f" and not np.array_equal(array, np.round(array)):
        yield np.round(array)
