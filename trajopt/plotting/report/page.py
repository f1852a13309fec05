"""The page of a report; first, the scene for its player: surfaces, layers of capsules, and the initial camera.

Everything but surfaces is a capsule, two ends with a radius each: tubes of the skeleton, heads of arrows with one
radius zero, points with both ends in one place, lines so thin that the player draws them some pixels wide.  A layer is
shown and hidden by one box; its array has the eight numbers x y z r, x y z r of each capsule, for a moving layer at
each frame.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, NamedTuple, Self

import numba
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from dynamics.distribution import version
from dynamics.simd import LANES, num_threads
from trajopt.capabilities import Names, Pictures, capability
from trajopt.interfaces.system import control_names, knot_durations
from trajopt.plotting.convergence import plot_convergence
from trajopt.plotting.motion import as_motion
from trajopt.plotting.scene import Bodies, Scene, Surface, frame_times, rounded_up, scene_of
from trajopt.plotting.style import DPI, LONE, as_results, cheapest
from trajopt.plotting.trajectory import plot_trajectory
from trajopt.plotting.viewer import (
    BODY,
    CELLS,
    CENTER,
    FORCE,
    FREE,
    HELD,
    LEAST_TUBE,
    OBSTACLE,
    TARGET,
    TUBE,
    page_camera,
    turns_as_quaternions,
)
from trajopt.problem.objective import Term
from trajopt.problem.problem import Problem
from trajopt.results.advice import called, plural
from trajopt.results.conflict import conflict
from trajopt.results.explanation import term_values
from trajopt.results.records import ConstraintReport
from trajopt.results.results_files import save_bytes
from trajopt.results.solution import Solution

# --------------------------------------------------------------------------------------------
# HTML from text: all text is escaped except the results of these functions.


class Html(str):
    """Text that is markup."""

    def __new__(cls, text: str) -> Self:
        return super().__new__(cls, text)


def tag(name: str, *content: str, **attributes: str) -> Html:
    """An element; a trailing underscore of an attribute that is a Python keyword, such as `class_`, is removed, other
    underscores become hyphens."""
    named = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{named}>{joined(content)}</{name}>")


def joined(content: Iterable[str]) -> Html:
    """Markup of all, one after another."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in content))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> Html:
    """A table, wider ones in a box that scrolls; all but the first `words` columns are numbers, aligned right."""
    kinds = ["words" if k < words else "number" for k in range(len(headings))]
    head = tag("tr", *(tag("th", text, class_=kind, scope="col") for text, kind in zip(headings, kinds, strict=True)))
    body = [tag("tr", *(tag("td", x, class_=kind) for x, kind in zip(row, kinds, strict=True))) for row in rows]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *body)), class_="wide", tabindex="0")


def section(name: str, title: str, *content: str) -> Html:
    """A section that links can point at."""
    return tag("section", tag("h2", title), *content, id=name)


def folded(title: str, *content: str) -> Html:
    """Content that is shown when it is opened."""
    return tag("details", tag("summary", title), *content)


def picture(figure: Figure, description: str) -> Html:
    """A figure embedded in the page, in a box that scrolls where the page is narrow."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=DPI)
    data = base64.b64encode(stream.getvalue()).decode("ascii")
    image = Html(f'<img alt="{escape(description)}" src="data:image/png;base64,{data}">')
    return tag("div", image, class_="wide picture", tabindex="0")


ASPECT = 1.5
"""Width / height of the picture in a wide window."""
HEAD = 0.05
"""Length of an arrow's head, as a fraction of the scene's size."""
THIN = 1e-6
"""Radius of a line, m: its drawn width is the `pixels` of its layer."""
PATH = (204, 121, 167)
IN_THE_DARK = {BODY: (150, 170, 212), FREE: (120, 120, 120), CELLS: (70, 74, 82), OBSTACLE: (160, 160, 160)}
"""Colours on a dark page that replace those which would be too faint, or too bright, there."""
TIPS = 12
"""Largest number of free ends whose paths are drawn."""


class Layer(NamedTuple):
    """Capsules of one colour; layers of one name share a box."""

    name: str
    label: str
    color: tuple[int, int, int]
    capsules: np.ndarray  # (C, 8), or (K, C, 8) if they move
    pixels: float = 0.0  # least width
    plain: bool = False  # not lit
    shown: bool = True

    @property
    def colors(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Colours on a light page, and on a dark one."""
        return self.color, IN_THE_DARK.get(self.color, self.color)

    def told(self) -> dict[str, Any]:
        """The layer in JSON."""
        return {
            "name": self.name, "color": [[part / 255.0 for part in color] for color in self.colors],
            "pixels": self.pixels, "plain": self.plain, "shown": self.shown, "moves": self.capsules.ndim == 3,
            "count": self.capsules.shape[-2], "data": encoded(self.capsules, "<f4"),
        }  # fmt: skip


def player_scene(scene: Scene) -> dict[str, Any]:
    """The scene in JSON, in the form that `player.js` reads."""
    camera = page_camera(scene, ASPECT)
    return {
        "times": [float(time) for time in scene.times],
        "camera": {
            "position": camera.position.tolist(), "look_at": camera.look_at.tolist(),
            "field_of_view": camera.field_of_view, "aspect": ASPECT,
        },
        "layers": [layer.told() for layer in layers_of(scene)],
        "mesh": _mesh(scene),
    }  # fmt: skip


def encoded(values: ArrayLike, kind: str) -> str:
    """The numbers of an array in base 64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


# ------------------------------------------------------------------------------------------------ layers
def layers_of(scene: Scene) -> list[Layer]:
    """All layers of capsules; empty ones are left out."""
    size, held = scene.size, scene.held
    tube = max(TUBE * size, LEAST_TUBE * float(np.ptp(scene.drawn(), axis=0).max()))
    arrow, (tips, whose) = scene.arrows(), _followed(scene)
    length = np.linalg.norm(arrow, axis=-1)
    head = np.minimum(HEAD * size / np.maximum(length, 1e-12), 1.0)  # fraction of the length: short arrows are all head
    ends, neck, wide = scene.points + arrow, scene.points + (1.0 - head)[..., None] * arrow, 0.4 * head * length
    center = scene.center.reshape(len(scene.times), -1, 3)
    still, arrived = (_lines(scene, target) for target in (False, True))
    arrows = [(scene.points, neck, 0.4 * wide, 0.4 * wide), (neck, ends, wide, 0.0 * wide)]
    found = [
        Layer("ground", "ground", CELLS, _grid(scene, tube), 1.0, True),
        Layer("surroundings", "surroundings", OBSTACLE, still, 2.0, True),
        Layer("targets", "targets", TARGET, arrived, 3.0, True),
        Layer("paths", whose, PATH, _along(tips), 1.5, True),
        Layer("center", "centre of mass", CENTER, _along(center), 2.0, True),
        Layer("skeleton", "skeleton", BODY, _capsules(scene.segments[:, :, 0], scene.segments[:, :, 1], tube, tube),
              1.5, shown=scene.solids.bare),
        Layer("free", "no contact", FREE, _balls(scene.points, np.where(held, 0.0, 0.025 * size))),
        Layer("held", "contact", HELD, _balls(scene.points, np.where(held, 0.025 * size, 0.0))),
        Layer("forces", f"contact forces, {scene.newtons_per_metre:g} N per m", FORCE,
              np.concatenate([_capsules(a, b, held * r, held * s) for a, b, r, s in arrows], axis=1)),
        Layer("center", "centre of mass", CENTER, _balls(center, 0.02 * size)),
    ]  # fmt: skip
    return [layer for layer in found if layer.capsules.size and (layer.capsules[..., 3] > 0.0).any()]


def _followed(scene: Scene) -> tuple[np.ndarray, str]:
    """Points (K, P, 3) whose paths are drawn, and a label: tips if there are at most TIPS, else the middle of the
    skeleton."""
    tips = scene.tips()
    if 0 < tips.shape[1] <= TIPS:
        return tips, "paths of tips"
    ends = scene.segments.reshape(len(scene.times), -1, 3)
    middles = ends.mean(axis=1, keepdims=True) if ends.size and not scene.center.size else ends[:, :0]
    return middles, "path of the middle"


def _capsules(a: np.ndarray, b: np.ndarray, r: ArrayLike, s: ArrayLike) -> np.ndarray:
    """Capsules (..., 8) from a (..., 3) with radius r to b with radius s."""
    radii = (np.broadcast_to(radius, a.shape[:-1])[..., None] for radius in (r, s))
    first, second = radii
    return np.concatenate([a, first, b, second], axis=-1)


def _balls(points: np.ndarray, radius: ArrayLike) -> np.ndarray:
    return _capsules(points, points, radius, radius)


def _along(points: np.ndarray) -> np.ndarray:
    """Lines along the paths of points (K, P, 3), from frame to frame."""
    return _capsules(points[:-1], points[1:], THIN, THIN).reshape(-1, 8)


def _lines(scene: Scene, target: bool) -> np.ndarray:
    """Lines of all shapes of a kind that have no surface."""
    lines = [shape.lines() for shape in scene.shapes if shape.target == target and shape.surface() is None]
    ends = np.concatenate([np.empty((0, 2, 3)), *lines])
    return _capsules(ends[:, 0], ends[:, 1], THIN, THIN)


def _grid(scene: Scene, below: float) -> np.ndarray:
    """Lines of the ground, below all that is drawn; none without ground."""
    if scene.ground is None:
        return np.empty((0, 8))
    low, high = scene.drawn().min(axis=0), scene.drawn().max(axis=0)
    extent, middle = max(float((high - low).max()), 1e-6), 0.5 * (low + high)
    cell = rounded_up(0.1 * extent)
    count = int(np.ceil(1.2 * extent / cell))
    at = cell * np.arange(-count, count + 1)
    x, y = (np.round(middle[k] / cell) * cell for k in (0, 1))
    height, edge = np.full(len(at), scene.ground - below), np.full(len(at), at[-1])
    across = [np.stack([x + sign * edge, y + at, height], axis=1) for sign in (-1.0, 1.0)]
    along = [np.stack([x + at, y + sign * edge, height], axis=1) for sign in (-1.0, 1.0)]
    return np.concatenate([_capsules(a, b, THIN, THIN) for a, b in (across, along)])


# ------------------------------------------------------------------------------------------------ surfaces
def _mesh(scene: Scene) -> dict[str, Any] | None:
    """Surfaces of bodies, and of fixed shapes; None if there are none."""
    bodies = scene.solids
    count = bodies.turns.shape[1] or 1
    surfaces = [*bodies.solids]
    for shape in scene.shapes:
        color = TARGET if shape.target else OBSTACLE
        if (surface := shape.surface()) is not None:
            surfaces.append(Surface(-1, *surface, (color[0] / 255.0, color[1] / 255.0, color[2] / 255.0, 1.0), ""))
    if not surfaces:
        return None
    solids, start, corner, faces = [], 0, 0, []
    for surface in surfaces:
        faces.append(np.asarray(surface.faces) + corner)
        solids.append({"start": start, "stop": start + len(surface.faces), "color": [*map(float, surface.color)]})
        start, corner = start + len(surface.faces), corner + len(surface.vertices)
    owners = [np.broadcast_to(surface.body, len(surface.vertices)) % count for surface in surfaces]
    return {
        "count": count, "solids": solids, "faces": encoded(np.concatenate(faces), "<u4"),
        "vertices": encoded(np.concatenate([surface.vertices for surface in surfaces]), "<f4"),
        "owners": encoded(np.concatenate(owners), "<u2"),
        "placements": encoded(_placements(bodies, len(scene.times)), "<f4"),
    }  # fmt: skip


def _placements(bodies: Bodies, frames: int) -> np.ndarray:
    """Places (K, B, 7) of each body at each frame, the fixed one last: w x y z of a quaternion and a position; signs of
    quaternions are chosen for the shorter way from frame to frame."""
    if not bodies.solids:
        return np.tile([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], (frames, 1, 1))
    q = turns_as_quaternions(bodies.turns)
    back = (q[1:] * q[:-1]).sum(axis=-1, keepdims=True) < 0.0
    q[1:] *= np.where(np.cumsum(back, axis=0) % 2, -1.0, 1.0)
    return np.concatenate([q, bodies.origins], axis=-1)


# --------------------------------------------------------------------------------------------
# A problem and its solution in words and tables.

LISTED = 200
"""Largest number of rows in a table of iterations or components."""
THOUSANDS = 1e6


def number(value: float, digits: int = 6) -> str:
    """A number in print, with a true minus sign, and thousands without a power of ten."""
    text = f"{float(value) + 0.0:.{digits}g}"
    text = f"{float(text):.0f}" if "e+" in text and abs(value) < THOUSANDS else text
    return text.replace("-", "\N{MINUS SIGN}").replace("inf", "∞")


def between(values: np.ndarray, digits: int = 3) -> str:
    """One number, or the smallest and the largest."""
    low, high = float(np.min(values)), float(np.max(values))
    return number(low, digits) if low == high else f"{number(low, digits)} … {number(high, digits)}"


# ------------------------------------------------------------------------------------------------ the problem
def problem_in_words(problem: Problem, solution: Solution) -> Html:
    """System, sizes and horizon, costs and constraints."""
    return joined([
        tag("p", _system(problem), " ", _time(problem, solution)),
        tag("p", "It is to minimise the sum of these costs, running ones over time:"),
        _costs(problem, solution),
        *_limits(solution),
        folded("The system in full", tag("p", tag("code", repr(problem.system)))),
        folded("States and controls, component by component", _components(problem, solution)),
    ])  # fmt: skip


def _system(problem: Problem) -> str:
    system = problem.system
    tangent = "" if system.ndx == system.nx else f", on a manifold of {system.ndx} dimensions"
    kind = type(system).__name__
    return (
        f"The system is a{'n' * (kind[0] in 'AEIOU')} {kind}: {plural(system.nx, 'number')} to a state{tangent}, "
        f"{plural(system.nu, 'control')}."
    )


def _time(problem: Problem, solution: Solution) -> str:
    """Text on the lengths of the steps."""
    planned, taken = (knot_durations(problem.system, problem.horizon, xs) for xs in (None, solution.xs))
    steps, whole = plural(problem.horizon, "step"), number(float(taken.sum()))
    if not np.array_equal(planned, taken):
        return f"It takes {steps} whose durations are free; here {between(taken)} s, {whole} s in all."
    lasting = planned[planned > 0.0]
    idle = "" if len(lasting) == len(planned) else f", {len(planned) - len(lasting)} of which take no time"
    return f"It takes {steps} of {between(lasting)} s{idle}, {whole} s in all."


def _where(term: Term, horizon: int) -> str:
    if term.terminal:
        return "at the end"
    return knots_in_words(np.arange(horizon) if term.knots is None else term.knots, horizon)


def knots_in_words(knots: np.ndarray, horizon: int) -> str:
    """Text such as 'knots 6 to 24', with their number if some are left out."""
    if not len(knots):
        return "nowhere"
    first, last = int(knots[0]), int(knots[-1])
    if first == last:
        return "at the end" if first == horizon else f"knot {first}"
    some = "" if len(knots) == last - first + 1 else f"{len(knots)} of "
    return f"{some}knots {first} to {last}"


def _costs(problem: Problem, solution: Solution) -> Html:
    """Table of all terms: where they apply, their weights and their values."""
    values = [(term, float(rows.sum())) for term, rows in term_values(problem, solution.xs, solution.us)]
    whole = sum(abs(value) for _, value in values)
    rows = []
    for term, value in values:
        weights = getattr(term.cost, "weights", None)
        share = f"{number(100.0 * abs(value) / whole, 3)} %" if 0.0 < whole < np.inf else ""
        weighed = "" if weights is None or not np.size(weights) else between(np.asarray(weights))
        rows.append([term.name, _where(term, problem.horizon), weighed, number(value), share])
    return table(["cost", "where", "weights", "value", "share"], rows, words=2)


def _limits(solution: Solution) -> Iterator[Html]:
    if not solution.constraints:
        yield tag("p", "There are no constraints.")
        return
    horizon = len(solution.us)
    yield tag("p", "It is to keep these constraints:")
    yield table(
        ["constraint", "where", "rows", "lower", "upper"],
        (
            [report.name, knots_in_words(report.knots, horizon), str(report.values.shape[1]), *_sides(report)]
            for report in solution.constraints
        ),
        words=2,
    )


def _sides(report: ConstraintReport) -> tuple[str, str]:
    return ("", "") if not report.values.size else (between(report.lower), between(report.upper))


def _components(problem: Problem, solution: Solution) -> Html:
    """Table of all entries of states and controls: start, end, smallest and largest."""
    system = problem.system
    states = capability(system, Names).state_names or [f"x[{i}]" for i in range(system.nx)]
    controls = control_names(system) or [f"u[{i}]" for i in range(system.nu)]
    rows = [
        [name, *(number(x, 4) for x in (column[0], column[-1], column.min(), column.max()))]
        for names, values in ((states, solution.xs), (controls, solution.us))
        for name, column in zip(names, values.T, strict=True)
    ]
    return table(["component", "first", "last", "least", "largest"], rows[:LISTED])


# ------------------------------------------------------------------------------------------------ the result
def result(solutions: Mapping[str, Solution]) -> Html:
    """Table with a row for each solver."""
    headings = ["status", "iterations", "cost", "gradient norm", "violation", "gap"]
    rows = [
        [s.status, str(s.iterations), number(s.cost, 9),
         *(number(value, 2) for value in (s.gradient_norm, s.violation, s.largest_gap))]
        for s in solutions.values()
    ]  # fmt: skip
    return _by_solver(solutions, headings, rows, 1)


def seconds(solutions: Mapping[str, Solution]) -> Html:
    """Table of the time of each solver, milliseconds."""
    parts = list(next(iter(solutions.values())).timings)
    rows = [[number(1e3 * s.timings.get(part, np.nan), 3) for part in parts] for s in solutions.values()]
    return _by_solver(solutions, [part.replace("_", " ") + " [ms]" for part in parts], rows, 0)


def _by_solver(solutions: Mapping[str, Solution], headings: list[str], rows: list[list[str]], words: int) -> Html:
    """A table with a first column of names, except for a single solution without a name."""
    if list(solutions) == [LONE]:
        return table(headings, rows, words)
    named = ([name, *row] for name, row in zip(solutions, rows, strict=True))
    return table(["solver", *headings], named, words + 1)


def iterations(solution: Solution) -> Html:
    """Table of the log."""
    rows = [
        [str(r.iteration), r.step.replace("_", "-"), number(r.cost, 9),
         *(number(value, 2) for value in (r.gradient_norm, r.predicted_decrease, r.alpha, r.mu, r.violation, r.gap))]
        for r in solution.log[:LISTED]
    ]  # fmt: skip
    headings = ["iteration", "step", "cost", "gradient norm", "predicted decrease", "step length", "mu", "violation",
                "gap"]  # fmt: skip
    left = len(solution.log) - LISTED
    return joined([table(headings, rows, words=2), *([tag("p", f"And {left} more.")] if left > 0 else [])])


def constraints(solution: Solution) -> Html:
    """Table of constraints: how each is met, where it is worst, and its multipliers; where constraints are locally
    infeasible, in place of these its weights in what shows that (`trajopt.results.conflict`)."""
    weights = conflict(solution)
    pressing = weights or [report.multipliers for report in solution.constraints]
    rows = [_constraint(report, each) for report, each in zip(solution.constraints, pressing, strict=True)]
    words = ["in conflict", "weight"] if weights else ["active", "multiplier"]
    return table(["constraint", "most violated", "hardest pressed", "violation", *words, "penalty"], rows, words=3)


def _constraint(report: ConstraintReport, pressing: np.ndarray) -> list[str]:
    if not report.values.size:
        return [report.name, "holds at no knot", "", "", "", "", ""]
    named = report.components
    worst = "" if report.violation == 0.0 else _place(named, report.worst_component, report.worst_knot)
    row, component = np.unravel_index(np.argmax(np.abs(pressing)), pressing.shape)
    pressed = _place(named, int(component), int(report.knots[row])) if pressing.any() else ""
    return [
        report.name, worst or "nowhere violated", pressed or "nowhere", number(report.violation, 2),
        f"{np.count_nonzero(pressing)} of {pressing.size}", number(float(pressing[row, component]), 3),
        number(report.penalty, 2) if report.penalty else "kept by a box",
    ]  # fmt: skip


def _place(names: tuple[str, ...], component: int, knot: int) -> str:
    return f"{called(names, component, 'component')} at knot {knot}"


def paragraphs(text: str) -> Html:
    """A paragraph for each line of `Solution.explain`, with the lines that continue it."""
    return joined([tag("p", line) for line in text.replace("\n  ", " ").split("\n")])


# --------------------------------------------------------------------------------------------
# The environment of figures and times.


def machine() -> dict[str, Any]:
    """Processor, lanes, threads, versions."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "lanes": LANES,
        "threads": num_threads(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def processor() -> str:
    """The processor's name, if the system provides it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


# --------------------------------------------------------------------------------------------
# The page of a report, assembled from its parts.

FPS, MOST_FRAMES = 30.0, 300
"""Frames per second, and largest number of frames, which lowers the rate for long motions; the player interpolates."""
FINE, NUMBERS = 60_000, 250_000
"""Largest number of triangles with which bodies are drawn in full, and of numbers for moving layers, a megabyte and a
half in a file: systems with many bodies have fewer frames."""
HINT = "Drag to turn, with Shift to move; click into the picture, then the wheel zooms and the space bar plays."
SPEEDS = ("0.1", "0.25", "0.5", "1", "2")
TITLES = {
    "problem": "Problem", "result": "Result", "view": "Motion in space", "motion": "Motion against time",
    "convergence": "Convergence", "constraints": "Constraints", "explanation": "Explanation",
    "timings": "Time and machine",
}  # fmt: skip


def write_report(results: Mapping[str, Solution] | Solution, path: str | Path, solver: Any = None) -> Path:
    """Write the report of a solve, or of several of one problem, as one HTML file; see `Solution.report`."""
    if not isinstance(path, (str, Path)):
        raise TypeError(f"path: got {type(path).__name__}, expected the name of a file")
    path = Path(path)
    if path.suffix not in (".html", ".htm"):
        raise ValueError(f"path: got {path.name!r}, expected a name that ends in .html")
    solutions = as_results(results)
    for name, solution in solutions.items():
        as_motion(solution)
        first = next(iter(solutions.values())).problem
        if (solution.problem.name, solution.xs.shape) != (first.name, (first.horizon + 1, first.system.nx)):
            raise ValueError(f"results: got {name!r} of another problem than the first, expected solutions of one")
    solvers = _solvers(solutions, solver)
    page = _page(solutions, {name: s.explain(solvers[name]) for name, s in solutions.items()})
    return save_bytes(page.encode("utf-8", "replace"), path)


def _solvers(solutions: dict[str, Solution], solver: Any) -> dict[str, Any]:
    """The solver of each solution, None where it is not known."""
    if not isinstance(solver, Mapping):
        return dict.fromkeys(solutions, solver)
    unknown = sorted(set(solver) - set(solutions))
    if unknown:
        raise ValueError(f"solver: got {unknown[0]!r}, expected names of {', '.join(map(repr, solutions))}")
    return {name: solver.get(name) for name in solutions}


def _page(solutions: dict[str, Solution], explained: dict[str, str]) -> str:
    best = solutions[cheapest(solutions)]
    problem, scene = best.problem, _scene(best)
    sections = dict(_sections(solutions, explained, best, scene))
    links = [tag("a", TITLES[name], href=f"#{name}") for name in sections]
    called = {name: f"{name}: " if len(solutions) > 1 else "" for name in solutions}
    endings = [
        tag("p", tag("b", f"{called[name]}{s.status}"), f". {s.message}", class_="end") for name, s in solutions.items()
    ]
    shown = [section(name, TITLES[name], content) for name, content in sections.items()]
    data, script = Html(""), ""
    if scene is not None:
        numbers = json.dumps(player_scene(scene), allow_nan=False).replace("<", "\\u003c")
        data = tag("script", Html(numbers), type="application/json", id="scene")
        script = "\n".join(_file(name) for name in ("picture.js", "player.js"))
    inside = f"\n{script}"  # exactly as in the page
    allowed = base64.b64encode(hashlib.sha256(inside.encode("utf-8")).digest()).decode("ascii")
    return Template(_file("page.html")).substitute(
        title=joined([f"{problem.name}: report"]),
        policy=f"default-src 'none'; script-src 'sha256-{allowed}'; style-src 'unsafe-inline'; img-src data:",
        style=_file("report.css").rstrip(),
        body=joined([tag("header", tag("h1", problem.name), *endings, tag("nav", *links)), tag("main", *shown), data]),
        script=script,
    )


def _file(name: str) -> str:
    return files("trajopt.plotting.report").joinpath(name).read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------ sections
def _sections(
    solutions: dict[str, Solution], explained: dict[str, str], best: Solution, scene: Scene | None
) -> Iterator[tuple[str, Html]]:
    """Names and contents of the sections."""
    name, several = best.problem.name, len(solutions) > 1

    def each(made: Any) -> Html:
        """Content for every solver, under its name if there are several."""
        parts = [(tag("h3", key) if several else Html(""), made(key, s)) for key, s in solutions.items()]
        return joined([part for pair in parts for part in pair])

    yield "problem", problem_in_words(best.problem, best)
    yield "result", joined([result(solutions), each(lambda key, s: _certificate(s))])
    if scene is not None:
        yield "view", _view(scene, f"That of {cheapest(solutions)}." if several else "")
    if all(map(_finite, solutions.values())):
        yield "motion", picture(plot_trajectory(solutions), f"{name}: states and controls against time")
    if any(s.log for s in solutions.values()):
        logs = each(lambda key, s: iterations(s))
        yield "convergence", joined([
            picture(plot_convergence(solutions), f"{name}: convergence against iterations and time"),
            folded("Iteration by iteration", logs),
        ])  # fmt: skip
    if best.constraints:
        yield "constraints", each(lambda key, s: constraints(s))
    yield "explanation", each(lambda key, s: paragraphs(explained[key]))
    yield "timings", joined([seconds(solutions), _made_with()])


def _certificate(solution: Solution) -> Html:
    """The certificate of a solution, empty if it has none."""
    try:
        found = str(solution.certificate())
    except ValueError:
        return Html("")
    return tag("p", f"By the exact second order {found[0].lower()}{found[1:]}")


def _made_with() -> Html:
    found = machine()
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return tag(
        "p",
        f"Made on {made} by trajopt {version()} with Python {found['python']}, numpy {found['numpy']} and numba "
        f"{found['numba']}, on {found['processor']}: {found['cores']} cores, {found['threads']} threads, "
        f"{found['lanes']} lanes.",
    )


def _finite(solution: Solution) -> bool:
    """True if there is a finite motion to draw."""
    return bool(np.isfinite(solution.xs).all() and np.isfinite(solution.us).all())


# ------------------------------------------------------------------------------------------------ the picture in space
def _scene(solution: Solution) -> Scene | None:
    """The scene of a solution; None where its system cannot be drawn, or is not finite somewhere."""
    motion = as_motion(solution)
    if capability(motion.system, Pictures).skeleton is None or not _finite(solution):
        return None
    rate = min(FPS, MOST_FRAMES / float(motion.times[-1]))
    scene = scene_of(motion, frame_times(motion, rate), fine=True)
    solids, (K, B) = scene.solids.solids, scene.solids.turns.shape[:2]
    share = NUMBERS / (K * (7 * B + 8 * scene.segments.shape[1]) + 1)
    fine = sum(len(solid.faces) for solid in solids) <= FINE
    return scene if fine and share >= 1.0 else scene_of(motion, frame_times(motion, min(share, 1.0) * rate), fine)


def _view(scene: Scene, whose: str) -> Html:
    """A canvas, its controls, and a box for each layer."""
    layers = {layer.name: layer for layer in layers_of(scene)}  # one box for each name
    boxes = [tag("label", _box(x.name, x.shown), _swatch(*x.colors), x.label) for x in layers.values()]
    named = {solid.label: solid.color[:3] for solid in scene.solids.solids if solid.label}
    for label, color in named.items():
        shade = tuple(round(255.0 * part) for part in color)
        boxes.append(tag("span", _swatch(shade, shade), f" {label}"))
    speeds = [
        Html(f'<option value="{speed}"{" selected" if speed == "1" else ""}>{speed}×</option>') for speed in SPEEDS
    ]
    return tag(
        "div",
        tag("p", data_part="trouble"),
        Html('<canvas data-part="canvas" tabindex="0" aria-label="The system in space, moving"></canvas>'),
        tag(
            "div",
            tag("button", "Play", type="button", data_part="play"),
            Html('<input type="range" min="0" value="0" data-part="time" aria-label="time">'),
            tag("output", data_part="clock"),
            tag("select", *speeds, data_part="speed", aria_label="speed"),
            tag("button", "Reset view", type="button", data_part="home"),
            class_="bar",
        ),
        tag("div", *boxes, class_="layers"),
        tag("p", f"{whose} {HINT}".strip(), class_="hint"),
        tag("noscript", "The picture in space needs JavaScript."),
        id="player",
    )  # fmt: skip


def _box(name: str, checked: bool) -> Html:
    return Html(f'<input type="checkbox" data-layers="{escape(name)}"{" checked" * checked}>')


def _swatch(light: tuple[int, ...], dark: tuple[int, ...]) -> Html:
    """A spot of a colour; older browsers show only that of a light page."""
    day, night = (f"rgb({r}, {g}, {b})" for r, g, b in (light, dark))
    return tag("span", class_="swatch", style=f"background: {day}; background: light-dark({day}, {night})")
