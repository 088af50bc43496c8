"""`lt._C`: the few names of PyTorch's own parts that packages ask for."""
from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from lazyten.frontend.core import overriding
from lazyten.frontend.methods.conversion import where_to
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import as_dtype
from lazyten.pytorch.refusals import Refused, class_of_nothing
from lazyten.random import Generator as Generator
from lazyten.storage import levels
from lazyten.storage.placement import Device
from lazyten.support.errors import LinAlgError

DisableTorchFunctionSubclass, DisableTorchFunction = overriding.NotAsked, overriding.NothingAsked
_disabled_torch_function_impl = overriding.disabled
FakeTensor = class_of_nothing(
    "FakeTensor", "tensors without values are not there; lazyten computes none that nobody reads")
_nvtx = Refused("_C._nvtx", "there are no marks for NVIDIA's tools; see lazyten.profile()")
_SCRIPT = "nothing is made of TorchScript, so there are no such parts of it"
Graph, Value, Node = (class_of_nothing(name, _SCRIPT) for name in ("Graph", "Value", "Node"))
_TensorMeta = type(Tensor)
_LinAlgError = LinAlgError


def _get_tracing_state() -> None:
    """None: nothing is traced by TorchScript."""


def _is_tracing() -> bool:
    """False: nothing is traced by TorchScript."""
    return False


def _jit_set_profiling_mode(enabled: bool) -> bool:
    """False: TorchScript does not choose its programs by what it has seen, as there are none."""
    return False


_jit_set_profiling_executor = _jit_set_texpr_fuser_enabled = _jit_set_profiling_mode
_jit_set_nvfuser_enabled = _jit_override_can_fuse_on_cpu = _jit_set_profiling_mode


def _log_api_usage_once(event: str) -> None:
    """Nothing: what programs use is not reported to anybody."""


def _are_functorch_transforms_active() -> bool:
    """Whether a transform of lt.func is under way."""
    return any(entered.operation != "dual_level" for entered in levels.under_way())


def is_fake(x: object) -> bool:
    """False: all tensors have values."""
    return False


class _nn:
    """Functions below modules."""

    @staticmethod
    def _parse_to(*args: Any, device: Any = None, dtype: Any = None,
                  non_blocking: bool = False, memory_format: Any = None
                  ) -> tuple[Any, Any, bool, Any]:
        """The arguments of a module's `to`: device, dtype, non_blocking, memory_format."""
        kind, where, _ = where_to(args, dtype, device)
        return (None if where is None else Device(where), None if kind is None else as_dtype(kind),
                non_blocking, memory_format)


class _Keys:
    """PyTorch's names for what it chooses a function by, all the same here."""

    def __getattr__(self, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


DispatchKey = _Keys()


class DispatchKeySet(frozenset[str]):
    """A set of such names."""

    def __new__(cls, *keys: str) -> DispatchKeySet:
        """The set of these names."""
        return super().__new__(cls, keys)

    def __or__(self, other: Any) -> DispatchKeySet:
        return DispatchKeySet(*self, *other)


class _ExcludeDispatchKeyGuard(nullcontext[None]):
    """For `with`: a function is not chosen by keys, so none has to be left out."""
