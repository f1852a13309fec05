"""Packages of problems for the command line: `problems`, which comes with this package, and registered ones.

A distribution registers a module like it, with functions names(), describe(name) and make(name), as an entry point:

    [project.entry-points."trajopt.problems"]
    my_robots = "my_robots.problems"
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

GROUP = "trajopt.problems"
OWN = "problems"
SIBLINGS = ("dynamics", OWN)


class _Siblings(MetaPathFinder):
    """Finder of the packages that came with this one beside it, whatever other packages on the path have their names.

    ``python -m`` looks in the current folder first, where users keep folders called `problems`."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname not in SIBLINGS:
            return None
        return PathFinder.find_spec(fullname, [str(Path(__file__).resolve().parents[2])])


@contextmanager
def siblings_first() -> Iterator[None]:
    """Context in which `dynamics` and `problems` are those that came with this package."""
    finder = _Siblings()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class ProblemPackages:
    """The problems of all packages, those of `problems` first; of two with the same name the first is used."""

    def __init__(self) -> None:
        self._own = import_module(OWN)
        self._home: dict[str, Any] = dict.fromkeys(self._own.names(), self._own)
        for entry in sorted(entry_points(group=GROUP)):
            try:
                package = entry.load()
                names = list(package.names())
            except Exception as error:  # a broken package must not disable the others
                sys.stderr.write(f"trajopt: no problems from {entry.value}, {type(error).__name__}: {error}\n")
                continue
            for name in names:
                if self._home.setdefault(name, package) is not package:
                    sys.stderr.write(f"trajopt: {entry.value} has a problem {name!r} too, which is left out\n")

    def names(self) -> list[str]:
        """All names, package by package."""
        return list(self._home)

    def describe(self, name: str) -> str:
        """A description of a problem in one line."""
        return self._home[name].describe(name)

    def make(self, name: str) -> Any:
        """The problem of this name."""
        return self._home[name].make(name)

    def experiments(self) -> dict[str, str]:
        """The scripts of a checkout, each with what it measures."""
        return self._own.experiments()
