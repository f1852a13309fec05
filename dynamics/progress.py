"""Progress bars on stderr, for both packages."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

LINES = 20
"""Largest number of lines of progress, where it is shown as lines."""


def progress_bar(*columns: Any, transient: bool = False) -> "Progress":
    """A progress bar of rich.  In a notebook it is a line of text that is overwritten, as in a terminal: rich itself
    would need widgets there, and show nothing without them."""
    from rich.console import Console
    from rich.progress import Progress

    notebook = "ipykernel" in sys.modules
    console = Console(stderr=True, force_jupyter=False, force_terminal=True if notebook else None)
    return Progress(*columns, console=console, transient=transient)


class SolvedCount:
    """Counts problems as solved, and says what they wait for."""

    def __call__(self, more: int) -> None:
        """So many more are solved."""

    def note(self, text: str) -> None:
        """Say what they wait for, until the next one is solved; "" for nothing."""


class _Lines(SolvedCount):
    """On stderr where it is no terminal: a line now and then."""

    def __init__(self, total: int, what: str) -> None:
        self._count, self._total, self._what, self._text = 0, total, what, ""

    def __call__(self, more: int) -> None:
        before, self._count, total = self._count, self._count + more, self._total
        if self._count > before:
            self._text = ""
            if self._count == total or self._count * LINES // total > before * LINES // total:
                self._write("")

    def note(self, text: str) -> None:
        if text and text != self._text:
            self._write(f": {text}")
        self._text = text

    def _write(self, ending: str) -> None:
        sys.stderr.write(f"{self._what} {self._count}/{self._total}{ending}\n")
        sys.stderr.flush()


class _Bar(SolvedCount):
    """A progress bar."""

    def __init__(self, bar: "Progress", total: int, what: str) -> None:
        self._bar, self._task, self._what = bar, bar.add_task(what, total=total), what

    def __call__(self, more: int) -> None:
        self._bar.update(self._task, advance=more, description=self._what)

    def note(self, text: str) -> None:
        self._bar.update(self._task, description=f"{self._what} ({text})" if text else self._what)


@contextmanager
def counted(wanted: bool | None, total: int, what: str = "solving") -> Iterator[SolvedCount]:
    """A count of the problems that are solved, or of other things that are done, on a progress bar or, where stderr is
    no terminal, by a line now and then; wanted: by default if it is a terminal."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield SolvedCount()
        return
    if not sys.stderr.isatty():
        yield _Lines(total, what)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with progress_bar(*columns, transient=True) as bar:
        yield _Bar(bar, total, what)
