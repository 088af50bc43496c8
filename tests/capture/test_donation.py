"""lt.jit(donate=...): results take the memory of arguments, which nobody can use afterwards."""
from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from c_kernels import leaf
from numpy.testing import assert_array_equal

import lazyten as lt
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import AVX2
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import cast
from lazyten.testing import assert_peak_bytes

KIB = 1 << 10
GONE = r"shape \(.*\) was donated to jitted function .*, so it has no value any more"


def ones(*shape: int, device: str = "cpu") -> lt.Tensor:
    return lt.ones(*shape, device=device).realize()


def twice(x: lt.Tensor) -> lt.Tensor:
    return x * 2


# ---- what it saves -------------------------------------------------------------------------------

def test_a_result_has_the_memory_of_the_donated_argument() -> None:
    step = lt.jit(twice, donate="x")
    x = ones(64, 64)
    address = x.data_ptr()
    for _ in range(4):
        x = step(x)
        assert x.data_ptr() == address
    assert_array_equal(x.numpy(), np.full((64, 64), 16, np.float32))


def test_steps_of_a_donated_state_take_no_memory() -> None:
    @lt.jit(donate="state")
    def step(state: dict[str, lt.Tensor], x: lt.Tensor) -> dict[str, lt.Tensor]:
        return {"mean": state["mean"] * 0.5 + x * 0.5, "count": state["count"] + 1}

    state = {"mean": ones(64, 64), "count": ones(8)}
    x = ones(64, 64)
    state = step(state, x)
    for _ in range(3):
        state = assert_peak_bytes(lambda state=state: step(state, x), 0, "cpu")
    assert state["count"].numpy().tolist() == [5] * 8


def test_an_argument_that_is_not_donated_keeps_its_value() -> None:
    step = lt.jit(lambda x, y: x + y, donate="x")
    y = ones(64)
    assert_array_equal(step(ones(64), y).numpy(), np.full(64, 2, np.float32))
    assert_array_equal(y.numpy(), np.ones(64, np.float32))


def test_memory_of_a_donated_argument_that_no_result_fits_is_free_afterwards() -> None:
    total = lt.jit(lambda x: x.sum(), donate=0)
    total(ones(64, 64))
    x = ones(64, 64)
    gc.collect()
    before = lt.memory_stats("cpu").in_use
    result = total(x)
    assert lt.memory_stats("cpu").in_use <= before - 16 * KIB + KIB
    assert result.item() == 4096


def test_a_result_that_reads_elsewhere_than_it_writes_is_right() -> None:
    step = lt.jit(lambda x, y: (x.t() + x, x.cumsum(0), y @ x), donate=("x", "y"))
    a, b = np.arange(4096.0).reshape(64, 64).astype(np.float32), np.eye(64, dtype=np.float32)
    for _ in range(3):
        found = step(lt.tensor(a, device="cpu"), lt.tensor(b, device="cpu"))
        for have, want in zip(found, (a.T + a, a.cumsum(0), a), strict=True):
            assert_array_equal(have.numpy(), want)


@pytest.mark.parametrize("size", [256, 1 << 16])
def test_a_tensor_keeps_its_value_where_an_index_fails_in_the_same_launch(size: int) -> None:
    x, table = ones(size), lt.arange(4.0, device="cpu").realize()

    @lt.jit
    def step(x: lt.Tensor, rows: lt.Tensor) -> lt.Tensor:
        x.mul_(2)
        return table[rows]

    good, bad = (lt.tensor(rows, device="cpu").realize() for rows in ([1, 2], [1, 9]))
    for expected in (2, 4):
        assert step(x, good).tolist() == [1, 2]
        with pytest.raises(lt.IndexingError):
            step(x, bad)
        assert_array_equal(x.numpy(), np.full(size, expected, np.float32))


@pytest.mark.parametrize("source", dt.ARITHMETIC, ids=lambda d: d.name)
def test_a_kernel_replaces_only_elements_of_the_size_of_its_own(source: dt.DType) -> None:
    """Others would be written over before they are read."""
    for target in dt.ARITHMETIC:
        kernel = Kernel("cast", (cast(leaf(1, (256,), source), target),), ((source, 256),))
        alike = target.itemsize == source.itemsize
        assert generate(kernel, AVX2).in_place == (((0, 1),) if alike else ())


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("donated", [False, True])
def test_a_value_that_is_read_again_later_is_not_replaced_before(donated: bool,
                                                                 rounds: int) -> None:
    """What reads it again needs the value that would replace it, so neither can come first."""
    def doubled(x: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        new = (x * 2).contiguous()
        return new, (new.flip(0) + x).contiguous()

    def update(x: lt.Tensor) -> lt.Tensor:
        new, both = doubled(x)
        x.copy_(new)
        return both

    values = np.arange(512, dtype=np.float32).reshape(32, 16)  # whole vectors
    x = lt.tensor(values, device="cpu").realize()
    step = lt.jit(doubled, donate="x") if donated else lt.jit(update)
    for _ in range(rounds):
        x, both = step(x) if donated else (x, step(x))
        assert_array_equal(both.numpy(), (2 * values)[::-1] + values)
        values = 2 * values
        assert_array_equal(x.numpy(), values)


# ---- how arguments are named ---------------------------------------------------------------------

@pytest.mark.parametrize("donate", ["x", 0, ("x",), [0], ("x", 0)])
@pytest.mark.parametrize("call", [lambda f, x: f(x, 3), lambda f, x: f(x=x, k=3)],
                         ids=["position", "keyword"])
def test_an_argument_is_donated_however_it_is_given(donate: Any,
                                                    call: Callable[..., lt.Tensor]) -> None:
    step = lt.jit(lambda x, k: x * k, donate=donate)
    x = ones(64)
    address = x.data_ptr()
    assert call(step, x).data_ptr() == address
    with pytest.raises(lt.JitError, match=GONE):
        x.numpy()


def test_self_of_a_method_is_argument_number_0() -> None:
    class Model:
        @lt.jit(donate=1)
        def step(self, x: lt.Tensor) -> lt.Tensor:
            return x * 2

    x = ones(64)
    Model().step(x)
    with pytest.raises(lt.JitError, match=GONE):
        x.numpy()


def test_arguments_that_have_no_names_of_their_own_can_be_donated() -> None:
    step = lt.jit(lambda *args, **options: args[0] + args[1] + options["z"], donate=(1, "z"))
    x, y, z = ones(64), ones(64), ones(64)
    step(x, y, z=z)
    assert x.sum().item() == 64
    for gone in (y, z):
        with pytest.raises(lt.JitError, match=GONE):
            gone.numpy()


@pytest.mark.parametrize("donate", ["y", 1, -1, True, 0.5, ("x", None)])
def test_what_is_no_argument_is_refused(donate: Any) -> None:
    with pytest.raises((lt.ArgumentError, TypeError)):
        lt.jit(twice, donate=donate)


# ---- afterwards ----------------------------------------------------------------------------------

USES: list[Callable[[lt.Tensor], object]] = [
    lambda x: x.numpy(), lambda x: x.sum().item(), lambda x: (x + 1).realize(),
    lambda x: x[0].numpy(), lambda x: lt.jit(lambda t: t + 1)(x),
    lambda x: x.to("interpreter").numpy(), lambda x: x.add_(1).numpy(), str]


@pytest.mark.parametrize("use", USES)
def test_using_a_donated_tensor_is_an_error(use: Callable[[lt.Tensor], object],
                                            device: str) -> None:
    check_is_gone(use, device)


@pytest.mark.parametrize("use", [lambda x: x.data_ptr(), np.from_dlpack])
def test_a_donated_tensor_has_no_address(use: Callable[[lt.Tensor], object]) -> None:
    check_is_gone(use, "cpu")


def check_is_gone(use: Callable[[lt.Tensor], object], device: str) -> None:
    x = ones(64, 64, device=device)
    lt.jit(twice, donate="x")(x)
    with pytest.raises(lt.JitError, match=GONE):
        use(x)


def test_donating_a_tensor_again_is_an_error_before_anything_is_done() -> None:
    count = ones(3)

    @lt.jit(donate="x")
    def step(x: lt.Tensor) -> lt.Tensor:
        count.add_(1)
        return x * 2

    x = ones(64)
    step(x)
    with pytest.raises(lt.JitError, match=GONE):
        step(x)
    assert count.numpy().tolist() == [2] * 3


def test_views_of_a_donated_tensor_go_with_it() -> None:
    x = ones(64)
    view = x[3:]
    lt.jit(twice, donate="x")(x)
    with pytest.raises(lt.JitError, match=GONE):
        view.numpy()
    y = ones(64)
    lt.jit(twice, donate="x")(y[:8])
    with pytest.raises(lt.JitError, match=GONE):
        y.numpy()


def test_a_donated_tensor_that_is_written_anew_has_a_value_again() -> None:
    x = ones(64)
    y = lt.jit(twice, donate="x")(x)
    x.copy_(y + 1)
    assert_array_equal(x.numpy(), np.full(64, 3, np.float32))


# ---- somebody else has it too --------------------------------------------------------------------

def recorded(x: lt.Tensor) -> Callable[[], Any]:
    copy = x.clone()
    return copy.numpy


def another_library(x: lt.Tensor) -> Callable[[], Any]:
    array = np.from_dlpack(x)
    return lambda: array


def an_earlier_result(x: lt.Tensor) -> Callable[[], Any]:
    result = (x + 0).realize()
    return result.numpy


@pytest.mark.parametrize("keep", [recorded, another_library, an_earlier_result],
                         ids=lambda f: f.__name__)
def test_a_value_that_somebody_else_sees_is_not_written_to(
        keep: Callable[[lt.Tensor], Callable[[], Any]]) -> None:
    step = lt.jit(twice, donate="x")
    for _ in range(3):
        x = ones(64, 64)
        kept = keep(x)
        assert_array_equal(step(x).numpy(), np.full((64, 64), 2, np.float32))
        assert_array_equal(kept(), np.ones((64, 64), np.float32))


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[:], lambda x: x.t(),
                                  lambda x: x.detach()])
def test_a_donated_tensor_that_is_another_argument_too_is_refused(
        view: Callable[[lt.Tensor], lt.Tensor]) -> None:
    step = lt.jit(lambda x, y: x + y, donate="x")
    x = ones(8, 8)
    with pytest.raises(lt.JitError, match="is another argument of the call too"):
        step(x, view(x))
    assert x.sum().item() == 64
    both = lt.jit(lambda x, y: x + y, donate=("x", "y"))
    assert both(x, view(x)).sum().item() == 128
    with pytest.raises(lt.JitError, match=GONE):
        x.numpy()


def test_a_donated_tensor_that_the_function_closes_over_is_refused() -> None:
    x = ones(64)
    step = lt.jit(lambda y: y + x, donate="y")
    assert step(ones(64)).sum().item() == 128
    with pytest.raises(lt.JitError, match="is given by donation reaches it in two ways"):
        step(x)
    assert x.sum().item() == 64


# ---- not donated after all -----------------------------------------------------------------------

@pytest.mark.parametrize("give", [lambda x: x, lambda x: x[1:], lambda x: [x * 2, x.t()],
                                  lambda x: x.add_(1)])
def test_what_the_function_gives_back_or_changes_keeps_its_value(
        give: Callable[[lt.Tensor], Any]) -> None:
    step = lt.jit(give, donate="x")
    x, y = ones(8, 8), ones(8, 8)
    give(y)
    found = step(x)
    assert_array_equal(x.numpy(), y.numpy())
    last = found[-1] if isinstance(found, list) else found
    assert last.sum().item() > 0


def test_a_call_inside_another_jitted_function_or_a_transform_donates_nothing() -> None:
    inner = lt.jit(twice, donate="x")
    x = ones(8)
    assert lt.jit(lambda x: inner(x) + x)(x).sum().item() == 24
    assert lt.func.grad(lambda x: inner(x).sum())(x).sum().item() == 16
    assert x.sum().item() == 8


def test_a_call_that_fails_donates_nothing() -> None:
    step = lt.jit(lambda x, index: x[index] + x, donate="x")
    x = ones(64)
    with pytest.raises(lt.IndexingError):
        step(x, lt.tensor([64] * 64, device="cpu"))
    assert x.sum().item() == 64
    assert step(x, lt.tensor([3] * 64, device="cpu")).sum().item() == 128
