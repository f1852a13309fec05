"""`solve_many`: one problem for each parameter, solved by many workers; results are kept as they arrive, and a stopped
run is continued."""

import math
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from itertools import starmap
from pathlib import Path
from typing import Any

from dynamics.validation import as_whole_number
from trajopt.batch.folder import ResultFolder, read_folder
from trajopt.batch.outcomes import ManySolutions, Outcome, SolveManyInterrupted
from trajopt.batch.work import Answer
from trajopt.batch.workers import DaskWorkers, GivenExecutor, OwnProcesses, Workers, answers
from trajopt.problem.problem import Problem
from trajopt.results.results_files import load_solution
from trajopt.results.solution import Solution

LINES = 20
"""Largest number of lines of progress, where it is shown as lines."""
INTERRUPTED = Answer(None, "Interrupted: the call of solve_many was, before this problem was solved", None, math.nan)


def solve_many(
    make_problem: Callable[[Any], Problem],
    parameters: Iterable[Any],
    solver: Any,
    *,
    executor: Any = None,
    workers: int | None = None,
    folder: str | os.PathLike | None = None,
    attempts: int = 3,
    progress: bool | None = None,
) -> ManySolutions:
    """Solve many problems at once, with the same results, bit for bit, as ``solver.solve(make_problem(parameter))``.

    Parameters
    ----------
    make_problem : function of a parameter that returns a `Problem`
        At the top level of a module, so that other processes can import it, or a `functools.partial` of such a one.
    parameters : sequence of numbers, text, tuples, dicts, arrays, dataclasses ...; whatever can be pickled
    solver : `ILQR`, `DDP`, or anything picklable whose ``solve(problem)`` returns a `Solution`
    executor : `concurrent.futures.Executor` or `dask.distributed.Client`, optional
        By default processes started for this call, each running the dynamics in one thread (so do Dask's).
    workers : int, optional
        Number of processes to start; by default one for each processor.
    folder : path, optional
        Folder to which each result is written as it arrives.  A later call with it takes the solutions that are there
        (of the same parameter at the same index), and solves those that failed, are new or have changed.  make_problem
        is identified by its name only: choose another folder after editing it.
    attempts : int
        Number of workers that may die over one parameter before it is given up.  A given executor that breaks is not
        replaced.
    progress : bool, optional
        A progress bar on stderr, or, where that is no terminal, a line now and then; by default if it is a terminal.

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
    _check_executor(executor, workers, attempts)
    _check_work(make_problem, parameters, solver, executor)
    store = None if folder is None else ResultFolder(Path(folder), make_problem, parameters, solver)

    done = {} if store is None else _known(store, parameters)
    calls = {i: (make_problem, parameter, solver) for i, parameter in enumerate(parameters) if i not in done}

    try:
        with _workers(executor, workers, len(calls)) as crew, _progress_bar(progress, len(calls)) as advance:
            for index, answer in answers(crew, calls, attempts):
                done[index] = _outcome(parameters[index], answer)
                if store is not None:
                    try:
                        store.write(index, answer)
                    except OSError as error:  # such as a full disk: the solutions must not be lost
                        full = _in_order(done, parameters, make_problem, store)
                        raise SolveManyInterrupted(len(done), full, f"; {store.path}: {error}") from error
                advance()
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
        The manifest is not of `solve_many`, or a file is damaged.
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
    if answer.file is None:
        return _failed(parameter, answer)
    return _solved(parameter, load_solution(Solution, BytesIO(answer.file)))


def _solved(parameter: Any, solution: Solution) -> Outcome:
    return Outcome(parameter, solution, None, None, solution.timings.get("total", math.nan))


def _failed(parameter: Any, answer: Answer) -> Outcome:
    return Outcome(parameter, None, answer.error, answer.traceback, answer.seconds)


def _checked_parameters(parameters: Any) -> tuple[Any, ...]:
    if isinstance(parameters, (str, bytes, Mapping)) or not isinstance(parameters, Iterable):
        raise TypeError(f"parameters: got {type(parameters).__name__}, expected a sequence with one item per problem")
    parameters = tuple(parameters)
    if not parameters:
        raise ValueError("parameters: got none, expected at least one")
    return parameters


def _check_executor(executor: Any, workers: int | None, attempts: int) -> None:
    as_whole_number("attempts", attempts, 1)
    if not (executor is None or isinstance(executor, Executor) or _is_dask(executor)):
        kind = type(executor).__name__
        raise TypeError(f"executor: got {kind}, expected a concurrent.futures.Executor or a dask.distributed.Client")
    if workers is None:
        return
    as_whole_number("workers", workers, 1)
    if executor is not None:
        raise ValueError(f"workers: got {workers} and an executor as well, expected one of them")


def _is_dask(executor: Any) -> bool:
    """True for a client of `distributed`, which need not be installed for this question."""
    bases = {base.__module__.partition(".")[0] for base in type(executor).__mro__}
    return "distributed" in bases and hasattr(executor, "get_executor")


def _check_work(make_problem: Any, parameters: tuple[Any, ...], solver: Any, executor: Any) -> None:
    if not callable(make_problem):
        raise TypeError(f"make_problem: got {type(make_problem).__name__}, expected a function of one parameter")
    if isinstance(solver, type) or not callable(getattr(solver, "solve", None)):
        raise TypeError(f"solver: got {solver!r}, expected a solver such as trajopt.DDP()")
    if executor is not None and not isinstance(executor, ProcessPoolExecutor):
        return  # threads need no pickle, and Dask has its own ways
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


@contextmanager
def _workers(executor: Any, count: int | None, calls: int) -> Iterator[Workers]:
    """The workers, closed at the end: at once if something was raised."""
    crew: Workers
    if executor is None:
        crew = OwnProcesses(min(count or _processors(), calls))
    elif isinstance(executor, Executor):
        crew = GivenExecutor(executor)
    else:
        crew = DaskWorkers(executor)
    finished = False
    try:
        yield crew
        finished = True
    finally:
        crew.close(cancel=not finished)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _progress_bar(wanted: bool | None, total: int) -> Iterator[Callable[[], None]]:
    """A function that counts one more solved problem."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda: None
        return
    if not sys.stderr.isatty():
        count = 0

        def line() -> None:
            nonlocal count
            count += 1
            if count == total or count * LINES // total > (count - 1) * LINES // total:
                sys.stderr.write(f"solving {count}/{total}\n")
                sys.stderr.flush()

        yield line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    from dynamics.progress import progress_bar

    columns = TextColumn("solving"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with progress_bar(*columns, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda: bar.advance(task)
