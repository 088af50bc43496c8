"""The libraries that run a program, and what is seen of it: values, layouts, aliases."""
from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import lazyten as lt
from fuzz.program import Program, Statement
from fuzz.rows import EXACT
from fuzz.rows_parts import PARTS_ROW
from fuzz.rows_written import FORMAT_ROW
from lazyten.nn import functional

Array = np.ndarray[Any, Any]
Names = dict[str, Any]


@dataclass(frozen=True)
class Seen:
    """What is seen of one tensor. strides and root: None where libraries may differ. `root` is the
    first name that shares the storage."""

    dtype: str
    value: Array
    strides: tuple[int, ...]
    offset: int
    root: str
    requires_grad: bool


@dataclass(frozen=True)
class Observation:
    """What is seen of a program: tensors by name (gradients as `x.grad`), or the error it ends in,
    with the row of the statement."""

    tensors: Mapping[str, Seen | None] = field(default_factory=dict)
    error: Exception | None = None
    row: str = ""


@contextmanager
def default_device(name: str) -> Iterator[None]:
    """New tensors live on this device of lazyten."""
    before = os.environ.get("DEVICE")
    os.environ["DEVICE"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["DEVICE"]
        else:
            os.environ["DEVICE"] = before


class TooSlow(Exception):
    """A program takes longer than any of its size should."""


SECONDS = 15
"""Of the processor, which a program may take; most take a tenth of one."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TooSlow inside after so many seconds of the processor, however busy others keep it;
    only in a main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(signum: int, frame: object) -> None:
        raise TooSlow(f"not done after {seconds} s of the processor")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class Library:
    """Runs programs. `module` and `functions` stand for `lt` and `F` in them."""

    def __init__(self, name: str, module: Any, functions: Any) -> None:
        self.name, self.module, self.functions = name, module, functions

    def start(self, program: Program) -> Names:
        self.module.manual_seed(program.seed)
        return {"lt": self.module, "F": self.functions, "ThreadPoolExecutor": ThreadPoolExecutor}

    def source(self, statement: Statement) -> str:
        return "\n".join(statement.lines())

    def execute(self, statement: Statement, names: Names) -> None:
        exec(_compiled(self.source(statement)), names)

    def record(self, program: Program) -> tuple[Names, Exception | None, str]:
        """The names after the statements have run, or as far as an error let them, with its row."""
        names = self.start(program)
        for statement in program.statements:
            try:
                with time_limit(SECONDS):
                    self.execute(statement, names)
            except Exception as error:
                return names, error, statement.row
        return names, None, ""

    def observe(self, programs: Sequence[Program]) -> list[Observation]:
        """What is seen of each; what they look at is computed together."""
        recorded = [(p, *self.record(p)) for p in programs]
        tensors = [t for p, names, error, _ in recorded if error is None
                   for t in tensors_of(p, names).values() if t is not None]
        try:
            with time_limit(SECONDS):
                self.realize(tensors)
        except Exception as error:
            if len(programs) > 1:  # whose fault is it?
                return [o for p in programs for o in self.observe([p])]
            return [Observation(error=recorded[0][2] or error, row="realize")]
        return [self._look(*r) for r in recorded]

    def _look(self, program: Program, names: Names, error: Exception | None,
              row: str) -> Observation:
        if error is not None:
            return Observation(error=error, row=row)
        tensors = tensors_of(program, names)
        roots = _roots(program, names, self.storage)
        try:
            return Observation({name: None if t is None else self.seen(t, roots.get(name, name))
                                for name, t in tensors.items()})
        except Exception as error:
            return Observation(error=error, row="look")

    def seen(self, tensor: Any, root: str) -> Seen:
        dtype = str(tensor.dtype).rpartition(".")[2].rstrip("_")
        return Seen(dtype, self.values(tensor), tuple(tensor.stride()),
                    int(tensor.storage_offset()), root, bool(tensor.requires_grad))

    def realize(self, tensors: Sequence[Any]) -> None:
        """Compute all values at once."""

    def values(self, tensor: Any) -> Array:
        raise NotImplementedError

    def storage(self, tensor: Any) -> Any:
        """Equal for tensors that share memory."""
        raise NotImplementedError


def tensors_of(program: Program, names: Names) -> dict[str, Any]:
    """What the program looks at, by name."""
    found = {name: names[name] for name in program.observed}
    found.update({f"{name}.grad": names[name].grad for name in program.leaves})
    return found


def _roots(program: Program, names: Names, storage: Callable[[Any], Any]) -> dict[str, str]:
    """For each name the first that shares its storage."""
    first: dict[Any, str] = {}
    roots = {}
    for name in (s.target for s in program.statements):
        tensor = names.get(name) if name else None
        if name and hasattr(tensor, "untyped_storage"):
            roots[name] = first.setdefault(storage(tensor), name)
    return roots


_code: dict[str, Any] = {}


def _compiled(source: str) -> Any:
    if len(_code) > 20_000:
        _code.clear()
    found = _code.get(source)
    if found is None:
        # Errors tell lines of the program, and a jitted function may ask for its source.
        found = _code[source] = compile(source, "<program>", "exec")
    return found


class Lazyten(Library):
    """lazyten on one device."""

    def __init__(self, device: str) -> None:
        super().__init__(device, lt, functional)

    def observe(self, programs: Sequence[Program]) -> list[Observation]:
        with default_device(self.name):
            return super().observe(programs)

    def realize(self, tensors: Sequence[Any]) -> None:
        if tensors:
            lt.realize(*tensors)

    def values(self, tensor: Any) -> Array:
        return np.asarray(tensor.detach().numpy())

    def storage(self, tensor: Any) -> Any:
        return tensor.untyped_storage()


class Stirred(Lazyten):
    """The interpreter, but what is rounded is another last place off in each run: how far values
    spread then is how far rounding may take them."""

    def __init__(self, seed: int) -> None:
        super().__init__("interpreter")
        self.seed = seed

    def start(self, program: Program) -> Names:
        self.random = np.random.default_rng(self.seed)
        # Autocast may compute in float32 what is a float64 with its other operand.
        mixed = any(row.startswith("autocast") for row in program.rows)
        self.least = lt.finfo(lt.float32).eps if mixed else 0.0
        return {**super().start(program), "_stir": self.stir}

    def source(self, statement: Statement) -> str:
        if statement.result:  # not jitted: other noise each time is no function
            statement = replace(statement, form="")
        return "\n".join(statement.lines(
            lambda s: "{}" if s.exactness == EXACT else "_stir({})"))

    def stir(self, tensor: Any) -> Any:
        if isinstance(tensor, tuple):
            return tuple(map(self.stir, tensor))
        if not isinstance(tensor, lt.Tensor) or tensor.dtype.kind != "f":
            return tensor
        last_place = max(lt.finfo(tensor.dtype).eps, self.least)
        noise = self.random.uniform(-2, 2, tensor.shape) * last_place
        factor = lt.tensor(noise, dtype=lt.float64)
        return (tensor.double() * (1 + factor)).to(tensor.dtype)


class PyTorch(Library):
    """PyTorch, where results of operations are made row-major, as lazyten's are."""

    def __init__(self) -> None:
        import torch
        import torch.utils.checkpoint
        self.torch = torch
        super().__init__("torch", _TorchAsLazyten(torch), torch.nn.functional)

    def start(self, program: Program) -> Names:
        return {**super().start(program), "_made": self.made, "_new": self.new}

    def source(self, statement: Statement) -> str:
        return "\n".join(statement.lines(self._around))

    def _around(self, statement: Statement) -> str:
        if statement.row in ("plain", "jit", "compile", "checkpoint", PARTS_ROW,
                             FORMAT_ROW):
            return "{}"  # what a function gives is row-major, and parts lie as their numbers do
        if statement.row == "autograd.grad" or statement.operands and (
                statement.operands[0].startswith("f")) or "_scatter(" in statement.form:
            return "_new({})"  # what a transform gives is new, or need not be; or has an offset
        return "_made({}" + "".join(f", {o}" for o in statement.operands) + ")"

    def execute(self, statement: Statement, names: Names) -> None:
        """As ever, but a write to memory that another operand reads is refused: PyTorch may read
        what it has just written."""
        tensors = [t for t in map(names.get, statement.operands)
                   if isinstance(t, self.torch.Tensor)]
        if statement.target is None and tensors and ".backward" not in statement.form:
            written = tensors[0].untyped_storage().data_ptr()
            if any(t.untyped_storage().data_ptr() == written for t in tensors[1:]):
                raise RuntimeError("a write to what another operand reads")
        super().execute(statement, names)

    def new(self, result: Any) -> Any:
        """`result` as a tensor of its own."""
        return None if result is None else result.clone(
            memory_format=self.torch.contiguous_format)

    def made(self, result: Any, *operands: Any) -> Any:
        """`result` as a row-major tensor, unless it is a view of an operand, or one of several
        that have been looked at before."""
        tensor = self.torch.Tensor
        if isinstance(result, tuple | list):
            return tuple(self.made(r, *operands) for r in result)
        if not isinstance(result, tensor) or result.is_contiguous() or any(
                isinstance(o, tuple) for o in operands):
            return result
        storages = {o.untyped_storage().data_ptr() for o in operands if isinstance(o, tensor)}
        return result if result.untyped_storage().data_ptr() in storages else result.contiguous()

    def values(self, tensor: Any) -> Array:
        plain = tensor.detach()
        if plain.dtype == self.torch.bfloat16:
            plain = plain.float()
        return np.array(plain.resolve_conj().numpy())

    def storage(self, tensor: Any) -> Any:
        return tensor.untyped_storage().data_ptr() or id(tensor)


class _TorchAsLazyten:
    """PyTorch's module with what lazyten has by another name."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.bool_ = torch.bool
        self.autocast = partial(torch.autocast, "cpu")
        self.jit = self.compile = lambda function: function
        self.realize = lambda *tensors: None
        self.GradScaler = partial(torch.amp.GradScaler, "cpu")
        self.checkpoint = partial(torch.utils.checkpoint.checkpoint, use_reentrant=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)


def has_torch() -> bool:
    return find_spec("torch") is not None

