"""The prediction of benchmarks/scaling.py, of numbers that are known."""
from __future__ import annotations

import pytest

from benchmarks.scaling import LONG, RANKS, Network, Work

NETWORK = Network.of((4.0, 4.0 + (LONG - 1) * 4 / 1e3), (54.0, 54.0 + (LONG - 1) * 8 / 1e3))
# 2 us and 1 GB/s; 50 us, and 1 ns a byte, more


def test_two_ranks_take_what_was_measured() -> None:
    assert NETWORK.latency == pytest.approx(2e-6) and NETWORK.bandwidth == pytest.approx(1e9)
    assert NETWORK.seconds(2, 4 * LONG, 1) == pytest.approx(50e-6 + 4e-6 + 8e-9 * LONG)
    assert NETWORK.seconds(1, 4 * LONG, 1) == 0


def test_a_rank_alone_takes_the_line_through_its_steps() -> None:
    work = Work.of((8, 16, 32), (3e-3, 5e-3, 9e-3), 10 ** 6, 2)
    assert work.step(NETWORK, 1, 64) == pytest.approx(17e-3)
    assert work.step(NETWORK, 4, 8, cores=2) == pytest.approx(
        6e-3 + 2 * (50e-6 + 8e-6) + 1e-3 + 1.5e-3)


def test_more_ranks_take_longer_with_as_much_each_and_gain_less_and_less_together() -> None:
    work = Work(1e-3, 1e-4, 10 ** 6, 1)
    each = [work.step(NETWORK, k, 32) for k in RANKS]
    assert each == sorted(each)
    shared = [work.step(NETWORK, k, 32 / k) for k in (1, 2, 4, 32)]
    assert shared[-1] > 1e-3 and len(RANKS) == 13 and RANKS[-1] == 4096
