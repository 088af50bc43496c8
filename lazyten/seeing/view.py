"""`lt.view`: a page that shows a program at each stage, from the user's lines to machine code.

The page is one file: page.html with page.css and page.js, which lie beside this module, and the
program (collect.py) as compressed JSON, a part for each kernel, that is read when it is looked at.
"""
from __future__ import annotations

import base64
import inspect
import json
import linecache
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from lazyten.execution.plans.graph import Graph
from lazyten.execution.plans.making import plan_of
from lazyten.execution.plans.plan import Plan
from lazyten.execution.realization import realize
from lazyten.frontend.core.forms import in_floats
from lazyten.frontend.tensor import Tensor
from lazyten.seeing.collect import Collector, Data
from lazyten.seeing.record import Record
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError
from lazyten.support.location import Location
from lazyten.support.paths import path_of, write_files
from lazyten.support.trees import flatten
from lazyten.version import __version__

AROUND = 12
"""Lines of a long file that are shown before and after those that a program uses."""
LONG = 600
"""Lines of a file up to which all of it is shown."""


def view(what: Any, path: str | os.PathLike[str], args: Sequence[Any] = (),
         kwargs: Mapping[str, Any] | None = None) -> None:
    """Write a page that shows a program at each stage: the lines, the graph of operations, kernels
    and why each value is stored, the loops after each pass, decisions with their estimated cycles,
    the text that is compiled, machine code where there is any, and memory.

        lt.view(y, "page.html")                      what computing a tensor (or several) would run
        lt.view(step, "page.html", args=(x, y))      what step(x, y) runs, jitted or not

    A tensor is not computed, though its kernels are compiled. A function is called once, for real:
    a training step trains; what it gives is computed, and its kernels are timed. The page is one
    file without anything from elsewhere, some hundred kilobytes to a few megabytes.

    Raises ArgumentError if there is nothing to compute, or the file cannot be written.
    """
    tracing.refuse("lt.view", "call it outside, with the jitted function as its argument")
    target = path_of(path, "view", "a file")
    collector = Collector()
    if callable(what) and not isinstance(what, Tensor):
        _call(collector, what, args, dict(kwargs or {}))
        title = str(getattr(what, "__name__", type(what).__name__))
    else:
        if args or kwargs:
            raise ArgumentError("view: args and kwargs are a function's, and the first argument "
                                "is none")
        _pending(collector, what)
        title = "tensors"
    if not collector.kernels:
        raise ArgumentError("view: nothing is computed: the values are in memory already; give "
                            "tensors that are still to be computed, or the function that makes "
                            "them, with args")
    write_files({target: page(title, collector).encode()}, "view")


def _pending(collector: Collector, what: Any) -> None:
    """What computing these tensors would run."""
    leaves, _ = flatten(what)
    storages = [in_floats(x)._storage for x in leaves if isinstance(x, Tensor)]
    if not storages or len(storages) < len(leaves):
        raise ArgumentError(f"view: give a function, a tensor, or tensors in lists, tuples and "
                            f"dicts, not {type(what).__name__}")
    for device in dict.fromkeys(s.device for s in storages):
        values = [s.value for s in storages if s.device == device]
        graph = Graph(values, device)
        if graph.copies:
            raise ArgumentError(f"view: a value is copied from '{graph.copies[0].arg[0]}' to "
                                f"'{device}' at {graph.copies[0].where}: realize() it first, or "
                                f"give the function that computes everything")
        if again := graph.read_again():
            graph = Graph([*values, *again], device)
        plan = plan_of(device, graph)
        if plan.programs:
            collector.add(device, plan)


class _Recorder(Record):
    """Also keeps the plans that ran, and how often."""

    def __init__(self) -> None:
        super().__init__()
        self.plans: dict[int, tuple[str, Plan, int]] = {}

    def runs(self, device: str, plan: Plan, spent: float | None) -> None:
        count = self.plans[id(plan)][2] if id(plan) in self.plans else 0
        self.plans[id(plan)] = device, plan, count + 1


def _call(collector: Collector, call: Callable[..., Any], args: Sequence[Any],
          kwargs: Mapping[str, Any]) -> None:
    """What calling a function runs."""
    if isinstance(args, (Tensor, str)) or not isinstance(args, Sequence):
        raise ArgumentError(f"view: args is {type(args).__name__}; give a tuple of the function's "
                            "arguments, as in view(step, 'page.html', args=(x, y))")
    given = flatten([list(args), dict(kwargs)])[0]
    inside = [in_floats(x)._storage for x in given if isinstance(x, Tensor)]
    realize(inside)  # they are the program's surroundings, not its work
    with _Recorder() as recorded:
        leaves, _ = flatten(call(*args, **kwargs))
        realize([in_floats(x)._storage for x in leaves if isinstance(x, Tensor)])
    seconds: dict[int, dict[int, list[float]]] = {}
    for e in recorded.events:
        if e.step is not None:
            seconds.setdefault(id(e.step.schedule), {}).setdefault(e.step.number, []).append(
                e.span.seconds)
    for device, plan, runs in recorded.plans.values():
        if plan.programs:
            collector.add(device, plan, runs, seconds.get(id(plan.schedule)))
    code = getattr(inspect.unwrap(call), "__code__", None)
    if code is not None:
        collector.place(Location(code.co_filename, code.co_firstlineno))


# ---- the page ------------------------------------------------------------------------------------

def page(title: str, collector: Collector) -> str:
    """The page as text."""
    program: Data = {"title": title, "version": __version__, "plans": collector.plans,
                     "kernels": collector.kernels, "files": _sources(collector)}
    parts = {"program": program, **{f"detail{n}": d for n, d in enumerate(collector.details)}}
    data = "\n".join(f'<script type="text/plain" id="{name}">{_packed(part)}</script>'
                     for name, part in parts.items())
    text = _own_file("page.html")
    for name, value in (("TITLE", _escaped(title)), ("CSS", _own_file("page.css")),
                        ("DATA", data), ("JS", _own_file("page.js"))):
        text = text.replace(f"{{{{{name}}}}}", value)
    return text


def _own_file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf8")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _packed(part: Data) -> str:
    """JSON, compressed as browsers read it ('deflate'), in base64."""
    return base64.b64encode(zlib.compress(json.dumps(part, separators=(",", ":")).encode(), 9)
                            ).decode()


def _sources(collector: Collector) -> list[Data]:
    """The user's files: their names, and the lines that are shown, [number, text] each."""
    found = []
    for file in collector.files:
        lines, used = linecache.getlines(file), collector.lines[file]
        shown = range(1, len(lines) + 1) if len(lines) <= LONG else sorted({
            n for line in used for n in range(line - AROUND, line + AROUND + 1)
            if 1 <= n <= len(lines)})
        found.append({"path": file, "name": os.path.basename(file),
                      "lines": [[n, lines[n - 1].rstrip("\n")] for n in shown]})
    return found
