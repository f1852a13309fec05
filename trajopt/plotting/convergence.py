"""Convergence of solvers: cost gap, gradient, step length and regularization, against iteration and against time.

Under constraints of the augmented Lagrangian, and where a solve starts from states with gaps, iterates may cost less
than J* while they are infeasible: |J - J*| is drawn then, with triangles where J < J*, and a panel each for the largest
constraint violation and the largest gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from trajopt.plotting.style import COLORS, as_results, cheapest, literal, new_figure, save, tidy
from trajopt.results.solution import Solution

REJECTED = 2.0**-8
"""Step length at which a line search without an acceptable step is drawn."""
MU_FLOOR = 1e-9
FLOOR = 1e-16
"""Cost gaps below this fraction of the cost are rounding, and not drawn."""
SMALLEST = 1e-12
"""Violations and gaps below this are drawn next to zero."""
INFEASIBILITY = {"violation": "largest constraint violation", "gap": "largest gap of states"}
"""Columns of the log that have a panel only if one of their entries is positive, and its label."""


class Curve(NamedTuple):
    """A quantity in a panel: x and y (K,), True where steps are exact, and True where y is the size of a negative
    number."""

    panel: Axes
    x: np.ndarray
    y: np.ndarray
    exact: np.ndarray
    negative: np.ndarray | None = None


def plot_convergence(results: Mapping[str, Solution] | Solution, path: str | Path | None = None) -> Figure:
    """Draw cost gap J - J*, gradient norm, step length and regularization of each solver.

    J* is the lowest cost any of them reached, of those that meet the constraints if there is one.  Upper row against
    iteration, lower row against wall-clock time; filled markers are iterations with exact second-order steps.  Solves
    with infeasible iterates have panels of the largest violation and the largest gap before the step length, and
    triangles where an iterate costs less than J*.

    Parameters
    ----------
    results : dict of name to Solution, a Comparison, or one Solution
    path : file to write, optional
    """
    results = as_results(results)
    infeasibility = [name for name in INFEASIBILITY if np.isfinite(_all_positive(results, name)).any()]
    best = results[cheapest(results)].cost
    columns = 4 + len(infeasibility)
    figure = new_figure(3.75 * columns, 6.6)
    axes = figure.subplots(2, columns)
    below = False
    for color, solution in zip(_cycle(len(results)), results.values(), strict=True):
        if not solution.log:
            continue
        for row, x in enumerate((solution.history("iteration"), 1e3 * solution.history("time"))):
            for curve in _curves(axes[row], x, solution, best, infeasibility):
                below |= _draw(curve, color)
            _mark_refusals(axes[row, -2], x, solution, color)
    labels = (
        r"cost gap $|J - J^*|$" if infeasibility else r"cost gap $J - J^*$",
        r"gradient $\max\,|\partial J/\partial u|$",
        *(INFEASIBILITY[name] for name in infeasibility),
        r"step length $\alpha$",
        r"regularization $\mu$",
    )
    for row, xlabel in enumerate(("iteration", "time [ms]")):
        for panel, ylabel in zip(axes[row], labels, strict=True):
            tidy(panel, xlabel, ylabel)
            panel.set_xlim(left=0.0)
            if row == 0:
                panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        _scales(axes[row], results, infeasibility)
    problem = next(iter(results.values())).problem
    figure.suptitle(literal(f"{problem.name}: convergence"))
    handles = _legend(results, below)
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return save(figure, path)


def _cycle(count: int) -> list[str]:
    return [COLORS[i % len(COLORS)] for i in range(count)]


def _curves(
    panels: np.ndarray, x: np.ndarray, solution: Solution, best: float, infeasibility: list[str]
) -> list[Curve]:
    """One solver in one row of panels."""
    exact = np.isin(solution.history("step"), ("exact", "convexified"))
    gap = solution.history("cost") - best
    negative = (gap < 0.0) & bool(infeasibility)
    gap = np.where(negative, -gap, gap)
    gap[~((gap > FLOOR * abs(best)) & (gap < np.inf))] = np.nan
    tried = slice(0, solution.iterations)  # the last record of a log is an iterate without a step
    alpha = solution.history("alpha")[tried]
    return [
        Curve(panels[0], x, gap, exact, negative),
        Curve(panels[1], x, _positive(solution.history("gradient_norm")), exact),
        *(
            Curve(panel, x, solution.history(name), exact)
            for panel, name in zip(panels[2:], infeasibility, strict=False)
        ),
        Curve(panels[-2], x[tried], np.where(alpha == 0, REJECTED, alpha), exact[tried]),
        Curve(panels[-1], x, solution.history("mu"), exact),
    ]


def _positive(y: np.ndarray) -> np.ndarray:
    """Values that a logarithmic axis can show, NaN elsewhere."""
    return np.where(np.isfinite(y) & (y > 0), y, np.nan)


def _all_positive(results: dict[str, Solution], name: str) -> np.ndarray:
    """Positive values in this column of all logs, NaN elsewhere."""
    return np.concatenate([_positive(solution.history(name)) for solution in results.values()])


def _draw(curve: Curve, color: str) -> bool:
    """Line and markers, filled for exact steps, triangles for negative numbers; True if there are triangles."""
    panel, x, y, exact, negative = curve
    triangle = np.zeros(len(y), bool) if negative is None else negative & np.isfinite(y)
    panel.plot(x, y, color=color, linewidth=1.3, zorder=2)
    for marker, chosen, larger in (("o", ~triangle, 0), ("v", triangle, 8)):
        hollow, filled = chosen & ~exact, chosen & exact
        panel.scatter(
            x[hollow], y[hollow], s=16 + larger, marker=marker, facecolor="white", edgecolor=color, linewidth=1.0,
            zorder=3,
        )  # fmt: skip
        panel.scatter(x[filled], y[filled], s=18 + larger, marker=marker, color=color, linewidth=1.0, zorder=3)
    return bool(triangle.any())


def _mark_refusals(panel: Axes, x: np.ndarray, solution: Solution, color: str) -> None:
    rejected = x[: solution.iterations][solution.history("alpha")[: solution.iterations] == 0]
    panel.scatter(rejected, np.full(len(rejected), REJECTED), s=34, marker="x", color=color, zorder=4)


def _scales(panels: np.ndarray, results: dict[str, Solution], infeasibility: list[str]) -> None:
    for panel in panels[:2]:
        panel.set_yscale("log")
    for panel, name in zip(panels[2:], infeasibility, strict=False):
        values = _all_positive(results, name)
        smallest = max(SMALLEST, 10.0 ** np.floor(np.log10(np.nanmin(values))))
        _scale_with_zero(panel, smallest, max(float(np.nanmax(values)), smallest))
    panels[-2].set_yscale("log", base=2)
    panels[-2].set_ylim(2.0**-8.6, 1.5)
    panels[-2].set_yticks(0.5 ** np.arange(9), [*("1" if i == 0 else f"1/{2**i}" for i in range(8)), "none"])
    panels[-2].minorticks_off()
    mus = np.concatenate([solution.history("mu") for solution in results.values()] + [np.array([1e-6])])
    _scale_with_zero(panels[-1], MU_FLOOR, float(mus.max()))


def _scale_with_zero(panel: Axes, smallest: float, largest: float) -> None:
    """Set a scale that is logarithmic down to the smallest positive number, with a place for zero."""
    panel.set_yscale("symlog", linthresh=smallest)
    panel.set_ylim(-0.3 * smallest, 10 * largest)
    low, high = round(np.log10(smallest)), np.log10(largest)
    decades = np.arange(low, np.ceil(high) + 1, max(1, round((high - low) / 5)))
    panel.set_yticks([0.0, *10.0**decades], ["0", *(rf"$10^{{{int(d)}}}$" for d in decades)])
    panel.minorticks_off()


def _legend(results: dict[str, Solution], below: bool) -> list[Line2D]:
    handles = [
        Line2D(
            [], [], color=color, linewidth=1.6,
            label=f"{literal(name)} ({solution.status}, {solution.iterations} iterations)",
        )
        for color, (name, solution) in zip(_cycle(len(results)), results.items(), strict=True)
    ]
    marks = [("Gauss-Newton step", "o", "white"), ("exact step", "o", "0.3"), ("no step accepted", "x", "0.3")]
    if below:
        marks.append((r"$J < J^*$", "v", "white"))
    return handles + [
        Line2D([], [], linestyle="", marker=marker, color="0.3", markerfacecolor=face, markersize=5, label=label)
        for label, marker, face in marks
    ]
