"""The figure: the share of the starts that succeed, and DDP's time over the others', problem by problem."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from experiments.constraints.tables import HEADINGS, PEERS
from experiments.harness.pictures import legend_below, line
from trajopt.plotting.style import COLORS, new_figure, tidy

BAR = 0.8


def plot(problems: dict[str, Any]) -> Figure:
    """Bars of successes; beside them, on a logarithmic axis, total times over all starts as ratios."""
    shown = {name: record for name, record in problems.items() if record["feasible"]} or problems
    figure = new_figure(11.0, 2.0 + 0.42 * len(shown))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(1.5, 1.0))
    solvers = list(next(iter(shown.values()))["solvers"])
    _successes(left, shown, solvers)
    _times(right, shown)
    left.set_yticks(range(len(shown)), [name.replace("_", " ") for name in shown])
    left.set_ylim(len(shown) - 0.4, -0.6)
    handles: list[Any] = [Patch(color=COLORS[i], label=HEADINGS[s]) for i, s in enumerate(solvers)]
    marks = {"ipopt": "o", "fatrop": "s"}
    handles += [
        line(f"DDP / {HEADINGS[p]}", linestyle="", marker=marks[p], color="0.2", markerfacecolor=_fill(p))
        for p in PEERS
        if p in solvers and "ddp" in solvers
    ]
    legend_below(figure, handles, columns=len(handles))
    return figure


def _fill(peer: str) -> str:
    """Colour inside the mark of a peer."""
    return "0.2" if peer == "ipopt" else "white"


def _successes(axes: Axes, problems: dict[str, Any], solvers: list[str]) -> None:
    """A bar for each solver."""
    height = BAR / len(solvers)
    for i, solver in enumerate(solvers):
        parts = [record["solvers"][solver]["summary"] for record in problems.values()]
        share = np.array([s["successes"] / s["starts"] for s in parts])
        where = np.arange(len(parts)) + (i - 0.5 * (len(solvers) - 1)) * height
        axes.barh(where, share, 0.9 * height, color=COLORS[i])
        for y in where[share == 0.0]:
            axes.plot(0.004, y, marker="|", color=COLORS[i], markersize=4)
    tidy(axes, "starts that succeed", "")
    axes.grid(False, axis="y")
    axes.set_xlim(0.0, 1.03)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))


def _times(axes: Axes, problems: dict[str, Any]) -> None:
    """A mark for each peer."""
    for peer, mark in zip(PEERS, "os", strict=True):
        found = [(i, r["ratios"][peer]["all"]) for i, r in enumerate(problems.values()) if peer in r["ratios"]]
        if found:
            rows, values = np.array(found).T
            axes.plot(values, rows, mark, color="0.2", markerfacecolor=_fill(peer), markersize=5)
    tidy(axes, "total time of DDP over that of the other [-]", "")
    axes.axvline(1.0, color="0.5", linewidth=1.0)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    if not any(record["ratios"] for record in problems.values()):
        axes.set_xlim(0.1, 10.0)
