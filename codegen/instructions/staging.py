"""How linearize fills arrays in the local memory of a group: STAGEs.

A STAGE is filled where the loops that it depends on begin, between barriers; STAGEs in one place
share those. One with several buffers is filled an iteration or more ahead.
"""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.codegen.instructions.instructions import (
    Barrier,
    Block,
    Commit,
    Copy,
    Store,
    Value,
    Wait,
)
from lazyten.codegen.instructions.memory import Memory
from lazyten.codegen.instructions.scopes import assignments, is_loop, sorted_unrolled
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node
from lazyten.ir.ops import Op


class Staging(Memory):
    """Fills arrays of a group."""

    def _staged_beside(self, node: Node) -> list[Node]:
        """The STAGEs that are filled where `node` is."""
        place = self._stage_block(node)
        stages = [n for n in self.free if n.op is Op.STAGE and n not in self.done]
        return [n for n in stages if self._stage_block(n) is place]

    def _stage_block(self, node: Node) -> Block | None:
        loops = [r for r in self.free[node] if is_loop(r)]
        if any(r not in self.counter for r in loops):
            return None
        return self.build.deepest([self.counter[r] for r in loops])

    def _stage(self, nodes: Sequence[Node]) -> None:
        """Fill arrays: all items of the group store a part, once all have read what was there.
        What has buffers is copied ahead: only that must have arrived which is read next."""
        self.done.update(nodes)
        block = self._stage_block(nodes[0])
        assert block is not None
        for node in nodes:
            self.arrays[node] = self.build.array(node.dtype, node.arg.size)
            self.values[node, ()] = self.build.value(node.dtype, 1, block)
        ahead = [n for n in nodes if n.arg.buffers > 1]
        if ahead:
            self._first_copies(ahead, block)
            block.items.append(Wait(ahead[0].arg.buffers - 2))
        if any(r.arg.kind != "parallel" and is_loop(r) for r in self.free[nodes[0]]):
            block.items.append(Barrier(self.to_cores))
        if ahead:
            self._later_copies(ahead, block)
        nodes = [n for n in nodes if n.arg.buffers == 1]
        if not nodes:
            return
        for node in nodes:
            value, place, *own = node.src
            self._need(value)
            for env in assignments(sorted_unrolled(own)):
                address = self._address(node, place, env, 1)
                self.build.store(block, Store(address, self._value(value, env)))
        block.items.append(Barrier(self.to_cores))

    def _first_copies(self, nodes: Sequence[Node], block: Block) -> None:
        """What the first iterations of the loop around a block read, in the block around that, a
        batch for each."""
        r, block = self.outer[block]
        if self._is_repeated(block):
            block.items.append(Barrier())
        for number in range(nodes[0].arg.buffers - 1):
            when = self._runs(r, self.build.constant(number, dt.INDEX)) if number else None
            for node in nodes:
                self._copy(node, number, block, when)
            block.items.append(Commit())

    def _later_copies(self, nodes: Sequence[Node], block: Block) -> None:
        """What a later iteration of a loop reads, if there is one; a batch, be it empty."""
        later = nodes[0].arg.buffers - 1
        r, _ = self.outer[block]
        if r.arg.extent > later:
            following = self.build.add(self.counter[r], self.build.constant(later, dt.INDEX))
            when = self._runs(r, following)
            if when is None:
                last = self.build.constant(r.arg.extent - later, dt.INDEX)
                when = self.build.compute(Op.CMPLT, dt.bool_, self.counter[r], last)
            for node in nodes:
                self._copy(node, later, block, when)
        block.items.append(Commit())

    def _runs(self, r: Node, iteration: Value) -> Value | None:
        """Whether a loop that may end early comes to an iteration; None where it does not end."""
        stop = self.stops.get(r)
        return None if stop is None else self.build.compute(Op.CMPLT, dt.bool_, iteration, stop)

    def _copy(self, node: Node, number: int, block: Block, when: Value | None) -> None:
        """An item's part of filling one buffer of a STAGE."""
        value, place = node.src[2 * number:2 * number + 2]
        is_load = value.op is Op.LOAD  # or zeros, where all is outside
        for needed in value.src[2:] if is_load else (value,):
            self._need(needed)
        for env in assignments(sorted_unrolled(node.src[2 * node.arg.buffers:])):
            target = self._address(node, place, env, 1)
            if is_load:
                param, position, *valid = value.src
                mask = self._value(valid[0], env) if valid else None
                source = self._address(param, position, env, 1)
                block.items.append(Copy(target, source, node.dtype, mask, when))
            else:
                self.build.store(block, Store(target, self._value(value, env), None, when))

    def _is_repeated(self, block: Block) -> bool:
        """Whether a loop is around a block, other than that of the groups."""
        while block in self.outer:
            r, block = self.outer[block]
            if r.arg.kind != "parallel":
                return True
        return False
