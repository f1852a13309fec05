"""The figure: distance from the optimum over iterations, a panel for every problem of the quadruped."""

from pathlib import Path
from typing import Any

import numpy as np

from trajopt.plotting.style import COLORS, new_figure, save, tidy

FLOOR = 1e-15


def plot_distances(results: dict[str, dict[str, dict[str, Any]]], path: Path) -> None:
    """One line per solver: relative distance of the cost from the cost it ends with."""
    figure = new_figure(3.2 * len(results), 3.6)
    panels = figure.subplots(1, len(results), sharey=True, squeeze=False)[0]
    for axes, (problem, rows) in zip(panels, results.items(), strict=True):
        for i, (solver, row) in enumerate(rows.items()):
            distance = np.maximum(row["distance"], FLOOR)
            width = 1.0 + 0.9 * (len(rows) - i)  # thinner and thinner, for modes that coincide to be seen
            axes.semilogy(distance, color=COLORS[i % len(COLORS)], marker=".", linewidth=width, label=solver)
        first = axes is panels[0]
        tidy(axes, "iteration", "relative distance of\nthe cost from its end" if first else "")
        axes.set_title(problem.removeprefix("quadruped_"), fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    columns = min(len(labels), 2 * len(panels))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    save(figure, path)
