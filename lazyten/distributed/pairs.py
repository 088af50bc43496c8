"""What one rank sends another, by PyTorch's names: `send`, `recv`, and those that do not wait."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from lazyten.distributed import functional
from lazyten.distributed.group import Group
from lazyten.distributed.in_place import Work, rooted, write
from lazyten.distributed.state import group_of
from lazyten.execution.realization import carry_out
from lazyten.frontend.arguments import checks_tensors
from lazyten.frontend.tensor import Tensor
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError
from lazyten.support.location import user_location


@dataclass(frozen=True, slots=True)
class P2POp:
    """What batch_isend_irecv() does: isend or irecv of a tensor, with rank `peer` of the job, or
    group_peer of the group."""

    op: Callable[..., Work]
    tensor: Tensor
    peer: int | None = None
    group: Group | None = None
    tag: int = 0
    group_peer: int | None = None


@checks_tensors
def send(tensor: Tensor, dst: int | None = None, group: Group | None = None, tag: int = 0,
         group_dst: int | None = None) -> None:
    """Send a tensor to rank dst, which calls recv() with the same tag: now, unless it is a jitted
    function that does."""
    _record(tensor, dst, group, tag, group_dst)
    _Sent().wait()


def _record(tensor: Tensor, dst: int | None, group: Group | None, tag: int, group_dst: int | None
            ) -> None:
    found, to = rooted(group, dst, "send", group_dst)
    functional.labelled_exchange(tensor.detach(), to, None, found, _tagged(tag))


class _Sent(Work):
    """What is recorded to be sent. Others may wait for it, so wait() carries it out."""

    def wait(self, timeout: timedelta | None = None) -> bool:
        if tracing.current() is None:
            carry_out()
        return True


@checks_tensors
def recv(tensor: Tensor, src: int | None = None, group: Group | None = None, tag: int = 0,
         group_src: int | None = None) -> int:
    """Write what rank src sends to the tensor; gives src. Of one rank tensors come in the order in
    which they are sent. src left out: who sends first, which is waited for; in no jitted function.
    """
    if src is None and group_src is None:
        found = group_of(group, "recv")
        source = _whoever_sends(found, tensor)
    else:
        found, source = rooted(group, src, "recv", group_src)
    came = functional.labelled_exchange(tensor.detach(), None, source, found, _tagged(tag))
    write(tensor, came, False)
    return found.ranks[source]


def _whoever_sends(group: Group, tensor: Tensor) -> int:
    """The first rank of the group that sends something that is not received yet."""
    tracing.refuse("distributed.recv() from any rank", "say by src= who sends")
    carry_out()
    return group.whoever_sends(f"recv of {tensor.dtype.name}{list(tensor.shape)} from any rank",
                               user_location())


def isend(tensor: Tensor, dst: int | None = None, group: Group | None = None, tag: int = 0,
          group_dst: int | None = None) -> Work:
    """send() once its wait() is called, or a value is looked at that comes afterwards."""
    _record(tensor, dst, group, tag, group_dst)
    return _Sent([tensor])


def irecv(tensor: Tensor, src: int | None = None, group: Group | None = None, tag: int = 0,
          group_src: int | None = None) -> Work:
    """recv(), which waits where the tensor is looked at; without src at once."""
    recv(tensor, src, group, tag, group_src)
    return Work([tensor])


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Do each of these, one after the other."""
    for p2p in p2p_op_list:
        if not isinstance(p2p, P2POp) or p2p.op not in (isend, irecv):
            raise ArgumentError(f"batch_isend_irecv: {p2p!r:.80}; give P2POp(isend, tensor, rank) "
                                f"and P2POp(irecv, tensor, rank)")
    return [p.op(p.tensor, p.peer, p.group, p.tag, p.group_peer) for p in p2p_op_list]


def _tagged(tag: int) -> str:
    return f"tag {tag}" if tag else ""
