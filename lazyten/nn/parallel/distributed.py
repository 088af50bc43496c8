"""`DistributedDataParallel`: a module that several processes train together.

Each rank has the module whole and a part of the batch. Once backward() has added to all parameters,
the gradients are averaged over the ranks: those of a bucket, some MiB in the order in which they
come, by one collective, which travels while kernels that need nothing of it run. How many bytes
that are follows from what collectives of the group cost (distributed/link.py).
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import ref

from lazyten.autodiff import hooks
from lazyten.distributed import link, state
from lazyten.distributed.functional import together
from lazyten.distributed.group import Group
from lazyten.distributed.in_place import become_as, type_of
from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.nn.parallel.comm_hooks import GradBucket, Hook, means_by
from lazyten.nn.parallel.joining import Join
from lazyten.nn.parameter import Parameter
from lazyten.nn.sharded_parameter import check_whole
from lazyten.support.errors import ArgumentError, GradientError
from lazyten.support.grad_mode import is_grad_enabled, no_grad

MIB = 1 << 20
FIRST = 1 * MIB
"""Bytes of the first bucket of a given size: what comes first sets out early."""


class DistributedDataParallel(Module):
    """The module, whose `.grad`s after backward() are the means of the ranks'.

    Parameters and buffers begin as those of the group's rank 0. broadcast_buffers: buffers, such as
    running statistics, become those of rank 0 again before each forward pass in training.
    find_unused_parameters: a parameter that a rank's loss does not depend on counts as a gradient
    of zeros there, instead of an error. bucket_cap_mb: MiB of gradients that travel together, the
    first of them 1 at most; if left out, as much as is best by the latency and the bandwidth that
    the group's ranks measure when the first such module is made (Link.bucket has the formula), the
    same on all. Parameters come in the opposite of the order in which the module has them, which is
    about that in which backward() comes to them.
    device_ids, output_device and the other options of PyTorch's change nothing here.
    """

    def __init__(self, module: Module, device_ids: Sequence[Any] | None = None,
                 output_device: Any = None, dim: int = 0, broadcast_buffers: bool = True,
                 init_sync: bool = True, process_group: Group | None = None,
                 bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
                 check_reduction: bool = False, gradient_as_bucket_view: bool = False,
                 static_graph: bool = False) -> None:
        super().__init__()
        self.process_group = state.group_of(process_group, "DistributedDataParallel")
        self.module, self.device_ids = module, list(device_ids or [])
        self.output_device, self.dim = output_device, dim
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.require_backward_grad_sync = True
        self._hook: tuple[Any, Hook] | None = None
        self._join: Join | None = None
        self._trained = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
        if not self._trained:
            raise GradientError("DistributedDataParallel: no parameter of the module requires "
                                "gradients, so there is nothing to do together; use it as it is")
        check_whole(module.parameters(), self.process_group, "DistributedDataParallel")
        self.bucket_bytes = self._bucket_bytes(bucket_cap_mb)
        if self.process_group.size > 1:
            if init_sync:
                become_as([*module.parameters(), *module.buffers()], self.process_group)
            own = ref(self)
            for _, parameter in self._trained:
                parameter.register_post_accumulate_grad_hook(lambda _: _ask(own))

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self.require_backward_grad_sync and self.process_group.size > 1 and is_grad_enabled():
            shares_buffers = self.training and self.broadcast_buffers
            buffers = list(self.module.buffers()) if shares_buffers else []
            root = 0 if self._join is None else self._join.called(bool(buffers))
            become_as(buffers, self.process_group, root)
        return self.module(*inputs, **kwargs)

    def register_comm_hook(self, state: object, hook: Hook) -> None:
        """Have a function combine the gradients of a bucket over ranks: hook(state, bucket) gives a
        future of one tensor, or the tensor, of as many elements as bucket.buffer(). The means of
        the ranks' are what it is to give (comm_hooks.py). ArgumentError for a second one."""
        if self._hook is not None:
            raise ArgumentError("register_comm_hook: this module has a hook already; make another "
                                "DistributedDataParallel for another one")
        if not callable(hook):
            raise ArgumentError(f"register_comm_hook: {hook!r:.60} is no function of a state and a "
                                f"bucket")
        self._hook = state, hook

    @contextmanager
    def join(self, divide_by_initial_world_size: bool = True, enable: bool = True,
             throw_on_early_termination: bool = False) -> Iterator[None]:
        """Within this block ranks may have batches of different numbers: who has done all of its
        own takes part in what the others do with gradients of zeros, and at the end all have the
        parameters of one that did most.

        divide_by_initial_world_size: gradients are divided by how many ranks there are, or by how
        many still have batches. throw_on_early_termination: DistributedError on all, once a rank
        has none. Each forward pass asks all ranks, so none of it is in a jitted function.
        """
        if not enable or self.process_group.size == 1:
            yield
            return
        self._join = Join(self.process_group, divide_by_initial_world_size,
                          throw_on_early_termination)
        try:
            yield
            while self._join.others():
                become_as(list(self.module.buffers()) if self._join.shares_buffers else [],
                          self.process_group, self._join.root)
                self._sum_up()
            become_as([*self.module.parameters(), *self.module.buffers()], self.process_group,
                      self._join.root)
        finally:
            self._join = None

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within this block backward() adds this rank's gradients alone, to be averaged with those
        of the next backward() outside of it."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def _average(self) -> None:
        """Average all gradients."""
        unused = [name for name, p in self._trained if p.grad is None]
        if unused and not self.find_unused_parameters:
            raise GradientError(f"DistributedDataParallel: backward() has reached no "
                                f"{', '.join(unused)}, and other ranks may wait for it; leave it "
                                f"out of the loss by requires_grad_(False), or give "
                                f"find_unused_parameters=True")
        for bucket, means in self._sum_up():
            for p, mean in zip(bucket, means, strict=True):
                with no_grad():
                    gradient = p.new_zeros(p.shape) if p.grad is None else p.grad
                    gradient.copy_(mean)
                    p.grad = gradient

    def _sum_up(self) -> list[tuple[list[Parameter], list[Tensor]]]:
        """The means of the ranks' gradients, by buckets: of what has none here, zeros."""
        is_absent = self._join is not None and not self._join.is_here
        buckets, found = list(self._buckets()), []
        with no_grad():
            for number, bucket in enumerate(buckets):
                own = [p.new_zeros(p.shape) if p.grad is None or is_absent else p.grad
                       for p in bucket]
                found.append((bucket, self._means(number, number == len(buckets) - 1, bucket, own)))
        return found

    def _means(self, number: int, is_last: bool, bucket: list[Parameter], gradients: list[Tensor]
               ) -> list[Tensor]:
        if self._hook is not None:
            return means_by(*self._hook, GradBucket(number, is_last, bucket, gradients))
        wide = [g.float() if g.dtype.is_half else g for g in gradients]
        count = self.process_group.size if self._join is None else self._join.count
        return together("all_reduce", wide, self.process_group, divisor=count)

    def _bucket_bytes(self, given: float | None) -> tuple[float, float]:
        """Bytes of gradients that travel together: of the first bucket, and of others."""
        if given is not None:
            return min(FIRST, given * MIB), given * MIB
        total = sum(_bytes(p) for _, p in self._trained)
        if self.process_group.size == 1:
            return total, total
        chosen = link.measured(self.process_group, self._trained[0][1].device).bucket(total)
        return chosen, chosen

    def _buckets(self) -> Iterator[list[Parameter]]:
        """The parameters in the order in which backward() comes to them, some at a time."""
        bucket: list[Parameter] = []
        filled, limit = 0, self.bucket_bytes[0]
        for _, p in reversed(self._trained):
            if bucket and (filled >= limit or type_of(p) != type_of(bucket[0])):
                yield bucket
                bucket, filled, limit = [], 0, self.bucket_bytes[1]
            bucket.append(p)
            filled += _bytes(p)
        yield bucket


def _bytes(gradients_of: Parameter) -> int:
    return gradients_of.numel() * gradients_of.element_size()


def _ask(own: ref[DistributedDataParallel]) -> None:
    """Average at the end of this backward pass."""
    module = own()
    if module is not None and module.require_backward_grad_sync:
        hooks.at_end(module, module._average)


