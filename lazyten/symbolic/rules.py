"""Rewrite rules as data: a pattern language, and the engine that finds the rule for a node.

`algebra.py` holds the table, `simplify.py` applies it. A rule reads as what it does:

    Rule((n + c) + d, n + (c + d))

Pattern variables: `Any`, `Integer`, `Float` and `Boolean` match any node of such a dtype,
`Constant` a CONST. The same variable twice means the same node. A number matches the constant of
that value, in the dtype of the operand beside it; -0.0 is not 0.0, and True is not the integer 1.
`where` is a side condition on variables, by name: it gets nodes for the first kind, Python values
for constants, DTypes for `cast` targets.

Commutative ops match in both orders. `simplify` keeps constants on the right, so rules have them
there. Every rule is a step towards less: `tests/symbolic/test_rules.py` counts, and checks values.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any as Anything

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import Node, Shape, const
from lazyten.ir.ops import SPECS, Op

Binding = dict[str, Node | DType]
Make = Callable[[Op, DType, tuple[Node, ...]], Node]


class Pattern:
    """A shape of expression. Operators make bigger patterns of it, as they do for tensors."""

    __slots__ = ()

    def __add__(self, other: Pattern | Scalar) -> Pattern:
        return _operation(Op.ADD, self, other)

    def __sub__(self, other: Pattern | Scalar) -> Pattern:
        return _operation(Op.SUB, self, other)

    def __rsub__(self, other: Scalar) -> Pattern:
        return _operation(Op.SUB, other, self)

    def __mul__(self, other: Pattern | Scalar) -> Pattern:
        return _operation(Op.MUL, self, other)

    def __truediv__(self, other: Pattern | Scalar) -> Pattern:
        return _operation(Op.DIV, self, other)

    def __rtruediv__(self, other: Scalar) -> Pattern:
        return _operation(Op.DIV, other, self)

    def __floordiv__(self, other: Pattern | Scalar) -> Pattern:
        return _operation(Op.IDIV, self, other)

    def __mod__(self, other: Pattern | Scalar) -> Pattern:
        return _operation(Op.MOD, self, other)

    def __pow__(self, other: Pattern | Scalar) -> Pattern:
        return _operation(Op.POW, self, other)

    def __and__(self, other: Pattern | Scalar) -> Pattern:
        return _operation(Op.AND, self, other)

    def __or__(self, other: Pattern | Scalar) -> Pattern:
        return _operation(Op.OR, self, other)

    def __xor__(self, other: Pattern | Scalar) -> Pattern:
        return _operation(Op.XOR, self, other)

    def __lshift__(self, other: Pattern | Scalar) -> Pattern:
        return _operation(Op.SHL, self, other)

    def __rshift__(self, other: Pattern | Scalar) -> Pattern:
        return _operation(Op.SHR, self, other)

    def __lt__(self, other: Pattern | Scalar) -> Pattern:
        return _operation(Op.CMPLT, self, other)

    def __neg__(self) -> Pattern:
        return _operation(Op.NEG, self)

    def __invert__(self) -> Pattern:
        return _operation(Op.NOT, self)


@dataclass(frozen=True, slots=True, eq=False)
class Variable(Pattern):
    """Matches a node whose dtype is of one of `kinds`; of op CONST only, if `constant`."""

    name: str
    kinds: str
    constant: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Pattern):
    """Matches the constant of this value."""

    value: Scalar


@dataclass(frozen=True, slots=True, eq=False)
class Operation(Pattern):
    """Matches `op` of what `src` match. `target` names the dtype of a CAST or BITCAST."""

    op: Op
    src: tuple[Pattern, ...]
    target: str = ""


def Any(name: str) -> Variable:
    """A node of any dtype."""
    return Variable(name, "biuf")


def Integer(name: str) -> Variable:
    """A node of an integer dtype."""
    return Variable(name, "iu")


def Float(name: str) -> Variable:
    """A node of a float dtype."""
    return Variable(name, "f")


def Boolean(name: str) -> Variable:
    """A bool node."""
    return Variable(name, "b")


def Constant(name: str, kinds: str = "biuf") -> Variable:
    """A CONST, of one of the dtype kinds."""
    return Variable(name, kinds, constant=True)


def where(condition: Pattern | Scalar, then: Pattern | Scalar,
          otherwise: Pattern | Scalar) -> Pattern:
    """The pattern of a WHERE."""
    return _operation(Op.WHERE, condition, then, otherwise)


def maximum(a: Pattern, b: Pattern | Scalar) -> Pattern:
    """The pattern of a MAX."""
    return _operation(Op.MAX, a, b)


def differ(a: Pattern, b: Pattern | Scalar) -> Pattern:
    """The pattern of a CMPNE."""
    return _operation(Op.CMPNE, a, b)


def cast(x: Pattern, target: str) -> Pattern:
    """The pattern of a CAST to a dtype that the rule calls `target`."""
    return Operation(Op.CAST, (x,), target)


def bitcast(x: Pattern, target: str) -> Pattern:
    """The pattern of a BITCAST to a dtype that the rule calls `target`."""
    return Operation(Op.BITCAST, (x,), target)


def _operation(op: Op, *operands: Pattern | Scalar) -> Pattern:
    return Operation(op, tuple(o if isinstance(o, Pattern) else Literal(o) for o in operands))


# ---- matching ------------------------------------------------------------------------------------

def match(pattern: Pattern, node: Node, found: Binding) -> bool:
    """Whether `node` is of the pattern; `found` collects what its variables stand for."""
    if isinstance(pattern, Operation):
        if node.op is not pattern.op or pattern.target and not _bind(pattern.target, node.dtype,
                                                                      found):
            return False
        for p, s in zip(pattern.src, node.src, strict=True):  # noqa: SIM110 (hot: no generator)
            if not match(p, s, found):
                return False
        return True
    if isinstance(pattern, Literal):
        if node.op is not Op.CONST or pattern.value is True and node.dtype is not dt.bool_:
            return False
        return node is _literal(pattern, node.dtype, node.shape)
    assert isinstance(pattern, Variable)
    if node.dtype.kind not in pattern.kinds or pattern.constant and node.op is not Op.CONST:
        return False
    return _bind(pattern.name, node, found)


@cache
def _literal(pattern: Literal, dtype: DType, shape: Shape) -> Node:
    return const(pattern.value, dtype, shape)


def _bind(name: str, value: Node | DType, found: Binding) -> bool:
    return found.setdefault(name, value) is value


def construct(pattern: Pattern, like: Node, found: Binding, make: Make) -> Node:
    """The node that `pattern` stands for, made by `make`; numbers get dtype and shape of `like`."""
    if isinstance(pattern, Variable):
        node = found[pattern.name]
        assert isinstance(node, Node)
        return node
    if isinstance(pattern, Literal):
        return _literal(pattern, like.dtype, like.shape)
    assert isinstance(pattern, Operation)
    src: list[Node | None] = [None if isinstance(p, Literal) else construct(p, like, found, make)
                              for p in pattern.src]
    values = src[1:] if pattern.op is Op.WHERE else src
    beside = next((s for s in values if s is not None), like)
    done = tuple(construct(p, beside, found, make) if s is None else s
                 for p, s in zip(pattern.src, src, strict=True))
    dtype = dt.bool_ if SPECS[pattern.op].gives == "bool" else done[-1].dtype
    if pattern.target:
        target = found[pattern.target]
        assert isinstance(target, DType)
        dtype = target
    return make(pattern.op, dtype, done)


def _variables(pattern: Pattern) -> Iterator[Variable]:
    if isinstance(pattern, Variable):
        yield pattern
    elif isinstance(pattern, Operation):
        for p in pattern.src:
            yield from _variables(p)


@dataclass(frozen=True, slots=True)
class Rule:
    """Where `find` matches and `where` holds, `put` has the same value and costs no more."""

    find: Pattern
    put: Pattern | Scalar
    where: Callable[..., bool] | None = None
    needs: tuple[str, ...] = field(init=False, default=())
    constants: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        constants = frozenset(v.name for v in _variables(self.find) if v.constant)
        object.__setattr__(self, "constants", constants)
        if self.where is not None:
            code = self.where.__code__
            object.__setattr__(self, "needs", code.co_varnames[:code.co_argcount])

    def apply(self, node: Node, make: Make) -> Node | None:
        """The replacement of `node`, its new nodes made by `make`; None where it does not match."""
        found: Binding = {}
        if not match(self.find, node, found) or not self.holds(found):
            return None
        put = self.put if isinstance(self.put, Pattern) else Literal(self.put)
        return construct(put, node, found, make)

    def holds(self, found: Binding) -> bool:
        """Whether the side condition is met."""
        if self.where is None:
            return True
        values: list[Anything] = [found[name] for name in self.needs]
        return bool(self.where(*[v.value if name in self.constants else v
                                 for name, v in zip(self.needs, values, strict=True)]))


# ---- finding the rule for a node -----------------------------------------------------------------

def _orders(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern with the operands of its commutative ops in every order worth trying."""
    if not isinstance(pattern, Operation):
        yield pattern
        return
    for src in product(*[list(_orders(p)) for p in pattern.src]):
        yield Operation(pattern.op, src, pattern.target)
        if SPECS[pattern.op].commutes and src[0] is not src[1] and not _is_constant(src[1]):
            yield Operation(pattern.op, src[::-1], pattern.target)


def _is_constant(pattern: Pattern) -> bool:
    return isinstance(pattern, Literal) or isinstance(pattern, Variable) and pattern.constant


def _allows(pattern: Pattern, op: Op, kind: str) -> bool:
    if isinstance(pattern, Operation):
        return pattern.op is op
    if isinstance(pattern, Variable) and kind not in pattern.kinds:
        return False
    return op is Op.CONST or not _is_constant(pattern)


class RuleSet:
    """Rules by a node's op and its sources' kinds and ops: most nodes meet none that may match."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._by_op: dict[Op, list[Rule]] = {}
        self._by_ops: dict[tuple[Op | str, ...], list[Rule]] = {}
        for rule in self.rules:
            assert isinstance(rule.find, Operation)
            for find in _orders(rule.find):
                self._by_op.setdefault(rule.find.op, []).append(Rule(find, rule.put, rule.where))

    def apply(self, node: Node, make: Make) -> Node | None:
        """What the first rule that matches makes of `node`; None if none does."""
        kinds = [s.dtype.kind for s in node.src]
        key: tuple[Op | str, ...] = (node.op, *kinds, *[s.op for s in node.src])
        candidates = self._by_ops.get(key)
        if candidates is None:
            candidates = self._by_ops[key] = [r for r in self._by_op.get(node.op, ())
                                              if _fits(r.find, node)]
        for rule in candidates:
            new = rule.apply(node, make)
            if new is not None:
                return new
        return None


def _fits(find: Pattern, node: Node) -> bool:
    assert isinstance(find, Operation)
    return all(_allows(p, s.op, s.dtype.kind) for p, s in zip(find.src, node.src, strict=True))
