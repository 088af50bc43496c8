"""`lt.multiprocessing`: Python's multiprocessing, whose forked processes share the tensors for
which share_memory_() was called. What else shares tensors is refused."""
from __future__ import annotations

import multiprocessing as _python
import os
from collections.abc import Callable
from typing import Any

from lazyten.pytorch.refusals import refusal, refused

globals().update({name: getattr(_python, name) for name in _python.__all__})
_REASON = ("start processes by Process and Pool of this module, which are Python's: those that are "
           "forked share tensors after share_memory_(), and its Queue sends copies; let "
           "lazyten.utils.data.DataLoader(num_workers=...) make batches, and mpiexec start what "
           "trains together (docs/distributed.md)")
globals().update(refused("multiprocessing", _REASON, "start_processes"))


def spawn(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
          daemon: bool = False, start_method: str = "spawn") -> None:
    """fn(number, *args), as the one process that there is, or as that rank of as many as mpiexec or
    srun has started: each calls this. NotDefinedError for another number of processes."""
    if not join:
        refusal("multiprocessing.spawn", _REASON)()
    if nprocs == 1:
        fn(0, *args)
        return
    from lazyten.distributed.job import as_torchrun_says
    said = {**as_torchrun_says(os.environ), **os.environ}
    if int(said.get("WORLD_SIZE", 1)) != nprocs or "RANK" not in said:
        refusal("multiprocessing.spawn", f"start {nprocs} processes by mpiexec -n {nprocs}, each "
                f"of which this makes one of them; {_REASON}")()
    fn(int(said["RANK"]), *args)


def get_all_sharing_strategies() -> set[str]:
    """PyTorch's ways to share a tensor, which are all the same here: the memory has no name."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """PyTorch's default."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """Nothing: there is one way to share tensors."""
