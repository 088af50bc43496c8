"""The subgraph of a loop: a function of its inputs, and several steps of it as one program.

A step's Python takes longer than its kernels where these are small. Once a step gives states of
the shapes it was given, what it runs is known (`Body.step`), and after `WORTH` of these steps
`BLOCK` of them are one program (`Step.block`). A condition that is computed is looked at behind
each of these programs: a step behind the last leaves the states as they are, and what it collects
is cut off.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import lazyten as lt
from lazyten.capture.state.purity import trusted
from lazyten.onnx.graph import Graph, Node
from lazyten.onnx.segment import Compiled
from lazyten.onnx.segments import Finder
from lazyten.onnx.values import Constant, Value, key_of, to_array, to_tensor
from lazyten.support.errors import ArgumentError, LazytenError

BLOCK = 16
"""Steps of one program."""
WORTH = 256
"""Steps that are done one by one before more of them are compiled as one program, which takes as
long as some thousand of them."""


SAME = frozenset({"Cast", "Identity"})
"""Nodes that give a condition as it is."""


class Home(Protocol):
    """What a body asks of its program. segments: those that it goes through, of what it captures.
    """

    graph: Graph
    device: str | None
    constants: dict[str, Constant]
    nodes: tuple[Node, ...]
    segments: Finder

    def __call__(self, feeds: Mapping[str, Value]) -> list[Value]:
        """The outputs."""

    def compiled(self, feeds: Mapping[str, Value]) -> Compiled | None:
        """The one compiled program that a call with such values runs."""


class Body:
    """A subgraph as a function of its inputs, with the values that it captures."""

    def __init__(self, program: Home, captured: Mapping[str, Value]) -> None:
        self.program, self.captured = program, captured
        self.names = [x.name for x in program.graph.inputs]

    def __call__(self, *values: Value) -> list[Value]:
        """The outputs."""
        return self.program(self._feeds(values))

    @property
    def device(self) -> str | None:
        """Where it computes."""
        return self.program.device

    def _feeds(self, values: Sequence[Value]) -> dict[str, Value]:
        if len(values) != len(self.names):
            raise ArgumentError(f"the subgraph {self.program.graph.name!r} has {len(self.names)} "
                                f"inputs, and is given {len(values)}")
        return {**self.captured, **dict(zip(self.names, values, strict=True))}

    def always_goes(self) -> bool:
        """Whether the first output, a loop's condition, is the second input or a constant True."""
        graph = self.program.graph
        makers = {node.outputs[0]: node for node in graph.nodes if node.kind in SAME}
        name = graph.outputs[0]
        while name in makers:
            name = makers[name].inputs[0]
        known = self.program.constants.get(name, self.captured.get(name))
        return name == self.names[1] or isinstance(known, Constant) and known.array.size == 1 \
            and known.array.dtype == bool and bool(known.array.ravel()[0])

    def segments(self, count: int) -> list[Value] | None:
        """What so many steps give, if each of them reduces a segment of rows."""
        program = self.program
        found = program.segments(self.captured)
        if found is None:
            return None
        return found({**program.constants, **self.captured}, count, program.device)

    def step(self, values: Sequence[Value], states: slice, new: Sequence[Value]) -> Step | None:
        """What a step that was done runs, and those behind it, if all is tensors and the states it
        gave, `new`, are like those among its values."""
        if not all(isinstance(x, lt.Tensor) for x in (*values, *new)) \
                or list(map(key_of, values[states])) != list(map(key_of, new)):
            return None
        compiled = self.program.compiled(self._feeds(values))
        if compiled is None or compiled.program is None:
            return None
        given = {*self.names, *compiled.outputs, *compiled.known, *self.program.constants}
        return Step(self, compiled) if given.issuperset(self.program.graph.outputs) else None


class Step:
    """A body where all steps are alike: what they run is known."""

    def __init__(self, body: Body, compiled: Compiled) -> None:
        self.names, self.outputs = body.names, body.program.graph.outputs
        self.fixed = {**body.program.constants, **body.captured, **compiled.known}
        self.device, self.compiled = body.program.device, compiled

    def __call__(self, *values: Value) -> list[Value]:
        """The outputs of one step."""
        self.compiled.runs += 1
        return self._outputs(self.fixed, values)

    def _outputs(self, fixed: Mapping[str, Value], values: Sequence[Value]) -> list[Value]:
        given = {**fixed, **dict(zip(self.names, values, strict=True))}
        given.update(self.compiled.run(given))
        return [given[name] for name in self.outputs]

    def block(self, states: int, rows: int, counts: bool, looks: bool) -> Block | None:
        """Several steps as one program, once it is worth it. states, rows: how many of each the
        step takes; counts: whether it takes its number and the condition before them; looks:
        whether the condition that it gives is computed."""
        if self.compiled.runs < WORTH:
            return None
        key = states, rows, counts, looks
        if key not in self.compiled.blocks:
            self.compiled.blocks[key] = lt.jit(trusted(
                self._function(states, rows, counts, looks)))
        return Block(self, self.compiled.blocks[key], states, looks)

    def _function(self, states: int, rows: int, counts: bool, looks: bool) -> Any:
        """Several steps as a function of tensors: those of `free_names`, the number of the first
        step, states and rows; with a code of what was done, states, and what was collected."""
        names, fixed, device = self.free_names(), self.fixed, self.device
        outputs = self._outputs

        def steps(*tensors: lt.Tensor) -> list[lt.Tensor]:
            given = {**fixed, **dict(zip(names, tensors, strict=False))}
            first, *rest = tensors[len(names):]
            carried, scanned = rest[:states], rest[states:]
            going = lt.ones((), dtype=lt.bool_, device=first.device)
            done = lt.zeros((), dtype=lt.int64, device=first.device)
            collected: list[list[lt.Tensor]] = []
            for k in range(BLOCK):
                before = [first + k, lt.ones_like(going)] if counts else []
                found = [to_tensor(x, device) for x in outputs(
                    given, [*before, *carried, *(row[k] for row in scanned)])]
                flag = found.pop(0) if counts else going
                new = found[:states]
                collected.append(found[states:])
                if looks:
                    done = done + going.to(lt.int64)
                    new = [lt.where(going, x, old) for x, old in zip(new, carried, strict=True)]
                    going = going & flag.reshape(())
                carried = new
            code = done * 2 + going.to(lt.int64) if looks else first
            return [code, *carried, *(lt.stack(parts) for parts in zip(*collected, strict=True))]
        return steps

    def free_names(self) -> list[str]:
        """Names of the tensors that the body captures."""
        return [name for name in self.compiled.slots if name not in self.names]


class Block:
    """Several steps, compiled as one program. failed: one of them did, so the rest of the loop is
    done one by one."""

    def __init__(self, step: Step, program: Any, states: int, looks: bool) -> None:
        self._program, self._states, self._looks = program, states, looks
        self._free = [step.fixed[name] for name in step.free_names()]
        self.failed = False

    def __call__(self, first: lt.Tensor, carried: Sequence[Value],
                 rows: Sequence[lt.Tensor]) -> tuple[int, bool, list[Value], list[Value]] | None:
        """How many steps were done, whether there are more, the states, and what was collected;
        None if one of them fails, which may be one behind the last."""
        try:
            code, *found = self._program(*self._free, first, *carried, *rows)
            done, going = divmod(int(to_array(code)), 2) if self._looks else (BLOCK, True)
        except LazytenError:
            self.failed = True
            return None
        rest = found[self._states:]
        return done, bool(going), found[:self._states], [
            x if done == BLOCK else x[:done] for x in rest]
