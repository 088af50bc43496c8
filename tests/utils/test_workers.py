"""Loaders with worker processes: what they give, their seeds, their errors and their ends."""
from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from worker_programs import Broken, Parts, Squares, Who, begin, begun, large

import lazyten as lt
from lazyten.utils.data import DataLoader
from lazyten.utils.data.pool import context_of

METHODS = ["fork", pytest.param("spawn", marks=pytest.mark.slow)]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork() here")


def alive(pid: int) -> bool:
    """Whether there is such a process, and not one that nobody has waited for."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text("utf8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def gone(pids: set[int]) -> bool:
    for _ in range(100):
        if not any(map(alive, pids)):
            return True
        time.sleep(0.05)
    return False


def flat(batches: Any) -> list[Any]:
    return [(b["x"].tolist(), [v.tolist() for v in b["y"]], b["name"]) for b in batches]


@pytest.mark.parametrize("method", METHODS)
def test_workers_give_what_no_workers_give(method: str) -> None:
    workers = DataLoader(Squares(11), batch_size=4, num_workers=2, multiprocessing_context=method)
    batches = list(workers)
    assert flat(batches) == flat(DataLoader(Squares(11), batch_size=4))
    assert batches[0]["x"].dtype is lt.float32 and batches[0]["y"][1].dtype is lt.float32
    assert flat(workers) == flat(batches) and len(workers) == 3


@pytest.mark.parametrize("batch", (2, None))
def test_complex_numbers_come_from_workers(batch: int | None) -> None:
    numbers = [lt.tensor([1 + 2j * i]) for i in range(4)]
    alone, found = [[x.tolist() for x in DataLoader(numbers, batch, num_workers=workers)]
                    for workers in (0, 2)]
    assert found == alone and len(found) == (2 if batch else 4)


def test_shuffled_batches_are_the_same_with_workers() -> None:
    def order(workers: int) -> list[Any]:
        loader = DataLoader(range(20), 3, shuffle=True, num_workers=workers,
                            generator=lt.Generator(7))
        return [[b.tolist() for b in loader] for _ in range(2)]
    assert order(2) == order(0)


def test_workers_have_seeds_and_random_numbers_of_their_own() -> None:
    def made() -> list[Any]:
        loader = DataLoader(Who(), batch_size=None, num_workers=2, generator=lt.Generator(1))
        return list(loader)
    found, again = made(), made()
    assert [row[0] for row in found] == list(range(8))
    assert {row[2] for row in found} == {0, 1} and len({row[1] for row in found}) == 2
    base = found[0][3]
    assert all(row[3] == row[4] == base + row[2] for row in found)
    assert [r[3:5] for r in found] == [r[3:5] for r in again]
    assert [r[5].tolist() for r in found] == [r[5].tolist() for r in again]
    assert [r[6] for r in found] == [r[6] for r in again]
    assert len({tuple(r[5].tolist()) for r in found}) == 8 == len({r[6] for r in found})
    assert gone({row[1] for row in found})


@pytest.mark.parametrize(("count", "workers", "batch"), [(10, 3, 2), (1, 3, 2), (7, 2, None)])
def test_parts_of_an_iteration_come_from_all_workers(count: int, workers: int, batch: Any) -> None:
    loader = DataLoader(Parts(count), batch, num_workers=workers)
    found = [b if batch is None else b.tolist() for b in loader]
    values = found if batch is None else [x for b in found for x in b]
    assert sorted(values) == list(range(count))
    if batch is not None and count == 10:
        assert found == [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]


def test_whole_batches_are_those_of_each_worker() -> None:
    loader = DataLoader(Parts(5, shared=False), 2, drop_last=True, num_workers=2)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="get_worker_info"):
        assert sorted(b.tolist() for b in loader) == [[0, 1], [0, 1], [2, 3], [2, 3]]


def test_workers_that_persist_are_the_same_processes() -> None:
    loader = DataLoader(Who(6), batch_size=None, num_workers=2, persistent_workers=True)
    epochs = [list(loader) for _ in range(3)]
    pids = [{row[1] for row in epoch} for epoch in epochs]
    assert pids[0] == pids[1] == pids[2] and len(pids[0]) == 2
    assert [row[0] for row in epochs[2]] == list(range(6))
    begun_again = iter(loader)
    next(begun_again)
    assert [row[0] for row in loader] == list(range(6))  # what was under way is forgotten
    del loader, begun_again
    assert gone(pids[0])


def test_a_worker_begins_as_told() -> None:
    loader = DataLoader(range(4), 1, num_workers=2, worker_init_fn=begin, collate_fn=begun)
    assert [name for _, name in loader] == ["number 0", "number 1"] * 2
    assert "WORKER" not in os.environ


def test_batches_larger_than_a_pipe_come_beside_each_other() -> None:
    loader = DataLoader(range(12), 1, num_workers=2, collate_fn=large, prefetch_factor=3)
    assert [b[-1].item() for b in loader] == list(range(12))


def test_batches_may_come_as_they_are_ready() -> None:
    loader = DataLoader(range(9), 2, num_workers=2, in_order=False, timeout=60, pin_memory=True)
    assert sorted(x for b in loader for x in b.tolist()) == list(range(9))


@pytest.mark.parametrize(("how", "error"), [
    ("key", KeyError), ("own", lt.WorkerError),
    ("unpicklable", (AttributeError, TypeError, pickle.PicklingError))])
def test_an_error_of_a_worker_is_raised_with_its_traceback(how: str, error: Any) -> None:
    batches = iter(DataLoader(Broken(how), batch_size=None, num_workers=2, collate_fn=lambda x: x))
    assert [next(batches) for _ in range(5)] == list(range(5))
    with pytest.raises(error) as caught:
        next(batches)
    text = str(caught.value)
    assert re.match(r"Caught \w+ in DataLoader worker process 1\.\nOriginal Traceback", text)
    assert "worker_programs.py" in text or how == "unpicklable"
    assert list(batches) == [6, 7]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Python chooses")
def test_workers_are_forks_unless_the_program_chose_otherwise() -> None:
    chosen = multiprocessing.get_start_method(allow_none=True)
    try:
        multiprocessing.set_start_method("spawn", force=True)
        assert context_of(None).get_start_method() == "spawn"
        assert context_of("forkserver").get_start_method() == "forkserver"
        multiprocessing.set_start_method(None, force=True)
        assert context_of(None).get_start_method() == "fork"
    finally:
        multiprocessing.set_start_method(chosen, force=True)


def test_a_worker_that_dies_is_noticed() -> None:
    loader = DataLoader(Broken("exit"), batch_size=None, num_workers=2)
    with pytest.raises(lt.WorkerError, match=r"worker 1 .*ended unexpectedly with exit code 3"):
        list(loader)


def test_a_worker_that_takes_too_long_is_not_waited_for() -> None:
    loader = DataLoader(Broken("sleep"), batch_size=None, num_workers=2, timeout=0.3)
    batches = iter(loader)
    with pytest.raises(lt.WorkerError, match=r"timeout=0.3 seconds"):
        list(batches)
    for process in batches.pool.processes:
        process.terminate()


def test_an_error_of_beginning_is_raised_at_the_first_batch() -> None:
    loader = DataLoader(range(4), num_workers=1, worker_init_fn=lambda number: 1 // number)
    with pytest.raises(ZeroDivisionError, match=r"(?s)worker process 0.*1 // number"):
        list(loader)


def test_workers_end_with_an_iteration_that_is_broken_off() -> None:
    batches = iter(DataLoader(Who(100), batch_size=None, num_workers=2))
    pids = {next(batches)[1] for _ in range(2)}
    processes = batches.pool.processes
    assert all(map(alive, pids))
    del batches
    assert [p.exitcode for p in processes] == [0, 0]  # by themselves
    assert gone(pids)


def test_a_loader_in_use_may_be_forked() -> None:
    batches = iter(DataLoader(range(6), batch_size=None, num_workers=1))
    assert next(batches) == 0
    child = os.fork()
    if not child:
        del batches
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(batches) == [1, 2, 3, 4, 5]


PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
sys.path.insert(0, {support!r})
from worker_programs import Finalizing
from lazyten.utils.data import DataLoader
from lazyten.utils.data.pool import context_of
pids = set()
for number, row in enumerate(DataLoader(Finalizing(10**6), batch_size=None, num_workers=2)):
    pids.add(row[1])
    if number == 5:
        print(*pids, flush=True)
"""


@pytest.mark.parametrize("number", [
    signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow),
    pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_no_worker_outlives_its_program(number: int) -> None:
    support = str(Path(__file__).parents[1] / "support")
    process = subprocess.Popen([sys.executable, "-c", PROGRAM.format(support=support)], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    assert process.stdout is not None and process.stderr is not None
    pids = {int(pid) for pid in process.stdout.readline().split()}
    assert len(pids) == 2
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # Ctrl-C reaches all
    else:
        process.send_signal(number)
    process.wait(20)
    assert gone(pids)
    errors = process.stderr.read()
    assert errors.count("Traceback") == (number == signal.SIGINT), errors
    process.stdout.close()
    process.stderr.close()
