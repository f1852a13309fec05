"""A peer in a process of its own, where it may crash, abort or hang: why it gave no answer is then a result too.

Loops of other libraries are compiled and cannot be asked to stop, and an assertion that fails in one ends its process.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

START_SECONDS, END_SECONDS = 120.0, 10.0
"""Largest time until a peer has been made, imports included, and until a process whose line is closed has ended."""


class PeerLost(Exception):
    """A peer gave no answer; the message is the status of a row: "out of time", "died: SIGABRT", "raised: ..."."""


class PeerProcess:
    """A peer that answers questions in a process of its own; `with` ends the process.

    The process starts with the first question, and again with the first one after it was lost.

    Parameters
    ----------
    make : called in the process, returns the function that answers; it is looked up by its name there, as `pickle` does
    arguments : of `make`, whatever can be pickled
    """

    def __init__(self, make: Callable[..., Callable[..., Any]], *arguments: Any) -> None:
        self._make, self._arguments = make, arguments
        self._process: Any = None
        self._line: Any = None

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, *question: Any, seconds: float) -> Any:
        """The answer to a question, which are arguments of the function that `make` returned.

        Raises PeerLost if there is none after so many seconds, if the process has died, and for what the peer raises.
        """
        if self._process is None:
            self._start()
        with suppress(OSError):  # of a process that has died since: it is told below
            self._line.send(question)
        return self._answer(seconds)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._line.close()
            self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # compiled kernels and their threads do not survive a fork
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._make, self._arguments), daemon=True)
        self._process.start()
        theirs.close()  # so that the line ends when the process does
        try:
            self._answer(START_SECONDS)
        except PeerLost:
            self.close()
            raise

    def _answer(self, seconds: float) -> Any:
        try:
            if not self._line.poll(seconds):
                self.close()
                raise PeerLost("out of time")
            answer, complaint = self._line.recv()
        except (EOFError, ConnectionError):
            self._process.join(END_SECONDS)
            code = self._process.exitcode
            self.close()
            how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
            raise PeerLost(f"died: {how}") from None
        if complaint is not None:
            raise PeerLost(f"raised: {complaint}")
        return answer


def _serve(line: Connection, make: Callable[..., Callable[..., Any]], arguments: tuple) -> None:
    """In the other process: make the peer, and answer what comes along the line until it is closed."""
    function, complaint = _tried(make, arguments)
    line.send((None, complaint))
    with suppress(EOFError):
        while complaint is None:
            line.send(_tried(function, line.recv()))


def _tried(function: Callable[..., Any], arguments: tuple) -> tuple[Any, str | None]:
    """What a call returns, or None and what it raises."""
    try:
        return function(*arguments), None
    except Exception as error:
        return None, " ".join(f"{type(error).__name__}: {error}".split())
