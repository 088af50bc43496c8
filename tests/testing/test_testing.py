"""lt.testing: what a program's own tests can assert about kernels and memory."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lazyten as lt
from lazyten.support import observers
from lazyten.support.errors import ArgumentError, DeviceError, JitError
from lazyten.testing import (
    assert_kernels,
    assert_peak_bytes,
    count_kernels,
    peak_bytes,
    watch_kernels,
    watch_memory,
)

KIB = 1 << 10


def values(device: str, *shape: int) -> lt.Tensor:
    x = lt.rand(*shape, device=device)
    lt.realize(x)
    return x


# ---- kernels -------------------------------------------------------------------------------------

def test_kernels_of_what_a_function_gives_are_counted(device: str) -> None:
    x = values(device, 8, 8)
    assert count_kernels(lambda: x) == 0
    assert count_kernels(lambda: (x * 2 + 1).relu()) == 1
    assert count_kernels(lambda: (x @ x) @ x) == 2
    assert count_kernels(lambda: {"a": x + 1, "b": [x * 2, (x.sum(), 3)]}) == 2


def test_what_a_function_computes_itself_is_counted_too(device: str) -> None:
    x = values(device, 8, 8)

    def fn() -> float:
        y = (x + 1).realize()
        return y.sum().item()
    assert count_kernels(fn) == 2
    assert count_kernels(fn) == 2  # the same kernels again, from the plan cache


def test_every_launch_of_a_plan_that_is_joined_after_some_runs_is_counted(device: str) -> None:
    x = values(device, 8, 8)
    assert [count_kernels(lambda: (x @ x) @ x) for _ in range(8)] == [2] * 8


def test_inputs_that_are_not_computed_yet_are_counted(device: str) -> None:
    x = values(device, 8, 8)
    y = x @ x
    assert count_kernels(lambda: y @ x) == 2
    assert count_kernels(lambda: y @ x + 1) == 2  # y was between the kernels, and is not kept
    lt.realize(y)
    assert count_kernels(lambda: y @ x + 2) == 1


def test_a_copy_to_another_device_counts_the_kernels_of_both() -> None:
    x = values("cpu", 4)
    with watch_kernels() as kernels:
        ((x + 1).to("interpreter") * 2).realize()
    assert len(kernels) == 2
    assert [device for device, _ in kernels.schedules] == ["cpu", "interpreter"]


def test_a_jitted_function_launches_the_same_kernels_at_every_call(device: str) -> None:
    x = values(device, 8, 8)
    jitted = lt.jit(lambda t: (t @ t) @ t)
    assert [count_kernels(lambda: jitted(x)) for _ in range(4)] == [2] * 4


def test_debug_output_does_not_change_the_count(device: str, monkeypatch: pytest.MonkeyPatch,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    x = values(device, 8, 8)
    jitted = lt.jit(lambda t: (t @ t) @ t)
    jitted(x)
    monkeypatch.setenv("DEBUG", "2")
    assert count_kernels(lambda: jitted(x)) == count_kernels(lambda: (x @ x) @ x) == 2
    assert capsys.readouterr().out.count("schedule on") == 2


def test_the_right_number_passes_and_gives_the_result(device: str) -> None:
    x = values(device, 8, 8)
    result = assert_kernels(lambda: (x + 1, "name"), 1)
    assert result[1] == "name"
    assert count_kernels(lambda: result[0]) == 0


@pytest.mark.parametrize("n", [1, 3])
def test_another_number_fails_and_shows_why_each_kernel_ran(n: int, device: str) -> None:
    x = values(device, 8, 8)
    with pytest.raises(AssertionError) as caught:
        assert_kernels(lambda: (x @ x) @ x, n)
    text = str(caught.value)
    assert f"{n} kernel{'s' if n > 1 else ''} expected, but 2 ran" in text
    assert f"schedule 0 on {device}:" in text
    assert "0: reduce_8_8_8 stores float32[8, 8, 1], 256 bytes: read" in text
    assert "2 kernels; intermediate values take 256 bytes" in text


def test_the_explanation_is_that_of_explain(device: str) -> None:
    x = values(device, 9, 9)
    y = (x @ x).softmax(1)
    with watch_kernels() as kernels:
        told = lt.explain(y); y.realize()  # noqa: E702  # each names the line that asks
    assert kernels.explain() == f"schedule 0 on {device}:\n{told}"


def test_a_result_that_another_one_reads_is_computed_and_stored_once(device: str) -> None:
    x, w = values(device, 6, 6), values(device, 6, 6)

    def fn() -> list[lt.Tensor]:
        y = x @ w
        return [y, y @ w, (x @ w).reshape(4, 9), (x @ w).reshape(36)]  # no views of y
    jitted = lt.jit(fn)
    right = x.numpy() @ w.numpy()
    for _ in range(8):
        for y, z, *others in (assert_kernels(fn, 2), assert_kernels(jitted, 2)):
            np.testing.assert_allclose(y.numpy(), right, rtol=1e-5)
            np.testing.assert_allclose(z.numpy(), right @ w.numpy(), rtol=1e-5)
            for other in others:
                assert (other.numpy().ravel() == y.numpy().ravel()).all()
            y.add_(1.0)  # the others stay what they are
            assert (y.numpy().ravel() != others[0].numpy().ravel()).all()


def test_results_that_differ_in_shape_alone_take_one_kernel(device: str) -> None:
    x = values(device, 6, 6)
    a, b = assert_kernels(lambda: [(x * 2 + 1).reshape(36), (x * 2 + 1).reshape(3, 12)], 1)
    np.testing.assert_array_equal(a.numpy().reshape(3, 12), b.numpy())
    assert count_kernels(lambda: (a, b)) == 0


def test_no_kernels_are_explained_too() -> None:
    with pytest.raises(AssertionError, match="1 kernel expected, but 0 ran:\nno kernel"):
        assert_kernels(lambda: None, 1)


def test_watching_ends_with_its_block_even_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        count_kernels(lambda: 1 / 0)
    assert observers.nobody()


def test_blocks_inside_one_another_each_count(device: str) -> None:
    x = values(device, 8)
    with watch_kernels() as outer:
        (x + 1).realize()
        with watch_kernels() as inner:
            (x * 2).realize()
    assert (len(outer), len(inner)) == (2, 1)


# ---- memory --------------------------------------------------------------------------------------

@pytest.mark.few(1)
def test_the_peak_is_that_of_results_and_what_is_between_kernels(device: str) -> None:
    x = values(device, 64, 64)  # 16 KiB
    assert peak_bytes(lambda: x, device) == 0
    assert peak_bytes(lambda: x + 1, device) == 16 * KIB
    assert peak_bytes(lambda: (x @ x) @ x, device) >= 32 * KIB


@pytest.mark.few(1)
def test_values_between_kernels_live_in_memory_of_results_that_are_not_written_yet(
        device: str) -> None:
    x = values(device, 64, 64)
    y = x
    for _ in range(7):
        y = y @ x
    right = y.numpy()

    def fn() -> lt.Tensor:
        z = x
        for _ in range(7):
            z = z @ x
        return z
    for _ in range(8):  # the program has memory of its own after some
        assert peak_bytes(fn, device) in (0, 32 * KIB)  # without sharing 112 KiB
        assert (fn().numpy() == right).all()
    jitted = lt.jit(fn)
    for _ in range(4):
        assert (jitted().numpy() == right).all()


def test_memory_that_is_freed_meanwhile_counts_at_the_peak_only(device: str) -> None:
    x = values(device, 64, 64)

    def fn() -> lt.Tensor:
        for function in (lt.sin, lt.exp, lt.cos, lt.abs, lt.sqrt):  # each program once
            function(x).realize()
        return x + 1
    assert peak_bytes(fn, device) == 16 * KIB


def test_memory_that_was_in_use_before_does_not_count(device: str) -> None:
    kept = [values(device, 64, 64) for _ in range(3)]
    assert peak_bytes(lambda: kept[0] + kept[1], device) == 16 * KIB


def test_too_high_a_peak_fails_with_what_ran(device: str) -> None:
    x = values(device, 64, 64)
    assert assert_peak_bytes(lambda: x + 1, 16 * KIB, device).shape == (64, 64)
    with pytest.raises(AssertionError, match=r"(?s)at most 16,383 bytes .* 16,384 were in use"
                                             r".*map_64_64 stores float32\[64, 64\]"):
        assert_peak_bytes(lambda: x + 1, 16 * KIB - 1, device)


def test_a_jitted_function_takes_its_memory_once(device: str) -> None:
    x = values(device, 64, 64)
    jitted = lt.jit(lambda t: t * 2)
    assert peak_bytes(lambda: jitted(x), device) == 16 * KIB
    assert peak_bytes(lambda: jitted(x), device) == 0


def test_watching_leaves_the_peak_of_the_program_as_it_was(device: str) -> None:
    lt.reset_peak(device)
    x = values(device, 512, 512)
    high = lt.memory_stats(device).peak
    del x
    y = values(device, 64, 64)
    assert peak_bytes(lambda: y + 1, device) == 16 * KIB
    assert lt.memory_stats(device).peak == high


def test_memory_blocks_inside_one_another_each_see_their_own_peak(device: str) -> None:
    x = values(device, 64, 64)
    with watch_memory(device) as outer:
        a = (x + 1).realize()
        with watch_memory(device) as inner:
            (x + 2).realize()
        del a
    assert (outer.bytes, inner.bytes) == (32 * KIB, 16 * KIB)


# ---- mistakes ------------------------------------------------------------------------------------

@pytest.mark.parametrize("check", [assert_kernels, assert_peak_bytes])
@pytest.mark.parametrize("n", [-1, 1.5, "1", None, True])
def test_a_number_that_is_none_is_refused(check: Callable[..., object], n: object) -> None:
    with pytest.raises(ArgumentError, match=check.__name__):
        check(lambda: None, n)


def test_a_tensor_in_place_of_a_function_is_refused() -> None:
    with pytest.raises(ArgumentError, match="not Tensor"):
        count_kernels(lt.zeros(2))  # type: ignore[arg-type]


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(DeviceError, match="no device 'toaster'"):
        peak_bytes(lambda: None, "toaster")


def test_counting_inside_a_jitted_function_is_refused() -> None:
    @lt.jit(fullgraph=True)
    def step(x: lt.Tensor) -> lt.Tensor:
        assert_kernels(lambda: x + 1, 1)
        return x
    with pytest.raises(JitError, match="around the call"):
        step(lt.ones(3))
