"""Optimizers as users of PyTorch write them, for either library."""
from __future__ import annotations

import math
from typing import Any


def own_adam(T: Any) -> Any:
    """Adam in the words of many a repository, of a library."""

    class OwnAdam(T.optim.Optimizer):  # type: ignore[misc]
        def __init__(self, params: Any, lr: float = 0.05, betas: Any = (0.9, 0.99),
                     weight_decay: float = 0.1) -> None:
            super().__init__(params, {"lr": lr, "betas": betas, "eps": 1e-8,
                                      "weight_decay": weight_decay})

        @T.no_grad()
        def step(self, closure: Any = None) -> Any:
            loss = None
            if closure is not None:
                with T.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    grad = p.grad.data
                    state = self.state[p]
                    if len(state) == 0:
                        state["step"] = 0
                        state["exp_avg"] = T.zeros_like(p.data)
                        state["exp_avg_sq"] = T.zeros_like(p.data)
                    b1, b2 = group["betas"]
                    state["step"] += 1
                    if group["weight_decay"] != 0:
                        grad = grad.add(p.data, alpha=group["weight_decay"])
                    exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                    exp_avg.mul_(b1).add_(grad, alpha=1 - b1)
                    exp_avg_sq.mul_(b2).addcmul_(grad, grad, value=1 - b2)
                    denom = exp_avg_sq.sqrt().add_(group["eps"])
                    size = math.sqrt(1 - b2 ** state["step"]) / (1 - b1 ** state["step"])
                    p.data.addcdiv_(exp_avg, denom, value=-group["lr"] * size)
            return loss

    return OwnAdam


def own_sgd(T: Any) -> Any:
    """A subclass of SGD that adds noise-free decay of its own, and then steps."""

    class OwnSGD(T.optim.SGD):  # type: ignore[misc]
        @T.no_grad()
        def step(self, closure: Any = None) -> Any:
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.mul_(1 - 0.1 * group["lr"])
            return super().step(closure)

    return OwnSGD


MAKERS = {"adam": own_adam, "sgd": own_sgd}


def problem(T: Any, **where: Any) -> tuple[Any, Any, Any]:
    """Two parameters, and a function that gives their loss."""
    w = T.tensor([[0.5, -1.0, 2.0], [1.0, 0.0, -0.5]], requires_grad=True, **where)
    b = T.tensor([0.25, -0.5], requires_grad=True, **where)
    x = T.tensor([[1.0, 2.0, -1.0], [0.5, -0.5, 1.5]], **where)
    return w, b, lambda: ((x @ w.T + b).tanh() ** 2).mean()
