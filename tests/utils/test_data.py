"""Data sets, samplers, collation and loaders without workers; beside PyTorch's where it has an
oracle."""
from __future__ import annotations

from collections import Counter, OrderedDict, UserList, namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_values import counted_plans
from torch_if_there import torch
from worker_programs import Pair, Parts

import lazyten as lt
import lazyten.utils.data as lazyten_data
from lazyten.storage.frames import here
from lazyten.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    get_worker_info,
    random_split,
)

Point = namedtuple("Point", "x y")


class Listed(Dataset[Any]):
    def __init__(self, items: Any) -> None:
        self.items = items

    def __getitem__(self, i: int) -> Any:
        return self.items[i]

    def __len__(self) -> int:
        return len(self.items)


def plain(value: Any) -> Any:
    """Tensors of either library as (type, values)."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return str(value.dtype).split(".")[-1], value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | UserList):
        return type(value).__name__, [plain(v) for v in value]
    return value


def test_the_room_is_reached_by_both_names() -> None:
    assert lt.utils.data is lazyten_data and lt.utils.data.DataLoader is DataLoader
    assert get_worker_info() is None


# ---- collation -----------------------------------------------------------------------------------

BATCHES: dict[str, Callable[[Any], Any]] = {
    "tensors": lambda T: [T.tensor([1.0, 2.0]), T.tensor([3.0, 4.0])],
    "integers": lambda T: [1, 2, 3], "floats": lambda T: [0.5, 1.5],
    "bools": lambda T: [True, False],
    "strings": lambda T: ["a", "b"], "bytes": lambda T: [b"a", b"b"],
    "arrays": lambda T: [np.arange(3, dtype=np.int16), np.ones(3, np.int16)],
    "numbers of NumPy": lambda T: [np.float32(1), np.float32(2)],
    "bools of NumPy": lambda T: [np.bool_(True), np.bool_(False)],
    "pairs": lambda T: [(T.tensor(1), "a"), (T.tensor(2), "b")],
    "lists": lambda T: [[1, 0.5], [2, 1.5]], "dicts": lambda T: [{"a": 1, "b": [2.0]}] * 2,
    "ordered dicts": lambda T: [OrderedDict(a=1)] * 2,
    "own lists": lambda T: [UserList([1, 2])] * 3,
    "namedtuples": lambda T: [Point(1, T.ones(2)), Point(2, T.zeros(2))],
    "nested": lambda T: [{"p": (1, {"q": [T.ones(1), "x"]})}] * 2,
    "halves": lambda T: [T.ones(2, dtype=T.bfloat16)] * 2, "empty": lambda T: [T.ones(0)] * 2,
    "complex numbers": lambda T: [T.tensor([1 + 2j, 3]), T.tensor([1j, 0])]}


@pytest.mark.torch
@pytest.mark.parametrize("name", BATCHES)
def test_batches_are_collated_as_by_torch(name: str) -> None:
    mine, other = (plain(T.utils.data.default_collate(BATCHES[name](T))) for T in (lt, torch))
    assert mine == other


@pytest.mark.torch
@pytest.mark.parametrize("name", BATCHES)
def test_examples_are_converted_as_by_torch(name: str) -> None:
    mine, other = (plain(T.utils.data.default_convert(BATCHES[name](T))) for T in (lt, torch))
    assert mine == other


def test_a_batch_of_what_requires_gradients_passes_them_on() -> None:
    x = lt.tensor([1.0, 2.0], requires_grad=True)
    default_collate([x * 2, x * 3]).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [5.0, 5.0]


def test_rows_of_tensors_are_stacked_without_a_kernel() -> None:
    data = TensorDataset(lt.rand(1000, 8).realize(), lt.arange(1000).realize())
    with counted_plans() as made:
        batch = next(iter(DataLoader(data, batch_size=64)))
    assert not made
    np.testing.assert_array_equal(batch[0].numpy(), data.tensors[0][:64].numpy())


@pytest.mark.parametrize("kind", [lt.float32, lt.bfloat16, lt.float16, lt.bool_, lt.int16])
def test_rows_that_are_taken_at_once_are_those_one_by_one(kind: Any) -> None:
    class OneByOne(TensorDataset):
        def __getitem__(self, index: Any) -> Any:
            return super().__getitem__(index)

    base = lt.arange(24).reshape(4, 6).to(kind)
    tensors = base, base.T[:4], base[::2, 1:].repeat(2, 1), base[:, 3]
    for wrap in (lambda d: d, lambda d: Subset(d, [3, 0, -1, 2])):
        batches = [[plain(b) for b in DataLoader(wrap(d(*tensors)), 3)]
                   for d in (TensorDataset, OneByOne)]
        assert batches[0] == batches[1]
    with pytest.raises(lt.IndexingError, match="index 4"):
        list(DataLoader(TensorDataset(base), sampler=[4], batch_size=2))


@pytest.mark.parametrize("kind", [lt.float32, lt.bfloat16, lt.float16, lt.bool_, lt.int16])
def test_a_batch_has_what_its_tensors_have_wherever_that_is(kind: Any) -> None:
    base = lt.arange(12).reshape(4, 3).to(kind).realize()
    pending, leaf = base + base, lt.arange(3.0, requires_grad=True)
    batch = [base[1], base.T[2, :3], base.flip(1)[0], pending[3], base[:, 1][:3], base[0],
             lt.ones(3, dtype=kind), base[2, :1].expand(3),
             lt.nn.functional.pad(base[3, 1:], (1, 0))]
    if kind is lt.float32:
        array = np.arange(24, dtype=">f4").reshape(2, 12)
        batch += [lt.from_numpy(array)[1, ::4], leaf.detach()]
        array[:] = 7
    expected = [t.tolist() for t in batch]
    made = default_collate(batch)
    assert made.dtype is kind and not made.requires_grad and made.tolist() == expected
    base.zero_()
    assert made.tolist() == expected


def test_to_make_a_batch_ends_no_step() -> None:
    rows = lt.arange(6.0).reshape(3, 2).realize()
    turn = here.turn
    for batch in DataLoader(Listed([(rows[i], i) for i in range(3)]), batch_size=2):
        assert batch[0].shape[1:] == (2,) and here.turn == turn


def test_rules_of_ones_own_are_collated_by() -> None:
    from lazyten.utils.data.collate import collate, default_collate_fn_map
    rules = {**default_collate_fn_map, set: lambda batch, collate_fn_map: set.union(*batch)}
    assert collate([({1}, 2), ({3}, 4)], collate_fn_map=rules)[0] == {1, 3}


# ---- data sets -----------------------------------------------------------------------------------

DATASETS: dict[str, Callable[[Any, Any], Any]] = {
    "tensors": lambda D, T: D.TensorDataset(T.arange(5), T.arange(10.0).reshape(5, 2)),
    "concat": lambda D, T: D.ConcatDataset([Listed([1, 2]), Listed([]), Listed([3])]),
    "subset": lambda D, T: D.Subset(Listed("abcdef"), [4, 0, 2]),
    "stack": lambda D, T: D.StackDataset(Listed([1, 2, 3]), Listed("abc")),
    "stack by name": lambda D, T: D.StackDataset(a=Listed([1, 2, 3]), b=D.Subset(
        Listed("abcdef"), [5, 4, 3])),
    "subset of stack": lambda D, T: D.Subset(D.StackDataset(Listed([1, 2, 3])), [2, 1])}


def test_a_data_set_may_give_a_batch_as_the_loader_asks_for_several_examples() -> None:
    class Batches:
        """Columns, of which rows are taken."""

        def __len__(self) -> int:
            return 5

        def __getitems__(self, indices: list[int]) -> tuple[Any, Any]:
            return lt.arange(5)[indices], lt.arange(5)[indices] * 2

    loader = DataLoader(Batches(), batch_size=3, collate_fn=lambda batch: batch)  # pyright: ignore
    assert [(x.tolist(), y.tolist()) for x, y in loader] == [
        ([0, 1, 2], [0, 2, 4]), ([3, 4], [6, 8])]
    with pytest.raises(lt.ShapeError, match="gives 2 examples for 3 indices"):
        StackDataset(Batches()).__getitems__([0, 1, 2])  # type: ignore[arg-type]


@pytest.mark.torch
@pytest.mark.parametrize("name", DATASETS)
def test_data_sets_are_torchs(name: str) -> None:
    mine, other = (DATASETS[name](T.utils.data, T) for T in (lt, torch))
    assert len(mine) == len(other)
    assert [plain(mine[i]) for i in range(len(mine))] == [
        plain(other[i]) for i in range(len(other))]
    batches = [[plain(batch) for batch in T.utils.data.DataLoader(d, batch_size=2)]
               for T, d in ((lt, mine), (torch, other))]
    assert batches[0] == batches[1]


def test_data_sets_are_added() -> None:
    assert list(DataLoader(Listed([1]) + Listed([2]), batch_size=None)) == [1, 2]
    chained = Parts(2) + Parts(3)
    assert isinstance(chained, ChainDataset) and len(chained) == 5
    assert list(chained) == [0, 1, 0, 1, 2]


def test_a_split_takes_each_example_once() -> None:
    parts = random_split(range(10), [0.5, 0.25, 0.25], generator=lt.Generator(3))
    assert [len(p) for p in parts] == [6, 2, 2]
    assert sorted(x for p in parts for x in p) == list(range(10))
    again = random_split(range(10), [6, 2, 2], generator=lt.Generator(3))
    assert [p.indices for p in again] == [p.indices for p in parts]
    assert parts[0][-1] == parts[0].dataset[parts[0].indices[-1]]


# ---- samplers ------------------------------------------------------------------------------------

def test_random_orders_are_permutations_that_a_seed_repeats() -> None:
    sampler = RandomSampler(range(50))
    lt.manual_seed(5)
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50)) and first != second
    lt.manual_seed(5)
    assert list(sampler) == first
    generator = lt.Generator(9)
    own = RandomSampler(range(50), generator=generator)
    found = list(own)
    generator.manual_seed(9)
    assert list(own) == found
    assert len(set(map(tuple, (list(own) for _ in range(5))))) == 5


def test_random_samples_may_be_more_or_fewer_than_there_are() -> None:
    found = list(RandomSampler(range(4), num_samples=10))
    assert Counter(found[:4]) == Counter(found[4:8]) == Counter(range(4)) and len(found) == 10
    drawn = Counter(RandomSampler(range(4), replacement=True, num_samples=4000))
    assert len(drawn) == 4 and all(abs(n - 1000) < 150 for n in drawn.values())
    subset = SubsetRandomSampler([3, 5, 9])
    assert sorted(subset) == [3, 5, 9] and len(subset) == 3


@pytest.mark.parametrize("weights", [[1, 0, 3, 6], lt.tensor([1.0, 0.0, 3.0, 6.0])])
def test_examples_come_as_often_as_weighed(weights: Any) -> None:
    generator = lt.Generator(1)
    drawn = Counter(WeightedRandomSampler(weights, 10_000, generator=generator))
    assert [round(drawn[i] / 1000) for i in range(4)] == [1, 0, 3, 6]
    each = [list(WeightedRandomSampler(weights, 3, False, generator)) for _ in range(300)]
    assert all(sorted(e) == [0, 2, 3] for e in each)
    firsts = Counter(e[0] for e in each)
    assert firsts[3] > firsts[2] > firsts[0]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("count", [0, 1, 6, 7])
def test_batches_of_indices(count: int, drop_last: bool) -> None:
    sampler = BatchSampler(SequentialSampler(range(count)), 3, drop_last)
    found = list(sampler)
    assert len(sampler) == len(found)
    assert [i for batch in found for i in batch] == list(range(count - count % 3 * drop_last))


@pytest.mark.torch
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("count", "replicas"), [(10, 3), (12, 4), (2, 5), (7, 1)])
def test_parts_of_processes_are_torchs(count: int, replicas: int, drop_last: bool) -> None:
    for rank in range(replicas):
        mine, other = (T.utils.data.DistributedSampler(
            range(count), replicas, rank, shuffle=False, drop_last=drop_last)
            for T in (lt, torch))
        assert list(mine) == list(other) and len(mine) == len(other)


def test_processes_share_one_order_that_is_new_each_epoch() -> None:
    def epoch(number: int) -> list[list[int]]:
        samplers = [DistributedSampler(range(12), 3, rank, seed=4) for rank in range(3)]
        for sampler in samplers:
            sampler.set_epoch(number)
        return [list(s) for s in samplers]
    assert sorted(i for part in epoch(0) for i in part) == list(range(12))
    assert epoch(0) == epoch(0) != epoch(1)


# ---- loaders -------------------------------------------------------------------------------------

LOADERS: dict[str, dict[str, Any]] = {
    "plain": {}, "batches": {"batch_size": 4}, "whole ones": {"batch_size": 4, "drop_last": True},
    "examples": {"batch_size": None}, "a sampler": {"batch_size": 3, "sampler": [5, 1, 1, 7, 0]},
    "batch sampler": {"batch_sampler": [[0], [3, 2], [9, 8, 7]]},
    "own collation": {"batch_size": 4, "collate_fn": sum},
    "own conversion": {"batch_size": None, "collate_fn": str},
    "a sampler of lists": {"batch_size": None, "sampler": [[1, 2], [5]]}}


@pytest.mark.torch
@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("kind", ["indices", "iteration"])
def test_loaders_are_torchs(kind: str, name: str) -> None:
    if kind == "iteration" and "sampler" in name:
        with pytest.raises(lt.ArgumentError, match="no indices"):
            DataLoader(Parts(3), **LOADERS[name])
        return
    found = []
    for T in (lt, torch):
        D = T.utils.data

        class Own(D.IterableDataset):  # type: ignore[misc,name-defined]
            def __iter__(self) -> Any:
                return iter(range(11))

            def __len__(self) -> int:
                return 11

        data = D.TensorDataset(T.arange(11)) if name == "a sampler of lists" else np.arange(11) \
            if kind == "indices" else Own()
        loader = D.DataLoader(data, **LOADERS[name])
        found.append((len(loader), [plain(b) for b in loader], [plain(b) for b in loader],
                      loader.batch_size, loader.drop_last))
    assert found[0] == found[1]


def test_a_shuffled_loader_is_repeated_by_a_seed() -> None:
    def epochs() -> list[list[int]]:
        loader = DataLoader(range(20), shuffle=True, batch_size=20, generator=lt.Generator(2))
        return [next(iter(loader)).tolist() for _ in range(2)]
    assert epochs() == epochs()
    assert epochs()[0] != epochs()[1] and sorted(epochs()[0]) == list(range(20))


class Pairs(Dataset[Any]):
    def __getitem__(self, i: int) -> Pair:
        return Pair(lt.ones(2) * i, i)

    def __len__(self) -> int:
        return 4


def test_a_training_step_on_a_loaders_batches_compiles_once() -> None:
    w = lt.zeros(2, requires_grad=True)
    opt = lt.optim.SGD([w], lr=0.1)

    def epoch() -> None:
        for batch in DataLoader(Pairs(), batch_size=2):
            opt.zero_grad()
            ((batch.x * w).sum(1) - batch.y).square().mean().backward()
            opt.step()
    epoch()
    with counted_plans() as made:
        epoch()
    assert len(made) <= 1  # lt.ones(2) * i


class More(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(5))

    def __len__(self) -> int:
        return 3


def test_more_examples_than_were_said_warn() -> None:
    with pytest.warns(UserWarning, match="more batches"):
        loader = DataLoader(More())
        assert len(loader) == 3
        assert len([*iter(loader)]) == 5


class Nothing(Dataset[int]):
    pass


MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: DataLoader(range(3), batch_size=0), lt.ArgumentError, "batch_size=0"),
    (lambda: DataLoader(range(3), batch_size=2.0), lt.ArgumentError, "batch_size=2.0"),
    (lambda: DataLoader(range(3), num_workers=-1), lt.ArgumentError, "num_workers=-1"),
    (lambda: DataLoader(range(3), timeout=-1), lt.ArgumentError, "timeout=-1"),
    (lambda: DataLoader(range(3), prefetch_factor=2), lt.ArgumentError, "give num_workers"),
    (lambda: DataLoader(range(3), persistent_workers=True), lt.ArgumentError, "give num_workers"),
    (lambda: DataLoader(range(3), multiprocessing_context="fork"), lt.ArgumentError,
     "give num_workers"),
    (lambda: DataLoader(range(3), num_workers=1, multiprocessing_context="x"), lt.ArgumentError,
     "'x'"),
    (lambda: DataLoader(range(3), shuffle=True, sampler=[0]), lt.ArgumentError, "one of them"),
    (lambda: DataLoader(range(3), batch_sampler=[[0]], shuffle=True), lt.ArgumentError,
     "leave out"),
    (lambda: DataLoader(range(3), batch_size=None, drop_last=True), lt.ArgumentError, "drop_last"),
    (lambda: DataLoader(range(3), sampler=5), lt.DTypeError, "no indices"),
    (lambda: DataLoader(Parts(3), shuffle=True), lt.ArgumentError, "no indices"),
    (lambda: setattr(DataLoader(range(3)), "batch_size", 2), lt.ArgumentError, "another"),
    (lambda: len(DataLoader(range(3), sampler=iter([1]))), TypeError, "len"),
    (lambda: DataLoader([], shuffle=True), lt.ArgumentError, "num_samples=0"),
    (lambda: TensorDataset(lt.ones(2), lt.ones(3)), lt.ShapeError, "as many rows"),
    (lambda: TensorDataset([1]), lt.DTypeError, "lazyten.tensor"),
    (lambda: ConcatDataset([]), lt.ArgumentError, "one or more"),
    (lambda: ConcatDataset([Parts(3)]), lt.DTypeError, "ChainDataset"),
    (lambda: ConcatDataset([[1]])[1], lt.IndexingError, "index 1"),
    (lambda: list(ChainDataset([range(3)])), lt.DTypeError, "ConcatDataset"),
    (lambda: StackDataset([1], a=[1]), lt.ArgumentError, "by name"),
    (lambda: StackDataset([1], [1, 2]), lt.ShapeError, r"\[1, 2\]"),
    (lambda: random_split(range(3), [1, 1]), lt.ArgumentError, "add up to 2"),
    (lambda: random_split(range(3), [-0.5, 1.5]), lt.ArgumentError, "between 0 and 1"),
    (lambda: RandomSampler(range(3), 1), lt.ArgumentError, "replacement=1"),
    (lambda: RandomSampler(range(3), num_samples=0), lt.ArgumentError, "num_samples=0"),
    (lambda: WeightedRandomSampler([[1.0]], 1), lt.ShapeError, "one weight"),
    (lambda: WeightedRandomSampler([1.0, -1.0], 1), lt.ArgumentError, "0 or more"),
    (lambda: WeightedRandomSampler([1.0, 0.0], 2, False), lt.ArgumentError, "of 1 examples"),
    (lambda: BatchSampler(range(3), 2, 1), lt.ArgumentError, "drop_last=1"),
    (lambda: DistributedSampler(range(3)), lt.ArgumentError, "give num_replicas"),
    (lambda: DistributedSampler(range(3), 2, 2), lt.ArgumentError, "rank=2"),
    (lambda: default_collate([[1], [1, 2]]), lt.ShapeError, r"\[1, 2\] elements"),
    (lambda: default_collate([object()]), lt.DTypeError, "collate_fn"),
    (lambda: default_collate([np.array(["a"])]), lt.DTypeError, "collate_fn"),
    (lambda: default_collate([np.ones(2), np.ones(3)]), lt.ShapeError, "stack"),
    (lambda: iter(Sampler()), lt.NotDefinedError, "__iter__"),
    (lambda: Nothing()[0], NotImplementedError, "Nothing"),
    (lambda: Subset(range(3), [5])[0], IndexError, "range")]


@pytest.mark.parametrize(("call", "error", "message"), MISTAKES)
def test_mistakes_are_explained(call: Callable[[], Any], error: type[Exception],
                                message: str) -> None:
    with pytest.raises(error, match=message):
        call()
