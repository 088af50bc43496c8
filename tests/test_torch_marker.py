"""What is skipped without PyTorch has the marker `torch`, by which `make test-torch` finds it."""
from __future__ import annotations

import ast
from pathlib import Path

import pytest

FILES = sorted(set(Path(__file__).parent.rglob("test_*.py")) - {Path(__file__)})
MARK, SKIP = "pytest.mark.torch", "pytest.importorskip('torch"


def unmarked(source: str) -> list[str]:
    """Tests that are skipped without PyTorch, by name, and `` for a whole file of such."""
    tree = ast.parse(source)
    whole = any(isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "pytestmark"
                and MARK in map(ast.unparse, ast.walk(s.value)) for s in tree.body)
    found = []
    for statement in () if whole else tree.body:
        decorated = isinstance(statement, ast.FunctionDef)
        marks = map(ast.unparse, statement.decorator_list) if decorated else ()
        if SKIP in ast.unparse(statement) and MARK not in marks:
            found.append(statement.name if decorated else "")
    return found


@pytest.mark.few(91)
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_tests_that_need_pytorch_have_its_marker(file: Path) -> None:
    assert unmarked(file.read_text("utf8")) == []


def test_a_file_and_a_test_without_the_marker_are_found() -> None:
    skip = "torch = pytest.importorskip(\"torch\")"
    assert unmarked(skip) == [""]
    assert unmarked(f"{skip}\npytestmark = pytest.mark.torch") == []
    assert unmarked(f"{skip}\npytestmark = [pytest.mark.torch, pytest.mark.slow]") == []
    assert unmarked(f"{skip}\npytestmark = [pytest.mark.slow]") == [""]
    test = f"def test_a():\n    {skip}"
    assert unmarked(test) == ["test_a"]
    assert unmarked(f"@pytest.mark.torch\n{test}") == []
