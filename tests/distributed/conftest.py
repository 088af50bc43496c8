"""What tests of several processes share."""
from __future__ import annotations

import ranks


def pytest_configure() -> None:
    """Processes of pytest-xdist share what they compile."""
    ranks.share_code()


def pytest_unconfigure() -> None:
    """End the ranks with the tests: no processes of pytest-xdist call what is registered atexit."""
    ranks.end_jobs()
