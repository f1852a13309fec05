"""What a problem will need is compiled ahead by other processes, into the same cache, while the first one goes on.

    compile_ahead(problem)      when a process has to compile for a problem
    Workers(indices, count)     functions of the manifest, as `trajopt compile` has them compiled

A process that has to compile looks up what the problem will need besides (`dynamics.compilation.manifest`).  Is that
more than a little, it starts workers, which go through the list in its order and leave out what is there or is being
compiled by another process.  A process that needs a function that another one is compiling waits for it
(`kernel_cache.Claim`), and compiles for itself what nobody has begun, so that it never waits for more than one
function.  Workers end with the process that has started them, after the function that they are at.

TRAJOPT_COMPILE_PROCESSES is the number of workers, 0 for none; by default that of processors, at most 8.
"""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from multiprocessing import parent_process
from typing import Any

from dynamics.simd import kernel_cache
from dynamics.simd.compilation import PROGRESS
from dynamics.simd.kernel_cache import KernelCache

VARIABLE = "TRAJOPT_COMPILE_PROCESSES"
MOST = 8
"""Workers by default, at most."""
LITTLE = 2.0
"""Seconds of compilation for which no worker is started."""
_SCRIPT = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from dynamics.compilation.ahead import work; work()"


def worker_count() -> int:
    """How many workers may compile; raises ValueError if TRAJOPT_COMPILE_PROCESSES is not a whole number."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return min(os.cpu_count() or 1, MOST)
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
        task = json.dumps(list(indices)) + "\n"
        command = [sys.executable, "-c", _SCRIPT, json.dumps(sys.path)]
        self._processes = []
        for _ in range(min(count, len(indices))):
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                env={**os.environ, VARIABLE: "0"}, start_new_session=True,
            )  # fmt: skip
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.write(task)
                process.stdin.flush()
            self._processes.append(process)
        self._threads = [threading.Thread(target=self._read, args=(p,), daemon=True) for p in self._processes]
        for thread in self._threads:
            thread.start()

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
    """What a worker does: compile the entries whose numbers it reads, until its input ends; prints how many entries
    each step has brought, and what failed."""
    from dynamics.compilation.manifest import manifest

    left, answers = json.loads(sys.stdin.readline()), os.fdopen(os.dup(1), "w")
    sys.stdout = sys.stderr
    ended = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    entries = manifest().entries
    for i in left:
        if ended.is_set():
            os._exit(0)
        done, error = compile_entry(entries[i])
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
_BEGUN: dict[frozenset[str], Workers | None] = {}
_BUSY = threading.local()


def compile_ahead(problem: Any) -> None:
    """Start workers for what a problem will need, if that is more than a little; once for problems of one kind."""
    if getattr(_BUSY, "now", False) or kernel_cache.fcntl is None or not sys.executable or parent_process() is not None:
        return  # workers of `multiprocessing` are several already, and compile each function once
    _BUSY.now = True  # what is looked at here is compiled by nobody
    try:
        from dynamics.compilation.manifest import features_of, manifest

        features, count = features_of(*vars(problem).values()), worker_count()
        if not count or any(features <= known for known in _BEGUN):
            return
        _BEGUN[features] = None
        wanted = missing(manifest().numbered(features))
        seconds = sum(entry.seconds for _, entry in wanted)
        if seconds > LITTLE:
            workers = _BEGUN[features] = Workers([i for i, _ in wanted], count)
            seconds /= 1.0 + 0.8 * (count - 1.0)
            PROGRESS.expect(len(wanted), seconds, lambda: workers.finished, lambda: workers.running)
    finally:
        _BUSY.now = False
