"""`lt.multiprocessing`: Python's multiprocessing; what shares tensors is refused."""
from __future__ import annotations

import multiprocessing as _python

from lazyten.pytorch.refusals import refused

globals().update({name: getattr(_python, name) for name in _python.__all__})
globals().update(refused(
    "multiprocessing", "tensors are not shared between processes; send x.numpy() by the Process, "
    "Pool and Queue of this module, which are Python's, and let lazyten.utils.data.DataLoader("
    "num_workers=...) make batches", "spawn", "start_processes"))


def get_all_sharing_strategies() -> set[str]:
    """PyTorch's ways to share a tensor, which are all the same here: it is not shared."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """PyTorch's default."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Nothing: no tensor is shared."""
