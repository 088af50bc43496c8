"""`ZeroRedundancyOptimizer`: each rank has the state of some parameters, updates them, and gives
them to the others.

The first stage of ZeRO (Rajbhandari et al., 2020, https://arxiv.org/abs/1910.02054): a state, two
numbers a parameter for Adam, takes 1/size of the memory on each of `size` ranks. Parameters and
gradients are whole everywhere.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import numpy as np

from lazyten.distributed import state as ranks
from lazyten.distributed.functional import all_gather, exchange
from lazyten.distributed.group import Group
from lazyten.distributed.in_place import become_as
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.nn.sharded_parameter import check_whole
from lazyten.optim.lbfgs import LBFGS
from lazyten.optim.optimizer import Optimizer, State
from lazyten.optim.param_groups import Group as Options
from lazyten.optim.param_groups import short
from lazyten.saving.saving import load, save
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError, StateError
from lazyten.support.grad_mode import enable_grad


class ZeroRedundancyOptimizer(Optimizer):
    """An optimizer of which each rank of a group has only the state of its own parameters.

    Each parameter belongs, whole, to one rank: the largest first, each to the rank that has the
    fewest elements then. A step updates a rank's own ones by `optim`, of optimizer_class, and
    copies them to all ranks. Gradients must be the same on all, as those of a
    DistributedDataParallel are. All ranks must make the same steps.

    params: parameters, or dicts of 'params' and options. optimizer_class: of any optimizer that
    updates each parameter by its own gradient alone. defaults: its options. process_group: all
    ranks, if None. parameters_as_bucket_view changes nothing here: parameters of one type and rank
    travel together in any case. ArgumentError for overlap_with_ddp, and for LBFGS, whose steps need
    all gradients at once.
    """

    _skipped: Tensor | None = None
    _consolidated: dict[str, Any] | None = None

    def __init__(self, params: Iterable[Any], optimizer_class: type[Optimizer],
                 process_group: Group | None = None, parameters_as_bucket_view: bool = False,
                 overlap_with_ddp: bool = False, **defaults: Any) -> None:
        _check_class(optimizer_class, overlap_with_ddp)
        self.process_group = ranks.group_of(process_group, "ZeroRedundancyOptimizer")
        self._owners: dict[int, int] = {}
        self._loads = [0] * self.process_group.size
        self.optim: Optimizer | None = None
        super().__init__(params, defaults)
        self.optim = optimizer_class(self.param_groups, **defaults)  # which has the same dicts
        self.state = self.optim.state

    @property
    def _local(self) -> Optimizer:
        assert self.optim is not None
        return self.optim

    # ---- what belongs to whom --------------------------------------------------------------------

    def add_param_group(self, param_group: Options) -> None:
        """Change these parameters, too; all ranks call it."""
        super().add_param_group(param_group)
        try:
            check_whole(param_group["params"], self.process_group, "ZeroRedundancyOptimizer")
            if self.optim is not None:
                self.optim.add_param_group(param_group)
        except Exception:
            self.param_groups.pop()
            raise
        for p in sorted(param_group["params"], key=lambda p: p.numel(), reverse=True):
            owner = self._loads.index(min(self._loads))
            self._owners[id(p)] = owner
            self._loads[owner] += p.numel()

    def _parameters(self) -> Iterator[Tensor]:
        for group in self.param_groups:
            yield from group["params"]

    def is_own(self, p: Tensor) -> bool:
        """Whether this rank updates a parameter."""
        return self._owners[id(p)] == self.process_group.rank

    @contextmanager
    def _own_gradients(self) -> Iterator[None]:
        """Within this block parameters of other ranks have no gradients, so that no step changes
        them, or makes a state for them."""
        hidden = [(p, p.grad) for p in self._parameters() if not self.is_own(p)]
        for p, _ in hidden:
            p._grad = None
        try:
            yield
        finally:
            for p, gradient in hidden:
                p._grad = gradient

    # ---- a step ----------------------------------------------------------------------------------

    @property
    def _is_recorded(self) -> bool:
        return type(self._local).step.__module__.startswith("lazyten.")

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Update this rank's parameters by their gradients, and copy those of each rank to all.

        closure: recomputes the loss and its gradients first; what it gives is given back. kwargs:
        for the step of `optim`.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        trace = tracing.current()
        if trace is not None:
            trace.action(self._forget_consolidated)
        self._forget_consolidated()
        with self._own_gradients():
            if self._skipped is None:
                self._local.step(**kwargs)
            else:
                self._local.step_unless(self._skipped)
        self._share()
        return loss

    def step_unless(self, skipped: Tensor) -> None:
        """step(), in which nothing changes if the zero-dim bool tensor `skipped` holds, which must
        be the same on all ranks."""
        self._skipped = skipped
        try:
            self.step()
        finally:
            self._skipped = None

    def _share(self) -> None:
        """Give all ranks the parameters of each."""
        if self.process_group.size == 1:
            return
        for owner in range(self.process_group.size):
            own = [p for p in self._parameters()
                   if p.requires_grad and self._owners[id(p)] == owner]
            become_as(own, self.process_group, owner)

    # ---- saving ----------------------------------------------------------------------------------

    def _forget_consolidated(self) -> None:
        self._consolidated = None

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Give rank `to` of the group the states of all, for its state_dict(); all ranks call it.
        """
        tracing.refuse("consolidate_state_dict()", "call it outside")
        if to not in range(self.process_group.size):
            raise ArgumentError(f"consolidate_state_dict: to={to!r:.20} of a group of "
                                f"{self.process_group.size} ranks; give 0 to "
                                f"{self.process_group.size - 1}")
        whole = self._local.state_dict()
        for own in _collected(whole["state"], to, self.process_group):
            whole["state"].update(own)
        whole["state"] = dict(sorted(whole["state"].items()))
        self._consolidated = whole if self.process_group.rank == to else None

    def state_dict(self) -> dict[str, Any]:
        """Options and the states of all ranks' parameters, as the optimizer that is shared out
        gives them alone. StateError on a rank that consolidate_state_dict() has not just given
        them."""
        if self.process_group.size == 1:
            return self._local.state_dict()
        if self._consolidated is None:
            raise StateError(f"ZeroRedundancyOptimizer.state_dict: rank "
                             f"{self.process_group.rank} has no states of other ranks, or those "
                             f"before the last step; call consolidate_state_dict(to="
                             f"{self.process_group.rank}) on all ranks first")
        return self._consolidated

    def local_state_dict(self) -> dict[str, Any]:
        """Options and the states of this rank's parameters alone, as distributed.checkpoint saves
        them."""
        return self._local.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on as the optimizer did whose whole state this is, on any number of ranks: each keeps
        what belongs to it. All ranks call it."""
        if isinstance(state_dict, dict) and isinstance(state_dict.get("state"), dict):
            kept: dict[Any, State] = self._own_part(state_dict)
            state_dict = {**state_dict, "state": kept}
        self._local.load_state_dict(state_dict)
        self.param_groups, self.state = self._local.param_groups, self._local.state
        self._forget_consolidated()

    def _own_part(self, saved: dict[str, Any]) -> dict[Any, State]:
        """The states, in one that was saved, of this rank's parameters."""
        numbers = [n for group in saved.get("param_groups", ()) for n in group["params"]]
        own = {n for n, p in zip(numbers, self._parameters(), strict=False) if self.is_own(p)}
        return {n: state for n, state in saved["state"].items() if n in own or n not in numbers}


def _check_class(optimizer_class: object, overlap_with_ddp: bool) -> None:
    if not (isinstance(optimizer_class, type) and issubclass(optimizer_class, Optimizer)):
        raise ArgumentError(f"ZeroRedundancyOptimizer: optimizer_class is "
                            f"{short(optimizer_class)}; give a class of optimizers, such as "
                            f"lazyten.optim.Adam, and its options by name")
    if issubclass(optimizer_class, LBFGS | ZeroRedundancyOptimizer):
        raise ArgumentError(f"ZeroRedundancyOptimizer: a step of {optimizer_class.__name__} needs "
                            f"the gradients of all parameters at once, so it cannot be shared out; "
                            f"give an optimizer such as lazyten.optim.Adam")
    if overlap_with_ddp:
        raise ArgumentError("ZeroRedundancyOptimizer: overlap_with_ddp=True would make steps "
                            "within backward(); leave it out, and call step() after it")


def _collected(own: dict[int, State], to: int, group: Group) -> Iterator[dict[int, State]]:
    """On rank `to`: what each other rank gives."""
    content = BytesIO()
    if group.rank != to:
        save(own, content)
    size = Tensor._copy_of(np.array(len(content.getvalue())), dt.int64, "cpu")
    sizes = all_gather(size, group).tolist()
    for rank, size in enumerate(sizes):
        if rank == to:
            continue
        if group.rank == rank:
            exchange(_bytes(content.getvalue()), to, None, group).realize()
        elif group.rank == to:
            came = exchange(_bytes(bytes(size)), None, rank, group)
            yield load(BytesIO(came.numpy().tobytes()), "cpu")


def _bytes(content: bytes) -> Tensor:
    values = np.frombuffer(content, np.uint8)
    return Tensor._copy_of(values, dt.uint8, "cpu")
