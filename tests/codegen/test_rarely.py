"""What is rarely asked for is computed behind a branch, and each lane has its own choice."""
from __future__ import annotations

import re

import numpy as np
import pytest
from cross_kernels import kernels_of

import lazyten as lt
from lazyten.codegen.instructions.instructions import (
    Block,
    Carried,
    Compute,
    Constant,
    Function,
    Instruction,
    Loop,
    Splat,
    Value,
)
from lazyten.codegen.loops.lower import lower
from lazyten.codegen.loops.ranges import merge_ranges
from lazyten.codegen.model.arithmetic import units, usual_and_rare
from lazyten.codegen.optimize.optimize import decide
from lazyten.codegen.pipeline import generate
from lazyten.codegen.render.rarely import seldom, users_of
from lazyten.codegen.targets.target import AVX2, Target
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import elementwise, make
from lazyten.ir.ops import Op

LARGE = np.array([3e5, 2.0**20, 2.0**20 + 1, 2.0**21, 1e7, 1e30, -1e12, np.inf], np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 7, 64, 1000])
def test_large_arguments_among_others_change_no_other_lane(device: str, count: int,
                                                           dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-50, 50, count)
    mixed = np.where(rng.random(count) < 0.1, rng.choice(LARGE, count), x).astype(dtype)
    for function in (lt.sin, lt.cos, lt.tan):
        alone = np.array([function(lt.tensor([v], device=device)).numpy()[0] for v in mixed[:64]])
        found = function(lt.tensor(mixed, device=device)).numpy()
        np.testing.assert_array_equal(found[:64], alone)
        with np.errstate(invalid="ignore"):
            exact = getattr(np, function.__name__)(mixed.astype(np.float64))
        np.testing.assert_allclose(found, exact, 3e-7 if dtype == "float32" else 1e-15)


def test_a_sum_of_sines_has_branches_in_its_loop(device: str) -> None:
    x = np.resize(np.concatenate([np.linspace(-9, 9, 100), LARGE[:7]]), (37, 300))
    x = x.astype(np.float32)
    found = lt.tensor(x, device=device).sin().sum(1).numpy()
    np.testing.assert_allclose(found, np.sin(x.astype(np.float64)).sum(1), 1e-4)


def text(target: Target) -> str:
    x = make(Op.BUFFER, dt.float32, (), Slot(1, 1024))
    return generate(Kernel("sine", (elementwise(Op.SIN, x),), ((dt.float32, 1024),)), target).source


def test_only_the_usual_reduction_stands_before_the_branch_of_llvm() -> None:
    before, rare, after = re.split(r"\n(?:rare|usual)\d+:\n", text(AVX2), maxsplit=2)
    assert "br i1" in before and before.count("fmul") == 1
    assert rare.count("llvm.fmuladd") == 7
    assert after.count("phi <8 x double>") == 1


def test_only_the_usual_reduction_stands_before_the_branch_of_c() -> None:
    c = Target("c", 4, 16, language="c", most_lanes=1)
    before, rare, after = re.split(r"if \(x\d+\) \{|\n {4,}\}", text(c), maxsplit=2)
    assert [part.count("mulacc(") for part in (before, rare, after)] == [0, 7, 6]


def test_what_is_rare_takes_no_time_but_to_compile() -> None:
    x = make(Op.BUFFER, dt.float32, (), Slot(1, 1 << 17))
    sine, power = elementwise(Op.SIN, x), elementwise(Op.EXP2, x)
    assert usual_and_rare(sine, AVX2, 4)[1] > units(sine, AVX2, 4) > 0.0
    assert usual_and_rare(power, AVX2, 4)[1] == 0.0
    z = lt.rand(16384).realize()
    total, = kernels_of((z.sin() * (z + 1).sin() * (z + 2).cos()).sum())
    # four accumulators would save little, and take LLVM twice as long
    assert str(decide(merge_ranges(lower(total)), AVX2)) == "unroll(r0.0:2) vector(r0.0:8)"


# ---- which instructions --------------------------------------------------------------------------

def value(i: int) -> Value:
    return Value(i, dt.float32, 1)


def op(out: int, op: Op, *args: int) -> Compute:
    return Compute(value(out), op, tuple(map(value, args)))


def owned(*items: Instruction) -> dict[int, list[int]]:
    """Of each RARELY of the outermost block, the numbers of what only it needs."""
    function = Function("test", (), Block(0, list(items)))
    return {out.id: [i.out.id for i in branch.items if isinstance(i, Compute | Splat)]
            for out, branch in seldom(function.body, users_of(function)).items()}


def test_what_only_the_second_operand_needs_is_found_in_order() -> None:
    assert owned(op(2, Op.NEG, 0), op(3, Op.EXP2, 2), op(4, Op.ADD, 2, 3),
                 op(9, Op.RARELY, 1, 4, 0)) == {9: [2, 3, 4]}


def test_what_others_need_as_well_is_not() -> None:
    assert owned(op(2, Op.NEG, 0), op(3, Op.EXP2, 2), op(9, Op.RARELY, 1, 3, 2)) == {9: [3]}
    assert owned(op(2, Op.NEG, 0), op(3, Op.EXP2, 2), op(9, Op.RARELY, 1, 3, 0),
                 op(10, Op.ADD, 9, 3)) == {9: []}
    assert owned(op(2, Op.NEG, 0), op(8, Op.RARELY, 1, 2, 0), op(9, Op.RARELY, 4, 2, 0)) == {
        8: [], 9: []}
    assert owned(op(2, Op.NEG, 0), op(3, Op.CMPLT, 2, 0), op(9, Op.RARELY, 3, 2, 0)) == {9: []}


def test_what_a_loop_needs_is_not() -> None:
    inner = Block(1, [op(20, Op.ADD, 21, 2)])
    carried = Carried(value(21), value(3), value(20), value(22))
    loop = Loop(Value(30, dt.INDEX, 1), 4, inner, (carried,))
    assert owned(op(2, Op.NEG, 0), op(3, Op.EXP2, 0), op(4, Op.ADD, 2, 3), op(5, Op.NEG, 4),
                 op(9, Op.RARELY, 1, 5, 0), loop) == {9: [4, 5]}


def test_the_first_of_two_branches_of_a_condition_has_what_both_need() -> None:
    items = [op(2, Op.NEG, 0), op(3, Op.EXP2, 2), op(4, Op.NEG, 3), op(8, Op.RARELY, 1, 4, 0),
             op(5, Op.ADD, 3, 2), op(9, Op.RARELY, 1, 5, 8)]
    assert owned(*items) == {8: [2, 3, 4], 9: [5]}
    function = Function("test", (), Block(0, list(items)))
    assert {v.id for v in seldom(function.body, users_of(function))[value(8)].shared} == {2, 3}


def test_a_branch_inside_another_shares_nothing_with_those_outside() -> None:
    assert owned(op(2, Op.NEG, 0), op(7, Op.RARELY, 1, 2, 0), op(3, Op.NEG, 7),
                 op(8, Op.RARELY, 4, 3, 0), op(9, Op.RARELY, 1, 2, 0)) == {7: [], 8: [7, 3], 9: []}


def test_one_inside_another_has_its_own() -> None:
    assert owned(Constant(value(1), 1.0), op(2, Op.NEG, 0), op(3, Op.EXP2, 2),
                 op(8, Op.RARELY, 1, 3, 0), op(4, Op.NEG, 8), op(9, Op.RARELY, 1, 4, 0)) == {
        8: [2, 3], 9: [8, 4]}
