"""numba's events before and after every call of LLVM, thousands in a process: 6 % of the time to compile, a sixth of a
first solve whose kernels come from the disk.  Both are done without them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from llvmlite.binding import ffi

CALLBACKS: tuple[Any, ...] = tuple(getattr(getattr(ffi.lib, "_lock", None), "_cblist", ()))
"""Pairs of functions that numba has called before and after."""
_lock, _silent = threading.Lock(), 0


def announce_llvm_calls(wanted: bool) -> None:
    """Switch the events off, or on again as often as they were switched off."""
    global _silent
    with _lock:
        before, _silent = _silent, _silent + (-1 if wanted else 1)
        if before > 0 and _silent > 0:
            return
        change = ffi.register_lock_callback if wanted else ffi.unregister_lock_callback
        for enter, leave in CALLBACKS:
            with suppress(ValueError):  # another listener has removed them
                change(enter, leave)


@contextmanager
def without_llvm_events() -> Iterator[None]:
    """Without events."""
    announce_llvm_calls(False)
    try:
        yield
    finally:
        announce_llvm_calls(True)
