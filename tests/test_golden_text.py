from __future__ import annotations

from pathlib import Path

from golden_text import Golden

GOLDEN = Path(__file__).parent / "golden"


def test_a_golden_file_equals_only_its_own_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    golden = Golden(tmp_path / "a.txt")
    assert "one\ntwo" == golden
    assert "one\nthree" != golden
    assert "-two" in golden.explain("one\nthree") and "+three" in golden.explain("one\nthree")


def test_a_missing_golden_file_fails_and_says_how_to_make_it(tmp_path: Path) -> None:
    golden = Golden(tmp_path / "a.txt")
    assert "one" != golden
    assert "--update-golden" in golden.explain("one")[0]


def test_updating_writes_the_file_once(tmp_path: Path) -> None:
    golden = Golden(tmp_path / "new" / "a.txt", update=True)
    assert "one" == golden
    assert "two" != golden
    assert (tmp_path / "new" / "a.txt").read_text() == "one\n"


def test_every_golden_file_belongs_to_a_test() -> None:
    tests = "".join(p.read_text() for p in GOLDEN.parent.rglob("test_*.py"))
    unused = [p.name for p in sorted(GOLDEN.glob("*.txt"))
              if f"def {p.stem.partition('-')[0]}(" not in tests]
    assert unused == []
