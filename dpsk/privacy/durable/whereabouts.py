"""Where the ledger of a loaded handle is. Pickles hold no absolute path; messages to worker processes do."""

import os
from collections.abc import Callable
from typing import Any

_known: dict[str, set[str]] = {}
"""The paths at which this process has seen each ledger, by identity."""


def remember(identity: str | None, path: str) -> None:
    """Note that this process saw the ledger with this identity here."""
    if identity is not None:
        _known.setdefault(identity, set()).add(path)


def portable(path: str) -> str:
    """Return the path from the working directory if the file is in there, and otherwise its name alone.

    The way to a file elsewhere would tell of directories that are nobody's business.
    """
    try:
        here = os.path.realpath(os.getcwd())
        inside = os.path.commonpath([here, path]) == here and os.path.dirname(here) != here
    except (OSError, ValueError):  # no working directory, or another drive
        inside = False
    return os.path.relpath(path, here).replace(os.sep, "/") if inside else os.path.basename(path)


def located(name: str, identity: str | None) -> tuple[str, bool]:
    """Return where the ledger is that was written as ``name``, and whether this process has seen it there.

    A ledger that this process has seen at one place is there, whatever the working directory is now.
    """
    here = os.path.realpath(name)
    seen = {path for path in _known.get(identity or "", ()) if os.path.exists(path)}
    if here not in seen and len(seen) == 1:
        return seen.pop(), True
    return here, here in seen


def travels_whole(kind: type, reduced: Callable[[Any], tuple[Any, ...]]) -> None:
    """Let worker processes of this machine, which may have another working directory, get the full path."""
    try:
        from multiprocessing.reduction import ForkingPickler
    except ImportError:  # a system without processes
        return
    ForkingPickler.register(kind, reduced)
    try:
        from joblib.externals.loky.backend.reduction import register
    except ImportError:  # another joblib, whose workers have to find the ledger from their working directory
        return
    register(kind, reduced)
