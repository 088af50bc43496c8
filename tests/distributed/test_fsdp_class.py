"""FullyShardedDataParallel: what is wrapped, and what is left alone; its ranks are in
test_fully_sharded_ranks.py."""
from __future__ import annotations

from typing import Any

import pytest
from simulated_ranks import Simulated

from lazyten import nn
from lazyten.distributed.fsdp import FullyShardedDataParallel
from lazyten.distributed.fsdp.wrap import CustomPolicy
from lazyten.nn.parallel import ShardedParameter
from lazyten.support.errors import ArgumentError


def _net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))


@pytest.mark.parametrize("kind", [list, iter])
def test_ignored_states_stay_whole_whatever_gives_them(kind: Any) -> None:
    net = _net()
    ignored = net[0].weight
    made = FullyShardedDataParallel(net, Simulated(2), ignored_states=kind([ignored, net[1]]))
    rows = [name for name, p in made.named_parameters() if isinstance(p, ShardedParameter)]
    assert rows == ["0.bias"] and net[0].weight is ignored


def test_an_empty_dict_of_options_is_no_unit() -> None:
    for given, units in ((True, 3), ({"forward_prefetch": True}, 3), ({}, 1), (False, 1)):
        policy = CustomPolicy(lambda m, given=given: given if isinstance(m, nn.Linear) else False)
        made = FullyShardedDataParallel(_net(), Simulated(2), auto_wrap_policy=policy)
        assert len(FullyShardedDataParallel.fsdp_modules(made)) == units


@pytest.mark.parametrize("given", ["FULL_SHARD", 0, ""])
def test_what_is_no_strategy_is_refused(given: Any) -> None:
    with pytest.raises(ArgumentError, match=r"give one of ShardingStrategy\.FULL_SHARD"):
        FullyShardedDataParallel(_net(), Simulated(2), sharding_strategy=given)
