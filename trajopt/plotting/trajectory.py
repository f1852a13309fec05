"""The motion that was found: states and controls against time, and snapshots of the system in space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from trajopt.capabilities import ControlNames, ControlUnits, Coordinates, Quantities, StateNames, capability
from trajopt.optimality.uncertainty import Covariance
from trajopt.plotting.bands import band_in_legend, covariances_of, deviations, draw_band
from trajopt.plotting.motion import Motion, as_motion, is_motion
from trajopt.plotting.snapshots import draw_snapshots, drawable
from trajopt.plotting.style import DASHES, GREY, as_results, cheapest, literal, new_figure, save, tidy
from trajopt.results.solution import Solution

NAMED = 10
"""Components are listed in a legend up to this many; of more, as many of them, from the first to the last."""
REACH = 0.5
"""Limits that lie farther beyond the curves than this share of their height are left outside a panel."""


class Series(NamedTuple):
    """A panel: symbol and label of its values (K, n), and the names of the components, or None; of controls, which."""

    symbol: str
    label: str
    values: np.ndarray
    names: Sequence[str] | None
    columns: np.ndarray | None = None


def plot_trajectory(
    results: Mapping[str, Solution] | Any,
    path: str | Path | None = None,
    covariance: Covariance | Mapping[str, Covariance] | None = None,
) -> Figure:
    """Draw configuration, velocity and controls of each solver against time; one colour a component, one dash a solver.

    Of a system that knows what of its motion is worth seeing (`trajopt.capabilities.Quantities`), as of soft robots
    where their tips are, this takes the place of coordinates; controls of different units get a panel each.  Control
    limits near the controls are thin grey lines.  A system with ``skeleton(xs)`` gets a panel of snapshots of the
    cheapest feasible solution, light at the start, dark at the end, with the problem's ``scenery``, what its costs and
    constraints are about, and the path of what is not held in place in grey, targets in green: in three dimensions, or
    in the plane if the motion stays in one that is normal to an axis.  Components are called as the system says in
    ``state_names`` and ``control_names``, else numbered.  Bodies that have shapes are shown by these at the start and
    at the end; what bends, always.

    Parameters
    ----------
    results : dict of name to Solution, a Comparison, one Solution, or another motion, as of `trajopt.animate`
    path : file to write, optional
    covariance : of `Solution.covariance` or `Solution.laplace`, or of names to these: bands of two standard deviations
        to either side, to first order.  They are those of the numbers that are drawn: of velocities and joints with one
        degree of freedom their own; of a base places in the world, and components of its quaternion.

    Raises: TypeError, ValueError for what is not a result, and for a covariance that is not one of these motions.
    """
    lone = not isinstance(results, (Solution, Mapping)) and is_motion(results)
    solutions = {} if lone else as_results(results)
    best = cheapest(solutions) if solutions else "motion"
    motions = {name: as_motion(solution) for name, solution in (solutions or {best: results}).items()}
    first = next(iter(motions.values()))
    curves = [_series(motion) for motion in motions.values()]
    noise = covariances_of(covariance, motions)
    bands = {name: _deviations(motions[name], one) for name, one in noise.items()}
    panels, in_space = curves[0], drawable(first.system)
    figure = new_figure(15 if in_space else 9.5, 2.5 * len(panels) + 0.8)
    grid = figure.add_gridspec(len(panels), 2 if in_space else 1, width_ratios=(1.3, 1.0) if in_space else None)
    limited = False
    for row, panel in enumerate(panels):
        axes = figure.add_subplot(grid[row, 0])
        for i, ((name, motion), series) in enumerate(zip(motions.items(), curves, strict=True)):
            if name in bands:
                _draw_bands(axes, series[row], motion.times, bands[name][row])
            _draw(axes, series[row], motion.times, _stroke(i, len(motions)))
        tidy(axes, "time [s]" if row == len(panels) - 1 else "", panel.label)
        axes.set_xlim(first.times[0], first.times[-1])
        if panel.columns is not None and first.limits is not None:
            limited |= _draw_limits(axes, [limit[:, panel.columns] for limit in first.limits], first.times)
        _name_components(axes, panel)
    if in_space:
        draw_snapshots(figure, grid[:, 1], motions[best], best if len(motions) > 1 else "")
    strokes = [(name, _stroke(i, len(motions))) for i, name in enumerate(motions)]
    handles: list[Artist] = [Line2D([], [], color="0.2", label=literal(name), **stroke) for name, stroke in strokes]
    if limited:
        handles.append(Line2D([], [], color=GREY, linewidth=0.8, label="control limits"))
    if bands:
        handles.append(band_in_legend())
    if len(handles) > lone:
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    title = first.name if first.name.endswith("motion") else f"{first.name}: motion"
    figure.suptitle(literal(title))
    return save(figure, path)


def _series(motion: Motion) -> list[Series]:
    """The panels: what the system says, else its states, split into q and v where it says nq; its controls by units."""
    system, xs, us = motion.system, motion.xs, motion.us
    mechanical, named = capability(system, Coordinates), capability(system, StateNames)
    states = None if named is None else _names("state_names", named.state_names, system.nx)
    chosen = capability(system, Quantities)
    if chosen is not None:
        panels = [Series("", label, np.asarray(values), names) for label, names, values in chosen.quantities(xs)]
    elif mechanical is None:
        panels = [Series("x", "states $x$", xs, states)]
    else:
        nq = mechanical.nq
        panels = [
            Series("q", "configuration $q$ [rad, m]", xs[:, :nq], states and states[:nq]),
            Series("v", "velocity $v$ [rad/s, m/s]", xs[:, nq:], states and states[nq:]),
        ]
    commanded, measured = capability(system, ControlNames), capability(system, ControlUnits)
    controls = None if commanded is None else _names("control_names", commanded.control_names, system.nu)
    units = None if measured is None else _names("control_units", measured.control_units, system.nu)
    if units is None:
        label = "controls $u$" if mechanical is None else "controls $u$ [N m, N]"
        return [*panels, Series("u", label, us, controls, np.arange(us.shape[1]))]
    for unit in dict.fromkeys(units):
        own = np.flatnonzero([each == unit for each in units])
        names = controls and [controls[k] for k in own]
        panels.append(Series("u", "controls $u$" + f" [{unit}]" * bool(unit), us[:, own], names, own))
    return panels


def _names(attribute: str, names: Sequence[str], count: int) -> tuple[str, ...]:
    """The system's own names of its states or controls, or their units."""
    if len(names) != count:
        raise ValueError(f"{attribute}: got {len(names)} names, wanted {count}")
    return tuple(names)


def _held(values: np.ndarray) -> np.ndarray:
    """Controls (N+1, n) to be drawn in steps: each is held until the next knot."""
    return np.concatenate([values, values[-1:]])


def _draw(axes: Axes, series: Series, times: np.ndarray, stroke: dict[str, Any]) -> None:
    held, count = len(series.values) < len(times), series.values.shape[1]
    values = _held(series.values) if held else series.values
    for j in range(count):
        style = "steps-post" if held else "default"
        axes.plot(times, values[:, j], color=_color(j, count), drawstyle=style, **stroke)


def _deviations(motion: Motion, covariance: Covariance) -> list[np.ndarray]:
    """Standard deviations of the values of all panels."""
    panels = _series(motion)
    states = [row for row, series in enumerate(panels) if series.columns is None]

    def drawn(xs: np.ndarray) -> list[np.ndarray]:
        moved = _series(motion._replace(xs=xs))
        return [moved[row].values for row in states]

    of_states, us = dict(zip(states, deviations(motion, covariance, drawn), strict=True)), covariance.control_deviations
    return [us[:, s.columns] if s.columns is not None else of_states[row] for row, s in enumerate(panels)]


def _draw_bands(axes: Axes, series: Series, times: np.ndarray, sd: np.ndarray) -> None:
    held, count = len(series.values) < len(times), series.values.shape[1]
    values, sd = (_held(each) for each in (series.values, sd)) if held else (series.values, sd)
    for j in range(count):
        draw_band(axes, times, values[:, j], sd[:, j], _color(j, count), held)


def _draw_limits(axes: Axes, limits: Sequence[np.ndarray], times: np.ndarray) -> bool:
    """Grey lines at the control limits (N, n) that are in reach of the curves; True if there are some."""
    rows = np.unique(np.concatenate([limit.T for limit in limits]), axis=0)
    bottom, top = axes.get_ylim()
    margin = REACH * (top - bottom)
    near = rows[((rows >= bottom - margin) & (rows <= top + margin)).any(axis=1)]
    for row in np.where(np.isfinite(near), near, np.nan):
        axes.plot(times, _held(row), color=GREY, linewidth=0.8, drawstyle="steps-post", zorder=1.5)
    seen = near[(near >= bottom - margin) & (near <= top + margin)]
    if seen.size:
        edge = 0.05 * (top - bottom)
        axes.set_ylim(min(bottom, seen.min() - edge), max(top, seen.max() + edge))
    return bool(seen.size)


def _stroke(i: int, solvers: int) -> dict[str, Any]:
    """Line style of solver i: the first a wide pale band under the others, so that equal motions all show."""
    if i == 0 and solvers > 1:
        return {"linestyle": "-", "linewidth": 4.5, "alpha": 0.35}
    return {"linestyle": DASHES[max(i - 1, 0) % len(DASHES)], "linewidth": 1.4}


def _color(j: int, count: int):
    return colormaps["tab10"](j) if count <= NAMED else colormaps["turbo"](0.05 + 0.9 * j / (count - 1))


def _name_components(axes: Axes, series: Series) -> None:
    """A legend beside the panel, of names that the system gives, or of more than one component."""
    count = series.values.shape[1]
    if count == 1 and series.names is None:
        return
    labels = series.names or [f"${series.symbol}_{{{j + 1}}}$" for j in range(count)]
    listed = np.linspace(0, count - 1, min(count, NAMED)).round().astype(int)
    handles = [Line2D([], [], color=_color(j, count), label=literal(str(labels[j]))) for j in listed]
    axes.legend(
        handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9, handlelength=1.2,
        title=f"{NAMED} of {count} names" if count > NAMED else None, title_fontsize=9,
    )  # fmt: skip
