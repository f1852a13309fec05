"""What readers of a robot's file share: paths of its meshes, from names with package:// or file://, or relative to the
file, and remarks about parts that are not read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from dynamics.printed import printable
from dynamics.simd.caller import warn
from dynamics.validation import as_items


class MeshPaths:
    """Finds the files referred to by names in a robot's file.

    Parameters
    ----------
    path_or_text : the robot's file, beside and above which files are searched; text has no folder
    package_dirs : folders that contain packages, or are packages
    """

    def __init__(self, path_or_text: str | Path, package_dirs: Sequence[str | Path] | str | Path = ()) -> None:
        is_file = not (isinstance(path_or_text, str) and path_or_text.lstrip("\ufeff \t\r\n").startswith("<"))
        self._folder = Path(os.path.abspath(path_or_text)).parent if is_file else None
        given = [package_dirs] if isinstance(package_dirs, (str, Path)) else package_dirs
        self._given = []
        for i, folder in enumerate(as_items("package_dirs", given, "folders")):
            if not isinstance(folder, (str, Path)):
                raise TypeError(f"package_dirs[{i}]: got {type(folder).__name__}, expected the path of a folder")
            self._given.append(Path(folder).expanduser())
        self._packages = cache(lambda package: list(self._package(package)))

    def find(self, name: str) -> str:
        """The path of the file that a name refers to; the name itself if there is none."""
        for path in self._candidates(name.strip()):
            if is_file(path):
                return str(path)
        return name.strip()

    def _candidates(self, name: str) -> Iterator[Path]:
        scheme, separator, rest = name.partition("://")
        if separator and scheme in ("package", "model"):
            package, _, inside = rest.partition("/")
            yield from (folder / inside for folder in self._packages(package))
        elif separator and scheme == "file":
            path = Path(unquote(urlsplit(name).path))
            yield path
            if self._folder is not None:  # file://meshes/x.stl, often used as a relative name
                yield self._folder / rest
        elif not separator:
            yield from (folder / name for folder in (self._folder, *self._given) if folder is not None)

    @property
    def packages(self) -> list[str]:
        """Absolute paths of the folders that may be packages, or contain them."""
        return [os.path.abspath(folder) for folder in self._places()]

    def _places(self) -> Iterator[Path]:
        environment = os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep)
        prefixes = [Path(p) / "share" for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
        above = (self._folder, *self._folder.parents) if self._folder is not None else ()
        yield from (*self._given, *(Path(p) for p in environment if p), *prefixes, *above)

    def _package(self, package: str) -> Iterator[Path]:
        """Folders that may be this package."""
        for folder in self._places():
            if folder.name == package:
                yield folder
            if _holds(Path.is_dir, folder / package):
                yield folder / package


def is_file(path: str | Path) -> bool:
    """True if there is such a file; False also for names that are too long or invalid."""
    return _holds(Path.is_file, Path(path))


def _holds(question: Callable[[Path], bool], path: Path) -> bool:
    try:
        return question(path)
    except (OSError, ValueError):  # a name that is too long, a folder that may not be entered, a null character
        return False


# --------------------------------------------------------------------------------------------
# Remarks of readers about files: unread parts, and parts that are read differently from the file.

MOST = 20


class Remarks:
    """Remarks about one file, each with the names of the parts that it concerns.

    Parameters
    ----------
    origin : the file, as "MJCF model 'arm'"
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._names: dict[str, dict[str, int]] = {}  # by remark, the count of each name

    def add(self, remark: str, name: str) -> None:
        """Record a remark about the part of this name."""
        counts = self._names.setdefault(remark, {})
        counts[name] = counts.get(name, 0) + 1

    def warn(self) -> None:
        """Issue one warning for each remark, with the names of its parts, the first MOST if there are more."""
        for remark, counts in self._names.items():
            names = [name if count == 1 else f"{name} ({count} times)" for name, count in counts.items()]
            more = f", and {len(names) - MOST} more" if len(names) > MOST else ""
            warn(printable(f"{self._origin}: {remark}: {', '.join(names[:MOST])}{more}"))
