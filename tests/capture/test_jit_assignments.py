"""What a jitted function assigns to attributes and variables, each call assigns, as without jit."""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyten as lt
from lazyten import nn

steps = 0


class Net(nn.Module):
    """State of each kind: made once, left behind, running, counted."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("mean", lt.zeros(3))
        self.mask: lt.Tensor | None = None
        self.seen: dict[str, Any] = {}
        self.hidden = lt.zeros(3)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        if self.mask is None:
            self.mask = lt.ones(x.shape[0], 3).tril()
        y = self.layer(x) * self.mask
        self.attention = y.detach()
        self.seen = {"most": y.detach().max(), "of": [x, 3]}
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        self.hidden = self.hidden + 1
        return (y + self.hidden).sum()


def step(net: Net, x: lt.Tensor) -> lt.Tensor:
    net.zero_grad()
    loss = net(x)
    loss.backward()
    return loss.detach()


def test_a_modules_state_goes_on_as_without_jit_and_is_traced_twice() -> None:
    plain, jitted = Net(), Net()
    jitted.load_state_dict(plain.state_dict())
    call = lt.jit(lambda x: step(jitted, x))
    for number in range(5):
        x = lt.randn(2, 3)
        assert lt.allclose(call(x), step(plain, x))
        for name in ("mask", "attention", "mean", "hidden"):
            assert lt.allclose(getattr(jitted, name), getattr(plain, name)), name
        assert lt.allclose(jitted.seen["most"], plain.seen["most"])
        assert jitted.seen["of"][0] is x and jitted.seen["of"][1] == 3
        assert list(jitted.state_dict()) == list(plain.state_dict())
        assert call.cache_size == min(number, 1) + 1


def test_what_two_names_mean_is_not_taken_for_what_one_of_them_does() -> None:
    net = nn.Module()
    net.a = net.b = lt.zeros(2)

    @lt.jit
    def call(x: lt.Tensor) -> lt.Tensor:
        net.a = net.b + x  # only net.b is read
        return net.a

    for number in range(4):
        assert call(lt.full((2,), float(number))).tolist() == [number, number]
    assert net.b.tolist() == [0, 0]


def test_variables_count() -> None:
    own = 0

    @lt.jit
    def call(x: lt.Tensor) -> lt.Tensor:
        global steps
        nonlocal own
        steps, own = steps + 1, own + 2
        return x * steps + own

    assert [call(lt.ones(())).item() for _ in range(4)] == [3, 6, 9, 12]
    assert (steps, own) == (4, 8)


class Plain:
    """An object of the user's that is no module, with an attribute that comes later."""

    def __call__(self, x: lt.Tensor) -> lt.Tensor:
        before = getattr(self, "last", None)
        self.last = x * 2
        return x if before is None else x + before


def test_an_attribute_of_an_object_that_comes_later_is_seen() -> None:
    object_ = Plain()
    call = lt.jit(object_)
    assert [call(lt.full((), float(n))).item() for n in (1, 2, 3)] == [1, 4, 7]
    assert object_.last.item() == 6
    del object_.last
    assert call(lt.ones(())).item() == 1


def test_what_a_caller_assigns_between_calls_counts() -> None:
    net = nn.Module()
    net.h = lt.zeros(2)

    @lt.jit
    def call(x: lt.Tensor) -> lt.Tensor:
        net.h = net.h * 2 + x
        return net.h.sum()

    found = [call(lt.ones(2)).item(), call(lt.ones(2)).item()]
    net.h = lt.full((2,), 10.0)
    found.append(call(lt.ones(2)).item())
    net.h = lt.zeros(3, 2)  # another shape
    found.append(call(lt.ones(2)).item())
    net.h.add_(1)
    found += [call(lt.ones(2)).item(), call.cache_size]
    assert found == [2, 6, 42, 6, 30, 2]


class Foreign:
    """What a replay cannot make."""


net = nn.Module()


def assigns_object(x: lt.Tensor) -> lt.Tensor:
    net.last = Foreign()
    return x


def assigns_parameter(x: lt.Tensor) -> lt.Tensor:
    net.weight = nn.Parameter(x)
    return x


def assigns_graph(x: lt.Tensor) -> lt.Tensor:
    net.last = x * lt.ones(2, requires_grad=True)
    return x


def deletes(x: lt.Tensor) -> lt.Tensor:
    del net.kept
    return x


def fails(x: lt.Tensor) -> lt.Tensor:
    net.kept = x * 2
    raise KeyError("the user's own")


@pytest.mark.parametrize(("function", "error", "words"), [
    (assigns_object, lt.JitError, r"Module\.last at test_jit_assignments"),
    (assigns_parameter, lt.JitError, r"Module\.weight at test_jit_assignments"),
    (assigns_graph, lt.JitError, "still requires gradients"),
    (deletes, lt.JitError, "kept"), (fails, KeyError, "the user's own")])
def test_what_cannot_be_assigned_is_refused_and_nothing_has_changed(
        function: Callable[[lt.Tensor], lt.Tensor], error: type[Exception], words: str) -> None:
    net.kept = kept = lt.ones(2)
    before = dict(vars(net))
    with pytest.raises(error, match=words):
        lt.jit(fullgraph=True)(function)(lt.ones(2))
    assert vars(net) == before and net.kept is kept and kept.tolist() == [1, 1]


def test_a_module_that_no_name_leads_to_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "of_the_test", nn.Module(), raising=False)

    def call(x: lt.Tensor) -> lt.Tensor:
        sys.of_the_test.last = x  # type: ignore[attr-defined]
        return x

    with pytest.raises(lt.JitError, match=r"Module\.last.*finds by name"):
        lt.jit(fullgraph=True)(call)(lt.ones(2))


# ---- what is read --------------------------------------------------------------------------------

class Settings:
    """Attributes of a class, and of its objects."""

    scale = 2.0

    def __init__(self) -> None:
        self.shift = 1.0

    def shifted(self, x: lt.Tensor) -> lt.Tensor:
        return x + self.shift


class Derived(Settings):
    """A method that is behind another of its name."""

    def shifted(self, x: lt.Tensor) -> lt.Tensor:
        return super().shifted(x)


def scaled(given: Settings, x: lt.Tensor, *, by: Settings = Settings()) -> lt.Tensor:  # noqa: B008
    return given.shifted(x) * given.scale * by.shift


def test_attributes_count_wherever_a_function_gets_the_object_from() -> None:
    settings_ = Derived()
    call = lt.jit(lambda x: scaled(settings_, x))
    seen = [call(lt.ones(())).item(), call(lt.ones(())).item()]
    settings_.shift = 2.0
    seen.append(call(lt.ones(())).item())
    try:
        Settings.scale = 3.0
        seen.append(call(lt.ones(())).item())
    finally:
        Settings.scale = 2.0
    assert scaled.__kwdefaults__ is not None
    scaled.__kwdefaults__["by"].shift = 10.0
    seen.append(call(lt.ones(())).item())
    assert seen == [4, 4, 6, 9, 60]


LARGE = np.ones((200, 200), np.float32)


def test_arrays_inside_are_constants_of_what_is_found_by_name() -> None:
    @lt.jit
    def call(x: lt.Tensor) -> lt.Tensor:
        mask = lt.from_numpy(np.triu(np.ones((2, 2)), 1)) == 0
        return lt.where(mask, x, 0.0) + lt.tensor(LARGE[:2, :2] * 2) + np.float32(1)

    for _ in range(3):
        expected = np.tril(np.ones((2, 2))) + LARGE[:2, :2] * 2 + 1
        assert call(lt.ones(2, 2)).tolist() == call(lt.ones(2, 2)).tolist() == expected.tolist()
        LARGE[0, 0] += 1
    assert call.cache_size == 3


def test_arrays_that_come_from_nowhere_and_writes_to_shared_ones_are_refused() -> None:
    drawn = lt.jit(fullgraph=True)(lambda x: x + np.full(2, sys.getrecursionlimit()))
    drawn(lt.ones(2))
    before = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(before + 1)
        with pytest.raises(lt.JitError, match="something else when traced again"):
            drawn(lt.ones(2))
    finally:
        sys.setrecursionlimit(before)
    array = np.zeros(2, np.float32)
    with pytest.raises(lt.JitError, match=r"shares its memory.*test_jit_assignments"):
        lt.jit(fullgraph=True)(lambda x: lt.from_numpy(array).add_(x))(lt.ones(2))
    assert array.tolist() == [0, 0]


# ---- random programs -----------------------------------------------------------------------------

NAMES = "abc"
STATEMENTS = st.tuples(st.sampled_from(
    ["double", "copy", "argument", "forget", "once", "write", "count", "view"]),
    st.sampled_from(NAMES), st.sampled_from(NAMES))
OUTSIDE = st.tuples(st.sampled_from(["nothing", "new", "same", "write", "longer", "none"]),
                    st.sampled_from(NAMES), st.sampled_from(NAMES))


def value(state: Any, name: str) -> Any:
    found = getattr(state, name)
    return 1.0 if found is None else found


def perform(state: Any, statement: tuple[str, str, str], x: lt.Tensor) -> None:
    """One statement of a program, on names of `state`."""
    kind, to, of = statement
    match kind:
        case "double":
            setattr(state, to, (x + value(state, of)) % 8)
        case "copy":
            setattr(state, to, getattr(state, of))
        case "argument":
            setattr(state, to, x)
        case "forget":
            setattr(state, to, None)
        case "once" if getattr(state, to) is None:
            setattr(state, to, x * 3)
        case "write" if getattr(state, to) is not None:
            getattr(state, to).copy_((getattr(state, to) + value(state, of)).sum() % 8)
        case "count":
            state.n += 1
        case "view" if getattr(state, of) is not None:
            setattr(state, to, getattr(state, of)[:1])


def disturb(state: Any, action: tuple[str, str, str]) -> None:
    """What a caller does between two calls."""
    kind, to, of = action
    match kind:
        case "new":
            setattr(state, to, lt.full((2,), 5.0))
        case "same":
            setattr(state, to, getattr(state, of))
        case "write" if getattr(state, to) is not None:
            getattr(state, to).copy_(lt.tensor(7.0))
        case "longer":
            setattr(state, to, lt.ones(3, 1))
        case "none":
            setattr(state, to, None)


class Object:
    """An object that is no module."""


def fresh(kind: str) -> Any:
    state = Object() if kind == "object" else nn.Module()
    for name in NAMES:
        if kind == "buffers":
            state.register_buffer(name, lt.zeros(2))
        else:
            setattr(state, name, None)
    state.n = 0
    return state


@pytest.mark.slow
@settings(max_examples=40)
@given(st.sampled_from(["object", "module", "buffers"]), st.lists(STATEMENTS, max_size=5),
       st.lists(OUTSIDE, min_size=3, max_size=5))
def test_random_programs_that_assign_do_what_they_do_without_jit(
        kind: str, program: list[tuple[str, str, str]],
        actions: list[tuple[str, str, str]]) -> None:
    plain, jitted = fresh(kind), fresh(kind)

    def run(state: Any, x: lt.Tensor) -> Any:
        assert hasattr(state, "n") and [state.a, state.b, state.c]  # names that can be seen
        for statement in program:
            perform(state, statement, x)
        return [value(state, name) + x for name in NAMES], state.a

    call = lt.jit(lambda x: run(jitted, x))
    for number, action in enumerate(actions):
        x, y = (lt.full((2,), float(number)) for _ in range(2))
        disturb(plain, action)
        disturb(jitted, action)
        expected, last = run(plain, x)
        found, given_ = call(y)
        assert [v.tolist() for v in found] == [v.tolist() for v in expected]
        assert (given_ is None) == (last is None) and x.tolist() == y.tolist()
        for name in NAMES:
            a, b = getattr(plain, name), getattr(jitted, name)
            assert (a is None) == (b is None) and (a is None or a.tolist() == b.tolist())
            assert (a is x) == (b is y)
        assert plain.n == jitted.n
