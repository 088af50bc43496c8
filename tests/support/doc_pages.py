"""Runs the examples of a Markdown page and compares what they print with what the page shows.

Fences of a page, run from top to bottom in one fresh process and an empty working directory:

    ```python             run; all such blocks of a page share one namespace
    ```python file=NAME   saved as NAME in the working directory, not run
    ```text               what the python block above printed (stdout and stderr)
    ```console            `$ command` lines with the output of each below it, run by a shell
                          (`> ` continues a command)

A line `<!-- environment: DEBUG=2 -->` in a page sets variables for all of it. What a page shows is
what LAZYTEN_TARGET=x86-64-v3 gives, so that it does not depend on the machine. Diagrams and shell
lines to be typed by a reader go into plain or ```sh fences, which are not looked at.

Two outputs are the same if they differ only in white space and in measurements: numbers with a
unit of UNITS, or numbers under a column header that is such a unit or %. A line `...` in a page
stands for any lines.
"""
from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

UNITS = ("ns", "us", "µs", "ms", "s", "GFLOP/s", "GB/s", "MB/s", "images/s", "it/s")
_UNIT = "|".join(re.escape(u) for u in UNITS)
_NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
_MEASURED = re.compile(rf"(?<![\w.]){_NUMBER} ?({_UNIT})(?![\w/])")
_HEADER = re.compile(rf"(?<![\w/])(?:{_UNIT}|%)(?![\w/])")
_ENVIRONMENT = re.compile(r"<!-- environment: (.*?) -->")
TIMEOUT = 120
TARGET = "x86-64-v3"


@dataclass(frozen=True, slots=True)
class Example:
    """Something a page runs. `lines` are where its output is shown: [start, stop), from 0.

    kind: 'python', 'file' (code saved as `name`) or 'console'. line: where the code starts, from 0.
    """

    kind: str
    code: str
    line: int
    name: str = ""
    lines: tuple[int, int] | None = None


class PageError(Exception):
    """A page that cannot be run as written."""


# ---- reading a page ------------------------------------------------------------------------------

def fences(text: str) -> Iterator[tuple[str, int, int]]:
    """Info string and lines [start, stop) of the contents of every fence."""
    opened: tuple[str, str, int] | None = None
    for number, line in enumerate(text.split("\n")):
        match = re.match(r"(`{3,})(.*)", line)
        if match is None:
            continue
        if opened is None:
            opened = match[1], match[2].strip(), number + 1
        elif match[1] == opened[0] and not match[2].strip():
            yield opened[1], opened[2], number
            opened = None
    if opened is not None:
        raise PageError(f"line {opened[2]}: this fence is never closed")


def examples(text: str) -> list[Example]:
    """What a page runs, in order."""
    lines = text.split("\n")
    found: list[Example] = []
    for info, start, stop in fences(text):
        language, _, option = info.partition(" ")
        code = "\n".join(lines[start:stop])
        if language == "python" and option.startswith("file="):
            found.append(Example("file", code, start, option.removeprefix("file=")))
        elif language == "python" and not option:
            found.append(Example("python", code, start))
        elif language == "text" and found and found[-1].kind == "python" and not found[-1].lines:
            found[-1] = replace(found[-1], lines=(start, stop))
        elif language == "console":
            found.extend(_commands(lines, start, stop))
        elif language in ("python", "text"):
            raise PageError(f"line {start}: ```{info} is not the output of a python block above "
                            "it, nor code this checker knows (see tests/support/doc_pages.py)")
    return found


def _commands(lines: list[str], start: int, stop: int) -> Iterator[Example]:
    begins = [i for i in range(start, stop) if lines[i].startswith("$ ")]
    if begins[:1] != [start]:
        raise PageError(f"line {start}: a console block starts with a `$ command` line")
    for begin, end in zip(begins, [*begins[1:], stop], strict=True):
        output = begin + 1
        while output < end and lines[output].startswith("> "):
            output += 1
        code = "\n".join(line[2:] for line in lines[begin:output])
        yield Example("console", code, begin, lines=(output, end))


# ---- running it ----------------------------------------------------------------------------------

def run(page: Path, found: list[Example], folder: Path) -> list[str]:
    """What each example printed. Raises PageError if one fails."""
    environment = {k: v for k, v in os.environ.items() if k not in ("DEBUG", "DEVICE")}
    environment["LAZYTEN_TARGET"] = TARGET
    environment |= dict(p.split("=", 1) for m in _ENVIRONMENT.finditer(page.read_text("utf8"))
                        for p in m[1].split())
    environment["PYTHONUNBUFFERED"] = "1"  # both streams in the order of their writes
    environment["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    job = [str(page), [(e.kind, e.code, e.line, e.name) for e in found]]
    (folder / "work").mkdir()
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, __file__, str(folder)], input=json.dumps(job), text=True,
                       cwd=folder / "work", env=environment, timeout=TIMEOUT, check=False)
    outputs = [(folder / f"{i}.out").read_text("utf8") for i in range(len(found))
               if (folder / f"{i}.out").is_file()]
    if not (folder / "done").is_file():
        where = f"{page.name}:{found[len(outputs) - 1].line + 1}"
        raise PageError(f"{where}: this example failed or took over {TIMEOUT} s:\n{outputs[-1]}")
    return outputs


def _run_all(folder: Path) -> None:
    """In the page's own process: run the examples, each with its output in a file."""
    page, found = json.load(sys.stdin)
    namespace = {"__name__": "__main__", "__file__": page}
    sys.path[0] = ""  # the working directory, as for a script that lies there
    for number, (kind, code, line, name) in enumerate(found):
        with open(folder / f"{number}.out", "wb") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        if kind == "file":
            Path(name).write_text(code + "\n", encoding="utf8")
        elif kind == "console":
            subprocess.run(["bash", "-euo", "pipefail", "-c", code], check=True)
        else:  # blank lines before it make line numbers those of the page
            exec(compile("\n" * line + code, page, "exec"), namespace)
        sys.stdout.flush()
        sys.stderr.flush()
    (folder / "done").touch()


# ---- comparing -----------------------------------------------------------------------------------

def normalize(text: str) -> list[str]:
    """The lines of an output with measurements and white space made equal, blank lines dropped."""
    lines = []
    columns: list[tuple[int, int]] = []
    for line in text.expandtabs().split("\n"):
        header = [m.span() for m in _HEADER.finditer(line)]
        if len(header) > 1:
            columns = header
        elif columns:
            line = _mask_columns(line, columns)
        lines.append(" ".join(_MEASURED.sub(r"# \1", line).split()))
    return [line for line in lines if line]


def _mask_columns(line: str, columns: list[tuple[int, int]]) -> str:
    """A row of a table without the numbers that stand under a unit; other lines as they are."""
    numbers = [m.span() for m in re.finditer(rf"(?<!\S){_NUMBER}(?!\S)", line)]
    under = [next((n for n in numbers if n[0] < stop and start < n[1]), None)
             for start, stop in columns]
    if None in under:
        return line
    for start, stop in sorted({n for n in under if n}, reverse=True):
        line = f"{line[:start]}#{line[stop:]}"
    return line


def same(shown: str, printed: str) -> bool:
    """Whether a page's output is what was printed, but for measurements and `...` lines."""
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n"
                      for line in normalize(shown))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in normalize(printed))) is not None


def updated(text: str, found: list[Example], outputs: list[str]) -> str:
    """The page with the outputs that are not the same replaced by what was printed."""
    lines = text.split("\n")
    for example, output in reversed(list(zip(found, outputs, strict=True))):
        if example.lines and not same("\n".join(lines[slice(*example.lines)]), output):
            lines[slice(*example.lines)] = output.rstrip("\n").split("\n") if output else []
    return "\n".join(lines)


if __name__ == "__main__":
    _run_all(Path(sys.argv[1]))
