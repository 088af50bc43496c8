"""Each collective beside NumPy, which has the tensors of all ranks."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import lazyten as lt
from lazyten import distributed as dist
from lazyten.distributed import functional as F
from rank_programs.refusals import refuse

Array = np.ndarray[Any, Any]
FLOATS = ("float64", "float32", "float16", "bfloat16")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "bool")


def _given(dtype: str, shape: tuple[int, ...]) -> list[Array]:
    """The values of each rank, exact in all types."""
    kind = np.float64 if dtype in FLOATS else np.int64
    return [np.random.default_rng([rank, *shape]).integers(0, 2 if dtype == "bool" else 9, shape)
            .astype(kind) for rank in range(dist.size())]


def _same(found: lt.Tensor, wanted: Array) -> None:
    values = found.double().numpy() if found.dtype.is_float else found.long().numpy()
    np.testing.assert_array_equal(values, wanted)


def values(device: str) -> None:
    """All kinds, types and reductions, as they are and in a jitted function."""
    dist.init(60)
    lt.set_default_device(device)
    for dtype in (*FLOATS, *INTEGERS):
        for shape in ((3,), (2, 3), (), (0,)):
            _values(dtype, shape)
    print("done")


def _values(dtype: str, shape: tuple[int, ...]) -> None:
    rank, size = dist.rank(), dist.size()
    every, rows = _given(dtype, shape), _given(dtype, (size, *shape))
    x, y = (lt.tensor(v[rank], dtype=getattr(lt, dtype)) for v in (every, rows))
    folds: dict[str, Callable[..., Array]] = {"max": np.max, "min": np.min}
    if dtype != "bool":
        folds["sum"] = np.sum
    cases: list[tuple[Callable[[], lt.Tensor], Array]] = [
        (lambda: F.all_gather(x), np.stack(every)),
        (lambda: F.all_to_all(y), np.stack([r[rank] for r in rows])),
        (lambda: F.broadcast(x, size - 1), every[-1]),
        (lambda: F.exchange(x, (rank + 1) % size, (rank - 1) % size), every[rank - 1]),
        (lambda: F.exchange(x, rank + 1 if rank + 1 < size else None, rank - 1 if rank else None),
         every[rank - 1] if rank else np.zeros_like(every[0]))]
    for op, fold in folds.items():
        cases += [(lambda op=op: F.all_reduce(x, op), fold(every, 0)),  # type: ignore[misc]
                  (lambda op=op: F.reduce_scatter(y, op),               # type: ignore[misc]
                   fold([r[rank] for r in rows], 0)),
                  (lambda op=op: F.reduce(x, 1, op),                    # type: ignore[misc]
                   fold(every, 0) if rank == 1 else np.zeros_like(every[0]))]
    for call, wanted in cases:
        _same(call(), np.asarray(wanted))
        _same(lt.jit(call)(), np.asarray(wanted))
    if dtype in ("float64", "float32"):
        np.testing.assert_allclose(F.all_reduce(x, "mean").numpy(), np.mean(every, 0), rtol=1e-6)


def special_values() -> None:
    """NaN is the greatest and the least, on whichever rank it is, and infinities count."""
    dist.init(60)
    rank = dist.rank()
    x = lt.tensor([float("nan") if rank == 1 else 1.0, float("inf") if rank == 0 else 2.0])
    for op in ("max", "min", "sum"):
        found = F.all_reduce(x, op).numpy()
        assert np.isnan(found[0]) and found[1] == (np.inf if op != "min" else 2.0), (op, found)
    print("done")


def gradients() -> None:
    """Derivatives of each kind beside finite differences of the sum over all ranks, backwards and
    forwards; and vmap beside one example after the other."""
    dist.init(60)
    rank, size = dist.rank(), dist.size()
    weights = lt.tensor(np.random.default_rng(rank).normal(size=(size, 3)))

    def weighted(kind: Callable[[lt.Tensor], lt.Tensor]) -> Callable[[lt.Tensor], lt.Tensor]:
        return lambda x: (kind(x) * (weights if kind(x).ndim == 2 else weights[0])).square().sum()

    kinds: dict[str, tuple[Callable[[lt.Tensor], lt.Tensor], int]] = {
        "sum": (lambda x: F.all_reduce(x), 1),
        "mean": (lambda x: F.all_reduce(x, "mean"), 1),
        "max": (lambda x: F.all_reduce(x, "max"), 1),
        "min": (lambda x: F.all_reduce(x, "min"), 1),
        "gather": (F.all_gather, 1), "scatter": (F.reduce_scatter, 2),
        "reduce": (lambda x: F.reduce(x, 1), 1), "all": (F.all_to_all, 2),
        "broadcast": (lambda x: F.broadcast(x, 1), 1),
        "exchange": (lambda x: F.exchange(x, (rank + 1) % size, (rank - 1) % size), 1),
        "edge": (lambda x: F.exchange(x, rank + 1 if rank + 1 < size else None,
                                      rank - 1 if rank else None), 1),
        "halo": (lambda x: F.halo(x, -1, 2, 1)[:3], 1)}
    for name, (kind, axes) in kinds.items():
        values = np.random.default_rng(10 + rank).normal(size=(size, 3)[2 - axes:])
        _check_gradient(name, weighted(kind), values)
        x = lt.tensor(np.stack([values, 2 * values, values - 1]))
        whole = lt.vmap(kind)(x).numpy()
        for number in range(3):
            np.testing.assert_allclose(whole[number], kind(x[number]).numpy(), err_msg=name)
        _check_halves(name, kind, (size, 2)[2 - axes:])
    print("done")


def convolutions() -> None:
    """Of an axis that ranks share out, with gradients: those of the whole."""
    dist.init(60)
    rank, size = dist.rank(), dist.size()
    random = np.random.default_rng(0)
    lengths = [3 + r % 2 for r in range(size)]
    rows = slice(sum(lengths[:rank]), sum(lengths[:rank + 1]))
    for before, after, jits in ((1, 1, False), (2, 1, True), (0, 3, True), (3, 0, False)):
        values = random.normal(size=(2, 3, sum(lengths), 5))
        kernel = random.normal(size=(4, 3, before + after + 1, 3))

        def apart(x: lt.Tensor, w: lt.Tensor, before: int = before, after: int = after
                  ) -> lt.Tensor:
            return lt.nn.functional.conv2d(F.halo(x, 2, before, after), w, padding=(0, 1)).tanh()

        def whole(x: lt.Tensor, w: lt.Tensor, before: int = before, after: int = after
                  ) -> lt.Tensor:
            edges = lt.nn.functional.pad(x, (0, 0, before, after))
            return lt.nn.functional.conv2d(edges, w, padding=(0, 1)).tanh()

        wanted = _with_gradients(whole, values, kernel)
        found = _with_gradients(lt.jit(apart) if jits else apart, values[:, :, rows], kernel)
        for a, b in ((found[0], wanted[0][:, :, rows]), (found[1], wanted[1][:, :, rows]),
                     (F.all_reduce(found[2]), wanted[2])):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)
    refuse(lambda: F.halo(lt.ones(2, 3), 0, 3, 0), "3 before and 0 after along axis 0.*at most the "
                                                   "2 that this rank has", lt.ShapeError)
    print("done")


def _with_gradients(call: Callable[..., lt.Tensor], *values: Array) -> list[lt.Tensor]:
    """What it gives, and the gradients of the sum of its squares."""
    given = [lt.tensor(v, requires_grad=True) for v in values]
    result = call(*given)
    return [result.detach(), *lt.autograd.grad(result.square().sum(), given)]


def _check_halves(name: str, kind: Callable[[lt.Tensor], lt.Tensor], shape: tuple[int, ...]
                  ) -> None:
    """Gradients of 16 bits are those of 64 bits, where these are small integers."""
    found = []
    for dtype in (lt.float64, lt.bfloat16, lt.float16):
        x = lt.full(shape, 1.0 + dist.rank(), dtype=dtype, requires_grad=True)
        (kind(x).double() * (2.0 + dist.rank())).sum().backward()
        assert x.grad is not None and x.grad.dtype is dtype
        found.append(x.grad.double().numpy())
    for half in found[1:] if name != "mean" else ():
        np.testing.assert_array_equal(half, found[0], name)


def _check_gradient(name: str, loss: Callable[[lt.Tensor], lt.Tensor], values: Array) -> None:
    x = lt.tensor(values, requires_grad=True)
    loss(x).backward()
    assert x.grad is not None
    backwards, found = x.grad.numpy(), np.zeros_like(values)
    for owner in range(dist.size()):
        for place in np.ndindex(values.shape):
            step = np.zeros_like(values)
            step[place] = 1e-5 if owner == dist.rank() else 0.0
            both = [F.all_reduce(loss(lt.tensor(values + s))).item() for s in (step, -step)]
            slope = (both[0] - both[1]) / 2e-5
            if owner == dist.rank():
                found[place] = slope
            ones = lt.tensor(step / 1e-5)
            forward = lt.func.jvp(loss, (lt.tensor(values),), (ones,))[1]
            total = F.all_reduce(forward).item()
            np.testing.assert_allclose(total, slope, rtol=1e-5, atol=1e-8, err_msg=name)
    np.testing.assert_allclose(backwards, found, rtol=1e-5, atol=1e-8, err_msg=name)


def order() -> None:
    """Ranks look at different results, in different orders, or at none: all is done by all, in the
    order of the program."""
    dist.init(60)
    rank = dist.rank()
    made = []
    for number in range(200):  # more than may wait
        made.append(F.all_reduce(lt.tensor([1.0 * number + rank])))
        F.all_reduce(lt.tensor([1.0, 2.0]), "max")  # nobody has it
        if number % 7 == rank:
            assert made[number // 2].item() == _total(number // 2)
    assert [m.item() for m in (made if rank else made[::-1])] == [
        _total(n) for n in (range(200) if rank else reversed(range(200)))]

    @lt.jit
    def step(x: lt.Tensor) -> lt.Tensor:
        first = F.all_reduce(x)
        second = F.all_reduce(x + 1, "max")
        return first if rank else second  # the other is dropped

    for number in range(6):
        size = dist.size()
        wanted = _total(number) if rank else number + size
        assert step(lt.tensor([1.0 * number + rank])).item() == wanted
    if rank == 0:
        print("done", flush=True)


def _total(number: int) -> float:
    size = dist.size()
    return size * number + size * (size - 1) / 2


def breaks() -> None:
    """A jitted function that ends its trace in the middle does its collectives once, too."""
    dist.init(60)
    rank = dist.rank()

    @lt.jit
    def step(x: lt.Tensor) -> lt.Tensor:
        y = F.all_reduce(x)
        F.all_reduce(x, "max")
        if y.sum().item() > 5:
            y = y * 2
        return F.all_reduce(y) if rank else F.all_reduce(y) + 1

    size = dist.size()
    for _ in range(4):
        wanted = size * (size * 3.0) * (2 if size * 3 > 5 else 1)
        assert step(lt.tensor([3.0])).item() == wanted + (rank == 0)
    print("done")


def groups() -> None:
    """Groups of some ranks, and their own order of ranks."""
    world = dist.init(60)
    rank, size = dist.rank(), dist.size()
    even, odd = (dist.new_group(range(start, size, 2)) for start in (0, 1))
    own = odd if rank % 2 else even
    assert (even.rank == -1) is bool(rank % 2) and own.size == size // 2
    assert own.rank == rank // 2 and world.size == size
    x = lt.tensor([1.0 + rank])
    wanted = sum(1.0 + r for r in range(rank % 2, size, 2))
    assert F.all_reduce(x, group=own).item() == wanted
    assert F.broadcast(x, own.size - 1, own).item() == size - 1 + rank % 2
    assert dist.get_world_size(own) == size // 2 and dist.get_rank(own) == rank // 2
    dist.barrier(own)
    try:
        F.all_reduce(x, group=even if rank % 2 else odd)
    except lt.ArgumentError as error:
        assert "not in the group" in str(error)
    else:
        raise AssertionError("a rank outside takes part")
    dist.destroy()
    print("done")


def in_place() -> None:
    """PyTorch's functions write to what they are given."""
    dist.init_process_group("mpi")
    rank, size = dist.get_rank(), dist.get_world_size()
    every = [np.arange(4.0) * (r + 1) for r in range(size)]

    def own() -> lt.Tensor:
        return lt.tensor(every[rank])

    x = own()
    view = x[1:3]
    assert dist.all_reduce(x) is None
    _same(view, np.sum(every, 0)[1:3])
    x = own()
    work = dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True)
    assert work is not None and work.wait() and work.is_completed()
    _same(x, np.mean(every, 0))
    x = own()
    dist.broadcast(x, src=1)
    _same(x, every[1])
    x = own()
    dist.reduce(x, dst=1, op=dist.ReduceOp.MAX)
    _same(x, every[-1] if rank == 1 else every[rank])
    into = [lt.zeros(4, dtype=lt.float64) for _ in range(size)]
    dist.all_gather(into, own())
    for found, wanted in zip(into, every, strict=True):
        _same(found, wanted)
    whole = lt.zeros(4 * size, dtype=lt.float64)
    dist.all_gather_into_tensor(whole, own())
    _same(whole, np.concatenate(every))
    into = [lt.zeros(4, dtype=lt.float64) for _ in range(size)]
    dist.gather(own(), into if rank == 0 else None, dst=0)
    _same(into[-1], every[-1] if rank == 0 else np.zeros(4))
    x = lt.zeros(4, dtype=lt.float64)
    dist.scatter(x, [lt.tensor(v) for v in every] if rank == 1 else None, src=1)
    _same(x, every[rank])
    x = lt.zeros(4, dtype=lt.float64)
    dist.reduce_scatter(x, [own() + r for r in range(size)])
    _same(x, np.sum(every, 0) + rank * size)
    x = lt.zeros(2, dtype=lt.float64)
    dist.reduce_scatter_tensor(x, lt.tensor(np.arange(2.0 * size)))
    _same(x, size * np.arange(2.0 * size)[2 * rank:2 * rank + 2])
    x = lt.zeros(size, dtype=lt.int64)
    dist.all_to_all_single(x, lt.arange(size) + 10 * rank)
    _same(x, rank + 10 * np.arange(size))
    if rank == 0:
        dist.send(own(), 1)
    elif rank == 1:
        x = own()
        assert dist.recv(x, 0) == 0
        _same(x, every[0])
    dist.barrier()
    dist.destroy_process_group()
    assert not dist.is_initialized()
    print("done")
