"""Solutions as .npz files: plain arrays that any version of numpy reads back, never a pickle.

Contents of a file, by name:

    xs, us, K, cost, status ...   the fields of `Solution`, as they are called there
    log_cost, log_alpha ...       the log, one array per column
    time_total ...                the timings; entries of other dicts and tuples as field.key
    problem_name, dt, horizon     of the problem (absent if it was not known)
    format, format_version        kind of the file
    layout                        JSON: how the fields are put together again from the arrays

A field of the layout is null (None), "array", "scalar", an object (a dict, or the report of a constraint) or a list (a
tuple).
"""

from __future__ import annotations

import json
import os
import struct
import uuid
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from dynamics.validation import as_choice
from trajopt.problem.constraints import ControlBounds
from trajopt.problem.problem import Problem, check_problem
from trajopt.results.archives import archive_of, read_archive
from trajopt.results.records import AnySolution, ConstraintReport, IterationRecord, SolutionData, Status

FORMAT, VERSION = "trajopt.Solution", 1

_PREFIX = {"log": "log_", "timings": "time_"}


def save_solution(solution: SolutionData, path: str | os.PathLike) -> Path:
    """Write everything in the solution but the problem itself to exactly this path; folders are made as needed.

    The file appears complete or not at all, even if the process is killed.

    Raises
    ------
    TypeError
        Naming a field that holds something other than numbers, text, arrays, and dicts and tuples of these.
    """
    return save_bytes(solution_bytes(solution), path)


def save_bytes(content: bytes, path: str | os.PathLike) -> Path:
    """Write exactly this file, whole or not at all; folders are made as needed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content)
    return path


def write_atomically(path: Path, content: bytes) -> None:
    """Replace or create the file in one step: it is written beside its place and then moved there."""
    with draft_of(path) as draft:
        draft.write_bytes(content)


@contextmanager
def draft_of(path: Path, suffix: str = ".tmp") -> Iterator[Path]:
    """A file to be written beside its place; it moves there at the end, and vanishes after an error."""
    draft = path.with_name(f".{uuid.uuid4().hex}{suffix}")
    try:
        yield draft
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def solution_bytes(solution: SolutionData) -> bytes:
    """The content of the file that `save_solution` writes."""
    arrays: dict[str, np.ndarray] = {}
    layout = {}
    for name in (field.name for field in fields(solution) if field.name != "problem"):
        value = getattr(solution, name)
        if name == "log":
            value = {column: solution.history(column) for column in IterationRecord._fields}
        layout[name] = packed(name, value, arrays)
    problem = solution.problem
    if problem is not None:
        arrays |= {
            "problem_name": np.array(problem.name),
            "dt": np.array(problem.system.dt),
            "horizon": np.array(problem.horizon),
        }
    arrays |= {"format": np.array(FORMAT), "format_version": np.array(VERSION), "layout": np.array(json.dumps(layout))}
    return archive_of(arrays)


def packed(name: str, value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Add the numbers of a value to the arrays, under this name or names that begin with it; return its layout.

    Raises TypeError naming what is no number, text or array, nor a dict, a tuple or a list of these."""
    if value is None:
        return None
    prefix = _PREFIX.get(name, f"{name}.")
    if isinstance(value, ConstraintReport):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): packed(f"{prefix}{key}", item, arrays) for key, item in value.items()}
    if type(value) in (tuple, list):
        return [packed(f"{prefix}{i}", item, arrays) for i, item in enumerate(value)]
    array = np.asarray(value) if isinstance(value, (np.ndarray, np.generic, str, bool, int, float)) else None
    if array is None or array.dtype.hasobject:
        raise TypeError(
            f"{name}: got {type(value).__name__}, expected numbers, text or arrays, or dicts or tuples of these"
        )
    arrays[name] = array
    return "array" if isinstance(value, np.ndarray) else "scalar"


def load_solution(
    kind: type[AnySolution], source: str | os.PathLike | IO[bytes], problem: Problem | None = None
) -> AnySolution:
    """Read back what `save_solution` wrote.

    Parameters
    ----------
    kind : SolutionData, or a class derived from it
    source : path, or a binary stream
    problem : Problem, optional
        Value of `Solution.problem` of the result, for its time step, its plots or another solve.  It must have the
        horizon, dimensions and time step of the solution.  By default None: files do not hold problems.

    Raises
    ------
    FileNotFoundError
    ValueError
        The file is not one of `save_solution`, is cut short or damaged, was made by a newer version, or does not fit
        the problem.
    """
    name, arrays = _checked(source)
    try:
        layout = json.loads(str(arrays["layout"]))
        values = {field: unpacked(field, node, arrays) for field, node in layout.items()}
    except (LookupError, ValueError, AttributeError, RecursionError) as error:
        raise ValueError(f"{name}: got a solution file that is damaged ({error})") from error
    found = _fields(kind, name, values)
    try:
        solution = kind(problem=None, **found)  # pyright: ignore[reportArgumentType]
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{name}: got a solution file that is damaged ({error})") from error
    if problem is None:
        return solution
    _check_problem(name, solution, problem, arrays)
    return replace(solution, problem=problem)


def problem_name_in(source: str | os.PathLike) -> str | None:
    """The name of the problem of a solution file, None if it was not known; errors as `load_solution`."""
    _, arrays = _checked(source)
    return str(arrays["problem_name"]) if "problem_name" in arrays else None


def _checked(source: str | os.PathLike | IO[bytes]) -> tuple[Any, dict[str, np.ndarray]]:
    """The file's name in error messages, and its arrays, which are those of a solution."""
    return checked_file(source, FORMAT, VERSION, "solution")


def checked_file(
    source: str | os.PathLike | IO[bytes], mark: str, version: int, what: str
) -> tuple[Any, dict[str, np.ndarray]]:
    """The file's name in error messages, and its arrays, with this mark and at most this version.

    Raises ValueError, which says `what` the file should be, for other files and for damaged ones.
    """
    name = source if isinstance(source, (str, os.PathLike)) else "source"
    try:
        arrays = read_archive(source)
    except (ValueError, EOFError, KeyError, struct.error, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise ValueError(f"{name}: got a file that is cut short or not a {what} file ({error})") from error
    if "format" not in arrays or str(arrays["format"]) != mark:
        raise ValueError(f"{name}: got a file without the mark {mark!r}, expected a {what} file")
    found = arrays.get("format_version")
    if found is None or found.dtype.kind not in "iu" or found.ndim:
        raise ValueError(f"{name}: got a file without its format_version, expected a {what} file")
    if found > version:
        raise ValueError(f"{name}: got format {found} of a newer trajopt, expected at most {version}; update trajopt")
    return name, arrays


def unpacked(name: str, node: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The value that `packed` described."""
    prefix = _PREFIX.get(name, f"{name}.")
    if isinstance(node, dict):
        return {key: unpacked(f"{prefix}{key}", item, arrays) for key, item in node.items()}
    if isinstance(node, list):
        return tuple(unpacked(f"{prefix}{i}", item, arrays) for i, item in enumerate(node))
    if node is None:
        return None
    if node not in ("array", "scalar"):
        raise ValueError(f"layout of {name}: got {node!r}")
    return arrays[name] if node == "array" else arrays[name].item()


def _fields(kind, name, values: dict[str, Any]) -> dict[str, Any]:
    """Arguments for the constructor of `Solution`: log and constraints as records, the status as a known name."""
    wanted = {f.name: f.default is f.default_factory is MISSING for f in fields(kind) if f.name != "problem"}
    _compare(name, "", set(values), wanted)
    _check_kinds(name, values)
    columns, reports = values["log"], values.get("constraints", ())
    if not isinstance(columns, dict) or not isinstance(reports, tuple):
        raise ValueError(f"{name}: got log, constraints of {type(columns).__name__}, {type(reports).__name__}")
    for prefix, record, found in (
        ("log_", IterationRecord, columns),
        *((f"constraints.{i}.", ConstraintReport, report) for i, report in enumerate(reports)),
    ):
        if not isinstance(found, dict):
            raise ValueError(f"{name}: got {prefix} of {type(found).__name__}, expected its fields")
        _compare(name, prefix, set(found), {field: field not in record._field_defaults for field in record._fields})
    return values | {
        "log": _records(name, columns),
        "constraints": tuple(ConstraintReport(**report) for report in reports),
        "status": Status(as_choice(f"{name}: status", values["status"], map(str, Status))),
    }


def _records(name: Any, columns: dict[str, Any]) -> tuple[IterationRecord, ...]:
    """The log, from columns of one length."""
    vectors = all(isinstance(column, np.ndarray) and column.ndim == 1 for column in columns.values())
    lengths = {len(column) for column in columns.values()} if vectors else set()
    if len(lengths) != 1:
        raise ValueError(f"{name}: got columns of the log that differ in length, expected vectors of one")
    if 0 not in lengths:
        for field, column in columns.items():
            wanted = "U" if field == "step" else "iu" if field in ("iteration", "indefinite_knot") else "f"
            if column.dtype.kind not in wanted:
                raise ValueError(f"{name}: got log_{field} of {column.dtype}")
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return tuple(IterationRecord(**dict(zip(columns, row, strict=True))) for row in rows)


_KINDS = {
    **dict.fromkeys(("cost", "gradient_norm"), float), "iterations": int,
    **dict.fromkeys(("status", "message", "cause", "start"), str),
}  # fmt: skip


def _check_kinds(name: Any, values: dict[str, Any]) -> None:
    """Raise ValueError for numbers in place of text or text in place of numbers; `Solution` itself checks arrays."""
    for field, kind in _KINDS.items():
        if field in values and type(values[field]) is not kind:
            raise ValueError(f"{name}: got {field} of {type(values[field]).__name__}, expected {kind.__name__}")
    for field, kind in ("timings", float), ("not_taken_over", str):
        items = values.get(field, {})
        inside = items.values() if isinstance(items, dict) else items if isinstance(items, tuple) else (items,)
        if not all(type(item) is kind for item in inside):
            raise ValueError(f"{name}: got {field} {items!r}, expected {kind.__name__}s")


def _compare(name, prefix: str, found: set[str], wanted: dict[str, bool]) -> None:
    """Raise ValueError for an unexpected array, or if one that is needed (True) is missing."""
    unknown = [prefix + field for field in sorted(found - set(wanted))]
    absent = [prefix + field for field, needed in wanted.items() if needed and field not in found]
    if unknown or absent:
        surplus, lack = ", ".join(unknown) or "nothing", ", ".join(absent) or "nothing"
        raise ValueError(f"{name}: got the solution of another trajopt, with {surplus} too much, {lack} missing")


def _check_problem(name, solution: SolutionData, problem: Problem, arrays: dict[str, np.ndarray]) -> None:
    check_problem(problem)
    system, N = problem.system, problem.horizon
    for what, array, shape in (
        ("xs", solution.xs, (N + 1, system.nx)),
        ("us", solution.us, (N, system.nu)),
        ("k", solution.k, (N, system.nu)),
        ("K", solution.K, (N, system.nu, system.ndx)),
        ("Vx", solution.Vx, (N + 1, system.ndx)),
        ("Vxx", solution.Vxx, (N + 1, system.ndx, system.ndx)),
        ("gaps", solution.gaps, (N + 1, system.ndx)),
    ):
        if array.shape != shape:
            raise ValueError(
                f"problem: {name} has {what} of shape {array.shape}, expected {shape} as in {problem.name!r}"
            )
    widths = [system.nu if isinstance(c, ControlBounds) else c.nr for c in problem.constraints]
    found = [report.values.shape[1] for report in solution.constraints]
    if found and found != widths:
        raise ValueError(f"problem: {name} has constraints of {found} rows, expected {widths} as in {problem.name!r}")
    if "dt" in arrays and float(arrays["dt"]) != system.dt:
        raise ValueError(f"problem: {name} has dt = {float(arrays['dt'])}, expected {system.dt} as in {problem.name!r}")
