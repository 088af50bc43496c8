"""Collectives of several processes: values, derivatives, and that all ranks do all of them."""
from __future__ import annotations

import pytest
from ranks import needs_mpi, printed

pytestmark = needs_mpi


@pytest.mark.parametrize("size", [2, 4])
def test_collectives_are_those_of_numpy_in_all_types(size: int, device: str) -> None:
    assert printed(size, "collectives:values", device).count("done") == size


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("program", ["special_values", "gradients", "convolutions", "in_place",
                                     "breaks"])
def test_what_collectives_promise_holds(size: int, program: str) -> None:
    assert printed(size, f"collectives:{program}").count("done") == size


@pytest.mark.parametrize("size", [2, 4])
def test_ranks_that_look_at_different_results_do_the_same(size: int) -> None:
    assert printed(size, "collectives:order").count("done") == 1


def test_groups_have_their_own_ranks() -> None:
    assert printed(4, "collectives:groups").count("done") == 4
