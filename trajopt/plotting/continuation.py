"""A family of solutions along its path: cost, eigenvalue, iterations, active limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from trajopt.plotting.style import COLORS, DASHES, GREY, literal, new_figure, save, tidy

if TYPE_CHECKING:
    from trajopt.families import Continuation

SAME = 1e-6
"""Relative difference of costs up to which two solutions are the same minimum."""


def plot_continuation(continuation: Continuation, path: str | Path | None = None) -> Figure:
    """Draw a family of solutions against its parameter, if one alone changes, else against the position on the path.

    Four panels: cost; smallest eigenvalue of the certificates; iterations of the corrector, beside those from a
    problem's own start and from the solution before if there are such (`with_restarts`), hollow where these ended in
    another minimum or in none; active limits.  The estimated singular point is a dashed line.

    Parameters
    ----------
    continuation : Continuation with at least one point
    path : file to write, optional

    Raises: TypeError if continuation is none, ValueError for a continuation without points.
    """
    if not hasattr(continuation, "smallest_eigenvalues"):
        raise TypeError(f"continuation: got {type(continuation).__name__}, expected a trajopt.Continuation")
    if not len(continuation):
        raise ValueError("continuation: got one without points, expected at least one")
    one = len(continuation.labels) == 1
    x = continuation.numbers[:, 0] if one else continuation.positions
    label = continuation.labels[0] if one else "position on the path"
    figure = new_figure(11.0, 6.4)
    cost, eigenvalue, iterations, pressing = figure.subplots(2, 2, sharex=True).ravel()
    mark = {"color": COLORS[0], "marker": "o", "markersize": 4, "linewidth": 1.3}
    cost.plot(x, continuation.costs, **mark)
    eigenvalue.semilogy(x, continuation.smallest_eigenvalues, **mark)
    iterations.plot(x[1:], continuation.iterations[1:], label="from the prediction", **mark)
    _again(iterations, x, continuation)
    pressing.plot(x, continuation.pressing, **mark)
    for panel, name in (
        (cost, "cost"), (eigenvalue, "smallest relative eigenvalue"), (iterations, "iterations"),
        (pressing, "limits that press"),
    ):  # fmt: skip
        tidy(panel, label if panel in (iterations, pressing) else "", name)
    if continuation.singular is not None:
        position = continuation.singular.position
        at = float(continuation.path.numbers(position)[continuation.path.moving()[0]]) if one else position
        for panel in (cost, eigenvalue, iterations, pressing):
            panel.axvline(at, color=GREY, linestyle=DASHES[1], linewidth=1.0)
        cost.annotate(
            f"{continuation.status} at {at:.6g}", (at, 0.04), xycoords=("data", "axes fraction"), rotation=90,
            ha="right", va="bottom", fontsize=9, color="0.35",
        )  # fmt: skip
    for panel in (iterations, pressing):
        panel.yaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_ylim(bottom=0.0)
    name = continuation.solutions[0].problem.name
    figure.suptitle(f"{literal(name)}: {len(continuation)} solutions, {continuation.status}")
    return save(figure, path)


def _again(panel: Axes, x: np.ndarray, continuation: Continuation) -> None:
    """Iterations of the same problems but the first, solved from other starts; hollow where they led to another minimum
    or to none."""
    again = {"from the solution before": continuation.warm, "from scratch": continuation.cold}
    drawn = {name: solved for name, solved in again.items() if solved is not None}
    for i, (name, solved) in enumerate(drawn.items(), start=1):
        count, costs = np.array([one.iterations for one in solved[1:]]), continuation.costs[1:]
        same = [
            one.converged and abs(one.cost - cost) <= SAME * abs(cost)
            for one, cost in zip(solved[1:], costs, strict=True)
        ]
        panel.plot(x[1:], count, color=COLORS[i], linestyle=DASHES[i], linewidth=1.1, label=literal(name))
        faces = np.where(same, COLORS[i], "white")
        panel.scatter(x[1:], count, s=18, color=faces, edgecolor=COLORS[i], linewidth=1.0, zorder=3)
    if drawn:
        panel.legend(fontsize=9, facecolor="white", framealpha=0.9, edgecolor="none")
