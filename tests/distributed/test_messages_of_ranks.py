"""Objects, pairs, groups and collectives with gradients, by PyTorch's names."""
from __future__ import annotations

import socket

import pytest
from ranks import needs_mpi, printed

pytestmark = needs_mpi


@pytest.mark.torch
@pytest.mark.parametrize("size", [2, 4])
def test_functions_of_pytorchs_names_are_those_of_gloo(size: int) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert printed(size, "beside_gloo:equal", port, [1, 2]).count("done") == size


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("program", [
    "objects", "unsendable", "pairs", "uneven", "groups", "differentiable"])
def test_what_ranks_tell_each_other_comes(size: int, program: str) -> None:
    assert printed(size, f"messages:{program}").count("done") == size


def test_a_job_that_is_left_keeps_nothing_of_mpis_and_its_groups_say_so() -> None:
    assert printed(2, "messages:left").count("done") == 2
