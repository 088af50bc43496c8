"""Runs a kept launch again, compares devices element by element, and makes it smaller:

    python -m lazyten.diagnostics.kernel_replay FILE [--device NAME] [--against NAME] [--shrink OUT]

FILE is what `lt.dump_kernels` wrote. It exits with 0 where the devices agree, 1 where they differ.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lazyten.devices.program import Handle
from lazyten.diagnostics.kernel_shrink import shrink
from lazyten.execution.launch_file import Launch, load, save
from lazyten.execution.trial import tolerance
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, computation
from lazyten.storage.device import executor
from lazyten.storage.placement import canonical
from lazyten.support.errors import CheckError, LazytenError

Array = np.ndarray[Any, Any]
SHOWN = 8
"""Differing elements of an output that are printed."""


@dataclass(frozen=True)
class Difference:
    """An output of which elements differ. elements: up to SHOWN of (index, one value, the other,
    units in the last place between them, 0 for integers)."""

    output: int
    count: int
    most_ulp: int
    elements: tuple[tuple[list[int], Any, Any, int], ...]


def run(launch: Launch, device: str) -> list[Array]:
    """The outputs on a device, flat and as stored. The decisions are those that were kept if the
    device is of the same target."""
    kernel, runtime = launch.kernel, executor(device)
    if runtime.target_label != launch.target:
        kernel = replace(kernel, decisions=None)
    program, = runtime.build([kernel])
    outputs = [np.zeros(o.numel, o.dtype.numpy) for o in kernel.outputs]
    handles: list[Handle] = []
    try:
        for values in (*outputs, *launch.inputs):
            handles.append(runtime.alloc(values.nbytes))
            runtime.copy_in(handles[-1], values)
        program.launch(handles)
        for values, handle in zip(outputs, handles, strict=False):
            runtime.copy_out(values, handle)
    finally:
        for handle in handles:
            runtime.free(handle)
    return outputs


def compare(kernel: Kernel, first: Sequence[Array], second: Sequence[Array],
            exact: bool = False) -> list[Difference]:
    """The outputs that differ: by more than rounding can explain, unless `exact`."""
    allowed = 0.0 if exact else tolerance(kernel.outputs)
    found = []
    for number, (node, a, b) in enumerate(zip(kernel.outputs, first, second, strict=True)):
        x, y = (ops.decode(v, node.dtype) for v in (a, b))
        wrong = _differs(x, y, allowed)
        if not wrong.any():
            continue
        ulp = _ulp(a, b, node.dtype)
        elements = [([int(i) for i in np.unravel_index(p, node.shape)], x[p].item(), y[p].item(),
                     int(ulp[p])) for p in np.flatnonzero(wrong)[:SHOWN]]
        found.append(Difference(number, int(wrong.sum()), int(ulp[wrong].max()), tuple(elements)))
    return found


def _differs(x: Array, y: Array, allowed: float) -> Array:
    """Where two flat arrays differ. Floats may by `allowed` times the largest of them all."""
    if x.dtype.kind != "f":
        return np.asarray(x != y)
    with np.errstate(all="ignore"):
        finite = np.abs(x[np.isfinite(x)])
        limit = allowed * (float(finite.max()) if finite.size else 0.0)
        near = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= limit)
    return np.asarray(~near)


def _ulp(a: Array, b: Array, dtype: DType) -> Array:
    """How many floats lie between the elements; 0 for integers and where one is NaN."""
    if not dtype.is_float:
        return np.zeros(a.shape, np.int64)
    bits = dtype.bits
    x, y = (v.view(f"i{bits // 8}").astype(object) for v in (a, b))
    steps = [np.where(v < 0, -(v + (1 << bits - 1)), v) for v in (x, y)]
    nan = np.isnan(ops.decode(a, dtype)) | np.isnan(ops.decode(b, dtype))
    return np.where(nan, 0, abs(steps[0] - steps[1]))


def _unchecked(launch: Launch) -> Launch:
    return replace(launch, kernel=replace(launch.kernel, checks=()))


def outcome(launch: Launch, device: str, against: str, exact: bool = False) -> str:
    """'differs' or 'agrees', or what error a launch gives."""
    try:
        found = compare(launch.kernel, run(launch, device), run(launch, against), exact)
    except CheckError as error:
        return f"CheckError ({error.kind})"
    except LazytenError as error:
        return type(error).__name__
    return "differs" if found else "agrees"


def report(launch: Launch, differences: Sequence[Difference], device: str,
           against: str) -> Iterator[str]:
    """Lines that tell how the outputs differ."""
    if not differences:
        yield f"kernel {launch.kernel.name}: {device} and {against} agree"
    for d in differences:
        node = launch.kernel.outputs[d.output]
        yield (f"kernel {launch.kernel.name}, output {d.output}, {node.dtype.name}"
               f"{list(node.shape)}: {d.count} of {node.numel} elements differ"
               f"{f', by up to {d.most_ulp} ulp' if node.dtype.is_float else ''}")
        for index, x, y, ulp in d.elements:
            yield (f"  {index}: {x!r} on {device}, {y!r} on {against}"
                   f"{f' ({ulp} ulp)' if node.dtype.is_float else ''}")
        if d.count > len(d.elements):
            yield f"  and {d.count - len(d.elements)} more"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m lazyten.diagnostics.kernel_replay",
        description="Runs a launch that lazyten.dump_kernels kept, and compares devices.")
    parser.add_argument("file", help="what dump_kernels wrote")
    parser.add_argument("--device", help="where to run it; by default, where it ran")
    parser.add_argument("--against", default="interpreter", help="the other device")
    parser.add_argument("--exact", action="store_true", help="rounding errors are differences, too")
    parser.add_argument("--shrink", metavar="OUT", help="write a smaller launch that differs still")
    given = parser.parse_args(arguments)
    try:
        return _main(given)
    except LazytenError as error:
        print(error, file=sys.stderr)
        return 2


def _main(given: argparse.Namespace) -> int:
    launch = load(given.file)
    device, against = canonical(given.device or launch.device), canonical(given.against)
    print(f"{given.file}: kernel {launch.kernel.name} of {launch.kernel.where}, ran on "
          f"{launch.device}")
    was = outcome(launch, device, against, given.exact)
    if was in ("agrees", "differs"):
        print("\n".join(_shown(launch, device, against, given.exact)))
    else:
        print(f"it gives {was}")
    if given.shrink and was != "agrees":
        def fails(smaller: Launch) -> bool:
            return outcome(smaller, device, against, given.exact) == was
        small = shrink(launch, fails, lambda made: run(_unchecked(made), against))
        save(small, given.shrink)
        says = was if was == "differs" else f"gives {was}"
        print(f"\n{given.shrink}: smaller, and it {says}\n"
              f"{computation(small.kernel)}")
        for number, values in enumerate(small.inputs):
            print(f"input {number}: {np.array2string(values, threshold=16)}")
        if was == "differs":
            print("\n".join(_shown(small, device, against, given.exact)))
    return int(was != "agrees")


def _shown(launch: Launch, device: str, against: str, exact: bool) -> Iterator[str]:
    found = compare(launch.kernel, run(launch, device), run(launch, against), exact)
    return report(launch, found, device, against)


if __name__ == "__main__":
    sys.exit(main())
