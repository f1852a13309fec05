"""How solvers converged: cost gap, gradient, step length and regularization, against iteration and against time."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from trajopt.plotting.style import COLORS, as_results, new_figure, save, tidy
from trajopt.solution import Solution

REFUSED = 2.0**-8
"""Where a line search without an acceptable step is drawn."""
MU_FLOOR = 1e-9
FLOOR = 1e-16
"""Cost gaps below this fraction of the cost are rounding, and not drawn."""


def plot_convergence(results: Mapping[str, Solution] | Solution, path: str | Path | None = None) -> Figure:
    """Draw cost gap J - J*, gradient norm, step length and regularization of each solver.

    J* is the lowest cost any of them reached.  Upper row against iteration, lower row against wall-clock time; filled
    markers are iterations with exact second-order steps.

    Parameters
    ----------
    results : dict of name to Solution, a Comparison, or one Solution
    path : file to write, optional
    """
    results = as_results(results)
    best = min(solution.cost for solution in results.values())
    figure = new_figure(15, 6.6)
    axes = figure.subplots(2, 4)
    for color, solution in zip(_cycle(len(results)), results.values(), strict=True):
        for row, x in enumerate((solution.history("iteration"), 1e3 * solution.history("time"))):
            _draw(axes[row], x, solution, best, color)
    for row, xlabel in enumerate(("iteration", "time [ms]")):
        labels = (
            r"cost gap $J - J^*$",
            r"gradient $\max\,|\partial J/\partial u|$",
            r"step length $\alpha$",
            r"regularization $\mu$",
        )
        for panel, ylabel in zip(axes[row], labels, strict=True):
            tidy(panel, xlabel, ylabel)
            panel.set_xlim(left=0.0)
            if row == 0:
                panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        _scales(axes[row], results)
    problem = next(iter(results.values())).problem
    figure.suptitle(f"{problem.name}: convergence")
    figure.legend(handles=_legend(results), loc="outside lower center", ncols=len(results) + 3, frameon=False)
    return save(figure, path)


def _cycle(count: int) -> list[str]:
    return [COLORS[i % len(COLORS)] for i in range(count)]


def _draw(panels: np.ndarray, x: np.ndarray, solution: Solution, best: float, color: str) -> None:
    """One solver into one row of panels."""
    if not len(x):
        return
    exact = solution.history("step") == "exact"
    gap = solution.history("cost") - best
    gap[gap <= FLOOR * abs(best)] = np.nan
    gradient = solution.history("gradient_norm")
    gradient[~np.isfinite(gradient) | (gradient <= 0)] = np.nan
    tried = slice(0, solution.iterations)  # the last record of a log is an iterate without a step
    alpha = solution.history("alpha")[tried]
    refused = alpha == 0
    for panel, xs, ys, filled in (
        (panels[0], x, gap, exact),
        (panels[1], x, gradient, exact),
        (panels[2], x[tried], np.where(refused, REFUSED, alpha), exact[tried]),
        (panels[3], x, solution.history("mu"), exact),
    ):
        panel.plot(xs, ys, color=color, linewidth=1.3, zorder=2)
        panel.scatter(xs[~filled], ys[~filled], s=16, facecolor="white", edgecolor=color, linewidth=1.0, zorder=3)
        panel.scatter(xs[filled], ys[filled], s=18, color=color, linewidth=1.0, zorder=3)
    panels[2].scatter(x[tried][refused], alpha[refused] + REFUSED, s=34, marker="x", color=color, zorder=4)


def _scales(panels: np.ndarray, results: dict[str, Solution]) -> None:
    for panel in panels[:2]:
        panel.set_yscale("log")
    panels[2].set_yscale("log", base=2)
    panels[2].set_ylim(2.0**-8.6, 1.5)
    panels[2].set_yticks(0.5 ** np.arange(9), [*("1" if i == 0 else f"1/{2**i}" for i in range(8)), "none"])
    panels[2].minorticks_off()
    mus = np.concatenate([solution.history("mu") for solution in results.values()] + [np.array([1e-6])])
    _regularization_scale(panels[3], float(mus.max()))


def _regularization_scale(panel: Axes, largest: float) -> None:
    """Logarithmic down to the smallest mu there is, with a place for zero."""
    panel.set_yscale("symlog", linthresh=MU_FLOOR)
    panel.set_ylim(-0.3 * MU_FLOOR, 10 * largest)
    decades = np.arange(-9, np.ceil(np.log10(largest)) + 1, max(1, round((np.log10(largest) + 9) / 5)))
    panel.set_yticks([0.0, *10.0**decades], ["0", *(rf"$10^{{{int(d)}}}$" for d in decades)])
    panel.minorticks_off()


def _legend(results: dict[str, Solution]) -> list[Line2D]:
    handles = [
        Line2D(
            [], [], color=color, linewidth=1.6, label=f"{name} ({solution.status}, {solution.iterations} iterations)"
        )
        for color, (name, solution) in zip(_cycle(len(results)), results.items(), strict=True)
    ]
    marks = (("Gauss-Newton step", "o", "white"), ("exact step", "o", "0.3"), ("no step accepted", "x", "0.3"))
    return handles + [
        Line2D([], [], linestyle="", marker=marker, color="0.3", markerfacecolor=face, markersize=5, label=label)
        for label, marker, face in marks
    ]
