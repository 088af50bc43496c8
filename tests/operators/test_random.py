"""Random numbers: Threefry's known answers, seeds, independence of order and device, moments."""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_values import Array, as_tensor, counted_plans

import lazyten as lt
from lazyten import random as lazyten_random
from lazyten.frontend.tensor import Tensor
from lazyten.random import distributions

# Random123's kat_vectors for threefry2x32 with 20 rounds: counter, key, result.
KNOWN = [((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
         ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
         ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0))]


def test_threefry_gives_the_known_answers(device: str) -> None:
    counters = np.array([row[0] for row in KNOWN], np.uint32).T
    keys = np.array([row[1] for row in KNOWN], np.uint32).T
    words = [as_tensor(w, device).node for w in (*keys, *counters)]
    found = [Tensor._of(n, device) for n in lazyten_random.threefry(*words)]
    lt.realize(*found)
    assert list(zip(*(t.tolist() for t in found), strict=True)) == [row[2] for row in KNOWN]


@pytest.mark.parametrize(("count", "seed", "taken"), [
    (150, 3, 0), (48, 2**40 + 5, 2**32 - 7), (1, -1, 5), (0, 0, 0)])
def test_numbers_worked_out_on_the_host_are_the_devices(
        device: str, count: int, seed: int, taken: int) -> None:
    generators = [lt.Generator(seed) for _ in range(2)]
    for generator in generators:
        generator.go_on(generator.initial_seed(), taken)
    expected = lt.rand(count, generator=generators[0], device=device)
    found = lazyten_random.host_uniform(count, generators[1])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected.numpy())
    assert generators[0].counted() == generators[1].counted()


def draws(device: str) -> list[lt.Tensor]:
    """Numbers of every kind, after a seed."""
    lt.manual_seed(11)
    return [lt.rand(1000, device=device), lt.rand(7, 5, dtype=lt.float64, device=device),
            lt.randint(-5, 300, (64,), device=device), lt.rand(33, dtype=lt.float16, device=device),
            lt.randperm(20, device=device)]


def test_both_devices_draw_the_same_numbers() -> None:
    for here, there in zip(draws("cpu"), draws("interpreter"), strict=True):
        np.testing.assert_array_equal(here.numpy(), there.numpy())
    lt.manual_seed(12)
    here = lt.randn(2000, device="cpu")
    lt.manual_seed(12)
    there = lt.randn(2000, device="interpreter")
    np.testing.assert_allclose(here.numpy(), there.numpy(), rtol=1e-5, atol=1e-6)


def test_the_order_of_computing_changes_no_number(device: str) -> None:
    lt.manual_seed(1)
    a, b = lt.rand(5, device=device), lt.rand(5, device=device)
    first, second = a.tolist(), b.tolist()
    lt.manual_seed(1)
    a, b = lt.rand(5, device=device), lt.rand(5, device=device)
    assert (b.tolist(), a.tolist()) == (second, first)
    lt.manual_seed(1)
    a, b = lt.rand(5, device=device), lt.rand(5, device=device)
    lt.realize(b + a, b, a)
    assert (a.tolist(), b.tolist()) == (first, second)
    assert first != second


def test_seeds_and_generators_are_independent(device: str) -> None:
    one, two = lt.Generator(1), lt.Generator(2)
    a, b = (lt.rand(100, device=device, generator=g).numpy() for g in (one, two))
    assert not np.array_equal(a, b) and abs(np.corrcoef(a, b)[0, 1]) < 0.4
    state = one.get_state()
    c = lt.randn(3, device=device, generator=one).tolist()
    assert c != lt.randn(3, device=device, generator=one).tolist()
    one.set_state(state)
    assert c == lt.randn(3, device=device, generator=one).tolist()
    big = lt.Generator((1 << 64) - 1)
    assert lt.rand(1, generator=big).item() != lt.rand(1, generator=lt.Generator(1)).item()


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64])
def test_numbers_drawn_in_parts_are_those_drawn_at_once(dtype: lt.DType, device: str) -> None:
    """So none comes twice, and none is left out."""
    lt.manual_seed(7)
    parts = [lt.rand(*shape, dtype=dtype, device=device).reshape(-1)
             for shape in ((3,), (1,), (2, 5), (1,))]
    lt.manual_seed(7)
    whole = lt.rand(15, dtype=dtype, device=device)
    assert lt.cat(parts).tolist() == whole.tolist()


def test_large_counters_carry_into_the_high_word(device: str) -> None:
    generator = lt.Generator(5)
    generator.go_on(5, (1 << 32) - 2)
    across = lt.rand(4, device=device, generator=generator).tolist()
    generator.go_on(5, 1 << 32)
    after = lt.rand(2, device=device, generator=generator).tolist()
    assert across[2:] == after and len(set(across)) == 4


def moments(x: lt.Tensor) -> tuple[float, float, Array]:
    values = x.numpy().astype(np.float64)
    return float(values.mean()), float(values.var()), values


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64, lt.float16, lt.bfloat16],
                         ids=lambda d: d.name)
def test_uniform_numbers_have_their_moments_and_limits(dtype: lt.DType, device: str) -> None:
    lt.manual_seed(2)
    mean, variance, values = moments(lt.rand(40_000, dtype=dtype, device=device))
    steps = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype.name, 0.0)
    assert 0 <= values.min() and values.max() < 1
    assert mean == pytest.approx(0.5 - steps / 2, abs=5 / math.sqrt(12 * 40_000))
    assert variance == pytest.approx(1 / 12, rel=0.03)
    counts = np.histogram(values, 10, (0, 1))[0]
    assert np.abs(counts - 4000).max() < 5 * math.sqrt(4000)


@pytest.mark.parametrize("dtype", [lt.float32, lt.float64, lt.float16], ids=lambda d: d.name)
def test_normal_numbers_have_their_moments(dtype: lt.DType, device: str) -> None:
    lt.manual_seed(3)
    mean, variance, values = moments(lt.randn(40_000, dtype=dtype, device=device))
    assert mean == pytest.approx(0, abs=5 / math.sqrt(40_000))
    assert variance == pytest.approx(1, rel=0.04)
    assert (values**3).mean() == pytest.approx(0, abs=0.1)
    assert (values**4).mean() == pytest.approx(3, rel=0.08)
    assert np.isfinite(values).all()
    assert np.mean(np.abs(values) > 1.96) == pytest.approx(0.05, rel=0.1)
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.03


def test_integers_cover_their_range_evenly(device: str) -> None:
    lt.manual_seed(4)
    values = lt.randint(-3, 4, (70_000,), device=device).numpy()
    assert values.dtype == np.int64
    counts = np.bincount(values + 3, minlength=7)
    assert np.abs(counts - 10_000).max() < 5 * 100
    small = lt.randint(0, 256, (500,), dtype=lt.uint8, device=device).numpy()
    assert small.dtype == np.uint8 and small.max() > 240
    truths = lt.randint(0, 2, (200,), dtype=lt.bool_, device=device)
    assert truths.dtype is lt.bool_ and 60 < truths.sum().item() < 140
    wide = lt.randint(-(1 << 63), (1 << 63) - 1, (100,), device=device).numpy()
    assert wide.min() < 0 < wide.max()
    assert sorted(lt.randperm(50, device=device).tolist()) == list(range(50))


@pytest.mark.parametrize("span", [(1 << 32) + 1, 3 << 61, (1 << 64) - 1])
def test_integers_cover_a_wide_range_evenly(span: int, device: str) -> None:
    """64 random bits would give some of them half as often again."""
    lt.manual_seed(8)
    low = -(span // 2)
    values = [int(v) - low for v in lt.randint(low, low + span, (40_000,), device=device).numpy()]
    assert min(values) >= 0 and max(values) < span
    counts = np.bincount([8 * v // span for v in values], minlength=8)
    assert np.all(np.abs(counts - 5000) < 5 * 5000 ** 0.5)
    words = [0, 1, (1 << 32) - 1, (1 << 63) + 12345, (1 << 64) - 1]
    pairs = list(itertools.product(words, repeat=2))
    halves = [as_tensor(np.array(w, np.uint64), device).node for w in zip(*pairs, strict=True)]
    found = Tensor._of(distributions._scaled(*halves, span), device).tolist()
    assert found == [((a << 64) + b) * span >> 128 for a, b in pairs]



def test_in_place_numbers_fill_a_tensor(device: str) -> None:
    lt.manual_seed(5)
    x = lt.zeros(3, 1000, device=device)
    x[0].uniform_(2, 3)
    x[1].normal_(10, 0.1)
    values = x.numpy()
    assert 2 <= values[0].min() and values[0].max() <= 3 and values[0].std() > 0.25
    assert values[1].mean() == pytest.approx(10, abs=0.05) and (values[2] == 0).all()
    assert lt.rand_like(x).shape == lt.randn_like(x).shape == (3, 1000)


@pytest.mark.parametrize("draw", [
    lambda d: lt.rand(10, device=d), lambda d: lt.randn(10, device=d) * 2,
    lambda d: lt.randint(0, 9, (10,), device=d),
    lambda d: lt.nn.functional.dropout(lt.tensor(np.ones(10), device=d), 0.5)])
def test_fresh_numbers_compile_nothing_anew(draw: Callable[[str], Any], device: str) -> None:
    draw(device).realize()
    with counted_plans() as made:
        values = [draw(device).tolist() for _ in range(3)]
        lt.manual_seed(77)
        draw(device).realize()
    assert not made
    assert values[0] != values[1]


@pytest.mark.parametrize(("call", "error"), [
    (lambda: lt.rand(3, dtype=lt.int32), lt.DTypeError), (lambda: lt.randint(3, 3, (2,)),
                                                          lt.ArgumentError),
    (lambda: lt.randint(0, 300, (2,), dtype=lt.int8), lt.ArgumentError),
    (lambda: lt.randint(0, 3, (2,), dtype=lt.bool_), lt.ArgumentError),
    (lambda: lt.manual_seed(1.5), lt.DTypeError), (lambda: lt.manual_seed(1 << 70),
                                                   lt.ArgumentError),
    (lambda: lt.zeros(3, dtype=lt.int32).uniform_(), lt.DTypeError),
    (lambda: lt.rand(-1), lt.ShapeError)])
def test_mistakes_are_explained(call: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        call()


def test_counters_begin_again_after_two_to_the_64() -> None:
    generator = lt.Generator(5)
    expected = lt.rand(4, generator=generator).tolist()
    generator.go_on(5, (1 << 64) - 2)
    assert lt.rand(6, generator=generator).tolist()[2:] == expected
    generator.go_on(5, (1 << 64) - 2)
    assert lazyten_random.host_uniform(6, generator)[2:].tolist() == expected
    lt.rand(1 << 62, generator=generator)  # of which nothing is computed
    for _ in range(4):
        lt.rand(1 << 62, generator=generator)
        again = lt.Generator()
        again.set_state(generator.get_state())
        lazily = lt.rand(2, generator=generator).tolist()
        assert lazyten_random.host_uniform(2, again).tolist() == lazily


def test_a_generator_is_seeded_by_chance_and_copied() -> None:
    generator = lt.Generator(device="cpu")
    assert generator.device == lt.device("cpu") and lt.Generator("interpreter").device.type != "cpu"
    assert generator.seed() == generator.initial_seed() != generator.seed()
    lt.rand(5, generator=generator).realize()
    copied = generator.clone_state()
    assert lt.rand(3, generator=copied).tolist() == lt.rand(3, generator=generator).tolist()
