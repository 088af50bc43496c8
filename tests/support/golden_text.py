"""Golden files: texts kept in tests/golden/ that a test compares its output with."""
from __future__ import annotations

import difflib
from pathlib import Path


class Golden:
    """The expected text of one test: `assert text == golden`. With `update`, rewrites the file."""

    def __init__(self, path: Path, update: bool = False) -> None:
        self.path, self.update = path, update

    def __eq__(self, text: object) -> bool:
        if not isinstance(text, str):
            return NotImplemented
        if self.update:
            self.path.parent.mkdir(exist_ok=True)
            self.path.write_text(_with_newline(text), encoding="utf8")
            self.update = False  # a second comparison in one test checks the first
        return self.path.is_file() and _with_newline(text) == self._kept()

    __hash__ = None  # type: ignore[assignment]

    def explain(self, text: str) -> list[str]:
        """Lines for a failed assertion: what differs and what to do."""
        if not self.path.is_file():
            return [f"there is no {self.path}; look at the output below and, if it is right, "
                    "keep it with: pytest --update-golden", *text.splitlines()]
        diff = difflib.unified_diff(self._kept().splitlines(), text.splitlines(),
                                    "kept", "now", lineterm="")
        return [f"the output is not that of {self.path.name}; if the change is right, "
                "keep it with: pytest --update-golden", *diff]

    def _kept(self) -> str:
        return self.path.read_text(encoding="utf8")


def _with_newline(text: str) -> str:
    return text.rstrip("\n") + "\n"
