"""`solve_many`: one problem for each parameter, solved by many workers; results are kept as they arrive, and a stopped
run is continued."""

import hashlib
import json
import math
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dynamics.progress import counted
from dynamics.simd.caller import warn
from dynamics.simd.threads import processors
from dynamics.validation import as_flag, as_positive, as_whole_number
from trajopt.batch.outcomes import ManySolutions, Outcome, SolveManyInterrupted, StoredSolution, seconds_of
from trajopt.batch.workers import Answer, DaskWorkers, GivenExecutor, OwnProcesses, OwnThreads, Workers, answers
from trajopt.problem.parametric import ParametricProblem
from trajopt.problem.problem import Problem
from trajopt.results.results_files import load_solution, read_json, solution_bytes, with_parameter, write_atomically
from trajopt.results.solution import Solution
from trajopt.solvers.prepared_batch import without_python
from trajopt.solvers.solver import ShootingSolver

# --------------------------------------------------------------------------------------------
# Hashes of parameters that are the same in every process and on every day.
#
# Python's own `hash` of text differs from one process to the next, and arrays and dicts have none.  Here every value is
# fed to SHA-256 as (type, length, content), containers item by item, dicts and sets in the order of their items'
# hashes.


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
        self._hashes = [digest(parameter) for parameter in parameters]
        self._reprs = [_shortened(parameter) for parameter in parameters]
        listing = [
            {"file": f"{_name(index, hash)}.npz", "hash": hash, "parameter": text}
            for index, (hash, text) in enumerate(zip(self._hashes, self._reprs, strict=True))
        ]
        _write_json(path / MANIFEST, {"format": FORMAT, "format_version": VERSION, **run, "parameters": listing})

    def _check(self, run: dict[str, str]) -> None:
        try:
            found = _manifest(self.path)
        except FileNotFoundError:
            return
        if found["hash"] != run["hash"]:
            raise ValueError(
                f"folder: got {self.path} with results of {found['make_problem']} and {found['solver']}, "
                f"expected those of {run['make_problem']} and {run['solver']}; choose another folder"
            )

    def solution(self, index: int) -> Solution | None:
        """The solution that an earlier run found for this parameter; None if there is none, or, with a warning, if its
        file cannot be read."""
        try:
            return load_solution(Solution, self._file(index, ".npz"), parameter_hash=self._hashes[index])
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            warn(f"{error}; its problem is solved again", RuntimeWarning)
            return None

    def write(self, index: int, answer: Answer) -> None:
        """Write a worker's answer, in place of an earlier run's file."""
        failure = self._file(index, ".error.json")
        if answer.stored is not None:
            stored = answer.stored
            content = stored.content() if isinstance(stored, StoredSolution) else solution_bytes(stored)
            marked = with_parameter(content, self._reprs[index], self._hashes[index])
            write_atomically(self._file(index, ".npz"), marked)
            failure.unlink(missing_ok=True)
        else:
            account = {"parameter": self._reprs[index], "error": answer.error, "traceback": answer.traceback}
            _write_json(failure, account)

    def _file(self, index: int, suffix: str) -> Path:
        return self.path / f"{_name(index, self._hashes[index])}{suffix}"


def _name(index: int, hash: str) -> str:
    """Name, without its suffix, of the files of a parameter."""
    return f"{index:05d}_{hash[:16]}"


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder; ValueError if `solve_many` did not write it."""
    try:
        found = read_json(folder / MANIFEST)
        ours = found["format"] == FORMAT and found["format_version"] <= VERSION
        ours = ours and all(type(found[key]) is str for key in ("hash", "make_problem", "solver"))
    except (ValueError, LookupError, TypeError):
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
        entries = _manifest(folder)["parameters"]
        listing = [(_text(entry["parameter"]), _text(entry["hash"]), entry["file"]) for entry in entries]
        if not listing or any(file != f"{_name(i, hash)}.npz" for i, (_, hash, file) in enumerate(listing)):
            raise LookupError("got no parameters, or names of files that are not those of its parameters")
    except (LookupError, TypeError) as error:
        raise ValueError(f"folder: got {folder}, whose {MANIFEST} is damaged ({error!r})") from error
    for i, (parameter, hash, file) in enumerate(listing):
        try:
            yield Kept(parameter, load_solution(Solution, folder / file, parameter_hash=hash))
        except FileNotFoundError:
            yield _account(folder / f"{_name(i, hash)}.error.json", parameter)


def _account(path: Path, parameter: str) -> Kept:
    """What a folder holds of a parameter without a solution."""
    try:
        told = read_json(path)
        if told["parameter"] != parameter:
            other = told["parameter"]
            raise ValueError(f"{path}: got the error of the parameter {other!r}, expected that of {parameter!r}")
        trace = told["traceback"]
        return Kept(parameter, None, _text(told["error"]), None if trace is None else _text(trace))
    except FileNotFoundError:
        return Kept(parameter, None, "Missing: neither a solution nor an error is there")
    except (LookupError, TypeError) as error:
        raise ValueError(f"{path}: got a file that is damaged ({error!r})") from error


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"got {type(value).__name__}, expected text")
    return value


def _write_json(path: Path, content: dict[str, Any]) -> None:
    write_atomically(path, json.dumps(content, indent=1).encode())


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 500 else f"{text[:500]}..."


# --------------------------------------------------------------------------------------------
# The call.


INTERRUPTED = Answer(None, "Interrupted: the call of solve_many was, before this problem was solved", None, math.nan)


def solve_many(
    make_problem: Callable[[Any], Problem],
    parameters: Iterable[Any],
    solver: Any,
    *,
    executor: Any = None,
    workers: int | None = None,
    threads: bool | None = None,
    folder: str | os.PathLike | None = None,
    attempts: int = 3,
    no_workers_timeout: float | None = 60.0,
    progress: bool | None = None,
) -> ManySolutions:
    """Solve many problems at once, with the same results, bit for bit, as ``solver.solve(make_problem(parameter))``.

    Parameters
    ----------
    make_problem : function of a parameter that returns a `Problem`
        At the top level of a module, so that other processes can import it, or a `functools.partial` of such a one.
    parameters : sequence of numbers, text, tuples, dicts, arrays, dataclasses ...; whatever can be pickled
    solver : `ILQR`, `DDP`, or anything picklable whose ``solve(problem)`` returns a `Solution`
    executor : `concurrent.futures.Executor`, or `dask.distributed.Client` or its executor, optional
        By default processes started for this call, each running the dynamics in one thread (so do Dask's).
    workers : int, optional
        Number of processes or threads to start; by default one for each processor.
    threads : bool, optional
        True: threads of this process, each running the dynamics in itself alone.  They start at once, and make_problem,
        parameters and solver need not be importable or picklable; but all Python code shares one interpreter lock, so
        that they pay where most of a solve is compiled.  After Ctrl-C the solves that have begun go on unseen until
        they end.  False: processes.  By default threads where make_problem is a `ParametricProblem`, whose problems
        share calls that are prepared once, and compiled code makes the iterations of this solver; else processes: to
        prepare the calls of a problem that is made anew takes Python 5 ms or more.
    folder : path, optional
        Folder to which each result is written as it arrives.  A later call with it takes the solutions that are there
        (of the same parameter at the same index), and solves those that failed, are new or have changed.  make_problem
        is identified by its name only: choose another folder after editing it.
    attempts : int
        Number of workers that may die over one parameter before it is given up.  A given executor that breaks is not
        replaced.
    no_workers_timeout : float or None
        Seconds for which a Dask cluster may be without any worker, as one whose jobs have ended or have not begun; then
        the parameters that are left are given up, as where workers die.  None waits for workers without an end.
    progress : bool, optional
        A progress bar on stderr, or, where that is no terminal, a line now and then; by default if it is a terminal.
        It says so while there are no workers.

    Returns
    -------
    ManySolutions
        An `Outcome` for each parameter, in order, with the error that make_problem or the solver raised.

    Raises
    ------
    SolveManyInterrupted
        A KeyboardInterrupt whose `results` holds what arrived until then; also raised where the folder can no longer be
        written, as on a full disk.

    Warns
    -----
    RuntimeWarning
        For each file in the folder that is damaged, whose problem is solved again.
    """
    parameters = _checked_parameters(parameters)
    _check_executor(executor, workers, threads, attempts)
    timeout = (
        math.inf if no_workers_timeout is None else as_positive("no_workers_timeout", no_workers_timeout, "seconds")
    )
    if threads is None:
        threads = executor is None and _mostly_compiled(make_problem, solver)
    _check_work(make_problem, parameters, solver, threads or not isinstance(executor, ProcessPoolExecutor | None))
    store = None if folder is None else ResultFolder(Path(folder), make_problem, parameters, solver)

    done = {} if store is None else _known(store, parameters)
    calls = {i: (make_problem, parameter, solver) for i, parameter in enumerate(parameters) if i not in done}

    try:
        with (
            counted(progress, len(calls)) as count,
            _workers(executor, workers, threads, len(calls), timeout, count.note) as crew,
        ):
            for index, answer in answers(crew, calls, attempts):
                done[index] = _outcome(parameters[index], answer)
                if store is not None:
                    try:
                        store.write(index, answer)
                    except OSError as error:  # such as a full disk: the solutions must not be lost
                        full = _in_order(done, parameters, make_problem, store)
                        raise SolveManyInterrupted(len(done), full, f"; {store.path}: {error}") from error
                count(1)
    except SolveManyInterrupted:
        raise
    except KeyboardInterrupt:
        raise SolveManyInterrupted(len(done), _in_order(done, parameters, make_problem, store)) from None
    return _in_order(done, parameters, make_problem, store)


def load_many(folder: str | os.PathLike) -> ManySolutions:
    """Read the results that `solve_many` wrote to a folder, without the function that made the problems.

    Parameters
    ----------
    folder : path

    Returns
    -------
    ManySolutions
        An `Outcome` for each parameter of the last call, in order; its parameter is the text in the manifest, its
        error "Missing" where there is neither a solution nor an error.  Problems cannot be made again from it.

    Raises
    ------
    FileNotFoundError
        There is no manifest.
    ValueError
        The manifest is not of `solve_many`, a file is damaged, no file, or that of another parameter.
    """
    path = Path(folder)
    return ManySolutions(tuple(starmap(_read, read_folder(path))), None, path)


def _read(parameter: str, solution: Solution | None, error: str | None, traceback: str | None) -> Outcome:
    if solution is not None:
        return _solved(parameter, solution)
    return Outcome(parameter, None, error, traceback, math.nan)


def _known(store: ResultFolder, parameters: tuple[Any, ...]) -> dict[int, Outcome]:
    """Solutions of an earlier run, by index."""
    found = ((i, parameter, store.solution(i)) for i, parameter in enumerate(parameters))
    return {i: _solved(parameter, solution) for i, parameter, solution in found if solution is not None}


def _in_order(done: dict[int, Outcome], parameters: tuple[Any, ...], make_problem: Any, store: Any) -> ManySolutions:
    outcomes = tuple(done.get(i) or _failed(parameter, INTERRUPTED) for i, parameter in enumerate(parameters))
    return ManySolutions(outcomes, make_problem, None if store is None else store.path)


def _outcome(parameter: Any, answer: Answer) -> Outcome:
    return _failed(parameter, answer) if answer.stored is None else _solved(parameter, answer.stored)


def _solved(parameter: Any, solution: Solution | StoredSolution) -> Outcome:
    return Outcome(parameter, solution, None, None, seconds_of(solution))


def _failed(parameter: Any, answer: Answer) -> Outcome:
    return Outcome(parameter, None, answer.error, answer.traceback, answer.seconds)


def _checked_parameters(parameters: Any) -> tuple[Any, ...]:
    if isinstance(parameters, (str, bytes, Mapping)) or not isinstance(parameters, Iterable):
        raise TypeError(f"parameters: got {type(parameters).__name__}, expected a sequence with one item per problem")
    parameters = tuple(parameters)
    if not parameters:
        raise ValueError("parameters: got none, expected at least one")
    return parameters


def _check_executor(executor: Any, workers: int | None, threads: bool | None, attempts: int) -> None:
    as_whole_number("attempts", attempts, 1)
    if not (executor is None or isinstance(executor, Executor) or _of_dask(executor)):
        kind = type(executor).__name__
        raise TypeError(f"executor: got {kind}, expected a concurrent.futures.Executor or a dask.distributed.Client")
    if workers is not None:
        as_whole_number("workers", workers, 1)
    if threads is not None:
        as_flag("threads", threads)
    for name, value in ("workers", workers), ("threads", threads):
        if value is not None and executor is not None:
            raise ValueError(f"{name}: got {value} and an executor as well, expected one of them")


def _of_dask(executor: Any) -> tuple[Any, Mapping[str, Any]] | None:
    """The client of `distributed`, which need not be installed for this question, that an executor is or belongs to,
    and the options of its ``submit``; None for others."""
    bases = {base.__module__.partition(".")[0] for base in type(executor).__mro__}
    if "distributed" not in bases:
        return None
    if hasattr(executor, "get_executor"):
        return executor, {}
    client = getattr(executor, "_client", None)
    return None if client is None else (client, executor._kwargs)


def _check_work(make_problem: Any, parameters: tuple[Any, ...], solver: Any, unsent: bool) -> None:
    """Check what is called, and that it can be pickled, unless it stays in this process or Dask has its own ways."""
    if not callable(make_problem):
        raise TypeError(f"make_problem: got {type(make_problem).__name__}, expected a function of one parameter")
    if isinstance(solver, type) or not callable(getattr(solver, "solve", None)):
        raise TypeError(f"solver: got {solver!r}, expected a solver such as trajopt.DDP()")
    if unsent:
        return
    advice = {"make_problem": "; define it at module level, where worker processes can import it"}
    named = {"make_problem": make_problem, "solver": solver}
    named |= {f"parameters[{index}]": parameter for index, parameter in enumerate(parameters)}
    for name, value in named.items():
        try:
            pickle.dumps(value)
        except Exception as error:  # pickle raises the exceptions of the object's own methods
            raise TypeError(
                f"{name}: got {value!r}, which cannot be sent to another process ({error}){advice.get(name, '')}"
            ) from error


def _mostly_compiled(make_problem: Any, solver: Any) -> bool:
    """True if calls of all problems are prepared once, and compiled code makes the iterations of their solves."""
    if not (isinstance(make_problem, ParametricProblem) and isinstance(solver, ShootingSolver)):
        return False
    return without_python(solver, make_problem.problem)


@contextmanager
def _workers(
    executor: Any, count: int | None, threads: bool, calls: int, timeout: float, note: Callable[[str], None]
) -> Iterator[Workers]:
    """The workers, closed at the end: at once if something was raised."""
    crew: Workers
    if executor is None:
        crew = (OwnThreads if threads else OwnProcesses)(min(count or processors(), calls))
    elif (of_dask := _of_dask(executor)) is not None:
        client, options = of_dask
        crew = DaskWorkers(client, timeout, note, options)
    else:
        crew = GivenExecutor(executor)
    finished = False
    try:
        yield crew
        finished = True
    finally:
        crew.close(cancel=not finished)
