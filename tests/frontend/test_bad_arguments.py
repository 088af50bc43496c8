"""Every public function, called with what does not belong there: it works, or says what is wrong.

Nothing hangs, and nothing comes out but a LazytenError, or the TypeError that Python itself gives
for a wrong number of arguments. `bad_inputs.py` has what the messages say.
"""
from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lazyten as lt
from lazyten.nn import functional as F

SIGNATURE = re.compile(r"(positional|keyword|multiple values|required).*argument|"
                       r"argument.*(positional|keyword)")
"""What Python says of a call that does not fit a function's parameters."""


class Nothing:
    """An object that is no number, no sequence and no tensor."""


def bad_values() -> list[Any]:
    """What belongs nowhere."""
    with open(__file__, encoding="utf8") as closed:
        pass
    endless: list[Any] = []
    endless.append(endless)
    return [None, "x", b"ab", {"a": 1}, closed, endless, 1.5, float("nan"), 10**30, -10**30,
            Nothing(), (n for n in (1, 2)), {1, 2}, lt.tensor([1.0, 2.0])]


def usual_arguments() -> Iterator[tuple[Any, ...]]:
    """Arguments of which some fit most functions: those with more come first."""
    f, m, v = lt.arange(6.0).reshape(2, 3) / 7, lt.eye(3), lt.arange(3.0)
    at, one, image = lt.tensor([[0, 1, 1], [1, 0, 1]]), lt.tensor([0, 1]), lt.ones(1, 2, 4, 4)
    yield from [(f, 0, at, f), (f, 1, one, f[:, :2]), (image, v[:2], v[:2]), (f, m, v), (v, m, v),
                (f, f > 0, 1.0), (f > 0, f, f), (f, f, f), (f, 0, at), (f, 1, one), (f, 0, 1),
                (f, 1, 1), ("ij,jk->ik", m, m), (0, 1, 5), (image, lt.ones(3, 2, 2, 2)),
                (lt.ones(1, 2, 8), lt.ones(3, 2, 2)), (image, (2, 2)), (image, 2), (f, f), (v, v),
                (m, m), (f, one), (at, at), (f, f > 0), (f, (2, 3)), (f, (0, 1)), (f, 1), (f, 2),
                ((2, 3), 1.0), (2, 3), (lt.float32, lt.int8), (at,), (image,), ([f, f],), ([v],),
                (f,), (m,), (v,), (5,), ((2, 3),), (lt.float32,)]


OUTSIDE = {"checkpoint", "from_dlpack", "grad", "jit", "load_decisions", "load_safetensors",
           "manual_seed", "save_safetensors", "seed", "set_default_device", "set_default_dtype",
           "set_num_threads", "set_printoptions", "set_rng_state", "tune",
           "use_deterministic_algorithms", "vmap", "_takes_tensors"}
"""What changes the state of the process, or has rows of its own."""


def functions() -> dict[str, Callable[..., Any]]:
    """The public functions by name, and tensors' methods."""
    found = {f"lt.{n}": getattr(lt, n) for n in lt.__all__ if n not in OUTSIDE}
    found |= {f"F.{n}": getattr(F, n) for n in F.__all__}
    found |= {f"Tensor.{n}": getattr(lt.Tensor, n) for n in dir(lt.Tensor) if not n.startswith("_")
              and f"lt.{n}" not in found}
    return {name: f for name, f in found.items() if inspect.isfunction(f)}


def fits(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bool:
    """Whether a call works."""
    try:
        function(*arguments)
    except (lt.LazytenError, TypeError, AttributeError, ValueError):
        return False
    return True


def check(call: Callable[[], Any]) -> None:
    """Nothing but what is allowed comes out of a call. What it gives is not computed."""
    try:
        call()
    except lt.LazytenError:
        pass
    except TypeError as error:
        if not SIGNATURE.search(str(error)):
            raise


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", functions())
def test_what_does_not_belong_there_is_an_error_of_lazytens(
        name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")
    function = functions()[name]
    good = next((a for a in usual_arguments() if fits(function, a)), None)
    names = [p.name for p in inspect.signature(function).parameters.values()
             if p.default is not p.empty]
    for bad in bad_values():
        if not name.startswith("Tensor."):
            check(lambda bad=bad: function(bad))
        if good is None:
            check(lambda bad=bad: function(lt.ones(2, 3), bad))
            continue
        for place in range(name.startswith("Tensor."), len(good) + 1):
            check(lambda bad=bad, at=place: function(*good[:at], bad, *good[at + 1:]))
        for option in names[-3:]:
            check(lambda bad=bad, option=option: function(*good[:2], **{option: bad}))
