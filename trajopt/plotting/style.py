"""Common style of the figures, which use no global state of matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from trajopt.results.solution import Solution

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")
"""Okabe and Ito's palette, distinguishable without red-green vision."""
DASHES = ("-", (0, (4, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (8, 3)))
GREY, TARGET = "0.55", COLORS[2]
"""Colours of all that is no part of a solution, such as limits and scenery; and of targets."""
DPI = 130
LONE = "solution"
"""Name of a solution without one."""
FEASIBLE = 1e-6
"""Largest violation and gap of a solution that counts as feasible though it did not converge."""


class _ShownFigure(Figure):
    """A figure that notebooks show as the value of a cell, once, with pyplot and without; pyplot does not know it, so
    that it is not kept in memory."""

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        self.savefig(picture, format="png", dpi=DPI)
        return picture.getvalue()


def new_figure(width: float, height: float) -> Figure:
    """A figure with an Agg canvas, independent of pyplot and of any display."""
    figure = _ShownFigure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def literal(name: str) -> str:
    """A user's name as matplotlib shows it letter by letter: dollars do not start mathematics, and halves of surrogate
    pairs, which no font has, become question marks."""
    return name.encode("utf-8", "replace").decode("utf-8").replace("$", r"\$")


def tidy(axes: Axes, xlabel: str, ylabel: str) -> None:
    """Set labels and a light grid, and remove the box."""
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(labelsize=9)


def save(figure: Figure, path: str | Path | None) -> Figure:
    """Write the figure if there is a path, making its folder, and return it."""
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        fast = {"compress_level": 1} if Path(path).suffix == ".png" else None
        figure.savefig(path, dpi=DPI, pil_kwargs=fast)
    return figure


def as_results(results: Mapping[str, Solution] | Solution) -> dict[str, Solution]:
    """Solutions by name; a single solution is given a name."""
    if isinstance(results, Solution):
        return {LONE: results}
    by_name = isinstance(results, Mapping) and results and all(isinstance(s, Solution) for s in results.values())
    if not by_name:
        kind = type(results).__name__
        raise TypeError(f"results: expected a Solution, or a non-empty dict of name to Solution, got {kind}")
    return dict(results)


def cheapest(results: dict[str, Solution]) -> str:
    """Name of the cheapest solution, among those that meet constraints and dynamics if there is one."""
    feasible = [name for name, s in results.items() if s.converged or max(s.violation, s.largest_gap) <= FEASIBLE]
    return min(feasible or results, key=lambda name: results[name].cost)
