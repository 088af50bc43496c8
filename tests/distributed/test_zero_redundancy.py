"""ZeroRedundancyOptimizer: the numbers of the optimizer whole, with a part of its state a rank."""
from __future__ import annotations

import json
from typing import Any

import pytest
from ranks import needs_mpi, printed
from simulated_ranks import Simulated

import lazyten as lt
from lazyten.distributed.optim import ZeroRedundancyOptimizer
from lazyten.nn import Parameter


@needs_mpi
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(("name", "jit", "skips"), [
    ("SGD", True, True), ("Adam", False, False), ("Adam", True, True), ("LAMB", False, True),
    ("own", False, False), ("own", True, False)])
def test_it_learns_as_the_optimizer_whole(size: int, name: str, jit: bool, skips: bool) -> None:
    assert printed(size, "zero:equal", name, jit, skips).count("done") == size


@needs_mpi
@pytest.mark.parametrize(("size", "most"), [(2, 0.55), (4, 0.5)])
def test_each_rank_has_a_part_of_the_state(size: int, most: float) -> None:
    """Two numbers a parameter of Adam; with 4 ranks the largest parameter is half of all."""
    elements, parameters = json.loads(printed(size, "zero:memory", "Adam"))
    assert sum(elements) == 2 * parameters
    assert max(elements) <= most * 2 * parameters


@needs_mpi
@pytest.mark.parametrize(("size", "to"), [(1, 0), (2, 1), (4, 0)])
def test_a_state_is_collected_and_loaded(size: int, to: int) -> None:
    assert printed(size, "zero:saving", to).count("done") == size


def _parameters() -> list[Parameter]:
    return [Parameter(lt.ones(n)) for n in (3, 5, 4)]


def _shared(**options: Any) -> ZeroRedundancyOptimizer:
    return ZeroRedundancyOptimizer(_parameters(), process_group=Simulated(2, 1),
                                   **{"optimizer_class": lt.optim.Adam, **options})


def test_the_largest_parameters_are_shared_out_first() -> None:
    optimizer = _shared(lr=0.1)
    for p in optimizer.param_groups[0]["params"]:
        p.grad = lt.ones_like(p)
    optimizer.step()
    assert [p.numel() for p in optimizer.state] == [3, 4]
    assert all(p.grad is not None for p in optimizer.param_groups[0]["params"])
    more = Parameter(lt.ones(2))
    optimizer.add_param_group({"params": [more], "lr": 0.5})
    more.grad = lt.ones_like(more)
    optimizer.step()
    assert more not in optimizer.state and optimizer.param_groups[1]["betas"] == (0.9, 0.999)


@pytest.mark.parametrize(("options", "words"), [
    ({"optimizer_class": lt.optim.LBFGS}, "LBFGS needs the gradients of all"),
    ({"optimizer_class": lt.ones}, "give a class of optimizers"),
    ({"overlap_with_ddp": True}, "overlap_with_ddp"), ({"lr": -1}, "lr=-1")])
def test_what_cannot_be_shared_out_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(lt.ArgumentError, match=words):
        _shared(**options)


def test_a_refused_group_is_not_there() -> None:
    optimizer = _shared()
    with pytest.raises(lt.ArgumentError, match="lr=-1"):
        optimizer.add_param_group({"params": [Parameter(lt.ones(1))], "lr": -1})
    assert len(optimizer.param_groups) == 1
    with pytest.raises(lt.ArgumentError, match="give 0 to 1"):
        optimizer.consolidate_state_dict(2)


def test_it_is_found_where_pytorch_has_it() -> None:
    assert lt.distributed.optim.ZeroRedundancyOptimizer is ZeroRedundancyOptimizer
