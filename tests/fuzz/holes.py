"""Fills the holes of a row's form: with values there are, with new ones, and with literals."""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fuzz.program import Statement
from fuzz.rows import Row

if TYPE_CHECKING:
    from fuzz.generator import State

_HOLE = re.compile(r"\{(\w+)(?::((?:[^{}])*))?\}")
_CALL = re.compile(r"^([a-z]\w*)\((.*)\)$")
_TENSOR = re.compile(r"^([awnfFsilb])(\d+\+?)?([!?*^]*)(\[[^\]]*\]|~\w+|>\w+|=\w+)?(?:@(\w+))?$")

FLOATS = ("float32", "float64", "float16", "bfloat16")
UNSIGNED = ("uint16", "uint32", "uint64")
"""In few programs: PyTorch has them, but not much that takes them."""
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", *UNSIGNED)
KINDS: dict[str, tuple[str, ...]] = {
    "f": FLOATS, "F": FLOATS[:2], "s": FLOATS[:1], "i": INTEGERS, "l": INTEGERS[:1], "b": ("bool",),
    "w": (*FLOATS, *INTEGERS[:4], *UNSIGNED, "bool"), "n": (*FLOATS, *INTEGERS),
    "a": (*FLOATS, *INTEGERS, "bool"),
}


class NoFit(Exception):
    """Nothing fits a hole; another row is tried."""


@dataclass
class Filled:
    """What the holes of one statement are filled with so far."""

    state: State
    tensors: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    operands: list[str] = field(default_factory=list)

    def operand(self, name: str) -> str:
        """The placeholder of a value in the statement's form."""
        if name not in self.operands:
            self.operands.append(name)
        return f"{{{self.operands.index(name)}}}"

    def hole(self, match: re.Match[str]) -> str:
        name, spec = match.groups()
        if name == "T":
            return "{T}"
        if spec is not None:
            self.texts[name] = self._fill(name, spec)
        return self.texts[name]

    def _fill(self, name: str, spec: str) -> str:
        tensor = _TENSOR.match(spec)
        if tensor is not None:
            value = _tensor(self, *tensor.groups())
            self.tensors[name] = self.state.names[value]
            return self.operand(value)
        call = _CALL.match(spec)
        literal, given = (call.group(1), call.group(2)) if call else (spec, "")
        if literal == "choice":
            return str(self.state.random.choice(given.split("|")))
        arguments = given.split(",") if given else []
        return LITERALS[literal](self, *arguments)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.tensors[name].shape)

    def axis(self, given: str) -> int:
        return int(given) if given.lstrip("-").isdigit() else int(self.texts[given])


def fill(row: Row, state: State, target: str | None) -> tuple[Statement, list[Any]]:
    """A statement of the row, and the tensors of its named operands in order. Raises NoFit."""
    filled = Filled(state)
    form = _HOLE.sub(filled.hole, row.form)
    statement = Statement(target, form, tuple(filled.operands), row.name, row.exactness)
    return statement, list(filled.tensors.values())


# ---- tensors -------------------------------------------------------------------------------------

def _tensor(filled: Filled, kind: str, rank: str | None, flags: str, shape: str | None,
            like: str | None) -> str:
    """The name of a value that fits, made if there is none."""
    state = filled.state
    dtypes = (state.dtype(filled.tensors[like]),) if like else KINDS[kind]
    flags = flags or ""
    fits = _fitting(filled, dtypes, rank, flags, shape)
    found = [n for n in state.tensors() if fits(n)]
    fresh = shape is None or "*" in flags or "?" in flags
    if found and state.random.random() < (0.95 if fresh else 0.8):
        name = state.choose(found)
    else:
        if "?" in flags or "^" in flags:
            raise NoFit
        name = state.new(state.random_dtype(dtypes), _wanted_shape(filled, rank, shape),
                         leaf="*" in flags)
    if shape and shape[0] == "[":
        _bind(filled, shape, tuple(state.names[name].shape))
    return name


def _fitting(filled: Filled, dtypes: tuple[str, ...], rank: str | None, flags: str,
             shape: str | None) -> Callable[[str], bool]:
    state = filled.state

    def fits(name: str) -> bool:
        tensor = state.names[name]
        own = tuple(tensor.shape)
        if state.dtype(tensor) not in dtypes or not _rank_fits(rank, len(own)):
            return False
        if "!" in flags and not state.writable(name):
            return False
        if "?" in flags and not tensor.requires_grad:
            return False
        if "*" in flags and not (tensor.requires_grad and tensor.is_leaf):
            return False
        if "^" in flags and (not tensor.is_leaf or tensor.grad is None):
            return False
        return shape is None or _shape_fits(filled, shape, own)
    return fits


def _rank_fits(rank: str | None, own: int) -> bool:
    if rank is None:
        return True
    return own >= int(rank[:-1]) if rank.endswith("+") else own == int(rank)


def _shape_fits(filled: Filled, shape: str, own: tuple[int, ...]) -> bool:
    if shape[0] == "[":
        terms = shape[1:-1].split(",")
        sizes = dict(filled.sizes)
        return len(terms) == len(own) and all(
            _size_fits(t, n, sizes) for t, n in zip(terms, own, strict=True))
    other = filled.shape(shape[1:])
    if shape[0] == "=":
        return own == other
    joint = _broadcast(own, other)
    return joint is not None and (shape[0] == "~" or joint == other)


def _size_fits(term: str, own: int, sizes: dict[str, int]) -> bool:
    name, _, limit = term.partition("<")
    if name.isdigit():
        return int(name) == own
    return sizes.setdefault(name, own) == own and own > 0 and (not limit or own <= sizes[limit])


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    sizes = [max(m, n) if m and n else 0 for m, n in pairs]
    fits = all(s in (1, n) for shape in (a, b)
               for s, n in zip((1,) * (rank - len(shape)) + shape, sizes, strict=True))
    return tuple(sizes) if fits else None


def _bind(filled: Filled, shape: str, own: tuple[int, ...]) -> None:
    for term, n in zip(shape[1:-1].split(","), own, strict=True):
        filled.sizes.setdefault(term.partition("<")[0], n)


def _wanted_shape(filled: Filled, rank: str | None, shape: str | None) -> tuple[int, ...]:
    """A shape of a new value."""
    state = filled.state
    if shape is None:
        least = int(rank.rstrip("+")) if rank else 0
        return state.shape(least, 4 if rank is None or rank.endswith("+") else least)
    if shape[0] != "[":
        other = filled.shape(shape[1:])
        if shape[0] == "=":
            return other
        dropped = state.random.choice((0, 0, 0, 1, len(other)))
        return tuple(1 if state.random.random() < 0.2 else n for n in other[dropped:])
    terms = shape[1:-1].split(",")
    for term in terms:
        name, _, limit = term.partition("<")
        if not name.isdigit() and name not in filled.sizes:
            top = filled.sizes[limit] if limit else state.size(small=len(terms) > 2)
            filled.sizes[name] = state.random.randint(1, min(top, 4)) if limit else top
    names = [t.partition("<")[0] for t in terms]
    return tuple(int(n) if n.isdigit() else filled.sizes[n] for n in names)


# ---- literals ------------------------------------------------------------------------------------

Literal = Callable[..., str]
LITERALS: dict[str, Literal] = {}


def literal(function: Literal) -> Literal:
    LITERALS[function.__name__.strip("_")] = function
    return function


@literal
def int_(f: Filled, low: str, high: str) -> str:
    return str(f.state.random.randint(int(low), int(high)))


@literal
def size(f: Filled) -> str:
    return str(f.state.size())


@literal
def bool_(f: Filled) -> str:
    return f.state.random.choice(("True", "False"))


@literal
def num(f: Filled) -> str:
    return f.state.random.choice(("1", "2", "0", "3", "-1", "0.5", "-2", "1.5", "-0.25"))


@literal
def dtype(f: Filled, kind: str) -> str:
    name = f.state.random_dtype(KINDS[kind])
    return "lt.bool_" if name == "bool" else f"lt.{name}"


@literal
def axis(f: Filled, of: str) -> str:
    rank = len(f.shape(of))
    if rank == 0:
        raise NoFit
    chosen = f.state.random.randrange(rank)
    return str(chosen if f.state.random.random() < 0.7 else chosen - rank)


@literal
def axes(f: Filled, of: str) -> str:
    rank = len(f.shape(of))
    chosen = sorted(f.state.random.sample(range(rank), f.state.random.randint(1, rank)))
    return f"({', '.join(map(str, chosen))},)"


@literal
def axes2(f: Filled, of: str) -> str:
    return ", ".join(map(str, f.state.random.sample(range(len(f.shape(of))), 2)))


@literal
def newaxis(f: Filled, of: str) -> str:
    return str(f.state.random.randint(0, len(f.shape(of))))


@literal
def perm(f: Filled, of: str) -> str:
    rank = len(f.shape(of))
    return str(tuple(f.state.random.sample(range(rank), rank)))


@literal
def newshape(f: Filled) -> str:
    return str(f.state.shape(0, 3))


@literal
def reshaped(f: Filled, of: str) -> str:
    """Another shape of as many elements: axes joined and split."""
    numel = 1
    for n in f.shape(of):
        numel *= n
    sizes, rest = [], numel
    for _ in range(f.state.random.randint(0, 3)):
        divisors = [d for d in range(1, rest + 1) if rest % d == 0] or [0]
        sizes.append(f.state.random.choice(divisors))
        rest = rest // sizes[-1] if sizes[-1] else 0
    sizes.append(rest)
    f.state.random.shuffle(sizes)
    return str(tuple(sizes))


@literal
def expanded(f: Filled, of: str) -> str:
    own = f.shape(of)
    more = f.state.random.choice(((), (), (2,), (3,)))
    return str((*more, *(f.state.random.randint(1, 5) if n == 1 else n for n in own)))


@literal
def repeats(f: Filled, of: str) -> str:
    more = f.state.random.choice(((), (), (1,), (2,)))
    return str((*more, *(f.state.random.choice((1, 1, 2, 3)) for _ in f.shape(of))) or (2,))


@literal
def part(f: Filled, of: str, axis: str) -> str:
    """start, length of a part of an axis."""
    n = f.shape(of)[f.axis(axis)]
    length = f.state.random.randint(min(1, n), n)
    return f"{f.state.random.randint(0, n - length)}, {length}"


@literal
def length(f: Filled, of: str, axis: str) -> str:
    """From 1 to the size of an axis, which is chosen here."""
    f.texts[axis] = LITERALS["axis"](f, of)
    n = f.shape(of)[f.axis(axis)]
    if n == 0:
        raise NoFit
    return str(f.state.random.randint(1, n))


@literal
def position(f: Filled, of: str, axis: str) -> str:
    n = f.shape(of)[f.axis(axis)]
    if n == 0:
        raise NoFit
    return str(f.state.random.randint(-n, n - 1))


@literal
def window(f: Filled, of: str, axis: str) -> str:
    n = f.shape(of)[f.axis(axis)]
    if n == 0:
        raise NoFit
    return f"{f.state.random.randint(1, n)}, {f.state.random.randint(1, 3)}"


@literal
def part1(f: Filled, of: str) -> str:
    return str(f.state.random.randint(1, f.sizes[of]))


@literal
def slice_(f: Filled, of: str) -> str:
    """Slices, whole numbers and None for some axes."""
    draw = f.state.random
    parts = []
    for n in f.shape(of)[:draw.choice((1, 1, 2, 3))]:
        kind = draw.choice(("part", "part", "step", "all", "number", "None"))
        if kind == "None":
            parts.append("None")
        start = draw.randint(0, max(0, n - 1))
        if kind == "part":
            parts.append(f"{start}:{draw.randint(start, n)}" if draw.random() < 0.2 else
                         draw.choice((f"{start}:", f":{max(1, n - start)}", "1:", ":-1")))
        elif kind == "step":
            parts.append(draw.choice(("::2", f"{start}::2", "::3", "1::2")))
        elif kind == "number" and n:
            parts.append(str(draw.randint(-n, n - 1)))
        else:
            parts.append(":")
    return ", ".join(parts if draw.random() < 0.8 else ["...", parts[0]]) or "..."


# ---- indices -------------------------------------------------------------------------------------

def _index(f: Filled, n: int, shape: tuple[int, ...]) -> str:
    """An integer tensor of this shape with values inside 0 .. n-1: written out, counted, computed
    of integers there are."""
    if n == 0 or 0 in shape:
        raise NoFit
    draw, state = f.state.random, f.state
    found = [v for v in state.tensors() if tuple(state.names[v].shape) == shape
             and state.dtype(state.names[v]) in ("int64", "int32")]
    way = draw.choice(("computed", "computed", "counted", "counted", "written"))
    if way == "computed" and found:
        return f"({f.operand(state.choose(found))} % {n}).long()"
    if way == "counted" or len(shape) != 1:
        numel = 1
        for m in shape:
            numel *= m
        step, divided = draw.randint(1, 5), draw.choice(("", "", " // 2", " // 3"))
        reshaped = f".reshape{shape}" if len(shape) > 1 else ""
        counted = f"lt.arange({numel}){reshaped}"
        if not shape:
            return f"lt.tensor({draw.randrange(n)})"
        return f"(({counted}{divided} * {step} + {draw.randrange(n)}) % {n})"
    return f"lt.tensor({[draw.randrange(n) for _ in range(shape[0])]})"


@literal
def index(f: Filled, of: str, axis: str) -> str:
    shape = f.state.random.choice(((3,), (2,), (5,), (2, 3), (1,), (4, 2)))
    return _index(f, f.shape(of)[f.axis(axis)], shape)


@literal
def index1(f: Filled, of: str, axis: str, count: str) -> str:
    n = f.shape(of)[f.axis(axis)]
    if count == "2" and n >= 2:  # of different elements, where their order would matter
        return f"lt.tensor({f.state.random.sample(range(n), 2)})"
    return _index(f, n, (int(count),))


@literal
def indexlike(f: Filled, of: str, axis: str, choose: str = "") -> str:
    """An index of the tensor's own shape."""
    if choose:
        f.texts[axis] = LITERALS["axis"](f, of)
    return _index(f, f.shape(of)[f.axis(axis)], f.shape(of))


@literal
def flatindex(f: Filled, of: str) -> str:
    numel = 1
    for n in f.shape(of):
        numel *= n
    return _index(f, numel, f.state.random.choice(((3,), (2, 2))))


@literal
def labels(f: Filled, count: str, classes: str) -> str:
    return _index(f, f.sizes[classes], (f.sizes[count],))
