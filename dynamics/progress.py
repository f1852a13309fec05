"""Progress bars on stderr, for both packages."""

import sys
from typing import Any

from rich.console import Console
from rich.progress import Progress


def progress_bar(*columns: Any, transient: bool = False) -> Progress:
    """A progress bar of rich.  In a notebook it is a line of text that is overwritten, as in a terminal: rich itself
    would need widgets there, and show nothing without them."""
    notebook = "ipykernel" in sys.modules
    console = Console(stderr=True, force_jupyter=False, force_terminal=True if notebook else None)
    return Progress(*columns, console=console, transient=transient)
