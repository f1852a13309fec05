"""The figures: gradient norm against iteration, and iterations of DDP against those of iLQR."""

from collections import Counter
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.harness.pictures import legend_below, line, look, panels, title
from trajopt.plotting.style import COLORS, tidy

FORCE_DRIVEN = ("cartpole",)
KIND_COLORS = {"mild": COLORS[0], "hard": COLORS[1]}


def plot_gradients(results: dict[str, Any]) -> Figure:
    """One panel a problem, one line a solver; filled markers are iterates whose step was exact."""
    figure, axes = panels(len(results), 3, 4.6, 3.3, extra=0.6)
    solvers = list(next(iter(results.values())))
    for panel, (name, record) in zip(axes, results.items(), strict=True):
        for i, solver in enumerate(solvers):
            gradients, steps = record[solver]["gradient_norm"], record[solver]["step"]
            panel.semilogy(range(len(gradients)), gradients, **look(i, linewidth=1.4))
            exact = [k for k, step in enumerate(steps) if step == "exact"]
            panel.semilogy(exact, [gradients[k] for k in exact], ".", color=COLORS[i], markersize=5)
        unit = "1/N" if name in FORCE_DRIVEN else "1/(N m)"
        tidy(panel, "iteration", rf"$\max\,|\partial J/\partial u|$ [{unit}]")
        title(panel, name)
        panel.set_xlim(left=0)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    handles = [line(solver, **look(i)) for i, solver in enumerate(solvers)]
    legend_below(figure, [*handles, line("exact step from here", linestyle="", marker=".", color="0.3")])
    return figure


def plot_starts(results: dict[str, Any]) -> Figure:
    """One panel a problem, one circle for all starts with the same two iteration counts, its area their number."""
    figure, axes = panels(len(results), len(results), 5.2, 4.6)
    for panel, (name, record) in zip(axes, results.items(), strict=True):
        counts = Counter((r["ilqr"]["iterations"], r["ddp"]["iterations"], r["kind"]) for r in record["starts"])
        for (x, y, kind), count in counts.items():
            panel.scatter(x, y, s=24 * count, color=KIND_COLORS[kind], alpha=0.65, linewidth=0, zorder=3)
        largest = 1.1 * max(max(x, y) for x, y, _ in counts)
        for slope, style in ((1.0, "-"), (0.5, "--")):
            panel.plot([0, largest], [0, slope * largest], color="0.5", linewidth=1.0, linestyle=style, zorder=1)
        tidy(panel, "iterations of iLQR", "iterations of DDP")
        panel.set(xlim=(0, largest), ylim=(0, largest), aspect="equal")
        mean = record["summary"]["all"]["mean"]
        title(panel, f"{name}: mean {mean['ilqr']:.1f} and {mean['ddp']:.1f}")
    circles = [
        line(f"{kind} start (area: how many)", linestyle="", marker="o", color=color)
        for kind, color in KIND_COLORS.items()
    ]
    legend_below(figure, [*circles, line("as many", color="0.5"), line("half", color="0.5", linestyle="--")])
    return figure
