"""Mutation testing: breaks lazyten on purpose, one small change at a time, and sees what fails.

In: tests/mutations.txt, a list of changes that a tired programmer could make, each with the tests
that are run first. Out: for each whether it was caught, by which test, and the score. The tree is
copied, and only copies are changed. `make mutants ARGS=...` runs it:

    make mutants ARGS="--only ranges.py"      those whose file or words have this in them
    make mutants ARGS="--whole --jobs 2"      where the first tests see nothing, all others
    make mutants ARGS="--again survived"      these once more; other results are kept

Results are kept in .mutants.jsonl, so a run may be stopped and goes on where it was. A change
of the list or the tests needs no more than `--again`.

It is a plugin of pytest, too: in a mutated copy it notes the first test that fails.
"""
from __future__ import annotations

import argparse
import json
import os
import queue
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("mutations.txt")
RESULTS = CHECKOUT / ".mutants.jsonl"
SECONDS = 600.0
"""A run of tests that takes longer hangs."""
WHOLE_SECONDS = 7200.0
MOST_BYTES = 12 << 30
"""Of memory that tests may ask for: a mistake may ask for all there is."""
REPORT = "LAZYTEN_MUTANT_REPORT"
"""The environment variable that tells the plugin where to note a failure."""
PACKAGES = {"lazyten": "lazyten", "lazyten.codegen": "codegen", "lazyten.runtimes": "runtimes"}


@dataclass(frozen=True, slots=True)
class Mutation:
    """In `file`, `new` in the place of `old`, which occurs once. breaks: in words, what is wrong
    then. tests: files of tests/ and options, run first. hangs: it is caught by a hang."""

    file: str
    breaks: str
    old: str
    new: str
    tests: str
    hangs: bool = False

    def applied(self, text: str) -> str:
        """The file's text with the mistake in it. ValueError unless `old` is there once."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.file}: {self.old!r} occurs {count} times, not once; the code "
                             f"has changed: write this mutation anew, or another in its place")
        return text.replace(self.old, self.new)

    @property
    def key(self) -> str:
        """What its result is kept under."""
        return "\n".join((self.file, self.old, self.new, self.tests))


@dataclass(frozen=True, slots=True)
class Outcome:
    """kind: 'caught' by a failing test, 'crashed' the tests' process, 'hung' it, 'survived';
    'broken': not even imported, so that any test would have seen it; 'unsound': what fails does so
    without the mistake, too. test, error: of the failure."""

    kind: str
    test: str = ""
    error: str = ""
    seconds: float = 0.0

    def counts(self, mutation: Mutation) -> bool:
        """Whether the suite has seen the mistake, and not just choked on it."""
        return self.kind in ("caught", "crashed") or self.kind == "hung" and mutation.hangs


def mutations(path: Path = LIST) -> list[Mutation]:
    """The rows of the list."""
    found = []
    for block in path.read_text(encoding="utf8").split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            found.append(_mutation(lines))
    return found


def _mutation(lines: Sequence[str]) -> Mutation:
    """`file: what it breaks`, `- old`, `+ new`, `? tests`, and `! hangs` where that is meant."""
    file, _, breaks = lines[0].partition(": ")
    parts = {line[0]: line[2:] for line in lines[1:]}
    if not {"-", "+", "?"} <= parts.keys() <= {"-", "+", "?", "!"}:
        raise ValueError(f"{lines[0]}: after it come a line '- old', '+ new' and '? tests'")
    return Mutation(file, breaks, parts["-"], parts["+"], parts["?"], "!" in parts)


# ---- in the copy: a plugin of pytest -------------------------------------------------------------

def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the first failure."""
    path = os.environ.get(REPORT)
    if path and report.failed and not os.path.getsize(path):
        crash = getattr(report.longrepr, "reprcrash", None)
        message = crash.message if crash is not None else str(report.longrepr)
        Path(path).write_text(json.dumps([report.nodeid, message]), encoding="utf8")


# ---- a copy of the tree --------------------------------------------------------------------------

FINDER = '''"""Imports the packages of this copy, whatever is installed."""
import sys
from importlib.util import spec_from_file_location

FOLDERS = {folders!r}


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        folder = FOLDERS.get(name)
        return folder and spec_from_file_location(
            name, folder + "/__init__.py", submodule_search_locations=[folder])


sys.meta_path.insert(0, Finder)
'''


class Copy:
    """A copy of the tree in a folder of its own, in which tests run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.report = folder, folder / ".copy" / "report"
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=CHECKOUT,
                                check=True, capture_output=True, text=True).stdout.splitlines()
        for name in listed:
            if (CHECKOUT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(CHECKOUT / name, folder / name)
        # This tree is installed in editable mode: what is imported must be the copy's all the same.
        (folder / ".copy").mkdir()
        folders = {name: str(folder / place) for name, place in PACKAGES.items()}
        (folder / ".copy" / "sitecustomize.py").write_text(FINDER.format(folders=folders))
        # Bytecode that knows its source by its contents: that of a changed file is not taken.
        subprocess.run([sys.executable, "-m", "compileall", "-q", "--invalidation-mode",
                        "checked-hash", *PACKAGES.values(), "tests/support"], cwd=folder,
                       env=self._environment(), check=True)
        self._sound: set[str] = set()
        code = "from lazyten import amp as a, codegen as b; print(a.__file__, b.__file__)"
        seen = subprocess.run([sys.executable, "-c", code], cwd=folder, env=self._environment(),
                              check=True, capture_output=True, text=True).stdout.split()
        assert seen == [f"{folder}/lazyten/amp.py", f"{folder}/codegen/__init__.py"], seen

    def _environment(self) -> dict[str, str]:
        """CI=1: property tests look at the same examples each time. A cache on disk would give
        back what the code made before it was changed."""
        paths = [str(self.folder / ".copy"), str(self.folder / "tests"),
                 str(self.folder / "tests/support")]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LAZYTEN_CACHE": "0",
                "CI": "1", "PYTHONDONTWRITEBYTECODE": "1", REPORT: str(self.report)}

    def outcome(self, arguments: Sequence[str], seconds: float = SECONDS) -> Outcome:
        """What running tests comes to."""
        self.report.write_text("")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=short", "-p", "mutate",
                   "-p", "no:cacheprovider", "--hypothesis-profile=mutants",
                   "--devices", "cpu,interpreter", *arguments]
        begin = time.monotonic()
        process = subprocess.Popen(command, cwd=self.folder, env=self._environment(), text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True, preexec_fn=_limit_memory)
        try:
            text, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return Outcome("hung", seconds=seconds)
        test, error = json.loads(self.report.read_text() or '["", ""]')
        kind = _kind(process.returncode, test, text)
        if not error and kind != "survived":
            error = text[-2000:]
        return Outcome(kind, test, error, round(time.monotonic() - begin, 1))

    def mutant(self, mutation: Mutation, whole: bool, workers: int) -> Outcome:
        """What the suite makes of a mistake."""
        path = self.folder / mutation.file
        original = path.read_text(encoding="utf8")
        path.write_text(mutation.applied(original), encoding="utf8")
        first = _arguments(mutation.tests)
        options = [word for word in first if ".py" not in word]
        try:
            found = self.outcome(["-n", "0", *first])
            if found.kind == "survived" and whole:
                options = []
                found = self.outcome(["-n", str(workers), "--dist", "worksteal"], WHOLE_SECONDS)
        finally:
            path.write_text(original, encoding="utf8")
        if found.kind in ("caught", "crashed", "hung"):
            if not self._passes([found.test, *options] if found.test else first):
                return replace(found, kind="unsound")
        return found

    def _passes(self, tests: Sequence[str]) -> bool:
        """Whether these pass without a mistake. Many mistakes are seen by one test: it is asked
        once."""
        key = shlex.join(tests)
        if key not in self._sound and self.outcome(["-n", "0", *tests]).kind == "survived":
            self._sound.add(key)
        return key in self._sound


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))


def _arguments(tests: str) -> list[str]:
    """Arguments for pytest: files are those of tests/."""
    return [_path(word) if word.split("::")[0].endswith(".py") else word
            for word in shlex.split(tests)]


def _path(test: str) -> str:
    """`test_a.py::test_b` with the folder that the file lies in."""
    name, *rest = test.split("::")
    file = next((CHECKOUT / "tests").rglob(name)).relative_to(CHECKOUT)
    return "::".join([str(file), *rest])


def _kind(code: int, test: str, text: str) -> str:
    if code == 0:
        return "survived"
    if "Timeout (" in text and not test:
        return "hung"
    if test:
        return "caught"
    if code < 0 or "Fatal Python error" in text:
        return "crashed"
    return "broken"


# ---- running all of them -------------------------------------------------------------------------

def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="those whose file or words have this in them")
    parser.add_argument("--whole", action="store_true", help="run all tests where the first pass")
    parser.add_argument("--again", default="", help="forget results of this kind ('all': of any)")
    parser.add_argument("--jobs", type=int, default=1, help="mutations at a time")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = mutations()
    for row in rows:
        row.applied((CHECKOUT / row.file).read_text(encoding="utf8"))
    known = {key: outcome for key, outcome in _kept(options.results)
             if options.again not in (outcome.kind, "all")}
    wanted = [r for r in rows if r.key not in known and options.only in f"{r.file}: {r.breaks}"]
    for row, outcome in _run(wanted, options):
        known[row.key] = outcome
        _keep(options.results, row, outcome)
        print(f"{outcome.kind:9}{outcome.seconds:7.1f} s  {row.file}: {row.breaks}"
              + (f"\n{'':20}{outcome.test}: {outcome.error:.120}".replace("\n", " ")
                 if outcome.test else ""), flush=True)
    return _show_score(rows, known)


def _run(rows: Sequence[Mutation], options: argparse.Namespace) -> Iterator[
        tuple[Mutation, Outcome]]:
    """Each mutation, in some copy that is not in use."""
    with tempfile.TemporaryDirectory(prefix="lazyten-mutants-") as place:
        copies: queue.Queue[Copy] = queue.Queue()
        for number in range(min(options.jobs, len(rows))):
            folder = Path(place, str(number))
            folder.mkdir()
            copies.put(Copy(folder))

        def run(row: Mutation) -> Outcome:
            copy = copies.get()
            try:
                return copy.mutant(row, options.whole, options.jobs)
            finally:
                copies.put(copy)
        with ThreadPoolExecutor(options.jobs) as pool:
            yield from zip(rows, pool.map(run, rows), strict=True)


def _kept(path: Path) -> Iterator[tuple[str, Outcome]]:
    """Results of earlier runs, the last one of each mutation last."""
    if path.is_file():
        for line in path.read_text(encoding="utf8").splitlines():
            entry: dict[str, Any] = json.loads(line)
            yield entry.pop("key"), Outcome(**entry)


def _keep(path: Path, mutation: Mutation, outcome: Outcome) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf8") as file:
        print(json.dumps({"key": mutation.key, **asdict(outcome)}), file=file)


def _show_score(rows: Sequence[Mutation], known: dict[str, Outcome]) -> int:
    """Print what was not caught, and how many were; 0 if none is missing."""
    ran = [(row, known[row.key]) for row in rows if row.key in known]
    missed = [(row, outcome) for row, outcome in ran if not outcome.counts(row)]
    for row, outcome in missed:
        print(f"not caught ({outcome.kind}): {row.file}: {row.breaks}\n"
              f"  - {row.old}\n  + {row.new}\n  ? {row.tests}")
    kinds = ", ".join(f"{n} {kind}" for kind, n in Counter(o.kind for _, o in ran).items())
    print(f"{len(ran) - len(missed)} of {len(ran)} mutations are caught ({kinds}); "
          f"{len(rows) - len(ran)} were not run")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
