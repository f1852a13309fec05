"""The figure: time to tolerance over that of Crocoddyl's FDDP, bars by problem."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from experiments.peers.study import SAME
from trajopt.plotting.style import COLORS, new_figure, tidy

WIDTH = 0.8


def plot_times(results: dict[str, dict[str, Any]], start: str) -> Figure:
    """One group of bars per problem, one bar per solver that reached the tolerance, up or down from FDDP.

    A hatched bar ended in another minimum than the best.
    """
    groups = {name: entry["starts"][start] for name, entry in results.items() if start in entry["starts"]}
    solvers = list(dict.fromkeys(solver for rows in groups.values() for solver in rows))
    figure = new_figure(max(2.0 + 2.4 * len(groups), 7.5), 4.2)  # the legend and the title of one problem fit, too
    axes = figure.subplots()
    drawn = [[solver for solver, row in rows.items() if "total_ratio" in row] for rows in groups.values()]
    width = WIDTH / max(map(len, drawn), default=1)
    for i, solver in enumerate(solvers):
        for x, (rows, present) in enumerate(zip(groups.values(), drawn, strict=True)):
            if solver not in present:
                continue
            row = rows[solver]
            position, ratio = x + (present.index(solver) - 0.5 * (len(present) - 1)) * width, row["total_ratio"]
            hatch = "" if row["above_best"] <= SAME else "///"
            look = {"color": COLORS[i % len(COLORS)], "hatch": hatch, "edgecolor": "white", "linewidth": 0}
            axes.bar(position, ratio - 1.0, 0.92 * width, bottom=1.0, **look)
            place = (0, 3 if ratio >= 1 else -3)
            axes.annotate(f"{ratio:.2g}", (position, ratio), place, textcoords="offset points", fontsize=7,
                          ha="center", va="bottom" if ratio >= 1 else "top")  # fmt: skip
        axes.bar(0, np.nan, color=COLORS[i % len(COLORS)], label=solver)
    axes.axhline(1.0, color="0.3", linewidth=0.9)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.margins(y=0.12)
    tidy(axes, "", "time to 1e-9 of the optimum, over FDDP's")
    axes.set_xticks(range(len(groups)), [name + ("*" if results[name]["in_python"] else "") for name in groups])
    axes.grid(False, axis="x")
    axes.set_title("* Crocoddyl's statement partly in Python;  hatched: ends in another minimum", fontsize=9)
    figure.legend(loc="outside lower center", ncols=min(4, len(solvers)), frameon=False, fontsize=9)
    return figure
