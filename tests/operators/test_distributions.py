"""The distributions of random numbers, and that they are the same bits wherever they are computed.

Statistical tests are with fixed seeds. Each has a chance of ALPHA to fail for a generator without
a fault, before the seed is chosen; the statistics' own distributions say where that is.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from slow_rows import slow_but
from tensor_values import Array

import lazyten as lt
from lazyten.random import default_generator

ALPHA = 1e-5
COUNT = 20_000
KOLMOGOROV = math.sqrt(math.log(2 / ALPHA) / 2)
"""sqrt(n) times the largest gap between two distribution functions is above this with a chance of
ALPHA (Kolmogorov's limit, its first term)."""
NORMAL = float(mpmath.sqrt(2) * mpmath.erfinv(1 - ALPHA))
"""A standard normal variable is further from 0 than this with a chance of ALPHA."""

Draw = Callable[[int, lt.DType, str], lt.Tensor]


def empty(n: int, dtype: lt.DType, device: str) -> lt.Tensor:
    return lt.empty(n, dtype=dtype, device=device)


def line(n: int, dtype: lt.DType, device: str) -> lt.Tensor:
    return lt.arange(n, dtype=dtype, device=device) / n


CONTINUOUS: dict[str, tuple[Draw, Callable[[float], float]]] = {
    "rand": (lambda n, t, d: lt.rand(n, dtype=t, device=d), lambda x: x),
    "uniform_": (lambda n, t, d: empty(n, t, d).uniform_(-1, 3), lambda x: (x + 1) / 4),
    "randn": (lambda n, t, d: lt.randn(n, dtype=t, device=d),
              lambda x: math.erfc(-x / math.sqrt(2)) / 2),
    "normal": (lambda n, t, d: lt.normal(3, 2, n, dtype=t, device=d),
               lambda x: math.erfc((3 - x) / math.sqrt(8)) / 2),
    "log_normal_": (lambda n, t, d: empty(n, t, d).log_normal_(0.5, 0.7),
                    lambda x: math.erfc((0.5 - math.log(x)) / 0.7 / math.sqrt(2)) / 2),
    "exponential_": (lambda n, t, d: empty(n, t, d).exponential_(2.5),
                     lambda x: -math.expm1(-2.5 * x)),
    "cauchy_": (lambda n, t, d: empty(n, t, d).cauchy_(1, 2),
                lambda x: 0.5 + math.atan((x - 1) / 2) / math.pi),
}

CHANCES = (0.125, 0.0, 0.375, 0.0625, 0.4375)
DISCRETE: dict[str, tuple[Draw, dict[int, float]]] = {
    "randint": (lambda n, t, d: lt.randint(-3, 4, (n,), device=d),
                dict.fromkeys(range(-3, 4), 1 / 7)),
    "random_": (lambda n, t, d: empty(n, t, d).random_(5, 12), dict.fromkeys(range(5, 12), 1 / 7)),
    "random_ of bytes": (lambda n, t, d: empty(n, lt.uint8, d).random_(),
                         dict.fromkeys(range(256), 1 / 256)),
    "bernoulli": (lambda n, t, d: lt.full((n,), 0.3125, dtype=t, device=d).bernoulli(),
                  {0: 0.6875, 1: 0.3125}),
    "bernoulli_": (lambda n, t, d: empty(n, t, d).bernoulli_(0.9), {0: 0.1, 1: 0.9}),
    "geometric_": (lambda n, t, d: empty(n, t, d).geometric_(0.3),
                   {k: 0.3 * 0.7 ** (k - 1) for k in range(1, 60)}),
    "multinomial": (lambda n, t, d: lt.tensor(CHANCES, dtype=t, device=d).multinomial(n, True),
                    dict(enumerate(CHANCES))),
    "one of a row": (lambda n, t, d: lt.tensor(CHANCES, dtype=t, device=d).expand(n, 5).multinomial(
        1).reshape(n), dict(enumerate(CHANCES))),
}
DRAWS: dict[str, Draw] = {name: row[0] for name, row in (*CONTINUOUS.items(), *DISCRETE.items())}
DRAWS["several of a row"] = lambda n, t, d: line(n, t, d).reshape(n // 10, 10).multinomial(4)
DRAWS["several of a long row"] = lambda n, t, d: line(n, t, d).multinomial(n // 2)
DRAWS["normal of tensors"] = lambda n, t, d: lt.normal(line(n, t, d), line(n, t, d) + 1)
DRAWS["randperm"] = lambda n, t, d: lt.randperm(n, device=d)
DRAWS["randint_like"] = lambda n, t, d: lt.randint_like(empty(n, t, d), 100)
DRAWS["dropout"] = lambda n, t, d: lt.nn.functional.dropout(lt.ones(n, dtype=t, device=d), 0.5)


def gap(values: Array, cdf: Callable[[float], float]) -> float:
    """sqrt(n) times Kolmogorov and Smirnov's statistic: the largest gap between the share of values
    up to x and what it should be."""
    expected = np.array([cdf(x) for x in np.sort(values).tolist()])
    n = len(values)
    steps = np.arange(n + 1) / n
    return math.sqrt(n) * max(np.abs(steps[1:] - expected).max(), np.abs(
        steps[:-1] - expected).max())


def chance_of_counts(values: Array, chances: dict[int, float]) -> float:
    """How likely counts are to be this far from what they should be, or further (Pearson's
    chi-square); cells that expect fewer than 10 are one."""
    n = len(values)
    cells = [([k], p) for k, p in chances.items() if p * n >= 10]
    rest = [k for k, p in chances.items() if 0 < p * n < 10]
    if rest:
        cells.append((rest, sum(chances[k] for k in rest)))
    counts = [int(np.isin(values, keys).sum()) for keys, _ in cells]
    assert sum(counts) >= n - 2, "values that should never be drawn"
    square = sum((c - n * p) ** 2 / (n * p) for c, (_, p) in zip(counts, cells, strict=True))
    return float(mpmath.gammainc((len(cells) - 1) / 2, square / 2, mpmath.inf, regularized=True))


@pytest.mark.few(6)
@pytest.mark.parametrize("dtype", [lt.float32, lt.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions_pass_kolmogorov_and_smirnov(name: str, dtype: lt.DType) -> None:
    draw, cdf = CONTINUOUS[name]
    lt.manual_seed(20)
    values = draw(COUNT, dtype, "cpu").numpy().astype(np.float64)
    assert np.isfinite(values).all()
    assert gap(values, cdf) < KOLMOGOROV
    assert gap(values * 1.1, lambda x: min(max(cdf(x), 0), 1)) > KOLMOGOROV  # the test sees 10 %


@pytest.mark.few(8)
@pytest.mark.parametrize("dtype", [lt.float32, lt.float64, lt.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions_pass_the_chi_square_test(name: str, dtype: lt.DType) -> None:
    draw, chances = DISCRETE[name]
    lt.manual_seed(21)
    values = draw(COUNT, dtype, "cpu").to(dtype=lt.int64).numpy()
    assert chance_of_counts(values, chances) > ALPHA


def test_draws_without_replacement_have_the_chances_of_one_after_the_other() -> None:
    lt.manual_seed(22)
    weights = np.array([1.0, 2, 3, 4])
    drawn = lt.tensor(weights).expand(COUNT, 4).multinomial(3).numpy()
    chances = {}
    for order in itertools.permutations(range(4), 3):
        left, chance = weights.sum(), 1.0
        for k in order:
            chance *= weights[k] / left
            left -= weights[k]
        chances[order[0] * 16 + order[1] * 4 + order[2]] = chance
    assert chance_of_counts(drawn @ [16, 4, 1], chances) > ALPHA


def test_all_orders_are_as_likely() -> None:
    lt.manual_seed(23)
    many = lt.func.vmap(lambda x: lt.randperm(4) + x, randomness="different")(
        lt.zeros(COUNT, dtype=lt.int64)).numpy()
    chances = {int(np.dot(order, [64, 16, 4, 1])): 1 / 24
               for order in itertools.permutations(range(4))}
    assert chance_of_counts(many @ [64, 16, 4, 1], chances) > ALPHA


@pytest.mark.parametrize("name", ["rand", "randn", "exponential_"])
def test_draws_are_not_correlated(name: str) -> None:
    """With the next number, with the next draw, and with that of the next seed."""
    draw = DRAWS[name]

    def correlation(a: Array, b: Array) -> float:
        return abs(np.corrcoef(a, b)[0, 1]) * math.sqrt(len(a))

    lt.manual_seed(24)
    first, second = (draw(COUNT, lt.float64, "cpu").numpy() for _ in range(2))
    lt.manual_seed(25)
    other = draw(COUNT, lt.float64, "cpu").numpy()
    assert correlation(first[1:], first[:-1]) < NORMAL
    assert correlation(first, second) < NORMAL
    assert correlation(first, other) < NORMAL
    assert correlation(first**2, second**2) < NORMAL
    assert correlation(first, first + 20 * second) > NORMAL  # the test sees 1/20


def test_normal_numbers_reach_far_out() -> None:
    lt.manual_seed(26)
    values = lt.randn(4_000_000).numpy()
    beyond = int((np.abs(values) > 4.5).sum())
    expected = 4_000_000 * math.erfc(4.5 / math.sqrt(2))
    assert abs(beyond - expected) < NORMAL * math.sqrt(expected)


# ---- the same bits -------------------------------------------------------------------------------

def drawn(device: str, dtype: lt.DType, n: int) -> dict[str, Array]:
    """Every kind of draw, each after a seed."""
    values: dict[str, lt.Tensor] = {}
    for name, draw in DRAWS.items():
        lt.manual_seed(30)
        values[name] = draw(n, dtype, device)
    lt.realize(*values.values())
    return {name: t.numpy() for name, t in values.items()}


@pytest.mark.few(1)
@pytest.mark.parametrize("dtype", slow_but([lt.float32, lt.float64, lt.float16, lt.bfloat16],
                                           lt.float32, lt.float16), ids=lambda d: d.name)
@pytest.mark.parametrize("other", ["interpreter", pytest.param("opencl", marks=pytest.mark.opencl)])
def test_devices_draw_the_same_bits(other: str, dtype: lt.DType) -> None:
    expected, found = (drawn(d, dtype, 1500) for d in ("cpu", other))
    for name, values in expected.items():
        assert values.tobytes() == found[name].tobytes(), name


@pytest.mark.slow
def test_any_number_of_threads_draws_the_same_bits() -> None:
    before = lt.get_num_threads()
    try:
        lt.set_num_threads(1)
        expected = drawn("cpu", lt.float32, 300_000)
        lt.set_num_threads(3)
        found = drawn("cpu", lt.float32, 300_000)
    finally:
        lt.set_num_threads(before)
    for name, values in expected.items():
        assert values.tobytes() == found[name].tobytes(), name


@pytest.mark.few(21)
@pytest.mark.parametrize("name", DRAWS)
def test_numbers_are_fixed_when_they_are_drawn(name: str, device: str) -> None:
    draw = DRAWS[name]
    lt.manual_seed(31)
    one, two = (draw(40, lt.float32, device) for _ in range(2))
    first, second = one.tolist(), two.tolist()
    assert first != second
    lt.manual_seed(31)
    one, two = (draw(40, lt.float32, device) for _ in range(2))
    lt.manual_seed(99)
    assert two.tolist() == second and one.tolist() == first


@pytest.mark.parametrize("name", DRAWS)
def test_each_call_of_a_jitted_function_goes_on_drawing(name: str, device: str) -> None:
    draw = DRAWS[name]
    jitted = lt.jit(lambda: draw(40, lt.float32, device))
    lt.manual_seed(32)
    expected = [draw(40, lt.float32, device).tolist() for _ in range(4)]
    lt.manual_seed(32)
    assert [jitted().tolist() for _ in range(4)] == expected


@pytest.mark.few(7)
@pytest.mark.parametrize("name", DRAWS)
def test_vmap_draws_what_a_loop_draws(name: str) -> None:
    draw = DRAWS[name]
    x = lt.zeros(3, device="cpu")

    def noisy(example: lt.Tensor) -> lt.Tensor:
        return draw(20, lt.float64, "cpu") + example

    with pytest.raises(lt.TransformError, match="randomness='different'"):
        lt.func.vmap(noisy)(x)
    lt.manual_seed(33)
    loop = [noisy(x[0]).tolist() for _ in range(3)]
    lt.manual_seed(33)
    assert lt.func.vmap(noisy, randomness="different")(x).tolist() == loop
    lt.manual_seed(33)
    assert lt.func.vmap(noisy, randomness="same")(x).tolist() == [loop[0]] * 3


# ---- parameters and state ------------------------------------------------------------------------

def test_a_draw_by_a_generator_leaves_the_default_one_alone(device: str) -> None:
    x = lt.full((20,), 0.5, device=device)
    calls: list[Callable[[lt.Generator | None], lt.Tensor]] = [
        lambda g: lt.rand_like(x, generator=g), lambda g: lt.randn_like(x, generator=g),
        lambda g: lt.randint_like(x, 5, 90, generator=g), lambda g: lt.normal(x, x, generator=g),
        lambda g: lt.normal(0, 1, 20, generator=g), lambda g: x.clone().uniform_(generator=g),
        lambda g: x.clone().normal_(generator=g), lambda g: x.clone().log_normal_(generator=g),
        lambda g: x.clone().exponential_(generator=g), lambda g: x.clone().cauchy_(generator=g),
        lambda g: x.clone().geometric_(0.1, generator=g), lambda g: x.bernoulli(generator=g),
        lambda g: x.clone().bernoulli_(x, generator=g), lambda g: x.clone().random_(generator=g),
        lambda g: x.multinomial(5, generator=g), lambda g: x.multinomial(5, True, generator=g),
        lambda g: lt.randperm(20, generator=g), lambda g: lt.randint(90, (20,), generator=g)]
    for call in calls:
        before = default_generator.counted()
        first = call(lt.Generator(40)).tolist()
        assert first == call(lt.Generator(40)).tolist() and default_generator.counted() == before
        lt.manual_seed(40)
        assert first == call(None).tolist()


def test_a_state_is_a_tensor_of_bytes_which_may_be_copied_and_saved() -> None:
    lt.manual_seed(50)
    state = lt.get_rng_state()
    assert (state.dtype, state.shape, str(state.device)) == (lt.uint8, (16,), "cpu")
    first = lt.rand(3).tolist()
    assert not lt.equal(state, lt.get_rng_state())
    lt.set_rng_state(state.cpu().clone())
    assert lt.rand(3).tolist() == first
    own = lt.Generator((1 << 64) - 1)
    lt.rand(3, generator=own)
    again = lt.Generator()
    again.set_state(lt.tensor(own.get_state().tolist(), dtype=lt.uint8))
    assert again.counted() == own.counted() == ((1 << 64) - 1, 3)
    with pytest.raises(lt.DTypeError, match="uint8"):
        own.set_state((1, 2))
    with pytest.raises(lt.ArgumentError, match=r"shape \(16,\), not \(5056,\)"):
        lt.set_rng_state(lt.zeros(5056, dtype=lt.uint8))


def test_states_are_kept_and_restored() -> None:
    assert lt.manual_seed(50) is lt.random.default_generator
    assert lt.initial_seed() == 50 == lt.Generator(50).initial_seed()
    first = lt.rand(3).tolist()
    state = lt.get_rng_state()
    with lt.random.fork_rng():
        second = lt.rand(3).tolist()
        lt.manual_seed(51)
    assert lt.rand(3).tolist() == second != first
    lt.set_rng_state(state)
    assert lt.rand(3).tolist() == second
    with pytest.raises(ZeroDivisionError), lt.random.fork_rng():
        lt.manual_seed(1)
        raise ZeroDivisionError
    assert lt.initial_seed() == 50
    with lt.random.fork_rng(enabled=False):
        assert lt.seed() == lt.initial_seed()
    assert lt.initial_seed() != 50 != lt.seed()
    own = lt.Generator(52)
    with lt.random.fork_rng(generator=own):
        inside = lt.rand(3, generator=own).tolist()
    assert lt.rand(3, generator=own).tolist() == inside


def test_shapes_and_types_are_those_of_what_is_asked_for(device: str) -> None:
    x = lt.zeros(2, 3, dtype=lt.float16, device=device)
    for made in (lt.rand_like(x), lt.randn_like(x), lt.randint_like(x, 4), x.bernoulli(),
                 x.clone().geometric_(0.5), x.clone().cauchy_(), x.clone().random_()):
        assert (made.shape, made.dtype, made.device) == ((2, 3), lt.float16, device)
    assert lt.rand_like(x, dtype=lt.float64).dtype is lt.float64
    assert lt.randint_like(x, 4, dtype=lt.int8).dtype is lt.int8
    assert lt.normal(x, 1.0).dtype is lt.float16
    assert lt.normal(lt.zeros(3, 1), lt.ones(4)).shape == (3, 4)
    assert lt.normal(0.0, lt.zeros(4)).tolist() == [0.0] * 4
    assert lt.zeros(5, dtype=lt.bool_, device=device).bernoulli_(1).tolist() == [True] * 5
    assert lt.zeros(5, dtype=lt.int32, device=device).bernoulli_(0.0).tolist() == [0] * 5
    assert lt.zeros(500, dtype=lt.bool_, device=device).random_().numpy().mean() < 0.7
    weights = lt.ones(4, 3, device=device)
    assert weights.multinomial(2).shape == (4, 2) and weights[0].multinomial(2).shape == (2,)
    assert weights.multinomial(7, True).shape == (4, 7)
    assert weights.multinomial(7, True).dtype is lt.int64
    base = lt.zeros(4, 6, device=device)
    base[::2, 1::3].exponential_()
    assert ((base != 0).sum().item(), (base[::2, 1::3] > 0).all().item()) == (4, True)


@pytest.mark.few(1)
def test_weights_decide_row_by_row(device: str) -> None:
    weights = lt.eye(6, device=device) * 7
    assert weights.multinomial(1).tolist() == [[k] for k in range(6)]
    assert weights.multinomial(9, True).tolist() == [[k] * 9 for k in range(6)]
    for n in (1, 2, 3, 5, 8, 1023, 1025):
        line = lt.ones(n, device=device)
        assert sorted(line.multinomial(n).tolist()) == list(range(n))
        assert set(line.multinomial(50, True).tolist()) <= set(range(n))
    tiny = lt.tensor([1e-30, 1e30, 0.0], dtype=lt.float64, device=device)
    assert set(tiny.multinomial(1000, True).tolist()) == {1}
    for replacement in (True, False):
        assert lt.tensor([-0.0, 1.0], device=device).multinomial(1, replacement).item() == 1


def test_a_parameter_gets_no_gradient() -> None:
    p = lt.full((5,), 0.5, requires_grad=True)
    made = [p.bernoulli(), p.multinomial(2), lt.normal(p, 1.0), lt.zeros(5).bernoulli_(p)]
    assert not any(t.requires_grad for t in made)


BROKEN: dict[str, tuple[Callable[[lt.Tensor], lt.Tensor], list[float], float, str]] = {
    "a negative weight": (lambda p: p.multinomial(1), [1, 2], -1, "weight is below 0"),
    "weights of which one is NaN": (lambda p: p.multinomial(2, True), [1, 2], math.nan, "NaN"),
    "an infinite weight": (lambda p: p.multinomial(2), [1, 2], math.inf, "infinite"),
    "weights that are all 0": (lambda p: p.multinomial(1), [3, 0], 0, "all weights"),
    "a probability below 0": (lambda p: p.bernoulli(), [0, 1], -0.1, "bernoulli: a probability"),
    "a probability above 1": (lambda p: lt.zeros_like(p).bernoulli_(p), [1, 0], 1.5, "above 1"),
    "a probability that is NaN": (lt.bernoulli, [0, 1], math.nan, "NaN"),
    "a rate below 0": (lt.poisson, [0, 4], -1, "poisson: a rate is below 0"),
    "a rate that is NaN": (lt.poisson, [0, 4], math.nan, "poisson: a rate .* NaN"),
    "a deviation below 0": (lambda s: lt.normal(lt.zeros_like(s), s), [0, 2], -1, "std is below 0")}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_distribution_is_told_when_it_is_computed(name: str, device: str) -> None:
    draw, good, wrong, says = BROKEN[name]
    fine = lt.tensor(good, dtype=lt.float32, device=device)
    broken = lt.tensor([wrong, *good[1:]], dtype=lt.float32, device=device)
    drawn = lt.jit(draw)
    for call in (draw, drawn, drawn):
        call(fine).tolist()
        with pytest.raises(lt.ArgumentError, match=says):
            call(broken).tolist()


def test_a_write_of_what_is_no_distribution_is_undone() -> None:
    x = lt.ones(2)
    x.bernoulli_(lt.tensor([0.5, 2.0]))
    with pytest.raises(IndexError, match=r"above 1 .* asked for at .*test_distributions.py"):
        x.tolist()
    assert x.tolist() == [1.0, 1.0]
    with pytest.raises(lt.ArgumentError, match=r"std=-1.0 is below 0"):
        lt.normal(lt.zeros(2), -1.0)


def test_events_are_drawn_in_the_type_of_a_tensor_whose_chance_is_a_number(device: str) -> None:
    drawn = lt.zeros(50, dtype=lt.int64, device=device).bernoulli(0.5)
    assert drawn.dtype is lt.int64 and set(drawn.tolist()) == {0, 1}
    with pytest.raises(lt.DTypeError, match="bernoulli on a tensor of int64"):
        drawn.bernoulli()
