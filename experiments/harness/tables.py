"""The tables that experiments print."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

NONE = "-"
"""Where there is no number."""


def table(
    title: str,
    left: Sequence[str],
    right: Sequence[str],
    sections: Iterable[Iterable[Sequence[Any]]],
    folded: Sequence[str] = (),
    caption: str | None = None,
) -> Table:
    """Columns of text, of figures and of text that may take several lines; rows by sections, entries as `cell` does."""
    result = _empty(title, caption=caption)
    for heading in left:
        result.add_column(escape(heading), no_wrap=True)
    for heading in right:
        result.add_column(escape(heading), justify="right", no_wrap=True)
    for heading in folded:
        result.add_column(escape(heading), overflow="fold")
    for rows in sections:
        for row in rows:
            result.add_row(*map(cell, row))
        result.add_section()
    return result


def _empty(title: str, **other: Any) -> Table:
    """The look of all tables."""
    return Table(title=escape(title), box=SIMPLE_HEAD, show_edge=False, **other)


def records(title: str, rows: Sequence[Mapping[str, Any]], headings: Mapping[str, str] | None = None) -> Table:
    """A row per record and a column per key of the first, those of text being left-aligned.

    Parameters: headings, key -> heading, where not all keys are shown, or not as they are.
    """
    headings = {key: key for key in rows[0]} if headings is None else headings
    result = _empty(title)
    for key, heading in headings.items():
        result.add_column(escape(heading), justify="left" if isinstance(rows[0][key], str) else "right")
    for row in rows:
        result.add_row(*(cell(row.get(key)) for key in headings))
    return result


def cell(value: Any, form: str = "#.3g") -> str:
    """Text as it is, numbers that are no integers in this form, None as a dash."""
    if value is None:
        return NONE
    return format(value, form).rstrip(".") if isinstance(value, float) else str(value)
