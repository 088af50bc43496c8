"""Saving and loading the state of modules: `state_dict` and `load_state_dict`."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lazyten.errors import StateError
from lazyten.grad_mode import no_grad
from lazyten.nn.attributes import Attributes
from lazyten.nn.parameter import Parameter
from lazyten.tensor import Tensor


class IncompatibleKeys(NamedTuple):
    """What load_state_dict() found to differ: names that were not given, and names given that the
    module does not have."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (f"IncompatibleKeys(missing_keys={self.missing_keys}, "
                f"unexpected_keys={self.unexpected_keys})")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a module keeps one tensor of the state."""

    owner: Attributes
    name: str
    value: Tensor

    def assign(self, value: Tensor) -> None:
        """Put another tensor there: a parameter trains as the one before did, unless it says so
        itself."""
        if isinstance(self.value, Parameter) and not isinstance(value, Parameter):
            value = Parameter(value, self.value.requires_grad)
        setattr(self.owner, self.name, value)


class StateMethods(Attributes):
    """state_dict() and load_state_dict()."""

    def _own_state(self) -> Iterator[tuple[str, Tensor]]:
        """What this module itself saves: parameters, then buffers but for those that are not."""
        for name, value in (*self._parameters.items(), *self._buffers.items()):
            if value is not None and name not in self._non_persistent_buffers_set:
                yield name, value

    def state_dict(self, *, destination: dict[str, Any] | None = None, prefix: str = "",
                   keep_vars: bool = False) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name, sharing this module's memory.

        destination: the dict to add to; prefix: what names begin with. keep_vars: the tensors
        themselves, rather than detached ones.
        """
        state: dict[str, Any] = OrderedDict() if destination is None else destination
        for name, value in self._own_state():
            state[prefix + name] = value if keep_vars else value.detach()
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.",
                                  keep_vars=keep_vars)
        return state

    def _places(self, prefix: str = "") -> Iterator[tuple[str, _Place]]:
        for name, value in self._own_state():
            yield prefix + name, _Place(self, name, value)
        for name, module in self._modules.items():
            if module is not None:
                yield from module._places(f"{prefix}{name}.")

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True,
                        assign: bool = False) -> IncompatibleKeys:
        """Take over values by name. Nothing changes unless all of them fit.

        StateError names what is missing, unexpected (both allowed if not `strict`, and given back),
        or of another shape. assign: take the tensors themselves, with their dtype and device, in
        place of their values.
        """
        operation = f"load_state_dict of {type(self).__name__}"
        _check_tensors(state_dict, operation)
        places = dict(self._places())
        missing = [n for n in places if n not in state_dict]
        unexpected = [n for n in state_dict if n not in places]
        wrong = [f"{n}: saved {tuple(state_dict[n].shape)}, here {p.value.shape}"
                 for n, p in places.items()
                 if n in state_dict and tuple(state_dict[n].shape) != p.value.shape]
        problems = [f"{what}: {', '.join(names)}" for what, names in (
            ("missing", missing if strict else []), ("unexpected", unexpected if strict else []),
            ("of another shape", wrong)) if names]
        if problems:
            raise StateError(f"{operation}: {'; '.join(problems)}. "
                             f"Nothing was loaded; the model must be built as the saved one was")
        for name, place in places.items():
            if name not in state_dict:
                continue
            if assign:
                place.assign(state_dict[name])
            else:
                with no_grad():
                    there = place.value.detach()
                    there.copy_(state_dict[name].detach().to(device=there.device))
        return IncompatibleKeys(missing, unexpected)


def _check_tensors(state: Mapping[str, Any], operation: str) -> None:
    """StateError unless these are tensors by name."""
    if not isinstance(state, Mapping):
        raise StateError(f"{operation}: {type(state).__name__} {state!r:.40} is not a mapping of "
                         f"names to tensors; give what state_dict() or load_safetensors() gave")
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise StateError(f"{operation}: {name} is {type(value).__name__} {value!r:.40}, not a "
                             f"tensor; wrap it in lazyten.tensor(). Nothing was loaded")
