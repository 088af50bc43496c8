"""Kernels that hold values a block of rows at a time: the right values, and only where it helps."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from decided_kernels import some
from example_counts import examples
from guarded_memory import Guarded
from hypothesis import given
from hypothesis import strategies as st
from kernel_checks import computed

import lazyten as lt
from lazyten.execution.plans.graph import Graph
from lazyten.ir.kernel import Kernel, computation, held_values
from lazyten.ir.kernel_text import read_computation
from lazyten.nn.functional import gelu, scaled_dot_product_attention
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.schedule.schedule import Schedule, schedule
from lazyten.storage.device import executor

Array = np.ndarray[Any, Any]
KIB = 1 << 10
MIB = 1 << 20


def planned(*tensors: lt.Tensor, block_bytes: int = MIB) -> Schedule:
    graph = Graph([t._storage.value for t in tensors], tensors[0].device)
    return schedule(graph.normalized(), [(b.dtype, b.size) for b in graph.buffers], True,
                    block_bytes)


def held_shapes(made: Schedule) -> list[tuple[int, ...]]:
    return [tuple(n for n in value.shape if n != 1) for step in made.steps
            for value in held_values(step.kernel.outputs)]


def block_sizes(made: Schedule) -> list[tuple[int, int]]:
    return [v.arg for step in made.steps for v in held_values(step.kernel.outputs)]


def only_kernel(made: Schedule) -> Kernel:
    step, = made.steps
    assert held_values(step.kernel.outputs)
    return step.kernel


def whole(rng: np.random.Generator, kernel: Kernel) -> list[Array]:
    """Small whole numbers for each input, whose sums of products are exact."""
    return [rng.integers(-3, 4, size).astype(dtype.numpy) for dtype, size in kernel.inputs]


def perceptron() -> tuple[lt.Tensor, lt.Tensor, lt.Tensor]:
    """An input, the hidden values, and the second layer's weights."""
    inputs = some(4096, 64)
    return inputs, (inputs @ some(64, 512)).relu(), some(512, 64)


MIDDLES: list[Callable[[lt.Tensor], lt.Tensor]] = [
    lambda x: x.relu(), lambda x: x, lambda x: x - x.amax(-1, keepdim=True),
    lambda x: (x.sum(-1, keepdim=True) > x).to(x.dtype)]


@pytest.mark.slow
@given(batch=st.sampled_from([(), (3,), (2, 3)]), rows=st.integers(33, 80),
       hidden=st.integers(30, 70), width=st.integers(1, 20), out=st.integers(1, 30),
       middle=st.sampled_from(MIDDLES), dtype=st.sampled_from([lt.float32, lt.float64, lt.int32]),
       transposed=st.booleans(), room=st.sampled_from([3 * KIB, 5 * KIB, 9 * KIB]))
@examples(40)
def test_a_chain_of_products_in_blocks_is_the_chain(
        batch: tuple[int, ...], rows: int, hidden: int, width: int, out: int,
        middle: Callable[[lt.Tensor], lt.Tensor], dtype: lt.DType, transposed: bool,
        room: int) -> None:
    a, c = some(*batch, rows, width, dtype=dtype), some(*batch, hidden, out, dtype=dtype)
    b = some(*batch, hidden, width, dtype=dtype).transpose(-1, -2) if transposed \
        else some(*batch, width, hidden, dtype=dtype)
    rng = np.random.default_rng(0)
    for step in planned(middle(a @ b) @ c, block_bytes=room).steps:
        arrays = whole(rng, step.kernel)
        expected = computed(step.kernel, arrays, "interpreter")
        for threads in (1, 2):
            np.testing.assert_array_equal(computed(step.kernel, arrays, threads=threads), expected)


@pytest.mark.few(3)
@pytest.mark.parametrize("mask", ["none", "causal", "bias"])
@pytest.mark.parametrize(("queries", "keys", "room"), [(64, 96, 16), (50, 77, 16), (33, 256, 36)])
def test_attention_in_blocks_is_attention_with_the_same_bits_on_any_threads(
        mask: str, queries: int, keys: int, room: int) -> None:
    rng = np.random.default_rng(0)
    shapes = [(2, 3, queries, 8), (2, 3, keys, 8), (2, 3, keys, 5)]
    arrays = [rng.normal(size=s).astype(np.float32) for s in shapes]
    q, k, v = map(lt.tensor, arrays)
    bias = lt.tensor(rng.normal(size=(queries, keys)).astype(np.float32))
    found = scaled_dot_product_attention(q, k, v, bias if mask == "bias" else None,
                                         is_causal=mask == "causal")
    made = planned(found, block_bytes=room * KIB)
    assert (2, 3, queries, keys) in held_shapes(made)
    kernel = made.steps[-1].kernel
    inputs = [rng.normal(size=size).astype(dtype.numpy) for dtype, size in kernel.inputs]
    results = [computed(kernel, inputs, threads=threads) for threads in (1, 2)]
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], computed(kernel, inputs, "interpreter"), rtol=2e-5,
                               atol=2e-5)


def test_threads_have_scratch_memory_of_their_own() -> None:
    _, h, z = perceptron()
    kernel = only_kernel(planned(h @ z))
    x, y, z_ = (a.reshape(s) for a, s in zip(whole(np.random.default_rng(0), kernel),
                                             [(4096, 64), (64, 512), (512, 64)], strict=True))
    expected = (np.maximum(x @ y, 0) @ z_).ravel()
    for _ in range(5):
        np.testing.assert_array_equal(computed(kernel, [x, y, z_], threads=2), expected)


class GuardedRuntime(CpuRuntime):
    """Scratch memory, too, ends at a page that may not be touched. It is full of ones at first."""

    def workspace(self, sizes: Any, kernel: str) -> list[int]:
        self.scratch = [Guarded(n, at_end=True) for n in sizes]
        for memory in self.scratch:
            memory.write(np.full(memory.nbytes, 0xFF, np.uint8))
        return [memory.address for memory in self.scratch]

    def free(self, handle: int) -> None:
        pass


def test_each_chunk_of_a_kernel_holds_values_in_its_own_part_of_scratch_memory() -> None:
    _, h, z = perceptron()
    kernel = only_kernel(planned(h @ z))
    inputs = [np.zeros(size, dtype.numpy) for dtype, size in kernel.inputs]
    arrays = [Guarded(4 * kernel.outputs[0].numel, True),
              *(Guarded(a.nbytes, True) for a in inputs)]
    for memory, values in zip(arrays[1:], inputs, strict=True):
        memory.write(values)
    runtime = GuardedRuntime(0)
    program, = runtime.build([kernel])
    program.launch([memory.address for memory in arrays])
    held = max(runtime.scratch, key=lambda memory: memory.nbytes)
    assert held.nbytes > 4 * 512  # a row would do for all, one after the other
    assert not held.read(lt.uint8).any()


@pytest.mark.slow
@given(rows=st.integers(36, 70), hidden=st.integers(30, 60), width=st.integers(2, 9),
       at_end=st.booleans())
@examples(15)
def test_blocks_stay_inside_their_arguments_and_scratch_memory(rows: int, hidden: int, width: int,
                                                               at_end: bool) -> None:
    chain = (some(2, rows, width) @ some(2, width, hidden)).relu() @ some(2, hidden, width)
    kernel = only_kernel(planned(chain, block_bytes=4 * KIB))
    arrays = whole(np.random.default_rng(0), kernel)
    guarded = [Guarded(a.nbytes, at_end) for a in arrays]
    for memory, values in zip(guarded, arrays, strict=True):
        memory.write(values)
    out = Guarded(4 * kernel.outputs[0].numel, at_end)
    program, = GuardedRuntime(0).build([kernel])
    program.launch([out.address, *(memory.address for memory in guarded)])
    np.testing.assert_array_equal(out.read(lt.float32), computed(kernel, arrays, "interpreter"))


def test_attention_stores_no_scores() -> None:
    heads = some(2, 8, 1024, 64)
    made = planned(scaled_dot_product_attention(heads, heads, heads))
    assert held_shapes(made).count((2, 8, 1024, 1024)) == 2  # the scores and their softmax
    assert sum(made.block_sizes) <= heads.numel() * 4
    only_kernel(made)


def test_a_perceptron_holds_its_hidden_values() -> None:
    made = planned(gelu(some(8192, 128) @ some(128, 512)) @ some(512, 128))
    assert held_shapes(made) == [(8192, 512)]
    assert only_kernel(made).outputs[0].shape[0] == 8192


def test_rows_of_a_block_divide_the_axis_where_some_number_does() -> None:
    made = planned(some(8192, 128) @ some(128, 512).relu() @ some(512, 128))
    assert {8192 % rows for _, rows in block_sizes(made)} == {0}


Make = Callable[[lt.Tensor, lt.Tensor, lt.Tensor], tuple[lt.Tensor, ...]]


@pytest.mark.parametrize(("make", "why"), [
    (lambda x, h, z: (h @ z, h), "it is a result"),
    (lambda x, h, z: (h @ z, h.T @ x), "two kernels read it"),
    (lambda x, h, z: (h.T @ x,), "its rows are summed over"),
    (lambda x, h, z: (h.flip(0) @ z,), "it is read at other rows"),
    (lambda x, h, z: ((some(256, 64) @ some(64, 512)).relu() @ z,), "it fits the cache"),
    (lambda x, h, z: ((x @ some(64, 65536)).relu() @ some(65536, 8),), "few rows fit the cache"),
    (lambda x, h, z: ((some(2048, 2048) @ some(2048, 2048)).relu() @ some(2048, 2048),),
     "each block reads all of two large matrices"),
], ids=lambda a: a if isinstance(a, str) else "")
def test_a_value_is_stored_where(make: Make, why: str) -> None:
    _, h, z = perceptron()
    assert held_shapes(planned(h @ z)), "it would be held otherwise"
    assert not held_shapes(planned(*make(*perceptron()))), why


def test_nothing_is_held_where_a_device_cannot() -> None:
    _, h, z = perceptron()
    assert not held_shapes(planned(h @ z, block_bytes=0))
    assert executor("interpreter").block_bytes == 0


def test_explain_says_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "cpu")
    monkeypatch.setattr(executor("cpu"), "block_bytes", MIB)  # whatever the machine's caches
    _, h, z = perceptron()
    text = lt.explain(h @ z)
    assert "and holds float32[4096, 512]" in text
    assert "only it reads them, and 8,388,608 bytes are never stored" in text


def test_a_checked_computation_stores_all_values() -> None:
    _, h, z = perceptron()
    with lt.check("nan"):
        assert "and holds" not in lt.explain(h @ z)
        np.testing.assert_array_equal((h @ z).numpy(), np.zeros((4096, 64)))


def test_the_text_of_a_kernel_says_what_it_holds() -> None:
    _, h, z = perceptron()
    kernel = only_kernel(planned(h @ z))
    assert read_computation(computation(kernel)) == (kernel.outputs, kernel.inputs)


def test_the_tuner_leaves_a_kernel_in_parts_alone() -> None:
    _, h, z = perceptron()
    assert executor("cpu").candidates(only_kernel(planned(h @ z))) == []


def test_rows_are_in_common_though_other_axes_are_split_and_cut() -> None:
    y = (some(1024, 8, 64) @ some(64, 64)).transpose(1, 2).contiguous()
    turned = (y[:, :32] * 2 + y[:, 32:].flip(1)).reshape(1024, 16, 16)
    made = planned(turned @ some(16, 20), block_bytes=256 * KIB)
    assert (1024, 64, 8) in held_shapes(made)
    arrays = whole(np.random.default_rng(0), only_kernel(made))
    np.testing.assert_array_equal(computed(only_kernel(made), arrays),
                                  computed(only_kernel(made), arrays, "interpreter"))


def test_rows_that_are_merged_with_others_are_not_in_common() -> None:
    y = some(2048, 64) @ some(64, 128)
    made = planned(y.reshape(512, 512) @ some(512, 8), block_bytes=64 * KIB)
    assert not held_shapes(made)
