"""A folder of results: one file per parameter, named by its index and hash, and a manifest of all of them.

    manifest.json                   make_problem, solver, and every parameter with its file
    00007_1a2b3c4d5e6f7a8b.npz      the solution, see `trajopt.results.results_files`
    00007_1a2b3c4d5e6f7a8b.error.json   instead of it: what went wrong

Every file appears complete or not at all, so a run that was killed leaves a folder that the next one continues.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dynamics.simd.caller import warn
from trajopt.batch.digest import digest, name_of
from trajopt.batch.work import Answer
from trajopt.results.results_files import write_atomically
from trajopt.results.solution import Solution

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
                f"wanted those of {run['make_problem']} and {run['solver']}; choose another folder"
            )

    def solution(self, index: int) -> Solution | None:
        """What an earlier run found for this parameter; None if nothing, or, with a warning, if its file cannot be
        read."""
        try:
            return Solution.load(self.path / f"{self._names[index]}.npz")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            warn(f"{error}; its problem is solved again", RuntimeWarning)
            return None

    def write(self, index: int, answer: Answer) -> None:
        """Keep what a worker answered, in place of what an earlier run left."""
        failure = self.path / f"{self._names[index]}.error.json"
        if answer.file is not None:
            write_atomically(self.path / f"{self._names[index]}.npz", answer.file)
            failure.unlink(missing_ok=True)
        else:
            account = {"parameter": self._reprs[index], "error": answer.error, "traceback": answer.traceback}
            _write_json(failure, account)


def _manifest(folder: Path) -> dict[str, Any]:
    """What the manifest of a folder says; ValueError if it is none of ours."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        ours = found["format"] == FORMAT and found["format_version"] <= VERSION and "hash" in found
    except (ValueError, KeyError, TypeError, RecursionError):
        ours, found = False, {}
    if not ours:
        raise ValueError(f"folder: got {folder}, whose {MANIFEST} is not of this solve_many; choose another folder")
    return found


class Kept(NamedTuple):
    """What a folder has of a parameter: its text, and a solution or an error and its traceback."""

    parameter: str
    solution: Solution | None = None
    error: str | None = None
    traceback: str | None = None


def read_folder(folder: Path) -> Iterator[Kept]:
    """What the folder has of each parameter of the last run; ValueError for damaged files."""
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
