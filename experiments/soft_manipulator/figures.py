"""Figures: shapes of the manipulator over time with the path of its tip, and the tensions that move it."""

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

import trajopt
from dynamics.rods.kinematics.center_lines import center_lines
from experiments.harness.pictures import line
from problems.rods.cable_manipulator import ROD
from trajopt.plotting.style import COLORS, DASHES, GREY, new_figure, tidy

SHAPES, POINTS = 9, 60


def plot_shapes(solution: trajopt.Solution, goal: np.ndarray) -> Figure:
    """Shapes at equal times from the side and from the front, light at the start, dark at the end; the tip's path and
    the goal (3,) or (P, 3)."""
    system = solution.problem.system
    q = solution.xs[:, : system.nq]  # type: ignore[attr-defined]
    lines = center_lines(system.model, q, POINTS)[ROD].points  # type: ignore[attr-defined]
    shown = np.linspace(0, len(lines) - 1, SHAPES).round().astype(int)
    figure, goal = new_figure(10.0, 4.6), np.atleast_2d(goal)
    for axes, (i, j) in zip(figure.subplots(1, 2), ((0, 2), (1, 2)), strict=True):
        for color, t in zip(colormaps["viridis_r"](np.linspace(0.1, 1.0, SHAPES)), shown, strict=True):
            label = f"{solution.problem.times[t]:.2f} s"
            axes.plot(lines[t, :, i], lines[t, :, j], color=color, linewidth=1.6, label=label)
        axes.plot(lines[:, -1, i], lines[:, -1, j], color=GREY, linewidth=1.0, linestyle="--")
        axes.plot(goal[:, i], goal[:, j], color=COLORS[1], marker="x" if len(goal) == 1 else "", linewidth=0.8)
        axes.set_aspect("equal")
        axes.locator_params(axis="x", nbins=5 if i == 0 else 2)
        tidy(axes, f"{'xyz'[i]} [m]", f"{'xyz'[j]} [m]")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False)
    figure.suptitle(f"{solution.problem.name}: shapes, the tip's path (dashed) and its goal")
    return figure


def plot_tensions(solutions: dict[str, trajopt.Solution]) -> Figure:
    """Controls of every solver against time, one colour a control, one dash a solver."""
    problem = next(iter(solutions.values())).problem
    names = problem.system.control_names  # type: ignore[attr-defined]
    figure = new_figure(8.0, 3.6)
    axes = figure.subplots()
    for dash, solution in zip(DASHES, solutions.values(), strict=False):
        us = np.concatenate([solution.us, solution.us[-1:]])
        for color, column in zip(COLORS, us.T, strict=False):
            axes.plot(problem.times, column, color=color, linestyle=dash, drawstyle="steps-post", linewidth=1.3)
    tidy(axes, "time [s]", "controls [N, N m]")
    axes.set_xlim(problem.times[0], problem.times[-1])
    handles = [line(name, color=color) for color, name in zip(COLORS, names, strict=False)]
    handles += [line(solver, color="0.2", linestyle=dash) for dash, solver in zip(DASHES, solutions, strict=False)]
    figure.legend(handles=handles, loc="outside right center", frameon=False)
    figure.suptitle(f"{problem.name}: tensions and torques")
    return figure
