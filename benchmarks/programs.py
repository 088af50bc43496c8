"""Training steps of the programs in tests/programs: PyTorch's code, run unchanged by each.

A program is a file that says `import torch`; tests/support/torch_programs.py says what it has. A
row's weights and first losses are lazyten's own on the interpreter, which is NumPy: a process of
its own prints them, so that a framework's process holds that framework alone.
"""
from __future__ import annotations

import atexit
import base64
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.case import Case
from benchmarks.frameworks import Framework, NotWritten
from benchmarks.numpy_operations import Array

SUPPORT = Path(__file__).parents[1] / "tests/support"
TIMEOUT_S = 120.0  # for the reference
CHECKED = 3

CHOSEN = ("images/lenet", "images/resnet", "images/vit", "images/densenet", "text/mingpt",
          "text/transformer_classifier", "text/gru_sentiment", "text/word2vec", "generative/vae",
          "generative/gan", "generative/diffusion", "training/own_optimizer",
          "training/annealed_rows", "others/mlp", "others/graph_convolution", "others/dqn")
"""The rows of `make bench`: a program of each kind."""

_opened = ExitStack()
"""What `import torch` means, as long as this process lives."""
atexit.register(_opened.close)


def rows(names: tuple[str, ...] = CHOSEN) -> Iterator[Case]:
    """A step as written, and one under lt.jit (other frameworks: as written)."""
    for name in names:
        for jit in (True, False):
            yield Case(f"{name} step{'' if jit else ', eager'}",
                       partial(training_step, name=name, jit=jit), checked=CHECKED, tolerance=2e-3,
                       waits=False, heavy=True, expected=partial(reference_losses, name))


def training_step(framework: Framework, name: str, jit: bool) -> Callable[[], float]:
    """A function that does one training step on the program's next batch and gives the loss (the
    sum of what the step gives)."""
    if framework.name not in ("lazyten", "torch"):
        raise NotWritten
    programs, library = _programs(), framework.module
    program = _opened.enter_context(programs.loaded(name, framework.name == "lazyten"))
    model = program["model"]()
    model.load_state_dict({key: library.tensor(value)
                           for key, value in reference(name)["state"].items()})
    optimizer = program["optimizer"](model)
    batches = cycle([[library.tensor(array.astype("float32") if array.dtype.kind == "f" else array)
                      for array in map(np.asarray, batch)]
                     for batch in program["batches"](np.random.default_rng(0))])
    step = framework.compile(program["step"]) if jit else program["step"]
    after = program.get("after_step", lambda model, optimizer: None)

    def call() -> float:
        found = step(model, optimizer, *next(batches))
        after(model, optimizer)
        return sum(float(x.detach().sum()) for x in (found if isinstance(found, tuple)
                                                     else [found]))
    return call


def reference_losses(name: str, count: int) -> list[Array]:
    """The first `count` losses."""
    return [np.asarray(loss) for loss in reference(name)["losses"][:count]]


@cache
def reference(name: str) -> dict[str, Any]:
    """A program's first weights, and losses."""
    code = f"from benchmarks.programs import report; report({name!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          timeout=TIMEOUT_S, env={**os.environ, "DEVICE": "interpreter"})
    if done.returncode:
        raise RuntimeError(f"{name} on the interpreter: {done.stderr.strip()[-500:]}")
    found: dict[str, Any] = np.load(io.BytesIO(base64.b64decode(done.stdout)),
                                    allow_pickle=True)["found"].item()
    return found


def report(name: str) -> None:
    """Print what `reference` gives."""
    import lazyten as lt
    programs = _programs()
    with programs.loaded(name, ours=True) as program:
        state = programs.initial_state(lt, program)
        losses = programs.train(lt, program, state, "float32").losses
    given = {"state": state, "losses": [sum(float(x.sum()) for x in step) for step in losses]}
    out = io.BytesIO()
    np.savez(out, found=np.array(given, dtype=object))
    print(base64.b64encode(out.getvalue()).decode())


def _programs() -> Any:
    if str(SUPPORT) not in sys.path:
        sys.path.append(str(SUPPORT))
    import torch_programs
    return torch_programs
