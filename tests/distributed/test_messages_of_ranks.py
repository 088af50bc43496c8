"""Objects, pairs, groups and collectives with gradients, by PyTorch's names."""
from __future__ import annotations

import pytest
from ranks import needs_mpi, printed

pytestmark = needs_mpi


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("program", ["objects", "unsendable", "pairs", "groups", "differentiable"])
def test_what_ranks_tell_each_other_comes(size: int, program: str) -> None:
    assert printed(size, f"messages:{program}").count("done") == size
