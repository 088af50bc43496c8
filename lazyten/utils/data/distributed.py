"""`DistributedSampler`: a part of the examples for each of several processes."""
from __future__ import annotations

from collections.abc import Iterator, Sized

from lazyten.distributed import state
from lazyten.random import Generator
from lazyten.support.errors import ArgumentError
from lazyten.utils.data.sampler import Sampler, check_count, host_permutation


class DistributedSampler(Sampler[int]):
    """The indices of process `rank` of num_replicas: every num_replicas-th, of a random order that
    all have in common. Each gets as many: some come twice, or are dropped if drop_last. What is
    left out is as distributed.init() has found it.

    Call set_epoch() before each epoch, or the order is the same in all of them.
    """

    def __init__(self, dataset: Sized, num_replicas: int | None = None, rank: int | None = None,
                 shuffle: bool = True, seed: int = 0, drop_last: bool = False) -> None:
        if (num_replicas is None or rank is None) and not state.is_initialized():
            raise ArgumentError("DistributedSampler: distributed.init() was not called, so there "
                                "are no ranks to ask; call it, or give num_replicas and rank")
        num_replicas = state.size() if num_replicas is None else num_replicas
        rank = state.rank() if rank is None else rank
        self.num_replicas = check_count("DistributedSampler", "num_replicas", num_replicas)
        if not 0 <= rank < num_replicas:
            raise ArgumentError(f"DistributedSampler: rank={rank} of num_replicas={num_replicas}; "
                                f"it must be below that, and 0 or more")
        self.dataset, self.rank, self.shuffle, self.seed = dataset, rank, shuffle, seed
        self.drop_last, self.epoch = drop_last, 0
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else -(-count // num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = host_permutation(count, Generator(self.seed + self.epoch)) if self.shuffle else \
            list(range(count))
        return iter([order[i % count] for i in range(self.rank, self.total_size,
                                                     self.num_replicas)])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Have another order from now on."""
        self.epoch = epoch
