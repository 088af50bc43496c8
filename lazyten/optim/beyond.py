"""Optimizers that PyTorch does not have, with their authors' arguments: Lion, Sophia, LAMB."""
from __future__ import annotations

from lazyten.execution import realization as _realization
from lazyten.frontend.functions import where
from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import shapes
from lazyten.optim.adam import Betas, Moments
from lazyten.optim.compiled import CompiledOptimizer, Params, full
from lazyten.optim.optimizer import State
from lazyten.optim.param_groups import Group
from lazyten.optim.step_numbers import Numbers, lacking
from lazyten.support.grad_mode import no_grad


class Lion(CompiledOptimizer):
    """The sign of an average of gradients (X. Chen et al., 2023). Use a third to a tenth of Adam's
    learning rate, and as much more weight decay."""

    def __init__(self, params: Params, lr: float | Tensor = 1e-4, betas: Betas = (0.9, 0.99),
                 weight_decay: float = 0.0, *, maximize: bool = False) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay,
                                  "maximize": maximize})

    def _initial(self, p: Tensor, group: Group) -> State:
        return {"exp_avg": full(p)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        (beta1, beta2), average = numbers.options["betas"], state["exp_avg"]
        shrink = numbers("shrink", lambda lr, t: 1 - lr * group["weight_decay"])
        direction = (average * beta1 + grad * (1 - beta1)).sign()
        self._set(average, average * beta2 + grad * (1 - beta2))
        self._set(p, p * shrink - direction * numbers.lr)


class Sophia(CompiledOptimizer):
    """An average of gradients, divided by one of the curvature and held between -1 and 1 (H. Liu et
    al., 2023).

    Every ten steps or so, call backward() of the loss of labels that were drawn from the model's
    own predictions, then update_hessian(), then zero_grad(). batch_size: the examples of that loss.
    """

    def __init__(self, params: Params, lr: float | Tensor = 1e-4, betas: Betas = (0.965, 0.99),
                 rho: float = 0.04, weight_decay: float = 0.1, *, batch_size: int = 5120,
                 maximize: bool = False) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "rho": rho,
                                  "weight_decay": weight_decay, "batch_size": batch_size,
                                  "maximize": maximize})

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        shapes.as_int(group["batch_size"], "Sophia", "batch_size")

    def _initial(self, p: Tensor, group: Group) -> State:
        return {"exp_avg": full(p), "hessian": full(p)}

    def update_hessian(self) -> None:
        """Take the gradients of now for an estimate of the curvature."""
        with no_grad():
            changed = []
            for group in self.param_groups:
                beta = group["betas"][1]
                for p in group["params"]:
                    if p.grad is not None:
                        state = self._states.get(p) or self._new_state(p, group)
                        state["hessian"].mul_(beta).add_(p.grad * p.grad * (1 - beta))
                        changed.append(state["hessian"])
        _realization.realize([t._storage for t in changed])

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        beta1 = numbers.options["betas"][0]
        mean = state["exp_avg"] * beta1 + grad * (1 - beta1)
        self._set(state["exp_avg"], mean)
        size = state["hessian"] * (group["rho"] * group["batch_size"]) + 1e-15
        ratio = (mean.abs() / size).clamp(max=1.0)
        shrink = numbers("shrink", lambda lr, t: 1 - lr * group["weight_decay"])
        self._set(p, p * shrink - mean.sign() * ratio * numbers.lr)


class LAMB(Moments):
    """Adam whose step is as large as the parameter (Y. You et al., 2020), for large batches."""

    _goes_by_element = False

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, betas: Betas = (0.9, 0.999),
                 eps: float = 1e-6, weight_decay: float = 0.0, *, maximize: bool = False) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps,
                                  "weight_decay": weight_decay, "maximize": maximize})

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        mean, square = self._averaged(state, grad, numbers)
        mean = mean / numbers("first", lambda lr, t: lacking(group["betas"][0], t))
        square = square / numbers("second", lambda lr, t: lacking(group["betas"][1], t))
        change = mean / (square.sqrt() + group["eps"]) + p * numbers.options["weight_decay"]
        size, length = p.norm(), change.norm()
        trust = where((size > 0) & (length > 0), size / length, 1.0)
        self._set(p, p - change * (trust * numbers.lr))


