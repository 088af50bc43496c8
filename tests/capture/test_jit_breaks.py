"""Functions that do what a replay cannot: read a value, print, count, keep tensors in lists. Jitted
they do what they do without jit, at each call and exactly once."""
from __future__ import annotations

import gc
import random
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyten as lt
from lazyten import nn

STATEMENTS = st.tuples(st.sampled_from(
    ["read", "branch", "while", "print", "draw", "keep", "count", "give", "add", "write", "row",
     "noise", "backward", "gradient", "step", "clear", "hook", "buffer", "data", "scale data",
     "new gradient", "freeze", "assign", "detach", "argument's data", "array", "masked"]),
    st.integers(0, 3), st.integers(0, 3))


class Program:
    """Everything that a random function can reach; `run` is the function."""

    def __init__(self, code: list[tuple[str, int, int]], given_back: list[int]) -> None:
        self.code, self.given_back = code, given_back
        self.w = nn.Parameter(lt.tensor([1.0, 2.0, 3.0]))
        self.optimizer = lt.optim.SGD([self.w], lr=0.5, momentum=0.5)
        self.net = nn.Module()
        self.net.register_buffer("mean", lt.ones(3))
        self.generator = lt.Generator(3)
        self.array = np.ones(3, np.float32)
        self.log: list[Any] = []
        self.count = 0
        self.last: Any = None

    def run(self, a: lt.Tensor, b: lt.Tensor, given: list[lt.Tensor]) -> Any:
        found = [a, b, self.w, self.net.mean]
        for kind, i, j in self.code:
            self.perform(found, given, kind, i, j)
        return [found[i].detach() for i in self.given_back], a

    def perform(self, found: list[Any], given: list[lt.Tensor], kind: str, i: int, j: int) -> None:
        x, y = found[i], found[j]
        match kind:
            case "read":
                self.log.append(x.sum().item())
            case "branch" if x.sum() > 4:
                found[i] = y / 2
            case "while":
                while found[i].max() > 4:
                    found[i] = found[i] / 2
            case "print":
                print("here")
            case "draw":
                found[i] = x + random.randint(0, 2)
            case "keep":
                self.log.append(x.detach() if i else x)
            case "count":
                self.count += 1
                found[i] = x + self.count
            case "give":
                given.append(x.detach())
            case "add":
                found[i] = x + y
            case "write" | "row":
                with lt.no_grad():
                    (x if kind == "write" else x[1:]).add_(1)
            case "noise":
                found[i] = x + lt.rand(3, generator=self.generator)
            case "array":
                lt.from_numpy(self.array).add_(y.detach())
            case "masked":
                found[i] = x + x[x > 2].sum()
            case "hook" if x.requires_grad:
                x.register_hook(lambda gradient: gradient * 2)
            case "assign":
                self.last = x.detach()
            case "detach":
                found[i] = x.detach()
            case _:
                self.train(x, y, found[0], kind)

    def train(self, x: lt.Tensor, y: lt.Tensor, a: lt.Tensor, kind: str) -> None:
        match kind:
            case "backward" if (x * y).requires_grad:
                (x * y).sum().backward(retain_graph=True)
            case "gradient" if x.grad is not None:
                self.log.append(x.grad.sum().item())
            case "step":
                self.optimizer.step()
            case "clear":
                self.optimizer.zero_grad()
            case "buffer":
                self.net.mean = 0.5 * self.net.mean + x.detach()
            case "data":
                self.w.data = self.w.detach() / 2 + 1
            case "argument's data":
                a.data = a.detach() / 2
            case "scale data":
                self.w.data.mul_(0.5)
            case "new gradient":
                self.w.grad = y.detach() * 2
            case "freeze":
                self.w.requires_grad_(not self.w.requires_grad)


def numbers(values: Any) -> list[Any]:
    return [x.tolist() if isinstance(x, lt.Tensor) else x for x in values]


def history(program: Program, call: Callable[..., Any], kinds: list[int]) -> Iterator[list[Any]]:
    """All that can be seen after each call. kinds: the arguments of each, leaves or not."""
    random.seed(0)
    for number, kind in enumerate(kinds):
        a, b = (lt.tensor([k, 1.0, number]) for k in (1.0, 2.0))
        if kind == 1:
            b.requires_grad_()
        if kind == 2:
            a, b = a[:], a
        given = [a]
        results, back = call(a, b, given)
        seen = [*results, *given, a, b, program.w, program.net.mean, program.last]
        seen += [x.grad for x in (a, b, program.w)] + program.log
        yield [*numbers(seen), program.count, program.array.tolist(), back is a,
               program.last is a, b.requires_grad, b.is_leaf, program.w.requires_grad,
               program.generator.counted(), program.optimizer.state[program.w] != {}]


@pytest.mark.slow
@settings(max_examples=80)
@given(st.lists(STATEMENTS, max_size=7), st.lists(st.integers(0, 3), max_size=2),
       st.lists(st.integers(0, 2), min_size=3, max_size=4))
def test_random_functions_with_breaks_do_what_they_do_without_jit(
        code: list[tuple[str, int, int]], given_back: list[int], kinds: list[int]) -> None:
    with lt.device("interpreter"):
        plain, jitted = Program(code, given_back), Program(code, given_back)
        expected = list(history(plain, plain.run, kinds))
        found = list(history(jitted, lt.jit(jitted.run), kinds))
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_equal(ours, theirs, err_msg=f"call {number}")


# ---- in particular -------------------------------------------------------------------------------

def test_what_is_before_a_break_happens_once_and_at_each_call(
        capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[lt.Tensor] = []

    @lt.jit
    def call(x: lt.Tensor, numbers: list[float]) -> str:
        seen.append(x * 2)
        numbers.append(3.0)
        print("sum", x.sum().item())
        return "more" if x.sum() > 4 else "less"

    numbers: list[float] = []
    assert [call(lt.full((2,), k), numbers) for k in (1.0, 2.0, 3.0, 4.0)] == [
        "less", "less", "more", "more"]
    assert capsys.readouterr().out == "sum 2.0\nsum 4.0\nsum 6.0\nsum 8.0\n"
    assert [x.tolist() for x in seen] == [[2, 2], [4, 4], [6, 6], [8, 8]]
    assert numbers == [3.0] * 4 and call.cache_size == 0


def test_debug_says_once_which_line_breaks_a_call(capsys: pytest.CaptureFixture[str],
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUG", "1")

    @lt.jit
    def call(x: lt.Tensor) -> float:
        return (x * 2).sum().item()  # the line

    line = call.function.__code__.co_firstlineno + 2
    for k in (1.0, 2.0, 3.0):
        call(lt.full((2,), k))
    said = [text for text in capsys.readouterr().out.split("\n") if text.startswith("jit:")]
    assert len(said) == 1 and f"test_jit_breaks.py:{line}" in said[0] and "call" in said[0]


def test_a_call_breaks_in_one_state_and_is_replayed_in_another(
        capsys: pytest.CaptureFixture[str]) -> None:
    class Settings:
        shown = False

    settings_ = Settings()
    traced = []

    @lt.jit
    def call(x: lt.Tensor) -> lt.Tensor:
        if settings_.shown:
            print(x.sum().item())
        return x * 2

    for number in range(9):
        settings_.shown = number % 3 == 2
        assert call(lt.full((2,), float(number))).tolist() == [2.0 * number] * 2
        traced.append(call.cache_size)
    assert capsys.readouterr().out.split() == ["4.0", "10.0", "16.0"]
    assert traced[0] == traced[-1] == 1


def test_gradients_go_on_through_a_break(device: str) -> None:
    w = lt.full((2,), 3.0, device=device, requires_grad=True)

    def slopes(x: lt.Tensor, v: lt.Tensor) -> Any:
        y = x * v * w  # of which nothing is computed yet
        y.register_hook(lambda gradient: gradient * 10)
        (v * 5).sum().backward()
        if y.sum() > 0:
            v.retain_grad()
        (first,) = lt.grad(y.sum(), [v], retain_graph=True)
        (y * y).sum().backward()
        return first, v.grad is not None, v.is_leaf, y

    call = lt.jit(slopes)
    for k in (1.0, 2.0, 3.0):
        found, expected = [], []
        for function, result in ((call, found), (slopes, expected)):
            w.grad = None
            x, v = lt.full((2,), k, device=device), lt.ones(2, device=device, requires_grad=True)
            v.register_hook(lambda gradient: gradient + 1)
            outside = v * 7
            first, *rest, y = function(x, v)
            (outside.sum() + y.sum()).backward()
            assert v.grad is not None and w.grad is not None
            result += [*numbers([first, v.grad, w.grad, y, lt.grad((v * v).sum(), v)[0]]), rest]
        assert found == expected


@pytest.mark.slow
def test_a_model_that_reads_values_trains_as_without_jit() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)])
            self.norms: list[float] = []

        def forward(self, x: lt.Tensor) -> lt.Tensor:
            for layer in self.layers:
                x = nn.functional.dropout(layer(x), 0.1)
                self.norms.append(x.norm().item())
                if self.norms[-1] > 3:
                    x = x[x.sum(1) > 0]
            return x

    def trained(wrap: Callable[[Any], Any]) -> tuple[list[float], list[Any]]:
        lt.manual_seed(0)
        net = Net()
        optimizer = lt.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)

        def step(x: lt.Tensor) -> lt.Tensor:
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        call = wrap(step)
        losses = [call(lt.rand(8, 4) * 3 - 1).item() for _ in range(4)]
        return losses, [losses, net.norms, *numbers(net.state_dict().values())]

    losses, found = trained(lt.jit)
    expected = trained(lambda step: step)
    assert len({*losses}) == 4
    for ours, theirs in zip(found, expected[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_views_of_an_argument_are_its_own_after_a_break() -> None:
    @lt.jit
    def call(x: lt.Tensor) -> float:
        row, flat = x[1], x.flatten()
        total = x.sum().item()
        row.add_(total)
        flat[0] = 7.0
        return total

    for _ in range(3):
        x = lt.ones(2, 2)
        assert call(x) == 4 and x.tolist() == [[7, 1], [5, 5]]


def test_a_jitted_function_after_a_break_is_one_of_its_own() -> None:
    inner = lt.jit(lambda x: x * 3)

    @lt.jit
    def outer(x: lt.Tensor) -> lt.Tensor:
        y = inner(x)
        scale = y.sum().item()
        return inner(y) * scale

    for k in (1.0, 2.0, 3.0):
        assert outer(lt.full((1,), k)).tolist() == [9 * k * 3 * k]
    assert outer.cache_size == 0 and inner.cache_size == 1


def test_an_error_after_a_break_leaves_what_was_done() -> None:
    total, calls = lt.zeros(2), []

    @lt.jit
    def call(x: lt.Tensor) -> None:
        total.add_(x)
        calls.append(x.sum().item())
        raise KeyError("the user's own")

    for _ in range(3):
        with pytest.raises(KeyError):
            call(lt.ones(2))
    assert total.tolist() == [3, 3] and calls == [2, 2, 2]


def test_a_break_keeps_nothing_of_the_call() -> None:
    @lt.jit
    def call(x: lt.Tensor) -> Any:
        return (x * w).sum()  # which has a graph

    w = lt.ones(3, requires_grad=True)
    x = lt.ones(3)
    gone = weakref.ref(x._storage)
    call(x)
    del x
    gc.collect()
    assert gone() is None


def test_a_tensor_made_on_the_way_does_not_share_what_a_replay_writes(device: str) -> None:
    kept: list[lt.Tensor] = []

    @lt.jit
    def begin(x: lt.Tensor) -> lt.Tensor:
        leaf = x.detach().requires_grad_()
        kept.append(leaf)
        return leaf

    grow = lt.jit(lambda x: x.detach().add_(1))
    x = lt.full((64,), 2.0, device=device)
    leaf = begin(x)
    for k in (1, 2, 3):
        grow(leaf)
        assert x.tolist() == [2.0] * 64 and leaf.tolist() == [2.0 + k] * 64
    assert kept[0] is leaf


BROKEN_OFF = """
import gc
import lazyten as lt
lt.jit(lambda x: x * x.sum().item())(lt.ones(2))
gc.callbacks.append(lambda phase, info: len(phase))  # a call, amid the making of a frame
for threshold in range(1, 60):
    gc.set_threshold(threshold, 1, 1)
    for k in range(8):
        lt.jit(lambda x, k=k: x * k + float(x.sum().item()) * k)(lt.ones(3))
"""


@pytest.mark.slow
def test_a_collection_of_garbage_while_a_trace_breaks_off_is_harmless() -> None:
    done = subprocess.run([sys.executable, "-c", BROKEN_OFF], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
