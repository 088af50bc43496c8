"""What ranks tell each other by PyTorch's names: objects, pairs of ranks, groups, and barriers."""
from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np

import lazyten as lt
from lazyten import distributed as dist
from lazyten.distributed import differentiable as D
from lazyten.distributed import functional as F
from rank_programs.refusals import refuse


def objects() -> None:
    """Objects of each rank reach those that are to have them."""
    dist.init(60)
    rank, size = dist.rank(), dist.size()
    mine: dict[str, Any] = {"rank": rank, "words": "ü" * rank, "numbers": [rank] * rank}
    every: list[Any] = [None] * size
    dist.all_gather_object(every, mine)
    assert [e["rank"] for e in every] == list(range(size)) and every[rank] == mine
    dist.all_gather_object(every, lt.full((2,), float(rank)))
    assert [e.tolist() for e in every] == [[float(r)] * 2 for r in range(size)]
    into = [None] * size if rank == 1 else None
    dist.gather_object(rank ** 2, into, dst=1)
    assert into is None or into == [r ** 2 for r in range(size)]
    given = ["a", {1, 2}, None] if rank == 1 else [0, 0, 0]
    dist.broadcast_object_list(given, src=1)
    assert given == ["a", {1, 2}, None]
    place: list[Any] = [None]
    dist.scatter_object_list(place, [f"of {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert place == [f"of {rank}"]
    if rank == 0:
        dist.send_object_list([3, "x"], 1)
    elif rank == 1:
        place = [None, None]
        assert dist.recv_object_list(place, 0) == 0 and place == [3, "x"]
    evens = dist.new_group(range(0, size, 2))
    if rank % 2 == 0:
        every = [None] * evens.size
        dist.all_gather_object(every, rank, group=evens)
        assert every == list(evens.ranks)
    refuse(lambda: dist.all_gather_object([], 1), "a list of 0")
    refuse(lambda: dist.scatter_object_list([], [1] * size), "is empty")
    step = lt.jit(lambda x: (x + 1, dist.all_gather_object(every, [len(calls)])))
    for call in range(3):
        calls, every = [0] * call, [None] * size
        assert step(lt.ones(1))[0].item() == 2.0 and every == [[call]] * size
    dist.barrier()
    print("done")


def unsendable() -> None:
    """An object that cannot be sent is an error of all."""
    dist.init(60)
    try:
        dist.all_gather_object([None] * dist.size(), (i for i in "a") if dist.rank() == 1 else 0)
    except (lt.ArgumentError, lt.DistributedError) as error:
        wanted = "cannot pickle 'generator'" if dist.rank() == 1 else \
            "rank 1 gives what cannot be sent"
        assert wanted in str(error), error
    else:
        raise AssertionError("sent")
    dist.barrier()
    print("done")


def pairs() -> None:
    """Ranks send each other tensors, in the order of both or by tags, and waits are PyTorch's."""
    dist.init(60)
    rank, size = dist.rank(), dist.size()
    after, before = (rank + 1) % size, (rank - 1) % size
    sent, came = lt.full((3,), 1.0 + rank), lt.zeros(3)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, after),
                                    dist.P2POp(dist.irecv, came, before, tag=0)])
    for work in works:
        assert work.wait() and work.is_completed() and work.is_success()
    assert came.tolist() == [1.0 + before] * 3 and works[1].result()[0] is came
    first, second = lt.zeros(1), lt.zeros(2)
    if rank == 0:
        dist.isend(lt.ones(1), 1).wait()
        dist.isend(lt.ones(2) * 2, dst=1, tag=4).wait()
    elif rank == 1:
        dist.irecv(first, src=0)
        dist.irecv(second, src=0, tag=4).wait()
        assert first.tolist() + second.tolist() == [1.0, 2.0, 2.0]
    work = dist.all_reduce(came := lt.ones(2), async_op=True)
    assert work is not None and work.exception() is None
    future = work.get_future().then(lambda f: f.value()[0] / size)
    assert future.wait().tolist() == [1.0, 1.0] and came.tolist() == [size, size]
    if rank == 0:
        sources = {dist.recv(came) for _ in range(size - 1)}
        assert sources == set(range(1, size)) and int(came[0].item()) in sources
    else:
        dist.send(lt.full((2,), float(rank)), group_dst=0)
    refuse(lambda: dist.send(came), "src, dst")
    refuse(lambda: dist.broadcast(came, 0, group_src=0), "and not both")
    refuse(lambda: dist.batch_isend_irecv([dist.P2POp(dist.broadcast, came, 0)]),  # type: ignore[arg-type]
            "P2POp\\(isend")
    dist.barrier()
    print("done")


def uneven() -> None:
    """Lists of tensors of different shapes, and parts of different sizes, with gradients."""
    dist.init(60)
    rank, size = dist.rank(), dist.size()
    shapes = [(r, 2) if r % 2 else (3 - r % 3,) for r in range(size)]
    into = [lt.zeros(s) for s in shapes]
    dist.all_gather(into, lt.full(shapes[rank], 1.0 + rank))
    assert [t.sum().item() for t in into] == [np.prod(s) * (r + 1) for r, s in enumerate(shapes)]
    own = lt.zeros(shapes[rank])
    dist.reduce_scatter(own, [lt.full(s, 1.0 + rank) for s in shapes])
    assert lt.equal(own, lt.full(shapes[rank], size * (size + 1) / 2))
    sent = [lt.full((rank, to + 1), float(10 * rank + to)) for to in range(size)]
    came = [lt.zeros(source, rank + 1) for source in range(size)]
    dist.all_to_all(came, sent)
    assert all((t == 10 * r + rank).all().item() for r, t in enumerate(came))
    refuse(lambda: dist.all_gather(into, lt.zeros(7)), "its place in the list")
    refuse(lambda: dist.all_gather(into[1:], lt.zeros(7)), "one a rank")
    refuse(lambda: F.all_to_all_parts(lt.zeros(4), [1] * size, [2] * size), "must have|itself")
    refuse(lambda: dist.all_gather_into_tensor(lt.zeros(3), lt.zeros(2)), "as many")
    for seed in range(4):
        for jit in (False, True):
            _uneven_slope(seed, jit)
    print("done")


def _uneven_slope(seed: int, jit: bool) -> None:
    """What goes to others and back, some of it nothing, has the gradient of staying here."""
    rank, size = dist.rank(), dist.size()
    counts = np.random.default_rng(seed).integers(0, 3, (size, size))
    if seed == 1:
        counts[:, 0] = 0  # rank 0 gets nothing
    sent, received = counts[rank].tolist(), counts[:, rank].tolist()
    values = np.random.default_rng([seed, rank]).normal(size=(sum(sent), 2))

    def loss(x: lt.Tensor) -> tuple[lt.Tensor, Any]:
        x = x.detach().requires_grad_()
        there = D.all_to_all_single(x.new_zeros(sum(received), 2), x, received, sent)
        back = F.all_to_all_parts((there * (rank + 2)).tanh(), received, sent)
        back.square().sum().backward()
        return back.detach(), x.grad
    found, slope = (lt.jit(loss) if jit else loss)(lt.tensor(values))
    factors = np.repeat(np.arange(size) + 2.0, sent)[:, None]
    wanted = np.tanh(values * factors)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    if len(values):
        np.testing.assert_allclose(slope.numpy(), 2 * wanted * (1 - wanted ** 2) * factors,
                                   rtol=1e-9)


def left() -> None:
    """A job is left and joined again any number of times; what was made in it says so then."""
    for _ in range(300):  # with seven communicators each, more than MPI has
        dist.init(60)
        old = dist.new_group([0, 1])
        dist.destroy()
    world = dist.init(60)
    refuse(lambda: F.all_reduce(lt.ones(1), group=old), "made before destroy")
    step = lt.jit(partial(F.all_reduce, group=world))
    assert [step(lt.ones(1)).item() for _ in range(3)] == [world.size] * 3
    dist.destroy()
    refuse(lambda: step(lt.ones(1)), "made before destroy")
    assert F.all_reduce(lt.ones(1), group=dist.init(60)).item() == world.size
    print("done")


def groups() -> None:
    """Groups by size and by lists, ranks' numbers in them, and barriers with a limit."""
    assert dist.group.WORLD is None
    world = dist.init(60)
    rank, size = dist.rank(), dist.size()
    assert dist.group.WORLD is world is dist.GroupMember.WORLD
    own, every = dist.new_subgroups(2)
    assert own is not None and own.ranks == (rank // 2 * 2, rank // 2 * 2 + 1)
    assert len(every) == size // 2
    assert F.all_reduce(lt.tensor([rank]), group=own).item() == sum(own.ranks)
    some, _ = dist.new_subgroups_by_enumeration([[0, size - 1]])
    assert (some is None) is (rank not in (0, size - 1))
    assert dist.get_group_rank(own, rank) == rank % 2 == dist.get_node_local_rank() % 2
    assert dist.get_global_rank(own, 1) == own.ranks[1]
    if rank < 2:
        pair = dist.new_group([0, 1], backend="gloo", timeout=timedelta(seconds=5),
                              use_local_synchronization=True)
        assert F.all_reduce(lt.ones(1), group=pair).item() == 2.0
    dist.monitored_barrier(timeout=timedelta(seconds=30), wait_all_ranks=True)
    assert world.job.limit == 60
    work = dist.barrier(async_op=True)
    assert work is not None and work.wait()
    refuse(lambda: dist.new_subgroups(3), "divisor")
    refuse(lambda: dist.new_subgroups_by_enumeration([[0], [0]]), "one list at most")
    refuse(lambda: dist.get_group_rank(own, size), "not in the group")
    refuse(lambda: dist.get_global_rank(own, 2), "group of 2")
    refuse(lambda: dist.monitored_barrier(timeout=0), "more than 0")
    dist.barrier()
    print("done")


def differentiable() -> None:
    """PyTorch's collectives with gradients: values, and gradients of the sum over ranks."""
    world = dist.init(60)
    rank, size = dist.rank(), dist.size()
    every = np.random.default_rng(3).integers(-9, 9, (size, size, 4)).astype(float)
    weights = np.random.default_rng(4).integers(-9, 9, (size, size, 4)).astype(float)
    rows = [lt.tensor(row) for row in every[rank]]
    kinds: dict[str, Any] = {
        "all_reduce": (lambda x: D.all_reduce(x), every.sum(0)),
        "mean": (lambda x: D.all_reduce(x, "avg"), every.mean(0)),
        "reduce": (lambda x: D.reduce(x, 1), every.sum(0) if rank == 1 else every[rank]),
        "broadcast": (lambda x: D.broadcast(x, 1), every[1]),
        "all_gather": (lambda x: lt.stack(D.all_gather(x[0])), every[:, 0]),
        "gather": (lambda x: lt.stack(D.gather(x[0], 1)), every[:, 0] * (rank == 1)),
        "scatter": (lambda x: D.scatter(x.unbind(0), 1), every[1, rank]),
        "reduce_scatter": (lambda x: D.reduce_scatter(x[0], x.unbind(0)), every[:, rank].sum(0)),
        "all_to_all": (lambda x: lt.stack(D.all_to_all(rows, x.unbind(0))), every[:, rank]),
        "all_gather_tensor": (lambda x: D.all_gather_tensor(x, 1, world),
                              np.concatenate(list(every), 1)),
        "reduce_scatter_tensor": (lambda x: D.wait_tensor(D.reduce_scatter_tensor(x, "sum", 0)),
                                  every[:, rank:rank + 1].sum(0)),
        "all_to_all_single": (lambda x: D.all_to_all_single_autograd(x, None, None, world),
                              every[:, rank]),
        "uneven": (lambda x: D.all_to_all_single_autograd(
            x, [size * (r == rank) for r in range(size)], [size * (r == rank)
                                                           for r in range(size)], world),
                   every[rank])}
    for name, (kind, wanted) in kinds.items():
        x = lt.tensor(every[rank], requires_grad=True)
        found = kind(x)
        np.testing.assert_array_equal(found.detach().numpy(), wanted, name)
        own = lt.tensor(np.resize(weights[rank], wanted.shape))
        (found * own).sum().backward()
        _check_slope(name, kind, own, every[rank], x)
    print("done")


def _check_slope(name: str, kind: Any, weights: lt.Tensor, values: Any, x: lt.Tensor) -> None:
    """What backward() gave, along a direction of all ranks, is the slope of the sum over them."""
    direction = np.random.default_rng([5, dist.rank()]).integers(-2, 3, values.shape)

    def total(step: float) -> float:
        loss = (kind(lt.tensor(values + step * direction)) * weights).sum()
        return float(F.all_reduce(loss).item())
    assert x.grad is not None
    slope = F.all_reduce((x.grad * lt.tensor(direction)).sum()).item()
    np.testing.assert_allclose(slope, (total(1.0) - total(-1.0)) / 2, rtol=1e-12, atol=1e-9,
                               err_msg=name)
