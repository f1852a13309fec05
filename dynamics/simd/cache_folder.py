"""Folder of compiled kernels: it belongs to the user, and nobody else can write to it or replace it.  Kernels are
loaded as pickles and machine code, so anyone able to do so could run code as the user.
"""

import atexit
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from dynamics.simd.caller import warn


class UnsafeFolderError(PermissionError):
    """Users other than the owner could put files into a folder."""


@cache
def cache_root() -> Path | None:
    """Cache folder of this process: TRAJOPT_CACHE_DIR; else `trajopt` in the user's cache folder; else, if that cannot
    be written, `trajopt-<uid>` in the folder of temporary files.

    If none of them can be used, warns and returns a new folder, removed at exit, or None if there can be none."""
    root, problems = None, []
    for folder in _candidates():
        try:
            root = private_folder(private_folder(folder) / "kernels")
            break
        except OSError as error:
            problems.append(error)
    kept = root or _passing_folder()
    if root is None or any(isinstance(problem, UnsafeFolderError) for problem in problems):
        warn(
            f"{'; '.join(map(str, problems))}.  Compiled kernels are kept in {kept or 'memory only'}; "
            "TRAJOPT_CACHE_DIR may name a folder that belongs to you and that only you can write to",
            RuntimeWarning,
        )
    return kept


def _candidates() -> Iterator[Path]:
    if chosen := os.environ.get("TRAJOPT_CACHE_DIR"):
        yield Path(chosen)
        return
    with suppress(RuntimeError):  # this user has no home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trajopt"
    with suppress(OSError):
        yield Path(tempfile.gettempdir()) / f"trajopt-{os.geteuid()}"


def private_folder(folder: Path) -> Path:
    """Path of this folder with symbolic links above it resolved; the folder is made if it does not exist.

    Raises UnsafeFolderError if it is a link itself, is not the user's, can be written by others, or lies in a folder
    where others can replace it; other OSErrors if it cannot be made or written."""
    parent = Path(os.path.realpath(folder.parent))
    make_folder(parent)
    trusted = {0, os.geteuid(), os.lstat("/").st_uid}
    for place in (parent, *parent.parents):
        found = os.lstat(place)
        if found.st_uid not in trusted:
            raise UnsafeFolderError(f"{folder}: {place} belongs to user {found.st_uid}")
        if _others_write(found) and not found.st_mode & stat.S_ISVTX:
            raise UnsafeFolderError(f"{folder}: others can write to {place}")
    folder = parent / folder.name
    make_folder(folder)
    found = os.lstat(folder)
    if stat.S_ISLNK(found.st_mode):
        raise UnsafeFolderError(f"{folder}: is a link")
    if found.st_uid != os.geteuid():
        raise UnsafeFolderError(f"{folder}: belongs to user {found.st_uid}")
    if _others_write(found):
        raise UnsafeFolderError(f"{folder}: others can write to it")
    tempfile.TemporaryFile(dir=folder).close()
    return folder


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, accessible to the user alone regardless of the umask."""
    for place in (*reversed(folder.parents), folder):
        if not place.is_dir():
            place.mkdir(mode=0o700, exist_ok=True)  # another process may have been faster


def _others_write(found: os.stat_result) -> bool:
    return bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def _passing_folder() -> Path | None:
    try:
        folder = Path(tempfile.mkdtemp(prefix="trajopt-"))
    except OSError:
        return None
    owner = os.getpid()
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    return folder
