"""Optimizers: SGD, Adam and AdamW, with PyTorch's formulas, arguments and defaults.

A step is recorded like any computation and computed at its end, together with the gradients and the
loss that they came from. Numbers that change between steps (the learning rate, Adam's corrections)
are kernel inputs, so a step is compiled once. In a jitted function they are computed anew for each
call, and the other options and the state are what the trace depends on.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from lazyten.execution import background
from lazyten.execution import realization as _realization
from lazyten.frontend.functions import where
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import reshape
from lazyten.nn.parameter import Parameter
from lazyten.operators.math import shapes
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError, DTypeError, GradientError, StateError
from lazyten.support.grad_mode import no_grad

Group = dict[str, Any]


class Optimizer:
    """Changes parameters by their gradients. param_groups holds options; change 'lr' there."""

    def __init__(self, params: Iterable[Tensor] | Iterable[Group], defaults: Group) -> None:
        name = type(self).__name__
        given = _as_list(name, params)
        if not given:
            raise ArgumentError(f"{name} got no parameters: was the iterator used up before? Give "
                                f"a list, or call parameters() again")
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        self.param_groups: list[Group] = []
        for number, g in enumerate(groups):
            known = isinstance(g, dict) and {"params"} <= g.keys() <= {"params", *defaults}
            if not known:
                shown = f"a dict of {', '.join(map(repr, g))}" if isinstance(g, dict) else _short(g)
                raise ArgumentError(f"{name}: group {number} is {shown}; it must be a dict of "
                                    f"'params' and of {', '.join(defaults)}")
            self.param_groups.append({**defaults, **g, "params": _as_list(name, g["params"])})
        self.state: dict[Tensor, dict[str, Any]] = {}
        self._scalars: dict[tuple[str, int, DType, str], tuple[float, Tensor]] = {}
        self._traced_scalars: dict[tuple[str, int, DType, str], Tensor] = {}
        self._skipped: Tensor | None = None
        seen: set[int] = set()
        for group in self.param_groups:
            self._check_options(group)
            for p in group["params"]:
                _check_parameter(name, p, seen)

    def _check_options(self, group: Group) -> None:
        """ArgumentError or DTypeError for an option that makes no sense; subclasses know more."""
        for option in ("lr", "weight_decay"):
            _check_positive(type(self).__name__, option, group[option])

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or, unless set_to_none, make them 0."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none or p.grad is None:
                    p.grad = None
                else:
                    p.grad.zero_()

    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Update every parameter that has a gradient, and compute all of it now.

        closure: recomputes the loss and its gradients first; what it gives is given back.
        """
        if closure is not None and not callable(closure):
            raise ArgumentError(f"{type(self).__name__}.step: closure is {type(closure).__name__}, "
                                f"not a function; call loss.backward(), and then step() without "
                                f"arguments")
        loss = closure() if closure is not None else None
        for group in self.param_groups:  # before anything is changed
            self._check_options(group)
        trace = tracing.current()
        if trace is not None:
            trace.action(self._check_rates)
        changed: list[Tensor] = []
        with no_grad(), background.paused():
            for number, group in enumerate(self.param_groups):
                for p in group["params"]:
                    if p.grad is not None:
                        state = self.state.setdefault(p, {})
                        changed += self._update(p, p.grad, state, group, number)
                        changed += [p, p.grad]
        if self._skipped is not None:
            changed.append(self._skipped)
        _realization.realize([t._storage for t in changed])
        self._traced_scalars.clear()
        if trace is not None:
            trace.observe(self._depended_on)
        return loss

    def step_unless(self, skipped: Tensor) -> None:
        """step(), in which nothing changes if the zero-dim bool tensor `skipped` holds. It is not
        looked at: each new value is a choice between what was there and what the step makes."""
        self._skipped = skipped
        try:
            self.step()
        finally:
            self._skipped = None

    def _set(self, tensor: Tensor, value: Tensor) -> None:
        """Write a parameter or a part of its state, unless the step is skipped."""
        tensor.copy_(value if self._skipped is None else where(self._skipped, tensor, value))

    def _steps_taken(self, state: dict[str, Any], like: Tensor) -> Tensor | None:
        """How many steps a parameter has taken, this one with it, where some may be skipped: then
        only the device knows. None where none was or is."""
        count = state.get("step", int("momentum_buffer" in state))
        if not isinstance(count, Tensor):
            if self._skipped is None:
                return None
            trace = tracing.current()
            if trace is not None:
                trace.undo(partial(state.update, {"step": count}))
            with tracing.listening(None):
                count = state["step"] = Tensor._copy_of(float(count), dt.float32, like.device)
        taken = count + 1
        self._set(count, taken)
        return taken.to(_scalar_type(like))

    def _depended_on(self) -> list[object]:
        """What the graph of a step depends on: the options but 'lr', and which tensors there are.
        (Captures keep these alive, so that no id comes again.)"""
        seen: list[object] = []
        for group in self.param_groups:
            seen += [tuple(v) if type(v) is list else v
                     for k, v in group.items() if k not in ("lr", "params")]
            seen += map(id, group["params"])
        states = self.state.values()
        seen += map(id, states)
        seen += [id(v) for state in states for v in state.values() if isinstance(v, Tensor)]
        return seen

    def _new_state(self, p: Tensor, state: dict[str, Any], values: Callable[[], Group]) -> None:
        """Fill an empty state. In a jitted function it is there before the first call begins."""
        trace = tracing.current()
        if trace is not None:
            trace.undo(state.clear)
        with tracing.listening(None):
            state.update(values())

    def _update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: Group,
                number: int) -> list[Tensor]:
        """Write the parameter's next value; gives the state tensors that it has changed."""
        raise NotImplementedError

    def _scalar(self, name: str, number: int, like: Tensor,
                compute: Callable[[], float]) -> Tensor:
        """A number as a zero-dim tensor: a kernel input, made anew only when it changes."""
        dtype = _scalar_type(like)
        key = (name, number, dtype, like.device)
        trace = tracing.current()
        if trace is None:
            value = compute()
            found = self._scalars.get(key)
            if found is None or found[0] != value:
                found = self._scalars[key] = (value, Tensor._copy_of(value, dtype, like.device))
            return found[1]
        if key not in self._traced_scalars:
            node = trace.host_input(lambda: np.array([compute()], dtype.numpy), dtype, 1,
                                    like.device)
            self._traced_scalars[key] = Tensor._of(reshape(node, ()), like.device)
        return self._traced_scalars[key]

    def _check_rates(self) -> None:
        """Before a replayed step changes anything, look at what it reads anew."""
        for group in self.param_groups:
            _check_positive(type(self).__name__, "lr", group["lr"])

    def state_dict(self) -> dict[str, Any]:
        """Options and state, parameters by number: what load_state_dict takes."""
        order = [p for g in self.param_groups for p in g["params"]]
        numbers = {id(p): i for i, p in enumerate(order)}
        groups = [{k: v for k, v in g.items() if k != "params"}
                  | {"params": [numbers[id(p)] for p in g["params"]]} for g in self.param_groups]
        state = {numbers[id(p)]: dict(s) for p, s in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Go on as the optimizer did whose state this is. StateError, and no change, if it does not
        fit these parameters."""
        if not isinstance(saved, dict) or not {"state", "param_groups"} <= saved.keys():
            raise StateError(f"load_state_dict: {_short(saved)} is no optimizer's state: it must "
                             f"be a dict of 'state' and 'param_groups', as state_dict() gives it")
        groups = saved["param_groups"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            raise StateError(f"load_state_dict: saved groups have "
                             f"{[len(g['params']) for g in groups]} parameters, these "
                             f"{[len(g['params']) for g in self.param_groups]}; they must be equal")
        order = [p for g in self.param_groups for p in g["params"]]
        for number, values in saved["state"].items():
            _check_state(int(number), values, order)
        for mine, other in zip(self.param_groups, groups, strict=True):
            self._check_options({**mine, **other})
        for mine, other in zip(self.param_groups, groups, strict=True):
            mine.update({k: v for k, v in other.items() if k != "params"})
        self.state = {order[int(i)]: {k: v.clone().realize() if isinstance(v, Tensor) else v
                                      for k, v in s.items()} for i, s in saved["state"].items()}


def _short(value: object) -> str:
    return f"{type(value).__name__} {value!r:.60}"


def _as_list(name: str, params: Any) -> list[Any]:
    """Parameters, or groups of them, as a list. DTypeError for what cannot be one."""
    if isinstance(params, Tensor):
        raise DTypeError(f"{name} takes a list of parameters, not one tensor; give [tensor]")
    if not isinstance(params, Iterable):
        raise DTypeError(f"{name} takes a list of parameters, not {_short(params)}; give "
                         f"model.parameters()")
    return list(params)


def _check_state(number: int, values: dict[str, Any], order: list[Tensor]) -> None:
    """StateError unless what was saved for a parameter has that parameter's shape."""
    if not 0 <= number < len(order):
        raise StateError(f"load_state_dict: there is a state for parameter {number}, but only "
                         f"{len(order)} parameters; the optimizer must be built as the saved one "
                         f"was")
    for name, value in values.items():
        if isinstance(value, Tensor) and value.shape not in ((), order[number].shape):
            raise StateError(f"load_state_dict: {name} of parameter {number} has shape "
                             f"{value.shape}, but the parameter {order[number].shape}; they must "
                             f"be equal")


def _check_parameter(name: str, p: object, seen: set[int]) -> None:
    if not isinstance(p, Tensor):
        raise DTypeError(f"{name}: a parameter is {_short(p)}, not a tensor; give "
                         f"model.parameters()")
    frozen = isinstance(p, Parameter) and not p.requires_grad  # it has no gradient, so no step
    if not frozen and not (p.is_leaf and p.requires_grad):
        raise GradientError(f"{name}: a parameter of shape {p.shape} is no leaf that requires "
                            f"gradients; call requires_grad_() on it")
    if id(p) in seen:
        raise ArgumentError(f"{name}: a parameter of shape {p.shape} is given twice; give each "
                            f"once")
    seen.add(id(p))


def _check_positive(name: str, option: str, value: float) -> None:
    if not shapes.as_number(value, name, option) >= 0:
        raise ArgumentError(f"{name}: {option}={value!r} must be a number, 0 or more")


def _scalar_type(like: Tensor) -> DType:
    """What numbers beside a parameter are computed in."""
    return dt.float64 if like.dtype is dt.float64 else dt.float32


def _zeros(like: Tensor) -> Tensor:
    """Zeros in memory: a kernel input from the first step on."""
    zeros = np.zeros(like.shape, like.dtype.compute)
    return Tensor._copy_of(zeros, like.dtype, like.device)


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum (Nesterov's if asked) and weight decay."""

    def __init__(self, params: Iterable[Tensor] | Iterable[Group], lr: float = 1e-3,
                 momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
                 nesterov: bool = False) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening,
                                  "weight_decay": weight_decay, "nesterov": nesterov})

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        _check_positive("SGD", "momentum", group["momentum"])
        shapes.as_number(group["dampening"], "SGD", "dampening")
        if group["nesterov"] and (group["momentum"] == 0 or group["dampening"] != 0):
            raise ArgumentError(f"SGD: nesterov with momentum={group['momentum']} and "
                                f"dampening={group['dampening']}: it needs a momentum and no "
                                f"dampening")

    def _update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: Group,
                number: int) -> list[Tensor]:
        if group["weight_decay"]:
            grad = grad + p * group["weight_decay"]
        changed: list[Tensor] = []
        if group["momentum"]:
            taken = self._steps_taken(state, p) if group["dampening"] else None
            started = taken is None and self._has_momentum(state, group)
            if "momentum_buffer" not in state:
                self._new_state(p, state, lambda: {"momentum_buffer": _zeros(p)})
            buffer, share = state["momentum_buffer"], grad
            if taken is not None:
                share = grad * where(taken == 1, 1.0, 1.0 - group["dampening"])
                changed.append(state["step"])
            elif group["dampening"]:
                kept = 1.0 - group["dampening"] if started else 1.0
                share = grad * self._scalar(f"kept {kept}", number, p, lambda: kept)
            self._set(buffer, buffer * group["momentum"] + share)
            grad = grad + buffer * group["momentum"] if group["nesterov"] else buffer
            changed.append(buffer)
        self._set(p, p - grad * self._scalar("lr", number, p, lambda: group["lr"]))
        return changed

    def _has_momentum(self, state: dict[str, Any], group: Group) -> bool:
        """Whether this is not the first step, which takes all of the gradient."""
        trace = tracing.current()
        if trace is not None and group["dampening"]:
            trace.observe(lambda: "momentum_buffer" in state)
        return "momentum_buffer" in state


class Adam(Optimizer):
    """Adam (D. Kingma and J. Ba, 2015); weight_decay is added to the gradient."""

    decoupled = False

    def __init__(self, params: Iterable[Tensor] | Iterable[Group], lr: float = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps,
                                  "weight_decay": weight_decay})

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        name, betas = type(self).__name__, group["betas"]
        if not (isinstance(betas, tuple | list) and len(betas) == 2
                and all(0 <= shapes.as_number(b, name, "a beta") < 1 for b in betas)):
            raise ArgumentError(f"{name}: betas={betas!r} must be two numbers, 0 or more and "
                                f"below 1")
        _check_positive(name, "eps", group["eps"])

    def _update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: Group,
                number: int) -> list[Tensor]:
        beta1, beta2 = group["betas"]
        if not state:
            self._new_state(p, state,
                            lambda: {"step": 0, "exp_avg": _zeros(p), "exp_avg_sq": _zeros(p)})
        decay = group["weight_decay"]
        value: Tensor = p.detach()
        if decay and self.decoupled:
            value = value * self._scalar("shrink", number, p,
                                         lambda: 1 - group["lr"] * decay)
        elif decay:
            grad = grad + p * decay
        first, second = state["exp_avg"], state["exp_avg_sq"]
        mean = first * beta1 + grad * (1 - beta1)
        square = second * beta2 + grad * grad * (1 - beta2)
        self._set(first, mean)
        self._set(second, square)
        root, size = self._corrections(p, state, group, number)
        self._set(p, value - mean / (square.sqrt() / root + group["eps"]) * size)
        return [first, second, *([state["step"]] if isinstance(state["step"], Tensor) else [])]

    def _corrections(self, p: Tensor, state: dict[str, Any], group: Group,
                     number: int) -> tuple[Tensor, Tensor]:
        """The root of what the mean square lacks as it began at 0, and the size of a step."""
        beta1, beta2 = group["betas"]
        taken = self._steps_taken(state, p)
        if taken is not None:
            rate = self._scalar("lr", number, p, lambda: group["lr"])
            return _reached(beta2, taken).sqrt(), rate / _reached(beta1, taken)
        step = self._advance(state)
        root = self._scalar(f"root{step}", number, p,
                            lambda: math.sqrt(1 - beta2**state["step"]))
        size = self._scalar(f"size{step}", number, p,
                            lambda: group["lr"] / (1 - beta1**state["step"]))
        return root, size

    def _advance(self, state: dict[str, Any]) -> int:
        """Count a step of one parameter. Parameters with equal counts share scalars."""
        trace = tracing.current()
        if trace is None:
            _count(state)
        else:
            trace.action(partial(_count, state))
            self._counted.append(state)
        step: int = state["step"]
        return step

    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        """Update every parameter that has a gradient, and compute all of it now."""
        self._counted: list[dict[str, Any]] = []
        loss = super().step(closure)
        for key in [k for k in self._scalars if k[0][-1].isdigit()]:
            del self._scalars[key]  # a step's own
        trace = tracing.current()
        if trace is not None:
            trace.observe(partial(_differences, self._counted))
        return loss


def _reached(beta: float, taken: Tensor) -> Tensor:
    """1 - beta ** taken, without the loss of the difference."""
    return -(taken * math.log(beta)).expm1() if beta else taken * 0 + 1


def _count(state: dict[str, Any]) -> None:
    state["step"] += 1


def _differences(states: list[dict[str, Any]]) -> list[int]:
    """Which of these states have counted the same number of steps."""
    return [s["step"] - states[0]["step"] for s in states]


class AdamW(Adam):
    """Adam with the weight decay taken from the parameter itself (I. Loshchilov and F. Hutter)."""

    decoupled = True

    def __init__(self, params: Iterable[Tensor] | Iterable[Group], lr: float = 1e-3,
                 betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
