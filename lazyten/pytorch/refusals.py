"""Names of PyTorch that lazyten refuses: using one says why, and what to use instead.

They are there to be imported, as programs import at their top what they may never use.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from lazyten.support.errors import NotDefinedError


class Refused:
    """A class or function that is not there; NotDefinedError when it is called, or asked
    whether it is true. What is below it is refused as it is.

    name: PyTorch's, without `torch.`; reason: why it is not there, and what to use instead.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.__dict__.update(__name__=name.rpartition(".")[2], _name=name, __doc__=reason)

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotDefinedError(f"{self._name}: {self.__doc__}")

    __call__ = _refuse

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:
        """Classes may be made from it, of which there are no instances."""
        return (class_of_nothing(self.__name__, str(self.__doc__)),)

    def __instancecheck__(self, instance: object) -> bool:
        """False: there is nothing of it."""
        return False

    def __or__(self, other: Any) -> Any:
        """A type of annotations, which name it with others."""
        return Any

    __ror__ = __or__

    def __getitem__(self, parts: Any) -> Refused:
        """Itself, as annotations name it with parameters."""
        return self

    __bool__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks for these itself
            raise AttributeError(f"{self._name} has no {name}")
        return refusal(f"{self._name}.{name}", str(self.__doc__))

    def __repr__(self) -> str:
        return f"<refused: {self._name}>"


class _Nothings(type):
    """Of classes of nothing: no instances, and NotDefinedError where one is to be made."""

    why: str

    def __instancecheck__(cls, instance: object) -> bool:
        return False

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotDefinedError(f"{cls.__name__}: {cls.why}")


def class_of_nothing(name: str, reason: str) -> type:
    """A class that annotations, isinstance() and other classes may name, and of which there is
    nothing."""
    return _Nothings(name, (), {"__doc__": reason, "why": reason, "__module__": "lazyten"})


class AbsentType:
    """An element type of PyTorch's that no tensor has here, for programs that compare with it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"lazyten.{self.name}"


def unchanged(given: Any) -> Any:
    """What is given: a decorator that marks a function for what lazyten does without marks."""
    return given


def marking(*given: Any, **options: Any) -> Callable[[Any], Any]:
    """A decorator that marks a function, as `unchanged`, once it is given how."""
    return unchanged


def nothing(*given: Any, **options: Any) -> None:
    """None: what is asked for is not under way."""


def never(*given: Any, **options: Any) -> bool:
    """False: of what is asked about there is nothing."""
    return False


MARKS: dict[str, Callable[..., Any]] = {
    "fx.experimental.proxy_tensor.get_proxy_mode": nothing,
    "fx.experimental.proxy_tensor.is_tracing": never,
    "utils._python_dispatch.is_traceable_wrapper_subclass": never,
    "distributed.rpc.api._require_initialized": unchanged, "distributed.rpc.is_available": never,
    "distributed.autograd.is_available": never,
    "onnx.symbolic_helper.parse_args": marking, "utils.data.datapipes.functional_datapipe": marking}
"""Names beside others that are refused: what marks functions where programs define them, and what
says truly that nothing of it is under way."""


def refusal(name: str, reason: str) -> Any:
    """What stands for a name that is refused."""
    return MARKS.get(name) or Refused(name, reason)


def refused(module: str, reason: str, *names: str) -> dict[str, Refused]:
    """The names of a module, all refused for one reason."""
    return {name: Refused(f"{module}.{name}", reason) for name in names}
