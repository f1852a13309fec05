"""Folders of results, and hashes of parameters that are the same in every process and on every day.

Python's own `hash` of text differs from one process to the next, and arrays and dicts have none.  Here every value is
fed to SHA-256 as (type, length, content), containers item by item, dicts and sets in the order of their items' hashes.
"""

import hashlib
import json
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd.caller import warn
from trajopt.batch.work import Answer
from trajopt.results.results_files import write_atomically
from trajopt.results.solution import Solution


def digest(value: Any) -> str:
    """Hash as 64 hexadecimal digits.

    numpy scalars count as Python numbers; functions and classes as their names; objects that are neither plain values,
    containers, arrays nor dataclasses as their pickle.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return _hash(value, [repr(value).encode()])
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return _hash(value, [value.dtype.str.encode(), repr(value.shape).encode(), value.tobytes()])
    if isinstance(value, (list, tuple)):
        return _hash(value, [digest(item).encode() for item in value])
    if isinstance(value, (dict, set, frozenset)):
        items = value.items() if isinstance(value, dict) else value
        return _hash(value, sorted(digest(item).encode() for item in items))
    if isinstance(value, partial):
        return _hash(value, [digest(part).encode() for part in (value.func, value.args, value.keywords)])
    if is_dataclass(value) and not isinstance(value, type):
        return _hash(value, [digest((f.name, getattr(value, f.name))).encode() for f in fields(value)])
    if callable(value) and hasattr(value, "__qualname__"):
        return _hash(value, [name_of(value).encode()])
    return _hash(value, [pickle.dumps(value, protocol=5)])


def _hash(value: Any, parts: Iterable[bytes]) -> str:
    hasher = hashlib.sha256(name_of(type(value)).encode())
    for part in parts:
        hasher.update(b":%d:" % len(part) + part)
    return hasher.hexdigest()


def name_of(function: Any) -> str:
    """Module and name of a function or class; for a callable object, those of its class."""
    if isinstance(function, partial):
        return f"partial of {name_of(function.func)}"
    if not hasattr(function, "__qualname__"):
        function = type(function)
    return f"{_module_of(function)}.{function.__qualname__}"


def _module_of(function: Any) -> str:
    """The name under which other processes import the function's module, even where that is the script that runs."""
    if function.__module__ != "__main__":
        return function.__module__
    main: Any = sys.modules["__main__"]
    if (spec := getattr(main, "__spec__", None)) is not None:
        return spec.name
    file = getattr(main, "__file__", None)
    return "__main__" if file is None else Path(file).stem


# --------------------------------------------------------------------------------------------
# A folder of results: one file per parameter, named by its index and hash, and a manifest of all of them.
#
#     manifest.json                   make_problem, solver, and every parameter with its file
#     00007_1a2b3c4d5e6f7a8b.npz      the solution, see `trajopt.results.results_files`
#     00007_1a2b3c4d5e6f7a8b.error.json   instead of it: the error
#
# Every file appears complete or not at all, so a run that was killed leaves a folder that the next one continues.

MANIFEST = "manifest.json"
FORMAT, VERSION = "trajopt.solve_many", 1


class ResultFolder:
    """Results of one make_problem and one solver.

    Raises ValueError if the folder holds those of others.
    """

    def __init__(self, path: Path, make_problem: Any, parameters: Sequence[Any], solver: Any) -> None:
        self.path = path
        run = {
            "make_problem": name_of(make_problem),
            "solver": _shortened(solver),
            "hash": digest((make_problem, solver)),
        }
        path.mkdir(parents=True, exist_ok=True)
        self._check(run)
        hashes = [digest(parameter) for parameter in parameters]
        self._names = [f"{index:05d}_{hash[:16]}" for index, hash in enumerate(hashes)]
        self._reprs = [_shortened(parameter) for parameter in parameters]
        listing = [
            {"file": f"{name}.npz", "hash": hash, "parameter": text}
            for name, hash, text in zip(self._names, hashes, self._reprs, strict=True)
        ]
        _write_json(path / MANIFEST, {"format": FORMAT, "format_version": VERSION, **run, "parameters": listing})

    def _check(self, run: dict[str, str]) -> None:
        manifest = self.path / MANIFEST
        if not manifest.exists():
            return
        found = _manifest(self.path)
        if found["hash"] != run["hash"]:
            raise ValueError(
                f"folder: got {self.path} with results of {found['make_problem']} and {found['solver']}, "
                f"expected those of {run['make_problem']} and {run['solver']}; choose another folder"
            )

    def solution(self, index: int) -> Solution | None:
        """The solution that an earlier run found for this parameter; None if there is none, or, with a warning, if its
        file cannot be read."""
        try:
            return Solution.load(self.path / f"{self._names[index]}.npz")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            warn(f"{error}; its problem is solved again", RuntimeWarning)
            return None

    def write(self, index: int, answer: Answer) -> None:
        """Write a worker's answer, in place of an earlier run's file."""
        failure = self.path / f"{self._names[index]}.error.json"
        if answer.file is not None:
            write_atomically(self.path / f"{self._names[index]}.npz", answer.file)
            failure.unlink(missing_ok=True)
        else:
            account = {"parameter": self._reprs[index], "error": answer.error, "traceback": answer.traceback}
            _write_json(failure, account)


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder; ValueError if `solve_many` did not write it."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        ours = found["format"] == FORMAT and found["format_version"] <= VERSION and "hash" in found
    except (ValueError, KeyError, TypeError, RecursionError):
        ours, found = False, {}
    if not ours:
        raise ValueError(f"folder: got {folder}, whose {MANIFEST} is not of this solve_many; choose another folder")
    return found


class Kept(NamedTuple):
    """A parameter in a folder: its text, and a solution or an error and its traceback."""

    parameter: str
    solution: Solution | None = None
    error: str | None = None
    traceback: str | None = None


def read_folder(folder: Path) -> Iterator[Kept]:
    """Read each parameter of the folder's last run; ValueError for damaged files."""
    try:
        places = [(str(entry["parameter"]), Path(entry["file"]).name) for entry in _manifest(folder)["parameters"]]
    except (LookupError, TypeError) as error:
        raise ValueError(f"folder: got {folder}, whose {MANIFEST} is damaged ({error!r})") from error
    for parameter, name in places:
        file, account = folder / name, folder / f"{Path(name).stem}.error.json"
        if file.exists():
            yield Kept(parameter, Solution.load(file))
        elif account.exists():
            try:
                told = json.loads(account.read_text(encoding="utf-8"))
                yield Kept(parameter, None, str(told["error"]), told["traceback"])
            except (ValueError, LookupError, TypeError) as error:
                raise ValueError(f"{account}: got a file that is damaged ({error!r})") from error
        else:
            yield Kept(parameter, None, "Missing: neither a solution nor an error is there")


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(content, indent=1).encode())


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 500 else f"{text[:500]}..."
