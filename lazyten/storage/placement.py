"""Where tensors live: the names of devices, and the one that new tensors get."""
from __future__ import annotations

import threading
from functools import cache
from typing import Any

from lazyten.storage.device import (
    BUILT_IN,
    ENTRY_POINT_GROUP,
    WITHOUT_VALUES,
    available,
    runtime_class,
)
from lazyten.support.errors import DeviceError
from lazyten.support.variables import EnvVar

_DEVICE = EnvVar("DEVICE")
MOST = 64
"""Devices of a kind: programs count them by asking for one after the other."""
_ELSEWHERE = frozenset(("hip", "hpu", "ipu", "lazy", "mps", "mtia", "npu", "vulkan", "xla",
                        "xpu"))
"""Kinds of devices that PyTorch has and lazyten does not: programs compare with their names."""


class Device(str):
    """The name of a device, such as 'cpu' or 'cuda:1': a string, with its parts as attributes.

    Device('cuda:1') is Device('cuda', 1); Device('CPU') and Device('cpu:0') are 'cpu'. Within
    `with Device(..):` new tensors live there. DeviceError for names of no runtime, where a tensor
    is to live there if PyTorch has such devices, such as 'mps', or at once if not.
    """

    __slots__ = ()

    def __new__(cls, type: str, index: int | None = None) -> Device:
        name = type if index is None else f"{type}:{index}"
        if isinstance(name, str) and name.partition(":")[0] in _ELSEWHERE:
            return str.__new__(cls, name)
        return canonical(name)

    @property
    def type(self) -> str:
        """The kind of device: 'cuda' of 'cuda:1'."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]
        """Which of its kind; None for the cpu."""
        kind, _, index = str(self).partition(":")
        return None if kind == "cpu" and not index else int(index or 0)

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __getnewargs__(self) -> tuple[str]:
        return (str(self),)

    def __enter__(self) -> Device:
        canonical(self)
        _chosen.before.append(_chosen.device)
        _chosen.device = self
        return self

    def __exit__(self, *exc: object) -> None:
        _chosen.device = _chosen.before.pop()

    @staticmethod
    def default() -> Device:
        """The device that new tensors live on."""
        return default_device()

    @staticmethod
    def available() -> tuple[str, ...]:
        """Names that `DEVICE=` and `device=` accept."""
        return available()


class _Chosen(threading.local):
    """What a thread's `with device:` says, and what it said before."""

    device: Device | None = None

    def __init__(self) -> None:
        self.before: list[Device | None] = []


_chosen = _Chosen()
_for_all: list[Device] = []
"""The device of `set_default_device`, if there is one."""


def default_device() -> Device:
    """The device that new tensors live on: that of `with device:`, of `set_default_device`, of the
    environment variable DEVICE, or 'cpu'."""
    if _chosen.device is not None:
        return _chosen.device
    if _for_all:
        return _for_all[0]
    return canonical(_DEVICE.text or "cpu") if _DEVICE.is_set() else _CPU


def set_default_device(device: str | None) -> None:
    """The device that new tensors live on from now on, in all threads; None is what the environment
    variable DEVICE says, or 'cpu'. DeviceError for names of no runtime."""
    _for_all[:] = [] if device is None else [canonical(device)]


def placed(device: str | None) -> Device:
    """The device that a `device=` argument names; None is the default."""
    return default_device() if device is None else canonical(device)


def has_values(device: str) -> bool:
    """Whether tensors on a device have values: not on 'meta'."""
    return device.partition(":")[0] not in WITHOUT_VALUES


def gpu(device: str | int | None) -> Device:
    """The NVIDIA GPU that is meant: the first for None, or that of a number or a name."""
    return canonical(device) if isinstance(device, str) else Device("cuda", device or 0)


def canonical(name: Any) -> Device:
    """'cpu' for 'CPU' and 'cpu:0'. DeviceError for names of no runtime."""
    if not isinstance(name, str):
        raise DeviceError(f"device={name!r:.60}: a device is given by name; use one of "
                          f"{', '.join(available())}")
    return _canonical(name)


@cache
def _canonical(name: str) -> Device:
    kind, _, index = name.strip().lower().partition(":")
    if kind not in (*BUILT_IN, *WITHOUT_VALUES) and kind not in available():
        raise DeviceError(f"there is no device {str(name)!r}. Expected one of "
                          f"{', '.join(available())} device types, which this installation has; "
                          f"another runtime is found once its package is installed (entry point "
                          f"group {ENTRY_POINT_GROUP!r})")
    if index.isdigit() and int(index) >= MOST:
        raise DeviceError(f"device {str(name)!r}: no machine has so many; the last of this kind "
                          f"is '{kind}:{MOST - 1}'")
    if index and not index.isdigit():
        number = runtime_class(kind).find(index)
        if number is None:
            raise DeviceError(f"device {str(name)!r}: what follows the colon is a number, as in "
                              f"'{kind}:0'")
        index = str(number)
    return str.__new__(Device, kind if not index or int(index) == 0 else f"{kind}:{int(index)}")


_CPU = canonical("cpu")
