"""Kernels on several threads: the same bits for any number, and a pool that survives everything."""
from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import pytest
from graphs import SIZES, arrays, compute, expressions, leaf
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import lazyten as lt
from lazyten.codegen.optimize import parallel
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import AVX2
from lazyten.execution.plans import making
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import Node, const, elementwise, expand, make, reduce, reshape, toposort
from lazyten.ir.ops import Op
from lazyten.nn import functional as F
from lazyten.runtimes.cpu import thread_pool
from lazyten.storage.device import executor
from lazyten.support.errors import ArgumentError
from lazyten.support.threads import usable_cores

Array = np.ndarray[Any, Any]
THREADS = (1, 2, 3, 7)
posix = pytest.mark.skipif(os.name != "posix", reason="there are no POSIX threads here")


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DEVICE", "cpu")
    before = lt.get_num_threads()
    yield
    lt.set_num_threads(before)


@contextmanager
def small_kernels_shared() -> Iterator[None]:
    """Every kernel with a loop to share is shared, in chunks of one iteration or a few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "LEAST_UNITS", 0.0)
        patch.setattr(parallel, "CHUNK_UNITS", 1e-3)
        patch.setattr(making, "_plans", OrderedDict())
        yield


def bits(values: Array) -> tuple[object, ...]:
    return values.shape, values.dtype, values.tobytes()


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


# ---- the same bits -------------------------------------------------------------------------------

def matmul() -> list[lt.Tensor]:
    a, b = lt.tensor(random(131, 257)), lt.tensor(random(257, 389))
    return [a @ b, b.T @ a.T]


def convolution() -> list[lt.Tensor]:
    x = lt.tensor(random(9, 3, 23, 23), requires_grad=True)
    w = lt.tensor(random(8, 3, 5, 5), requires_grad=True)
    y = F.conv2d(x, w, padding=2)
    (y * y).sum().backward()
    assert x.grad is not None and w.grad is not None
    return [y, x.grad, w.grad]


def row_operations() -> list[lt.Tensor]:
    x = lt.tensor(random(700, 333))
    return [x.softmax(1), x.softmax(0), x.sum(0), x.sum(1), x.sum(), x - x.mean()]


def elementwise_million() -> list[lt.Tensor]:
    x, y = lt.tensor(random(1_000_003)), lt.tensor(random(3, 333_337))
    return [(x * x + 1).exp().relu(), y * lt.tensor(random(3, 1)).sigmoid()]


@pytest.mark.few(1)
@pytest.mark.parametrize("make_results", [
    matmul, convolution, row_operations, elementwise_million])
def test_the_number_of_threads_does_not_change_a_bit(
        make_results: Callable[[], list[lt.Tensor]]) -> None:
    found = []
    for count in THREADS:
        lt.set_num_threads(count)
        found.append([bits(t.detach().numpy()) for t in make_results()])
    assert all(f == found[0] for f in found)


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [dt.float32, dt.bfloat16, dt.int64, dt.bool_],
                         ids=lambda d: d.name)
@given(data=st.data())
def test_random_graphs_do_not_depend_on_threads(dtype: dt.DType, data: st.DataObject) -> None:
    shapes = data.draw(st.lists(st.lists(SIZES, max_size=4).map(tuple), min_size=1, max_size=2))
    shapes = [s for s in shapes if np.prod(s) <= 2000] or [(3, 4)]
    values = [data.draw(arrays(dtype, s)) for s in shapes]
    node = data.draw(expressions(dtype, [leaf(v, dtype, "cpu") for v in values]))
    alone = compute(node, "cpu")
    with small_kernels_shared():
        for count in THREADS:
            lt.set_num_threads(count)
            assert bits(compute(node, "cpu")) == bits(alone)


# ---- which kernels are shared --------------------------------------------------------------------

def source(*shape: int) -> Node:
    return reshape(make(Op.BUFFER, dt.float32, (), Slot(1, int(np.prod(shape)))), shape)


def loops(value: Node) -> str:
    slots = {n.arg.slot: (n.dtype, n.arg.size) for n in toposort([value]) if n.op is Op.BUFFER}
    return generate(Kernel("k", (value,), tuple(slots[s] for s in sorted(slots))), AVX2).loops


def test_a_small_kernel_runs_on_one_thread() -> None:
    assert "parallel" not in loops(elementwise(Op.NEG, source(64, 100)))
    assert "parallel" in loops(elementwise(Op.NEG, source(6400, 100000)))


def test_the_outermost_loop_is_shared_unless_it_is_short() -> None:
    assert "parallel(i0:" in loops(reduce(source(4096, 1024), Op.ADD, [1]))
    bias = reshape(make(Op.BUFFER, dt.float32, (), Slot(2, 3)), (3, 1))
    biased = elementwise(Op.ADD, source(3, 1 << 20), expand(bias, (3, 1 << 20)))
    assert "parallel(i1:" in loops(biased)
    bias = reshape(make(Op.BUFFER, dt.float32, (), Slot(2, 100)), (100, 1))
    biased = elementwise(Op.ADD, source(100, 1 << 16), expand(bias, (100, 1 << 16)))
    assert "parallel(i0:" in loops(biased)


def test_two_short_loops_are_shared_as_one() -> None:
    a = reshape(source(18, 30000), (18, 1, 30000))
    b = reshape(make(Op.BUFFER, dt.float32, (), Slot(2, 18 * 30000)), (1, 18, 30000))
    product = elementwise(Op.MUL, *(expand(x, (18, 18, 30000)) for x in (a, b)))
    assert "parallel(i1*i0:1)" in loops(reduce(product, Op.ADD, [2]))  # the nest's order


def test_the_two_outermost_loops_are_shared_rather_than_an_inner_one() -> None:
    images, filters = source(8, 1, 24, 1024), reshape(
        make(Op.BUFFER, dt.float32, (), Slot(2, 96 * 24)), (1, 96, 24, 1))
    product = elementwise(Op.MUL, *(expand(x, (8, 96, 24, 1024)) for x in (images, filters)))
    assert "parallel(i0*i1:" in loops(reduce(product, Op.ADD, [2]))


def test_what_every_thread_would_have_to_repeat_is_not_shared() -> None:
    x = source(1 << 20)
    assert "parallel" in loops(elementwise(Op.SUB, x, const(1.0, dt.float32, (1 << 20,))))
    assert "parallel" not in loops(elementwise(Op.SUB, x, expand(reduce(x, Op.ADD, [0]), x.shape)))


def test_chunks_follow_from_the_kernel_alone() -> None:
    kernel = Kernel("k", (reduce(source(4096, 1024), Op.ADD, [1]),), ((dt.float32, 1 << 22),))
    texts = set()
    for count in THREADS:
        lt.set_num_threads(count)
        texts.add(generate(kernel, AVX2).source)
    text, = texts
    assert "call void @lazyten_run_chunks(ptr @k.chunk, ptr %args, i64 4096, i64 " in text
    bounds = r"phi i64 \[%first, %entry\], \[%(\w+),(?s:.*) icmp ult i64 %\1, %last\n"
    assert re.search(bounds, text)


def test_the_machine_code_of_a_shared_kernel_shows_its_chunk() -> None:
    program, = executor("cpu").build(
        [Kernel("k", (elementwise(Op.SQRT, source(1 << 20)),), ((dt.float32, 1 << 20),))])
    assert program.assembly().startswith("k.chunk:")
    assert "sqrt" in program.assembly() and "\nk:" in program.assembly()


# ---- reductions to a few numbers -----------------------------------------------------------------

@pytest.mark.few(11)
@pytest.mark.parametrize("shape", [(1 << 20,), (1 << 10, 1 << 10), (3, 7, 50_000), (1_000_003, 2)])
@pytest.mark.parametrize("dtype", [lt.float32, lt.int32, lt.bool_, lt.bfloat16], ids=str)
def test_large_reductions_are_numpys_on_any_number_of_threads(
        shape: tuple[int, ...], dtype: lt.DType) -> None:
    values = np.random.default_rng(1).integers(0, 2, shape)
    x = lt.tensor(values, dtype=dtype)
    results = [lambda: x.sum(0, dtype=lt.float32), lambda: x.max(), lambda: x.sum(dtype=lt.int64)]
    expected = [values.sum(0), values.max(), values.sum()]
    for count in THREADS:
        lt.set_num_threads(count)
        for result, right in zip(results, expected, strict=True):
            assert_array_equal(result().numpy(), right)


def test_a_large_reduction_to_a_few_numbers_has_64_parts() -> None:
    assert "stores float32[64, 1], 256 bytes" in lt.explain(lt.tensor(random(1 << 20)).sum())
    assert lt.explain(lt.tensor(random(1 << 19)).sum()).endswith(
        "1 kernel; intermediate values take 0 bytes (0 if none shared memory)")


@pytest.mark.parametrize(("size", "parts", "length"), [
    (10**7, 50, 200_000), (3 * 10**6, 25, 120_000), (1 << 24, 64, 1 << 18),
    ((1 << 21) + 2, 64, 1 << 15), (1 << 20, 64, 1 << 14)])
def test_long_parts_of_a_large_reduction_need_no_masks(size: int, parts: int,
                                                       length: int) -> None:
    text = lt.explain(lt.tensor(np.ones(size, np.float32)).sum())
    assert f"reduce_{parts}_{length} stores float32[{parts}, 1]" in text


# ---- the pool ------------------------------------------------------------------------------------

CHUNK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def run_chunks(chunk: Callable[[int, int], None], count: int, grain: int) -> None:
    """What a kernel's entry does, with a Python function for the kernel's chunks."""
    launch(CHUNK(lambda args, first, last: chunk(first, last)), count, grain)


def launch(chunk: Any, count: int, grain: int) -> None:
    """The same, of a function that the pool may have met before."""
    run = ctypes.CFUNCTYPE(None, CHUNK, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        thread_pool.start())
    run(chunk, None, count, grain)


@given(threads=st.integers(1, 9), count=st.integers(1, 200), grain=st.integers(1, 70))
def test_every_iteration_runs_once(threads: int, count: int, grain: int) -> None:
    lt.set_num_threads(threads)
    done: list[int] = []
    run_chunks(lambda first, last: done.extend(range(first, last)), count, grain)
    assert sorted(done) == list(range(count))


def most_at_once(threads: int) -> int:
    """The most threads that were inside one launch; its first chunks wait for each other. The pool
    knows that it takes long, as it ran before."""
    barrier, inside, most = threading.Barrier(threads, timeout=20), set[int](), 0
    waits = False

    @CHUNK
    def chunk(args: object, first: int, last: int) -> None:
        nonlocal most
        if not waits:
            time.sleep(1e-3)
            return
        inside.add(threading.get_ident())
        most = max(most, len(inside))
        if first < threads:
            barrier.wait()
        time.sleep(1e-4)
        inside.remove(threading.get_ident())
    for _ in range(10):
        launch(chunk, 2, 1)
    waits = True
    launch(chunk, 3 * threads, 1)
    assert not barrier.broken
    return most


@posix
def test_as_many_threads_as_asked_for_work_at_once() -> None:
    for threads in (2, 7, 3, 2):  # there are more workers than may help, in the end
        lt.set_num_threads(threads)
        assert {most_at_once(threads) for _ in range(20)} == {threads}


@posix
def test_a_launch_beside_another_runs_on_its_own_thread() -> None:
    lt.set_num_threads(2)
    inside, go_on = threading.Event(), threading.Event()

    def wait(first: int, last: int) -> None:
        inside.set()
        assert go_on.wait(20)
    first_launch = threading.Thread(target=run_chunks, args=(wait, 2, 1))
    first_launch.start()
    assert inside.wait(20)
    seen = []
    run_chunks(lambda first, last: seen.append((threading.get_ident(), first, last)), 10, 1)
    go_on.set()
    first_launch.join()
    assert seen == [(threading.get_ident(), i, i + 1) for i in range(10)]


def test_several_python_threads_compute_at_once() -> None:
    lt.set_num_threads(3)
    a, b = random(200, 300), random(300, 400)
    expected = bits((lt.tensor(a) @ lt.tensor(b)).numpy())
    found: list[object] = []

    def work() -> None:
        found.extend(bits((lt.tensor(a) @ lt.tensor(b)).numpy()) for _ in range(15))
    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 75


def test_the_number_may_change_while_kernels_run() -> None:
    x, stop = lt.tensor(random(700, 500)), threading.Event()
    expected = bits(x.softmax(1).numpy())

    def change() -> None:
        while not stop.is_set():
            for count in THREADS:
                lt.set_num_threads(count)
    changing = threading.Thread(target=change)
    changing.start()
    try:
        found = [bits(x.softmax(1).numpy()) for _ in range(100)]
    finally:
        stop.set()
        changing.join()
    assert found == [expected] * 100


@posix
def test_an_interrupted_launch_leaves_everything_working() -> None:
    lt.set_num_threads(2)
    a, b = lt.tensor(random(400, 500)), lt.tensor(random(500, 600))
    expected = bits((a @ b).numpy())
    sent = raised = 0

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal sent
        sent += 1
        raise KeyboardInterrupt

    handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        while raised < 5 and sent < 100:
            before = sent
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                while sent == before:  # Python drops what is raised while it frees an object
                    (a @ b).numpy()
            except KeyboardInterrupt:
                raised += 1
    finally:
        signal.signal(signal.SIGALRM, handler)
    assert raised == 5
    assert bits((a @ b).numpy()) == expected
    assert_allclose((a @ b).numpy(), random(400, 500) @ random(500, 600), atol=1e-3)


@posix
def test_idle_workers_take_no_time() -> None:
    lt.set_num_threads(4)
    run_chunks(lambda first, last: None, 100, 1)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.1


# ---- processes -----------------------------------------------------------------------------------

PROLOGUE = """
import ctypes, os, sys, threading, numpy as np, lazyten as lt
from lazyten.runtimes.cpu import thread_pool
a = np.arange(300 * 400, dtype=np.float32).reshape(300, 400) % 7
b = np.arange(400 * 500, dtype=np.float32).reshape(400, 500) % 5
ta, tb = lt.tensor(a), lt.tensor(b)
def right():
    return np.array_equal((ta @ tb).numpy(), a @ b)
done = np.zeros(64, np.int64)
def count(args, first, last):
    done[first:last] += 1
kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
chunk = kind(count)
run = ctypes.CFUNCTYPE(None, kind, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
def pool_right():
    done[:] = 0
    run(thread_pool.start())(chunk, None, 64, 1)
    return (done == 1).all()
def three_meet():
    barrier = threading.Barrier(3, timeout=20)
    meeting = kind(lambda args, first, last: barrier.wait())
    run(thread_pool.start())(meeting, None, 3, 1)
    return not barrier.broken
def threads():
    return len(os.listdir("/proc/self/task"))
"""


def python(program: str, **environment: str) -> str:
    """What a program prints, in a process of its own, where LAZYTEN_NUM_THREADS is 3 by default."""
    env = os.environ | {"DEVICE": "cpu", "LAZYTEN_NUM_THREADS": "3"} | environment
    may_fork = ["-W", "ignore::DeprecationWarning"]     # Python 3.12 and later warn of forks
    done = subprocess.run([sys.executable, *may_fork, "-c", PROLOGUE + program], env=env, text=True,
                          capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@posix
def test_a_kernel_that_was_over_before_a_worker_wakes_wakes_none() -> None:
    """All that takes less than a thousand seconds counts as such here."""
    assert python("""
import time
thread_pool.WAKE_NS = 10 ** 12
seen = []
def slow(args, first, last):
    seen.append(threading.get_ident())
    time.sleep(0.002)
slowly = kind(slow)
for pause in (0.05, 0.05):
    seen.clear()
    run(thread_pool.start())(slowly, None, 60, 1)
    print(len(set(seen)))
    time.sleep(pause)
""") == "3\n1"


@pytest.mark.slow
@posix
def test_a_forked_child_computes_and_so_does_its_child() -> None:
    assert python("""
print(right() and three_meet(), flush=True)
for generation in range(3):
    child = os.fork()
    if child:
        done = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.exit(done if right() else 9)
    print(right() and three_meet(), flush=True)
""") == "True\nTrue\nTrue\nTrue"


@posix
def test_a_fork_beside_a_running_launch_is_safe() -> None:
    assert python("""
stop = threading.Event()
def work():
    while not stop.is_set():
        (ta @ tb).numpy()
right()
thread = threading.Thread(target=work)
thread.start()
codes = []
for _ in range(10):
    child = os.fork()
    if not child:
        os._exit(0 if pool_right() and three_meet() else 1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
thread.join()
print(codes, right())
""") == f"{[0] * 10} True"


@pytest.mark.few(2)
@posix
@pytest.mark.parametrize("ending", ["", "import time; time.sleep(0.01)", "sys.exit(0)",
                                    "del ta, tb; import gc; gc.collect()"])
def test_the_process_ends_cleanly_with_workers_awake_or_asleep(ending: str) -> None:
    program = f"print(right(), pool_right(), flush=True)\n{ending}"
    assert python(program, LAZYTEN_NUM_THREADS="2") == "True True"


@pytest.mark.skipif(sys.platform != "linux", reason="limits and counts threads in Linux's way")
def test_where_no_thread_can_be_made_the_caller_does_everything() -> None:
    assert python("""
import resource
lt.set_num_threads(1)
before = right(), threads()
lt.set_num_threads(4)
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limits = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (size + 200_000, limits[1]))
counted = pool_right()
resource.setrlimit(resource.RLIMIT_AS, limits)
print(counted, right(), threads() - before[1])
""") == "True True 0"


# ---- the number of threads -----------------------------------------------------------------------

def test_by_default_every_usable_core_has_a_thread() -> None:
    assert python("print(lt.get_num_threads())", LAZYTEN_NUM_THREADS="") == str(usable_cores())
    assert python("print(lt.get_num_threads())", LAZYTEN_NUM_THREADS="5") == "5"


@pytest.mark.parametrize("count", [1, 2, 64, np.int32(3), 10**30])
def test_a_number_that_is_set_is_the_number(count: int) -> None:
    lt.set_num_threads(count)
    assert lt.get_num_threads() == min(count, 1 << 31)
    assert_array_equal((lt.tensor(random(300, 2000)) * 2).numpy(), random(300, 2000) * 2)


@pytest.mark.parametrize("count", [0, -1, 2.0, "4", None, True, [1]])
def test_what_is_no_number_of_threads_is_refused(count: Any) -> None:
    lt.set_num_threads(2)
    with pytest.raises(ArgumentError, match=r"set_num_threads\(.*integer of at least 1"):
        lt.set_num_threads(count)
    assert lt.get_num_threads() == 2


@pytest.mark.few(2)
@pytest.mark.parametrize("text", ["0", "-2", "two", "1.5"])
def test_a_bad_environment_variable_is_named(text: str) -> None:
    assert python("""
try:
    lt.get_num_threads()
except lt.ArgumentError as error:
    print(error)
""", LAZYTEN_NUM_THREADS=text).startswith(f"LAZYTEN_NUM_THREADS='{text}': give a number")
