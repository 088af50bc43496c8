"""Launches that are kept, run again, compared and made smaller."""
from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_kernels import leaf
from graphs import SIZES, arrays, expressions
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import lazyten as lt
from lazyten.codegen.targets.generated import Generated
from lazyten.diagnostics import kernel_replay
from lazyten.diagnostics.kernel_replay import compare, main, run
from lazyten.diagnostics.kernel_shrink import shrink
from lazyten.execution.launch_file import Launch, load, save
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, computation, held_values
from lazyten.ir.kernel_text import read_computation
from lazyten.ir.node import Node, const, elementwise, gather, iota, make, reduce, scatter, toposort
from lazyten.ir.ops import IDENTITY_OPS, Op
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.storage.device import BUILT_IN, executor
from lazyten.support.errors import ArgumentError

Array = np.ndarray[Any, Any]


class WrongSubtraction(CpuRuntime):
    """A cpu whose compiler adds floats where it should subtract them."""

    def generate(self, kernels: Any) -> list[Generated]:
        return [replace(g, source=g.source.replace("fsub", "fadd"))
                for g in super().generate(kernels)]


@pytest.fixture(autouse=True)
def _wrong_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUILT_IN, "wrong", f"{__name__}:WrongSubtraction")


def files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def ops_of(launch: Launch) -> list[str]:
    return [n.op.name for n in toposort(launch.kernel.outputs)
            if n.op not in (Op.BUFFER, Op.CONST, Op.RESHAPE)]


# ---- text ----------------------------------------------------------------------------------------

def reads_back(kernel: Kernel) -> None:
    assert read_computation(computation(kernel)) == (kernel.outputs, kernel.inputs)


@pytest.mark.parametrize("dtype", [dt.float32, dt.int8, dt.bool_, dt.bfloat16],
                         ids=lambda d: d.name)
@given(data=st.data())
def test_the_text_of_a_kernel_reads_back(dtype: DType, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(SIZES, min_size=1, max_size=3)))
    node = data.draw(expressions(dtype, [leaf(1, shape, dtype)]))
    assume(not any(n.op in IDENTITY_OPS for n in toposort([node])))  # the schedule leaves none
    reads_back(Kernel("k", (node,), ((dtype, int(np.prod(shape))),)))


def test_the_text_of_every_kind_of_node_reads_back() -> None:
    x, positions = leaf(3, (4, 5), dt.float32), leaf(4, (2, 5), dt.int32)
    numbers = [const(v, dt.float64, (3,)) for v in (float("inf"), -0.0, 1e-300, float("nan"))]
    outputs = (gather(x, 0, positions), scatter(x, 0, positions, leaf(5, (2, 5), dt.float32), None),
               scatter(x, 0, positions, leaf(5, (2, 5), dt.float32), Op.ADD), iota(7),
               elementwise(Op.NOT, const(True, dt.bool_, ())), reduce(x, Op.MAX, (0, 1)), *numbers)
    reads_back(Kernel("k", outputs, ((dt.float32, 20), (dt.int32, 10), (dt.float32, 10))))


@pytest.mark.parametrize("line", ["%1 = FROB %0 : float32[3]", "%1 = NEG %7 : float32[3]",
                                  "%1 = NEG %0 : float32[4]", "%1 = NEG %0 : float[3]",
                                  "%1 = ADD %0 : float32[3]", "import os", "",
                                  "%1 = RESHAPE __import__('os') %0 : float32[3]"])
def test_text_that_is_no_kernel_is_refused_with_its_line(line: str) -> None:
    text = f"%1 from float32[3]\n%0 = BUFFER Slot(slot=1, size=3) : float32[3]\n{line}"
    with pytest.raises(ArgumentError, match=r"the text of a kernel: .* cannot be"):
        read_computation(text)


# ---- keeping -------------------------------------------------------------------------------------

def test_each_launch_is_kept_with_its_inputs_and_runs_again(device: str, tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(6, 7)).astype(np.float32)
    x = lt.tensor(values, device=device)
    with lt.dump_kernels(tmp_path / "kept"):
        first = (x @ x.T).softmax(1).realize()
        second = (x[2:, 1:] + 1).contiguous().realize()
    (x * 3).realize()
    found = [load(f) for f in files(tmp_path / "kept")]
    assert len(found) == 3 and {f.device for f in found} == {device}
    assert_array_equal(run(found[1], device)[0].reshape(6, 6), first.numpy())
    assert_array_equal(run(found[2], device)[0].reshape(4, 6), second.numpy())
    assert str(found[2].kernel.where).startswith("test_kernel_replay.py:")
    for launch in found:
        assert not compare(launch.kernel, run(launch, "cpu"), run(launch, "interpreter"))


def test_what_runs_in_parts_is_kept_without_decisions_and_runs_again(tmp_path: Path) -> None:
    """Attention holds rows of scores, and what is joined has loops for each piece."""
    heads = 1 + 3 * executor("cpu").block_bytes // (512 * 512 * 4)  # more than caches have
    q, k, v = (lt.rand(1, heads, 512, 64, device="cpu").realize() for _ in range(3))
    with lt.dump_kernels(tmp_path):
        attended = lt.nn.functional.scaled_dot_product_attention(q, k, v).numpy()
        joined = lt.cat([q, k, v], 1).numpy()
    *_, attention, joining = (load(file) for file in files(tmp_path))
    assert held_values(attention.kernel.outputs)
    for launch, expected in ((attention, attended), (joining, joined)):
        assert launch.kernel.decisions is None
        assert_array_equal(run(launch, "cpu")[0].reshape(expected.shape), expected)


def test_the_environment_says_where_launches_of_a_jitted_function_go(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = lt.jit(lambda x: x * 2 + 1)
    x = lt.tensor([1.0, 2.0], device="cpu")
    step(x)
    monkeypatch.setenv("LAZYTEN_DUMP", str(tmp_path))
    for _ in range(3):
        assert step(x).tolist() == [3.0, 5.0]
    assert [f.name for f in files(tmp_path)] == [f"0000{i}_map_2.zip" for i in range(3)]
    assert_array_equal(load(files(tmp_path)[2]).inputs[0], [1.0, 2.0])
    with lt.check("nan"):
        for _ in range(3):
            step(x)
    assert [load(f).kernel.checks for f in files(tmp_path)] == [()] * 3 + [("nan",)] * 3


def test_a_file_says_what_ran_and_holds_no_code_to_run(tmp_path: Path) -> None:
    with lt.dump_kernels(tmp_path):
        (lt.arange(100, device="cpu").realize() * 2).realize()
    with zipfile.ZipFile(files(tmp_path)[1]) as archive:
        about = json.loads(archive.read("launch.json"))
        assert archive.read("source.txt").startswith(b"define void @map_100(")
        assert sorted(archive.namelist()) == ["input0.npy", "kernel.txt", "launch.json",
                                              "source.txt"]
    assert about["decisions"].startswith(("tile", "vector")) and about["device"] == "cpu"
    assert about["target"] == executor("cpu").target_label
    assert about["versions"]["lazyten"] == lt.__version__


@pytest.mark.parametrize("content", [b"", b"PK", b"nonsense"])
def test_a_file_that_is_no_launch_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.zip"
    file.write_bytes(content)
    with pytest.raises(ArgumentError, match="is not a launch that lazyten kept"):
        load(file)
    assert main([str(file)]) == 2


# ---- comparing -----------------------------------------------------------------------------------

def test_differences_are_counted_in_units_in_the_last_place() -> None:
    x = leaf(1, (2, 3), dt.float32)
    kernel = Kernel("k", (x,), ((dt.float32, 6),))
    a = np.array([1, 2, -0.0, np.nan, np.inf, 5], np.float32)
    b = a.copy()
    b[2], b[4], b[5] = 0.0, 1.0, np.nextafter(np.float32(5), np.float32(6))
    found, = compare(kernel, [a], [b], exact=True)
    assert found.count == 2 and found.elements[1] == ([1, 2], 5.0, float(b[5]), 1)
    assert found.elements[0][:3] == ([1, 1], np.inf, 1.0)
    assert not compare(kernel, [a], [np.where(np.arange(6) == 4, a, b)])  # one unit is rounding
    assert compare(Kernel("k", (leaf(1, (6,), dt.int32),), ()), [np.arange(6)],
                   [np.arange(6) // 5 * 5])[0].count == 4


# ---- shrinking -----------------------------------------------------------------------------------

def test_a_wrong_op_is_found_and_a_small_launch_written(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    x = lt.tensor(rng.normal(size=(33, 17)).astype(np.float32), device="wrong")
    y = lt.tensor(rng.normal(size=(17,)).astype(np.float32), device="wrong")
    with lt.dump_kernels(tmp_path):
        ((x * 2 - y).relu() + 1).sum(1).realize()
    file, = files(tmp_path)
    small = tmp_path / "small.zip"
    assert main([str(file), "--shrink", str(small)]) == 1
    printed = capsys.readouterr().out
    assert "33 of 33 elements differ, by up to" in printed and "more\n" in printed
    launch = load(small)
    assert ops_of(launch) == ["SUB"] and launch.kernel.outputs[0].numel == 1
    assert main([str(small)]) == 1
    assert "1 of 1 elements differ" in capsys.readouterr().out
    assert main([str(small), "--device", "cpu"]) == 0
    assert "cpu and interpreter agree" in capsys.readouterr().out


def test_what_a_check_finds_shrinks_too(tmp_path: Path) -> None:
    x = lt.tensor(np.linspace(-1, 5, 30).astype(np.float32).reshape(5, 6), device="cpu")
    with lt.dump_kernels(tmp_path), lt.check(), pytest.raises(lt.CheckError):
        ((x + 2).log() * (x + 1).sqrt() / x.relu()).sum(0).realize()
    file, = files(tmp_path)
    assert main([str(file), "--shrink", str(tmp_path / "small.zip")]) == 1
    launch = load(tmp_path / "small.zip")
    assert ops_of(launch) == ["DIV"] and launch.kernel.outputs[0].numel == 1


def trusted(launch: Launch) -> list[Array]:
    return run(launch, "interpreter")


def launch_of(*outputs: Node, inputs: list[Array], dtypes: list[DType]) -> Launch:
    types = tuple((d, v.size) for d, v in zip(dtypes, inputs, strict=True))
    return Launch(Kernel("k", outputs, types), tuple(inputs), "cpu")


FAILURES: dict[str, Callable[[Launch], bool]] = {
    "two ops": lambda made: {"MUL", "EXP"} <= set(ops_of(made)),
    "a size": lambda made: "REDUCE" in ops_of(made)
    and max(n.numel for n in toposort(made.kernel.outputs)) > 20,
    "a value": lambda made: any((v > 2).any() for v in made.inputs),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_launch_shrinks_to_no_more_than_what_fails(failure: str) -> None:
    x, y = leaf(1, (12, 10), dt.float32), leaf(2, (12, 10), dt.float32)
    product = elementwise(Op.MUL, elementwise(Op.EXP, x), y)
    total = reduce(elementwise(Op.ADD, product, elementwise(Op.SIN, y)), Op.ADD, (1,))
    values = [np.linspace(-1, 3, 120).astype(np.float32) for _ in range(2)]
    launch = launch_of(total, inputs=values, dtypes=[dt.float32] * 2)
    small = shrink(launch, FAILURES[failure], trusted)
    assert FAILURES[failure](small)
    largest = max(n.numel for n in toposort(small.kernel.outputs))
    assert (sorted(ops_of(small)), largest) == {
        "two ops": (["EXP", "MUL"], 1), "a size": (["REDUCE"], 22),
        "a value": (["EXP"], 1)}[failure]


@given(data=st.data())
@settings(max_examples=20)
def test_every_launch_on_the_way_can_be_kept_and_run(data: st.DataObject) -> None:
    """Whatever is asked of them, they are kernels like any other."""
    shape = tuple(data.draw(st.lists(SIZES.filter(bool), min_size=1, max_size=3)))
    shape = shape if np.prod(shape) < 500 else (3, 4)
    values = ops.encode(data.draw(arrays(dt.int32, shape)), dt.int32)
    node = data.draw(expressions(dt.int32, [leaf(1, shape, dt.int32)]))
    wanted = data.draw(st.sampled_from([n.op for n in toposort([node])]))
    if not node.numel or not any(n.op is wanted and n.numel for n in toposort([node])):
        return
    launch = launch_of(node, inputs=[values.reshape(-1)], dtypes=[dt.int32])

    def fails(made: Launch) -> bool:
        reads_back(made.kernel)
        assert [v.size for v in made.inputs] == [size for _, size in made.kernel.inputs]
        trusted(made)
        return any(n.op is wanted for n in toposort(made.kernel.outputs))
    small = shrink(launch, fails, trusted)
    assert len(ops_of(small)) <= 1


def test_a_saved_launch_is_the_one_that_is_loaded(tmp_path: Path) -> None:
    node = make(Op.NEG, dt.float16, (leaf(1, (3,), dt.float16),))
    launch = launch_of(node, inputs=[np.arange(3, dtype=np.float16)], dtypes=[dt.float16])
    save(launch, tmp_path / "x.zip")
    again = load(tmp_path / "x.zip")
    assert again.kernel == launch.kernel and again.device == "cpu"
    assert_array_equal(again.inputs[0], launch.inputs[0])
    assert kernel_replay.outcome(again, "cpu", "interpreter", exact=True) == "agrees"
