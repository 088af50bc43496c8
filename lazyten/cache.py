"""`python -m lazyten.cache`: what is kept on disk between processes; `--clear` removes it."""
from __future__ import annotations

import argparse
from collections.abc import Sequence

from lazyten.disk_cache import DiskCache, default_folder


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the cache's folder, entries and bytes, after emptying it if asked."""
    parser = argparse.ArgumentParser(
        prog="python -m lazyten.cache",
        description="Compiled kernels that are kept for the next process.")
    parser.add_argument("--clear", action="store_true", help="remove them")
    clear = parser.parse_args(arguments).clear
    folder = default_folder()
    if folder is None:
        print("nothing is kept on disk: LAZYTEN_CACHE switches it off, or there is no home folder")
        return
    cache = DiskCache(folder)
    removed = f"{cache.clear():,} entries removed; " if clear else ""
    entries = cache.entries()
    print(f"{folder}: {removed}{len(entries):,} entries, {sum(e.size for e in entries):,} bytes "
          f"of at most {cache.limit:,}")


if __name__ == "__main__":
    main()
