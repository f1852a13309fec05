"""Progress bars on stderr, for both packages."""

import sys
from collections.abc import Callable, Iterator
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


@contextmanager
def counted(wanted: bool | None, total: int) -> Iterator[Callable[[int], None]]:
    """A function that counts so many more problems as solved, on a progress bar or, where stderr is no terminal, by a
    line now and then; wanted: by default if it is a terminal."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda more: None
        return
    if not sys.stderr.isatty():
        count = 0

        def line(more: int) -> None:
            nonlocal count
            before, count = count, count + more
            if count > before and (count == total or count * LINES // total > before * LINES // total):
                sys.stderr.write(f"solving {count}/{total}\n")
                sys.stderr.flush()

        yield line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = TextColumn("solving"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with progress_bar(*columns, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda more: bar.advance(task, more)
