"""Commands of the Makefile work wherever the checkout is."""
from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from import_graph import CHECKOUT

TEXT = (CHECKOUT / "Makefile").read_text()
TARGETS = re.findall(r"[\w-]+", re.findall(r"^\.PHONY:(.*)", TEXT, re.MULTILINE)[0])


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What make looks at, in a folder as people name theirs."""
    place = tmp_path / "Eigene Dateien für é"
    place.mkdir()
    for name in ("Makefile", "setup.cfg", "pyproject.toml", "requirements.txt",
                 "requirements-dev.txt"):
        shutil.copy(CHECKOUT / name, place)
    for folder in (".ci", "examples/lazyten_c"):
        shutil.copytree(CHECKOUT / folder, place / folder)
    return place


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("target", TARGETS)
def test_no_command_takes_the_checkouts_name_apart(checkout: Path, target: str) -> None:
    alone = {name: text for name, text in os.environ.items() if "MAKE" not in name}
    done = subprocess.run(["make", "--dry-run", target, "NAME=gpt"], cwd=checkout, env=alone,
                          check=True, capture_output=True, encoding="utf8")
    here = str(checkout)
    for line in done.stdout.replace("\\\n", " ").splitlines():
        assert sum(word.count(here) for word in shlex.split(line)) == line.count(here), line
