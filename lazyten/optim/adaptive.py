"""A rate for each element of a parameter: Adagrad, Adadelta, RMSprop, Rprop."""
from __future__ import annotations

from lazyten.frontend.functions import where
from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import shapes
from lazyten.optim.compiled import CompiledOptimizer, Params, full
from lazyten.optim.optimizer import State
from lazyten.optim.param_groups import Group
from lazyten.optim.step_numbers import Numbers
from lazyten.support.errors import ArgumentError


class Adagrad(CompiledOptimizer):
    """Divide by the root of the sum of all squares (J. Duchi et al., 2011)."""

    _takes_sparse = True

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, lr_decay: float = 0,
                 weight_decay: float = 0, initial_accumulator_value: float = 0,
                 eps: float = 1e-10, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "fused": fused})
        for group in self.param_groups:  # the sums are there before the first step, as PyTorch's
            for p in group["params"]:
                self._states[p] = self._initial(p, group)

    def _initial(self, p: Tensor, group: Group) -> State:
        return {"step": 0, "sum": full(p, group["initial_accumulator_value"])}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        if group["weight_decay"]:
            grad = grad + p * numbers.options["weight_decay"]
        decay = group["lr_decay"]
        total = state["sum"] + grad * grad
        self._set(state["sum"], total)
        rate = numbers("rate", lambda lr, t: lr / (1 + (t - 1) * decay))
        self._set(p, p - grad / (total.sqrt() + group["eps"]) * rate)


class Adadelta(CompiledOptimizer):
    """Steps of the size of late steps (M. Zeiler, 2012)."""

    def __init__(self, params: Params, lr: float | Tensor = 1.0, rho: float = 0.9,
                 eps: float = 1e-6, weight_decay: float = 0, foreach: bool | None = None, *,
                 capturable: bool = False, maximize: bool = False,
                 differentiable: bool = False) -> None:
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable})

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        if not group["rho"] <= 1:
            raise ArgumentError(f"Adadelta: rho={group['rho']!r} must be between 0 and 1")

    def _initial(self, p: Tensor, group: Group) -> State:
        return {"step": 0, "square_avg": full(p), "acc_delta": full(p)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        rho, eps = group["rho"], group["eps"]
        if group["weight_decay"]:
            grad = grad + p * numbers.options["weight_decay"]
        square = state["square_avg"] * rho + grad * grad * (1 - rho)
        delta = (state["acc_delta"] + eps).sqrt() / (square + eps).sqrt() * grad
        self._set(state["square_avg"], square)
        self._set(state["acc_delta"], state["acc_delta"] * rho + delta * delta * (1 - rho))
        self._set(p, p - delta * numbers.lr)


class RMSprop(CompiledOptimizer):
    """Divide by the root of an average of squares (G. Hinton, 2012). centered: by an estimate of
    the deviation."""

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, alpha: float = 0.99,
                 eps: float = 1e-8, weight_decay: float = 0, momentum: float = 0,
                 centered: bool = False, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable})

    def _initial(self, p: Tensor, group: Group) -> State:
        state: State = {"step": 0, "square_avg": full(p)}
        if group["momentum"]:
            state["momentum_buffer"] = full(p)
        if group["centered"]:
            state["grad_avg"] = full(p)
        return state

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        alpha = group["alpha"]
        if group["weight_decay"]:
            grad = grad + p * numbers.options["weight_decay"]
        square = state["square_avg"] * alpha + grad * grad * (1 - alpha)
        self._set(state["square_avg"], square)
        if group["centered"]:
            mean = state["grad_avg"] + (grad - state["grad_avg"]) * (1 - alpha)
            self._set(state["grad_avg"], mean)
            square = square - mean * mean
        change = grad / (square.sqrt() + group["eps"])
        if group["momentum"]:
            change = state["momentum_buffer"] * numbers.options["momentum"] + change
            self._set(state["momentum_buffer"], change)
        self._set(p, p - change * numbers.lr)


class Rprop(CompiledOptimizer):
    """Only signs count (M. Riedmiller and H. Braun, 1993): an element's step grows by etas[1] where
    the sign stays, and shrinks by etas[0] where it turns, between step_sizes."""

    _begins_with_rate = True

    def __init__(self, params: Params, lr: float | Tensor = 1e-2,
                 etas: tuple[float, float] = (0.5, 1.2),
                 step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False,
                 foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False) -> None:
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable})

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        less, more = (shapes.as_number(e, "Rprop", "an eta") for e in group["etas"])
        if not 0 < less < 1 < more:
            raise ArgumentError(f"Rprop: etas={group['etas']!r} must be one number below 1 and one "
                                f"above, both above 0")

    def _initial(self, p: Tensor, group: Group) -> State:
        return {"step": 0, "prev": full(p), "step_size": full(p, float(group["lr"]))}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        less, more = group["etas"]
        product = grad * state["prev"]
        size = state["step_size"]
        size = where(product > 0, size * more, where(product < 0, size * less, size))
        size = size.clamp(*group["step_sizes"])
        kept = where(product < 0, 0.0, grad)
        self._set(state["step_size"], size)
        self._set(state["prev"], kept)
        self._set(p, p - kept.sign() * size)
