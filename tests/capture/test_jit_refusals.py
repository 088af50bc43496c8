"""What a jitted function must not do is refused where it does it, and nothing has changed then."""
from __future__ import annotations

import cProfile
import pstats
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from tensor_values import equal

import lazyten as lt
from lazyten import nn
from lazyten.optim import Adam

outside: list[Any] = []
net = nn.Linear(3, 3)


def branches(x: lt.Tensor) -> lt.Tensor:
    net.weight.zero_()
    lt.rand(4)
    if x.sum() > 0:  # the line
        return x
    return -x


def prints(x: lt.Tensor) -> lt.Tensor:
    print("here")  # the line
    return x


def prints_value(x: lt.Tensor) -> str:
    return f"{x}"  # the line


def draws_python(x: lt.Tensor) -> lt.Tensor:
    return x * random.random()  # the line


def keeps(x: lt.Tensor) -> lt.Tensor:
    outside.append(x * 2)  # the line
    return x


def appends(x: lt.Tensor) -> lt.Tensor:
    outside.append(3)  # the line
    return x


def seeds(x: lt.Tensor) -> lt.Tensor:
    lt.manual_seed(3)  # the line
    return x


@pytest.mark.parametrize("function", [
    branches, prints, prints_value, draws_python, keeps, appends, seeds],
    ids=lambda f: f.__name__)
def test_what_a_replay_would_not_do_is_refused_naming_the_line(
        function: Callable[[lt.Tensor], Any]) -> None:
    code = function.__code__
    with open(code.co_filename, encoding="utf8") as file:
        lines = file.read().split("\n")
    line = next(n for n in range(code.co_firstlineno, len(lines)) if "# the line" in lines[n]) + 1
    weight, x = net.weight.numpy(), lt.ones(3)
    state = lt.manual_seed(1).counted()
    with lt.no_grad(), pytest.raises(lt.JitError, match=rf"(test_jit_refusals\.py:|line ){line}\b"):
        lt.jit(fullgraph=True)(function)(x)
    assert equal(net.weight, weight) and equal(x, [1, 1, 1]) and net.training
    assert lt.manual_seed(1).counted() == state
    outside.clear()


def test_taking_back_a_failed_trace_leaves_generators_gradients_and_optimizers_alone() -> None:
    w = lt.tensor([1.0, 2.0], requires_grad=True)
    optimizer = Adam([w], lr=0.1)
    generator = lt.Generator(3)

    @lt.jit
    def f(fail: bool) -> None:
        (w * lt.rand(2, generator=generator)).sum().backward()
        optimizer.step()
        if fail:
            raise KeyError("the user's own")

    with pytest.raises(KeyError):
        f(True)
    assert w.tolist() == [1, 2] and w.grad is None and generator.counted() == (3, 0)
    assert not optimizer.state[w]
    f(False)
    assert optimizer.state[w]["step"] == 1 and generator.counted() == (3, 2)


def test_results_that_require_gradients_are_refused() -> None:
    with pytest.raises(lt.JitError, match="call backward\\(\\) inside"):
        lt.jit(fullgraph=True)(net)(lt.ones(3))
    x = lt.ones(2, requires_grad=True) * 2
    with pytest.raises(lt.JitError, match="cannot flow out"):
        lt.jit(fullgraph=True)(lambda x: (x * 2).sum().backward())(x)


def test_detached_results_and_new_leaves_are_given() -> None:
    x = lt.tensor([3.0], requires_grad=True)
    f = lt.jit(lambda x: lt.grad((x * x).sum(), x)[0])
    g = lt.jit(lambda x: (x * 2).detach().requires_grad_())
    for _ in range(3):
        assert f(x).tolist() == [6] and not f(x).requires_grad
        leaf = g(lt.ones(1))
        (leaf * 5).sum().backward()
        assert leaf.is_leaf and leaf.grad is not None and leaf.grad.tolist() == [5]


def test_a_profiler_sees_what_is_before_and_after_a_trace() -> None:
    step = lt.jit(lambda x: x * 2)
    profile = cProfile.Profile()
    found = profile.runcall(lambda: [step(lt.ones(2)).tolist() for _ in range(2)])
    assert found == [[2, 2], [2, 2]]
    names = {name for _, _, name in pstats.Stats(profile).stats}  # type: ignore[attr-defined]
    assert {"ones", "tolist"} <= names
    seen: list[str] = []
    sys.setprofile(lambda frame, event, argument: seen.append(event))
    try:
        lt.jit(lambda x: x * 3)(lt.ones(2))
        before = len(seen)
        lt.ones(2)
    finally:
        sys.setprofile(None)
    assert len(seen) > before


FIRST_USE = """
import sys
import lazyten as lt

class Reader:  # as tools do that rewrite modules
    def find_spec(self, name, path, target=None):
        read.append(name)
        open(lt.__file__).close()

read = []
sys.meta_path.insert(0, Reader())
f = lt.jit(lambda x: lt.func.grad(lambda y: (y * y).sum())(x))
assert "lazyten.func" not in read
assert f(lt.full((2,), 3.0)).tolist() == [6, 6] and "lazyten.func" in read
try:
    lt.jit(fullgraph=True)(lambda x: (open(lt.__file__), x)[1])(lt.ones(1))
except lt.JitError as error:
    print(error)
"""


def test_a_jitted_function_may_be_the_first_to_use_a_part_of_lazyten() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_USE], text=True, capture_output=True)
    assert done.stderr == "" and done.stdout.startswith("open() at <string>:16 is inside")


def test_what_lt_grad_gives_may_be_returned_unless_it_has_a_graph(device: str) -> None:
    w = lt.tensor([2.0, 5.0], device=device, requires_grad=True)
    f = lt.jit(lambda x: (lt.grad((x * w * w).sum(), [w]), lt.grad((x * w).sum(), w)[0][::-1]))
    for k in (1.0, 2.0, 3.0):
        (first,), second = f(lt.full((2,), k, device=device))
        assert equal(first, [4 * k, 10 * k]) and equal(second, [k, k])
        assert not first.requires_grad and not second.requires_grad
    with pytest.raises(lt.JitError, match=r"return it detach\(\)ed"):
        lt.jit(fullgraph=True)(lambda x: lt.grad((x * w * w).sum(), w, create_graph=True)[0])(
            lt.ones(2, device=device))


def test_a_detached_argument_may_become_a_leaf_inside(device: str) -> None:
    @lt.jit
    def f(x: lt.Tensor) -> lt.Tensor:
        leaf = x.detach().requires_grad_()
        (leaf * leaf * leaf).sum().backward()
        assert leaf.grad is not None
        return leaf.grad

    for requires_grad in (False, True):
        for k in (1.0, 2.0, 3.0):
            x = lt.full((2,), k, device=device).requires_grad_(requires_grad)
            assert equal(f(x), [3 * k * k] * 2)
            assert x.requires_grad is requires_grad and x.grad is None


@pytest.mark.parametrize("from_outside", ["argument", "closed over"])
def test_a_detached_view_from_outside_must_not_become_a_leaf_inside(from_outside: str) -> None:
    w = lt.ones(2).detach()
    f = lt.jit(fullgraph=True)(
        lambda x: ((x if from_outside == "argument" else w).requires_grad_() * 2).detach())
    with pytest.raises(lt.JitError, match="of a tensor from outside at test_jit_refusals"):
        f(w)
    assert not w.requires_grad


def test_a_tensor_that_is_written_must_not_come_in_by_two_ways() -> None:
    w = lt.zeros(2)
    f = lt.jit(fullgraph=True)(lambda x: w.add_(x))
    f(lt.ones(2))
    with pytest.raises(lt.JitError, match="in two ways"):
        f(w)
    assert equal(w, [1, 1])
    f = lt.jit(lambda x: w.add_(x))
    for x, sum_ in ((lt.ones(2), 2), (w, 4), (lt.ones(2), 5), (w, 10)):
        assert equal(f(x), [sum_, sum_])


def test_check_traces_every_call() -> None:
    values = iter([1, 1, 1, 2])
    f = lt.jit(lambda x: x * next(values), check=True)
    for _ in range(3):
        assert equal(f(lt.ones(2)), [1, 1])
    with pytest.raises(lt.JitError, match="does something else"):
        f(lt.ones(2))


def test_a_changed_list_argument_is_refused() -> None:
    def f(xs: list[lt.Tensor]) -> None:
        xs.append(xs[0] + 1)

    with pytest.raises(lt.JitError, match="changes a list or dict"):
        lt.jit(fullgraph=True)(f)([lt.ones(2)])


def test_copies_between_devices_are_refused_inside() -> None:
    with pytest.raises(lt.JitError, match="copy it outside"):
        lt.jit(fullgraph=True)(lambda x: x.to("interpreter") * 2)(lt.ones(2, device="cpu"))


def test_a_rate_that_makes_no_sense_is_refused_before_anything_changes() -> None:
    w = lt.tensor([1.0], requires_grad=True)
    optimizer = Adam([w], lr=0.1)

    @lt.jit
    def f() -> None:
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()

    for _ in range(3):
        f()
    before = w.item()
    optimizer.param_groups[0]["lr"] = -1.0
    with pytest.raises(lt.ArgumentError, match="lr=-1"):
        f()
    assert optimizer.state[w]["step"] == 3 and w.item() == before
