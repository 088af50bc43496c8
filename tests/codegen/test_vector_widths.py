"""Kernels for vectors of 16, 32 and 64 bytes, and for 16 and 32 of them, give the same results.

LLVM makes this machine's instructions of vectors of any width, so that all run on any machine. The
other tests use the width of the machine's own: `LAZYTEN_TARGET=x86-64-v2 make test` changes it.
"""
from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from c_kernels import leaf
from decided_kernels import kernels_of
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from kernel_checks import Array, check_every_op, check_random_kernels, run_all
from programs import results

import lazyten as lt
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import const, elementwise
from lazyten.ir.ops import Op
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.runtimes.host.processors import PROCESSORS
from lazyten.storage import device
from lazyten.storage.device import executor

UNITS = {f"cpu-{name}": PROCESSORS[name].target
         for name in ("x86-64-v2", "neon", "x86-64-v3", "x86-64-v4")}
UNITS["cpu-gathering"] = replace(UNITS["cpu-x86-64-v4"], gathers=True)
"""Devices of these tests: the cpu with the vectors and registers of a kind of processor."""
on_each = pytest.mark.parametrize("on", UNITS)


def _runtime(name: str) -> type[CpuRuntime]:
    class Named(CpuRuntime):
        def __init__(self, index: int = 0) -> None:
            super().__init__(index, UNITS[name])
    return Named


RUNTIMES = {name: _runtime(name) for name in UNITS}
globals().update(RUNTIMES)  # where device.py looks for them


@pytest.fixture(scope="module", autouse=True)
def known() -> Iterator[None]:
    """Lets `device=` take the names of UNITS."""
    with pytest.MonkeyPatch.context() as patch:
        for name in UNITS:
            patch.setitem(device.BUILT_IN, name, f"{__name__}:{name}")
        yield


@on_each
def test_kernels_are_written_for_the_named_vectors(on: str) -> None:
    runtime, unit = executor(on), UNITS[on]
    made = runtime.generate(kernels_of(lt.rand(1000).realize().exp()))
    assert made[0].loops.startswith(f"vector(i0:{unit.vector_bytes // 4})")


@pytest.mark.few(8)
@on_each
@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.int64, dt.uint8, dt.bool_,
                                   dt.float16], ids=lambda d: d.name)
@given(data=st.data())
@examples(1)
def test_random_kernels_agree_with_the_interpreter(on: str, dtype: DType,
                                                   data: st.DataObject) -> None:
    check_random_kernels(on, dtype, data)


@pytest.mark.few(4)
@on_each
@pytest.mark.parametrize("dtype", [dt.float32, dt.int64, dt.int8, dt.bfloat16],
                         ids=lambda d: d.name)
def test_every_op_gives_the_bits_that_it_gives_on_the_cpu(on: str, dtype: DType) -> None:
    check_every_op(on, dtype)


@cache
def expected() -> list[Array]:
    return results("interpreter")


@pytest.mark.few(1)
@on_each
def test_programs_agree_with_the_interpreter(on: str) -> None:
    for number, (got, wanted) in enumerate(zip(results(on), expected(), strict=True)):
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4, err_msg=str(number))


@on_each
def test_large_products_convolutions_and_reductions_agree_with_numpy(on: str) -> None:
    """Register tiles with masked tails, packed operands, several threads."""
    r = np.random.default_rng(2)
    a, b = (r.normal(size=s).astype(np.float32) for s in ((129, 200), (200, 143)))
    here = [lt.tensor(v, device=on) for v in (a, b)]
    np.testing.assert_allclose((here[0] @ here[1]).numpy(), a @ b, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose((here[1].T @ here[0].T).numpy(), (a @ b).T, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(here[0].sum(0).numpy(), a.sum(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(here[0].amax(1).numpy(), a.max(1))
    np.testing.assert_array_equal(here[0].T.contiguous().numpy(), a.T)


PAIRS = {"uint8 int8": (lt.uint8, lt.int8), "int8": (lt.int8, lt.int8),
         "uint8": (lt.uint8, lt.uint8), "int16": (lt.int16, lt.int16),
         "int8 uint16": (lt.int8, lt.uint16)}


@pytest.mark.few(21)
@on_each
@pytest.mark.parametrize("shape", [(1, 64, 5), (9, 130, 14), (3, 37, 7), (2, 8, 2), (1, 4096, 1)],
                         ids=str)
@pytest.mark.parametrize("types", PAIRS)
def test_sums_of_products_of_narrow_integers_are_exact(types: str, shape: tuple[int, int, int],
                                                       on: str) -> None:
    """Also at the ends of their range: an int32 that overflows goes round."""
    m, k, n = shape
    arrays = []
    for dtype, size in zip(PAIRS[types], ((m, k), (n, k)), strict=True):
        info = np.iinfo(dtype.name)
        drawn = np.random.default_rng(k).integers(info.min, info.max, size, endpoint=True)
        drawn[0] = info.min if info.min else info.max
        arrays.append(drawn.astype(dtype.name))
    a, b = (lt.tensor(x, device=on) for x in arrays)
    found = (a.to(lt.int32) @ b.to(lt.int32).T).numpy()
    np.testing.assert_array_equal(found, arrays[0].astype(np.int32) @ arrays[1].astype(np.int32).T)
    products = a.to(lt.int32).unsqueeze(1) * b.to(lt.int32)
    np.testing.assert_array_equal(products.amax(2).numpy(), (
        arrays[0].astype(np.int32)[:, None] * arrays[1].astype(np.int32)).max(2))


@pytest.mark.parametrize("on", ["cpu-x86-64-v4", "cpu-gathering"])
@pytest.mark.parametrize("dtype", [lt.float32, lt.int64, lt.int8, lt.bool], ids=lambda d: d.name)
def test_places_that_are_read_are_gathered_by_what_is_faster(dtype: DType, on: str) -> None:
    rng = np.random.default_rng(1)
    values, places = rng.integers(-9, 9, (20, 77)), rng.integers(-77, 77, (20, 50))
    x, at = (lt.tensor(v, device=on).realize() for v in (values.astype(dtype.numpy), places))
    found = x.take_along_dim(at, 1)
    *_, made = executor(on).generate(kernels_of(found))
    np.testing.assert_array_equal(found.numpy(), np.take_along_axis(x.numpy(), places % 77, 1))
    assert ("masked.gather" in made.source) == (UNITS[on].gathers and dtype.itemsize >= 4)


@on_each
@pytest.mark.parametrize("dtype", [lt.uint32, lt.int64, lt.uint64], ids=lambda d: d.name)
def test_integers_that_floats_do_not_hold_are_divided_exactly(dtype: DType, on: str) -> None:
    """Beside multiples, where a quotient of floats is nearest to being wrong, and at the ends."""
    least, most = int(dtype.min), int(dtype.max)
    rng = np.random.default_rng(dtype.bits)
    divisors = [1, 2, 3, most // 2, most // 2 + 1, most - 1, most, *(
        int(d) >> int(rng.integers(dtype.bits)) or 7
        for d in rng.integers(1, most, 300, dtype.numpy))]
    quotients = [1, 2, 1 << 32, *(int(q) for q in rng.integers(1, most, 3, dtype.numpy))]
    pairs = [(b * (q % (most // b + 1)) + by, b) for b in divisors for q in (*quotients, most // b)
             for by in (-1, 0, 1, b - 1)]
    pairs += [(most, b) for b in divisors]
    pairs += [(sign * a, other * b) for sign, other in ((-1, 1), (1, -1), (-1, -1))
              for a, b in pairs] if least else []
    pairs += [(least, b) for b in (1, 2, least, most)] + [(least, -1), (5, 0)][:2 if least else 0]
    a, b = (np.array(column, dtype.numpy) for column in zip(*(
        p for p in pairs if least <= p[0] <= most), strict=True))
    x, y = (lt.tensor(v, device=on) for v in (a, b))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((x // y).numpy(), a // b)
        np.testing.assert_array_equal((x % y).numpy(), a % b)
    made = executor(on).generate(kernels_of(x // y))[0].source
    in_floats = dtype is lt.uint32 or UNITS[on].long_integers
    assert bool(re.search(r"\b[us](div|rem) ", made)) == (not in_floats)


@on_each
@pytest.mark.parametrize("dtype", [lt.int64, lt.uint64], ids=lambda d: d.name)
def test_long_integers_are_shifted_where_a_divisor_is_a_power_of_2(dtype: DType, on: str) -> None:
    ends = np.array([int(dtype.min), int(dtype.max)], dtype.numpy)[:, None]
    x = (ends + np.arange(-40, 41).astype(dtype.numpy)).ravel()
    divisors = (3, 8, 1 << 40, *((-3, -8, int(dtype.min)) if dtype.min else (1 << 63,)))
    values = leaf(1, x.shape, dtype)
    kernels = [Kernel("divided", (elementwise(op, values, const(d, dtype, x.shape)),),
                      ((dtype, x.size),)) for op in (Op.IDIV, Op.MOD) for d in divisors]
    found = run_all(on, kernels, [[x]] * len(kernels))
    expected = [f(x, np.array(d, dtype.numpy)) for f in (np.floor_divide, np.remainder)
                for d in divisors]
    np.testing.assert_array_equal([out for out, in found], expected)
    for kernel, d in zip(kernels, divisors * 2, strict=True):
        made = executor(on).generate([kernel])[0].source
        assert ("fdiv" in made) == (UNITS[on].long_integers and abs(d) == 3)


MASKING = [on for on in UNITS if UNITS[on].masked_loads]
TYPES = [lt.float32, lt.int32, lt.float64, lt.int64]


@pytest.mark.parametrize("on", MASKING)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda d: d.name)
@given(data=st.data())
@examples(4)
def test_axes_shorter_than_a_vector_are_one_masked_vector(on: str, dtype: DType,
                                                          data: st.DataObject) -> None:
    """Also where what is read has a mask of its own, is far apart, or depends on what is read."""
    lanes = UNITS[on].vector_bytes // dtype.itemsize
    n = data.draw(st.integers(lanes // 2 + 1, lanes - 1))
    rows, taps = data.draw(st.sampled_from([(5, 3), (12, 40)]))
    rng = np.random.default_rng(n)
    a, b = (rng.integers(-9, 9, size).astype(dtype.name) for size in ((rows, taps), (taps, n)))
    x, y = (lt.tensor(v, device=on) for v in (a, b))
    product = (x @ y).realize()
    np.testing.assert_array_equal(product.numpy(), a @ b)
    np.testing.assert_array_equal((product // y[:1]).numpy(), rounded_down(a @ b, b[:1]))
    np.testing.assert_array_equal(product.T.flip(0).contiguous().numpy(), (a @ b).T[::-1])
    padded = lt.nn.functional.pad(y, (2, 3))
    np.testing.assert_array_equal((x @ padded)[:, 1:n + 1].numpy(),
                                  (a @ np.pad(b, ((0, 0), (2, 3))))[:, 1:n + 1])
    places = rng.integers(0, taps, (4, n))
    np.testing.assert_array_equal(lt.gather(y, 0, lt.tensor(places, device=on)).numpy(),
                                  np.take_along_axis(b, places, 0))


def rounded_down(a: Array, b: Array) -> Array:
    """a // b, of integers 0 where b is."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return a // b


@pytest.mark.parametrize("on", MASKING)
def test_a_mask_is_chosen_where_it_saves_vectors(on: str) -> None:
    """Not for elements that no instruction masks, nor where positions are read."""
    lanes = UNITS[on].vector_bytes // 4
    x, y = lt.rand(64, 90).realize(), lt.rand(90, lanes - 2).realize()
    made = executor(on).generate(kernels_of(x @ y))
    assert f"vector(i1:{lanes})" in made[0].loops
    made = executor(on).generate(kernels_of(x @ y > 20))
    assert f"vector(i1:{lanes})" not in made[0].loops
    places = lt.randint(0, 90, (64, lanes - 2)).realize()
    made = executor(on).generate(kernels_of(lt.gather(y, 0, places) * 2))
    assert f"vector(i1:{lanes})" not in made[0].loops
