"""What is written of a program whose statements are forms with names of sorts in their holes."""
from __future__ import annotations

import random
from dataclasses import dataclass, field

from fuzz.program import Statement
from fuzz.rows import ROUGH


@dataclass
class Setting:
    """The names of a program so far, by letter: p any parameter, W b q those of a shape."""

    draw: random.Random
    statements: list[Statement] = field(default_factory=list)
    names: dict[str, list[str]] = field(default_factory=dict)
    observed: list[str] = field(default_factory=list)

    def filled(self, form: str) -> tuple[str, tuple[str, ...]] | None:
        """The form with places of operands in its holes, and the operands; None where there is no
        name of a sort."""
        operands: list[str] = []
        text = form.replace("{n}", self.draw.choice(("0.5", "-1.0", "2.0", "0.25", "1.5")))
        text = text.replace("{r}", self.draw.choice(("0.5", "0.0", "0.25", "0.125")))
        for letter in "WbqcpmofdhvsteEylA":
            hole = "{" + letter + "}"
            if hole not in text:
                continue
            if not self.names.get(letter):
                return None
            name = self.draw.choice(self.names[letter])
            if name not in operands:
                operands.append(name)
            text = text.replace(hole, f"{{{operands.index(name)}}}")
        return text, tuple(operands)

    def add(self, letter: str | None, form: str, row: str, exactness: str = ROUGH) -> str | None:
        made = self.filled(form)
        if made is None:
            return None
        target = f"{letter}{len(self.statements)}" if letter else None
        self.statements.append(Statement(target, *made, row, exactness))
        if letter and target:
            self.names.setdefault(letter, []).append(target)
        return target


def numbers(draw: random.Random, *shape: int) -> str:
    """Multiples of a quarter, as nested lists."""
    if not shape:
        return str(draw.randint(-8, 8) / 4)
    return "[" + ", ".join(numbers(draw, *shape[1:]) for _ in range(shape[0])) + "]"
