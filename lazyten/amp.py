"""Automatic mixed precision under PyTorch's names: `autocast` and `GradScaler`.

    scaler = lt.amp.GradScaler()
    with lt.autocast(dtype=lt.float16):
        loss = loss_of(model(x))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()

float16 has a narrow range: gradients below 6e-8 are 0, and those above 65504 infinite. The scaler
multiplies the loss, so that small ones count, and finds out by which factor.
"""
from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from lazyten.autograd.mixed_precision import custom_bwd as custom_bwd
from lazyten.autograd.mixed_precision import custom_fwd as custom_fwd
from lazyten.distributed.functional import all_reduce
from lazyten.frontend.core.forms import is_sparse
from lazyten.frontend.core.mixed_precision import autocast as autocast
from lazyten.frontend.core.mixed_precision import is_autocast_enabled as is_autocast_enabled
from lazyten.frontend.functions import realize, where
from lazyten.frontend.recorded.lookup import as_one
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import Scalar
from lazyten.nn.sharded_parameter import shared_out
from lazyten.operators.math import shapes
from lazyten.optim import Optimizer
from lazyten.pytorch.modules import later as _later
from lazyten.storage import tracing
from lazyten.storage.deferred import kept
from lazyten.storage.device import available, executor
from lazyten.storage.placement import placed
from lazyten.storage.tracing import Observer
from lazyten.support.errors import ArgumentError, DeviceError, DTypeError, StateError
from lazyten.support.grad_mode import no_grad

READY, UNSCALED, STEPPED = "ready", "unscaled", "stepped"


@as_one
def _unscaled(grads: Sequence[Tensor], scale: Tensor) -> Tensor:
    """Divide gradients by a scale, in place; gives whether one is infinite or NaN."""
    inverse = scale.reciprocal()
    broken = [(~g.isfinite()).any() for g in grads]
    for g in grads:
        g.copy_(g * inverse)
    return reduce(Tensor.logical_or, broken)


@as_one
def _choose_scale(scale: Tensor, tracker: Tensor, found: Tensor,
                  options: tuple[float, float, int]) -> None:
    """The next scale, and how many steps went well in a row, in place. found: whether a gradient
    was infinite or NaN. options: by which factors it grows and shrinks, and after how many steps.
    """
    growth, backoff, interval = options
    count = tracker + 1
    grows = count == interval
    larger = scale * growth
    grown = where(grows & larger.isfinite(), larger, scale)
    tracker.copy_(where(found | grows, 0, count))
    scale.copy_(where(found, scale * backoff, grown))


@dataclass(slots=True)
class _Pending:
    """One optimizer since the last update(). found: a zero-dim bool, whether a gradient was not
    finite. seen: the trace that has noted `stage`."""

    found: Tensor
    stage: str = READY
    seen: ReferenceType[Observer] | None = None

    def enter(self, stage: str) -> None:
        self.stage = stage


class GradScaler:
    """Multiplies a loss by a scale, divides the gradients by it, and skips the steps of which a
    gradient is not finite. The scale grows by `growth_factor` after `growth_interval` steps without
    such a one, and shrinks by `backoff_factor` with each.

    No value is looked at: a step that is skipped leaves parameters and the optimizer's state as
    they are by a choice in its kernels. So all of it works in jitted functions.
    """

    def __init__(self, device: str | None = None, init_scale: float = 2.0**16,
                 growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True) -> None:
        self._enabled = bool(enabled) and not _lacking(device)
        where_ = placed(device if self._enabled else None)
        self.set_growth_factor(growth_factor)
        self.set_backoff_factor(backoff_factor)
        self.set_growth_interval(growth_interval)
        self._scale = Tensor._copy_of(_positive(init_scale, "init_scale"), dt.float32, where_)
        self._tracker = Tensor._copy_of(0, dt.int32, where_)
        self._pending: WeakKeyDictionary[Optimizer, _Pending] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        if any(pending.stage != READY for pending in self._pending.values()):
            raise StateError("pickle of a GradScaler: it has unscaled the gradients of a step that "
                             "is not finished; call update() first")
        return {name: value for name, value in vars(self).items() if name != "_pending"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _pending=WeakKeyDictionary())

    # ---- a step ----------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """A loss, or several in a list or tuple, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, list | tuple):
            return type(outputs)([self.scale(x) for x in outputs])
        if not isinstance(outputs, Tensor):
            raise DTypeError(f"GradScaler.scale: {outputs!r:.40} is not a tensor or a list of "
                             f"them; give the loss")
        return outputs * self._scale

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, in place. step() does it
        by itself; call it to clip gradients before."""
        if not self._enabled:
            return
        pending = self._of(optimizer)
        if pending.stage != READY:
            raise StateError(f"GradScaler.unscale_: the gradients of this {_name(optimizer)} are "
                             f"{pending.stage} already; call update() after each step")
        grads = _gradients(optimizer)
        for g in grads:
            if g.dtype is dt.float16:
                raise DTypeError(f"GradScaler.unscale_: a gradient of shape {g.shape} is float16, "
                                 f"and would be 0 or infinite; keep parameters in float32, and "
                                 f"compute with them within autocast")
        if not grads:
            raise StateError(f"GradScaler: no parameter of this {_name(optimizer)} has a gradient; "
                             f"call scale(loss).backward() first")
        with no_grad():
            found = _unscaled(grads, self._scale)
            for others, _ in shared_out(p for g in optimizer.param_groups for p in g["params"]):
                if others is not None:
                    found = all_reduce(found, "max", others)
            pending.found.copy_(found)
        self._enter(pending, UNSCALED)

    def step(self, optimizer: Optimizer) -> None:
        """optimizer.step(), unless a gradient is infinite or NaN: then nothing changes."""
        if not self._enabled:
            optimizer.step()
            return
        pending = self._of(optimizer)
        if pending.stage == STEPPED:
            raise StateError(f"GradScaler.step: this {_name(optimizer)} has made its step already; "
                             f"call update() after each step")
        back = _kept_step(optimizer, pending)
        try:
            if pending.stage == READY:
                self.unscale_(optimizer)
            optimizer.step_unless(pending.found)
        except BaseException:
            back()
            raise
        self._enter(pending, STEPPED)

    def update(self, new_scale: Scalar | Tensor | None = None) -> None:
        """End a step: choose the next scale, or take `new_scale`."""
        if not self._enabled:
            return
        trace = tracing.current()
        if trace is not None:
            trace.observe(self._options)
        used = [p for p in self._pending.values() if p.stage != READY]
        if new_scale is None and not used:
            raise StateError("GradScaler.update: no step was made since the last one; call "
                             "step(optimizer) first")
        with no_grad():
            if new_scale is None:
                found = reduce(Tensor.logical_or, [p.found for p in used])
                _choose_scale(self._scale, self._tracker, found, self._options())
            else:
                self._scale.copy_(_on(new_scale, self._scale))
        for pending in used:  # also where what follows fails: the next step is another
            self._enter(pending, READY)
        realize(self._scale, self._tracker)

    def _of(self, optimizer: Optimizer) -> _Pending:
        """What is known of an optimizer. In a jitted function it is there before the first call,
        and the trace depends on the stage that it begins in."""
        if not hasattr(optimizer, "param_groups"):
            raise DTypeError(f"GradScaler: {type(optimizer).__name__} {optimizer!r:.60} is not an "
                             f"optimizer; give the optimizer itself")
        pending = self._pending.get(optimizer)
        if pending is None:
            with tracing.listening(None):
                pending = _Pending(Tensor._copy_of(False, device=self._scale.device))
            self._pending[optimizer] = pending
        trace = tracing.current()
        if trace is not None and (pending.seen is None or pending.seen() is not trace):
            pending.seen = ref(trace)
            trace.observe(partial(getattr, pending, "stage"))
        return pending

    def _enter(self, pending: _Pending, stage: str) -> None:
        trace = tracing.current()
        if trace is not None:
            trace.undo(partial(pending.enter, pending.stage))
            trace.action(partial(pending.enter, stage),
                         lambda: partial(pending.enter, pending.stage))
        pending.enter(stage)

    # ---- options and state -----------------------------------------------------------------------

    def _options(self) -> tuple[float, float, int]:
        return self._growth, self._backoff, self._interval

    def get_scale(self) -> float:
        """The scale, as a Python number; 1.0 if disabled."""
        return float(self._scale) if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether anything is scaled."""
        return self._enabled

    def get_growth_factor(self) -> float:
        """What the scale grows by."""
        return self._growth

    def set_growth_factor(self, new_factor: float) -> None:
        """Change what the scale grows by, above 1."""
        self._growth = _positive(new_factor, "growth_factor")
        if self._growth <= 1:
            raise ArgumentError(f"GradScaler: growth_factor={new_factor} must be above 1")

    def get_backoff_factor(self) -> float:
        """What the scale shrinks by."""
        return self._backoff

    def set_backoff_factor(self, new_factor: float) -> None:
        """Change what the scale shrinks by, below 1."""
        self._backoff = _positive(new_factor, "backoff_factor")
        if self._backoff >= 1:
            raise ArgumentError(f"GradScaler: backoff_factor={new_factor} must be below 1")

    def get_growth_interval(self) -> int:
        """After how many good steps the scale grows."""
        return self._interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Change after how many good steps the scale grows, 1 or more."""
        self._interval = shapes.as_int(new_interval, "GradScaler", "growth_interval")
        if self._interval < 1:
            raise ArgumentError(f"GradScaler: growth_interval={new_interval} must be 1 or more")

    def state_dict(self) -> dict[str, Any]:
        """What load_state_dict takes; empty if disabled."""
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth,
                "backoff_factor": self._backoff, "growth_interval": self._interval,
                "_growth_tracker": int(self._tracker)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on as the scaler did whose state this is."""
        if not self._enabled:
            return
        names = {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"}
        if not isinstance(state_dict, dict) or not names <= state_dict.keys():
            raise StateError(f"GradScaler.load_state_dict: {state_dict!r:.60} is not the state of "
                             f"a scaler that is enabled; give what state_dict() gave, a dict of "
                             f"{', '.join(sorted(names))}")
        self.set_growth_factor(state_dict["growth_factor"])
        self.set_backoff_factor(state_dict["backoff_factor"])
        self.set_growth_interval(state_dict["growth_interval"])
        self._scale.copy_(_on(state_dict["scale"], self._scale))
        self._tracker.copy_(_on(state_dict["_growth_tracker"], self._tracker))
        realize(self._scale, self._tracker)


def _lacking(device: str | None) -> bool:
    """Whether this is a GPU that is not there: a scaler for it scales nothing, as in PyTorch."""
    if device is None or placed(device).type != "cuda":
        return False
    try:
        executor(placed(device))
    except DeviceError as error:
        warnings.warn(f"GradScaler({device!r}) scales nothing: {error}", stacklevel=3)
        return True
    return False


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` takes a device of this type: one that lazyten can have."""
    return device_type in available()


def _on(value: Scalar | Tensor, like: Tensor) -> Tensor:
    """A zero-dim tensor in memory, like another."""
    number = shapes.as_number(value, "GradScaler", "the scale")
    return Tensor._copy_of(number, like.dtype, like.device)


def _positive(value: float, what: str) -> float:
    number = float(shapes.as_number(value, "GradScaler", what))
    if not 0 < number < math.inf:
        raise ArgumentError(f"GradScaler: {what}={value} must be above 0, and finite")
    return number


def _gradients(optimizer: Optimizer) -> list[Tensor]:
    """The gradients of an optimizer's parameters; of sparse ones the elements that they have."""
    found: list[Any] = [p.grad for group in optimizer.param_groups for p in group["params"]]
    return [g._values() if is_sparse(g) else g for g in found if g is not None]


def _kept_step(optimizer: Optimizer, pending: _Pending) -> Callable[[], None]:
    """What takes a step back that fails: gradients are scaled again, and to be unscaled."""
    if tracing.current() is not None:  # which a trace that fails does itself
        return lambda: None
    backs = [kept(t._storage) for t in (pending.found, *_gradients(optimizer))]
    backs.append(partial(pending.enter, pending.stage))

    def back() -> None:
        for one in backs:
            one()
    return back


def _name(optimizer: Optimizer) -> str:
    return type(optimizer).__name__


__path__: list[str] = []  # so that PyTorch's modules below it can be imported
__getattr__ = _later("lazyten.amp")
__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available",
           "is_autocast_enabled"]
