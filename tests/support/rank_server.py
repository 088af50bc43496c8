"""What each rank of a job that serves many tests runs: one program of rank_programs after another.

Everything lies in one folder: a pipe for each rank, from which it reads programs, so that ranks
that have nothing to do sleep; a file for each, which has what the program printed; and one pipe
into which a rank writes a byte when it is through.
"""
from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path

REPLIES = "replies"
"""The pipe for all ranks' bytes."""


def called(program: str, arguments: list[object]) -> None:
    """The function 'module:name' of rank_programs, called."""
    module, _, name = program.partition(":")
    getattr(import_module("rank_programs." + module), name)(*arguments)


def _serve(folder: Path) -> None:
    """Programs, until there are no more; one that fails ends the job."""
    from mpi4py import MPI

    import lazyten as lt

    rank = str(MPI.COMM_WORLD.Get_rank())
    replies = os.open(folder / REPLIES, os.O_WRONLY)
    with (folder / rank).open() as programs:
        for line in programs:
            with (folder / f"{rank}.txt").open("w") as text, contextlib.redirect_stdout(text):
                try:
                    called(*json.loads(line))
                    lt.distributed.destroy()
                except Exception:
                    traceback.print_exc()
                    sys.stderr.flush()
                    MPI.COMM_WORLD.Abort(1)
                    os._exit(1)  # Abort may return: what failed must not say that it is through
            lt.set_default_device(None)
            os.write(replies, b".")


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
