"""PyTorch's database of optimizers beside lazyten: steps, texts and states with all options."""
from __future__ import annotations

import copy
from functools import cache
from typing import Any

import numpy as np
import torch

import lazyten as lt
from torch_database.comparison import Different, same
from torch_database.translation import translated

REFUSED = {"SparseAdam": "its gradients are sparse: tests/sparse"}
SHAPES = ((4, 3), (2, 5))
MAYBE = {"foreach": (True, False), "fused": (True,)}
"""Options that programs set, and which change nothing."""

ROUNDED = {"Muon"}
"""What computes directions in bfloat16: numbers are compared as those of float32."""

SHORTER = {"LBFGS": {"max_iter": 5}}
"""Options that are set besides, where the steps would take long."""


@cache
def optimizers() -> dict[str, Any]:
    """The entries of classes that lazyten has, by name."""
    from torch.testing._internal.common_optimizers import optim_db
    return {info.name: info for info in optim_db if info.name not in REFUSED}


def differences(name: str) -> list[str]:
    """What differs with each of an entry's options, and with what only says how to compute."""
    info, found = optimizers()[name], []
    given = [sample.kwargs for sample in info.optim_inputs_func("cpu")]
    more = [{**given[-1], option: value} for option, values in MAYBE.items()
            if option in info.supported_impls for value in values]
    for chosen in [*given, *more]:
        options = {**SHORTER.get(name, {}), **chosen}
        try:
            _compare(info, options)
        except (Different, lt.LazytenError) as error:
            found.append(f"{name} {options}: {error}")
    return found


def accepted(name: str) -> list[str]:
    """What lazyten takes of an entry's options that are mistakes, and PyTorch does not."""
    info, found = optimizers()[name], []
    for sample in info.optim_error_inputs_func("cpu", torch.float32):
        options = sample.optimizer_error_input.kwargs
        if sample.optimizer_error_input.params is None and sample.error_type is not UserWarning:
            ours = {key: translated(x, []) for key, x in options.items()}
            try:
                getattr(lt.optim, name)([lt.ones(2, 3, requires_grad=True)], **ours)
                found.append(f"{name} {options}: {sample.error_regex}")
            except lt.LazytenError:
                pass
    return found


def _compare(info: Any, options: dict[str, Any]) -> None:
    """Raises Different unless steps, what is printed and states are alike, and PyTorch's state is
    gone on from as it goes on itself."""
    ours = {key: translated(x, []) for key, x in options.items()}
    theirs = _Training(torch, info.optim_cls, copy.deepcopy(options))
    mine = _Training(lt, getattr(lt.optim, info.name), ours)
    for training in (theirs, mine):
        training.steps(3)
    if repr(mine.optimizer) != repr(theirs.optimizer):
        raise Different(f"prints {mine.optimizer!r}, not {theirs.optimizer!r}")
    state = theirs.optimizer.state_dict()
    found = mine.optimizer.state_dict()["state"]
    same(_rounded(info, mine.values), _rounded(info, theirs.values))
    for number, parts in state["state"].items():
        names = [n for n in parts if n != "al"]  # what an L-BFGS step leaves lying about
        if set(names) != set(found[number]):
            raise Different(f"the state has {sorted(found[number])}, not {sorted(names)}")
        if info.name != "LBFGS":  # whose numbers are within a few roundings, multiplied
            same(*(_rounded(info, [x[n] for n in names]) for x in (found[number], parts)))
    later = _Training(lt, getattr(lt.optim, info.name), ours, theirs)
    later.optimizer.load_state_dict(translated(copy.deepcopy(state), []))
    for training in (theirs, mine, later):
        training.steps(2, 3)
    same(_rounded(info, [*mine.values, *later.values]),
         _rounded(info, [*theirs.values, *theirs.values]))


def _rounded(info: Any, values: list[Any]) -> list[Any]:
    return [x.float() if info.name in ROUNDED and hasattr(x, "float") else x for x in values]


class _Training:
    """Two matrices that are moved towards random ones, from where `before` has them."""

    def __init__(self, library: Any, optimizer: Any, options: dict[str, Any],
                 before: _Training | None = None) -> None:
        random = np.random.default_rng(0)
        self.library = library
        starts = [random.normal(size=shape) for shape in SHAPES] if before is None else [
            p.detach().numpy().copy() for p in before.params]
        self.params = [library.tensor(a, dtype=library.float64).requires_grad_() for a in starts]
        self.optimizer = optimizer(self.params, **options)

    def steps(self, count: int, first: int = 0) -> None:
        """Steps whose losses depend on their numbers."""
        for number in range(first, first + count):
            random = np.random.default_rng(number)
            targets = [self.library.tensor(random.normal(size=shape)) for shape in SHAPES]

            def loss(targets: list[Any] = targets) -> Any:
                self.optimizer.zero_grad()
                total = sum(((p - t) ** 2).sum() for p, t in zip(self.params, targets, strict=True))
                total.backward()  # type: ignore[union-attr]
                return total
            self.optimizer.step(loss)

    @property
    def values(self) -> list[Any]:
        """The matrices' values now."""
        return [p.detach() for p in self.params]
