"""The programs of tests/programs, run under PyTorch or, unchanged, under lazyten.

A program is a file that says `import torch` and has

- model(): a module;
- optimizer(model): an optimizer, or several, with schedulers or whatever else training takes;
- batches(rng): tuples of NumPy arrays, one for each step, made with a NumPy generator;
- step(model, optimizer, *batch): one step of training; gives the loss, or several tensors;
- after_step(model, optimizer), perhaps: what is done between steps, a scheduler's for example.
"""
from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lazyten.run import standing_in

FOLDER = Path(__file__).parents[1] / "programs"
PROGRAMS = {str(path.relative_to(FOLDER).with_suffix("")): path
            for path in sorted(FOLDER.glob("*/*.py"))}
"""'folder/name' to the file."""


@dataclass(frozen=True)
class Trained:
    """What a program computed: of each step what `step` gave, and at the end the model's state."""
    losses: list[list[Any]]
    state: dict[str, Any]


@contextmanager
def loaded(name: str, ours: bool) -> Iterator[dict[str, Any]]:
    """The functions of a program, for lazyten or for PyTorch; `import torch` means it meanwhile.
    AssertionError if they ask for what lazyten does not have."""
    missed: dict[str, str] = {}
    with standing_in(missed) if ours else nullcontext():
        yield runpy.run_path(str(PROGRAMS[name]), run_name=name)
    assert not missed, missed


def initial_state(framework: Any, program: Mapping[str, Any]) -> dict[str, Any]:
    """What `model` of a program starts with."""
    framework.manual_seed(0)
    return arrays(program["model"]().state_dict())


def arrays(state: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of a state_dict as NumPy arrays of their own."""
    return {name: tensor.detach().numpy().copy() for name, tensor in state.items()}


def train(framework: Any, program: Mapping[str, Any], state: Mapping[str, Any], dtype: str,
          wrap: Callable[[Any], Any] = lambda step: step) -> Trained:
    """Run all steps of a program from these parameters and buffers.

    dtype: of its floating-point batches; wrap: makes of `step` what is called."""
    model = program["model"]()
    model.load_state_dict({name: framework.tensor(value) for name, value in state.items()})
    optimizer, step = program["optimizer"](model), wrap(program["step"])
    losses = []
    for batch in program["batches"](np.random.default_rng(0)):
        given = [framework.tensor(array.astype(dtype) if array.dtype.kind == "f" else array)
                 for array in map(np.asarray, batch)]
        found = step(model, optimizer, *given)
        losses.append([each.numpy() for each in (found if isinstance(found, tuple) else [found])])
        if "after_step" in program:
            program["after_step"](model, optimizer)
    return Trained(losses, arrays(model.state_dict()))
