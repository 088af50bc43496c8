"""Results that take the memory of what they replace: kernels, the planner, and jitted updates."""
from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from decided_kernels import kernels_of
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import lazyten as lt
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import AVX2
from lazyten.ir.kernel import Kernel
from lazyten.schedule.memory import Lifetime, share
from lazyten.storage.device import executor
from lazyten.storage.storage import Buffer
from lazyten.testing import assert_peak_bytes, peak_bytes

MIB = 1 << 20
Array = np.ndarray[Any, Any]


def ints(*shape: int, seed: int = 0) -> lt.Tensor:
    """Small whole numbers in memory, so that all arithmetic is exact."""
    values = np.random.default_rng(seed).integers(-3, 4, shape).astype(np.int32)
    return lt.tensor(values, device="cpu").realize()


# ---- kernels -------------------------------------------------------------------------------------

def pairs(*results: lt.Tensor) -> list[tuple[tuple[int, int], ...]]:
    """What AVX2's kernels of these results may do in place."""
    return [generate(kernel, AVX2).in_place for kernel in kernels_of(*results)]


def test_a_map_may_write_to_each_input_of_its_size() -> None:
    assert pairs(ints(64, 32) * ints(64, 32, seed=1)) == [((0, 1), (0, 2))]
    assert pairs(ints(64, 32) * ints(32)) == [((0, 1),)]
    assert pairs((ints(64, 32) * 2).to(lt.int64)) == [()]


def test_an_array_whose_last_block_overlaps_may_not_be_written_to() -> None:
    assert pairs(ints(4097) * 2) == [()]


@pytest.mark.parametrize("result", [
    lambda x: x.t().contiguous(), lambda x: x + x.flip(0), lambda x: x + x.t(),
    lambda x: x - x.sum(1, keepdim=True), lambda x: x @ x, lambda x: x.cumsum(0),
    lambda x: x[x.argmax(1)], lambda x: lt.nn.functional.pad(x, (0, 0, 1, 0))[:-1] + x])
def test_a_kernel_that_reads_elsewhere_may_not(result: Callable[[lt.Tensor], lt.Tensor]) -> None:
    assert pairs(result(ints(64, 64)))[-1] == ()


def test_a_sum_may_be_added_to_what_was_there() -> None:
    assert pairs(ints(64) + ints(100, 64, seed=1).sum(0, dtype=lt.int32)) == [((0, 1),)]


@pytest.mark.opencl
def test_a_language_of_pointers_that_do_not_alias_has_none() -> None:
    kernel, = kernels_of(ints(64, 32) * 2)
    runtime = executor("opencl")
    program, = runtime.build([kernel])
    assert program.in_place == frozenset()


UNARY: list[Callable[[lt.Tensor], lt.Tensor]] = [
    lambda x: x * 2, lambda x: -x, lambda x: x.flip(0), lambda x: x.t().contiguous().view(x.shape),
    lambda x: x.sum(0, keepdim=True).expand(x.shape), lambda x: x.roll(1, 0),
    lambda x: x.max(1, keepdim=True)[0].expand(x.shape), lambda x: lt.where(x > 0, x, -x)]
BINARY: list[Callable[[lt.Tensor, lt.Tensor], lt.Tensor]] = [
    lambda x, y: x + y, lambda x, y: x * y, lambda x, y: lt.maximum(x, y)]
SHAPES = [(8, 8), (16, 40), (5, 7), (1, 33), (64, 64), (300, 256)]

choices = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 99)), min_size=2,
                   max_size=6)


def expression(values: Sequence[lt.Tensor], chosen: Sequence[tuple[int, int, int]],
               ) -> list[lt.Tensor]:
    """Expressions over `values`, each over those and the ones before."""
    made = list(values)
    for a, b, how in chosen:
        x, y = made[a % len(made)], made[b % len(made)]
        made.append(BINARY[how % 3](UNARY[how % len(UNARY)](x), y) % 7)
    return made[len(values):]


def run(kernel: Kernel, aliased: Sequence[tuple[int, int]], seed: int) -> list[Array]:
    """A kernel's outputs, where the arguments of these pairs are one memory."""
    runtime, rng = executor("cpu"), np.random.default_rng(seed)
    program, = runtime.build([kernel])
    assert program.in_place.issuperset(aliased)
    inputs = [Buffer.from_numpy(rng.integers(0, 9, size).astype(dtype.numpy), dtype, "cpu")
              for dtype, size in kernel.inputs]
    outputs = [Buffer("cpu", o.dtype, o.numel) for o in kernel.outputs]
    for output, given_to in aliased:
        outputs[output] = inputs[given_to - len(outputs)]
    program.launch([b.handle for b in (*outputs, *inputs)])
    return [b.numpy().view(o.dtype.numpy) for b, o in zip(outputs, kernel.outputs, strict=True)]


@pytest.mark.slow
@given(st.sampled_from(SHAPES), choices, st.integers(0, 99))
@settings(deadline=None)
def test_kernels_give_the_same_in_place(shape: tuple[int, int],
                                        chosen: list[tuple[int, int, int]], seed: int) -> None:
    results = expression([ints(*shape, seed=n) for n in range(3)], chosen)
    for kernel in kernels_of(*results[-2:]):
        program, = executor("cpu").build([kernel])
        expected = run(kernel, [], seed)
        together: dict[int, int] = {}
        for output, read in sorted(program.in_place):
            assert_all_equal(run(kernel, [(output, read)], seed), expected)
            if output not in together and read not in together.values():
                together[output] = read
        assert_all_equal(run(kernel, list(together.items()), seed), expected)


def assert_all_equal(found: Sequence[Array], expected: Sequence[Array]) -> None:
    for a, b in zip(found, expected, strict=True):
        assert_array_equal(a, b)


# ---- the planner ---------------------------------------------------------------------------------

def test_an_array_may_have_the_memory_of_the_one_it_replaces() -> None:
    chain = [Lifetime(100, 0, 1), Lifetime(100, 1, 2), Lifetime(100, 2, 3)]
    assert share(chain)[1] == [100, 100]
    assert share(chain, (), [(1, 0)])[1] == [100, 100]
    assert share(chain, (), [(1, 0), (2, 1)]) == ([0, 0, 0], [100])
    assert share(chain[1:], chain[:1], [(1, 0), (2, 1)]) == ([0, 0], [100])


# ---- jitted functions ----------------------------------------------------------------------------

@pytest.mark.slow
@given(st.sampled_from(SHAPES), choices, st.lists(st.integers(0, 9), min_size=3, max_size=3),
       st.booleans())
@settings(deadline=None)
def test_updates_in_place_give_what_they_give_without_jit(
        shape: tuple[int, int], chosen: list[tuple[int, int, int]], into: list[int],
        snapshot: bool) -> None:
    def step(values: list[lt.Tensor], x: lt.Tensor) -> list[lt.Tensor]:
        results = expression([*values, x], chosen)
        for value, number in zip(values, into, strict=True):
            if number < 7:
                value.copy_(results[number % len(results)])
        return results[-2:]

    jitted, states = lt.jit(step), []
    for _ in range(2):
        states.append([ints(*shape, seed=n) for n in range(3)])
    for call in range(4):
        x = ints(*shape, seed=call + 9)
        before = [v.clone() for v in states[1]] if snapshot else []
        wanted = [v.numpy() for v in states[1]]
        expected, found = step(states[0], x), jitted(states[1], x)
        for a, b in zip([*expected, *states[0]], [*found, *states[1]], strict=True):
            assert_array_equal(a.numpy(), b.numpy())
        for then, value in zip(before, wanted, strict=False):
            assert_array_equal(then.numpy(), value)


def descent(size: int = 256) -> tuple[lt.Tensor, Callable[[lt.Tensor], lt.Tensor]]:
    """A parameter, and a jitted function that subtracts from it and gives its sum before."""
    p = ints(size, size)

    @lt.jit
    def step(gradient: lt.Tensor) -> lt.Tensor:
        total = p.sum()
        p.sub_(gradient * 2)
        return total
    return p, step


def test_a_tensor_that_a_jitted_function_changes_stays_where_it_is() -> None:
    p, step = descent()
    g, start, address = ints(256, 256, seed=1), p.numpy(), p.data_ptr()
    for call in range(4):
        assert step(g).item() == (start - 2 * call * g.numpy()).sum()
        assert p.data_ptr() == address
    assert_array_equal(p.numpy(), start - 8 * g.numpy())


def test_updates_take_no_memory() -> None:
    p, step = descent(512)  # 1 MiB
    g = ints(512, 512, seed=1)
    before = peak_bytes(lambda: step(g), "cpu")
    assert before < MIB // 8
    for _ in range(3):
        assert_peak_bytes(lambda: step(g), 1024, "cpu")
    assert p.sum().item() == (ints(512, 512).numpy() - 8 * g.numpy()).sum()


def test_a_training_step_needs_the_memory_of_its_gradients_only() -> None:
    net = lt.nn.Linear(512, 512, bias=False).to("cpu")  # 1 MiB
    optimizer = lt.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x = lt.rand(4, 512, device="cpu").realize()

    @lt.jit
    def step() -> lt.Tensor:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    losses = [step().item() for _ in range(3)]
    assert losses[2] < losses[0]
    gc.collect()
    assert peak_bytes(lambda: step(), "cpu") <= 1024


def recorded(p: lt.Tensor) -> Callable[[], Array]:
    copy = p.clone()
    return copy.numpy


def another_result(p: lt.Tensor) -> Callable[[], Array]:
    result = lt.jit(lambda t: [t + 0, t.reshape(-1)])(p)[0]
    return result.numpy


@pytest.mark.parametrize("keep", [recorded, another_result],
                         ids=lambda f: f.__name__)
def test_a_value_that_somebody_else_sees_is_not_written_to(
        keep: Callable[[lt.Tensor], Callable[[], Array]]) -> None:
    p, step = descent()
    g = ints(256, 256, seed=1)
    for _ in range(3):
        before = p.numpy()
        kept = keep(p)
        step(g)
        assert_array_equal(kept(), before)
        assert_array_equal(p.numpy(), before - 2 * g.numpy())


def test_every_view_sees_an_update_in_place() -> None:
    p, step = descent()
    row, g = p[3], ints(256, 256, seed=1)
    step(g)
    assert_array_equal(row.numpy(), p.numpy()[3])


def test_a_value_that_is_read_after_its_update_was_computed_is_the_old_one() -> None:
    p, q = ints(64, 64), ints(64, 64, seed=1)

    @lt.jit
    def step() -> lt.Tensor:
        old = p.clone()
        p.add_(q)
        q.copy_(old.t() - q)
        return (old @ p).sum(0)

    a, b = p.numpy(), q.numpy()
    for _ in range(4):
        found = step().numpy()
        a, b, old = a + b, a.T - b, a
        assert_array_equal(found, (old @ a).sum(0))
        assert_array_equal(p.numpy(), a)
        assert_array_equal(q.numpy(), b)


def test_values_that_change_places_are_right() -> None:
    p, q = ints(64, 64), ints(64, 64, seed=1)
    a, b = p.numpy(), q.numpy()

    @lt.jit
    def swap() -> None:
        old = p.clone()
        p.copy_(q)
        q.copy_(old)

    for _ in range(5):
        swap()
        a, b = b, a
        assert_array_equal(p.numpy(), a)
        assert_array_equal(q.numpy(), b)


def test_an_index_outside_leaves_what_would_be_updated_as_it_was() -> None:
    p = ints(256, 256)

    @lt.jit
    def step(index: lt.Tensor) -> lt.Tensor:
        p.mul_(2)
        return p[index].sum(1)

    start, address = p.numpy(), p.data_ptr()
    for call in range(3):
        index = lt.tensor([1, 5, call], device="cpu")
        assert_array_equal(step(index).numpy(), p.numpy()[index.numpy()].sum(1))
        with pytest.raises(lt.IndexingError, match="index 256 is outside"):
            step(lt.tensor([1, 256, call], device="cpu"))
        assert_array_equal(p.numpy(), start * 2 ** (call + 1))
    assert p.data_ptr() == address


def test_a_missing_memory_leaves_what_would_be_updated_as_it_was(
        monkeypatch: pytest.MonkeyPatch) -> None:
    p, step = descent()
    g, before = ints(256, 256, seed=1), p.numpy()

    def refuse(nbytes: int) -> int:
        raise lt.DeviceError("no memory")
    with monkeypatch.context() as patch:
        patch.setattr(executor("cpu"), "alloc", refuse)
        with pytest.raises(lt.DeviceError, match="no memory"):
            step(g)
    assert_array_equal(p.numpy(), before)
    step(g)
    assert_array_equal(p.numpy(), before - 2 * g.numpy())


@pytest.mark.parametrize("threads", [1, 2])
def test_large_updates_are_the_same_on_any_number_of_threads(threads: int) -> None:
    before = lt.get_num_threads()
    p, step = descent(1024)
    g, start = ints(1024, 1024, seed=1), p.numpy()
    lt.set_num_threads(threads)
    try:
        for _ in range(3):
            step(g)
    finally:
        lt.set_num_threads(before)
    assert_array_equal(p.numpy(), start - 6 * g.numpy())
