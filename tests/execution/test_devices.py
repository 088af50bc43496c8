"""Several devices in one program: copies between them, mixing them, and one of them failing."""
from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import lazyten as lt
from lazyten import nn, optim
from lazyten.frontend.recorded import lookup
from lazyten.nn import functional as F
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.storage import device as devices
from lazyten.support.errors import CompileError, DeviceError
from lazyten.testing import watch_kernels

OTHERS = ["interpreter", "cpu:1",
          pytest.param("opencl", marks=pytest.mark.opencl)]
VALUES = np.arange(12, dtype=np.float32).reshape(3, 4)


# ---- copies --------------------------------------------------------------------------------------

@pytest.mark.parametrize("other", OTHERS)
def test_values_go_to_another_device_and_back(other: str) -> None:
    here = lt.tensor(VALUES, device="cpu")
    there = (here * 2).to(other)
    back = (there + 1).T.to("cpu")
    assert (here.device, there.device, back.device) == ("cpu", other, "cpu")
    assert_array_equal(back.numpy(), (VALUES * 2 + 1).T)


@pytest.mark.parametrize("other", OTHERS)
def test_gradients_go_through_a_copy(other: str) -> None:
    x = lt.tensor(VALUES, device="cpu", requires_grad=True)
    ((x * x).to(other) * 3).sum().to("cpu").backward()
    assert x.grad is not None
    assert x.grad.device == "cpu"
    assert_array_equal(x.grad.numpy(), 6 * VALUES)


def test_a_chain_of_copies_over_all_devices_keeps_the_values() -> None:
    x = lt.tensor(VALUES, device="cpu")
    for name in ("interpreter", "cpu:1", "interpreter", "cpu"):
        x = x.to(name) + 1
    assert_array_equal(x.numpy(), VALUES + 4)


def test_a_copy_to_its_own_device_is_the_tensor_itself() -> None:
    x = lt.tensor(VALUES, device="cpu")
    assert x.to("cpu") is x


# ---- mixing --------------------------------------------------------------------------------------

def rows(device: str) -> lt.Tensor:
    return lt.tensor(VALUES, device=device)


def parameter(device: str) -> Any:
    made = rows(device).requires_grad_()
    made.grad = None
    return made


Mixed = Callable[[str, str], object]
MIXED: dict[str, Mixed] = {
    "binary": lambda a, b: rows(a) + rows(b),
    "swapped": lambda a, b: rows(a).__rsub__(rows(b)),
    "comparison": lambda a, b: rows(a) < rows(b),
    "power": lambda a, b: rows(a) ** rows(b),
    "maximum": lambda a, b: rows(a).maximum(rows(b)),
    "matmul": lambda a, b: rows(a) @ rows(b).T,
    "einsum": lambda a, b: lt.einsum("ij,kj->ik", rows(a), rows(b)),
    "dot": lambda a, b: rows(a)[0].dot(rows(b)[0]),
    "cat": lambda a, b: lt.cat([rows(a), rows(b)]),
    "stack": lambda a, b: lt.stack([rows(a), rows(b)]),
    "where, condition": lambda a, b: lt.where(rows(a) > 0, rows(b), rows(b)),
    "where, value": lambda a, b: lt.where(rows(a) > 0, rows(a), rows(b)),
    "index": lambda a, b: rows(a)[lt.tensor([0, 1], device=b)],
    "mask": lambda a, b: rows(a)[rows(b) > 3],
    "gather": lambda a, b: rows(a).gather(0, rows(b).long() % 3),
    "index_add": lambda a, b: rows(a).index_add(0, lt.tensor([0], device=a), rows(b)[:1]),
    "index_select": lambda a, b: rows(a).index_select(0, lt.tensor([0], device=b)),
    "scatter": lambda a, b: rows(a).scatter(0, rows(a).long() % 3, rows(b)),
    "assignment at an index": lambda a, b: rows(a).__setitem__(lt.tensor([0], device=b), 1.0),
    "in place": lambda a, b: rows(a).add_(rows(b)),
    "copy_": lambda a, b: rows(a).mul_(rows(b)),
    "clamp": lambda a, b: rows(a).clamp(rows(b)),
    "masked_fill": lambda a, b: rows(a).masked_fill(rows(b) > 0, 1.0),
    "lerp": lambda a, b: rows(a).lerp(rows(b), 0.5),
    "linear": lambda a, b: F.linear(rows(a), rows(b)),
    "conv2d": lambda a, b: F.conv2d(lt.ones(1, 1, 4, 4, device=a), lt.ones(1, 1, 2, 2, device=b)),
    "embedding": lambda a, b: F.embedding(lt.tensor([0, 1], device=a), rows(b)),
    "layer": lambda a, b: nn.Linear(4, 2).to(a)(rows(b)),
    "mse_loss": lambda a, b: F.mse_loss(rows(a), rows(b)),
    "cross_entropy": lambda a, b: F.cross_entropy(rows(a), lt.tensor([0, 1, 2], device=b)),
    "backward": lambda a, b: (rows(a).requires_grad_() * 2).backward(rows(b)),
    "grad": lambda a, b: setattr(parameter(a), "grad", rows(b)),
}
"""By kind of operation: one on tensors of devices a and b."""


@pytest.mark.parametrize("kind", MIXED)
def test_tensors_on_two_devices_do_not_mix(kind: str) -> None:
    with pytest.raises(DeviceError) as caught:
        result = MIXED[kind]("cpu", "interpreter")
        if isinstance(result, lt.Tensor):
            result.realize()
    for name in ("'cpu'", "'interpreter'"):
        assert name in str(caught.value), str(caught.value)


NUMBER = np.float32(2)
TOGETHER: dict[str, Callable[[Any, Any], Any]] = {
    "binary": lambda x, s: x * s, "swapped": lambda x, s: s - x, "comparison": lambda x, s: x < s,
    "power": lambda x, s: s ** x, "where": lambda x, s: lt.where(x > s, x, s),
    "clamp": lambda x, s: x.clamp(s, lt.tensor(3)), "lerp": lambda x, s: x.lerp(x * x, s),
    "in place": lambda x, s: x.clone().div_(s), "fill_": lambda x, s: x.clone().fill_(s),
    "masked_fill": lambda x, s: x.masked_fill(x > 1, s),
    "complex": lambda x, s: ((x + 1j) * s).imag, "index": lambda x, s: x[:, lt.tensor([1, 0])],
    "mask": lambda x, s: x[lt.tensor([True, False])],
    "index_put_": lambda x, s: x.clone().index_put_([lt.tensor([1])], s)}
"""Operations of a tensor elsewhere and a zero-dim one of the cpu, or places there."""


@pytest.mark.parametrize("kind", TOGETHER)
def test_a_zero_dim_tensor_of_the_cpu_goes_with_tensors_of_any_device(kind: str) -> None:
    """As in PyTorch, whose numbers are such tensors, too."""
    x = VALUES[:2, :3]
    with lt.device("cpu"):
        expected = TOGETHER[kind](lt.tensor(x), lt.tensor(NUMBER))
        found = TOGETHER[kind](lt.tensor(x, device="interpreter"), lt.tensor(NUMBER))
    assert found.device == "interpreter" and found.dtype is expected.dtype
    assert_array_equal(found.numpy(), expected.numpy())


def test_gradients_flow_to_a_zero_dim_tensor_of_the_cpu() -> None:
    scale = lt.tensor(NUMBER, device="cpu", requires_grad=True)
    for _ in range(2):
        (rows("interpreter") * scale).sum().backward()
    assert scale.grad is not None and scale.grad.device == "cpu"
    assert scale.grad.item() == 2 * VALUES.sum()


def test_what_is_copied_into_a_tensor_may_be_on_another_device() -> None:
    for one, other in (("cpu", "interpreter"), ("interpreter", "cpu")):
        x = lt.zeros(*VALUES.shape, device=one)
        x.copy_(rows(other))
        assert x.device == one
        assert_array_equal(x.numpy(), VALUES)
        x[1:] = 2 * rows(other)[1:]
        assert_array_equal(x[1:].numpy(), 2 * VALUES[1:])
    with pytest.raises(DeviceError, match="sub_ of tensors on 'cpu' and 'interpreter'"):
        lt.tensor(NUMBER, device="cpu").sub_(lt.tensor(NUMBER, device="interpreter"))


def test_an_optimizer_updates_parameters_of_two_devices() -> None:
    """As in PyTorch: each update is on its parameter's device."""
    first, second = parameter("cpu"), parameter("interpreter")
    optimizer = optim.SGD([first, second], lr=0.5)
    ((first * first).sum() + (second * 3).sum().to("cpu")).backward()
    optimizer.step()
    assert_array_equal(first.detach().numpy(), VALUES * 0)
    assert_array_equal(second.detach().numpy(), VALUES - 1.5)


def test_a_jitted_function_runs_on_the_devices_of_its_arguments() -> None:
    double = lt.jit(lambda t: t * 2)
    for name in ("cpu", "interpreter", "cpu:1", "cpu"):
        result = double(rows(name))
        assert result.device == name
        assert_array_equal(result.numpy(), VALUES * 2)


# ---- a device that fails -------------------------------------------------------------------------

class Failing(CpuRuntime):
    """The cpu, but for what `broken` names: that raises."""

    broken = ""

    def _maybe_fail(self, what: str, error: type[Exception] = DeviceError) -> None:
        if Failing.broken == what:
            raise error(f"failing: the device is lost ({what})")

    def alloc(self, nbytes: int) -> int:
        self._maybe_fail("alloc")
        return super().alloc(nbytes)

    def copy_in(self, handle: int, source: Any) -> None:
        self._maybe_fail("copy_in")
        super().copy_in(handle, source)

    def copy_out(self, target: Any, handle: int) -> None:
        self._maybe_fail("copy_out")
        super().copy_out(target, handle)

    def build(self, kernels: Any) -> Any:
        self._maybe_fail("build", CompileError)
        return super().build(kernels)

    def launch(self, function: Any, buffers: Sequence[int]) -> None:
        self._maybe_fail("launch")
        super().launch(function, buffers)

    def sequence(self, launches: Any) -> Any:
        run = super().sequence(launches)

        def launch_all(buffers: Any) -> None:
            self._maybe_fail("launch")
            run(buffers)
        return launch_all


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A device that can be told to fail, whose memory no earlier test holds, nor operations that
    came before, for their results."""
    lookup.forget()
    gc.collect()
    monkeypatch.setitem(devices.BUILT_IN, "failing", f"{__name__}:Failing")
    yield "failing"
    Failing.broken = ""


@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jitted"])
@pytest.mark.parametrize("what", ["alloc", "copy_in", "copy_out", "build", "launch"])
def test_a_device_that_fails_leaves_everything_else_as_it_was(
        failing: str, what: str, jitted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    factor = {"eager": 2.0}.get("jitted" if jitted else "eager", 5.0)
    here = lt.tensor(VALUES, device="cpu")
    there = lt.tensor(VALUES, device=failing).realize()
    state = lt.tensor(VALUES, device=failing).realize()

    def work(t: lt.Tensor) -> lt.Tensor:
        state.add_(t)
        return (t * factor).sum(0)
    step = lt.jit(work) if jitted else work
    assert_array_equal(step(there).numpy(), (VALUES * factor).sum(0))
    rescued = there.to("cpu").realize()
    Failing.broken = what
    shape = {"build": (6, 2)}.get(what, (3, 4))  # a new shape needs a new kernel
    with pytest.raises((DeviceError, CompileError), match="device is lost"):
        other = lt.tensor(VALUES.reshape(shape), device=failing)
        (step(other) if shape == (3, 4) else other.sum(1)).numpy()
        there.numpy()
    assert_array_equal((here + 1).numpy(), VALUES + 1)
    assert_array_equal((rescued * 2).numpy(), VALUES * 2)
    assert_array_equal((lt.tensor(VALUES, device="interpreter") + 1).numpy(), VALUES + 1)
    Failing.broken = ""
    assert_array_equal(there.numpy(), VALUES)
    assert_array_equal(step(there).numpy(), (VALUES * factor).sum(0))


def test_a_constant_that_was_copied_is_no_memory() -> None:
    lt.zeros(1, device="interpreter").cpu().numpy()
    with watch_kernels() as kernels:
        nn.Linear(7, 1)  # the bias begins as that constant
    assert len(kernels) == 0


@pytest.mark.parametrize("what", ["alloc", "launch"])
def test_a_result_that_failed_is_computed_once_the_device_works_again(failing: str,
                                                                      what: str) -> None:
    x = lt.tensor(VALUES, device=failing).realize()
    y = (x * 3 + 1).relu()
    before = lt.memory_stats(failing).in_use
    Failing.broken = what
    for _ in range(3):
        with pytest.raises(DeviceError, match="device is lost"):
            y.realize()
    assert lt.memory_stats(failing).in_use == before
    Failing.broken = ""
    assert_array_equal(y.numpy(), VALUES * 3 + 1)
