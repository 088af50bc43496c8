"""How many examples a property test looks at, where 25 are too few or too many."""
from __future__ import annotations

from hypothesis import settings

QUICK = 25
"""Examples of a test that says nothing, unless a profile asks for more."""


def examples(count: int) -> settings:
    """`count` examples, or as many as the profile asks for if it is a thorough one."""
    asked = settings.default.max_examples if settings.default else QUICK
    return settings(max_examples=count if asked <= QUICK else max(count, asked))
