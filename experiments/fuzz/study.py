"""Fuzzed solves in worker processes; the cases and what every solution must fulfil are those of `tests.reference.fuzz`.

Warnings are errors inside.  A process that dies takes its chunk and those of the same pool along; each is then solved
in a pool of its own, and halved until the case that kills is alone.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple

from dynamics.simd import set_num_threads
from tests.reference import fuzz

CHUNK = 50


class Verdict(NamedTuple):
    """How one case ended: status, "exception" or "process died"; whatever is wrong with it."""

    seed: int
    system: str
    solver: str
    status: str
    iterations: int
    seconds: float
    complaints: tuple[str, ...]


Judge = Callable[[int], Verdict]


def judge(seed: int) -> Verdict:
    """Solve a case and check what comes out."""
    system = fuzz.SYSTEMS[seed % len(fuzz.SYSTEMS)]
    begin = time.perf_counter()
    solver = "?"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            case = fuzz.fuzz_case(seed)
            solver = type(case.solver).__name__
            solution = fuzz.run(case)
            complaints = tuple(fuzz.complaints(case, solution))
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        return Verdict(seed, system, solver, "exception", 0, time.perf_counter() - begin, (what,))
    seconds = time.perf_counter() - begin
    return Verdict(seed, system, solver, str(solution.status), solution.iterations, seconds, complaints)


def judge_all(seeds: Sequence[int], judge: Judge) -> list[Verdict]:
    """The work of one call to a process."""
    return [judge(seed) for seed in seeds]


def verdicts(seeds: Sequence[int], workers: int, judge: Judge = judge) -> Iterator[list[Verdict]]:
    """The verdicts on all cases, chunk by chunk as they arrive."""
    chunks = [seeds[i : i + CHUNK] for i in range(0, len(seeds), CHUNK)]
    lost = []
    with _pool(min(workers, len(chunks))) as pool:
        futures = {pool.submit(judge_all, chunk, judge): chunk for chunk in chunks}
        for future in as_completed(futures):
            if _died(future):
                lost.append(futures[future])
            else:
                yield future.result()
    for chunk in lost:
        yield from apart(chunk, judge)


def apart(seeds: Sequence[int], judge: Judge) -> Iterable[list[Verdict]]:
    """The verdicts on a chunk from processes of its own."""
    with _pool(1) as pool:
        future = pool.submit(judge_all, seeds, judge)
    if not _died(future):
        return [future.result()]
    if len(seeds) == 1:
        system = fuzz.SYSTEMS[seeds[0] % len(fuzz.SYSTEMS)]
        return [[Verdict(seeds[0], system, "?", "process died", 0, 0.0, ("the process died",))]]
    middle = len(seeds) // 2
    return [*apart(seeds[:middle], judge), *apart(seeds[middle:], judge)]


def _pool(workers: int) -> ProcessPoolExecutor:
    """Fresh interpreters of one thread: compiled kernels and their threads do not survive a fork."""
    return ProcessPoolExecutor(workers, get_context("spawn"), partial(set_num_threads, 1))


def _died(future: Future) -> bool:
    return isinstance(future.exception(), BrokenProcessPool)
