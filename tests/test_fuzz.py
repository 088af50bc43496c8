"""Random programs of tests/fuzz, always the same few hundred; `make fuzz` runs as many as asked."""
from __future__ import annotations

import inspect
import math
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fuzz.campaign import Campaign, Report
from fuzz.children import Settings, run
from fuzz.comparison import differences
from fuzz.generator import TABLES, Generator, with_exactness
from fuzz.libraries import Lazyten, Observation
from fuzz.program import Program, Statement
from fuzz.shrinker import shrink
from fuzz.training import TrainingCampaign, Trainings
from public_functions import OUTSIDE, functions, named
from slow_rows import slow_but

from lazyten.codegen.render import llvm_ops
from lazyten.ir.ops import Op
from lazyten.storage.placement import default_device

SEED, PARTS, PROGRAMS = 0, 12, 25
TRAININGS = 6



@pytest.mark.parametrize("part", slow_but(range(PARTS), 0, 1, 2, 3))
@pytest.mark.parametrize("beside", ["interpreter",
                                    pytest.param("PyTorch", marks=pytest.mark.torch)])
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
def test_random_programs_give_what_the_interpreter_and_pytorch_give(part: int,
                                                                    beside: str) -> None:
    device = default_device() if beside == "interpreter" else "interpreter"
    campaign = Campaign(device, seed=SEED)
    if beside == "interpreter":
        campaign.torch = None
    found = list(campaign.run(range(part * PROGRAMS, (part + 1) * PROGRAMS)))
    assert not found, "\n".join(map(str, found))


@pytest.mark.torch
@pytest.mark.parametrize("part", slow_but(range(6), 0))
@pytest.mark.filterwarnings("ignore")
def test_random_training_programs_give_what_pytorch_gives(part: int) -> None:
    campaign = TrainingCampaign(default_device(), seed=SEED, longest=8)
    found = list(campaign.run(range(part * TRAININGS, (part + 1) * TRAININGS)))
    assert not found, "\n".join(map(str, found))
    # PyTorch refuses one program in five, for writes over what a gradient needs and the like.
    assert campaign.report.beside_torch >= TRAININGS // 2


def test_a_program_depends_on_its_seed_and_number_alone() -> None:
    first, second = Generator(3), Generator(3)
    second.program(1)
    assert first.program(5) == second.program(5) != first.program(6)
    assert Generator(4).program(5) != first.program(5)
    assert Trainings(3).program(5) == Trainings(3).program(5) != Trainings(4).program(5)


@pytest.mark.slow
def test_most_rows_are_reached_in_a_few_hundred_programs() -> None:
    generator = Generator(0)
    reached = {row for number in range(300) for row in generator.program(number).rows}
    assert len(reached) > 150
    assert {"jit", "vmap", "autograd.grad", "sort", "write", "Linear", "autocast"} <= reached
    assert reached & {"backward", "weighted backward", "backward of squares"}


WITHOUT_A_ROW = named("lt", """
    bitwise_not bitwise_or bitwise_right_shift bitwise_xor divide greater
    greater_equal le multiply negative not_equal true_divide
    _sample_dirichlet _standard_gamma

    absolute acosh adjoint arccosh atleast_1d dsplit
    logspace mv nanquantile scalar_tensor split_with_sizes unravel_index vdot
    alias_copy constant_pad_nd empty_strided grid_sampler
    grid_sampler_2d
    grid_sampler_3d histogramdd unsafe_split_with_sizes split_with_sizes_copy view_copy
    as_strided_scatter bartlett_window blackman_window hamming_window hann_window kaiser_window

    cholesky_solve inverse lu lu_solve lu_unpack
    nuclear_norm pinverse svd triangular_solve
    geqrf lobpcg orgqr ormqr pca_lowrank svd_lowrank

    fake_quantize_per_channel_affine fake_quantize_per_tensor_affine

    bernoulli binomial empty normal poisson randint_like norm_except_dim
    alpha_dropout feature_dropout feature_alpha_dropout

    allclose broadcast_shapes equal is_complex is_floating_point is_inference is_nonzero
    is_tensor get_device resolve_neg is_conj is_neg is_same_size is_signed
    """) | named("F", """
    adaptive_avg_pool3d adaptive_max_pool3d
    affine_grid conv_tbc ctc_loss fractional_max_pool2d fractional_max_pool3d
    max_unpool2d max_unpool3d upsample upsample_bilinear upsample_nearest
    adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices
    adaptive_max_pool3d_with_indices fractional_max_pool2d_with_indices
    fractional_max_pool3d_with_indices max_pool1d_with_indices max_pool2d_with_indices
    max_pool3d_with_indices native_channel_shuffle
    lp_pool2d lp_pool3d multilabel_margin_loss
    triplet_margin_with_distance_loss linear_cross_entropy

    alpha_dropout dropout1d dropout2d dropout3d feature_alpha_dropout gumbel_softmax
    multi_head_attention_forward rrelu
    """) | named("Tensor", """
    bitcast byte char cpu new_ones new_tensor sum_to_size type

    new_empty new_empty_strided

    describe dim_order element_size is_pinned is_set_to is_shared new ndimension record_stream
    nelement numpy pin_memory storage untyped_storage""")
"""What random programs write as an operator; what they lack; what NumPy computes; what is random;
what gives no tensor."""


def test_every_function_is_in_random_programs_or_known_not_to_be() -> None:
    """A name for it is enough; what is written in place is as good as the function."""
    words = set(re.findall(r"\w+", " ".join(row.form for _, rows in TABLES.values()
                                            for row in rows)))
    found = {name: inspect.unwrap(f) for name, f in functions().items()}
    reached = {f for name, f in found.items() if name.partition(".")[2] in words}
    missing = {name for name, f in found.items() if name not in OUTSIDE and f not in reached
               and not name.endswith("_")}
    assert missing == WITHOUT_A_ROW, "give a new function a row in tests/fuzz/rows_*.py"


@pytest.mark.slow
def test_a_wrong_instruction_is_found_and_its_program_is_short(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(llvm_ops.ROWS, Op.SQRT, llvm_ops.ROWS[Op.RECIPROCAL])
    campaign = Campaign("cpu", seed=91)
    campaign.torch = None
    found = next(campaign.run(range(200)))
    assert found.libraries == ("interpreter", "cpu")
    assert len(found.program.statements) <= 3


def test_what_is_left_of_a_program_still_fails_and_reads_nothing_unknown() -> None:
    def add(target: str, *operands: str) -> Statement:
        return Statement(target, "{0} + {1}", operands)

    program = Program((Statement("a", "lt.ones(3)"), Statement("b", "lt.zeros(3)"),
                       add("c", "a", "b"), add("d", "c", "c"), add("e", "b", "d")), ("c", "e"))

    def adds_c_to_itself(p: Program) -> bool:
        return any(s.form == "{0} + {1}" and s.operands[0] == s.operands[1] for s in p.statements)

    left = shrink(program, adds_c_to_itself)
    assert [s.target for s in left.statements if s.form == "{0} + {1}"] == ["d"]
    assert Lazyten("interpreter").observe([left])[0].error is None


@pytest.mark.parametrize(("number", "differs"), [(1.1052, True), (1.1051709, False),
                                                 (math.nan, True), (math.inf, True)])
def test_rounding_explains_no_nan_and_nothing_far(number: float, differs: bool) -> None:
    """Where another value is not finite, too."""
    program = Program((Statement("x", "lt.tensor([0.1, float('inf')])"),
                       Statement("y", "{0}.exp()", ("x",), exactness="rough")), ("y",))
    mine, = Lazyten("interpreter").observe([program])
    seen = mine.tensors["y"]
    assert seen is not None
    other = replace(mine, tensors={"y": replace(seen, value=np.array([number, math.inf],
                                                                     np.float32))})
    found = [d.kind for d in differences(program, mine, other)]
    assert found == (["values"] if differs else [])
    swapped = replace(mine, tensors={"y": replace(seen, value=np.array([1.1051709, math.nan],
                                                                       np.float32))})
    assert [d.kind for d in differences(program, mine, swapped)] == ["values"]


def test_sums_of_small_multiples_of_an_eighth_are_exact_and_others_are_not() -> None:
    def exact(numbers: str) -> bool:
        program = Program((Statement("x", f"lt.tensor({numbers})"),
                           Statement("y", "{0}.sum()", ("x",), exactness="sum")), ("y",))
        return "y" in with_exactness(program).exact

    assert exact("[0.125, 3.5, -2.0]") and exact("[1, 2]")
    assert not exact("[0.1, 3.5]") and not exact("[0.125, 3e7]")


class Ending(Lazyten):
    """A device whose driver ends the process at some programs: at cumulative sums."""

    def observe(self, programs: Sequence[Program]) -> list[Observation]:
        if any("cumsum" in p.rows for p in programs):
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().observe(programs)


def ending_campaign(*settings: Any) -> Campaign:
    campaign = Campaign(*settings)
    campaign.torch, campaign.device = None, Ending(campaign.device.name)
    return campaign


@pytest.mark.slow
def test_a_program_that_ends_its_process_is_a_finding_and_the_others_run() -> None:
    fatal = next(n for n in range(2, 200) if "cumsum" in Generator(4).program(n).rows)
    numbers = range(fatal - 1, fatal + 2)
    total = Report()
    settings = Settings("interpreter", seed=4, together=2, make=ending_campaign)
    found = list(run(settings, numbers, lambda done: total.add(done) or True))
    assert {f.number for f in found} == {
        n for n in numbers if "cumsum" in Generator(4).program(n).rows}
    assert all(f.difference.found == "SIGSEGV" and "cumsum" in f.program.rows for f in found)
    assert total.programs == len(numbers)
