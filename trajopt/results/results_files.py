"""Solutions as .npz files: plain arrays that any version of numpy reads back, never a pickle.

Contents of a file, by name:

    xs, us, K, cost, status ...   the fields of `Solution`, as they are called there
    log_cost, log_alpha ...       the log, one array per column
    time_total ...                the timings; entries of other dicts and tuples as field.key
    problem_name, dt, horizon     of the problem (absent if it was not known)
    parameter, parameter_hash     of `trajopt.solve_many`, in whose folder the file is
    format, format_version        kind of the file
    layout                        JSON: how the fields are put together again from the arrays

A field of the layout is null (None), "array", "scalar", an object (a dict, or the report of a constraint) or a list (a
tuple).
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields, replace
from functools import cache
from pathlib import Path
from types import UnionType
from typing import IO, Any, get_args, get_origin, get_type_hints

import numpy as np

from dynamics.validation import as_choice
from trajopt.problem.constraints import ControlBounds
from trajopt.problem.problem import Problem, check_problem
from trajopt.results.archives import archive_of, content_of, read_archive, with_arrays
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


def with_parameter(content: bytes, parameter: str, digest: str) -> bytes:
    """The content of a solution's file that says of which parameter of `trajopt.solve_many` it is, as text and hash."""
    return with_arrays(content, {"parameter": np.array(parameter), "parameter_hash": np.array(digest)})


def load_solution(
    kind: type[AnySolution],
    source: str | os.PathLike | IO[bytes],
    problem: Problem | None = None,
    parameter_hash: str | None = None,
) -> AnySolution:
    """Read back what `save_solution` wrote.

    Parameters
    ----------
    kind : SolutionData, or a class derived from it
    source : path, or a binary stream
    problem : Problem, optional
        Value of `Solution.problem` of the result, for its time step, its plots or another solve.  It must have the
        horizon, dimensions and time step of the solution.  By default None: files do not hold problems.
    parameter_hash : hash of the parameter whose solution this must be, where the file says of which parameter it is

    Raises
    ------
    FileNotFoundError
    ValueError
        The file is not one of `save_solution`, is cut short or damaged, was made by a newer version, does not fit the
        problem, or is of another parameter.
    """
    name, arrays = _checked(source)
    found = str(arrays.get("parameter_hash", parameter_hash))
    if parameter_hash is not None and found != parameter_hash:
        other = repr(str(arrays.get("parameter", found)))[:200]
        raise ValueError(f"{name}: got the solution of another parameter, {other}, expected that of its name")
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
    except ValueError as error:
        raise ValueError(f"{name}: got a file that is cut short or not a {what} file ({error})") from error
    if "format" not in arrays or str(arrays["format"]) != mark:
        raise ValueError(f"{name}: got a file without the mark {mark!r}, expected a {what} file")
    found = arrays.get("format_version")
    if found is None or found.dtype.kind not in "iu" or found.ndim:
        raise ValueError(f"{name}: got a file without its format_version, expected a {what} file")
    if found > version:
        raise ValueError(f"{name}: got format {found} of a newer trajopt, expected at most {version}; update trajopt")
    return name, arrays


def read_json(path: Path) -> Any:
    """What a file of JSON holds; FileNotFoundError without it, ValueError, with its name, for what is none."""
    try:
        return json.loads(content_of(path).decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: got a file that is damaged ({error})") from error


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
    _check_types(name, "", kind, {field: value for field, value in values.items() if field not in _RECORDS})
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
        if record is ConstraintReport:
            _check_types(name, prefix, record, found)
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
            if column.dtype.kind not in _COLUMNS[_types(IterationRecord)[field]]:
                raise ValueError(f"{name}: got log_{field} of {column.dtype}")
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return tuple(IterationRecord(**dict(zip(columns, row, strict=True))) for row in rows)


_COLUMNS = {float: "f", int: "iu", str: "U"}
"""Kinds of the numbers of a column of the log, by the type of an entry."""
_RECORDS = "log", "constraints"
"""Fields that are checked record by record."""


@cache
def _types(kind: type) -> dict[str, Any]:
    """The declared type of each field."""
    return get_type_hints(kind)


def _check_types(name: Any, prefix: str, kind: type, values: dict[str, Any]) -> None:
    """Raise ValueError for values of other types than their fields are declared with."""
    for field, value in values.items():
        declared = _types(kind)[field]
        if not _is_of(value, declared):
            wanted = getattr(declared, "__name__", declared) if not get_args(declared) else declared
            raise ValueError(f"{name}: got {prefix}{field} of {type(value).__name__}, expected {wanted}")


def _is_of(value: Any, declared: Any) -> bool:
    """True if a value has this type, and its items the types that are declared for them."""
    kind, inner = get_origin(declared), get_args(declared)
    if kind is UnionType:
        return any(_is_of(value, each) for each in inner)
    if kind is dict:
        return type(value) is dict and all(_is_of(item, inner[1]) for item in value.values())
    if kind is tuple:  # of any length
        return type(value) is tuple and all(_is_of(item, inner[0]) for item in value)
    return declared is Any or type(value) is declared or (declared is float and type(value) is int)


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
