"""Which kernels become one that a device runs in one pass over what they share: attention.

In: the kernels that fusion.py makes. Out: the same, but where a product is made of a softmax whose
scores are products themselves, and nobody else reads the weights or the scores, one kernel has all
three as its expression, if the device says that it streams it (`Limits.streams`): then nothing of
the scores' size is stored. Otherwise such a kernel would compute the scores three times. What the
three read that is made of indices alone, such as a causal mask, is part of that expression, too.
Called by schedule.py.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import Op
from lazyten.schedule.fusion import FusedKernel

LONGEST = 3
"""Kernels of such a chain: scores, weights, and what they are multiplied with."""


def in_one_pass(groups: Sequence[FusedKernel], same: Callable[[Node], Node], kept: Collection[Node],
                streams: Callable[[FusedKernel, Collection[Node]], bool]) -> list[FusedKernel]:
    """The kernels to run, in the same order.

    same: of a stored node the one whose array it is in, of others the node itself. kept: those that
    must be stored. streams: whether the device runs a kernel in one pass that computes some values
    itself.
    """
    made = {same(d.node): group for group in groups for d in group.stored}
    reads = {group: _reads(group, same, made) for group in groups}
    readers: dict[Node, set[FusedKernel]] = {}
    for group, found in reads.items():
        for node in found:
            readers.setdefault(node, set()).add(group)

    def before(group: FusedKernel) -> list[Node]:
        """What only this kernel reads, of kernels that make nothing else, with reductions."""
        return [n for n in reads[group] if len(readers[n]) == 1 and n not in kept
                and len(made[n].stored) == 1 and _reduces(made[n], same, made)]
    gone: set[Node] = set()
    for group in groups:
        chain: list[Node] = []
        last = [group]
        while last and len(chain) < LONGEST - 1:
            found = [n for g in last for n in before(g)]
            chain += found
            last = [made[n] for n in found]
        if len(chain) < LONGEST - 1 or len(group.stored) > 1:
            continue
        members = {group, *(made[n] for n in chain)}
        known = [n for g in members for n in reads[g]
                 if n not in kept and _is_of_indices(made[n], same, made)]
        if streams(group, [*chain, *known]):
            gone.update(chain)
            gone.update(n for n in known if readers[n] <= members)
    return [g for g in groups if same(g.stored[0].node) not in gone]


def _reads(group: FusedKernel, same: Callable[[Node], Node],
           made: Collection[Node]) -> list[Node]:
    """The stored values that a kernel reads."""
    return list(dict.fromkeys(same(n) for n in _nodes(group, same, made)
                              if same(n) in made and n not in [d.node for d in group.stored]))


def _reduces(group: FusedKernel, same: Callable[[Node], Node], made: Collection[Node]) -> bool:
    return any(n.op is Op.REDUCE for n in _nodes(group, same, made))


def _is_of_indices(group: FusedKernel, same: Callable[[Node], Node],
                   made: Collection[Node]) -> bool:
    """Whether it makes one value, of positions alone: nothing is read for it."""
    nodes = _nodes(group, same, made)
    return len(group.stored) == 1 and not any(
        n.op in (Op.REDUCE, Op.BUFFER) or same(n) in made and n is not group.stored[0].node
        for n in nodes)


def _nodes(group: FusedKernel, same: Callable[[Node], Node],
           made: Collection[Node]) -> list[Node]:
    """The nodes of a kernel's expression, down to what it reads."""
    own = [d.node for d in group.stored]
    return toposort(own, lambda n: n.src if n in own or same(n) not in made else ())
