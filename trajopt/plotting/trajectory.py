"""Motion against time; first, bands about its curves for covariances along tangents.

To first order: for a drawn quantity s, cov s = S P S' with S the derivative of s(integrate(x, dx)) with respect to dx,
here by central differences.  So quantities that are no tangents have bands too: quaternions, world positions of a base
that moves in its own frame, tips of soft robots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from trajopt.capabilities import Contacts, Joints, Knots, Names, Pictures, capability
from trajopt.interfaces.state_space import numbers_of_states
from trajopt.optimality.uncertainty import Covariance
from trajopt.plotting.motion import Motion, as_motion, is_motion
from trajopt.plotting.snapshots import draw_snapshots, drawable
from trajopt.plotting.style import COLORS, DASHES, GREY, as_results, cheapest, literal, new_figure, save, tidy
from trajopt.problem.extended_system import ExtendedSystem
from trajopt.results.solution import Solution

DEVIATIONS = 2.0
"""Half the width of a band, in standard deviations."""
STEP = 1e-5
"""Step of differences along tangents."""


def covariances_of(covariance: Any, motions: Mapping[str, Motion]) -> dict[str, Covariance]:
    """Covariances by the names of motions, from one or a mapping; TypeError or ValueError for anything else."""
    if covariance is None:
        return {}
    lone = isinstance(covariance, Covariance) and len(motions) == 1
    found = {next(iter(motions)): covariance} if lone else covariance
    if not isinstance(found, Mapping) or not all(isinstance(one, Covariance) for one in found.values()):
        expected = "a Covariance" if len(motions) == 1 else "a mapping of names to Covariance"
        raise TypeError(f"covariance: got {type(covariance).__name__}, expected {expected}")
    for name, one in found.items():
        if name not in motions:
            raise ValueError(f"covariance: got one for {name!r}, expected some of {', '.join(motions)}")
        motion, n = motions[name], motions[name].system.ndx
        shapes = (len(motion.xs), n, n), (len(motion.us), motion.us.shape[1], motion.us.shape[1])
        if (one.xs.shape, one.us.shape) != shapes:
            raise ValueError(f"covariance: got xs {one.xs.shape} and us {one.us.shape}, expected {shapes}")
    return dict(found)


def deviations(
    motion: Motion, covariance: Covariance, drawn: Callable[[np.ndarray], Sequence[np.ndarray]]
) -> list[np.ndarray]:
    """Standard deviations (K, n) of all drawn quantities, arrays (K, n) as functions of states (K, nx)."""
    columns, system, xs = [], motion.system, motion.xs
    for e in STEP * np.eye(system.ndx):
        ahead, behind = (drawn(system.integrate(xs, np.tile(step, (len(xs), 1)))) for step in (e, -e))
        columns.append([(one - other) / (2.0 * STEP) for one, other in zip(ahead, behind, strict=True)])
    derivatives = [np.stack(column, axis=-1) for column in zip(*columns, strict=True)]
    return [np.sqrt(np.maximum(np.einsum("kia,kab,kib->ki", S, covariance.xs, S), 0.0)) for S in derivatives]


def draw_band(axes: Axes, times: np.ndarray, values: np.ndarray, sd: np.ndarray, color: Any, held: bool) -> None:
    """Draw a band about one curve (K,)."""
    step = "post" if held else None
    low, high = values - DEVIATIONS * sd, values + DEVIATIONS * sd
    axes.fill_between(times, low, high, step=step, color=color, alpha=0.2, linewidth=0.0)


def band_in_legend() -> Patch:
    """Entry of the legend for bands."""
    return Patch(color="0.5", alpha=0.3, linewidth=0.0, label=f"$\\pm$ {DEVIATIONS:g} standard deviations")


# --------------------------------------------------------------------------------------------
# The motion of a solution: states, controls and contact forces against time, and snapshots of the system in space.

NAMED = 12
"""Largest number of components in a legend; of more, this many are listed, from the first to the last."""
REACH = 0.5
"""Limits farther beyond the curves than this fraction of their height are not shown in a panel."""
WIDTH, ALONE, HEIGHT = 12.0, 8.0, 2.2
"""Widths of figures with snapshots and without, and height of a panel, inches."""
TALL = 5
"""Largest number of panels of states and controls in one column; more are in two, with the snapshots in the second."""
SPAN = 3
"""Height of the snapshots in panels, where they share a column."""
LIMIT = 1.0
"""Width of lines at limits, points."""
SHADE = "0.93"
"""Grey level of every other phase."""


class Series(NamedTuple):
    """A panel: label of its values (K, n), names of the components as matplotlib shows them, or None; `of`: kind of the
    quantity."""

    label: str
    values: np.ndarray
    names: Sequence[str] | None
    columns: np.ndarray | None = None
    of: str = "states"  # or "controls", "forces"


def plot_trajectory(
    results: Mapping[str, Solution] | Any,
    path: str | Path | None = None,
    covariance: Covariance | Mapping[str, Covariance] | None = None,
) -> Figure:
    """Draw configuration, velocity, controls and contact forces of each solver against time.

    Each component has a colour; dashes distinguish components of one solution, or the solvers of several.  For a system
    that names the interesting quantities of its motion (`trajopt.capabilities.Pictures`), such as the tips of soft
    robots, these replace coordinates; controls of different units have a panel each, and so do coordinates of robots
    that have many.  Limits of states and controls near the curves are thin grey lines; every other phase has a grey
    background.  For contact forces, N, their magnitudes are drawn.  A system with ``skeleton(xs)`` has a panel of
    snapshots of the cheapest feasible solution, light at the start, dark at the end, with the problem's ``scenery``,
    the shapes of its costs and constraints, and the path of a system without a fixed point in grey, targets in green:
    in three dimensions, or plane if the motion stays in a plane normal to an axis.  Components have the names in the
    system's ``state_names`` and ``control_names``, else numbers.  Bodies with shapes are shown by these at the start
    and at the end; surfaces that bend at all times.  Figures are 12 inches wide at most.

    Parameters
    ----------
    results : dict of name to Solution, a Comparison, one Solution, or another motion, as for `trajopt.animate`
    path : file to write, optional
    covariance : from `Solution.covariance` or `Solution.laplace`, or a mapping of names to these: bands of two standard
        deviations to either side, to first order, of the quantities that are drawn: for velocities and joints with one
        degree of freedom their own; for a base world positions, and components of its quaternion.

    Raises: TypeError, ValueError for other results, and for a covariance of none of these motions.
    """
    lone = not isinstance(results, (Solution, Mapping)) and is_motion(results)
    solutions = {} if lone else as_results(results)
    best = cheapest(solutions) if solutions else "motion"
    motions = {name: as_motion(solution) for name, solution in (solutions or {best: results}).items()}
    first = next(iter(motions.values()))
    curves = [_series(motion) for motion in motions.values()]
    if not any(np.nan_to_num(one.values).any() for series in curves for one in series if one.of == "forces"):
        curves = [[one for one in series if one.of != "forces"] for series in curves]  # no contact is ever held
    noise = covariances_of(covariance, motions)
    bands = {name: _deviations(motions[name], one) for name, one in noise.items()}
    panels, in_space = curves[0], drawable(first.system)
    figure, places, where = _layout(len(panels), sum(panel.of == "states" for panel in panels), in_space)
    limited = False
    for row, (panel, place) in enumerate(zip(panels, places, strict=True)):
        axes = figure.add_subplot(place)
        _shade_phases(axes, first)
        for i, ((name, motion), series) in enumerate(zip(motions.items(), curves, strict=True)):
            if name in bands and panel.of != "forces":
                _draw_bands(axes, series[row], motion.times, bands[name][row])
            _draw(axes, series[row], motion.times, None if len(motions) == 1 else _stroke(i))
        last = row == len(panels) - 1 or places[row + 1].colspan != place.colspan
        tidy(axes, "time [s]" if last else "", panel.label)
        axes.set_xlim(first.times[0], first.times[-1])
        limits = {"states": first.state_limits, "controls": first.limits}.get(panel.of)
        if panel.columns is not None and limits is not None:
            limited |= _draw_limits(axes, [limit[:, panel.columns] for limit in limits], first.times)
        _name_components(axes, panel, len(motions) == 1)
    if where is not None:
        draw_snapshots(figure, where, motions[best], best if len(motions) > 1 else "")
    handles: list[Artist] = []
    if len(motions) > 1:
        handles = [Line2D([], [], color="0.2", label=literal(name), **_stroke(i)) for i, name in enumerate(motions)]
    if limited:
        handles.append(Line2D([], [], color=GREY, linewidth=LIMIT, label="limits"))
    if len(_phases(first)) > 1:
        handles.append(Patch(color=SHADE, label="every other phase"))
    if bands:
        handles.append(band_in_legend())
    if handles:
        style = {"ncols": min(len(handles), 6), "frameon": False, "fontsize": 10}
        figure.legend(handles=handles, loc="outside lower center", **style)
    title = first.name if first.name.endswith("motion") else f"{first.name}: motion"
    figure.suptitle(literal(title), fontsize=13)
    return save(figure, path)


def _layout(panels: int, of_states: int, in_space: bool) -> tuple[Figure, list[SubplotSpec], SubplotSpec | None]:
    """A figure, the places of its panels, those of states first, and the place of the snapshots: beside a column of all
    panels, or above those that are not of states."""
    if not in_space:
        figure = new_figure(ALONE, HEIGHT * panels + 0.8)
        grid = figure.add_gridspec(panels, 1)
        return figure, [grid[row, 0] for row in range(panels)], None
    if panels <= TALL:
        figure = new_figure(WIDTH, HEIGHT * panels + 0.8)
        grid = figure.add_gridspec(panels, 2, width_ratios=(1.3, 1.0))
        return figure, [grid[row, 0] for row in range(panels)], grid[:, 1]
    rows = max(of_states, panels - of_states + SPAN)
    figure = new_figure(WIDTH, HEIGHT * rows + 0.8)
    grid, top = figure.add_gridspec(rows, 2), rows - (panels - of_states)
    left, right = [grid[row, 0] for row in range(of_states)], [grid[row, 1] for row in range(top, rows)]
    return figure, left + right, grid[:top, 1]


def _phases(motion: Motion) -> np.ndarray:
    """Times at which phases begin, including the first; empty for a system without phases."""
    starts = np.asarray(capability(motion.system, Knots).phase_starts)
    return motion.times[starts[starts < len(motion.times)]]


def _shade_phases(axes: Axes, motion: Motion) -> None:
    """Draw a grey background for every other phase."""
    edges = np.append(_phases(motion), motion.times[-1])
    for begin, end in zip(edges[1:-1:2], edges[2::2], strict=True):
        axes.axvspan(begin, end, color=SHADE, linewidth=0.0, zorder=0.5)


# ------------------------------------------------------------------------------------------------ panels
def _series(motion: Motion) -> list[Series]:
    """The panels: quantities that the system names, else its states, split into q and v if it has nq; its controls by
    units; forces of its contacts."""
    return _of_states(motion) + _of_controls(motion) + _of_contacts(motion)


def _of_states(motion: Motion) -> list[Series]:
    system, xs = motion.system, motion.xs
    quantities = capability(system, Pictures).quantities
    if quantities is not None:
        return [
            Series(literal(label), np.asarray(values), _names(label, names, np.shape(values)[1]))
            for label, names, values in quantities(xs)
        ]
    nq, names = capability(system, Joints).nq, capability(system, Names).state_names
    names = _names("state_names", names, system.nx) if names else None
    units, panels, n = numbers_of_states(system)[1], [], system.nx
    if nq is None:
        kinds = [("states $x$", "", names or _numbered("x", n), np.arange(n))]
    else:
        q, v = np.split(np.arange(n), [nq])
        names = names or (*_numbered("q", len(q)), *_numbered("v", len(v)))
        named_v = tuple(name.removesuffix(" velocity") for name in names)
        kinds = [("configuration $q$", "rad, m", names, q), ("velocity $v$", "rad/s, m/s", named_v, v)]
    for label, unknown, names, columns in kinds:
        known = dict.fromkeys(units[k] for k in columns)
        whole = len(known) == 1 or (len(columns) <= NAMED and "" not in known)
        for own in [tuple(known)] if whole else [(unit,) for unit in known]:
            part = columns[[units[k] in own for k in columns]]
            unit = ", ".join(own) or (unknown if whole else "")
            unit = "" if nq is None and whole else unit  # names of single states contain it
            shown = label + f" [{literal(unit)}]" * bool(unit)
            panels.append(Series(shown, xs[:, part], [names[k] for k in part], part))
    return panels


def _of_controls(motion: Motion) -> list[Series]:
    system, us, panels = motion.system, motion.us, []
    if us.shape[1] == 0:
        return panels
    known, names = capability(system, Names), _numbered("u", us.shape[1])
    if known.control_names:
        names = _names("control_names", known.control_names, system.nu)
    units = _names("control_units", known.control_units, system.nu) if known.control_units else None
    if units is None:
        plain = capability(system, Joints).nq is None or isinstance(system, ExtendedSystem)
        label = "controls $u$" if plain else "controls $u$ [N m, N]"
        return [Series(label, us, names, np.arange(us.shape[1]), "controls")]
    for unit in dict.fromkeys(units):
        own = np.flatnonzero([each == unit for each in units])
        label = "controls $u$" + f" [{unit}]" * bool(unit)
        panels.append(Series(label, us[:, own], [names[k] for k in own], own, "controls"))
    return panels


def _of_contacts(motion: Motion) -> list[Series]:
    """Magnitudes (N, F) of the forces at contacts, NaN along a motion that is not finite; none for a system without
    contacts."""
    known = capability(motion.system, Contacts)
    if known.contact_forces is None or not known.contact_frames:
        return []
    count = len(known.contact_frames)
    lengths = np.full((len(motion.us), count), np.nan)
    if np.isfinite(motion.xs).all() and np.isfinite(motion.us).all():
        lengths = np.linalg.norm(known.contact_forces(motion.xs, motion.us), axis=-1)
    names = _names("contact_frames", known.contact_frames, count)
    return [Series("contact forces $|f|$ [N]", lengths, names, None, "forces")]


def _names(attribute: str, names: Sequence[str], count: int) -> tuple[str, ...]:
    """The system's own names of its states or controls, or their units, as matplotlib shows them."""
    if len(names) != count:
        raise ValueError(f"{attribute}: got {len(names)} names, expected {count}")
    return tuple(literal(str(name)) for name in names)


def _numbered(symbol: str, count: int) -> tuple[str, ...]:
    return tuple(f"${symbol}_{{{j + 1}}}$" for j in range(count))


def _held(values: np.ndarray) -> np.ndarray:
    """Controls (N+1, n) to be drawn in steps: each is held until the next knot."""
    return np.concatenate([values, values[-1:]])


def _draw(axes: Axes, series: Series, times: np.ndarray, stroke: dict[str, Any] | None) -> None:
    """Draw the curves of one solution, in a common line style, or each in one of its own."""
    held, count = len(series.values) < len(times), series.values.shape[1]
    values = _held(series.values) if held else series.values
    for j in range(count):
        style = "steps-post" if held else "default"
        axes.plot(times, values[:, j], color=_color(j, count), drawstyle=style, **(stroke or _own_stroke(j)))


def _deviations(motion: Motion, covariance: Covariance) -> list[np.ndarray]:
    """Standard deviations of the values of all panels."""
    panels = _series(motion)
    states = [row for row, series in enumerate(panels) if series.of == "states"]

    def drawn(xs: np.ndarray) -> list[np.ndarray]:
        moved = _of_states(motion._replace(xs=xs))
        return [moved[row].values for row in states]

    of_states, us = dict(zip(states, deviations(motion, covariance, drawn), strict=True)), covariance.control_deviations
    return [us[:, s.columns] if s.of == "controls" else of_states.get(row, s.values) for row, s in enumerate(panels)]


def _draw_bands(axes: Axes, series: Series, times: np.ndarray, sd: np.ndarray) -> None:
    held, count = len(series.values) < len(times), series.values.shape[1]
    values, sd = (_held(each) for each in (series.values, sd)) if held else (series.values, sd)
    for j in range(count):
        draw_band(axes, times, values[:, j], sd[:, j], _color(j, count), held)


def _draw_limits(axes: Axes, limits: Sequence[np.ndarray], times: np.ndarray) -> bool:
    """Draw grey lines at limits (K, n), or (K - 1, n) for held values, that are near the curves; True if there are
    some."""
    rows = np.unique(np.concatenate([limit.T for limit in limits]), axis=0)
    rows = rows[np.isfinite(rows).sum(axis=1) > 1]
    held = rows.shape[1] < len(times)
    bottom, top = axes.get_ylim()
    margin = REACH * (top - bottom)
    near = rows[((rows >= bottom - margin) & (rows <= top + margin)).any(axis=1)]
    for row in np.where(np.isfinite(near), near, np.nan):
        style = {"color": GREY, "linewidth": LIMIT, "drawstyle": "steps-post" if held else "default", "zorder": 1.5}
        axes.plot(times, _held(row) if held else row, **style)
    seen = near[(near >= bottom - margin) & (near <= top + margin)]
    if seen.size:
        edge = 0.05 * (top - bottom)
        axes.set_ylim(min(bottom, seen.min() - edge), max(top, seen.max() + edge))
    return bool(seen.size)


def _stroke(i: int) -> dict[str, Any]:
    """Line style of solver i of several: the first a wide pale band below the others, so that equal motions are all
    visible.
    """
    return {"linestyle": "-", "linewidth": 4.5, "alpha": 0.35} if i == 0 else _own_stroke(i - 1)


def _own_stroke(j: int) -> dict[str, Any]:
    return {"linestyle": DASHES[j % len(DASHES)], "linewidth": 1.5}


def _color(j: int, count: int):
    return COLORS[j] if count <= len(COLORS) else colormaps["turbo"](0.05 + 0.9 * j / (count - 1))


def _name_components(axes: Axes, series: Series, dashed: bool) -> None:
    """Add a legend beside the panel, for names that the system has, or for more than one component."""
    count, names = series.values.shape[1], series.names
    if names is None or (count == 1 and names[0].startswith("$")):
        return
    listed = np.linspace(0, count - 1, min(count, NAMED)).round().astype(int)
    strokes = [_own_stroke(j if dashed else 0) for j in listed]
    handles = [
        Line2D([], [], color=_color(j, count), label=names[j], **stroke)
        for j, stroke in zip(listed, strokes, strict=True)
    ]
    axes.legend(
        handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9, handlelength=2.2,
        labelspacing=0.3, title=f"{NAMED} of {count} names" if count > NAMED else None, title_fontsize=9,
    )  # fmt: skip
