"""fork() beside other threads: the child finds no lock that a thread it does not have has taken."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from slow_rows import slow_but

from lazyten.support import forking

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork() here")

PROGRAM = """
import faulthandler, os, sys, threading, time
import lazyten as lt

def right():
    a, b = lt.arange(1600.0).reshape(40, 40) % 7, lt.ones(40, 40)
    return [(a @ b).sum().item() == 40 * a.numpy().sum(),
            (lt.rand(100).sort()[0] >= 0).all().item(),
            lt.jit(lambda x: x * 2)(a).sum().item() == 2 * a.sum().item()] == [True] * 3

def forked():
    child = os.fork()
    if not child:
        faulthandler.dump_traceback_later(20, exit=True)  # it hangs, and says where
        os._exit(0 if right() else 2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def run(program: str) -> str:
    """What a new process that runs a program prints; it finds nothing compiled."""
    env = dict(os.environ, DEVICE="cpu", LAZYTEN_CACHE="0")
    done = subprocess.run([sys.executable, "-c", PROGRAM + program], env=env, text=True,
                          capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("module", slow_but(
    ["lazyten.runtimes.cpu.cpu", "llvmlite.binding", "lazyten.codegen.pipeline",
     "lazyten.codegen.render.render_llvm"], "llvmlite.binding"))
def test_a_fork_while_another_thread_imports_for_its_first_kernel(module: str) -> None:
    assert run(f"""
import importlib.abc
reached = threading.Event()
class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r} and threading.current_thread() is thread:
            reached.set()
            time.sleep(0.2)
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=right)
thread.start()
print(reached.wait(30), forked())
thread.join()
print(right())
""") == "True 0\nTrue"


@pytest.mark.slow
def test_nothing_that_a_first_kernel_imports_gives_back_a_lock_at_forks() -> None:
    assert run("""
hooks = []
os.register_at_fork = lambda **given: hooks.append(given)
right()
print([given for given in hooks if "after_in_parent" in given])
""") == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("milliseconds", slow_but([0, 60, 150, 300, 600], 0, 150))
def test_a_fork_at_any_moment_of_another_threads_first_kernels(milliseconds: int) -> None:
    assert run(f"""
thread = threading.Thread(target=right)
thread.start()
time.sleep({milliseconds} / 1000)
print([forked() for _ in range(3)])
thread.join()
print(right())
""") == "[0, 0, 0]\nTrue"


@pytest.mark.slow
def test_a_lock_that_is_made_while_a_fork_waits_is_waited_for_too() -> None:
    assert run("""
from lazyten.support import forking
made, taken = [], threading.Event()
def makes():
    made.append(forking.lock())
    with made[0]:
        taken.set()
        time.sleep(0.3)
class Late:
    def acquire(self, blocking=True):
        if not taken.is_set():
            threading.Thread(target=makes).start()
            taken.wait(1)
        return True
    def release(self):
        pass
late = Late()
forking.held_by_forks(late)
if not (child := os.fork()):
    os._exit(0 if not made or made[0].acquire(False) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""") == "0"


@pytest.mark.slow
def test_forks_by_several_threads_beside_threads_that_compile() -> None:
    assert run("""
codes = []
def forks():
    codes.extend(forked() for _ in range(2))
def compiles(n):
    for size in range(n, n + 6):
        (lt.ones(size, 3) * size).sum().item()
threads = [threading.Thread(target=forks) for _ in range(2)]
threads += [threading.Thread(target=compiles, args=(n,)) for n in (10, 20)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(codes, right())
""") == "[0, 0, 0, 0] True"


# ---- the locks themselves ------------------------------------------------------------------------

@contextmanager
def held_elsewhere(lock: forking.Lock) -> Iterator[None]:
    """A lock that another thread has, for a while."""
    taken, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            enough.wait(0.2)
    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    yield
    enough.set()
    thread.join()


def free_in_a_child(locks: list[forking.Lock]) -> bool:
    """Whether a child of fork() can take all of them at once."""
    child = os.fork()
    if not child:
        os._exit(0 if all(lock.acquire(False) for lock in locks) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.slow
def test_a_child_finds_every_lock_free() -> None:
    locks = [forking.lock() for _ in range(4)]
    assert free_in_a_child(locks)
    for held in locks:
        with held_elsewhere(held):
            assert free_in_a_child(locks)
    with held_elsewhere(locks[3]), held_elsewhere(locks[0]):
        assert free_in_a_child(locks)
    assert all(lock.acquire(False) for lock in locks), "the parent has them back"


def test_a_thread_may_fork_with_locks_of_its_own() -> None:
    lock = forking.lock()
    with lock, forking.UNDIVIDED:
        assert free_in_a_child([lock])
    with held_elsewhere(lock):
        assert not lock.acquire(False)


def test_a_fork_waits_for_all_that_are_inside() -> None:
    with held_elsewhere(forking.UNDIVIDED), held_elsewhere(forking.UNDIVIDED):
        assert free_in_a_child([forking.UNDIVIDED])


@pytest.mark.slow
def test_threads_that_take_locks_in_turns_and_forks_do_not_wait_for_each_other() -> None:
    locks = [forking.lock() for _ in range(3)]
    stop = threading.Event()

    def take(order: list[forking.Lock]) -> None:
        while not stop.is_set():
            with order[0], order[1], forking.UNDIVIDED:
                pass
    threads = [threading.Thread(target=take, args=(locks[i:],)) for i in (0, 1, 0)]
    for thread in threads:
        thread.start()
    forks = [free_in_a_child(locks) for _ in range(20)]
    stop.set()
    for thread in threads:
        thread.join()
    assert forks == [True] * 20


def test_a_lock_goes_with_its_owner() -> None:
    before = len(forking._locks)
    kept = [forking.lock() for _ in range(5)]
    assert len(forking._locks) == before + 5
    del kept
    assert len(forking._locks) == before


def test_all_locks_are_known_to_forks() -> None:
    root = Path(forking.__file__).parents[1]
    makes = re.compile(r"threading(\.| import .*)(R?Lock|Condition|Semaphore|Barrier)\b")
    sources = {p for top in (root, root.parent / "codegen", root.parent / "runtimes")
               for p in top.rglob("*.py")} - {root / "support/forking.py"}
    assert len(sources) > 100
    assert [p.name for p in sources if makes.search(p.read_text("utf8"))] == []
