"""The motion that was found: states and controls against time, and snapshots of the system in space."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.lines import Line2D
from mpl_toolkits.mplot3d.art3d import Line3DCollection

from trajopt.plotting.style import DASHES, as_results, new_figure, save, tidy
from trajopt.solution import Solution

SNAPSHOTS = 9
NAMED = 10
"""Components are listed in a legend up to this many."""


def plot_trajectory(results: Mapping[str, Solution] | Solution, path: str | Path | None = None) -> Figure:
    """Draw configuration, velocity and controls of each solver against time; one colour a component, one dash a solver.

    A system with ``skeleton(xs)`` gets a panel of snapshots of the cheapest solution, light at the start, dark at the
    end: in three dimensions, or in the plane if the motion stays in a vertical one.

    Parameters
    ----------
    results : dict of name to Solution, a Comparison, or one Solution
    path : file to write, optional
    """
    results = as_results(results)
    first = next(iter(results.values()))
    panels = _series(first)
    drawable = hasattr(first.problem.system, "skeleton")
    figure = new_figure(15 if drawable else 9.5, 2.5 * len(panels) + 0.8)
    grid = figure.add_gridspec(len(panels), 2 if drawable else 1, width_ratios=(1.3, 1.0) if drawable else None)
    for row, (symbol, label, _) in enumerate(panels):
        axes = figure.add_subplot(grid[row, 0])
        count = 0
        for i, solution in enumerate(results.values()):
            values = _series(solution)[row][2]
            count = values.shape[1]
            times = solution.problem.times[: len(values)]
            if symbol == "u":  # a control is held until the next knot
                times, values = solution.problem.times, np.concatenate([values, values[-1:]])
            for j in range(count):
                style = "steps-post" if symbol == "u" else "default"
                axes.plot(times, values[:, j], color=_color(j, count), drawstyle=style, **_stroke(i, len(results)))
        tidy(axes, "time [s]" if row == len(panels) - 1 else "", label)
        axes.set_xlim(first.problem.times[0], first.problem.times[-1])
        if 1 < count <= NAMED:
            _name_components(axes, symbol, count)
    if drawable:
        best = min(results, key=lambda name: results[name].cost)
        _snapshots(figure, grid[:, 1], results[best], best if len(results) > 1 else "")
    handles = [Line2D([], [], color="0.2", label=name, **_stroke(i, len(results))) for i, name in enumerate(results)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    figure.suptitle(f"{first.problem.name}: motion")
    return save(figure, path)


def _series(solution: Solution) -> list[tuple[str, str, np.ndarray]]:
    """Symbol, axis label and values (K, n) of each panel; states split into q and v where the system says nq."""
    system, xs = solution.problem.system, solution.xs
    nq = getattr(system, "nq", getattr(getattr(system, "model", None), "nq", None))
    if nq is None:
        return [("x", "states $x$", xs), ("u", "controls $u$", solution.us)]
    return [
        ("q", "configuration $q$ [rad, m]", xs[:, :nq]),
        ("v", "velocity $v$ [rad/s, m/s]", xs[:, nq:]),
        ("u", "controls $u$ [N m, N]", solution.us),
    ]


def _stroke(i: int, solvers: int) -> dict[str, Any]:
    """Line style of solver i: the first a wide pale band under the others, so that equal motions all show."""
    if i == 0 and solvers > 1:
        return {"linestyle": "-", "linewidth": 4.5, "alpha": 0.35}
    return {"linestyle": DASHES[max(i - 1, 0) % len(DASHES)], "linewidth": 1.4}


def _color(j: int, count: int):
    return colormaps["tab10"](j) if count <= NAMED else colormaps["turbo"](0.05 + 0.9 * j / (count - 1))


def _name_components(axes, symbol, count):
    handles = [Line2D([], [], color=_color(j, count), label=f"${symbol}_{{{j + 1}}}$") for j in range(count)]
    axes.legend(
        handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9, handlelength=1.2
    )


def _snapshots(figure: Figure, where: SubplotSpec, solution: Solution, name: str) -> None:
    knots = np.unique(np.linspace(0, solution.problem.horizon, SNAPSHOTS).round().astype(int))
    segments = np.asarray(solution.problem.system.skeleton(solution.xs[knots]), dtype=float)  # pyright: ignore
    points = segments.reshape(-1, 3)
    low, high = points.min(axis=0), points.max(axis=0)
    reach = max(0.5 * float((high - low).max()), 1e-6) * 1.08
    middle = 0.5 * (low + high)
    shades = colormaps["viridis_r"](np.linspace(0.08, 1.0, len(knots)))
    planar = high[1] - low[1] < 1e-9 * reach
    axes = figure.add_subplot(where, projection=None if planar else "3d")
    for shade, lines in zip(shades, segments, strict=True):
        if planar:
            axes.add_collection(LineCollection(lines[:, :, ::2], colors=[shade], linewidths=2.2, capstyle="round"))
        else:
            axes.add_collection3d(Line3DCollection(lines, colors=[shade], linewidths=2.2, capstyle="round"))  # pyright: ignore
    axes.set_xlim(middle[0] - reach, middle[0] + reach)
    if planar:
        axes.set_ylim(middle[2] - reach, middle[2] + reach)
        axes.set_aspect("equal")
        tidy(axes, "x [m]", "z [m]")
    else:
        axes.set_ylim(middle[1] - reach, middle[1] + reach)
        axes.set_zlim(middle[2] - reach, middle[2] + reach)  # pyright: ignore
        axes.set_box_aspect((1, 1, 1), zoom=0.86)  # pyright: ignore
        axes.set_xlabel("x [m]", labelpad=8)
        axes.set_ylabel("y [m]", labelpad=10)
        axes.set_zlabel("z [m]", labelpad=6)  # pyright: ignore
    times = solution.problem.times[knots]
    handles = [Line2D([], [], color=s, lw=2.2, label=f"{t:.2f} s") for s, t in zip(shades, times, strict=True)]
    below = (0.5, -0.1 if planar else 0.02)
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=below, fontsize=9, frameon=False, ncols=5)
    axes.set_title("snapshots" + (f" ({name})" if name else ""), fontsize=11)
