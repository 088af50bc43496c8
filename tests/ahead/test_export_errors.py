"""What `lt.export` refuses: each with a reason, and nothing is written."""
from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten import nn, optim
from lazyten.support.errors import ArgumentError, DeviceError, LazytenError

X = lt.zeros(2, 3)
MODEL = nn.Linear(3, 1)
SCHEDULED = optim.SGD(MODEL.parameters(), 0.1)
SCHEDULER = optim.lr_scheduler.StepLR(SCHEDULED, 1)
LBFGS = optim.LBFGS(MODEL.parameters())


class Counter:
    """An object with a count and the last value."""

    def __init__(self) -> None:
        self.calls = 0
        self.last = lt.zeros(1)

    def count(self, x: lt.Tensor) -> lt.Tensor:
        self.calls += 1
        return x * self.calls

    def keep(self, x: lt.Tensor) -> lt.Tensor:
        self.last = x + 1
        return x


COUNTER = Counter()
KEPT: list[lt.Tensor] = []


def leaks(x: lt.Tensor) -> lt.Tensor:
    KEPT.append(x * 2)
    return x


def adds_up(x: lt.Tensor) -> lt.Tensor:
    loss: lt.Tensor = MODEL(x).sum()
    loss.backward()
    SCHEDULED.step()
    return loss


def schedules(x: lt.Tensor) -> None:
    SCHEDULED.zero_grad()
    MODEL(x).sum().backward()
    SCHEDULED.step()
    SCHEDULER.step()


def lbfgs(x: lt.Tensor) -> None:
    LBFGS.zero_grad()
    MODEL(x).sum().backward()
    LBFGS.step(lambda: MODEL(x).sum())


FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "looks at a value": (lambda x: x if x.sum() > 0 else -x, "without Python: reading a tensor's"),
    "draws": (lambda x: x + lt.rand(3), "draws random numbers: export a model after eval"),
    "drops": (nn.Dropout(), "draws random numbers: export a model after eval"),
    "prints": (lambda x: print("hello") or x, r"without Python: print\(\)"),
    "reads a clock": (lambda x: x * time.time(), "reading a clock"),
    "counts": (COUNTER.count, "the function assigns 'calls': return the value"),
    "keeps": (COUNTER.keep, "the function assigns 'last'"),
    "leaks": (leaks, "changes 'KEPT'"),
    "gradients add up": (adds_up, r"optimizer.zero_grad\(\) \(or set .grad to None\) before"),
    "a scheduler": (schedules, "changes what Python keeps"),
    "another optimizer": (lbfgs, "export: what the function does cannot be done"),
    "no tensor": (lambda x: 3, "gives no tensor and changes none"),
    "other arguments": (lambda x, y: x, "the example does not fit the function: missing"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_need_python_are_refused(name: str, tmp_path: Path) -> None:
    function, words = FUNCTIONS[name]
    weights = [p.tolist() for p in MODEL.parameters()]
    with pytest.raises(ArgumentError, match=words):
        lt.export(function, X, tmp_path / "f.c")
    assert list(tmp_path.iterdir()) == []
    assert COUNTER.calls == 0 and COUNTER.last.tolist() == [0]
    assert [p.tolist() for p in MODEL.parameters()] == weights
    assert all(p.grad is None for p in MODEL.parameters())
    KEPT.clear()


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "target": ({"target": "z80"}, "target='z80' is none; use one of c, host, x86-64-v2, "),
    "target's type": ({"target": 3}, "target=3 is none"),
    "C as an object": ({"path": "f.o", "target": "c"}, "let the path end in .c"),
    "machine code as C": ({"target": "aarch64"}, "makes no .c file: let the path end in .o or .so"),
    "x86 as wasm": ({"path": "f.wasm", "target": "x86-64-v3"}, "let the path end in .o or .so"),
    "wasm as a library": ({"path": "f.so", "target": "wasm32"}, "let the path end in .wasm or .o"),
    "ending": ({"path": "f.py"}, "says by its ending what to make: .c for C source, "),
    "the file's name": ({"path": "my-net.c"}, "the file's name, .* 'my-net' cannot be a name in C"),
    "a name of <math.h>": ({"path": "exp.c"}, "'exp' is a function of <math.h>"),
    "name": ({"name": "3d"}, "name= '3d' cannot be a name in C"),
    "a word of C": ({"name": "double"}, "no word of C"),
    "a kernel's name": ({"name": "kernel_map"}, "none that begins with kernel_"),
    "name's type": ({"name": 5}, "name= 5 cannot be"),
    "input_names": ({"input_names": ["a", "b"]}, r"input_names=\['a', 'b'\], and there are 1 inp"),
    "an input's name": ({"input_names": ["ü"]}, "input_names: 'ü' cannot be a name in C"),
    "a name twice": ({"input_names": ["x"], "output_names": ["X"]}, "have a name in common"),
    "the function's": ({"output_names": ["F"]}, "have a name in common"),
    "weights": ({"weights": "outside"}, "weights='outside' must be 'inside' or 'beside'"),
    "workspace": ({"workspace": None}, "workspace=None must be 'static' or 'caller'"),
    "no function": ({"function": 3}, "export of int 3: it is for functions"),
    "a NumPy array": ({"example": np.ones(3)}, r"NumPy array of shape \(3,\); give lazyten.tensor"),
    "complex numbers": ({"example": lt.zeros(3, dtype=lt.complex64)}, "has a complex tensor"),
    "two devices": ({"example": (X, X.to("interpreter")), "function": lambda x, y: x},
                    "computes on cpu, interpreter: a program is for one device"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_that_make_no_sense_are_refused(name: str, tmp_path: Path) -> None:
    options, words = OPTIONS[name]
    given = {"function": lambda x: x + 1, "example": X.to("cpu"), "path": "f.c", **options}
    with pytest.raises(ArgumentError, match=words):
        lt.export(given.pop("function"), given.pop("example"), tmp_path / given.pop("path"),
                  **given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_function_is_pytorchs_module_too_and_importing_it_changes_nothing(
        tmp_path: Path) -> None:
    program = ("import lazyten as torch, sys\n"
               "try: torch.export.draft_export()\n"
               "except NotImplementedError as error: print(error)\n"
               "from lazyten.export import export, Dim\n"
               "try: export(1, ())\n"
               "except torch.ArgumentError as error: print(error)\n"
               "import lazyten.export\n"
               "print(torch.export(lambda x: x + 1, torch.zeros(3), sys.argv[1]))")
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "f.c")], check=True,
                          capture_output=True, text=True)
    first, second, third = done.stdout.splitlines()
    assert first.startswith("export.draft_export: lazyten.export.export gives a program")
    assert second.startswith("export.export of int 1: it takes a module")
    assert third.startswith("f(x: float32[3]) -> output: float32[3]")


def test_names_that_python_has_and_c_has_not_are_changed(tmp_path: Path) -> None:
    def f(double: lt.Tensor, größe: lt.Tensor, i: lt.Tensor, *more: lt.Tensor) -> lt.Tensor:
        return double + größe + i + more[0]
    made = lt.export(f, (X, X, X, X), tmp_path / "f.c")
    assert [a.name for a in made.inputs] == ["double_", "gr_e", "i", "more_0"]


def test_a_path_that_cannot_be_written_leaves_what_was_there(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match=r"cannot write .*no/f\.c: No such file"):
        lt.export(lambda x: x + 1, X, tmp_path / "no" / "f.c")
    lt.export(lambda x: x + 1, X, tmp_path / "f.c")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    write, count = Path.write_bytes, []

    def fails_at_second(self: Path, content: bytes) -> int:
        count.append(self)
        if len(count) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(self, content)
    monkeypatch.setattr(Path, "write_bytes", fails_at_second)
    with pytest.raises(ArgumentError, match=r"cannot write .*f\.h: No space left"):
        lt.export(lambda x: x + 2, X, tmp_path / "f.c")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_shared_library_without_a_linker_is_refused(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(DeviceError, match="there is no 'no-such-compiler': install gcc or clang"):
        lt.export(lambda x: x + 1, X, tmp_path / "f.so")
    monkeypatch.setenv("CC", "false")
    if shutil.which("false"):
        with pytest.raises(LazytenError, match="cannot link a shared library of this target"):
            lt.export(lambda x: x + 1, X, tmp_path / "f.so")
    assert list(tmp_path.iterdir()) == []
