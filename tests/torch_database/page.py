"""docs/coverage.md, from the names of PyTorch's entries and what is known of them."""
from __future__ import annotations

from collections import Counter
from pathlib import Path

import torch

from torch_database.unsupported import REASONS, why_not
from torch_database.variants import variants

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"

HEAD = """\
# How much of PyTorch is there

PyTorch's own tests keep a database of operators: for each form of each function inputs of many
shapes and options. `make coverage` calls lazyten's function of the same name with them, compares
outputs and the gradients of all inputs with PyTorch's, in float32 where a function takes it, and
writes this page. It takes six samples of each form; what is not right here was found with 200, by
`make coverage ARGS="--samples 200"`. `ARGS="add cumsum"` compares only some forms. It needs PyTorch
{version} and the package expecttest.

Of {total} forms {right} are right in outputs and gradients. {inside} of the {total} need nothing
sparse, nor the complex numbers that lazyten lacks, and are no internals of PyTorch. With
`ARGS="--dtype complex64"` forms that take complex numbers are compared with these: what lazyten has
not for them it refuses, and what it gives is right.

| reason | forms | |
|---|---|---|
"""


def page() -> str:
    """The page's text."""
    known, lacking = variants(), why_not()
    counts = Counter(lacking.values())
    outside = sum(counts[word] for word in ("complex", "sparse", "internal"))
    text = HEAD.format(version=torch.__version__.partition("+")[0], total=len(known),
                       right=len(known) - len(lacking), inside=len(known) - outside)
    text += "".join(f"| {word} | {counts[word]} | {meaning} |\n"
                    for word, (meaning, _) in REASONS.items())
    text += "\n| form | outputs | gradients | why not |\n|---|---|---|---|\n"
    return text + "".join(_row(name, entry.supports_autograd, lacking.get(name))
                          for name, entry in sorted(known.items()))


def _row(name: str, differentiable: bool, why: str | None) -> str:
    if why is not None:
        return f"| {name} | – | – | {why} |\n"
    return f"| {name} | right | {'right' if differentiable else 'has none'} | |\n"
