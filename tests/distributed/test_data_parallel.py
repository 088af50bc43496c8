"""Several ranks with a part of every batch each train as one with the whole does."""
from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ranks import needs_mpi, printed

pytestmark = needs_mpi

NAMED: list[dict[str, Any]] = [
    {"model": name, "jit": jit, "optimizer": optimizer, "bucket_mb": bucket, "accumulate": pieces,
     "zero": zero}
    for name in ("lenet", "gpt") for jit, optimizer, bucket, pieces, zero in (
        (False, "SGD", 25, 1, False), (True, "Adam", 25, 1, True), (True, "SGD", 0.001, 2, False),
        (False, "Adam", 25, 1, True))]
NAMED += [{"model": name, "jit": jit, "optimizer": "Adam", "shard": shard, "reshards": reshards}
          for name in ("lenet", "gpt") for jit, shard, reshards in (
              (False, "layers", True), (True, "layers", True), (True, "all", False))]
SPEC = st.fixed_dictionaries({
    "model": st.just("random"), "widths": st.lists(st.integers(1, 9), min_size=1, max_size=3),
    "layers": st.lists(st.sampled_from(["norm", "ReLU", "Tanh", "GELU"]), min_size=1, max_size=3),
    "batch": st.sampled_from([8, 16]), "jit": st.booleans(), "seed": st.integers(0, 99),
    "optimizer": st.sampled_from(["SGD", "Adam", "AdamW", "RMSprop"]),
    "bucket_mb": st.sampled_from([0.0001, 25])})


def _losses(size: int, specs: list[dict[str, Any]], deterministic: bool = False) -> Any:
    return json.loads(printed(size, "training:losses", specs, deterministic))


@pytest.fixture(scope="module")
def alone() -> Any:
    return _losses(1, NAMED)


@pytest.mark.parametrize(("size", "deterministic"), [(2, False), (4, True)])
def test_lenet_and_a_gpt_learn_as_one_process_does(alone: Any, size: int,
                                                   deterministic: bool) -> None:
    found = _losses(size, NAMED, deterministic)
    np.testing.assert_allclose(found, alone, rtol=1e-9)


@pytest.mark.parametrize(("size", "deterministic"), [(2, True), (4, False)])
def test_some_learn_so_in_the_other_order_of_sums(alone: Any, size: int,
                                                  deterministic: bool) -> None:
    """Which every collective asks for alike: eagerly, in buckets, and in parts, both jitted."""
    some = [0, 6, 12]
    found = _losses(size, [NAMED[i] for i in some], deterministic)
    np.testing.assert_allclose(found, [alone[i] for i in some], rtol=1e-9)


@settings(max_examples=2, suppress_health_check=list(HealthCheck))
@given(specs=st.lists(SPEC, min_size=8, max_size=8))
def test_random_models_learn_as_one_process_does(specs: list[dict[str, Any]]) -> None:
    alone = _losses(1, specs)
    for size, some in ((2, slice(0, 4)), (4, slice(4, 8))):
        np.testing.assert_allclose(_losses(size, specs[some]), alone[some], rtol=1e-7, atol=1e-9)


def test_sums_in_the_order_of_ranks_are_the_same_bits_each_time() -> None:
    assert _losses(4, NAMED[:1], True) == _losses(4, NAMED[:1], True)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("program", ["unused", "halves", "buffers", "sampler", "uneven_norm"])
def test_what_data_parallel_training_promises_holds(size: int, program: str) -> None:
    assert printed(size, f"training:{program}").count("done") == size


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("program", ["hooks", "joins", "strict_join"])
def test_hooks_and_joins_of_data_parallel_training(size: int, program: str) -> None:
    assert printed(size, f"data_parallel:{program}").count("done") == size
