"""Results that print as a table."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


class PrintedAsTable:
    """Base of results with a `table()`: plain text for ``print``, the table itself for a rich console."""

    def table(self) -> "Table":
        """The table."""
        raise NotImplementedError

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=100, color_system=None)
        with console.capture() as capture:
            console.print(self.table())
        return capture.get().rstrip()

    def __rich__(self) -> "Table":
        return self.table()
