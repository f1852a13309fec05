"""Keys of source files: hashes of a file and of all project files that it imports, directly or not.

A process would read and hash some 240 files for them.  What was read of a file is kept in the cache folder, in one
verified file for all of them, under what the file system says of it: path, size, number, and the times of its last
change, of content and of anything.  Whatever edits or replaces a file changes one of these, unless it does so within
the same tick of the clock; so nothing is kept of a file that changed within the last two seconds.
"""

import atexit
import hashlib
import os
import re
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dynamics.simd import shipped
from dynamics.simd.cache_folder import cache_root
from dynamics.simd.kernel_cache import read_verified, write_verified

ROOT = Path(__file__).resolve().parents[2]
_PACKAGE = r"((?:dynamics|trajopt|problems|experiments)[\w.]*)"
_IMPORT = re.compile(rf"^\s*from\s+{_PACKAGE}\s+import\s+(\([^)]*\)|[^#\n]*)|^\s*import\s+{_PACKAGE}", re.M)
_SETTLED = 2_000_000_000
"""Nanoseconds after a change of a file from which on any other change is seen: the coarsest tick, that of FAT."""


class Source(NamedTuple):
    """What is read of a file: the digest of its content, and its import statements, each a package and the names that
    are taken from it."""

    digest: bytes
    imports: tuple[tuple[str, tuple[str, ...]], ...]


def _read(path: str) -> Source:
    content = Path(path).read_bytes()
    found = _IMPORT.finditer(content.decode())
    imports = dict.fromkeys((match[1] or match[3], tuple(re.findall(r"\w+", match[2] or ""))) for match in found)
    return Source(hashlib.sha256(content).digest(), tuple(imports))


def _stamp(path: str) -> tuple[int, ...]:
    """What changes with every edit."""
    found = os.stat(path)
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


class KnownSources:
    """What is known of source files from earlier processes, in a file; damaged, or of another form, it is written anew.
    Other processes may replace it meanwhile: each adds what it has read itself."""

    def __init__(self, file: Path) -> None:
        self._file, self._new = file, {}
        self._known = self._stored()

    def _stored(self) -> dict[str, tuple[tuple[int, ...], Source]]:
        try:
            return {str(path): (stamp, Source(*source)) for path, (stamp, source) in read_verified(self._file).items()}
        except Exception:  # damaged files and pickles raise anything
            return {}

    def source(self, path: str) -> Source:
        """What is in the file now."""
        stamp = _stamp(path)
        before, source = self._known.get(path, ((), None))
        if source is None or before != stamp:
            source = _read(path)
            if _stamp(path) == stamp and time.time_ns() - max(stamp[:2]) > _SETTLED:
                self._new[path] = stamp, tuple(source)
        return source

    def write(self) -> None:
        """Add what was read to the file, and leave out what is not there any more."""
        if not self._new:
            return
        known = {path: (stamp, tuple(source)) for path, (stamp, source) in self._stored().items()}
        kept = {path: entry for path, entry in (known | self._new).items() if os.path.isfile(path)}
        with suppress(OSError):  # they are read again
            write_verified(self._file, kept)
        self._new = {}


@cache
def _known_sources() -> KnownSources | None:
    root = cache_root()
    if root is None:
        return None
    known = KnownSources(root / "sources")
    atexit.register(known.write)
    return known


@cache
def _source(path: str) -> Source:
    known = _known_sources()
    return _read(path) if known is None else known.source(path)


@cache
def _module_file(name: str) -> str | None:
    base = os.path.join(ROOT, *name.split("."))
    return next(filter(os.path.isfile, (f"{base}.py", f"{base}/__init__.py")), None)


@cache
def _imports_of(path: str) -> frozenset[str]:
    """The project files that a file names in its import statements."""
    found = set()
    for package, names in _source(path).imports:
        file = _module_file(package)
        found.add(file)
        if file is None or file.endswith("__init__.py"):
            found.update(_module_file(f"{package}.{name}") for name in names)
    return frozenset(filter(None, found))


@cache
def sources_of(path: str) -> frozenset[str]:
    """The file and all project files it depends on."""
    found, todo = set(), [path]
    while todo:
        current = todo.pop()
        if current in found:
            continue
        found.add(current)
        todo += _imports_of(current)
    return frozenset(found)


@cache
def source_key(path: Path) -> str:
    """Hash of the file, of what it imports from the project, and of the versions it is compiled with."""
    digest = hashlib.sha256(repr(shipped.versions()).encode())
    for source in sorted(_source(file).digest for file in sources_of(str(path))):  # wherever the files lie
        digest.update(source)
    return digest.hexdigest()[:16]


@cache
def place_of(path: Path) -> str:
    """Subfolder of a file's kernels in the folder of its source key; two files share one only if they are the same
    file in copies of the project."""
    root = cache_root()
    for base in (ROOT, *([root / "written"] if root is not None else [])):
        if path.is_relative_to(base):
            return "project." + ".".join(path.relative_to(base).parent.parts)
    return hashlib.sha256(bytes(path.parent)).hexdigest()[:16]


@cache
def folder_of(file: str) -> Path | None:
    """Folder of a file's kernels in that of all kernels; None if there is no such file."""
    path = Path(file).resolve()
    return Path(source_key(path), place_of(path)) if path.is_file() else None


def forget() -> None:
    """Have sources looked at again."""
    for function in (_known_sources, _source, _module_file, _imports_of, sources_of, source_key, place_of, folder_of):
        function.cache_clear()
