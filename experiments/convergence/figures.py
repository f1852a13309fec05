"""The figures: gradient norm against iteration, and iterations of DDP against those of iLQR."""

from collections import Counter
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from trajopt.plotting.style import COLORS, DASHES, new_figure, save, tidy

FORCE_DRIVEN = ("cartpole",)
KIND_COLORS = {"mild": COLORS[0], "hard": COLORS[1]}


def plot_gradients(results: dict[str, Any], path: Path) -> None:
    """One panel a problem, one line a solver; filled markers are iterates whose step was exact."""
    columns = 3
    rows = -(-len(results) // columns)
    figure = new_figure(4.6 * columns, 3.3 * rows + 0.6)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    solvers = list(next(iter(results.values())))
    for panel, (name, record) in zip(axes, results.items(), strict=False):
        for i, solver in enumerate(solvers):
            gradients, steps = record[solver]["gradient_norm"], record[solver]["step"]
            style = {"color": COLORS[i], "linestyle": DASHES[i], "linewidth": 1.4}
            panel.semilogy(range(len(gradients)), gradients, **style)
            exact = [k for k, step in enumerate(steps) if step == "exact"]
            panel.semilogy(exact, [gradients[k] for k in exact], ".", color=COLORS[i], markersize=5)
        unit = "1/N" if name in FORCE_DRIVEN else "1/(N m)"
        tidy(panel, "iteration", rf"$\max\,|\partial J/\partial u|$ [{unit}]")
        panel.set_title(name.replace("_", " "), fontsize=11)
        panel.set_xlim(left=0)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    for panel in axes[len(results) :]:
        panel.set_visible(False)
    handles = [Line2D([], [], color=COLORS[i], linestyle=DASHES[i], label=s) for i, s in enumerate(solvers)]
    handles.append(Line2D([], [], linestyle="", marker=".", color="0.3", label="exact step from here"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    save(figure, path)


def plot_starts(results: dict[str, Any], path: Path) -> None:
    """One panel a problem, one circle for all starts with the same two iteration counts, its area their number."""
    figure = new_figure(5.2 * len(results), 4.6)
    axes = figure.subplots(1, len(results), squeeze=False)[0]
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
        title = f"{name.replace('_', ' ')}: mean {mean['ilqr']:.1f} and {mean['ddp']:.1f}"
        panel.set_title(title, fontsize=11)
    handles = [
        Line2D([], [], linestyle="", marker="o", color=color, label=f"{kind} start (area: how many)")
        for kind, color in KIND_COLORS.items()
    ]
    handles += [Line2D([], [], color="0.5", label="as many"), Line2D([], [], color="0.5", linestyle="--", label="half")]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    save(figure, path)
