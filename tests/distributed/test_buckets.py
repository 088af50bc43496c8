"""Gradients travel in buckets of a size that follows from what collectives of a group cost."""
from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ranks import needs_mpi, printed
from simulated_ranks import Simulated

import lazyten as lt
from lazyten import nn
from lazyten.distributed import link
from lazyten.distributed.link import LONG, SHORT, SMALL_SHARE, Link

LINKS = st.builds(Link, st.floats(1e-7, 1e-2), st.floats(1e6, 1e12), st.floats(0.01, 1))
TOTALS = st.integers(1, 1 << 36)


def _behind(cost: Link, total: int, bucket: float) -> float:
    """Seconds of a step that are not behind its computing."""
    return total / bucket * cost.latency + (1 - cost.hidden) * total / cost.bandwidth \
        + cost.hidden * bucket / cost.bandwidth


@given(LINKS, TOTALS)
def test_no_other_size_is_better_by_more_than_a_power_of_two_explains(cost: Link,
                                                                      total: int) -> None:
    chosen, largest = cost.bucket(total), cost.latency * cost.bandwidth / SMALL_SHARE
    assert chosen == 2 ** round(math.log2(chosen))
    assert chosen <= max(1, math.sqrt(2) * largest) * (1 + 1e-9)
    for power in range(40):
        if 2 <= 2 ** power <= largest:
            assert _behind(cost, total, chosen) <= 1.0607 * _behind(cost, total, 2 ** power)


def test_buckets_of_some_known_links() -> None:
    fast = Link(16e-6, 2 ** 36)  # 2**20 bytes a latency, or about
    assert fast.bucket(1 << 20) == 1 << 20
    assert fast.bucket(1 << 28) == 1 << 24
    assert Link(16e-6, 2 ** 36, 0.25).bucket(1 << 28) == 1 << 25
    assert Link(16e-6, 2 ** 36, 0.0).bucket(1 << 10) == Link(16e-6, 2 ** 36, 0.0).bucket(1 << 34)
    assert Link(1e-9, 1.0).bucket(1) == 1


def test_a_link_is_the_line_through_two_all_reduces() -> None:
    found = Link.of(1e-5, 1e-5 + 4 * (LONG - SHORT) / 1e9)
    assert found.latency == 1e-5 and math.isclose(found.bandwidth, 1e9)
    assert math.isfinite(Link.of(2.0, 1.0).bandwidth)  # a long one that was luckier


def _net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8).double())


@pytest.mark.parametrize(("latency", "sizes"), [
    (1e-9, [[8], [64], [8], [64], [8], [64]]), (1.0, [[8, 64], [8, 64, 8, 64]])])
def test_a_module_has_buckets_as_its_group_measured(monkeypatch: pytest.MonkeyPatch,
                                                    latency: float, sizes: list[list[int]]) -> None:
    """The last layer's first; and each of one type."""
    monkeypatch.setattr(link, "measured", lambda group, device: Link(latency, 1e6))
    ddp = nn.parallel.DistributedDataParallel(_net(), process_group=Simulated())
    assert [[p.numel() for p in bucket] for bucket in ddp._buckets()] == sizes


def test_a_size_that_is_given_is_taken_and_nothing_measured(monkeypatch: pytest.MonkeyPatch
                                                            ) -> None:
    monkeypatch.delattr(link, "measured")
    ddp = nn.parallel.DistributedDataParallel(nn.Linear(8, 8), process_group=Simulated(),
                                              bucket_cap_mb=25)
    assert len(list(ddp._buckets())) == 1
    nn.parallel.DistributedDataParallel(nn.Linear(8, 8), process_group=Simulated(size=1, rank=0))


def test_a_group_is_measured_once() -> None:
    group = Simulated()
    found = link.measured(group, "cpu")
    assert group.log.count("all_reduce") > 10
    group.log.clear()
    assert link.measured(group, "cpu") == found and "all_reduce" not in group.log
    assert found.latency > 0 and found.bandwidth > 0 and 0 <= found.hidden <= 1


def test_a_jitted_function_does_not_measure() -> None:
    @lt.jit(fullgraph=True)
    def make(x: lt.Tensor) -> lt.Tensor:
        link.measured(Simulated(), "cpu")
        return x + 1
    with pytest.raises(lt.JitError, match="bucket_cap_mb"):
        make(lt.tensor(np.ones(2)))


@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
def test_all_ranks_choose_the_same(size: int) -> None:
    assert printed(size, "data_parallel:buckets").count("done") == size
