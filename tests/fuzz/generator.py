"""Writes random programs, statement by statement, running each on the interpreter to know shapes,
types and values of what the next may use."""
from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import lazyten as lt
from fuzz import (
    rows_arrays,
    rows_elementwise,
    rows_further,
    rows_modules,
    rows_more,
    rows_parts,
    rows_programs,
    rows_written,
)
from fuzz.calls import BATCHED, CALLS, JITTED, NEEDS_FLOAT
from fuzz.holes import FLOATS, UNSIGNED, NoFit, fill
from fuzz.libraries import Lazyten, Names, default_device
from fuzz.program import Program, Statement
from fuzz.rows import EXACT, ROUGH, Row

TABLES: dict[str, tuple[float, list[Row]]] = {
    "creation": (1.6, rows_arrays.CREATION), "views": (3, rows_arrays.VIEWS),
    "moves": (2, rows_arrays.MOVES), "reductions": (3, rows_arrays.REDUCTIONS),
    "scans": (0.7, rows_arrays.SCANS), "order": (1.2, rows_arrays.ORDER),
    "indexing": (1.8, rows_arrays.INDEXING), "arithmetic": (3.5, rows_elementwise.ARITHMETIC),
    "one by one": (1.6, rows_elementwise.ONE_BY_ONE), "logic": (1.6, rows_elementwise.LOGIC),
    "conversions": (0.8, rows_elementwise.CONVERSIONS), "products": (1.2, rows_programs.PRODUCTS),
    "networks": (1.5, rows_programs.NETWORKS), "writes": (1.6, rows_programs.WRITES),
    "gradients": (1.6, rows_programs.GRADIENTS), "random": (1.0, rows_programs.RANDOM),
    "computing": (0.4, rows_programs.COMPUTING), "in place": (1.0, rows_more.IN_PLACE),
    "other names": (1.0, rows_more.NAMES), "layers": (0.8, rows_more.LAYERS),
    "Python": (1.5, rows_more.PYTHON), "modules": (0.7, rows_modules.MODULES),
    "autocast": (0.5, rows_modules.AUTOCAST), "autocast alone": (0.6, rows_modules.AUTOCAST_ALONE),
    "windows alone": (0.6, rows_modules.WINDOWS_ALONE), "hooks": (0.4, rows_modules.HOOKS),
    "generators": (0.6, rows_modules.GENERATORS), "threads": (0.3, rows_modules.THREADS),
    "several": (1.2, rows_modules.SEVERAL), "complex": (0.7, rows_further.COMPLEX),
    "spectra": (0.5, rows_further.SPECTRA), "matrices": (0.6, rows_further.MATRICES),
    "scatters": (0.8, rows_further.SCATTERS), "special": (0.6, rows_further.SPECIAL),
    "sequences": (0.6, rows_further.SEQUENCES), "parts": (1.0, rows_parts.PARTS),
    "sparse": (0.7, rows_parts.SPARSE), "written": (0.9, rows_written.WRITTEN),
    "out": (0.5, rows_written.OUT), "layouts": (0.5, rows_written.LAYOUTS),
    "empty": (0.8, rows_written.EMPTY),
}
"""Groups of rows and how often each is drawn."""
ALONE = frozenset({"random", "generators", "autocast alone", "windows alone"})
"""Groups of rows whose values are others in PyTorch, for programs that it does not run."""
IN_BODIES = frozenset(TABLES) - ALONE - {"computing", "gradients", "Python", "hooks", "threads",
                                          "several", "written", "out"}
IN_TRANSFORMS = IN_BODIES - {"writes", "in place", "creation", "modules", "parts", "sparse",
                             "layouts", "empty"}
LARGEST = 1500
"""Elements of a value at most."""
SIZES = (1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7, 8, 9, 12, 16, 17, 24, 33, 40)
SMALL = 4
"""Statements of a small program: in the time of one of ten there are five."""
_ASSIGNS = re.compile(r"^\{\d+\} [-+*]= ")


@dataclass(frozen=True)
class Profile:
    """What one program is made of: how many statements, which groups of rows more often."""

    statements: int
    weights: dict[str, float]
    foreign: bool
    unsigned: bool

    @staticmethod
    def drawn(draw: random.Random, longest: int, small: float) -> Profile:
        chance = draw.random() < 0.1
        favoured = draw.sample(sorted(TABLES), 3)
        weights = {name: weight * (4 if name in favoured else 1)
                   for name, (weight, _) in TABLES.items() if chance or name not in ALONE}
        statements = draw.randint(2, SMALL) if small and draw.random() < small else \
            draw.randint(3, longest)
        return Profile(statements, weights, not chance, draw.random() < 0.08)


class State:
    """The statements so far and what their names mean on the interpreter."""

    def __init__(self, draw: random.Random, library: Lazyten, names: Names,
                 prefix: str = "x", choosy: bool = True) -> None:
        self.random, self.library, self.names, self.prefix = draw, library, names, prefix
        self.choosy = choosy  # about what is of use to later statements
        self.statements: list[Statement] = []
        self.rough: set[Any] = set()  # storages with values that are equal but for rounding
        self.own: list[str] = []
        self.functions: list[tuple[str, str, list[str]]] = []  # name, kind, arguments
        self.closed: list[str] = []
        self.write_closed = False
        self.unsigned = False

    # what there is

    def tensors(self) -> list[str]:
        return self.closed + self.own

    def dtype(self, tensor: Any) -> str:
        return str(tensor.dtype.name).rstrip("_")

    def choose(self, names: list[str]) -> str:
        """One of them, later ones more often."""
        return names[max(self.random.randrange(len(names)), self.random.randrange(len(names)))]

    def writable(self, name: str) -> bool:
        tensor = self.names[name]
        if name in self.closed and not self.write_closed:
            return False
        repeats = any(s == 0 and n > 1
                      for s, n in zip(tensor.stride(), tensor.shape, strict=True))
        return not repeats and not (tensor.requires_grad and tensor.is_leaf)

    def exact(self, name: str) -> bool:
        """Whether values have the same bits everywhere: of a tensor, or of several."""
        value = self.names[name]
        several = value if isinstance(value, tuple | list) else (value,)
        return not any(isinstance(t, lt.Tensor) and t.untyped_storage() in self.rough
                       for t in several)

    def values(self, name: str) -> np.ndarray[Any, Any]:
        return np.asarray(self.names[name].detach().numpy())

    # what may be added

    def size(self, small: bool = False) -> int:
        return self.random.choice(SIZES[:13] if small else SIZES)

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        rank = min(max(least, self.random.choice((0, 1, 1, 2, 2, 2, 3, 3, 4))), most)
        return tuple(self.size(small=rank > 2 or i > 0) for i in range(rank))

    def random_dtype(self, among: tuple[str, ...]) -> str:
        weights = {"float32": 12.0, "int64": 6.0, "float64": 3.0, "bool": 2.0,
                   **dict.fromkeys(UNSIGNED, 3.0 if self.unsigned else 0.0)}
        return self.random.choices(among, [weights.get(t, 1.0) for t in among])[0]

    def name(self) -> str:
        return f"{self.prefix}{len(self.statements)}"

    def new(self, dtype: str, shape: tuple[int, ...], leaf: bool = False) -> str:
        """A new input of this shape and type. Raises NoFit."""
        if math.prod(shape) > LARGEST:
            raise NoFit
        target = self.name()
        leaf = leaf or dtype in FLOATS and self.prefix == "x" and self.random.random() < 0.4
        form = _input(self.random, dtype, shape, leaf and dtype in FLOATS)
        return self.add(Statement(target, form))

    def add(self, statement: Statement) -> str:
        """Run a statement and keep it. Raises NoFit where its result is of no use."""
        exact = self._is_exact(statement)
        usual = self.choosy and statement.row not in rows_modules.UNUSUAL and all(
            self._is_usual(self.names[n]) for n in statement.operands)
        self.library.execute(statement, self.names)
        if statement.target:
            result = self.names[statement.target]
            for one in result if isinstance(result, tuple | list) else (result,):
                self._check(one, usual)
            if isinstance(result, lt.Tensor):
                self.own.append(statement.target)
        self.statements.append(statement)
        if not exact:
            self._is_rough(statement.target or statement.operands[0])
            if not statement.target and "backward" in statement.form:
                self.rough.update(self.names[n].grad.untyped_storage() for n in self.tensors()
                                  if self.names[n].is_leaf and self.names[n].grad is not None)
        return statement.target or ""

    def _is_rough(self, name: str) -> None:
        changed = self.names[name]
        several = changed if isinstance(changed, tuple | list) else (changed,)
        self.rough.update(t.untyped_storage() for t in several if isinstance(t, lt.Tensor))

    def _is_exact(self, statement: Statement) -> bool:
        exactness = statement.exactness
        tensors = [n for n in statement.operands if isinstance(self.names[n], lt.Tensor)]
        if exactness == ROUGH or not all(self.exact(n) for n in statement.operands):
            return False
        return exactness == EXACT or _sums_exactly([self.values(n) for n in tensors],
                                                   [self.dtype(self.names[n]) for n in tensors])

    def _check(self, result: Any, usual: bool) -> None:
        """Raises NoFit for what is no tensor, or large, and mostly where numbers become unusual."""
        if not isinstance(result, lt.Tensor) or result.numel() > LARGEST or result.ndim > 6:
            raise NoFit
        if usual and not self._is_usual(result) and self.random.random() < 0.9:
            raise NoFit

    def _is_usual(self, value: Any) -> bool:
        """Whether all numbers are finite and moderate; other things are usual."""
        if not isinstance(value, lt.Tensor) or value.dtype.kind != "f":
            return True
        array = np.asarray(value.detach().numpy())
        return bool(np.all(np.isfinite(array)) and np.all(np.abs(array) <= 1e4))


def _sums_exactly(arrays: list[np.ndarray[Any, Any]], dtypes: list[str]) -> bool:
    """Whether no sum of products of these values is rounded, in any order."""
    digits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
    room = min((digits[t] for t in dtypes if t in digits), default=64)
    if room == 64:
        return True
    total, scale = 1.0, 1.0
    for a in arrays:
        if a.dtype.kind != "f":
            total *= max(1.0, float(np.max(np.abs(a.astype(float)), initial=0)))
            continue
        scaled = a.astype(np.float64) * 8
        if not np.all(scaled == np.floor(scaled)):
            return False
        total *= max(1.0, float(np.max(np.abs(a), initial=0)))
        scale *= 8
    return total * scale * max((a.size for a in arrays), default=1) < 2.0 ** room


def _input(draw: random.Random, dtype: str, shape: tuple[int, ...], leaf: bool) -> str:
    """An expression for a new tensor: few numbers are written out, many counted."""
    name = "lt.bool_" if dtype == "bool" else f"lt.{dtype}"
    numel = math.prod(shape)
    if numel > 12:
        step, offset, period = draw.choice((5, 7, 11, 3)), draw.randint(0, 9), draw.choice(
            (11, 13, 17, 6))
        text = f"((lt.arange({numel}).reshape({shape}) * {step} + {offset}) % {period}"
        if dtype == "bool":
            return text + " < 5)"
        text += f" - {0 if dtype.startswith('uint') else 5}).to({name})"
        if dtype in FLOATS:
            text = f"({text} / {draw.choice((1, 2, 4))})"
        return text + (".requires_grad_()" if leaf else "")
    values = [_number(draw, dtype) for _ in range(numel)]
    if dtype in FLOATS and values and draw.random() < 0.04:
        values[draw.randrange(numel)] = _Text(draw.choice(("nan", "inf", "-inf")))
    nested = np.array(values, dtype=object).reshape(shape).tolist()
    return f"lt.tensor({nested}, dtype={name}{', requires_grad=True' if leaf else ''})"


class _Text:
    """A float that Python does not write as a literal."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"float('{self.text}')"


def _number(draw: random.Random, dtype: str) -> Any:
    if dtype == "bool":
        return draw.random() < 0.5
    if dtype in FLOATS:
        return draw.choice((draw.randint(-24, 24) / 8, draw.randint(-3, 3) * 1.0,
                            round(draw.uniform(-3, 3), 2)))
    if dtype.startswith("uint"):
        return draw.choice((draw.randint(0, 9), draw.randint(0, 9), draw.choice((200, 255, 127))))
    return draw.choice((draw.randint(-6, 9), draw.randint(-6, 9), draw.randint(0, 5)))


def is_refusal(error: Exception | None) -> bool:
    """Whether an error is one of a user's mistake, or of what is not there."""
    return isinstance(error, lt.LazytenError) and not isinstance(error, lt.InternalError)


def with_exactness(program: Program) -> Program:
    """The program with the names that are exact found anew."""
    library = Lazyten("interpreter")
    with default_device("interpreter"):
        state = State(random.Random(0), library, library.start(program), choosy=False)
        for statement in program.statements:
            try:
                state.add(statement)
            except NoFit:  # a function, or too large to be generated, and yet a statement
                state.statements.append(statement)
        exact = frozenset(n for n in program.observed if state.exact(n))
    return replace(program, exact=exact)


class Generator:
    """Programs by number: one seed and number always give the same program."""

    def __init__(self, seed: int, longest: int = 10, small: float = 0.0) -> None:
        self.seed, self.longest, self.small = seed, longest, small
        self.library = Lazyten("interpreter")
        self.broken: list[tuple[Program, Exception]] = []
        self.foreign = True
        self.refused: list[tuple[Program, Exception]] = []

    def program(self, number: int) -> Program:
        """The program of this number. What lazyten refuses is kept in `refused`, with what leads to
        it; what it fails at in any other way in `broken`."""
        draw = random.Random(f"{self.seed} {number}")
        profile = Profile.drawn(draw, self.longest, self.small)
        self.foreign = profile.foreign
        seed = draw.randrange(1000)
        with default_device("interpreter"):
            names = self.library.start(Program((), (), seed=seed))
            state = State(draw, self.library, names)
            state.unsigned = profile.unsigned
            for _ in range(3 * profile.statements):
                if len(state.statements) >= profile.statements:
                    break
                if not self._step(state, profile, TABLES.keys()):
                    break
        return self._finished(state, profile, seed)

    def _finished(self, state: State, profile: Profile, seed: int) -> Program:
        read = {n for s in state.statements for n in s.reads}
        observed = tuple(n for n in state.own if n not in read or state.random.random() < 0.2)
        leaves = tuple(n for n in state.own if state.names[n].requires_grad
                       and state.names[n].is_leaf)
        exact = frozenset(n for n in observed if state.exact(n))
        return Program(tuple(state.statements), observed, leaves, exact, profile.foreign, seed)

    def _step(self, state: State, profile: Profile, groups: Any) -> bool:
        """Try to add a statement. False where the state is no longer to be trusted."""
        often = 0.2 if state.functions else 0.08
        if state.prefix == "x" and state.own and state.random.random() < often:
            if state.functions and state.random.random() < 0.5:
                return self._call_again(state)
            return self._function(state, profile)
        names = [g for g in sorted(groups) if g in profile.weights]
        group = state.random.choices(names, [profile.weights[g] for g in names])[0]
        table = TABLES[group][1]
        row = state.random.choices(table, [r.weight for r in table])[0]
        return self._attempt(state, row)

    def _attempt(self, state: State, row: Row) -> bool:
        statement = Statement(None, "", row=row.name)
        try:
            target = None if row.effect else "?"
            statement, tensors = fill(row, state, target)
            if row.when is not None and not row.when(
                    *(np.asarray(t.detach().numpy()) for t in tensors)):
                return True
            if target:
                statement = replace(statement, target=state.name())
            self._guard_closed(state, statement)
            state.add(statement)
            if target and not isinstance(made := state.names[statement.target], lt.Tensor):
                self._named(state, statement, len(made))
        except NoFit:
            return not row.effect
        except Exception as error:
            self._fails(state, statement, error)
            return not row.effect and isinstance(error, lt.LazytenError)
        return True

    def _named(self, state: State, several: Statement, count: int) -> None:
        """Name some of several results. What they are is as exact as their making was."""
        for i in sorted(state.random.sample(range(count), min(count, 3))):
            state.add(Statement(state.name(), f"{{0}}[{i}]", (str(several.target),), several.row))

    def _guard_closed(self, state: State, statement: Statement) -> None:
        if _ASSIGNS.match(statement.form) and statement.operands[0] in state.closed:
            raise NoFit

    def _fails(self, state: State, statement: Statement, error: Exception) -> None:
        """Keep a program that ends in an error, and the error."""
        if state.prefix == "x":
            kept = self.refused if is_refusal(error) else self.broken
            statements = (*state.statements, statement)
            observed = (statement.target,) if statement.target else ()
            kept.append((Program(statements, observed, foreign=self.foreign), error))

    # ---- functions -----------------------------------------------------------------------------

    def _function(self, state: State, profile: Profile) -> bool:
        """Define a function and call it, as it is, jitted or transformed."""
        kind = state.random.choice(tuple(CALLS))
        arguments = [state.choose(state.own) for _ in range(state.random.choice((1, 1, 2)))]
        try:
            statement = self._definition(state, profile, kind, arguments)
        except NoFit:
            return True
        state.library.execute(statement, state.names)
        state.statements.append(statement)
        state.functions.append((str(statement.target), kind, arguments))
        return self._call(state, *state.functions[-1])

    def _call_again(self, state: State) -> bool:
        """Call a function of before with what its arguments are now, or with others like them."""
        name, kind, arguments = state.random.choice(state.functions)
        others = [state.choose([n for n in state.own if _alike(state.names[n], state.names[a])])
                  for a in arguments]
        return self._call(state, name, kind, others)

    def _call(self, state: State, name: str, kind: str, arguments: list[str]) -> bool:
        for call in CALLS[kind](state.random):
            form = call.replace("...", ", ".join(_operands(state, kind, len(arguments))))
            made = Statement(state.name(), form, (name, *arguments), kind, ROUGH)
            try:
                state.add(made)
            except NoFit:
                continue
            except Exception as error:
                self._fails(state, made, error)
                return False
        return True

    def _definition(self, state: State, profile: Profile, kind: str,
                    arguments: list[str]) -> Statement:
        parameters = ("a", "b")[:len(arguments)]
        inner = State(state.random, state.library, dict(state.names), "t")
        inner.write_closed = kind in JITTED and state.random.random() < 0.3
        inner.closed = [n for n in state.own if n not in arguments and state.random.random() < 0.3]
        inner.rough = set(state.rough)
        for parameter, name in zip(parameters, arguments, strict=True):
            tensor = state.names[name]
            if kind in NEEDS_FLOAT and tensor.dtype.kind != "f":
                raise NoFit
            batched = kind in BATCHED
            if batched and not (tensor.ndim and 0 < tensor.shape[0]
                                == state.names[arguments[0]].shape[0]):
                raise NoFit
            inner.names[parameter] = (tensor[0] if batched else tensor).detach().clone()
            inner.own.append(parameter)
        groups = IN_BODIES if kind in ("plain", "jit", "compile") else IN_TRANSFORMS
        for _ in range(state.random.randint(1, 5)):
            if not self._step(inner, profile, groups):
                raise NoFit
        made = [s.target for s in inner.statements if s.target]
        if not made:
            raise NoFit
        result = made[-1]
        if kind in NEEDS_FLOAT and inner.names[result].dtype.kind != "f":
            raise NoFit
        prefix = JITTED.get(kind, "")
        return Statement(state.name().replace("x", "f"), prefix, row="def", parameters=parameters,
                         body=tuple(inner.statements), result=result)


def _alike(a: lt.Tensor, b: lt.Tensor) -> bool:
    return (a.shape, a.dtype) == (b.shape, b.dtype)


def _operands(state: State, kind: str, count: int) -> list[str]:
    """Placeholders of a call's arguments; what a jitted function is given often has no gradient."""
    plain = kind in JITTED and state.random.random() < 0.5
    return [f"{{{i + 1}}}{'.detach()' if plain else ''}" for i in range(count)]
