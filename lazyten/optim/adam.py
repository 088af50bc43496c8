"""Adam and its kin, which divide an average of gradients by one of their sizes: Adam, AdamW,
Adamax, NAdam, RAdam."""
from __future__ import annotations

from typing import Any

from lazyten.frontend.functions import where
from lazyten.frontend.tensor import Tensor
from lazyten.optim.compiled import CompiledOptimizer, Params, full
from lazyten.optim.optimizer import State
from lazyten.optim.param_groups import Group
from lazyten.optim.step_numbers import (
    Numbers,
    choice,
    count_type,
    greater,
    lacking,
    power,
    root,
    scalar_type,
)

Betas = tuple[float, float]
BETAS = (0.9, 0.999)


class Moments(CompiledOptimizer):
    """Averages of gradients and of their squares, and weight decay in either of two ways."""

    def _initial(self, p: Tensor, group: Group) -> State:
        return {"step": 0, "exp_avg": full(p), "exp_avg_sq": full(p)}

    def _decayed(self, p: Tensor, grad: Tensor, group: Group, numbers: Numbers,
                 decoupled: bool) -> tuple[Tensor, Tensor]:
        """The parameter and the gradient with the weight decay that belongs to either."""
        value: Tensor = p.detach()
        if group["weight_decay"] and decoupled:
            value = value * numbers("shrink", lambda lr, t: 1 - lr * group["weight_decay"])
        elif group["weight_decay"]:
            grad = grad + p * numbers.options["weight_decay"]
        return value, grad

    def _averaged(self, state: State, grad: Tensor, numbers: Numbers) -> tuple[Tensor, Tensor]:
        """The averages with this gradient."""
        beta1, beta2 = numbers.options["betas"]
        first, second = state["exp_avg"], state["exp_avg_sq"]
        mean = first + (grad - first) * (1 - beta1)
        square = second * beta2 + grad * grad * (1 - beta2)
        self._set(first, mean)
        self._set(second, square)
        return mean, square


class Adam(Moments):
    """Adam (D. Kingma and J. Ba, 2015): with m and v the averages of the gradient g and of g ** 2,
    which forget by betas[0] and betas[1] a step, and divided by 1 - betas ** t at step t,
    p -= lr m / (sqrt(v) + eps).

    weight_decay p is added to the gradient, unless decoupled_weight_decay. amsgrad: divide by the
    greatest average so far (S. Reddi et al., 2018).

    foreach, fused and capturable choose an implementation of PyTorch's, and change nothing here.
    """

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, betas: Betas = BETAS,
                 eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False, fused: bool | None = None,
                 decoupled_weight_decay: bool = False) -> None:
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable, "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay})

    def _initial(self, p: Tensor, group: Group) -> State:
        greatest = {"max_exp_avg_sq": full(p)} if group["amsgrad"] else {}
        return {**super()._initial(p, group), **greatest}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        value, grad = self._decayed(p, grad, group, numbers, group["decoupled_weight_decay"])
        mean, square = self._averaged(state, grad, numbers)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"].maximum(square)
            self._set(state["max_exp_avg_sq"], square)
        whole = numbers("root", lambda lr, t: root(lacking(group["betas"][1], t)))
        size = numbers("size", lambda lr, t: lr / lacking(group["betas"][0], t))
        self._set(p, value - mean / (square.sqrt() / whole + group["eps"]) * size)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # saved before these options were there
            group.setdefault("amsgrad", False)
            group.setdefault("decoupled_weight_decay", isinstance(self, AdamW))


class AdamW(Adam):
    """Adam with the weight decay taken from the parameter itself, p -= lr weight_decay p before the
    step (I. Loshchilov and F. Hutter, 2019)."""

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, betas: Betas = BETAS,
                 eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
                 maximize: bool = False, foreach: bool | None = None, capturable: bool = False,
                 differentiable: bool = False, fused: bool | None = None) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach,
                         maximize=maximize, capturable=capturable, differentiable=differentiable,
                         fused=fused, decoupled_weight_decay=True)


class Adamax(Moments):
    """Adam with the greatest size of late instead of an average (D. Kingma and J. Ba, 2015)."""

    def __init__(self, params: Params, lr: float | Tensor = 2e-3, betas: Betas = BETAS,
                 eps: float = 1e-8, weight_decay: float = 0, foreach: bool | None = None, *,
                 maximize: bool = False, differentiable: bool = False,
                 capturable: bool = False) -> None:
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable})

    def _initial(self, p: Tensor, group: Group) -> State:
        return {"step": 0, "exp_avg": full(p), "exp_inf": full(p)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        beta1, beta2 = numbers.options["betas"]
        value, grad = self._decayed(p, grad, group, numbers, False)
        mean = state["exp_avg"] + (grad - state["exp_avg"]) * (1 - beta1)
        greatest = (state["exp_inf"] * beta2).maximum(grad.abs() + group["eps"])
        self._set(state["exp_avg"], mean)
        self._set(state["exp_inf"], greatest)
        size = numbers("size", lambda lr, t: lr / lacking(group["betas"][0], t))
        self._set(p, value - mean / greatest * size)


class NAdam(Moments):
    """Adam with Nesterov's momentum (T. Dozat, 2016)."""

    def __init__(self, params: Params, lr: float | Tensor = 2e-3, betas: Betas = BETAS,
                 eps: float = 1e-8, weight_decay: float = 0, momentum_decay: float = 4e-3,
                 decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable})

    def _initial(self, p: Tensor, group: Group) -> State:
        one = Tensor._copy_of(1.0, count_type(), p.device)
        first, *others = super()._initial(p, group).items()
        return dict([first, ("mu_product", one), *others])  # in PyTorch's order

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        decay, kind = group["momentum_decay"], scalar_type(p)

        def momentum(t: Any) -> Any:
            return group["betas"][0] * (1 - 0.5 * power(0.96, t * decay))

        value, grad = self._decayed(p, grad, group, numbers, group["decoupled_weight_decay"])
        mu = numbers("mu", lambda lr, t: momentum(t))
        following = numbers("following", lambda lr, t: momentum(t + 1))
        product = state["mu_product"] * mu.to(state["mu_product"].dtype)
        self._set(state["mu_product"], product)
        product = product.to(kind)
        mean, square = self._averaged(state, grad, numbers)
        whole = numbers("whole", lambda lr, t: lacking(group["betas"][1], t))
        size = (square / whole).sqrt() + group["eps"]
        value = value - grad / size * (numbers.lr * (1 - mu) / (1 - product))
        self._set(p, value - mean / size * (numbers.lr * following / (1 - product * following)))


class RAdam(Moments):
    """Adam that divides by no average of sizes until it is one of enough (L. Liu et al., 2020)."""

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, betas: Betas = BETAS,
                 eps: float = 1e-8, weight_decay: float = 0,
                 decoupled_weight_decay: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable})

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        def rectified(t: Any) -> Any:
            """0 while the average is of too few gradients."""
            beta2 = group["betas"][1]
            most = 2 / (1 - beta2) - 1
            length = most - 2 * t * power(beta2, t) / lacking(beta2, t)
            factor = root((length - 4) * (length - 2) * most / (
                (most - 4) * (most - 2) * greater(length, 1.0)))
            return choice(length > 5, factor * root(lacking(beta2, t)), 0.0)

        value, grad = self._decayed(p, grad, group, numbers, group["decoupled_weight_decay"])
        mean, square = self._averaged(state, grad, numbers)
        factor = numbers("factor", lambda lr, t: rectified(t))
        size = numbers("size", lambda lr, t: lr / lacking(group["betas"][0], t))
        scale = where(factor > 0, factor / (square.sqrt() + group["eps"]), 1.0)
        self._set(p, value - mean * scale * size)
