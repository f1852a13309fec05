"""What a problem will need is compiled ahead by other processes, into the same cache, while the first one goes on.

    compile_ahead(problem, doing, function)    when a process has to compile a function
    Workers(indices, count)                    functions of the manifest, as `trajopt compile` has them compiled

A process that has to compile looks up what will be needed besides (`dynamics.compilation.manifest`): for the problem
and the solver that is at work, then for other solvers, and what else is done with plans; before there is a problem,
as where a robot's rest is computed, what all problems need that need this function.  Is that more than a little, it
starts workers, which go through the list in its order and leave out what is there or is being compiled by another
process; once it knows more it gives them another list.  A process that needs a function that another one is compiling
waits for it (`kernel_cache.Claim`), and compiles for itself what nobody has begun, so that it never waits for more than
one function.  Workers end with the process that has started them, after the function that they are at.

TRAJOPT_COMPILE_PROCESSES is the number of workers, 0 for none; by default all processes that compile are as many as
processors, at most 8.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from multiprocessing import parent_process
from typing import Any

from dynamics.compilation import SOLVERS, STAGES
from dynamics.simd import kernel_cache
from dynamics.simd.compilation import PROGRESS
from dynamics.simd.kernel_cache import KernelCache

VARIABLE = "TRAJOPT_COMPILE_PROCESSES"
MOST = 8
"""Processes that compile by default, at most."""
LITTLE = 2.0
"""Seconds of compilation for which no worker is started."""
_SCRIPT = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from dynamics.compilation.ahead import work; work()"


def worker_count(beside: int = 0) -> int:
    """How many workers may compile, beside so many processes that do; raises ValueError if TRAJOPT_COMPILE_PROCESSES is
    not a whole number."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return max(min(os.cpu_count() or 1, MOST) - beside, 1)
    if not text.isdecimal():
        raise ValueError(f"{VARIABLE}: got {text!r}, expected a whole number, 0 for no other processes")
    return int(text)


# ------------------------------------------------------------------------------------------------ workers
class Workers:
    """Processes that compile entries of the manifest; `finished` counts those that were.

    `watch(1)` is called for each, by one thread of this process at a time."""

    def __init__(self, indices: Sequence[int], count: int, watch: Callable[[int], object] | None = None) -> None:
        import subprocess  # only where something has to be compiled

        self.finished, self.failed = 0, []
        self._watch, self._lock = watch, threading.Lock()
        command = [sys.executable, "-c", _SCRIPT, json.dumps(sys.path)]
        self._processes = []
        for _ in range(min(count, len(indices))):
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                env={**os.environ, VARIABLE: "0"}, start_new_session=True,
            )  # fmt: skip
            self._processes.append(process)
        self.give(indices)
        self._threads = [threading.Thread(target=self._read, args=(p,), daemon=True) for p in self._processes]
        for thread in self._threads:
            thread.start()

    def give(self, indices: Sequence[int]) -> None:
        """Have these compiled in place of what is left of others; nothing if they have come to an end."""
        task = json.dumps(list(indices)) + "\n"
        for process in self._processes:
            with suppress(OSError):
                process.stdin.write(task)
                process.stdin.flush()

    def _read(self, process: Any) -> None:
        with suppress(ValueError, OSError):
            for line in process.stdout:
                done, _, error = line.rstrip("\n").partition(" ")
                with self._lock:
                    self.finished += int(done)
                    if error:
                        self.failed.append(error)
                    if self._watch is not None and int(done):
                        self._watch(1)
        process.stdout.close()
        process.wait()

    def wait(self) -> None:
        """Until all of them have ended; an exception, as KeyboardInterrupt, ends them."""
        try:
            for thread in self._threads:
                while thread.is_alive():
                    thread.join(0.2)
        finally:
            self.close()

    def close(self) -> None:
        """Let them end after the functions that they are at."""
        for process in self._processes:
            with suppress(OSError):
                process.stdin.close()

    @property
    def running(self) -> bool:
        """Whether one is at work."""
        return any(thread.is_alive() for thread in self._threads)


def work() -> None:
    """What a worker does: compile the entries whose numbers it reads, of the last list that has come, until it has done
    so or its input ends; prints how many entries each step has brought, and what failed."""
    from dynamics.compilation.manifest import manifest

    lists, answers = [json.loads(sys.stdin.readline())], os.fdopen(os.dup(1), "w")
    sys.stdout = sys.stderr
    ended = threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            lists.append(json.loads(line))
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    entries, left = manifest().entries, []
    while not ended.is_set():
        while lists:
            left = lists.pop(0)
        if not left:
            break
        done, error = compile_entry(entries[left.pop(0)])
        with suppress(OSError):
            print(int(done), error, file=answers, flush=True)
    os._exit(0)  # without taking apart what was compiled


def compile_entry(entry: Any) -> tuple[bool, str]:
    """Whether a function was compiled here, and why it could not be; neither if it is there or another process is at
    it."""
    try:
        function, types = entry.function, entry.arguments
        cache = function._cache
        if not isinstance(cache, KernelCache) or cache.present_or_claimed(types, function.targetctx):
            return False, ""
        function.compile(types)
    except Exception as error:  # numba raises anything; the process that needs the function will say it
        return False, f"{entry.module}.{entry.name}: {type(error).__name__}: {error}".partition("\n")[0]
    return True, ""


def missing(entries: Iterable[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """Of numbered entries those that are not on the disk, and that there are functions for."""
    found = []
    for i, entry in entries:
        with suppress(AttributeError, ImportError):
            function = entry.function
            cache = function._cache
            if isinstance(cache, KernelCache) and not cache.present(entry.arguments, function.targetctx):
                found.append((i, entry))
    return found


# ------------------------------------------------------------------------------------------------ ahead of a problem
_BUSY = threading.local()
_known: list[frozenset[str]] = []
"""Features for which lists have been made."""
_workers: Workers | None = None


def compile_ahead(problem: Any, doing: Iterable[str] = (), function: Any = None) -> None:
    """Start workers for what a problem will need, if that is more than a little, or give them another list; once for
    problems of one kind, and for what is done with them.

    problem : Problem, or None where there is none yet: what all problems need that need the function
    doing : names of solvers and stages (`dynamics.compilation`)
    function : function of Python that is about to be compiled
    """
    if getattr(_BUSY, "now", False) or kernel_cache.fcntl is None or not sys.executable or parent_process() is not None:
        return  # workers of `multiprocessing` are several already, and compile each function once
    _BUSY.now = True  # what is looked at here is compiled by nobody
    try:
        count = worker_count(beside=1)
        if count:
            _look_ahead(problem, frozenset(doing), function, count)
    finally:
        _BUSY.now = False


def _look_ahead(problem: Any, doing: frozenset[str], function: Any, count: int) -> None:
    global _workers
    from dynamics.compilation.manifest import features_of, manifest

    listed = manifest()
    if problem is None:
        features = expected = all_of_it = listed.kind_of(function.__module__, function.__qualname__)
    else:
        features = features_of(*vars(problem).values()) | doing
        expected = features if features & SOLVERS else features | SOLVERS  # some solver will be used
        all_of_it = features | SOLVERS | STAGES
    if any(features <= known for known in _known):
        return
    _known.append(features)
    absent = dict(missing(listed.numbered(all_of_it)))
    at_once, soon = ([i for i, entry in absent.items() if entry.needed(x)] for x in (features, expected))
    seconds = sum(absent[i].seconds for i in soon)
    if seconds <= LITTLE:
        return
    order, workers = list(dict.fromkeys([*at_once, *soon, *absent])), _workers
    if workers is not None and workers.running:
        workers.give(order)
    else:
        workers = _workers = Workers(order, count)
    if problem is not None:
        seconds /= 1.0 + 0.6 * count
        PROGRESS.expect(len(soon), seconds, lambda: workers.finished, lambda: workers.running)
