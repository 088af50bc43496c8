"""Orders of pipelines' steps beside PyTorch's."""
from __future__ import annotations

from typing import Any

import pytest

from lazyten.distributed.pipelining.programs import Compute, interleaved


@pytest.mark.torch
def test_interleaved_ranks_compute_in_the_order_of_pytorch() -> None:
    schedules = pytest.importorskip("torch.distributed.pipelining.schedules")
    kinds = {"FORWARD": "forward", "FULL_BACKWARD": "backward"}
    for ranks, chunks, batches in ((1, 2, 3), (2, 2, 4), (4, 2, 10), (4, 3, 8), (4, 2, 3)):
        theirs: Any = object.__new__(schedules.ScheduleInterleaved1F1B)
        rounds = max(1, batches // ranks)
        vars(theirs).update(n_local_stages=chunks, pp_group_size=ranks, _n_microbatches=batches,
                            number_of_rounds=rounds, microbatches_per_round=batches // rounds)
        for rank in range(ranks):
            wanted = [Compute(kinds[a.computation_type.name], a.microbatch_index, a.stage_index)
                      for a in theirs._calculate_single_rank_operations(rank) if a is not None]
            assert interleaved(rank, ranks, chunks, batches) == wanted
