"""The error for what a checked kernel has found, and which of its findings are errors.

A NaN is one unless an input or a constant of the kernel is NaN, too; an infinity unless one of
those is infinite or NaN. So an error comes from the kernel that makes the first.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lazyten.codegen.checks.report import Finding
from lazyten.ir import ops
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import Op
from lazyten.runtimes.checks.origins import Origin, origin
from lazyten.support.check_mode import KINDS
from lazyten.support.errors import CheckError

Array = np.ndarray[Any, Any]
Read = Callable[[int], Array]
"""The contents of a kernel's argument, flat and as stored."""

MOST_EVALUATED = 1 << 24
"""Elements of the largest node of a kernel that is evaluated to find where a value was made."""


def raise_first(kernel: Kernel, found: Mapping[str, Finding], read: Read) -> None:
    """CheckError for the first of the findings, one a kind, that is an error."""
    for kind in (k for k in KINDS if k in found):
        if kind == "bounds":
            raise CheckError(_stray(kernel, found[kind]), kind)
        if kind == "overflow" or not _is_given(kernel, kind, read):
            raise CheckError(_wrong(kernel, kind, found[kind], read), kind)


def _is_given(kernel: Kernel, kind: str, read: Read) -> bool:
    """Whether an input or a constant of the kernel is of this kind already."""
    given = [np.asarray(n.value) for n in toposort(kernel.outputs)
             if n.op is Op.CONST and n.dtype.is_float]
    given += [ops.decode(read(len(kernel.outputs) + i), dtype)
              for i, (dtype, _) in enumerate(kernel.inputs) if dtype.is_float]
    return any(bool(np.isnan(x).any() if kind == "nan" else not np.isfinite(x).all())
               for x in given)


def _title(kernel: Kernel) -> str:
    return f"kernel {kernel.name} (from {kernel.where})"


def _stray(kernel: Kernel, finding: Finding) -> str:
    """An access outside an array."""
    slot, is_store = divmod(finding.site, 2)
    count = len(kernel.outputs)
    if slot < count:
        output = kernel.outputs[slot]
        name, dtype, size = f"output {slot}", output.dtype, output.numel
    elif slot < count + len(kernel.inputs):
        name, (dtype, size) = f"input {slot - count}", kernel.inputs[slot - count]
    else:
        return f"{_title(kernel)} touches element {finding.position} of its scratch memory" + _BUG
    verb = "stores" if is_store else "loads"
    return (f"{_title(kernel)} {verb} element {finding.position} of {name}, {dtype.name}[{size}]: "
            f"there is none; nothing was touched" + _BUG)


_BUG = ". This is a bug in lazyten: please report it with the text that DEBUG=3 prints"


def _wrong(kernel: Kernel, kind: str, finding: Finding, read: Read) -> str:
    """A value of an output."""
    if finding.site >= len(kernel.outputs):
        return f"{_title(kernel)}: a partial result overflows{_made(kernel, kind, None)}"
    output = kernel.outputs[finding.site]
    stored = read(finding.site)[:output.numel]
    value = ops.decode(stored, output.dtype)[finding.position].item()
    index = [int(i) for i in np.unravel_index(finding.position, output.shape)]
    number = f" {finding.site}" if len(kernel.outputs) > 1 else ""
    says = {"nan": "is nan, and no input of the kernel is",
            "inf": f"is {value}, and no input of the kernel is infinite or nan",
            "overflow": f"is {value}, from an integer that overflows"}[kind]
    made = None
    if max(n.numel for n in toposort(kernel.outputs)) <= MOST_EVALUATED:
        leaves = {slot: read(slot) for slot in _inputs(kernel)}
        made = origin(kernel, kind, finding, leaves)
    return (f"{_title(kernel)}: element {index} of output{number}, "
            f"{output.dtype.name}{list(output.shape)}, {says}{_made(kernel, kind, made)}")


def _inputs(kernel: Kernel) -> range:
    return range(len(kernel.outputs), len(kernel.outputs) + len(kernel.inputs))


def _made(kernel: Kernel, kind: str, made: Origin | None) -> str:
    """Who made it, and what to do."""
    who = "" if made is None else f"; {_operation(made.node)} at {made.node.where} made it"
    if made is not None and made.operands:
        who += f" of {', '.join(map(str, made.operands))}, element {list(made.place)}"
    remedy = "use a wider type, or clamp the values" if kind == "overflow" else \
        "keep the values away from there (clamp them, or choose others with where())"
    return f"{who}: {remedy}, or check less with lazyten.check"


def _operation(node: Node) -> str:
    if node.op is Op.CAST:
        return f"the conversion to {node.dtype.name}"
    return node.op.name
