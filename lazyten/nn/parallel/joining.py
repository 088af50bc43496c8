"""`Join`: ranks with different numbers of batches: who is done goes on with the others.

Before each step all ranks say whether they have a batch, so each knows who else does.
"""
from __future__ import annotations

from lazyten.distributed.functional import all_gather
from lazyten.distributed.group import Group
from lazyten.frontend.functions import tensor
from lazyten.storage import tracing
from lazyten.support.errors import DistributedError

_ABSENT, _PRESENT, _WITH_BUFFERS = range(3)


class Join:
    """Who of a group still has batches. is_here: whether this rank does. root: the first that does,
    or did when anybody had; count: what gradients are divided by; shares_buffers: whether those who
    have batches share their buffers."""

    def __init__(self, group: Group, by_all: bool, is_strict: bool) -> None:
        self.group, self.by_all, self.is_strict = group, by_all, is_strict
        self.is_here, self.root, self.count, self.shares_buffers = True, 0, group.size, False

    def called(self, shares_buffers: bool) -> int:
        """This rank has a batch; gives the first rank that has one."""
        self._ask(_WITH_BUFFERS if shares_buffers else _PRESENT)
        return self.root

    def others(self) -> bool:
        """This rank has none any more; whether others have one."""
        self.is_here = False
        return self._ask(_ABSENT)

    def _ask(self, own: int) -> bool:
        tracing.refuse("DistributedDataParallel.join()", "leave the step out of it: who has a "
                       "batch is looked at before each")
        said = all_gather(tensor([own]), self.group).flatten().tolist()
        present = [rank for rank, word in enumerate(said) if word != _ABSENT]
        if self.is_strict and 0 < len(present) < self.group.size:
            missing = self.group.ranks[said.index(_ABSENT)]
            raise DistributedError(f"DistributedDataParallel.join: rank {missing} has no batch any "
                                   f"more, and others have; give throw_on_early_termination=False "
                                   f"to go on")
        if present:
            self.root, self.count = present[0], self.group.size if self.by_all else len(present)
            self.shares_buffers = _WITH_BUFFERS in said
        return bool(present)
