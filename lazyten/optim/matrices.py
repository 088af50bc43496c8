"""Steps that look at a parameter as a matrix: Adafactor, Muon."""
from __future__ import annotations

import math

from lazyten.frontend.limits import finfo
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.operators.math import shapes
from lazyten.optim.compiled import CompiledOptimizer, Params, full
from lazyten.optim.optimizer import State
from lazyten.optim.param_groups import Group
from lazyten.optim.step_numbers import Numbers, lesser, power_of, root, scalar_type
from lazyten.support.errors import ArgumentError, ShapeError

COEFFICIENTS = 3.4445, -4.7750, 2.0315


class Adafactor(CompiledOptimizer):
    """Sizes of rows and columns instead of all elements' (N. Shazeer and M. Stern, 2018).

    eps: the least square of a size (None: that of the type), and the least size of a parameter.
    d: how far beyond its usual size a step may go.
    """

    _goes_by_element = False

    def __init__(self, params: Params, lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
                 eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0,
                 weight_decay: float = 0.0, *, foreach: bool | None = None,
                 maximize: bool = False) -> None:
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
            "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize})

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        given = [0 if e is None else shapes.as_number(e, "Adafactor", "an eps")
                 for e in group["eps"]]
        if not (len(given) == 2 and min(given) >= 0):
            raise ArgumentError(f"Adafactor: eps={group['eps']!r} must be two numbers, 0 or more")
        if not group["beta2_decay"] <= 0:
            raise ArgumentError(f"Adafactor: beta2_decay={group['beta2_decay']!r} must be 0 or "
                                f"less")
        if not group["d"] >= 1:
            raise ArgumentError(f"Adafactor: d={group['d']!r} must be 1 or more")

    def _initial(self, p: Tensor, group: Group) -> State:
        if p.ndim < 2:
            return {"step": 0, "variance": full(p)}
        zeros = full(p)
        return {"step": 0, "row_var": full(zeros[..., :1]), "col_var": full(zeros[..., :1, :])}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        least, smallest = group["eps"]
        least = finfo(p.dtype).eps if least is None else least
        fading = group["beta2_decay"]
        share = numbers("share", lambda lr, t: power_of(t, fading))
        rate = numbers("rate", lambda lr, t: lesser(lr, 1 / root(t)))
        size = rate * (p.norm() / math.sqrt(p.numel())).clamp(min=smallest)
        value: Tensor = p.detach()
        if group["weight_decay"]:
            value = value * numbers("shrink", lambda lr, t: 1 - lr * group["weight_decay"])
        change = self._sizes(grad, state, share, least).clamp(min=least**2).rsqrt() * grad
        over = (change.norm() / (math.sqrt(p.numel()) * group["d"])).clamp(min=1.0)
        self._set(p, value - change * (size / over))

    def _sizes(self, grad: Tensor, state: State, share: Tensor, least: float) -> Tensor:
        """An estimate of the average of each element's square."""
        square = grad * grad

        def averaged(name: str, found: Tensor) -> Tensor:
            new: Tensor = state[name] + (found - state[name]) * share
            self._set(state[name], new)
            return new

        if grad.ndim < 2:
            return averaged("variance", square)
        rows = averaged("row_var", square.mean(-1, keepdim=True))
        columns = averaged("col_var", square.mean(-2, keepdim=True))
        return rows * columns / rows.mean(-2, keepdim=True).clamp(min=least)


class Muon(CompiledOptimizer):
    """Momentum, made a matrix whose singular values are all about 1 (K. Jordan et al., 2024), by
    ns_steps steps of Newton and Schulz in bfloat16. For matrices alone: give the rest to AdamW.

    adjust_lr_fn: None or 'original' for steps as large as the shape asks for, 'match_rms_adamw' for
    steps as large as AdamW's.
    """

    _goes_by_element = False

    def __init__(self, params: Params, lr: float | Tensor = 1e-3, weight_decay: float = 0.1,
                 momentum: float = 0.95, nesterov: bool = True,
                 ns_coefficients: tuple[float, float, float] = COEFFICIENTS, eps: float = 1e-7,
                 ns_steps: int = 5, adjust_lr_fn: str | None = None) -> None:
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn})

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        for p in group["params"]:
            if p.ndim != 2:
                raise ShapeError(f"Muon: a parameter of shape {p.shape} has {p.ndim} axes; it is "
                                 f"for matrices: give the others to AdamW")
        if not (isinstance(group["ns_coefficients"], tuple | list)
                and len(group["ns_coefficients"]) == 3):
            raise ArgumentError(f"Muon: ns_coefficients={group['ns_coefficients']!r} must be three "
                                f"numbers")
        if not 0 <= shapes.as_int(group["ns_steps"], "Muon", "ns_steps") < 100:
            raise ArgumentError(f"Muon: ns_steps={group['ns_steps']} must be below 100")
        if group["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
            raise ArgumentError(f"Muon: adjust_lr_fn={group['adjust_lr_fn']!r} is neither None, "
                                f"'original' nor 'match_rms_adamw'")

    def _initial(self, p: Tensor, group: Group) -> State:
        return {"momentum_buffer": full(p)}

    def _update(self, p: Tensor, grad: Tensor, state: State, group: Group,
                numbers: Numbers) -> None:
        momentum = numbers.options["momentum"]
        rows, columns = p.shape
        ratio = 0.2 * math.sqrt(max(rows, columns)) \
            if group["adjust_lr_fn"] == "match_rms_adamw" else math.sqrt(max(1, rows / columns))
        buffer = state["momentum_buffer"]
        self._set(buffer, buffer + (grad - buffer) * (1 - momentum))
        mean = grad + (buffer - grad) * momentum if group["nesterov"] else buffer
        change = _orthogonal(mean, group).to(scalar_type(p))
        value = p * numbers("shrink", lambda lr, t: 1 - lr * group["weight_decay"])
        self._set(p, value - change * numbers(f"rate{ratio}", lambda lr, t: lr * ratio))


def _orthogonal(matrix: Tensor, group: Group) -> Tensor:
    """Of U S V^T about U V^T, in bfloat16."""
    a, b, c = group["ns_coefficients"]
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.to(dtype=dt.bfloat16)
    x = x.T if tall else x
    x = x / x.norm().clamp(min=group["eps"])
    for _ in range(group["ns_steps"]):
        gram = x @ x.T
        x = x.addmm(gram.addmm(gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
