"""Objects that print as a table: as text in terminals, as HTML in notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from dynamics.printed import printable

if TYPE_CHECKING:
    from rich.table import Table


class PrintedAsTable:
    """Base of what has a `table()`: plain text for ``print``, the table for rich consoles, HTML in notebooks."""

    def table(self) -> Table:
        """The table."""
        raise NotImplementedError

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=100, color_system=None, force_jupyter=False)
        with console.capture() as capture:
            console.print(self.table())
        return "\n".join(line.rstrip() for line in capture.get().rstrip().splitlines())

    def __rich__(self) -> Table:
        return self.table()

    def _repr_html_(self) -> str:
        return as_html(self.table())


def new_table(title: str, caption: str = "", header: bool = True) -> Table:
    """An empty table without room to spare, under this title.  In title and caption brackets are no marks; in them and
    in text that rows are made of, control characters are written out."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape

    width = min(len(title), 100)  # titles are wrapped to that of the table
    look = {"box": SIMPLE_HEAD, "show_edge": False, "padding": 0, "show_header": header, "min_width": width}
    title, caption = escape(printable(title)), escape(printable(caption))
    return _table_class()(title=title, caption=caption, title_justify="left", caption_justify="left", **look)


@cache
def _table_class() -> type[Table]:
    """A table whose rows are printable."""
    from rich.table import Table

    class PrintableTable(Table):
        """A table whose rows are printable."""

        def add_column(self, header: Any = "", *rest: Any, **options: Any) -> None:
            super().add_column(_printable(header), *rest, **options)

        def add_row(self, *cells: Any, **options: Any) -> None:
            super().add_row(*map(_printable, cells), **options)

    return PrintableTable


def _printable(cell: Any) -> Any:
    return printable(cell) if isinstance(cell, str) else cell


def as_html(table: Table) -> str:
    """A table as HTML that takes its colours from the page around it; what is marked in a terminal is bold."""
    left = "text-align:left"
    parts = ["<table>"]
    if table.title:
        parts.append(f'<caption style="{left};color:inherit;font-weight:bold">{_cell(table.title)}</caption>')
    aligned = [f"text-align:{column.justify}" for column in table.columns]
    if table.show_header:
        heads = (_cell(column.header).replace("-<br>", "").replace("<br>", " ") for column in table.columns)
        parts.append(_row("th", heads, aligned))
    rows = zip(*(column.cells for column in table.columns), strict=True)
    parts += [_row("td", map(_cell, row), aligned) for row in rows]
    if table.caption:
        style = f"{left};font-style:italic"
        parts.append(f'<tr><td colspan="{len(aligned)}" style="{style}">{_cell(table.caption)}</td></tr>')
    return "\n".join([*parts, "</table>"])


def _row(tag: str, cells: Iterable[str], aligned: list[str]) -> str:
    shown = (f'<{tag} style="{style}">{cell}</{tag}>' for cell, style in zip(cells, aligned, strict=True))
    return f"<tr>{''.join(shown)}</tr>"


def _cell(content: Any) -> str:
    """What a cell holds: text with marks of rich, or a Text of it."""
    from rich.text import Text

    text = Text.from_markup(content) if isinstance(content, str) else content
    shown = escape(text.plain).replace("\n", "<br>")
    return f"<strong>{shown}</strong>" if text.spans else shown
