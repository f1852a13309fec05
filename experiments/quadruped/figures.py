"""The figure: distance from the optimum over iterations, a panel for every problem of the quadruped."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.harness.pictures import panels
from trajopt.plotting.style import COLORS, tidy

FLOOR = 1e-15


def plot_distances(results: dict[str, dict[str, dict[str, Any]]]) -> Figure:
    """One line per solver: relative distance of the cost from the cost it ends with."""
    figure, shown = panels(len(results), len(results), 3.2, 3.6, sharey=True)
    for axes, (problem, rows) in zip(shown, results.items(), strict=True):
        for i, (solver, row) in enumerate(rows.items()):
            distance = np.maximum(row["distance"], FLOOR)
            width = 1.0 + 0.9 * (len(rows) - i)  # thinner and thinner, for modes that coincide to be seen
            axes.semilogy(distance, color=COLORS[i % len(COLORS)], marker=".", linewidth=width, label=solver)
        first = axes is shown[0]
        tidy(axes, "iteration", "relative distance of\nthe cost from its end" if first else "")
        axes.set_title(problem.removeprefix("quadruped_"), fontsize=10)
    handles, labels = shown[0].get_legend_handles_labels()
    columns = min(len(labels), 2 * len(shown))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    return figure
