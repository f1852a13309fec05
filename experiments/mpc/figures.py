"""The figures: tip error of the cart's pole against time at every level, and how long one real-time iteration takes;
how far schemes for the arm are off the best torques, and how long they take once a sample has arrived."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from experiments.harness.pictures import legend_below, line, look, panels, title
from experiments.mpc.samples import CONVERGED, SCHEMES
from experiments.mpc.scene import CONTROLLERS
from trajopt.plotting.style import tidy

LOOKS = {name: look(i) for i, name in enumerate(reversed(CONTROLLERS))}
RANGE = 1e-4, 1e2


def plot(results: dict[str, Any]) -> Figure:
    """A panel a level, median and quartiles over its runs; one more has the solve times."""
    levels = results["levels"]
    columns = -(-(len(levels) + 1) // 2)
    figure, axes = panels(len(levels) + 1, columns, 4.4, 3.3)
    for i, (panel, (level, record)) in enumerate(zip(axes, levels.items(), strict=False)):
        _plot_errors(panel, record, results["time_step"])
        tidy(panel, "time [s]", "distance of the tip from upright [m]" if i % columns == 0 else "")
        title(panel, f"gusts of {level} N" if float(level) else "heavier pole alone")
    _plot_times(axes[-1], 1e3 * np.array(results["solve_time_percentiles"]), 1e3 * results["time_step"])
    legend_below(figure, [line(name, **style) for name, style in LOOKS.items()])
    return figure


def _plot_errors(panel: Axes, record: dict[str, Any], dt: float) -> None:
    for controller, s in record.items():
        low, median, high = np.array(s["quantiles"])
        t, style = dt * np.arange(len(median)), LOOKS[controller]
        panel.semilogy(t, median, **style, linewidth=1.5)
        panel.fill_between(t, low, high, color=style["color"], alpha=0.18, linewidth=0)
        panel.set(xlim=(0, t[-1]), ylim=RANGE)


def _plot_times(panel: Axes, milliseconds: np.ndarray, knot: float) -> None:
    panel.semilogx(milliseconds, np.arange(len(milliseconds)), color=LOOKS["MPC"]["color"], linewidth=1.5)
    panel.axvline(knot, color="0.4", linestyle=":", linewidth=1.2)
    panel.annotate("knot", (knot, 50), xytext=(-4, 0), textcoords="offset points", ha="right", color="0.4")
    tidy(panel, "one iteration [ms]", "share of solves [%]")
    panel.set(ylim=(0, 100))
    panel.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    title(panel, f"MPC: median {np.median(milliseconds):.2f} ms")


SHORT = {name: look(i) for i, name in enumerate(name for name in SCHEMES if name != CONVERGED)}


def plot_samples(samples: dict[str, Any]) -> Figure:
    """A panel a path, shares of samples within an error; one more has the times from sample to control."""
    paths = samples["paths"]
    figure, axes = panels(len(paths) + 1, len(paths) + 1, 4.6, 3.4, extra=0.8)
    for i, (panel, (path, record)) in enumerate(zip(axes, paths.items(), strict=False)):
        for scheme, style in SHORT.items():
            errors = np.sort(record[scheme]["errors"])
            panel.semilogx(errors, 100.0 * np.arange(1, len(errors) + 1) / len(errors), **style, linewidth=1.5)
        tidy(panel, "off the best torques [N m]", "share of samples [%]" if i == 0 else "")
        panel.set(ylim=(0, 100))
        title(panel, f"target on a {path}")
    panel, (path, record) = axes[-1], next(iter(paths.items()))
    for i, (scheme, style) in enumerate(SHORT.items()):
        panel.barh(-i, record[scheme]["sample_us"], color=style["color"], height=0.7)
        panel.annotate(
            f"{record[scheme]['sample_us']:.3g}", (record[scheme]["sample_us"], -i), xytext=(4, 0),
            textcoords="offset points", va="center", fontsize=9,
        )  # fmt: skip
    panel.set_xscale("log")
    panel.set_yticks([])
    panel.set(xlim=(0.3, 1e4))
    tidy(panel, "from sample to control [us]", "")
    title(panel, f"median, {path}")
    legend_below(figure, [line(name, **style) for name, style in SHORT.items()], columns=3)
    return figure
