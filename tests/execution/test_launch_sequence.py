"""Many kernels launched by one call: the same as one launch after the other."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.devices.program import Argument, Limit
from lazyten.execution import frame_runs
from lazyten.execution.plans import running
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import make
from lazyten.ir.ops import Op
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.storage.device import executor
from lazyten.storage.storage import Buffer


@pytest.mark.few(1)
def test_a_plan_that_runs_often_gives_the_same_with_one_call_for_all_kernels(device: str) -> None:
    rng = np.random.default_rng(0)
    a, b = [rng.normal(size=(40, 70)).astype(np.float32) for _ in range(2)]

    def run(scale: float) -> list[np.ndarray[Any, Any]]:
        x, y = lt.tensor(a * scale, device=device), lt.tensor(b, device=device)
        product = (x @ y.T).softmax(1)
        parts = [product, product @ x, x.sum(0) + 1, product.max(1).values]
        lt.realize(*parts)
        return [p.numpy() for p in parts]

    scales = [1 + k / 4 for k in range(running.RUNS + 3)]
    results = [run(np.float32(s)) for s in scales]
    joined = [p for p in frame_runs._small if p.segment.device == device
              and p.segment.ready is not None and len(p.segment.planned.programs) >= 4]
    assert joined
    for s, result in zip(scales, results, strict=True):
        scaled = a.astype(np.float64) * s
        scores = np.exp(scaled @ b.T - (scaled @ b.T).max(1, keepdims=True))
        product = scores / scores.sum(1, keepdims=True)
        for got, wanted in zip(result, [product, product @ scaled, scaled.sum(0) + 1,
                                        product.max(1)], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


@pytest.mark.few(3)
@pytest.mark.parametrize("found, goes_on", [
    ((6, 2), True), ((7, 0), False), ((0, 3), False), ((-1, 0), False), *(
        pytest.param(*row, marks=pytest.mark.slow) for row in (
            ((0, 0), True), ((2**40, 0), False), ((0, -2**63), False),
            ((2**63 - 1, 2**63 - 1), False)))])
def test_launches_after_a_number_beyond_its_limit_are_left_out(
        found: tuple[int, int], goes_on: bool, device: str) -> None:
    runtime = executor(device)
    given = make(Op.BUFFER, dt.int64, (), Slot(1, 2))
    program, = runtime.build([Kernel("negate", (make(Op.NEG, dt.int64, (given,)),),
                                     ((dt.int64, 2),))])

    def memory(*values: int) -> Buffer:
        array = np.array(values, np.int64)
        return Buffer.from_numpy(array, dt.int64, device)

    x, y, z, first, second = memory(1, 2), memory(0, 0), memory(0, 0), *map(memory, found)
    launch = runtime.guarded([[(program, [Argument(1), Argument(0)])]],
                             [Limit(Argument(3), 7), Limit(Argument(4), 3)],
                             [[(program, [Argument(2), Argument(1)])]])
    assert launch([b.handle for b in (x, y, z, first, second)]) is goes_on
    assert y.numpy().tolist() == [-1, -2]
    assert z.numpy().tolist() == ([1, 2] if goes_on else [0, 0])


def test_a_training_step_with_labels_is_one_native_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The labels are looked at on the way, before anything is updated."""
    calls, launch_all = [], CpuRuntime._launch_all

    def counted(*args: Any) -> bool:
        calls.append(args)
        return launch_all(*args)
    monkeypatch.setattr(CpuRuntime, "_launch_all", counted)
    model = lt.nn.Linear(6, 4, device="cpu")
    optimizer = lt.optim.SGD(model.parameters(), lr=0.1)

    @lt.jit
    def step(x: lt.Tensor, labels: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        loss = lt.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    x = lt.rand(8, 6, device="cpu").realize()
    labels = lt.tensor([0, 1, 2, 3, 3, 2, 1, 0], device="cpu")
    losses = [step(x, labels).item() for _ in range(3)]
    assert losses == sorted(losses, reverse=True)
    calls.clear()
    loss = step(x, labels)
    assert len(calls) == 1 and loss.item() < losses[-1]
    before = model.weight.numpy()
    with pytest.raises(lt.IndexingError, match="label 4 is outside"):
        step(x, lt.tensor([0, 1, 2, 3, 3, 2, 1, 4], device="cpu"))
    np.testing.assert_array_equal(model.weight.numpy(), before)
