"""Every setting is in the record, on its page, and in the keys of what depends on it."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

import lazyten as lt
from lazyten.execution.plans.plan import Options
from lazyten.frontend.setting_table import SETTINGS, Setting, trace_key
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Kernel, structure
from lazyten.ir.node import const
from lazyten.storage.device import executor

ROOT = Path(__file__).parents[2]
OF_OTHERS = {"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "CC", "TORCH_HOME", "LOCAL_WORLD_SIZE"}
"""Variables of other programs' that are looked at."""
CHANGE_NOTHING = {"set_autocast_cache_enabled", "set_flush_denormal", "set_num_interop_threads",
                  "set_rng_state", "set_deterministic_debug_mode", "set_warn_always"}
"""Setters of what is no setting: generators have states, and nothing here is not deterministic."""


@contextmanager
def set_and_back(setter: Callable[[str], None], value: str, before: str) -> Iterator[None]:
    setter(value)
    try:
        yield
    finally:
        setter(before)


OTHERWISE: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "DEVICE": lambda: lt.device("interpreter"),
    "set_default_dtype": lambda: set_and_back(lt.set_default_dtype, "float64", "float32"),
    "no_grad": lt.no_grad,
    "autocast": lambda: lt.autocast("cpu"),
    "set_float32_matmul_precision": lambda: set_and_back(lt.set_float32_matmul_precision, "high",
                                                         "highest"),
    "CHECK": lambda: lt.check("nan"),
}
"""Blocks in which a setting is not what it was."""
traced = pytest.mark.parametrize("setting", [s for s in SETTINGS if s.now is not None],
                                 ids=lambda s: s.names[0])


def test_every_variable_and_setter_is_in_the_record() -> None:
    sources = "\n".join(path.read_text("utf8") for room in ("lazyten", "codegen", "runtimes")
                        for path in (ROOT / room).rglob("*.py"))
    read = re.findall(r'(?:environ(?:\.get)?[(\[]|EnvVar\(|^(?:VARIABLE|FIRST)\w* = )\(?'
                      r'"([A-Z_]+)"', sources, re.MULTILINE)
    listed = re.search(r"map\(EnvVar, \(([^)]*)\)", sources)
    assert listed is not None
    variables = {*read, *re.findall(r"[A-Z_]+", listed[1])} - OF_OTHERS
    names = [name for setting in SETTINGS for name in setting.names]
    assert {name for name in names if name.isupper()} == variables
    assert {n for n in dir(lt) if n.startswith("set_")} - CHANGE_NOTHING <= set(names)
    assert all(name.isupper() or hasattr(lt, name) for name in names)
    assert len(set(names)) == len(names)


def row(setting: Setting) -> str:
    names = ", ".join(f"`{name}`" for name in setting.names)
    anew = ("captured calls, plans" if setting.planned else "captured calls") if setting.now else ""
    return f"| {names} | {setting.about} | {anew} |"


def test_the_page_on_settings_has_them_all() -> None:
    page = (ROOT / "docs" / "settings.md").read_text("utf8")
    assert page.split("|---|---|---|\n")[1].splitlines() == list(map(row, SETTINGS))


@traced
def test_a_trace_is_kept_for_the_settings_that_it_depends_on(setting: Setting) -> None:
    f = lt.jit(lambda x: x + 1)
    x, before = lt.ones(3, device="cpu"), trace_key()
    f(x)
    with OTHERWISE[setting.names[0]]():
        assert trace_key() != before
        f(x)
        assert f.cache_size == 2
    f(x)
    assert trace_key() == before and f.cache_size == 2


@traced
def test_a_plan_and_its_kernels_depend_on_what_the_record_says(
        setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(executor("cpu")), "has_tf32", True)
    kernel = Kernel("k", (const(1, dt.float32, (3,)),), ())
    before = Options.now("cpu")
    with OTHERWISE[setting.names[0]]():
        now = Options.now("cpu")
    assert (now != before) is setting.planned
    assert (structure(now.applied(kernel)) != structure(before.applied(kernel))) is setting.planned
