"""The page of a report, put together from what its neighbours make."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from dynamics.distribution import version
from trajopt.capabilities import Skeleton, capability
from trajopt.plotting.convergence import plot_convergence
from trajopt.plotting.motion import as_motion
from trajopt.plotting.report import words
from trajopt.plotting.report.machine import machine
from trajopt.plotting.report.markup import Html, folded, joined, picture, section, tag
from trajopt.plotting.report.player_scene import layers_of, player_scene
from trajopt.plotting.scene import Scene, frame_times, scene_of
from trajopt.plotting.style import as_results, cheapest
from trajopt.plotting.trajectory import plot_trajectory
from trajopt.results.results_files import write_atomically
from trajopt.results.solution import Solution

FPS, MOST_FRAMES = 30.0, 300
"""Frames per second, fewer of a long motion: between them the player moves on."""
FINE, NUMBERS = 60_000, 250_000
"""Triangles up to which bodies are drawn with all that they have, and numbers of what moves, which are a megabyte and a
half in a file: of a system with many bodies there are fewer frames."""
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
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page.encode("utf-8", "replace"))
    return path


def _solvers(solutions: dict[str, Solution], solver: Any) -> dict[str, Any]:
    """What solved each, None where that is not known."""
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
    inside = f"\n{script}"  # as in the page
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
    """Names and contents."""
    name, several = best.problem.name, len(solutions) > 1

    def each(made: Any) -> Html:
        """Of every solver, under its name if there are several."""
        parts = [(tag("h3", key) if several else Html(""), made(key, s)) for key, s in solutions.items()]
        return joined([part for pair in parts for part in pair])

    yield "problem", words.problem_in_words(best.problem, best)
    yield "result", joined([words.result(solutions), each(lambda key, s: _certificate(s))])
    if scene is not None:
        yield "view", _view(scene, f"That of {cheapest(solutions)}." if several else "")
    if all(map(_finite, solutions.values())):
        yield "motion", picture(plot_trajectory(solutions), f"{name}: states and controls against time")
    if any(s.log for s in solutions.values()):
        logs = each(lambda key, s: words.iterations(s))
        yield "convergence", joined([
            picture(plot_convergence(solutions), f"{name}: convergence against iterations and time"),
            folded("Iteration by iteration", logs),
        ])  # fmt: skip
    if best.constraints:
        yield "constraints", each(lambda key, s: words.constraints(s))
    yield "explanation", each(lambda key, s: words.paragraphs(explained[key]))
    yield "timings", joined([words.seconds(solutions), _made_with()])


def _certificate(solution: Solution) -> Html:
    """What the exact second order says of it, where it says something."""
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
    """Whether there is a motion to be drawn."""
    return bool(np.isfinite(solution.xs).all() and np.isfinite(solution.us).all())


# ------------------------------------------------------------------------------------------------ the picture in space
def _scene(solution: Solution) -> Scene | None:
    """What is to be seen of it; None where a system cannot be drawn, or is somewhere that is not finite."""
    motion = as_motion(solution)
    if capability(motion.system, Skeleton) is None or not _finite(solution):
        return None
    rate = min(FPS, MOST_FRAMES / float(motion.times[-1]))
    scene = scene_of(motion, frame_times(motion, rate), fine=True)
    solids, (K, B) = scene.solids.solids, scene.solids.turns.shape[:2]
    share = NUMBERS / (K * (7 * B + 8 * scene.segments.shape[1]) + 1)
    fine = sum(len(solid.faces) for solid in solids) <= FINE
    return scene if fine and share >= 1.0 else scene_of(motion, frame_times(motion, min(share, 1.0) * rate), fine)


def _view(scene: Scene, whose: str) -> Html:
    """A canvas, what controls it, and a box for each layer."""
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
    """A spot of a colour; older browsers know only that of a light page."""
    day, night = (f"rgb({r}, {g}, {b})" for r, g, b in (light, dark))
    return tag("span", class_="swatch", style=f"background: {day}; background: light-dark({day}, {night})")
