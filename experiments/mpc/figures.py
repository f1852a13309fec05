"""The figure: tip error against time at every level, and how long one real-time iteration takes."""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import StrMethodFormatter

from experiments.mpc.scene import CONTROLLERS
from trajopt.plotting.style import COLORS, DASHES, new_figure, save, tidy

LOOKS = {name: (COLORS[i], DASHES[i]) for i, name in enumerate(reversed(CONTROLLERS))}
RANGE = 1e-4, 1e2


def plot(results: dict[str, Any], path: Path) -> None:
    """A panel a level, median and quartiles over its runs; one more has the solve times."""
    levels = results["levels"]
    columns = -(-(len(levels) + 1) // 2)
    figure = new_figure(4.4 * columns, 6.6)
    panels = figure.subplots(2, columns).ravel()
    for i, (panel, (level, record)) in enumerate(zip(panels, levels.items(), strict=False)):
        _plot_errors(panel, record, results["time_step"])
        tidy(panel, "time [s]", "distance of the tip from upright [m]" if i % columns == 0 else "")
        panel.set_title(f"gusts of {level} N" if float(level) else "heavier pole alone", fontsize=11)
    _plot_times(panels[len(levels)], 1e3 * np.array(results["solve_time_percentiles"]), 1e3 * results["time_step"])
    for panel in panels[len(levels) + 1 :]:
        panel.set_visible(False)
    handles = [Line2D([], [], color=c, linestyle=d, label=name) for name, (c, d) in LOOKS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    save(figure, path)


def _plot_errors(panel: Axes, record: dict[str, Any], dt: float) -> None:
    for controller, s in record.items():
        low, median, high = np.array(s["quantiles"])
        t, (color, dashes) = dt * np.arange(len(median)), LOOKS[controller]
        panel.semilogy(t, median, color=color, linestyle=dashes, linewidth=1.5)
        panel.fill_between(t, low, high, color=color, alpha=0.18, linewidth=0)
        panel.set(xlim=(0, t[-1]), ylim=RANGE)


def _plot_times(panel: Axes, milliseconds: np.ndarray, knot: float) -> None:
    panel.semilogx(milliseconds, np.arange(len(milliseconds)), color=LOOKS["MPC"][0], linewidth=1.5)
    panel.axvline(knot, color="0.4", linestyle=":", linewidth=1.2)
    panel.annotate("knot", (knot, 50), xytext=(-4, 0), textcoords="offset points", ha="right", color="0.4")
    tidy(panel, "one iteration [ms]", "share of solves [%]")
    panel.set(ylim=(0, 100))
    panel.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.set_title(f"MPC: median {np.median(milliseconds):.2f} ms", fontsize=11)
