"""lt.memory_stats and what happens when memory is out."""
from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import lazyten as lt
from lazyten.devices.executor import Executor, MemoryStats
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.schedule import tile_fusion
from lazyten.storage.device import executor
from lazyten.support.errors import DeviceError

KIB, MIB = 1 << 10, 1 << 20
HERE = Path(__file__).name


def in_use(device: str = "cpu") -> int:
    gc.collect()
    return lt.memory_stats(device).in_use


# ---- counting ------------------------------------------------------------------------------------

@pytest.mark.few(1)
def test_memory_in_use_grows_and_falls_with_tensors(device: str) -> None:
    before = in_use(device)
    x = lt.ones(1024, device=device).realize()
    assert in_use(device) == before + 4 * KIB
    y = (x + 1).realize()
    assert in_use(device) == before + 8 * KIB
    del x
    assert in_use(device) == before + 4 * KIB
    del y
    assert in_use(device) == before


@pytest.mark.few(2)
@pytest.mark.parametrize("made", [
    lambda device: lt.arange(1024, device=device) * 2 + 1,
    lambda device: lt.ones(32, 32, device=device).cumsum(0).sum(1),
    lambda device: lt.eye(32, device=device).requires_grad_() * 3])
def test_values_of_constants_alone_are_given_back_while_their_plan_is_kept(
        device: str, made: Callable[[str], lt.Tensor]) -> None:
    before = in_use(device)
    x, y = made(device).realize(), made(device)
    assert in_use(device) > before and x.tolist() == y.tolist()
    del x, y
    assert in_use(device) == before


def test_the_peak_stays_until_it_is_reset(device: str) -> None:
    before = in_use(device)
    lt.reset_peak(device)
    assert lt.memory_stats(device).peak == before
    x = lt.ones(1024, device=device).realize()
    del x
    assert in_use(device) == before
    assert lt.memory_stats(device).peak == before + 4 * KIB
    lt.reset_peak(device)
    assert lt.memory_stats(device).peak == before


def test_emptying_the_cache_gives_back_what_was_pooled_and_nothing_else() -> None:
    x = lt.ones(1024, device="cpu").realize()
    y = (x + 1).realize()
    del y
    before = in_use()
    assert lt.memory_stats("cpu").pooled >= 4 * KIB
    lt.empty_cache("cpu")
    assert lt.memory_stats("cpu").pooled == 0
    assert in_use() <= before
    assert_array_equal((x + 1).numpy(), np.full(1024, 2, np.float32))


def test_the_interpreter_keeps_no_memory() -> None:
    (lt.ones(1024, device="interpreter") + 1).realize()
    lt.empty_cache("interpreter")
    assert lt.memory_stats("interpreter").pooled == 0


def test_the_default_device_is_meant_if_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")
    before = lt.memory_stats("interpreter").in_use
    x = lt.ones(1024).realize()
    assert lt.memory_stats() == lt.memory_stats("Interpreter:0")
    assert lt.memory_stats().in_use == before + x.numel() * 4


def test_a_runtime_that_does_not_count_says_so() -> None:
    class Silent(CpuRuntime):
        memory_stats = Executor.memory_stats
        reset_peak = Executor.reset_peak
        empty_cache = Executor.empty_cache
    runtime = Silent()
    with pytest.raises(DeviceError, match="Silent does not count"):
        runtime.memory_stats()
    with pytest.raises(DeviceError, match="Silent does not count"):
        runtime.reset_peak()
    runtime.empty_cache()


def trained(device: str, jit: bool, optimizer: type) -> Callable[[], object]:
    """A training step of a small network, with what it updates."""
    model = lt.nn.Sequential(lt.nn.Linear(8, 16), lt.nn.ReLU(), lt.nn.Linear(16, 4)).to(device)
    steps = optimizer(model.parameters(), lr=0.01)
    x, y = lt.rand(4, 8, device=device).realize(), lt.zeros(4, 4, device=device).realize()

    def step() -> lt.Tensor:
        steps.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        steps.step()
        return loss.detach()

    return lt.jit(step) if jit else step


@pytest.mark.few(1)
@pytest.mark.parametrize("optimizer", [lt.optim.SGD, lt.optim.Adam])
@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_steady_training_takes_no_new_memory(device: str, jit: bool, optimizer: type,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    step = trained(device, jit, optimizer)
    for _ in range(8):
        step()
    taken: list[int] = []
    if device == "cpu":
        pool = executor("cpu").pool  # type: ignore[attr-defined]
        reserve = pool.source.reserve
        monkeypatch.setattr(pool, "source", replace(
            pool.source, reserve=lambda size: (taken.append(size), reserve(size))[1]))
    before = in_use(device)
    lt.reset_peak(device)
    peaks = set()
    for _ in range(5):
        step()
        peaks.add(lt.memory_stats(device).peak)
        assert in_use(device) == before
    assert len(peaks) == 1
    assert taken == []


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("host", ["cpu", "interpreter"])
def test_steady_updates_of_shared_memory_take_no_more_of_it(host: str, jit: bool) -> None:
    array = np.zeros(1024, np.float32)
    x = lt.as_tensor(array, device=host)
    step = lt.jit(lambda x: x.add_(1)) if jit else (lambda x: x.add_(1))
    used = []
    for number in range(8):
        array[0] = 7 * number
        step(x)
        used.append(in_use(host))
    assert len(set(used[4:])) == 1
    assert array[:2].tolist() == [50, 8]


# ---- out of memory -------------------------------------------------------------------------------

def limit_memory(total: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the cpu have so many bytes."""
    runtime = executor("cpu")
    assert isinstance(runtime, CpuRuntime)
    monkeypatch.setattr(runtime.pool, "source", replace(runtime.pool.source, total=lambda _: total))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with 4 MiB more than what is in use now."""
    total = in_use() + 4 * MIB
    lt.empty_cache("cpu")  # what other tests have freed would serve again
    limit_memory(total, monkeypatch)
    yield
    lt.empty_cache("cpu")


def failure(compute: Callable[[], object]) -> str:
    """The message of the DeviceError that a call raises. Keeps no frame, and no memory, alive."""
    try:
        compute()
    except DeviceError as error:
        return str(error)
    raise AssertionError("there was memory enough")


@pytest.mark.usefixtures("small")
def test_a_result_without_memory_names_shape_bytes_kernel_and_line() -> None:
    x = lt.ones(1024, device="cpu").realize()
    before = in_use()
    y = x.reshape(1, 1024).expand(2048, 1024) + 1
    failure(y.realize)  # the plan is made here, and used again below
    line = sys._getframe().f_lineno + 1
    message = failure(lambda: y.realize())
    assert "cannot store float32[2048, 1024], 8,388,608 bytes" in message
    assert f"which kernel map_2048_1024 computes (asked for at {HERE}:{line})" in message
    assert f"tensors hold {before:,} bytes" in message
    assert in_use() <= before


@pytest.mark.usefixtures("small")
def test_a_value_between_kernels_without_memory_is_named() -> None:
    x = lt.rand(2048, 16, device="cpu").realize()
    w = lt.rand(16, 16, device="cpu").realize()
    before = in_use()
    wide = x @ x.T  # 16 MiB, read by two products
    y = (wide @ x) @ w + wide.T @ x
    message = failure(lambda: y.realize())
    assert "cannot store float32[2048, 2048" in message
    assert "16,777,216 bytes, which kernel reduce_2048_2048_16 computes" in message
    assert in_use() <= before


@pytest.mark.usefixtures("small")
def test_the_second_of_two_results_gives_the_first_ones_memory_back() -> None:
    x = lt.ones(1024, device="cpu").realize()
    before = in_use()
    big = x.reshape(1, 1024).expand(640, 1024)  # 2.5 MiB each
    results = big + 1, big * 3
    message = failure(lambda: lt.realize(*results))
    assert "float32[640, 1024]" in message
    assert in_use() <= before
    assert_array_equal(results[0].numpy(), np.full((640, 1024), 2, np.float32))  # one at a time


def two_results(x: lt.Tensor) -> list[lt.Tensor]:
    return [x @ x.T + 1, x @ x.T * 3]


def one_between(x: lt.Tensor) -> list[lt.Tensor]:
    product = x @ x.T
    return [product @ product]


def two_between(x: lt.Tensor) -> list[lt.Tensor]:
    a, b = x @ x.T, x @ (x * 2).T
    return [(a @ b).sum(1) + (a.T @ b.T).sum(1)]


def one_held(x: lt.Tensor) -> list[lt.Tensor]:
    return [((x @ x.T) @ (x @ (x * 2).T)).sum(1)]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("make", [two_results, one_between, two_between, one_held],
                         ids=lambda f: f.__name__)
def test_an_error_that_is_kept_keeps_no_memory(
        make: Callable[[lt.Tensor], list[lt.Tensor]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor("cpu"), "block_bytes", MIB)  # whatever the machine's caches
    monkeypatch.setattr(tile_fusion, "AGAIN", 0.5)  # and though all blocks read a product again
    x = lt.rand(800, 2, device="cpu").realize()
    results = make(x)  # each product takes 2.4 MiB, so one fits
    before = in_use()
    with pytest.raises(DeviceError) as caught:  # which keeps the frames, as an interactive session
        lt.realize(*results)
    assert in_use() <= before
    words = "bytes to work in" if make is one_held else "cannot store float32[800, 800"
    assert words in str(caught.value)


@pytest.mark.usefixtures("small")
def test_what_was_computed_before_stays_and_the_rest_is_computed_once_there_is_room() -> None:
    x = lt.ones(1024, device="cpu").realize()
    large = (x.reshape(1, 1024).expand(512, 1024) * 2).realize()  # 2 MiB
    y = large + 1  # 2 MiB
    z = lt.cat([y, y])  # 4 MiB
    failure(lambda: z.realize())
    assert_array_equal(large.numpy(), np.full((512, 1024), 2, np.float32))
    del large
    y = z = None  # what reads it
    z = x.reshape(1, 1024).expand(768, 1024) + 2
    assert_array_equal(z.numpy(), np.full((768, 1024), 3, np.float32))


@pytest.mark.usefixtures("small")
def test_values_given_without_memory_for_them_are_named() -> None:
    array = np.zeros((2048, 1024), np.float32)
    before = in_use()
    line = sys._getframe().f_lineno + 1
    message = failure(lambda: lt.tensor(array, device="cpu"))
    assert f"cannot store the values given at {HERE}:{line}, float32[2048, 1024]" in message
    assert "8,388,608 bytes" in message
    assert in_use() <= before


@pytest.mark.usefixtures("small")
def test_a_jitted_function_without_memory_says_the_same_and_works_later() -> None:
    jitted = lt.jit(lambda t, rows: t.reshape(1, 1024).expand(rows, 1024) + 1)
    x = lt.ones(1024, device="cpu").realize()
    before = in_use()
    message = failure(lambda: jitted(x, 2048))
    assert "cannot store float32[2048, 1024], 8,388,608 bytes, which kernel map_204" in message
    assert in_use() <= before
    assert_array_equal(jitted(x, 2).numpy(), np.full((2, 1024), 2, np.float32))


def test_memory_that_a_kernel_works_in_is_given_back_if_there_is_not_all_of_it(
        monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = executor("cpu")
    assert isinstance(runtime, CpuRuntime)
    before = in_use()
    lt.empty_cache("cpu")
    limit_memory(before + 2 * MIB, monkeypatch)
    message = failure(lambda: runtime.workspace([MIB, MIB, MIB], "reduce_7"))
    assert "kernel reduce_7 needs 3,145,728 bytes to work in: cpu: cannot allocate" in message
    assert in_use() <= before


def test_the_interpreter_names_what_it_has_no_memory_for() -> None:
    factor = lt.rand(1, device="interpreter").realize()
    before = in_use("interpreter")
    x = lt.ones(1, device="interpreter").expand(1 << 61) + 1
    message = failure(lambda: (x * factor).realize())
    assert f"float32[{1 << 61}]" in message
    assert in_use("interpreter") == before


def test_stats_print_their_names() -> None:
    assert repr(lt.memory_stats("cpu")).startswith(f"{MemoryStats.__name__}(in_use=")
