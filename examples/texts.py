"""Texts with labels, and the words that they are made of.

In: a file or a folder that the user names, or the standard library of the Python that runs. Out:
texts, the number of each one's class, and the classes' names. Called by text_classifier.py.

Python comes with real English text and with a real label for it: each docstring of its library, and
the package that the docstring is from.
"""
from __future__ import annotations

import ast
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from options import DataError

PACKAGES = ("asyncio", "email", "importlib", "logging", "unittest", "xml")
FEWEST_WORDS = 4  # "Return True." says nothing about where it is from
FEWEST_TEXTS = 5  # of a class, so that one is held out
PADDING, UNKNOWN = 0, 1  # words of these numbers are in no text
WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|[0-9]+|[!?.]")
FORM = "one text a line, its label before it: `positive<TAB>what a film`"


@dataclass(frozen=True)
class Texts:
    """Texts, the number of the class of each (n,), and the name of each class."""

    texts: Sequence[str]
    labels: NDArray[np.int64]
    classes: Sequence[str]


def load_embedded() -> Texts:
    """Python's own docstrings, each once; the class is the package."""
    library = Path(sysconfig.get_paths()["stdlib"])
    pairs: dict[str, str] = {}
    shared = set()
    for package in PACKAGES:
        for path in sorted((library / package).rglob("*.py")):
            for text in _docstrings(path):
                if pairs.setdefault(text, package) != package:
                    shared.add(text)  # copied between packages: it has no one label
    found = [(label, text) for text, label in pairs.items() if text not in shared]
    return _labelled(found, str(library))


def load(path: Path) -> Texts:
    """A file of lines `label<TAB>text`, or a folder with a folder of .txt files for each label.

    Raises DataError if the path is not there, is not that, or has fewer than two classes.
    """
    if path.is_dir():
        pairs = [(file.parent.name, _read(file)) for file in sorted(path.glob("*/*.txt"))]
        if not pairs:
            raise DataError(f"{path}: no .txt file in its folders: expected a folder for each "
                            f"label, with a file for each text, or a file with {FORM}")
    else:
        pairs = list(_lines(path))
    return _labelled(pairs, str(path))


def words(text: str) -> list[str]:
    """Words in lower case, numbers, and the marks that end a sentence."""
    return WORD.findall(text.lower())


def vocabulary(texts: Sequence[str], most: int, fewest: int = 2) -> dict[str, int]:
    """Numbers from 2 on for words that occur `fewest` times or more, at most `most` of them."""
    counts = Counter(word for text in texts for word in words(text))
    common = [word for word, count in counts.most_common(most) if count >= fewest]
    return {word: number for number, word in enumerate(common, UNKNOWN + 1)}


def encode(texts: Sequence[str], numbers: dict[str, int], length: int) -> NDArray[np.int64]:
    """(n, length): the numbers of each text's first words, then PADDING."""
    encoded = np.full((len(texts), length), PADDING, np.int64)
    for row, text in zip(encoded, texts, strict=True):
        found = [numbers.get(word, UNKNOWN) for word in words(text)[:length]]
        row[:len(found)] = found
    return encoded


def _labelled(pairs: Sequence[tuple[str, str]], where: str) -> Texts:
    counts = Counter(label for label, _ in pairs)
    if len(counts) < 2:
        raise DataError(f"{where}: expected two labels or more, found "
                        f"{', '.join(map(repr, counts)) or 'none'}: {FORM}")
    rare = [label for label, count in counts.items() if count < FEWEST_TEXTS]
    if rare:
        raise DataError(f"{where}: {len(rare)} of {len(counts)} labels have fewer than "
                        f"{FEWEST_TEXTS} texts, {rare[0][:40]!r} for one: {FORM}")
    classes = sorted(counts)
    labels = np.array([classes.index(label) for label, _ in pairs], np.int64)
    return Texts([text for _, text in pairs], labels, classes)


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(_read(path).splitlines(), 1):
        label, tab, text = line.partition("\t")
        if not (tab and label.strip() and text.strip()):
            if not line.strip():
                continue
            raise DataError(f"{path}: line {number}: expected a label, a tab and a text, found "
                            f"{line[:40]!r}: {FORM}")
        yield label.strip(), text


def _read(path: Path) -> str:
    try:
        return path.read_text("utf8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected text in UTF-8, found the byte "
                        f"{error.object[error.start]:#x} at {error.start}: convert it") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}: name a file with "
                        f"{FORM}") from error


def _docstrings(path: Path) -> Iterator[str]:
    """The docstrings of a few words or more in a file of Python's library."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            if len(words(text)) >= FEWEST_WORDS:
                yield text
