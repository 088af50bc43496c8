"""The examples of README.md and docs/ run, and print what the pages show (see doc_pages.py)."""
from __future__ import annotations

import difflib
from pathlib import Path

import onnx_if_there
import opencl_if_there
import pytest
from doc_pages import PageError, examples, normalize, run, same, updated

CHECKOUT = Path(__file__).parents[1]
PAGES = [CHECKOUT / "README.md", *sorted((CHECKOUT / "docs").rglob("*.md"))]
NEEDS = {"opencl.md": opencl_if_there.lacking, "onnx.md": onnx_if_there.lacking}


def check(page: Path, folder: Path, update: bool = False) -> None:
    text = page.read_text("utf8")
    found = examples(text)
    outputs = run(page, found, folder)
    if update:
        page.write_text(text := updated(text, found, outputs), encoding="utf8")
        found = examples(text)
    lines = text.split("\n")
    for example, printed in zip(found, outputs, strict=True):
        if example.lines is None:
            continue
        shown = "\n".join(lines[slice(*example.lines)])
        diff = difflib.unified_diff(normalize(shown), normalize(printed), "shown", "printed",
                                    lineterm="")
        assert same(shown, printed), (
            f"{page.name}:{example.line + 1} prints something else; if it is right, put it in "
            "with: pytest --update-golden tests/test_docs.py\n" + "\n".join(diff))


LONG = frozenset({
    "debug", "distributions", "shapes", "jit", "opencl", "tuning", "functional", "distributed",
    "quantization", "layers", "mixed_precision", "deploying", "transforms", "onnx"})
"""Pages whose examples take long: a net is trained, or others' libraries are loaded."""


@pytest.mark.parametrize("page", [pytest.param(p, marks=(pytest.mark.slow,)) if p.stem in LONG
                                  else p for p in PAGES], ids=lambda p: p.name)
def test_examples_print_what_the_page_shows(page: Path, tmp_path: Path,
                                            pytestconfig: pytest.Config) -> None:
    lacking = NEEDS.get(page.name)
    reason = None if lacking is None else lacking()
    if reason is not None:
        pytest.skip(reason)
    check(page, tmp_path, pytestconfig.getoption("--update-golden"))


# ---- the checker itself --------------------------------------------------------------------------

PAGE = """\
<!-- environment: COLOR=blue -->
```python
import os, sys
x = 2
```
The blocks share names:
```python
print(os.environ["COLOR"], x + 1)
print("0.25 ms", file=sys.stderr)
print(sys._getframe().f_lineno)
```
```text
blue 3
17 ms
10
```
```python file=small.py
import sys
print("hello", *sys.argv[1:])
```
```console
$ TIMES=2 python small.py you
hello you
$ python - <<END
> print("a", "b", "c", sep="\\n")
> END
a
...
c
```
```sh
this is not run
```
"""


def page_of(text: str, tmp_path: Path) -> Path:
    page = tmp_path / "page.md"
    page.write_text(text)
    (tmp_path / "run").mkdir()
    return page


def test_a_page_that_shows_what_it_prints_passes(tmp_path: Path) -> None:
    check(page_of(PAGE, tmp_path), tmp_path / "run")


@pytest.mark.parametrize(("right", "wrong"), [
    ("blue 3", "blue 4"), ("17 ms", "17 MB"), ("hello you", "hello"), ("...\nc\n", "...\nd\n")])
def test_a_page_that_shows_something_else_fails(right: str, wrong: str, tmp_path: Path) -> None:
    page = page_of(PAGE.replace(right, wrong), tmp_path)
    with pytest.raises(AssertionError, match="prints something else"):
        check(page, tmp_path / "run")


def test_updating_rewrites_only_what_differs(tmp_path: Path) -> None:
    page = page_of(PAGE.replace("hello you", "hello\nthere"), tmp_path)
    check(page, tmp_path / "run", update=True)
    assert page.read_text() == PAGE


@pytest.mark.parametrize(("code", "message"), [
    ("```python\n1 / 0\n```", "page.md:2.*ZeroDivisionError"),
    ("```console\n$ false\n```", "page.md:2"),
    ("```python\n", "never closed"),
    ("```text\noutput of nothing\n```", "not the output"),
    ("```console\nno command\n```", "starts with"),
])
def test_a_page_that_cannot_run_says_where(code: str, message: str, tmp_path: Path) -> None:
    page = page_of(code, tmp_path)
    with pytest.raises(PageError, match=f"(?s){message}"):
        check(page, tmp_path / "run")


def test_columns_headed_by_a_unit_are_not_compared() -> None:
    shown = "kernel  shape      us  GB/s  where\nsum     (4, 4)    1.5  12.0  a.py:3"
    assert same(shown, shown.replace("1.5", "9.7").replace("12.0", " 3.1"))
    assert not same(shown, shown.replace("a.py:3", "a.py:4"))
    assert not same(shown, shown.replace("(4, 4)", "(4, 5)"))
