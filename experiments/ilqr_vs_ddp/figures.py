"""The figures: what share of the starts is solved within so many iterations or so much time, and how many in all."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from experiments.harness.pictures import legend_below, line, look, panels, title
from experiments.ilqr_vs_ddp.study import converged
from trajopt.plotting.style import COLORS, new_figure, tidy

LABELS = {"ilqr": "iLQR", "ddp": "DDP"}
LOOKS = {solver: look(i, linewidth=1.8) for i, solver in enumerate(LABELS)}
COLUMNS = 4
FEW_TICKS, MANY_TICKS, NARROW = (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0), 10.0
BAR = 0.4


def plot_profiles(results: dict[str, Any], measure: str, scale: float, label: str) -> Figure:
    """One panel a problem: the share of all starts from which a solver is at a minimum by then, rising to those that
    converge at all; a dot at the median of these."""
    columns = min(COLUMNS, len(results))
    figure, axes = panels(len(results), columns, max(3.6, 5.0 / columns), 2.9, extra=0.7, sharey=True)
    for panel, (name, record) in zip(axes, results.items(), strict=True):
        _draw_profile(panel, record, measure, scale)
        tidy(panel, label, "")
        panel.set_ylim(-0.03, 1.03)
        panel.yaxis.set_major_formatter(PercentFormatter(1.0))
        title(panel, name)
    for first in axes[::columns]:
        first.set_ylabel("starts solved")
    handles = [line(LABELS[solver], **LOOKS[solver]) for solver in LABELS]
    median = line("median of those solved", linestyle="", marker="o", color="0.3", markersize=5)
    legend_below(figure, [*handles, median])
    return figure


def _draw_profile(panel: Axes, record: dict[str, Any], measure: str, scale: float) -> None:
    """The lines of one problem, over a logarithmic axis."""
    solved = {
        solver: np.sort([scale * run[measure] for run in entry["runs"] if converged(run)])
        for solver, entry in record["solvers"].items()
    }
    every = np.concatenate(list(solved.values()))
    begin, end = (0.8 * every.min(), 1.3 * every.max()) if len(every) else (0.08, 1.3)
    for solver, values in solved.items():
        share = np.arange(len(values) + 1) / len(record["solvers"][solver]["runs"])
        x, y = np.r_[values, end], np.r_[share[1:], share[-1]]
        panel.step(np.r_[x[0], x], np.r_[0.0, y], where="post", **LOOKS[solver])
        if len(values):
            panel.plot(np.median(values), 0.5 * share[-1], "o", color=LOOKS[solver]["color"], markersize=5)
    panel.set_xscale("log")
    panel.set_xlim(begin, end)
    panel.xaxis.set_major_locator(LogLocator(subs=FEW_TICKS if end > NARROW * begin else MANY_TICKS))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())


def plot_success(results: dict[str, Any]) -> Figure:
    """Two bars a problem: the share of the starts that led to the best minimum, above it those that led to another."""
    figure = new_figure(8.0, 1.6 + 0.55 * len(results))
    axes = figure.subplots()
    rows = np.arange(len(results))
    for i, solver in enumerate(LABELS):
        shares = [record["solvers"][solver]["summary"] for record in results.values()]
        best, whole = (np.array([s[key] for s in shares]) for key in ("best", "converged"))
        where = rows + (i - 0.5) * BAR
        axes.barh(where, best, 0.9 * BAR, color=COLORS[i])
        axes.barh(where, whole - best, 0.9 * BAR, left=best, color=COLORS[i], alpha=0.35)
        for y, b, w in zip(where, best, whole, strict=True):
            text = f"{b:.0%}" if b == w else f"{b:.0%}, {w:.0%}"
            axes.annotate(text, (w, y), (4, 0), textcoords="offset points", va="center", fontsize=8)
    tidy(axes, "share of the starts; figures: to the best minimum, to any", "")
    axes.set_yticks(rows, [name.replace("_", " ") for name in results])
    axes.set_ylim(len(results) - 0.4, -0.6)
    axes.grid(False, axis="y")
    axes.set_xlim(0.0, 1.12)
    axes.set_xticks(np.linspace(0.0, 1.0, 6))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    handles = [
        Patch(color=COLORS[i], alpha=alpha, label=f"{LABELS[solver]}, {which} minimum")
        for i, solver in enumerate(LABELS)
        for alpha, which in ((1.0, "the best"), (0.35, "another"))
    ]
    legend_below(figure, handles, columns=2)
    return figure
