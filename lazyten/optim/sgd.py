"""Plain and averaged stochastic gradient descent: SGD, ASGD."""
from __future__ import annotations

from typing import Any

from lazyten.frontend.functions import where
from lazyten.frontend.tensor import Tensor
from lazyten.operators.math import shapes
from lazyten.optim.compiled import CompiledOptimizer, Params, full
from lazyten.optim.optimizer import State
from lazyten.optim.param_groups import Group
from lazyten.optim.step_numbers import Numbers, count_type, greater, power_of, scalar_type
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError


class SGD(CompiledOptimizer):
    """Stochastic gradient descent, with momentum (Nesterov's if asked) and weight decay: with
    g = gradient + weight_decay p, v = momentum v + (1 - dampening) g (at first g), p -= lr v, or
    with nesterov p -= lr (g + momentum v) (I. Sutskever and others, 2013).

    foreach and fused choose an implementation of PyTorch's, and change nothing here.
    """

    _takes_sparse = True
    _first = False  # whether the step under way is a parameter's first, which is not dampened

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, momentum: float = 0,
                 dampening: float = 0, weight_decay: float = 0, nesterov: bool = False, *,
                 maximize: bool = False, foreach: bool | None = None,
                 differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize, "foreach": foreach,
            "differentiable": differentiable, "fused": fused})

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        shapes.as_number(group["dampening"], "SGD", "dampening")
        if group["nesterov"] and (group["momentum"] == 0 or group["dampening"] != 0):
            raise ArgumentError(f"SGD: nesterov with momentum={group['momentum']} and "
                                f"dampening={group['dampening']}: it needs a momentum and no "
                                f"dampening")

    @property
    def _is_repeatable(self) -> bool:
        return all(p._grad is None or p in self._states for g in self.param_groups
                   if g["momentum"] and g["dampening"] for p in g["params"])

    def _step_of(self, p: Tensor, group: Group, number: int) -> None:
        trace = tracing.current()
        if group["momentum"] and group["dampening"]:
            if trace is not None and self._skipped is None:
                trace.observe(lambda: p in self._states)
            self._first = p not in self._states
        try:
            super()._step_of(p, group, number)
        finally:
            self._first = False

    def _initial(self, p: Tensor, group: Group) -> State:
        return {"momentum_buffer": full(p)} if group["momentum"] else {}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        options = numbers.options
        if group["weight_decay"]:
            grad = grad + p * options["weight_decay"]
        if group["momentum"]:
            buffer, momentum = state["momentum_buffer"], options["momentum"]
            share = self._dampened(grad, group, numbers) if group["dampening"] else grad
            self._set(buffer, buffer * momentum + share)
            grad = grad + buffer * momentum if group["nesterov"] else buffer
        self._set(p, p - grad * numbers.lr)

    def _dampened(self, grad: Tensor, group: Group, numbers: Numbers) -> Tensor:
        """What goes to the buffer: at the first step all of the gradient."""
        taken = numbers.count(0 if self._first else 1)
        if taken is not None:
            share: Tensor = where(taken == 1, grad, grad * (1.0 - group["dampening"]))
            return share
        kept = 1.0 if self._first else 1.0 - group["dampening"]
        return grad * numbers.given("kept", lambda: kept)


class ASGD(CompiledOptimizer):
    """Averaged stochastic gradient descent (B. Polyak and A. Juditsky, 1992): `state[p]['ax']` is
    the average of the parameter from step t0 on."""

    _begins_with_rate = True

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, lambd: float = 1e-4,
                 alpha: float = 0.75, t0: float = 1e6, weight_decay: float = 0,
                 foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable})

    def _initial(self, p: Tensor, group: Group) -> State:
        def number(value: Any) -> Tensor:
            return Tensor._copy_of(float(value), count_type(), p.device)
        return {"step": 0, "eta": number(group["lr"]), "mu": number(1.0), "ax": full(p)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        lambd, alpha, t0 = group["lambd"], group["alpha"], group["t0"]
        if group["weight_decay"]:
            grad = grad + p * numbers.options["weight_decay"]
        average, kind = state["ax"], scalar_type(p)
        eta, mu = state["eta"].to(kind), state["mu"].to(kind)
        value = p * (1 - eta * lambd) - grad * eta
        self._set(average, where(mu == 1, value, average + (value - average) * mu))
        self._set(p, value)
        self._set(state["eta"], numbers(
            "eta", lambda lr, t: lr / power_of(1 + lambd * lr * t, alpha)))
        self._set(state["mu"], numbers("mu", lambda lr, t: 1 / greater(t - t0, 1.0)))
