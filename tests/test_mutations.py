"""The list of mistakes that tests/mutate.py makes: each can still be made."""
from __future__ import annotations

from collections import Counter

import pytest
from mutate import CHECKOUT, Mutation, Outcome, mutations

ROWS = mutations()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.file}: {row.breaks}")
def test_a_mutation_applies_once_and_leaves_python(row: Mutation) -> None:
    """A row whose code has changed is written anew, for another mistake of the kind."""
    text = (CHECKOUT / row.file).read_text(encoding="utf8")
    changed = row.applied(text)
    assert changed != text
    compile(changed, row.file, "exec")
    files = [word for word in row.tests.split() if word.endswith(".py")]
    assert files and all(any((CHECKOUT / "tests").rglob(name)) for name in files)


def test_no_mutation_is_listed_twice() -> None:
    assert max(Counter((row.file, row.old, row.new) for row in ROWS).values()) == 1


def test_text_that_is_there_twice_or_not_at_all_is_an_error() -> None:
    row = Mutation("lazyten/a.py", "a is lost", "a", "b", "test_a.py")
    assert row.applied("x = a") == "x = b"
    for text in ("x = a + a", "x = c"):
        with pytest.raises(ValueError, match=r"lazyten/a.py: 'a' occurs \d times, not once"):
            row.applied(text)


@pytest.mark.parametrize(("kind", "hangs", "counts"), [
    ("caught", False, True), ("crashed", False, True), ("survived", False, False),
    ("broken", False, False), ("hung", False, False), ("hung", True, True)])
def test_a_hang_counts_only_where_it_is_meant(kind: str, hangs: bool, counts: bool) -> None:
    row = Mutation("lazyten/a.py", "a is lost", "a", "b", "test_a.py", hangs)
    assert Outcome(kind).counts(row) is counts
