"""Sparse gradients: which optimizers take them, and SparseAdam, which takes nothing else."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lazyten.execution import realization as _realization
from lazyten.frontend import functions
from lazyten.frontend.core.forms import Sparse, is_sparse
from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import shapes
from lazyten.optim.optimizer import Optimizer, State
from lazyten.optim.param_groups import Group, check_betas
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError, GradientError
from lazyten.support.grad_mode import no_grad


def any_is_sparse(optimizer: Optimizer) -> bool:
    """Whether one of the parameters has a sparse gradient."""
    return bool([p for group in optimizer.param_groups for p in group["params"]
                 if isinstance(p._grad, Sparse)])


@contextmanager
def as_dense(optimizer: Optimizer, are_taken: bool) -> Iterator[None]:
    """Within this block sparse gradients are dense, as a step of all elements reads them.
    GradientError for an optimizer that takes none, and for weight decay, as of PyTorch's."""
    held = [(group, p, p._grad) for group in optimizer.param_groups for p in group["params"]
            if is_sparse(p._grad)]
    for group, _, _ in held:
        _check(type(optimizer).__name__, group, are_taken)
    try:
        for _, p, grad in held:
            p._grad = grad.to_dense()
        yield
    finally:
        for _, p, grad in held:
            p._grad = grad


def _check(name: str, group: Group, are_taken: bool) -> None:
    if not are_taken:
        raise GradientError(f"{name} does not support sparse gradients; use SparseAdam, SGD or "
                            f"Adagrad, or leave sparse=True out of the layer")
    if group.get("weight_decay"):
        raise GradientError(f"{name}: weight_decay={group['weight_decay']} is of all elements, and "
                            f"the gradient is sparse; set it to 0, or leave sparse=True out of the "
                            f"layer")


class SparseAdam(Optimizer):
    """Adam of the elements that a sparse gradient has; the averages of the others stay as they are.

    Its gradients are sparse: those of Embedding(sparse=True). A jitted function that takes such a
    step is run in Python.
    """

    def __init__(self, params: Iterable[Any], lr: float | Tensor = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 maximize: bool = False) -> None:
        for option, value in (("lr", lr), ("eps", eps)):
            if isinstance(value, Tensor) or not shapes.as_number(value, "SparseAdam", option) > 0:
                raise ArgumentError(f"SparseAdam: {option}={value!r} must be a number above 0")
        check_betas("SparseAdam", betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    @property
    def _is_recorded(self) -> bool:
        return False

    def _postponed(self, trace: tracing.Observer) -> None:
        tracing.refuse("a step of SparseAdam, which looks at where gradients are,",
                       "do it outside")
        self.step()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the elements that the gradients have. closure: computes the loss first."""
        loss = self._loss_of(closure)
        written: list[Tensor] = []
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        written += self._step_of(p, group)
            _realization.realize([x._storage for x in written])
        return loss

    def _step_of(self, p: Tensor, group: Group) -> list[Tensor]:
        grad: Any = p.grad
        if not is_sparse(grad):
            raise GradientError(f"SparseAdam does not support dense gradients, and that of a "
                                f"parameter of shape {tuple(p.shape)} is one: use Adam for it, or "
                                f"give the layer sparse=True")
        state = self._states[p]
        if not state:
            state.update(_initial(p))
        state["step"] += 1
        where, values = grad._indices(), _totals(grad)
        _update(p, state, group, where.unbind(0), -values if group["maximize"] else values)
        return [p, state["exp_avg"], state["exp_avg_sq"]]


def _totals(grad: Any) -> Tensor:
    """For each place that a gradient has, the sum of what it has there: as many as it has values,
    so that nothing is compiled anew for how many places differ."""
    values: Tensor = grad._values()
    if grad.is_coalesced():
        return values
    places = grad._indices().numpy()
    lines = np.ravel_multi_index(tuple(places), tuple(grad.shape)[:len(places)])
    same = values._copy_of(np.unique(lines, return_inverse=True)[1], device=values.device)
    return functions.zeros_like(values).index_add_(0, same, values).index_select(0, same)


def _initial(p: Tensor) -> State:
    return {"step": 0, "exp_avg": p.detach() * 0, "exp_avg_sq": p.detach() * 0}


def _update(p: Tensor, state: State, group: Group, where: tuple[Tensor, ...],
            grad: Tensor) -> None:
    """The elements at these indices, one place perhaps several times with the same gradient: D.
    Kingma and J. Ba, 2015."""
    (beta1, beta2), t = group["betas"], state["step"]
    first, second = state["exp_avg"], state["exp_avg_sq"]
    mean = first[where] + (grad - first[where]) * (1 - beta1)
    square = second[where] + (grad * grad - second[where]) * (1 - beta2)
    rate = group["lr"] * (1 - beta2 ** t) ** 0.5 / (1 - beta1 ** t)
    p.index_put_(where, p[where] - mean / (square.sqrt() + group["eps"]) * rate)
    first.index_put_(where, mean)
    second.index_put_(where, square)
