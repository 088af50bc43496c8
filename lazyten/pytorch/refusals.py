"""Names of PyTorch that lazyten refuses: using one says why, and what to use instead.

They are there to be imported, as programs import at their top what they may never use.
"""
from __future__ import annotations

from typing import Any, NoReturn


class Refused:
    """A class or function that is not there; NotImplementedError when it is called or looked into.

    name: PyTorch's, without `torch.`; reason: why it is not there, and what to use instead.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.__dict__.update(__name__=name.rpartition(".")[2], _name=name, __doc__=reason)

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{self._name}: {self.__doc__}")

    __call__ = __mro_entries__ = _refuse

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):  # Python asks for these itself
            raise AttributeError(f"{self._name} has no {name}")
        self._refuse()

    def __repr__(self) -> str:
        return f"<refused: {self._name}>"


class _Nothings(type):
    """Of classes of nothing: no instances, and NotImplementedError where one is to be made."""

    why: str

    def __instancecheck__(cls, instance: object) -> bool:
        return False

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(f"{cls.__name__}: {cls.why}")


def class_of_nothing(name: str, reason: str) -> type:
    """A class that annotations, isinstance() and other classes may name, and of which there is
    nothing."""
    return _Nothings(name, (), {"__doc__": reason, "why": reason, "__module__": "lazyten"})


def unchanged(given: Any) -> Any:
    """What is given: a decorator that marks a function for what lazyten does without marks."""
    return given


def refused(module: str, reason: str, *names: str) -> dict[str, Refused]:
    """The names of a module, all refused for one reason."""
    return {name: Refused(f"{module}.{name}", reason) for name in names}
