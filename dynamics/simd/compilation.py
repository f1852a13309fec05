"""Compile once, use always: numba decorators with a disk cache that notices every edit.

numba's own cache looks only at the file of the function itself, so a kernel would survive an edit of a helper it
inlined.  Here each file's kernels are cached under a directory named after a hash of the file *and* of every project
file it imports, directly or not.
"""

import atexit
import dis
import gc
import importlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
from numba.core import event

from dynamics.simd import shipped
from dynamics.simd.cache_folder import cache_root
from dynamics.simd.dispatchers import (
    DecisionDispatcher,
    DriverDispatcher,
    InnerDispatcher,
    KeepingDispatcher,
    SharedDispatcher,
    UnwrappedDispatcher,
)
from dynamics.simd.kernel_cache import ON_MISS, KernelCache
from dynamics.simd.llvm_events import announce_llvm_calls
from dynamics.simd.source_keys import folder_of

FLAGS = {"contract", "nsz"}
"""Floating-point freedom given to LLVM: fuse multiply and add, ignore the sign of zero.  Never reassociate: results
would depend on the vector width, and the range reduction of sincos would break."""


@cache
def _folders(file: str, folder: str) -> tuple[Path, Path | None] | None:
    """Folders in which kernels of a file are kept and shipped; None where there is none."""
    root = cache_root()
    place = None if root is None else folder_of(file)
    return None if root is None or place is None else (root / place / folder, shipped.folder(place / folder))


def _name_apart(function):
    """Name a closure after the values that it closes over.  numba distinguishes functions of one name and signature by
    a counter that restarts in each process, so that a caller could load the wrong one of two from the cache."""
    values = "".join(f"_{cell.cell_contents}" for cell in function.__closure__ or () if type(cell.cell_contents) is int)
    if not function.__qualname__.endswith(values):
        function.__qualname__ += values


def _compiled(function, kind, folder="", **options):
    if numba.config.DISABLE_JIT:
        return function
    if issubclass(kind, UnwrappedDispatcher) and dis.opmap["RAISE_VARARGS"] in function.__code__.co_code[::2]:
        raise TypeError(f"{function.__qualname__} raises or asserts; what only compiled code calls cannot")
    _name_apart(function)
    options = {"nopython": True, "fastmath": FLAGS, "error_model": "numpy", "no_cfunc_wrapper": True, **options}
    dispatcher = kind(function, targetoptions=options)
    if issubclass(kind, UnwrappedDispatcher):  # cached apart: numba identifies functions by name only
        for_python = {**options, "no_cpython_wrapper": False}
        dispatcher.wrapped = partial(_compiled, function, KeepingDispatcher, "python", **for_python)
    folders = _folders(function.__code__.co_filename, folder)
    if folders is not None:
        dispatcher.keep_in(*folders)
    return dispatcher


INLINED: Any = {"fastmath": FLAGS, "error_model": "numpy", "forceinline": True, "_nrt": False}
"""Compilation options of a helper, for overloaded functions, which numba compiles by itself."""


def helper(function: Callable[..., Any]) -> Any:
    """A small function inlined into its callers.  Like kernels and drivers it may not allocate arrays, which avoids the
    reference counting of every array it touches (half the time of a small kernel)."""
    return _compiled(function, InnerDispatcher, forceinline=True, _nrt=False, no_cpython_wrapper=True)


def decision(function: Callable[..., Any]) -> Any:
    """A function of numbers that decides what an algorithm does next, for Python, which calls it as it is, and for
    compiled code.  Nothing in it is contracted to fused operations, so that both decide alike."""
    return _compiled(
        function, DecisionDispatcher, fastmath=False, forceinline=True, _nrt=False, no_cpython_wrapper=True
    )


def kernel(function: Callable[..., Any]) -> Any:
    """One algorithm for one knot (or LANES knots): called from drivers and other kernels, and compiled into each."""
    return _compiled(function, InnerDispatcher, _nrt=False, no_cpython_wrapper=True)


def shared_kernel(function: Callable[..., Any]) -> Any:
    """A kernel compiled once for all its callers: for large kernels called a few times per knot, where a call with
    arguments in memory (about 50 ns) and the lack of inlining cost little."""
    return _compiled(function, SharedDispatcher, _nrt=False, no_cpython_wrapper=True)


def driver(function: Callable[..., Any]) -> Any:
    """A loop over a range of chunks, drive(first, last, work, ...), for `launch`, run without the interpreter lock."""
    return _compiled(function, DriverDispatcher, nogil=True, _nrt=False, no_cfunc_wrapper=False)


def routine(function: Callable[..., Any]) -> Any:
    """A compiled function for callers in Python, which may allocate its results."""
    return _compiled(function, KeepingDispatcher, nogil=True, no_cfunc_wrapper=False)


def lean_routine(function: Callable[..., Any]) -> Any:
    """A routine that allocates nothing, so that compiled functions which may not allocate can call it."""
    return _compiled(function, KeepingDispatcher, nogil=True, _nrt=False, no_cfunc_wrapper=False)


def by_address(function: Callable[..., Any]) -> Any:
    """A compiled function for prepared calls alone (`dynamics.simd.prepared_calls`), which may not allocate arrays.  It
    has no wrapper for Python, which is a third of what LLVM is given for a small function of many arrays."""
    return _compiled(
        function, UnwrappedDispatcher, nogil=True, _nrt=False, no_cfunc_wrapper=False, no_cpython_wrapper=True
    )


_COLLECTION = 100_000, 50, 100
"""Thresholds of the garbage collector while numba compiles.  Its objects live until compilation ends, so that
collecting as often as usual would take a tenth of the time."""


class _Progress(event.Listener):
    """One line on stderr once kernels have compiled for a second, and one when they are there; on a terminal the first
    is kept up to date.  Nothing where all come from the disk, or with TRAJOPT_QUIET=1."""

    SILENT, UNKNOWN = 1.0, 3.0
    """Seconds without a word, and those where it is not known yet what for."""

    def __init__(self):
        self.compiled = 0
        self._elsewhere: Callable[[], int] = lambda: 0
        self._others: Callable[[], bool] = lambda: False
        self._depth, self._start, self._spent, self._before, self._shown = 0, 0.0, 0.0, 0, False
        self._lock, self._usual = threading.Lock(), gc.get_threshold()
        self._subject: Callable[[], Any] = lambda: None
        self._doing, self._told = set[str](), False

    def subject(self, problem: Any, *doing: str) -> None:
        """What is compiled next is for this problem; `doing`: what is done with it, and may be again with the next
        one, names of solvers, and `dynamics.simd.stages`."""
        self._told = self._told and self._subject() is problem and self._doing.issuperset(doing)
        self._subject = weakref.ref(problem)
        self._doing.update(doing)

    def missed(self, function: Any) -> None:
        """A function is about to be compiled: have the others compiled, too, that will be needed with it."""
        problem = self._subject()
        if problem is None or not self._told:
            self._told = problem is not None
            ahead = importlib.import_module("dynamics.compilation.ahead")  # a layer above: it knows what that is
            ahead.compile_ahead(problem, self._doing, function)

    def on_start(self, ev):
        with self._lock:
            if self._depth == 0:
                self._usual = gc.get_threshold()
                gc.set_threshold(*_COLLECTION)
                announce_llvm_calls(False)
                self._start = time.perf_counter()
                self.compiled += 1
                self._show(ev.data["dispatcher"].py_func.__name__.strip("_"))
            self._depth += 1

    def on_end(self, ev):
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                gc.set_threshold(*self._usual)
                announce_llvm_calls(True)
                self._spent, self._start = self._passed(), 0.0
                self._show("")

    def expect(self, kernels: int, seconds: float, elsewhere: Callable[[], int], others: Callable[[], bool]) -> None:
        """Say how much is going to be compiled: so many kernels in about so many seconds, of which other processes
        have compiled `elsewhere()`, as long as `others()` is true."""
        self._elsewhere, self._others = elsewhere, others
        if seconds > self.SILENT:
            self._announce(f": {kernels} kernels, about {seconds:.0f} s", "; `trajopt compile` makes all listed ones")

    def _announce(self, about="", advice=""):
        if self._shown or sys.stderr is None or os.environ.get("TRAJOPT_QUIET") == "1":
            return
        self._shown, name = True, getattr(self._subject(), "name", "")
        named = isinstance(name, str) and name.isprintable() and name not in ("", "problem")  # the default
        what = f" for {name}" if named else ""
        reason = f" ({shipped.misfit()})" if shipped.misfit() else ""
        line = f"compiling kernels{what}, once on this computer{about}{reason}{advice}"
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def _passed(self):
        """Seconds in which this process has compiled, or waited for another one that did."""
        waited, KernelCache.waited = KernelCache.waited, 0.0
        self._spent += waited
        return self._spent + (time.perf_counter() - self._start if self._start else 0.0)

    def _show(self, name):
        passed = self._passed()
        if passed > (self.SILENT if self._subject() is not None else self.UNKNOWN):
            self._announce()
        if self._shown and sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write(f"\r{self._done()} compiled, {passed:.0f} s  {name[:36]:36s}")
            sys.stderr.flush()

    def finish(self, at_exit=False):
        """Close the line, if there is one and nobody else is at work: called where what was asked for is done."""
        if self._shown and sys.stderr is not None:
            clear, closed = "\r" + 60 * " " + "\r", at_exit or not self._others()
            with suppress(OSError, ValueError):  # closed at the end of the process
                sys.stderr.write(clear if sys.stderr.isatty() else "")
                sys.stderr.write(f"kernels compiled in {self._passed():.0f} s\n" if closed else "")
                sys.stderr.flush()
            self._shown = not closed
        if not self._shown:
            self._spent, self._before, self._elsewhere = 0.0, self.compiled, lambda: 0

    def _done(self):
        return self.compiled - self._before + self._elsewhere()


PROGRESS = _Progress()
ON_MISS.append(PROGRESS.missed)
atexit.register(PROGRESS.finish, True)
event.register("numba:compile", PROGRESS)
