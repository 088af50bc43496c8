"""L-BFGS: steps of Newton's method with an estimate of the curvature from late gradients.

All parameters are one vector. A step evaluates the closure several times and looks at values, so
it runs in Python and cannot be part of a jitted function. Each number that tensors are multiplied
by is a zero-dim tensor, so nothing is compiled anew as they change.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from lazyten.execution import realization as _realization
from lazyten.frontend.functions import cat, stack
from lazyten.frontend.recorded.lookup import as_one
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.operators.math import shapes
from lazyten.optim.compiled import Params, check_positive
from lazyten.optim.optimizer import Optimizer, State
from lazyten.optim.param_groups import Group
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError
from lazyten.support.grad_mode import enable_grad, no_grad

CURVED = 1e-10
"""A change of gradients says something of the curvature if it goes so far along the step."""
AT_ONCE = 8
"""So many entries of the history are one program, and those that are left one each: two programs
serve histories of any length."""

Entry = tuple[Tensor, Tensor, Tensor]
"""A change of the gradients, the step that made it, and 1 over their product."""


class LBFGS(Optimizer):
    """L-BFGS (J. Nocedal, 1980), with a line search for the strong Wolfe conditions if
    line_search_fn='strong_wolfe'. There is one group of parameters, on one device.

    max_iter, max_eval: directions, and calls of the closure, a step. tolerance_grad: the step ends
    once no gradient is larger. tolerance_change: or once nothing changes by more.
    """

    _goes_by_element = False

    def __init__(self, params: Params, lr: float | Tensor = 1, max_iter: int = 20,
                 max_eval: int | None = None, tolerance_grad: float = 1e-7,
                 tolerance_change: float = 1e-9, history_size: int = 100,
                 line_search_fn: str | None = None) -> None:
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn})

    def add_param_group(self, param_group: Group) -> None:
        """The one group of parameters; ArgumentError for a second one."""
        if self.param_groups:
            raise ArgumentError("LBFGS takes one group of parameters, as it makes one vector of "
                                "them; give all in one list")
        super().add_param_group(param_group)

    def _check_options(self, group: Group) -> None:
        check_positive("LBFGS", "lr", group["lr"])
        for option in ("max_iter", "max_eval", "history_size"):
            shapes.as_int(group[option], "LBFGS", option)
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ArgumentError(f"LBFGS: line_search_fn={group['line_search_fn']!r} is neither "
                                f"None nor 'strong_wolfe'")
        kinds = {(p.dtype, p.device) for p in group["params"]}
        if len(kinds) != 1:
            shown = " and ".join(sorted(f"{kind.name} on {device}" for kind, device in kinds))
            raise ArgumentError(f"LBFGS: parameters are {shown}; it makes one vector of them, so "
                                f"they must be of one type and on one device")

    # ---- parameters as one vector ----------------------------------------------------------------

    @property
    def _params(self) -> list[Tensor]:
        params: list[Tensor] = self.param_groups[0]["params"]
        return params

    def _number(self, value: float) -> Tensor:
        p = self._params[0]
        return Tensor._copy_of(value, dt.float64 if p.dtype is dt.float64 else dt.float32, p.device)

    def _gradient(self) -> Tensor:
        parts = [(p.detach() * 0 if p.grad is None else p.grad.detach()).reshape(-1)
                 for p in self._params]
        return cat(parts).realize()

    def _place(self, x: list[Tensor], length: float, direction: Tensor) -> None:
        """Make the parameters x + length * direction."""
        begin, factor = 0, self._number(length)
        for p, start in zip(self._params, x, strict=True):
            part = direction[begin:begin + p.numel()].reshape(p.shape)
            p.copy_(start + part * factor)
            begin += p.numel()
        _realization.realize([p._storage for p in self._params])

    # ---- a step ----------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Go on until a limit is reached; gives the first loss of the closure, which must clear the
        gradients, compute the loss and call backward()."""
        tracing.refuse("LBFGS.step()", "it looks at losses; call it outside, with a closure that "
                       "is jitted")
        if not callable(closure):
            raise ArgumentError("LBFGS.step: it evaluates the loss several times; give a closure "
                                "that clears the gradients, computes the loss, calls backward() "
                                "and returns the loss")
        self._check_options(self.param_groups[0])

        def evaluated() -> Any:
            with enable_grad():
                return closure()

        with no_grad():
            return self._descend(evaluated)

    def _descend(self, closure: Callable[[], Any]) -> Any:
        group, state = self.param_groups[0], self.state[self._params[0]]
        first = closure()
        loss, gradient, evaluations = float(first), self._gradient(), 1
        state["func_evals"] = state.get("func_evals", 0) + 1
        if _largest(gradient) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] = state.get("n_iter", 0) + 1
            direction = self._direction(state, gradient, group)
            state["prev_flat_grad"], state["prev_loss"] = gradient, loss
            length = float(group["lr"])
            if state["n_iter"] == 1:
                length *= min(1.0, 1 / float(gradient.abs().sum()))
            start = Point(0.0, loss, gradient, float(gradient.dot(direction)))
            state["t"] = length
            if start.slope > -group["tolerance_change"]:
                break
            is_last = iteration == group["max_iter"]
            found, used = self._moved(closure, start, direction, length,
                                      group["max_eval"] - evaluations, is_last)
            state["t"], loss, gradient = found.length, found.loss, found.gradient
            evaluations += used
            state["func_evals"] += used
            if is_last or evaluations >= group["max_eval"] \
                    or _largest(gradient) <= group["tolerance_grad"] \
                    or _largest(direction) * found.length <= group["tolerance_change"] \
                    or abs(loss - start.loss) < group["tolerance_change"]:
                break
        return first

    def _moved(self, closure: Callable[[], Any], start: Point, direction: Tensor, length: float,
               most: int, is_last: bool) -> tuple[Point, int]:
        """Move the parameters along a direction, by `length` or as far as a line search finds good;
        gives where they are, and how often the closure was called. After the last direction of a
        step the loss there is not needed."""
        group = self.param_groups[0]
        x = [p.detach().clone() for p in self._params]
        _realization.realize([start._storage for start in x])

        def at(length: float) -> Point:
            self._place(x, length, direction)
            loss = float(closure())
            gradient = self._gradient()
            return Point(length, loss, gradient, float(gradient.dot(direction)))

        if group["line_search_fn"] is not None:
            width = group["tolerance_change"] / _largest(direction)
            found, used = strong_wolfe(at, start, length, most, width)
            self._place(x, found.length, direction)
            return found, used
        if not is_last:
            return at(length), 1
        self._place(x, length, direction)
        return start._replace(length=length), 0

    def _direction(self, state: State, gradient: Tensor, group: Group) -> Tensor:
        """Where to go from here: minus the gradient, times the estimate of the inverse Hessian."""
        if state["n_iter"] == 1:
            state.update(d=(-gradient).realize(), old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return state["d"]  # type: ignore[no-any-return]
        changes, steps, inverse = state["old_dirs"], state["old_stps"], state["ro"]
        change = gradient - state["prev_flat_grad"]
        step = state["d"] * self._number(state["t"])
        curvature, square = stack([change.dot(step), change.dot(change)]).tolist()
        if curvature > CURVED:
            if len(changes) == group["history_size"]:
                for listed in (changes, steps, inverse):
                    listed.pop(0)
            changes.append(change)
            steps.append(step)
            inverse.append(self._number(1 / curvature))
            state["H_diag"] = curvature / square
        state["d"] = _through_history([*zip(changes, steps, inverse, strict=True)], -gradient,
                                      self._number(state["H_diag"])).realize()
        return state["d"]  # type: ignore[no-any-return]


# ---- the estimate of the inverse Hessian (Nocedal and Wright, algorithm 7.4) ---------------------

def _through_history(history: list[Entry], q: Tensor, diagonal: Tensor) -> Tensor:
    """The estimate times q. history: the latest entry last."""
    rest = len(history) % AT_ONCE
    parts = [[entry] for entry in history[:rest]]
    parts += [history[n:n + AT_ONCE] for n in range(rest, len(history), AT_ONCE)]
    shares: list[list[Tensor]] = []
    for part in reversed(parts):
        changes, steps, inverse = map(list, zip(*part, strict=True))
        q, *found = _downwards(q, changes, steps, inverse)
        _realization.realize([x._storage for x in (q, *found)])
        shares.append(found)
    d = q * diagonal
    for part in parts:
        changes, steps, inverse = map(list, zip(*part, strict=True))
        d = _upwards(d, changes, steps, inverse, shares.pop()).realize()
    return d


@as_one
def _downwards(q: Tensor, changes: list[Tensor], steps: list[Tensor],
               inverse: list[Tensor]) -> list[Tensor]:
    """q without the shares of these entries, the latest first; and the shares."""
    shares = []
    for y, s, r in zip(reversed(changes), reversed(steps), reversed(inverse), strict=True):
        shares.append(s.dot(q) * r)
        q = q - y * shares[-1]
    return [q, *shares]


@as_one
def _upwards(d: Tensor, changes: list[Tensor], steps: list[Tensor], inverse: list[Tensor],
             shares: list[Tensor]) -> Tensor:
    """d with what these entries add, the latest last. shares: as _downwards gives them."""
    for y, s, r, share in zip(changes, steps, inverse, reversed(shares), strict=True):
        d = d + s * (share - y.dot(d) * r)
    return d


def _largest(x: Tensor) -> float:
    return float(x.abs().max())


# ---- the line search -----------------------------------------------------------------------------
# For the strong Wolfe conditions (J. Nocedal and S. Wright, Numerical Optimization, algorithms 3.5
# and 3.6): enough less loss, and a slope that is small against the first.

DECREASE, CURVATURE = 1e-4, 0.9


class Point(NamedTuple):
    """A point on the line: how far along the direction, the loss and its gradient there, and the
    slope along the direction."""

    length: float
    loss: float
    gradient: Tensor
    slope: float


Evaluate = Callable[[float], Point]


def strong_wolfe(at: Evaluate, start: Point, length: float, most: int,
                 width: float) -> tuple[Point, int]:
    """A point that satisfies the conditions, or the best that was found, and how often the loss was
    evaluated: at most once more than `most`. A bracket of less than `width` is not looked into."""
    before, here, evaluations = start, at(length), 1
    bracket: list[Point] = []
    while evaluations <= most:
        if _too_high(here, start) or (evaluations > 2 and here.loss >= before.loss):
            bracket = [before, here]
        elif abs(here.slope) <= -CURVATURE * start.slope:
            return here, evaluations
        elif here.slope >= 0:
            bracket = [before, here]
        if bracket:
            break
        bounds = (here.length + 0.01 * (here.length - before.length), here.length * 10)
        before, here = here, at(cubic_minimum(before, here, bounds))
        evaluations += 1
    return _narrowed(at, start, bracket or [start, here], evaluations, most, width)


def _too_high(point: Point, start: Point) -> bool:
    return point.loss > start.loss + DECREASE * point.length * start.slope


def _narrowed(at: Evaluate, start: Point, bracket: list[Point], evaluations: int, most: int,
              width: float) -> tuple[Point, int]:
    """Make a bracket around a good point smaller, until one is found."""
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    stuck = False
    while evaluations <= most:
        ends = [point.length for point in bracket]
        if abs(ends[1] - ends[0]) < width:
            break
        length, stuck = _inside(cubic_minimum(bracket[0], bracket[1]), min(ends), max(ends), stuck)
        here = at(length)
        evaluations += 1
        if _too_high(here, start) or here.loss >= bracket[low].loss:
            bracket[high] = here
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        done = abs(here.slope) <= -CURVATURE * start.slope
        if not done and here.slope * (bracket[high].length - bracket[low].length) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = here
        if done:
            break
    return bracket[low], evaluations


def _inside(length: float, least: float, most: float, stuck: bool) -> tuple[float, bool]:
    """A length that is not too near to an end, if the one before was, too, and whether it is."""
    margin = 0.1 * (most - least)
    if min(most - length, length - least) >= margin:
        return length, False
    if stuck or length >= most or length <= least:
        nearer_to_most = abs(length - most) < abs(length - least)
        return (most - margin if nearer_to_most else least + margin), False
    return length, True


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic with the losses and slopes of two points is least, within bounds."""
    least, most = bounds or (min(a.length, b.length), max(a.length, b.length))
    first = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.length - b.length)
    square = first**2 - a.slope * b.slope
    if not square >= 0:
        return (least + most) / 2
    second = math.sqrt(square)
    if a.length <= b.length:
        share = (b.slope + second - first) / (b.slope - a.slope + 2 * second)
        found = b.length - (b.length - a.length) * share
    else:
        share = (a.slope + second - first) / (a.slope - b.slope + 2 * second)
        found = a.length - (a.length - b.length) * share
    return min(max(found, least), most)
