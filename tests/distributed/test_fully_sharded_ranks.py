"""fully_shard of several ranks, beside DistributedDataParallel. (Losses beside those of one process
are in test_data_parallel.py.)"""
from __future__ import annotations

import pytest
from ranks import needs_mpi, printed

pytestmark = needs_mpi


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("jit", [False, True])
def test_clipped_and_scaled_gradients_are_those_of_the_whole(size: int, jit: bool) -> None:
    assert printed(size, "fully_sharded:mixed", jit).count("done") == size


@pytest.mark.parametrize("size", [1, 2])
def test_a_unit_computes_in_the_types_of_its_policy(size: int) -> None:
    assert printed(size, "fully_sharded:types").count("done") == size


def test_gradients_of_16_bits_are_means() -> None:
    assert printed(2, "fully_sharded:halves").count("done") == 2


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_class_trains_as_data_parallel_does(size: int) -> None:
    assert printed(size, "fsdp_class:equal").count("done") == size


@pytest.mark.parametrize("size", [1, 2])
def test_the_class_keeps_its_promises(size: int) -> None:
    assert printed(size, "fsdp_class:promises").count("done") == size


@pytest.mark.parametrize("size", [2, 4])
def test_gradients_of_several_backward_passes_are_shared_out_once(size: int) -> None:
    assert printed(size, "fsdp_class:held").count("done") == size


@pytest.mark.parametrize("size", [1, 2])
def test_what_is_held_of_parameters_that_the_next_loss_does_not_reach_is_shared_out(size: int
                                                                                   ) -> None:
    assert printed(size, "fsdp_class:unreached").count("done") == size


@pytest.mark.parametrize("size", [1, 2])
def test_what_is_held_is_shared_out_whichever_forward_came_first(size: int) -> None:
    assert printed(size, "fsdp_class:crossed").count("done") == size
