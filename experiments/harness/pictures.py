"""What the pictures of experiments share: panels, one look for the i-th of several, bars in groups, and legends."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from trajopt.plotting.style import COLORS, DASHES, new_figure, tidy

Row = dict[str, Any]
OVER_LINES = {"facecolor": "white", "framealpha": 0.9, "edgecolor": "none", "fontsize": 8}
"""A legend within the panel that hides what is behind it."""


def look(i: int, **other: Any) -> dict[str, Any]:
    """Colour and dashes of the i-th line."""
    return {"color": COLORS[i % len(COLORS)], "linestyle": DASHES[i % len(DASHES)], **other}


def panels(count: int, columns: int, width: float, height: float, extra: float = 0.0, **sharing: Any) -> tuple:
    """A figure and its first `count` axes of rows with so many columns, each of this size in inches.

    Parameters: extra, inches for what is below; sharing, arguments of `subplots`.
    """
    rows = -(-count // columns)
    figure = new_figure(width * columns, height * rows + extra)
    axes = figure.subplots(rows, columns, squeeze=False, **sharing).ravel()
    for unused in axes[count:]:
        unused.set_visible(False)
    return figure, axes[:count]


def side_by_side(*draws: Callable[[Axes], None]) -> Figure:
    """A figure with a panel for every call, which draws into it."""
    figure, axes = panels(len(draws), len(draws), 5.4, 4.2)
    for panel, draw in zip(axes, draws, strict=True):
        draw(panel)
    return figure


def title(axes: Axes, text: str) -> None:
    """Above a panel; names of problems without their underscores."""
    axes.set_title(text.replace("_", " "), fontsize=11)


def line(label: str, **style: Any) -> Line2D:
    """An entry of a legend."""
    return Line2D([], [], label=label, **style)


def legend_below(figure: Figure, handles: Sequence[Any], columns: int | None = None) -> None:
    """One legend for all panels."""
    columns = len(handles) if columns is None else columns
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)


def grouped_bars(
    axes: Axes, rows: Sequence[Row], group: str, label: str, value: Callable[[Row], float], horizontal: bool = False
) -> list[Any]:
    """A group of bars for each of the rows' values of `group`, in it a bar for every one of `label`; the bars."""
    groups, labels = (list(dict.fromkeys(row[key] for row in rows)) for key in (group, label))
    width, drawn = 0.8 / len(labels), []
    for i, name in enumerate(labels):
        own = [row for row in rows if row[label] == name]
        places = [groups.index(row[group]) + (i - 0.5 * (len(labels) - 1)) * width for row in own]
        style = {"label": name, "color": COLORS[i % len(COLORS)]}
        drawn.append((axes.barh if horizontal else axes.bar)(places, [*map(value, own)], 0.92 * width, **style))
    (axes.set_yticks if horizontal else axes.set_xticks)(range(len(groups)), groups)
    return drawn


def lines(
    axes: Axes, series: Mapping[str, tuple[Sequence[float], Sequence[float]]], xlabel: str, ylabel: str, heading: str
) -> None:
    """Values over a logarithmic axis, label -> (x, y), with markers."""
    for i, (label, (x, y)) in enumerate(series.items()):
        axes.semilogx(x, y, marker=".", label=label, **look(i, linewidth=1.4))
    tidy(axes, xlabel, ylabel)
    title(axes, heading)
