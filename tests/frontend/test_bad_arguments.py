"""Every public function, called with what does not belong there: it works, or says what is wrong.

Nothing hangs, and nothing comes out but a LazytenError, or the TypeError that Python itself gives
for a wrong number of arguments. `bad_inputs` has what the messages say.
"""
from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from public_functions import arguments, functions, made, named

import lazyten as lt
from lazyten.frontend.recorded import mistakes

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


OUTSIDE = named("lt", """checkpoint from_dlpack grad jit load_decisions load_safetensors manual_seed
    save_safetensors seed set_default_device set_default_dtype set_num_threads set_printoptions
    set_anomaly_enabled set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled
    set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype autocast_decrement_nesting
    autocast_increment_nesting
    set_deterministic_debug_mode set_rng_state tune use_deterministic_algorithms vmap""")
"""What changes the state of the process, or has rows of its own."""

NAMES = sorted(set(functions()) - OUTSIDE)


def check(call: Callable[[], Any]) -> None:
    """Nothing but what is allowed comes out of a call. What it gives is not computed."""
    try:
        call()
    except lt.LazytenError:
        pass
    except TypeError as error:
        if not SIGNATURE.search(str(error)):
            raise


@pytest.mark.few(79)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_what_does_not_belong_there_is_an_error_of_lazytens(
        name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")
    monkeypatch.chdir(tmp_path)  # "x" is the name of a file, too
    function = functions()[name]
    given = arguments(name)
    good = None if given is None else [made(lt, x, "float32") for x in given]
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


def test_what_is_said_of_an_options_kind_goes_with_its_default() -> None:
    """A word of an annotation means one kind of values everywhere, or an option that was left out
    is blamed for the mistake of another."""
    rooms = (lt.fft, lt.linalg, lt.special, lt.masked, lt.signal.windows, lt.sparse)
    inside = {f"{room.__name__}.{name}": function for room in rooms
              for name, function in vars(room).items() if inspect.isfunction(function)}
    blamed = {f"{name}: {parameter.name}={parameter.default!r} of {parameter.annotation}"
              for name, function in (functions() | inside).items()
              for parameter in inspect.signature(inspect.unwrap(function)).parameters.values()
              if parameter.default is not parameter.empty
              and not mistakes.takes(parameter.annotation, parameter.default)}
    assert blamed == set()
