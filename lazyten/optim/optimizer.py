"""`Optimizer`: groups of parameters with options, a state for each parameter, and hooks.

It is made for subclassing as PyTorch's is: a subclass has `step()`, reads `self.param_groups` and
keeps what it needs in `self.state[p]`. Such a step is run in Python each time, and what it changed
is computed at its end; a jitted function runs it at the end of each call (`_postponed`).
"""
from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from lazyten.autodiff.hooks import RemovableHandle
from lazyten.execution import realization as _realization
from lazyten.frontend.tensor import Tensor
from lazyten.nn.sharded_parameter import PartialParameter
from lazyten.optim import saved_state
from lazyten.optim.param_groups import Group, as_list, checked_group, required
from lazyten.storage import tracing
from lazyten.storage.deferred import kept
from lazyten.support.errors import ArgumentError, LazytenError, NotDefinedError
from lazyten.support.grad_mode import enable_grad

State = dict[str, Any]
ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
"""What optimizers are given, for annotations of programs."""
params_t = ParamsT
StateDict = dict[str, Any]
Step = Callable[..., Any]
Hook = Callable[..., Any]
Hooks = OrderedDict[int, Hook]

_global_pre_hooks: Hooks = OrderedDict()
_global_post_hooks: Hooks = OrderedDict()
_numbers = count()
_TABLES = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks",
           "_optimizer_state_dict_pre_hooks", "_optimizer_state_dict_post_hooks",
           "_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks")


class Optimizer(tracing.TellsTraces):
    """Changes parameters by their gradients.

    params: parameters, pairs (name, parameter), or dicts of 'params' and options of their own.
    defaults: the options, with what holds where a group says nothing else. Change options in
    `param_groups`, 'lr' first of all; `state` maps a parameter to what the optimizer knows of it.
    """

    def __init__(self, params: Iterable[Any], defaults: Group) -> None:
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._prepare()
        name = type(self).__name__
        given = as_list(name, params)
        if not given:
            raise ArgumentError(f"{name} got no parameters: was the iterator used up before? Give "
                                f"a list, or call parameters() again")
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        for group in groups:
            self.add_param_group(group)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = _whole(vars(cls)["step"], cls.__module__)  # type: ignore[method-assign]

    @property
    def state(self) -> Any:
        """What is known of each parameter, by name. A step in a jitted function changes it when the
        call is made, so it is not there yet while the call is recorded."""
        tracing.refuse("the state of an optimizer", "read it outside, as it is not the same at "
                                                    "each call")
        return self._states

    @state.setter
    def state(self, states: Any) -> None:
        self.__dict__["state"] = states

    @property
    def _states(self) -> Any:
        """The same, for steps, which are recorded."""
        if "state" not in self.__dict__:
            if type(self).state is not Optimizer.state:  # of one around another
                return self.state
            raise AttributeError(f"{type(self).__name__} has no state yet: call super().__init__("
                                 f"params, defaults) first")
        return self.__dict__["state"]

    def _prepare(self) -> None:
        """What an optimizer has besides options and state; also of one that was copied."""
        for table in _TABLES:
            self.__dict__.setdefault(table, OrderedDict())
        self._stepping = False
        self._opt_called = False

    def _patch_step_function(self) -> None:
        """PyTorch's name for what an optimizer around another calls in place of our __init__."""
        self._prepare()

    def _check_options(self, group: Group) -> None:
        """ArgumentError or DTypeError for an option that makes no sense; subclasses know more."""

    def add_param_group(self, param_group: Group) -> None:
        """Change these parameters, too: a dict of 'params', and options where they differ."""
        tracing.refuse("add_param_group()", "call it before the jitted function")
        group = checked_group(type(self).__name__, param_group, self.defaults, self.param_groups,
                              self._goes_by_element)
        if not self._goes_by_element and any(isinstance(p, PartialParameter)
                                             for p in group["params"]):
            raise ArgumentError(f"{type(self).__name__}: a parameter is shared out among ranks, "
                                f"and what this optimizer makes of an element depends on others "
                                f"of the same parameter; use one such as AdamW, or "
                                f"DistributedDataParallel")
        self._check_options(group)
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or, unless set_to_none, make them 0."""
        trace = tracing.current()
        if trace is not None and trace.acts_afterwards(self):
            trace.afterwards(functools.partial(self.zero_grad, set_to_none), self, ())
            return
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none or p.grad is None:
                    p.grad = None
                else:
                    p.grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters by their gradients; subclasses define it.

        closure: recomputes the loss and its gradients first; what it gives is given back.
        """
        raise NotDefinedError(f"{type(self).__name__} does not define step()")

    def _loss_of(self, closure: Callable[[], Any] | None) -> Any:
        """What a closure of step() gives, with gradients; None without one."""
        if closure is None:
            return None
        if not callable(closure):
            raise ArgumentError(f"{type(self).__name__}.step: closure is {type(closure).__name__}, "
                                f"not a function; call loss.backward(), and then step() without "
                                f"arguments")
        with enable_grad():
            return closure()

    def step_unless(self, skipped: Tensor) -> None:
        """step(), unless the zero-dim bool tensor `skipped` holds."""
        if not bool(skipped):
            self.step()

    def _postponed(self, trace: tracing.Observer) -> None:
        """Have a jitted function's calls end with this step."""
        held = [p for group in self.param_groups for p in group["params"]]
        grads = [p._grad for p in held if p._grad is not None]
        trace.afterwards(self.step, self, [*held, *grads])

    def _changed(self) -> list[Tensor]:
        """What a step may have changed: parameters with gradients, these, and their state."""
        found = []
        for group in self.param_groups:
            for p in group["params"]:
                if p._grad is not None:
                    found += [p, p._grad]
                    found += [v for v in self._states.get(p, {}).values() if isinstance(v, Tensor)]
        return found

    # ---- hooks -----------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) before each step; it may give new (args, kwargs)."""
        return _registered(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call hook(optimizer, args, kwargs) after each step."""
        return _registered(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer) before each state_dict()."""
        return _registered(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer, state_dict) with what state_dict() gives; it may give another."""
        return _registered(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Hook,
                                          prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer, state_dict) with a copy of what is to be loaded; it may give
        another."""
        return _registered(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Hook,
                                           prepend: bool = False) -> RemovableHandle:
        """Call hook(optimizer) after each load_state_dict()."""
        return _registered(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    _optimizer_step_pre_hooks: Hooks
    _optimizer_step_post_hooks: Hooks
    _optimizer_state_dict_pre_hooks: Hooks
    _optimizer_state_dict_post_hooks: Hooks
    _optimizer_load_state_dict_pre_hooks: Hooks
    _optimizer_load_state_dict_post_hooks: Hooks

    # ---- saving and copying ----------------------------------------------------------------------

    @property
    def _is_recorded(self) -> bool:
        """Whether a step of lazyten's own is recorded like any computation."""
        return True

    _goes_by_element = True  # whether each element has its own step, as far as anybody knows
    _strict = False  # whether what is loaded must have the shapes and options that are here

    def _saved(self, state: State) -> State:
        """A parameter's state as state_dict() gives it."""
        return state

    def _loaded(self, state: State) -> State:
        """A parameter's state, of what was saved."""
        return state

    def state_dict(self) -> dict[str, Any]:
        """Options and state, parameters by number: what load_state_dict takes."""
        tracing.refuse("state_dict() of an optimizer", "call it outside, as it is not the same at "
                                                       "each call")
        for pre_hook in [*self._optimizer_state_dict_pre_hooks.values()]:
            pre_hook(self)
        result = saved_state.packed(self.param_groups, self.state, self._saved)
        for hook in [*self._optimizer_state_dict_post_hooks.values()]:
            given = hook(self, result)
            result = result if given is None else given
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on as the optimizer did whose state this is. StateError, and no change, if it does not
        fit these parameters."""
        tracing.refuse("load_state_dict() of an optimizer", "call it outside")
        saved = state_dict.copy() if isinstance(state_dict, dict) else state_dict
        for pre_hook in [*self._optimizer_load_state_dict_pre_hooks.values()]:
            given = pre_hook(self, saved)
            saved = saved if given is None else given
        groups, state = saved_state.unpacked(saved, self.param_groups, self._loaded,
                                            self._strict)
        for group in groups:
            self._check_options(group)
        self.__setstate__({"state": state, "param_groups": groups})
        for hook in [*self._optimizer_load_state_dict_post_hooks.values()]:
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        left_out = {*_TABLES, "_stepping"}
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        called = self.__dict__.get("_opt_called", False)
        self.__dict__.update(state)
        self._prepare()
        self._opt_called = called

    def __repr__(self) -> str:
        rows = []
        for number, group in enumerate(self.param_groups):
            options = [f"    {name}: {group[name]}\n" for name in sorted(group) if name != "params"]
            rows.append(f"Parameter Group {number}\n{''.join(options)}")
        return "\n".join([f"{type(self).__name__} (", *rows]) + ")"


def _whole(step: Step, module: str) -> Step:
    """A class's step() with all that belongs to it: hooks, and, unless it is one of lazyten's own,
    kernel inputs for its numbers, and what it leaves behind computed."""
    own = module.partition(".")[0] == "lazyten"

    @functools.wraps(step)
    def whole(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if "_stepping" not in self.__dict__:  # its __init__ has not called that of Optimizer
            self.__dict__.setdefault("state", {})
            self._prepare()
        if self._stepping:  # by super().step()
            return step(self, *args, **kwargs)
        if not own and (args or kwargs):
            tracing.refused(f"{type(self).__name__}.step() is given arguments inside a jitted "
                            f"function, which does it at the end of each call: call step() without "
                            f"arguments, or outside")
        trace = tracing.current()
        if trace is not None and not (own and self._is_recorded):
            return self._postponed(trace)
        if _global_pre_hooks or self._optimizer_step_pre_hooks:
            for hook in [*_global_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()]:
                given = hook(self, args, kwargs)
                if given is not None:
                    args, kwargs = _arguments(self, given)
        self._stepping = True
        try:
            result = step(self, *args, **kwargs) if own else _in_python(step, self, args, kwargs)
        finally:
            self._stepping = False
        self._opt_called = True
        if _global_post_hooks or self._optimizer_step_post_hooks:
            for hook in [*self._optimizer_step_post_hooks.values(), *_global_post_hooks.values()]:
                hook(self, args, kwargs)
        return result
    return whole


def _in_python(step: Step, optimizer: Optimizer, args: tuple[Any, ...], kwargs: Group) -> Any:
    """A step that somebody has written, and everything that it changed, computed."""
    before, had_state = [kept(t._storage) for t in optimizer._changed()], set(optimizer.state)
    result = step(optimizer, *args, **kwargs)
    try:
        _realization.realize([t._storage for t in optimizer._changed()])
    except LazytenError:
        for give_back in before:
            give_back()
        for p in optimizer.state.keys() - had_state:
            del optimizer.state[p]
        raise
    return result


def _arguments(optimizer: Optimizer, given: Any) -> tuple[tuple[Any, ...], Group]:
    if not (isinstance(given, tuple) and len(given) == 2):
        raise ArgumentError(f"a hook before {type(optimizer).__name__}.step() gives {given!r:.60}; "
                            f"it must be None or new arguments, (args, kwargs)")
    return given


def _registered(table: Hooks, hook: Hook, prepend: bool = False) -> RemovableHandle:
    if not callable(hook):
        raise ArgumentError(f"a hook of an optimizer is {type(hook).__name__} {hook!r:.40}; give a "
                            f"function")
    number = next(_numbers)
    table[number] = hook
    if prepend:
        table.move_to_end(number, last=False)
    return RemovableHandle(table, number)


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call hook(optimizer, args, kwargs) before each step of every optimizer."""
    return _registered(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call hook(optimizer, args, kwargs) after each step of every optimizer."""
    return _registered(_global_post_hooks, hook)


__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook",
           "required"]
