"""lt.profile: what ran, by kernel and by line, and where the rest of the time went."""
from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lazyten as lt
from lazyten import nn, optim
from lazyten.execution.plans.running import RUNS
from lazyten.seeing import limits
from lazyten.support import observers
from lazyten.support.errors import ArgumentError, JitError, StateError
from lazyten.testing import watch_kernels

HERE = Path(__file__).name


def training_step(device: str) -> Callable[[], lt.Tensor]:
    """A step of a small network with Adam."""
    lt.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1)).to(device)
    optimizer = optim.Adam(model.parameters())
    x = lt.rand(9, 5, device=device)
    lt.realize(x)

    def step() -> lt.Tensor:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss
    return step


@pytest.mark.few(2)
@pytest.mark.parametrize("jitted", [False, True])
def test_each_kernel_of_steps_that_are_replayed_is_timed(device: str, jitted: bool) -> None:
    step = training_step(device)
    step = lt.jit(step) if jitted else step
    for _ in range(RUNS + 2):
        step().item()
    with watch_kernels() as once:
        step().item()
    with lt.profile() as p:
        values = [step().item() for _ in range(3)]
    assert values == sorted(values, reverse=True)  # it trains as it does without
    assert sum(row.launches for row in p.kernels) == 3 * len(once) > 0
    assert {row.name for row in p.kernels} == {
        s.kernel.name for _, made in once.schedules for s in made.steps}
    assert all(row.launches % 3 == 0 and row.device == device for row in p.kernels)
    assert p.compile_seconds == 0.0


def test_operations_bytes_and_lines_are_those_of_the_expression(device: str) -> None:
    a, b = lt.rand(8, 16, device=device), lt.rand(16, 4, device=device)
    lt.realize(a, b)
    with lt.profile() as p:
        product = a @ b
        product.sqrt().realize()
    row, = p.kernels
    assert row.where is not None and row.where.file == __file__
    assert (row.launches, row.bytes) == (1, 4 * (8 * 16 + 16 * 4 + 8 * 4))
    assert row.flops == 2 * 8 * 16 * 4 + 8 * 4
    first, second = p.lines
    assert (first.where, second.where) == (row.where._replace(line=row.where.line - 1), row.where)
    assert first.seconds / row.seconds == pytest.approx(1024 / 1056)
    assert second.seconds / row.seconds == pytest.approx(32 / 1056)
    assert first.kernels == second.kernels == (row.name,)


def test_the_parts_are_the_whole(device: str) -> None:
    x = lt.rand(3, 1787, device=device)  # no other test has this size
    lt.realize(x)
    with lt.profile() as p:
        (x.exp() @ x.T).sum().item()
    parts = (p.kernel_seconds, p.launch_seconds, p.compile_seconds, p.python_seconds)
    assert min(parts) > 0.0
    assert sum(parts) == pytest.approx(p.seconds)
    assert sum(row.seconds for row in p.kernels) == pytest.approx(p.kernel_seconds)
    assert sum(row.seconds for row in p.lines) == pytest.approx(p.kernel_seconds)
    assert p.compile_parts()["schedule"] > 0.0


def test_code_that_is_generated_and_compiled_is_timed() -> None:
    x = lt.rand(3, 1789, device="cpu")  # no other test has this size
    lt.realize(x)
    with lt.profile() as p:
        (x.exp() * 1789.0).sum(1).realize()
    parts = p.compile_parts()
    assert min(parts.values()) > 0.0
    assert parts["schedule"] + parts["code generation"] + parts["machine code"] < p.compile_seconds
    assert {"fuse", "decide", "render"} <= {e.what for e in p.events if e.kind == "pass"}
    assert [e.what for e in p.events if e.kind == "machine code"] == [k.name for k in p.kernels]


def test_kernels_of_other_threads_are_seen(device: str) -> None:
    x = lt.rand(4, 4, device=device)
    lt.realize(x)
    with lt.profile() as p:
        thread = threading.Thread(target=lambda: (x @ x).realize())
        thread.start()
        thread.join()
    assert [row.launches for row in p.kernels] == [1]
    assert p.python_seconds == pytest.approx(p.seconds)  # this thread waited


def test_a_trace_has_what_chrome_and_perfetto_read(device: str, tmp_path: Path) -> None:
    with lt.profile() as p:
        training_step(device)().item()
    p.save_trace(tmp_path / "trace.json")
    events: list[dict[str, Any]] = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    whole = [e for e in events if e["ph"] == "X"]
    assert {e["ph"] for e in events} <= {"X", "M", "C"}
    assert all(e["dur"] >= 0 and 0 <= e["ts"] <= p.seconds * 1e6 for e in whole)
    assert all((e["pid"], e["tid"]) in names for e in whole)
    kernels = [e for e in whole if e["cat"] == "kernel"]
    assert len(kernels) == sum(row.launches for row in p.kernels)
    assert {names[e["pid"], e["tid"]] for e in kernels} == {f"kernels on {device}"}
    assert sum(e["dur"] for e in kernels) == pytest.approx(p.kernel_seconds * 1e6)
    assert all(HERE in e["args"]["line"] for e in kernels)
    with pytest.raises(ArgumentError, match="cannot write"):
        p.save_trace(tmp_path / "no" / "trace.json")


def test_a_table_lists_what_took_longest(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAMS", (1 << 12,))
    monkeypatch.setattr(limits, "SIDE", 32)
    monkeypatch.setattr(limits, "SECONDS", 0.0)
    with lt.profile() as p:
        training_step(device)().item()
    text = p.table(limit=2)
    names = [row.name for row in p.kernels]
    listed = [line.split()[0] for line in text.splitlines() if line.strip()]
    assert [word for word in listed if word in names] == names[:2]
    assert f"and {len(names) - 2} more kernels" in text
    assert "loss = model(x).square().mean()" in text
    assert ("roof: of what" in text) is bool(p.limits) is (device != "interpreter")
    assert all((row.share is None) is not bool(p.limits) for row in p.kernels)
    with lt.profile() as empty:
        pass
    assert "0 runs of 0 kernels" in empty.table()


def test_the_roof_is_the_larger_of_two_times() -> None:
    found = limits.Limits({4: 100.0, 8: 50.0}, {10: 20.0, 1000: 10.0})
    assert found.least_seconds(200, 1, 4) == 2.0
    assert found.least_seconds(200, 1, 8) == 4.0
    assert found.least_seconds(1, 999, 4) == 999 / 20.0
    assert found.least_seconds(1, 2000, 4) == 200.0


def test_nobody_looks_on_after_the_block_even_after_an_error(device: str) -> None:
    with pytest.raises(ZeroDivisionError), lt.profile(), lt.profile():
        raise ZeroDivisionError
    assert observers.nobody()


def test_a_profile_is_of_one_block_and_of_no_jitted_function() -> None:
    p = lt.profile()
    with p:
        pass
    with pytest.raises(StateError, match="before"), p:
        pass

    @lt.jit(fullgraph=True)
    def step(x: lt.Tensor) -> lt.Tensor:
        with lt.profile():
            return x + 1

    with pytest.raises(JitError, match="a profile"):
        step(lt.ones(2))
