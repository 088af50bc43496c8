"""`lt.__config__`: what lazyten was built with: nothing, as it compiles itself."""
from __future__ import annotations

from lazyten.support.threads import get_num_threads
from lazyten.version import __version__


def show() -> str:
    """A text with the version."""
    return f"lazyten {__version__}, in Python; kernels are compiled as they are needed\n"


def parallel_info() -> str:
    """A text with the number of threads that kernels run on."""
    return f"threads of lazyten: {get_num_threads()}\n"
