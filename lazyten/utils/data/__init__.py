"""Data sets, samplers and loaders, under PyTorch's names.

In: examples, as whatever a data set's [] gives. Out: batches of tensors, made here or by worker
processes.

Files, in reading order:

- stored.py: Values of examples as they are stored, read by the host.
- dataset.py: Data sets, and data sets of data sets.
- sampler.py: Which examples come when: samplers, and samplers of batches.
- distributed.py: `DistributedSampler`: a part of the examples for each of several processes.
- collate.py: Examples to batches: `default_collate`, `default_convert`.
- fetching.py: What a loader's step gives, of a data set by index or by iteration.
- worker.py: The process that makes batches, and what is known in it: `get_worker_info`.
- transport.py: Tensors and errors on their way between processes.
- pool.py: The worker processes of a loader: started, fed, heard and ended.
- dataloader.py: `DataLoader`.

Random numbers of samplers are made by NumPy from lazyten's generators, so they are the same
everywhere, and nothing is compiled for them. A worker is a process with a pipe of its own, so one
that dies is noticed, and takes nothing with it; it ends when its loader's iterator does, when its
parent does, and at Ctrl-C.
"""
from __future__ import annotations

from lazyten.pytorch.modules import later as _later
from lazyten.utils.data.collate import default_collate, default_convert
from lazyten.utils.data.dataloader import DataLoader
from lazyten.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from lazyten.utils.data.distributed import DistributedSampler
from lazyten.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from lazyten.utils.data.worker import get_worker_info

__getattr__ = _later("lazyten.utils.data")
__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]
