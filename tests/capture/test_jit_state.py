"""Python state of every kind that functions read or change: whatever it becomes, and when, a jitted
function gives what it gives without jit."""
from __future__ import annotations

import array
import collections
import contextvars
import dataclasses
import datetime
import enum
import functools
import io
import itertools
import logging
import os
import queue
import random
import sys
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import lazyten as lt
from lazyten import nn

SCALE = 1.0


class Plain:
    """An attribute, a property that reads it, and methods."""

    k: Any = 1.0

    def __init__(self, k: Any = 1.0) -> None:
        self.k = k

    @property
    def twice(self) -> Any:
        return self.k * 2

    def itself(self) -> Plain:
        return self

    def times(self, x: lt.Tensor) -> lt.Tensor:
        return x * self.k


class Derived(Plain):
    """A method that asks the one behind it."""

    def times(self, x: lt.Tensor) -> lt.Tensor:
        return super().times(x) + 1


class Slotted:
    """State in a slot."""

    __slots__ = ("k",)

    def __init__(self) -> None:
        self.k = 1.0


class Equal:
    """Equal to all others of its class, whatever it has."""

    def __init__(self, k: float) -> None:
        self.k = k

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)

    def __hash__(self) -> int:
        return 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    """Equal by its field."""

    k: float


class Level(enum.Enum):
    """A number by name."""

    LOW, HIGH = 1.0, 2.0


class Pair(NamedTuple):
    """A container with a name."""

    k: Any


class Counting(nn.Module):
    """Counts its calls, and remembers them."""

    def __init__(self) -> None:
        super().__init__()
        self.n, self.seen = 0, [1]

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        self.n += 1
        self.seen.append(self.n)
        return x * self.n * len(self.seen)


class Hooked(nn.Module):
    """A layer with a hook."""

    def __init__(self, hook: Any) -> None:
        super().__init__()
        self.inner = nn.Identity()
        self.inner.register_forward_hook(hook)

    def forward(self, x: lt.Tensor) -> Any:
        return self.inner(x)


def use_global(i: int) -> None:
    global SCALE
    SCALE = i


def first(value: Any, *others: Any) -> Any:
    return value


def begin(values: list[Any]) -> Callable[[lt.Tensor], Any]:
    """A variable that is assigned from outside, and one that is counted inside."""
    count = 0

    def call(x: lt.Tensor) -> lt.Tensor:
        nonlocal count
        count += 1
        return x * values[0] * count
    return call


def imports(x: lt.Tensor) -> lt.Tensor:
    import module_of_the_test  # type: ignore[import-not-found]
    return x * module_of_the_test.k


def trained() -> Any:
    w = nn.Parameter(lt.ones(2))
    optimizer = lt.optim.SGD([w], lr=0.5)

    def call(x: lt.Tensor) -> Any:
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
        return w.detach() * 1
    return call


def set_item(place: Any, key: Any) -> Callable[[int], None]:
    return lambda i: place.__setitem__(key, float(i))


def set_k(thing: Any) -> Callable[[int], None]:
    return lambda i: setattr(thing, "k", float(i))


class Fold:
    """Keeps what a function appends to, for the results to show."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    def add(self, x: lt.Tensor) -> lt.Tensor:
        self.held.append(x * 2)
        return sum(self.held[1:], self.held[0])  # type: ignore[no-any-return]


def with_defaults() -> Any:
    """A function of its own at each call."""
    def function(x: Any, a: Any = [1.0], n: int = 1, *, b: Any = {"k": 1.0}) -> Any:  # noqa: B006
        return (x if isinstance(x, lt.Tensor) else 1) * a[0] * n * b["k"]
    return function


def of_code(i: int) -> Any:
    """A function of its own at each call, of the same code for 0 and 1."""
    return (lambda x: x * 3) if i < 2 else (lambda x: x - 3)


CASES: dict[str, Callable[[], Any]] = {
    # a tuple whose last two are the function, and what happens before call i
    "global": lambda: (lambda x: x * SCALE, use_global),
    "globals()": lambda: (lambda x: x * globals()["SCALE"], use_global),
    "nonlocal": lambda: (v := [1.0], begin(v), set_item(v, 0)),
    "list": lambda: (v := [1.0], lambda x: x * sum(v), v.append),
    "deque": lambda: (v := collections.deque([1.0]), lambda x: x * sum(v), v.append),
    "dict": lambda: (v := {"k": [1.0]}, lambda x: x * v["k"][0], set_item(v["k"], 0)),
    "new key": lambda: (v := {}, lambda x: x * v.get(1, 5), lambda i: v.update({i: 3})),
    "set": lambda: (v := set(), lambda x: x * (3 if 2 in v else 1), v.add),
    "in a set": lambda: (o := Plain(), v := {o}, lambda x: x * next(iter(v)).k, set_k(o)),
    "key": lambda: (o := Plain(), v := {o: 1}, lambda x: x * next(iter(v)).k, set_k(o)),
    "array": lambda: (v := array.array("d", [1.0]), lambda x: x * v[0], set_item(v, 0)),
    "bytearray": lambda: (v := bytearray([1]), lambda x: x * v[0],
                          lambda i: v.__setitem__(0, i)),
    "numpy": lambda: (v := np.ones(4), lambda x: x * float(v[1]), set_item(v, 1)),
    "large numpy": lambda: (v := np.ones(30000), lambda x: x * float(v[9]), set_item(v, 9)),
    "largest numpy": lambda: (v := np.ones(2 ** 20 + 1), lambda x: x * float(v[9]), set_item(v, 9)),
    "numpy objects": lambda: (v := np.array([1, 2], object), lambda x: x * v[0], set_item(v, 0)),
    "attribute": lambda: (o := Plain(), lambda x: x * o.k, set_k(o)),
    "class": lambda: (lambda x: x * Plain.k, set_k(Plain)),
    "property": lambda: (o := Plain(), lambda x: x * o.twice, set_k(o)),
    "super": lambda: (o := Derived(), lambda x: o.times(x), set_k(o)),
    "bound method": lambda: (o := Plain(), go := o.times, lambda x: go(x), set_k(o)),
    "through a method": lambda: (o := Plain(), lambda x: x * o.itself().k, set_k(o)),
    "slot": lambda: (o := Slotted(), lambda x: x * o.k, set_k(o)),
    "namespace": lambda: (o := types.SimpleNamespace(k=1.0), lambda x: x * o.k, set_k(o)),
    "nested": lambda: (o := Plain(Plain()), lambda x: x * o.k.k, set_k(o.k)),
    "getattr": lambda: (o := Plain(), n := ["k"], lambda x: x * getattr(o, n[0]), set_k(o)),
    "vars": lambda: (o := Plain(), lambda x: x * sum(vars(o).values()), set_k(o)),
    "__dict__": lambda: (o := Plain(), lambda x: x * sum(o.__dict__.values()), set_k(o)),
    "partial": lambda: (v := [1.0], p := functools.partial(first, v), lambda x: x * p(x)[0],
                        set_item(v, 0)),
    "context variable": lambda: (v := contextvars.ContextVar("v", default=1.0),
                                 lambda x: x * v.get(), v.set),
    "thread": lambda: (o := threading.local(), lambda x: x * getattr(o, "k", 1), set_k(o)),
    "weak reference": lambda: (o := Plain(), r := weakref.ref(o), lambda x: x * r().k, set_k(o)),
    "environment": lambda: (lambda x: x * float(os.environ.get("OF_THE_TEST", "1")),
                            lambda i: os.environ.update(OF_THE_TEST=str(i))),
    "import": lambda: (o := sys.modules.setdefault("module_of_the_test", types.ModuleType("m")),
                       setattr(o, "k", 1.0), imports, set_k(o)),
    "default": lambda: (lambda x, v=[1]: (v.append(2), x * len(v))[1], first),
    "list as a default": lambda: (f := with_defaults(), f, set_item(f.__defaults__[0], 0)),
    "dict as a default": lambda: (f := with_defaults(), f, set_item(f.__kwdefaults__["b"], "k")),
    "default of what is called": lambda: (f := with_defaults(), lambda x: f(x),
                                          set_item(f.__defaults__[0], 0)),
    "other defaults": lambda: (f := with_defaults(), lambda x: f(x), lambda i: setattr(
        f, "__defaults__", ([1.0], i + 1))),
    "other keywords' defaults": lambda: (f := with_defaults(), lambda x: f(x), lambda i: setattr(
        f, "__kwdefaults__", {"b": {"k": i}})),
    "a keyword's other default": lambda: (f := with_defaults(), lambda x: f(x), lambda i:
                                          f.__kwdefaults__.update(b={"k": i})),
    "other code": lambda: (f := of_code(0), lambda x: f(x), lambda i: setattr(
        f, "__code__", of_code(i).__code__)),
    "other code of its own": lambda: (f := of_code(0), f, lambda i: setattr(
        f, "__code__", of_code(i).__code__)),
    "method's default": lambda: (f := with_defaults(), setattr(Derived, "more", f),
                                 d := Derived(), lambda x: d.more(a=[2.0]) * x,
                                 set_item(f.__kwdefaults__["b"], "k")),
    "tuple with a name": lambda: (v := [Pair(1.0)], lambda x: x * v[0].k,
                                  lambda i: v.__setitem__(0, Pair(i))),
    "tensors in a list": lambda: (v := [lt.ones(2)], lambda x: x * v[0],
                                  lambda i: v.__setitem__(0, lt.full((2,), float(i)))),
    "iterator": lambda: (v := iter([1, 1, 1, 5, 6, 7, 8]), lambda x: x * next(v), first),
    "cycle": lambda: (v := itertools.cycle([1, 1, 1, 2]), lambda x: x * next(v), first),
    "generator": lambda: (v := (n // 3 for n in range(9)), lambda x: x * next(v), first),
    "random": lambda: (lambda x: x * random.random() + random.choice([1, 2]), first),
    "numpy's random": lambda: (lambda x: x * float(np.random.rand()), first),
    "clock": lambda: (lambda x: x * (time.time() > 0), first),
    "date": lambda: (lambda x: x * datetime.datetime.now().year, first),
    "counts": lambda: (m := Counting(), m, lambda i: None),
    "appends": lambda: (o := Fold(), o.add, first),
    "counter": lambda: (v := collections.Counter(), lambda x: (v.update("a"), x * v["a"])[1],
                        first),
    "cache": lambda: (v := {}, lambda x: x * v.setdefault(SCALE, lt.ones(2) + SCALE), use_global),
    "lru_cache": lambda: (f := functools.lru_cache(lambda k: lt.ones(2) + k),
                          lambda x: x * f(SCALE), use_global),
    "queue": lambda: (v := queue.Queue(), lambda x: (v.put(1), x * v.qsize())[1], first),
    "file": lambda: (v := io.StringIO(), lambda x: (v.write("a"), x * len(v.getvalue()))[1],
                     first),
    "log": lambda: (v := [], h := logging.Handler(), setattr(h, "emit", v.append),
                    g := logging.Logger("of the test"), g.addHandler(h),
                    lambda x: (g.info("here"), x * len(v))[1], first),
    "hook's state": lambda: (v := [1.0], Hooked(lambda m, a, out: out * v[0]), set_item(v, 0)),
    "hook's list": lambda: (v := [], Hooked(lambda m, a, out: (v.append(1), out * len(v))[1]),
                            first),
    "options": lambda: (trained(), first),
}


def history(name: str, wrap: Callable[[Any], Any]) -> list[Any]:
    """What calls give: state changes after it has been the same for three."""
    random.seed(0)
    np.random.seed(0)
    use_global(1)
    Plain.k = 1.0
    function, change = CASES[name]()[-2:]
    call, found = wrap(function), []
    for i in (0, 0, 0, 1, 2, 3, 1):
        change(i)
        found.append(call(lt.ones(2)).tolist())
    os.environ.pop("OF_THE_TEST", None)
    return found


@pytest.mark.few(26)
@pytest.mark.parametrize("name", CASES)
def test_state_of_each_kind_counts_at_each_call(name: str) -> None:
    assert history(name, lt.jit) == history(name, lambda function: function)


@pytest.mark.parametrize("arguments", [
    [Equal(float(k)) for k in (1, 1, 1, 2, 3)], [Frozen(k) for k in (1.0, 2.0, 1.0)],
    [Level.LOW, Level.HIGH, Level.LOW], [np.float32(k) for k in (0.0, -0.0, 0.0, 2.0)]],
    ids=["Equal", "Frozen", "Enum", "NumPy"])
def test_arguments_that_are_equal_are_not_taken_for_one_another(arguments: list[Any]) -> None:
    def divided(x: lt.Tensor, by: Any) -> lt.Tensor:
        return x / (getattr(by, "k", None) or getattr(by, "value", by))

    call = lt.jit(divided)
    for argument in arguments:
        assert call(lt.ones(2), argument).tolist() == divided(lt.ones(2), argument).tolist()


def test_a_tensor_that_is_known_by_name_too_is_told_from_others() -> None:
    known, names = lt.ones(2), {}
    names[known] = 5.0

    @lt.jit
    def call(x: lt.Tensor) -> lt.Tensor:
        return x * (2 if x is known else 3) * names.get(x, 1.0)

    looked_up = lt.jit(lambda x: x * names.get(x, 1.0))
    other = lt.ones(2)
    assert [call(x).tolist()[0] for x in (other, known, other, known)] == [3, 10, 3, 10]
    assert [looked_up(x).tolist()[0] for x in (other, known, other, known)] == [1, 5, 1, 5]


def test_warnings_are_given_at_each_call() -> None:
    @lt.jit
    def call(x: lt.Tensor) -> lt.Tensor:
        warnings.warn("of the test", stacklevel=1)
        return x

    with pytest.warns(UserWarning) as found:
        for _ in range(3):
            call(lt.ones(2))
    assert len(found) == 3


MODULES = sys.modules


class MadeWhenAsked(types.ModuleType):
    """A module that loads another one for each attribute that it is asked for."""

    def __getattr__(self, name: str) -> Any:
        sys.modules[f"{self.__name__}.{name}"] = types.ModuleType(name)
        raise AttributeError(name)


def test_the_table_of_modules_may_be_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODULES, "made_when_asked", MadeWhenAsked("made_when_asked"))
    double = lt.jit(lambda x: x * 2 if "lazyten" in MODULES else x)
    before = set(MODULES)
    assert double(lt.ones(2)).tolist() == double(lt.ones(2)).tolist() == [2, 2]
    assert not [name for name in MODULES.keys() - before if name.startswith("made_when_asked")]


def test_state_may_contain_itself() -> None:
    known: dict[str, Any] = {"k": 2.0}
    known["me"], several = known, [known]
    known["all"] = several
    call = lt.jit(lambda x: x * known["k"] * len(several))
    assert call(lt.ones(1)).item() == call(lt.ones(1)).item() == 2
    known["k"] = 3.0
    assert call(lt.ones(1)).item() == 3
    several.append(known)
    assert call(lt.ones(1)).item() == 6


def test_a_module_may_have_attributes_that_contain_themselves() -> None:
    layer = nn.Linear(3, 1)
    layer.owners = [layer, []]
    layer.owners[1].append(layer.owners)
    optimizer = lt.optim.SGD(layer.parameters(), lr=0.1)

    def step(x: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        loss = layer(x).sum() * len(layer.owners)
        loss.backward()
        optimizer.step()
        return loss
    call = lt.jit(step)
    before = [call(lt.ones(2, 3)).item() for _ in range(3)]
    layer.owners.append(None)
    after = call(lt.ones(2, 3)).item()
    np.testing.assert_allclose(np.diff(before), np.full(2, -6.4), rtol=1e-4)
    np.testing.assert_allclose(after, (before[-1] - 6.4) * 1.5, rtol=1e-4)
