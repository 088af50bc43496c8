"""Decisions given as text: they read back what DEBUG=3 prints, fit or say why not, and compute the
same values as the code generator's own."""
from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from decided_kernels import LINE, kernels, kernels_of, product, some
from hypothesis import given
from hypothesis import strategies as st

import lazyten as lt
from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.codegen.optimize.candidates import candidates
from lazyten.codegen.optimize.decision_text import parse
from lazyten.codegen.optimize.optimize import decide
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import AVX2
from lazyten.execution.plans import making
from lazyten.ir.kernel import Given, Kernel
from lazyten.storage.device import executor
from lazyten.storage.storage import Buffer
from lazyten.support import observers
from lazyten.tuning import records


@pytest.mark.slow
def test_every_candidate_reads_back_as_it_was_printed() -> None:
    count = 0
    for kernel in kernels():
        sink = merge_ranges(lower(kernel))
        own = decide(sink, AVX2)
        assert parse(str(own), sink, AVX2) == own
        for text in candidates(kernel, AVX2):
            assert str(parse(text, sink, AVX2)) == text
            count += 1
    assert count > 500


def values(kernel: Kernel, device: str, seed: int) -> list[np.ndarray]:  # type: ignore[type-arg]
    """What a kernel computes from small whole numbers."""
    rng = np.random.default_rng(seed)
    inputs = [Buffer.from_numpy(rng.integers(0, 3, size).astype(dtype.compute).astype(dtype.numpy),
                                dtype, device)
              for dtype, size in kernel.inputs]
    outputs = [Buffer(device, o.dtype, o.numel) for o in kernel.outputs]
    program, = executor(device).build([kernel])
    program.launch([b.handle for b in (*outputs, *inputs)])
    return [b.numpy() for b in outputs]


@pytest.mark.slow
@given(data=st.data())
def test_every_candidate_computes_the_same_values(data: st.DataObject) -> None:
    kernel = data.draw(st.sampled_from(kernels()))
    device = executor("cpu")
    lines = device.candidates(kernel)
    for _ in range(3):
        if not lines:
            return
        line = data.draw(st.sampled_from(lines))
        decided = replace(kernel, decisions=Given(line))
        for got, wanted in zip(values(decided, "cpu", 1), values(kernel, "interpreter", 1),
                               strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5, err_msg=line)
        lines = device.candidates(decided)  # walk away from the code generator's own


# ---- what does not fit ---------------------------------------------------------------------------

@pytest.mark.few(12)
@pytest.mark.parametrize(("line", "message"), [
    ("tile(i7:3)", r"tile\(i7:3\): the kernel has no range 'i7'; it has i0 \(extent 24\), i1 \("),
    ("tile(i0:25)", "i0: 25 times 1 lanes are more than its extent, 24"),
    ("tile(i0:4) vector(i0:8)", "i0: 4 times 8 lanes are more than its extent"),
    ("tile(i0:24, i1:33)", "written out 792 times; the limit is 400"),
    ("tile(i0)", "'i0' needs a number, as in i0:4"),
    ("tile(i0:0)", "'0' is not a number of at least 1"),
    ("tile(i0:2, i0:2)", "i0 comes twice"),
    ("tile(i0:2) tile(i1:2)", "tile comes twice"),
    ("tile(r0.1:2)", "tile is for ranges of the output"),
    ("unroll(i0:2)", "unroll for reductions"),
    ("vector(i0:3)", "lanes are a power of two, from 2 to "),
    ("vector(i0:8, i1:8)", r"vector\(i0, i1\): some value depends on all of these"),
    ("vector(i1:8, r0.1:8)", "some value depends on all of these"),
    ("stage(argument 0)", "cannot be packed.*what can be is: argument 1, argument 2"),
    ("stage(argument 1, load 1)", "cannot be packed"),
    ("stage(1)", r"write stage\(argument N\)"),
    ("stage(argument 1) stage(argument 1)", "an operand comes twice"),
    ("outermost(r0.1)", "only ranges of the output"),
    ("block(r0.1:1)", "a block has at least 2 elements"),
    ("block(i0:2)", "only a sum"),
    ("block(r0.1:40)", "a block has at least 2 elements and less than the 40"),
    ("vector(r0.1:8) block(r0.1:16)", "a range with lanes or accumulators of its own"),
    ("tile(i0:24) parallel(i0:1)", "i0 has no loop left"),
    ("parallel(r0.1:1)", "not a range of every output"),
    ("parallel(i0*i0:1)", "i0 comes twice"),
    ("fuse(i0:2)", "there is no such decision; there are tile, unroll, vector"),
    ("as you like", "cannot be read; parts look like"),
    ("vector(i1:8) and more", "and more: cannot be read"),
])
def test_decisions_that_do_not_fit_name_the_part_and_the_place(line: str, message: str) -> None:
    kernel, = kernels_of(some(24, 40) @ some(40, 33))
    name = next(n for n in re.findall(r"r0\.\d", "r0.0 r0.1 r0.2") if n in ranges_named(kernel))
    with pytest.raises(lt.ArgumentError, match=f"(?s)^file:3: .*{message.replace('r0.1', name)}"):
        generate(replace(kernel, decisions=Given(line.replace("r0.1", name), "file:3")), AVX2)


def ranges_named(kernel: Kernel) -> str:
    return generate(kernel, replace(AVX2, vector_bytes=4)).loops


# ---- files ---------------------------------------------------------------------------------------

@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test sees the decisions of another. They are about the cpu's kernels."""
    monkeypatch.setenv("DEVICE", "cpu")
    yield
    records.restore({})
    making.rebuild_plans()


@pytest.mark.slow
def test_a_file_decides_for_the_kernel_it_names(fresh: None, tmp_path: Path) -> None:
    a, b, kernel = product(37)
    path = tmp_path / "decisions.txt"
    records.append(path, kernel, executor("cpu").target_label, LINE, "of a test")
    before, = executor("cpu").build([kernel])
    expected = (a @ b).numpy()
    assert lt.load_decisions(path) == 1
    after, = executor("cpu").build([kernel])
    assert after.describe().startswith(f"{LINE} (given)\n")
    assert not before.describe().startswith(LINE)
    np.testing.assert_allclose((a @ b).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_the_environment_names_files(fresh: None, tmp_path: Path,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = product(38)[2]
    for number, line in enumerate(("plain loops", LINE)):
        records.append(tmp_path / f"{number}.txt", kernel, executor("cpu").target_label, line, "-")
    for order, first in (("01", LINE), ("10", "plain loops")):
        paths = os.pathsep.join(str(tmp_path / f"{n}.txt") for n in order)
        monkeypatch.setenv("LAZYTEN_DECISIONS", paths)
        program, = executor("cpu").build([kernel])
        assert program.describe().startswith(f"{first} (given)\n")


def test_what_was_compiled_before_is_compiled_anew(fresh: None, tmp_path: Path) -> None:
    a, b, kernel = product(39)
    step = lt.jit(lambda x, y: x @ y)
    expected = [step(a, b).numpy() for _ in range(3)][-1]
    seen: list[str] = []

    def look(device: str, plan: observers.Plan) -> None:
        seen.extend(p.describe() for p in plan.programs)

    r = re.search(r"r0\.\d", generate(kernel, AVX2).loops)
    line = f"vector({r[0] if r else '-'}:4)"  # adds in another order
    records.append(tmp_path / "d.txt", kernel, executor("cpu").target_label, line, "-")
    lt.load_decisions(tmp_path / "d.txt")
    got = step(a, b).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    assert got.tobytes() == (a @ b).numpy().tobytes() != expected.tobytes()
    with observers.told(observers.OnRun(look)):
        step(a, b).numpy()
    assert [s.split("\n")[0] for s in seen] == [f"{line} (given)"]


def test_decisions_of_another_target_do_not_count(fresh: None, tmp_path: Path) -> None:
    kernel = product(40)[2]
    records.append(tmp_path / "d.txt", kernel, "cpu-1024x64", LINE, "-")
    lt.load_decisions(tmp_path / "d.txt")
    assert "(given)" not in executor("cpu").build([kernel])[0].describe()


def test_a_key_does_not_depend_on_the_kernels_name() -> None:
    kernel = product(41)[2]
    assert records.key_of(kernel) == records.key_of(replace(kernel, name="other"))
    assert records.key_of(kernel) != records.key_of(product(42)[2])


@pytest.mark.parametrize(("text", "message"), [
    ("# fine\n\nnonsense\n", "d.txt:3: 'nonsense' is not KEY TARGET: DECISIONS"),
    ("0123456789abcdef cpu-32x16\n", "d.txt:1: "),
    *((f"# fine\n0123456789abcdef cpu-32x16: {part}\n", f"d.txt:2: .*{message}")
      for part, message in [
        ("tile(i0:4", "cannot be read"), ("wobble(i1:8)", "there is no such decision"),
        ("tile(i0:4) wobble(i1:8)", "there is no such decision"), ("tile()", "needs a number"),
        ("tile(i0)", "needs a number"), ("tile(x:4)", "'x' is no range"),
        ("vector(i0:0)", "'0' is not a number of at least 1"), ("tile(i0:-3)", "'-3' is not"),
        ("tile(i0:4x)", "'4x' is not"), ("tile(i0:1" + "0" * 5000 + ")", "is not a number"),
        ("tile(i0:2) tile(i1:2)", "tile comes twice"), ("tile(i0:2, i0:3)", "i0 comes twice"),
        ("stage(2)", "write stage"), ("stage(argument x)", "write stage"),
        ("parallel(i0*:4)", "'' is no range"), ("parallel(i0)", "'' is not a number"),
        ("outermost(i0:4)", "'i0:4' is no range"), ("tensor(i0, i1: m16)", "write rows"),
        ("tensor(i0, i1, i1: m16)", "write rows"), ("plain loops tile(i0:4)", "cannot be read"),
        ("tile i0:4", "cannot be read"), ("tile(i0:4) )", "cannot be read")]),
])
def test_a_line_that_cannot_be_read_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "d.txt").write_text(text)
    with pytest.raises(lt.ArgumentError, match=message):
        lt.load_decisions(tmp_path / "d.txt")


@pytest.mark.parametrize("path", [3, None, b"d.txt", 1.5, ["d.txt"], "", "a\0b"], ids=repr)
def test_what_is_no_path_is_named(path: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: lt.load_decisions(path), lambda: lt.dump_kernels(path),
        lambda: lt.load_safetensors(path), lambda: lt.save_safetensors({}, path)]
    if path is not None:
        calls.append(lambda: lt.tune(lambda: None, path=path))
    for call in calls:
        with pytest.raises(lt.LazytenError, match="path"):
            call()


def test_a_closed_file_is_no_path(tmp_path: Path) -> None:
    with (tmp_path / "d.txt").open("w") as file:
        pass
    with pytest.raises(lt.DTypeError, match="give the path of"):
        lt.load_decisions(file)  # type: ignore[arg-type]  # a mistake on purpose


def test_what_cannot_be_written_is_said_before_anything_is_tuned(tmp_path: Path) -> None:
    with pytest.raises(lt.ArgumentError, match="cannot be written"):
        lt.tune(lambda: pytest.fail("called"), path=tmp_path / "none" / "d.txt")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(lt.ArgumentError, match=r"none\.txt.*LAZYTEN_DECISIONS"):
        lt.load_decisions(tmp_path / "none.txt")


def test_a_given_decision_that_does_not_fit_names_file_and_line(fresh: None,
                                                                tmp_path: Path) -> None:
    a, b, kernel = product(43)
    path = tmp_path / "d.txt"
    records.append(path, kernel, executor("cpu").target_label, "tile(i0:99)", "-")
    lt.load_decisions(path)
    with pytest.raises(lt.ArgumentError, match=r"d\.txt:3: i0: 99 times 1 lanes are more"):
        (a @ b).numpy()


def test_a_file_that_breaks_what_is_in_use_is_not_loaded(fresh: None, tmp_path: Path) -> None:
    a, b, kernel = product(44)
    expected = (a @ b).numpy()
    records.append(tmp_path / "d.txt", kernel, executor("cpu").target_label, "tile(i0:99)", "-")
    with pytest.raises(lt.ArgumentError, match=r"d\.txt:3: i0: 99 times"):
        lt.load_decisions(tmp_path / "d.txt")
    np.testing.assert_array_equal((a @ b).numpy(), expected)
    assert "(given)" not in executor("cpu").build([kernel])[0].describe()
