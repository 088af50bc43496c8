"""Collectives that GPUs carry out themselves: the cuda runtime on drivers made for tests."""
from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import cuda_on_cpu
import fake_nccl
import numpy as np

import lazyten as lt
from lazyten import distributed as dist
from lazyten.distributed import functional as F
from lazyten.distributed.state import world
from lazyten.runtimes.cuda import nccl

Array = np.ndarray[Any, Any]
TYPES = ("float32", "float64", "int32", "int64", "uint8", "bool", "int16")
OWN = ("all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "send", "recv")


def _joined(limit: float = 60, deterministic: bool = False) -> tuple[int, int]:
    """This rank and how many there are; new tensors are on the GPU."""
    cuda_on_cpu.register()
    fake_nccl.install()
    nccl.api.cache_clear()
    dist.init(limit, deterministic)
    lt.set_default_device(cuda_on_cpu.NAME)
    return dist.rank(), dist.size()


def _done() -> list[str]:
    """What NCCL was asked to carry out since it was last asked for."""
    found = [call for call in fake_nccl.calls if call in OWN]
    fake_nccl.calls.clear()
    return found


def _given(dtype: str, shape: tuple[int, ...], size: int) -> list[Array]:
    return [np.random.default_rng([rank, *shape]).integers(0, 2 if dtype == "bool" else 9, shape)
            .astype(dtype) for rank in range(size)]


def values() -> None:
    """All kinds beside NumPy, and by whom they are done."""
    rank, size = _joined()
    for dtype in TYPES:
        for shape in ((3,), (2, 3), (0,)):
            _values(dtype, shape, rank, size)
    many = F.together("all_reduce", [lt.tensor([1.0 * rank]), lt.tensor([2.0, 3.0])], world())
    assert [m.tolist() for m in many] == [[size * (size - 1) / 2], [2.0 * size, 3.0 * size]]
    assert _done() == ["all_reduce"] * 2
    many = F.together("broadcast", [lt.tensor([1.0 * rank]), lt.tensor([rank + 3.0] * 2)],
                      world(), 1)
    assert [m.tolist() for m in many] == [[1.0], [4.0, 4.0]]
    assert _done() == ["broadcast"] * 2
    print("done")


def _values(dtype: str, shape: tuple[int, ...], rank: int, size: int) -> None:
    every, rows = _given(dtype, shape, size), _given(dtype, (size, *shape), size)
    x, y = lt.tensor(every[rank]), lt.tensor(rows[rank])
    both = ["send", "recv"] * size if x.numel() else []
    has = x.numel() > 0

    def one(name: str) -> list[str]:
        return [name] if has else []
    cases: list[tuple[Callable[[], lt.Tensor], Array, list[str]]] = [
        (lambda: F.all_gather(x), np.stack(every), one("all_gather")),
        (lambda: F.all_to_all(y), np.stack([r[rank] for r in rows]), both),
        (lambda: F.broadcast(x, size - 1), every[-1], one("broadcast")),
        (lambda: F.exchange(x, (rank + 1) % size, (rank - 1) % size), every[rank - 1], [])]
    by_nccl = dtype not in ("bool", "int16")
    folds: dict[str, Callable[..., Array]] = {"max": np.max, "min": np.min}
    if dtype != "bool":
        folds["sum"] = np.sum
    for op, fold in folds.items():
        here = by_nccl and (op == "sum" or not dtype.startswith("float"))
        total = fold(every, 0).astype(dtype)
        cases += [(lambda op=op: F.all_reduce(x, op), total,  # type: ignore[misc]
                   one("all_reduce") if here else []),
                  (lambda op=op: F.reduce_scatter(y, op),  # type: ignore[misc]
                   fold([r[rank] for r in rows], 0).astype(dtype),
                   one("reduce_scatter") if here else []),
                  (lambda op=op: F.reduce(x, 1, op),  # type: ignore[misc]
                   total if rank == 1 else np.zeros_like(total), one("reduce") if here else [])]
    for call, wanted, names in cases:
        np.testing.assert_array_equal(call().numpy(), wanted)
        assert _done() == names, (dtype, shape, names)


def parts() -> None:
    """Rows of different numbers for each rank."""
    rank, size = _joined()
    sent = [(rank + other) % 3 for other in range(size)]  # what comes is the same
    own = np.concatenate([np.full((n, 2), 10.0 * rank + other) for other, n in enumerate(sent)])
    wanted = np.concatenate([np.full((n, 2), 10.0 * other + rank) for other, n in enumerate(sent)])
    for _ in range(2):
        found = F.all_to_all_parts(lt.tensor(own), sent, sent)
        np.testing.assert_array_equal(found.numpy(), wanted)
        assert sorted(_done()) == sorted(["send", "recv"] * sum(n > 0 for n in sent))
    print("done")


def order() -> None:
    """What is computed before is there, and what is computed afterwards waits, eagerly and in a
    jitted function."""
    rank, size = _joined()

    def step(x: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        y = F.all_reduce(x * 2 + 1)
        beside = x - 3  # needs nothing of it
        return F.all_gather(y + 1).sum(0) + beside, beside

    jitted = lt.jit(step)
    for number in range(7):
        for call in (step, jitted):
            values = np.arange(4.0, dtype=np.float32) + number
            found, beside = call(lt.tensor(values + rank))
            every = [2 * (values + r) + 1 for r in range(size)]
            np.testing.assert_array_equal(
                found.numpy(), size * (np.sum(every, 0) + 1) + values + rank - 3)
            np.testing.assert_array_equal(beside.numpy(), values + rank - 3)
            assert _done() == ["all_reduce", "all_gather"]
    print("done")


def gradients() -> None:
    """Derivatives are those of the collectives that MPI carries out."""
    rank, size = _joined()
    values = np.random.default_rng(rank).normal(size=(size, 3))
    found = []
    for device in (cuda_on_cpu.NAME, "cpu"):
        for kind in (F.all_reduce, F.all_gather, F.reduce_scatter, F.all_to_all,
                     lambda x: F.broadcast(x, 1), lambda x: F.reduce(x, 1)):
            x = lt.tensor(values, device=device, requires_grad=True)
            (kind(x) * (2.0 + rank)).square().sum().backward()
            assert x.grad is not None
            found.append(x.grad.numpy())
    for here, there in zip(found[:6], found[6:], strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-12)
    assert len(_done()) > 6
    print("done")


def deterministic() -> None:
    """Sums in the order of ranks are the host's."""
    _, size = _joined(deterministic=True)
    assert F.all_reduce(lt.tensor([1.0])).item() == size and _done() == []
    assert F.all_gather(lt.tensor([1.0])).tolist() == [[1.0]] * size and _done() == ["all_gather"]
    print("done")


def mixed() -> None:
    """A rank whose values are not on a GPU has all of them go by MPI; groups are joined one by
    one, and the GPUs leave at the end."""
    rank, size = _joined()
    for number in range(4):
        device = "cpu" if rank == 1 and number != 2 else cuda_on_cpu.NAME
        x = lt.tensor([1.0 * rank + number], device=device)
        assert F.all_reduce(x).item() == size * number + size * (size - 1) / 2
        assert _done() == (["all_reduce"] if number == 2 else [])
    pair = dist.new_group([0, 1])
    if pair.rank >= 0:
        assert F.all_reduce(lt.tensor([1.0]), group=pair).item() == 2.0
        assert _done() == ["all_reduce"]
    fake_nccl.calls.clear()
    dist.destroy()
    assert fake_nccl.calls == ["comm_destroy"] * (2 if rank < 2 else 1)
    print("done")


def alone() -> None:
    """One rank, as LAZYTEN_NCCL=1 asks."""
    rank, size = _joined()
    assert (rank, size) == (0, 1)
    x = lt.tensor([1.0, 2.0])
    assert F.all_reduce(x).tolist() == [1.0, 2.0] and F.all_to_all(x[None]).tolist() == [[1.0, 2.0]]
    assert F.all_reduce(x, "max").tolist() == [1.0, 2.0]
    assert _done() == ["all_reduce", "send", "recv"]
    print("done")


def by_the_host(case: str) -> None:
    """Where GPUs cannot be joined, values go by the host as before."""
    os.environ["DEBUG"] = "1"
    cuda_on_cpu.register()
    if case == "shared":
        cuda_on_cpu.driver().fake_share_gpu()
    if case == "off":
        os.environ["LAZYTEN_NCCL"] = "0"
    if case == "required":
        os.environ["LAZYTEN_NCCL"] = "1"
        cuda_on_cpu.driver().fake_share_gpu()
    rank, size = _joined()
    if case == "missing" and rank == 1:
        nccl.api.cache_clear()
        nccl.api = lambda: "nccl4py is not installed"  # type: ignore[assignment]
    for _ in range(2):
        assert F.all_reduce(lt.tensor([1.0])).item() == size
    assert _done() == []
    print("done")


def fail(case: str) -> None:
    """Do what `case` says on rank 1."""
    rank, _ = _joined(3)
    x = lt.tensor([1.0, 2.0])
    if case == "init" and rank == 1:
        fake_nccl.failing["comm_init_rank"] = "NCCL_ERROR_SYSTEM_ERROR"
    F.all_reduce(x).numpy()
    fake_nccl.calls.clear()
    if case == "call" and rank == 1:
        fake_nccl.failing["all_reduce"] = "NCCL_ERROR_UNHANDLED_CUDA_ERROR"
    if case in ("stuck", "asynchronous"):
        fake_nccl.stuck.append("all")
    if case == "asynchronous" and rank == 1:
        fake_nccl.asynchronous.append(6)
    if case == "mismatch":
        F.all_gather(x).numpy() if rank else F.all_reduce(x).numpy()
    if case == "root":
        F.broadcast(x, rank).numpy()
    try:
        F.all_reduce(x).numpy()
    finally:
        print(f"rank {rank} called {fake_nccl.calls[-1:]}", flush=True)
