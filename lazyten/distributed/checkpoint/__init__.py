"""`lt.distributed.checkpoint`: checkpoints that ranks write together, under PyTorch's names.

In: a dict of modules, optimizers, tensors and other data, whole on each rank or shared out. Out: a
folder of safetensors files, one a rank, and an index of what is in them; and the values back, on
any number of ranks. Not here: files of one process (saving/saving.py).

Files, in reading order:

- entries.py: A state as entries by name, each with the way to it through dicts and lists; and the
  same back.
- index.py: The index of a checkpoint: what is in it, and which file has which part of a tensor.
- folders.py: The folder of a checkpoint, which is replaced as a whole.
- saving.py: Saving: each rank tells what it has, all work out who writes what, and each writes its
  file.
- loading.py: Loading: each rank reads the parts of files that it needs, and changes nothing before
  all have found theirs.
- state_dict.py: States of models and optimizers by the names of parameters, whole or in parts.

A tensor says itself which part of a whole it is (frontend/parts.py): parameters of fully_shard(),
layers that are split, and the optimizer's states of both. What says nothing is whole; ranks that
all have it share out the writing. Parts are boxes, so that those which are saved and those which
are needed may be cut in any two ways. Each step of a save or a load ends with an exchange of what
went wrong: no rank goes on alone.
"""
from __future__ import annotations

import os
from typing import Any

from lazyten.distributed import state
from lazyten.distributed.checkpoint import loading, saving
from lazyten.distributed.group import Group
from lazyten.distributed.job import launched
from lazyten.pytorch.modules import later as _later
from lazyten.pytorch.refusals import refused
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError
from lazyten.support.paths import path_of

globals().update(refused(
    "distributed.checkpoint", "save() and load() read and write a folder: give checkpoint_id=path",
    "FileSystemReader", "FileSystemWriter", "StorageReader", "StorageWriter", "SavePlanner",
    "LoadPlanner", "DefaultSavePlanner", "DefaultLoadPlanner", "save_state_dict",
    "load_state_dict"))
globals().update(refused(
    "distributed.checkpoint", "save() returns when all is written; call it seldom enough",
    "async_save"))


def save(state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None,
         storage_writer: None = None, planner: None = None, process_group: Group | None = None,
         no_dist: bool = False) -> None:
    """Write a checkpoint to the folder checkpoint_id; all ranks of the group call this.

    state_dict: a dict, nested or not, of tensors, numbers, texts and the like, and of what has a
    state_dict() of its own: {"model": model, "optimizer": optimizer, "epoch": 3}. What several
    ranks have whole must be the same on them: one of them writes it. The folder appears whole, in
    place of an earlier checkpoint, when all ranks have written their files. no_dist: of this
    process alone. ArgumentError, on all ranks, for what is no data, and for a folder that cannot
    be written or is something else.
    """
    folder, group = _place("save", checkpoint_id, storage_writer, planner, process_group, no_dist)
    saving.save(state_dict, folder, group)


def load(state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike[str] | None = None,
         storage_reader: None = None, planner: None = None, process_group: Group | None = None,
         no_dist: bool = False) -> None:
    """Take over what save() wrote, on any number of ranks; all ranks of the group call this.

    state_dict: as that which was saved, or a part of it. Tensors in it are written to, other data
    is put in its place, and modules and optimizers load their states: each rank reads what it has a
    part of. Nothing changes unless all fits, on all ranks: MissingFileError and ArgumentError for
    files that are missing or damaged, StateError for names that are missing, and for tensors of
    another shape or dtype.
    """
    folder, group = _place("load", checkpoint_id, storage_reader, planner, process_group, no_dist)
    loading.load(state_dict, folder, group)


def _place(operation: str, checkpoint_id: Any, storage: None, planner: None, group: Group | None,
           alone: bool) -> tuple[Any, Group | None]:
    """The folder, and who saves or loads together; None: this process alone."""
    operation = f"checkpoint.{operation}"
    tracing.refuse(f"{operation}()", "call it outside")
    if checkpoint_id is None or storage is not None or planner is not None:
        raise ArgumentError(f"{operation}: give the folder, checkpoint_id=path, and neither a "
                            f"storage nor a planner")
    folder = path_of(checkpoint_id, operation, "a folder").absolute()
    if alone or group is None and not state.is_initialized() and launched(os.environ)[0] == 1:
        return folder, None
    return folder, state.group_of(group, operation)


__all__ = ["load", "save"]
__getattr__ = _later("lazyten.distributed.checkpoint", "state_dict")
