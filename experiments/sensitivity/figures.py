"""The figures: errors of derivatives by problem, and of predictions by how much a parameter changes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.harness.pictures import legend_below, line, look, panels, title
from experiments.sensitivity.study import NAMES
from trajopt.plotting.style import COLORS, GREY, new_figure, tidy

KINDS = {
    "exact": ("exact", {"color": COLORS[0], "marker": "o"}),
    "differences": ("two solves each, best step", {"color": COLORS[2], "marker": "s"}),
    "gauss_newton": ("Gauss-Newton Hessian", {"color": COLORS[1], "marker": "D"}),
}
GAINS = {
    "ddp": ("gains of DDP, by the initial state", {"color": COLORS[5], "marker": "^"}),
    "ilqr": ("gains of iLQR, by the initial state", {"color": COLORS[4], "marker": "v"}),
}
PREDICTORS = {"none": "as they are", "gauss_newton": "Gauss-Newton", "exact": "exact"}


def plot_errors(results: dict[str, Any]) -> Figure:
    """A row a problem: errors of d us / d p, median and range by all parameters, and of gains as d us / d x0."""
    problems = results["problems"]
    figure = new_figure(9.0, 1.9 + 0.52 * len(problems))
    axes = figure.subplots()
    lanes = np.linspace(0.3, -0.3, len(KINDS) + len(GAINS))
    for row, record in enumerate(problems.values()):
        spots = {kind: np.array(record["errors"][kind])[:, NAMES.index("us")] for kind in KINDS}
        spots |= {kind: np.array([record["gains"][kind]]) for kind in GAINS}
        for lane, (kind, (_, style)) in zip(lanes, {**KINDS, **GAINS}.items(), strict=True):
            values = np.maximum(spots[kind], 1e-16)
            axes.plot([values.min(), values.max()], [row - lane] * 2, color=style["color"], linewidth=1.6)
            axes.plot(np.median(values), row - lane, markersize=5, linestyle="", **style)
    axes.axvline(1.0, color=GREY, linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(problems)), [name.replace("_", " ") for name in problems])
    axes.set_ylim(len(problems) - 0.5, -0.5)
    tidy(axes, "relative error of the derivative of the controls", "")
    handles = [line(label, linewidth=1.6, markersize=5, **style) for label, style in {**KINDS, **GAINS}.values()]
    legend_below(figure, handles, columns=3)
    return figure


def plot_predictions(results: dict[str, Any]) -> Figure:
    """A panel a problem: errors of predicted controls over the change of a parameter, and two slopes."""
    predictions = results["predictions"]
    figure, axes = panels(len(predictions), min(2, len(predictions)), 4.6, 3.4, extra=0.6)
    looks = {kind: look(i, marker=".", linewidth=1.5) for i, kind in zip((7, 1, 0), PREDICTORS, strict=True)}
    for panel, (name, record) in zip(axes, predictions.items(), strict=True):
        changes = np.array(record["changes"])
        for kind, style in looks.items():
            panel.loglog(changes, record["errors"][kind], **style)
        for power, kind in ((1, "gauss_newton"), (2, "exact")):
            _draw_slope(panel, changes, record["errors"][kind][0], power)
        tidy(panel, f"relative change of {record['parameter']}", "relative error of the controls")
        title(panel, name)
    handles = [line(f"controls: {PREDICTORS[kind]}", **style) for kind, style in looks.items()]
    legend_below(figure, [*handles, line("slopes 1 and 2", color=GREY, linewidth=0.8, linestyle=":")], 2)
    return figure


def _draw_slope(panel: Axes, changes: np.ndarray, first: float, power: int) -> None:
    panel.loglog(changes, first * (changes / changes[0]) ** power, color=GREY, linewidth=0.8, linestyle=":", zorder=1)
