"""Sums of products in every layout: the optimizer packs operands, tiles and vectorizes them, and
the result is NumPy's."""
from __future__ import annotations

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st

import lazyten as lt
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import AVX2
from lazyten.execution.plans.graph import Graph
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import Node, make
from lazyten.ir.ops import Op
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.storage.device import executor

SIZES = st.integers(1, 40) | st.sampled_from([64, 65, 100, 128, 130])


@pytest.mark.slow
@given(m=SIZES, n=SIZES, k=SIZES, batch=st.sampled_from([None, 1, 3]), flips=st.integers(0, 3),
       seed=st.integers(0, 9), double=st.booleans())
@examples(40)
def test_matrix_products_of_any_size_and_transpose_match_numpy(
        m: int, n: int, k: int, batch: int | None, flips: int, seed: int, double: bool) -> None:
    rng = np.random.default_rng(seed)
    lead = () if batch is None else (batch,)
    kind = np.float64 if double else np.float32
    a = rng.normal(size=(*lead, *((k, m) if flips & 1 else (m, k)))).astype(kind)
    b = rng.normal(size=(*lead, *((n, k) if flips & 2 else (k, n)))).astype(kind)
    left, right = lt.tensor(a, device="cpu"), lt.tensor(b, device="cpu")
    if flips & 1:
        left, a = left.mT, a.swapaxes(-1, -2)
    if flips & 2:
        right, b = right.mT, b.swapaxes(-1, -2)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    error = np.abs((left @ right).numpy() - exact)
    assert (error <= scale * k * np.finfo(kind).eps).all()


def product(m: int, n: int, k: int, strides: str) -> Kernel:
    """out[i, j] = sum over k of a[i, k] * b[k, j]; b is stored as (n, k) for 'transposed'."""
    tensors = [lt.rand(m, k, device="cpu").realize(),
               lt.rand(*((n, k) if strides == "transposed" else (k, n)), device="cpu").realize()]
    right = tensors[1].T if strides == "transposed" else tensors[1]
    graph = Graph([(tensors[0] @ right)._storage.value], tensors[0].device)
    inputs = tuple((b.dtype, b.size) for b in graph.buffers)
    output, = [_after_output(n) for n in graph.normalized()]
    return Kernel("product", (output,), inputs)


def _after_output(root: Node) -> Node:
    """The expression with its inputs numbered after the output, as kernels have them."""
    memo: dict[Node, Node] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        todo = [s for s in node.src if s not in memo]
        if todo:
            stack.extend(todo)
            continue
        stack.pop()
        if node.op is Op.BUFFER:
            slot = Slot(node.arg.slot + 1, node.arg.size)
            memo[node] = make(Op.BUFFER, node.dtype, (), slot)
        elif node not in memo:
            memo[node] = make(node.op, node.dtype, tuple(memo[s] for s in node.src), node.arg)
    return memo[root]


def test_an_operand_is_packed_where_its_lanes_are_far_apart_and_read_often() -> None:
    kernel = product(512, 512, 64, "transposed")
    made = generate(kernel, AVX2)
    assert made.entries == (f"{kernel.name}_stage0", kernel.name)
    assert ["stage(" in nest.splitlines()[0] for nest in made.loops.split("\n\n")] == [False, True]


def test_an_operand_is_packed_where_its_rows_would_push_each_other_out_of_the_cache() -> None:
    assert len(generate(product(512, 512, 512, "plain"), AVX2).entries) == 2


def test_nothing_is_packed_where_lanes_are_neighbours_or_read_once() -> None:
    assert len(generate(product(200, 40, 64, "plain"), AVX2).entries) == 1
    assert len(generate(product(1, 512, 64, "transposed"), AVX2).entries) == 1


def test_scratch_memory_is_given_back_after_each_launch() -> None:
    runtime = executor("cpu")
    assert isinstance(runtime, CpuRuntime)
    a, b = lt.rand(512, 64, device="cpu").realize(), lt.rand(512, 64, device="cpu").realize()
    (a @ b.T).realize()
    before = runtime.memory_stats().in_use
    for _ in range(3):
        (a @ b.T).realize()
    assert runtime.memory_stats().in_use == before


@pytest.mark.parametrize("equation", ["bihd,bjhd->bhij", "ijk,jkl->il", "abc,cd->dab"])
def test_contractions_over_several_axes_match_numpy(equation: str) -> None:
    inputs, out = equation.split("->")
    names = inputs.split(",")
    extents = dict(zip("abcdhijkl", (5, 6, 7, 8, 3, 9, 10, 11, 12), strict=True))
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=[extents[c] for c in n]).astype(np.float32) for n in names]
    axes = out + "".join(c for c in sorted(set("".join(names))) if c not in out)
    wide = []
    for n, array in zip(names, arrays, strict=True):
        order = [n.index(c) for c in axes if c in n]
        shape = [extents[c] if c in n else 1 for c in axes]
        t = lt.tensor(array, device="cpu").permute(order).reshape(shape)
        wide.append(t.expand([extents[c] for c in axes]))
    found = (wide[0] * wide[1]).sum(tuple(range(len(out), len(axes)))).numpy()
    np.testing.assert_allclose(found, np.einsum(equation, *arrays), rtol=2e-4, atol=2e-4)
