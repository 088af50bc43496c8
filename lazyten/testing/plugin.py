"""The pytest plugin: takes part only in runs of the conformance kit.

pytest loads it in every run (entry point group `pytest11`), so it does next to nothing there, and
has no option whose name another plugin might want.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

KIT = "lazyten.testing.conformance"


def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Where the kit is among what is to be run, its options and hooks take part."""
    if any(argument.startswith(KIT) for argument in args):
        from lazyten.testing import kit
        early_config.pluginmanager.register(kit, kit.__name__)
