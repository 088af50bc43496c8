"""A program as data: statements over named values, which render to Python text.

The text is the same for lazyten and PyTorch: it names `lt`, the library, and `F`, its functions of
networks.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from fuzz.rows import EXACT


@dataclass(frozen=True)
class Statement:
    """`target = form` with operands put in for `{0}`, `{1}`, ...; or, with a `result`, a function.

    Where `{T} = ` is in the form, the target stands there instead. A target of None: the statement
    is for its effect. The row names the operation in counts.
    """

    target: str | None
    form: str
    operands: tuple[str, ...] = ()
    row: str = "input"
    exactness: str = EXACT
    parameters: tuple[str, ...] = ()
    body: tuple[Statement, ...] = ()
    result: str | None = None

    @property
    def expression(self) -> str:
        return self.form.format(*self.operands, T=self.target)

    def lines(self, around: Callable[[Statement], str] = lambda s: "{}") -> list[str]:
        """Lines of Python; `around` says what is put around the expression of a statement."""
        if self.result is None:
            if self.target is None:
                return self.expression.split("\n")
            before, _, value = self.form.rpartition("{T} = ")
            text = (f"{before.format(*self.operands)}{self.target} = "
                    f"{around(self).format(value.format(*self.operands))}")
            return text.split("\n")
        inside = [line for s in self.body for line in s.lines(around)]
        return [*filter(None, [self.form]), f"def {self.target}({', '.join(self.parameters)}):",
                *("    " + line for line in [*inside, f"return {self.result}"])]

    @cached_property
    def reads(self) -> frozenset[str]:
        """Names from outside that the statement reads."""
        if self.result is None:
            return frozenset(self.operands)
        own = {*self.parameters, *(s.target for s in self.body)}
        return frozenset({n for s in self.body for n in s.reads} | {self.result}) - own

    def renamed(self, names: dict[str, str]) -> Statement:
        """The statement with other names for what it reads."""
        body = tuple(s.renamed(names) for s in self.body)
        result = names.get(self.result, self.result) if self.result else None
        return replace(self, operands=tuple(names.get(o, o) for o in self.operands), body=body,
                       result=result)


@dataclass(frozen=True)
class Program:
    """Statements, and the names that are looked at when they have run.

    leaves: names whose `.grad` is looked at too. exact: names whose values are the same bits
    everywhere. foreign: whether PyTorch may run it; it may not where there are random numbers.
    """

    statements: tuple[Statement, ...]
    observed: tuple[str, ...]
    leaves: tuple[str, ...] = ()
    exact: frozenset[str] = frozenset()
    foreign: bool = True
    seed: int = 0

    @property
    def rows(self) -> Iterator[str]:
        for s in self.statements:
            yield s.row
            yield from (inner.row for inner in s.body)

    def lines(self) -> list[str]:
        """The program as a user would type it."""
        looks = [f"print({name})" for name in self.observed]
        looks += [f"print({name}.grad)" for name in self.leaves]
        return [line for s in self.statements for line in s.lines()] + looks

    def prefixed(self, prefix: str) -> Program:
        """The program with all its names begun by `prefix`."""
        names = {s.target: prefix + s.target for s in self.statements if s.target}
        statements = tuple(replace(s.renamed(names), target=names.get(s.target or ""))
                           for s in self.statements)
        return replace(self, statements=statements,
                       observed=tuple(names[n] for n in self.observed),
                       leaves=tuple(names[n] for n in self.leaves),
                       exact=frozenset(names[n] for n in self.exact))

    def of(self, statements: tuple[Statement, ...]) -> Program | None:
        """The program with other statements, if they read only what there is, looking at what is
        left of what it looked at."""
        known = {"lt", "F", "ThreadPoolExecutor"}
        for s in statements:
            if not s.reads <= known:
                return None
            if s.target:
                known.add(s.target)
        return replace(self, statements=statements,
                       observed=tuple(n for n in self.observed if n in known),
                       leaves=tuple(n for n in self.leaves if n in known))
