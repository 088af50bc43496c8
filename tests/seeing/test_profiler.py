"""`lt.profiler`: PyTorch's way to say which steps are profiled."""
from __future__ import annotations

import json
from pathlib import Path

import pytest

import lazyten as lt
from lazyten.profiler import ProfilerAction, ProfilerActivity, profile, schedule


def work(n: int) -> None:
    (lt.rand(n, 8) @ lt.rand(8, n)).realize()


def test_a_block_is_profiled_and_its_trace_written(tmp_path: Path) -> None:
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True,
                 with_stack=True) as p, lt.profiler.record_function("inference"):
        work(16)
    text = p.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total", row_limit=10)
    assert "kernel" in text and Path(__file__).name in text
    p.export_chrome_trace(str(tmp_path / "trace.json"))
    assert json.loads((tmp_path / "trace.json").read_text("utf8"))
    with lt.autograd.profiler.profile(use_cuda=False) as old:
        work(8)
    assert "kernel" in old.table(row_limit=3)


def test_steps_are_recorded_as_a_schedule_says(tmp_path: Path) -> None:
    seen: list[int] = []
    kinds = [schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)(i) for i in range(10)]
    none, warm, record, save = ProfilerAction
    assert kinds == [none, none, warm, record, save, none, warm, record, save, none]
    with profile(schedule=schedule(wait=1, warmup=0, active=2, repeat=2),
                 on_trace_ready=lambda p: seen.append(p.step_num)) as p:
        for _ in range(8):
            work(4)
            p.step()
    assert seen == [3, 6]
    with profile(on_trace_ready=lt.profiler.tensorboard_trace_handler(str(tmp_path / "log"))) as p:
        work(4)
    assert len(list((tmp_path / "log").glob("*.pt.trace.json"))) == 1


def test_what_was_not_recorded_is_an_error() -> None:
    with profile(schedule=schedule(wait=5, warmup=0, active=1)) as p:
        work(4)
    with pytest.raises(lt.StateError, match="no step was recorded"):
        p.key_averages()
    with pytest.raises(lt.ArgumentError, match="active=0"):
        schedule(wait=1, warmup=1, active=0)
