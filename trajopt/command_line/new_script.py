"""`trajopt new`: write a script to start from, which runs unchanged."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
POSTURE = (0.0, -1.2, 1.6, -1.9, -1.6, 0.0)
"""Initial configuration, rad, of the arm that comes with `problems`."""
TURN, INSIDE = 0.4, 0.1
"""TURN: motion of the joints to the target, rad or m.  INSIDE: least distance of joints from their limits, as a
fraction of their range."""
CLOSING = "START = dynamics.close_loops(robot, START)  # as the loops and couplings of the robot want it\n"


def add_new(commands: Any) -> None:
    """Add the command and its arguments."""
    new = commands.add_parser(
        "new",
        help="write a script to start from",
        description="Write NAME.py, a commented script that runs as it is: a robot that reaches a point, or dynamics "
        "of your own.",
    )
    new.add_argument("name", metavar="NAME", help="of the script and of its problem")
    what = new.add_mutually_exclusive_group()
    what.add_argument("--robot", type=Path, metavar="FILE", help="a URDF, MJCF or xacro file (default: a six-axis arm)")
    what.add_argument("--dynamics", action="store_true", help="equations of motion of your own in place of a robot")


def write_new(name: str, robot: Path | None, own_dynamics: bool, folder: Path) -> Path:
    """Write the script into a folder.

    Raises ValueError for an invalid name, or a robot that cannot be read, FileExistsError for a script that exists,
    FileNotFoundError for a robot's file that does not.
    """
    path = folder / f"{_checked(name, folder)}.py"
    if path.exists():
        raise FileExistsError(f"{path.name} exists, and is not overwritten")
    values = {} if own_dynamics else _robot(robot, folder)
    template = files("trajopt.command_line").joinpath("templates", f"{'dynamics' if own_dynamics else 'robot'}.py.txt")
    text = Template(template.read_text(encoding="utf-8")).substitute(name=name, **values)
    with path.open("x", encoding="utf-8") as stream:
        stream.write(text)
    return path


def _checked(name: str, folder: Path) -> str:
    """The name, checked: a script hides modules of its name from Python."""
    if not NAME.fullmatch(name):
        raise ValueError(f"NAME: got {name!r}, expected letters, digits and _, the first a letter, without .py")
    elsewhere = [place for place in sys.path if Path(place).resolve() != folder.resolve()]
    if name in sys.stdlib_module_names or PathFinder.find_spec(name, elsewhere) is not None:
        raise ValueError(f"NAME: got {name!r}, a module of Python's or of a package, which the script would hide")
    return name


def _robot(file: Path | None, folder: Path) -> dict[str, str]:
    """Entries of the template for a robot: its file, its initial configuration, and its target."""
    dynamics = import_module("dynamics")
    if file is None:
        source, imports = 'problems.model_path("arm6")', "import problems\n"
        model = dynamics.load_robot(import_module("problems").model_path("arm6"))
        start = np.array(POSTURE)
    else:
        source, imports = _as_code(file, folder)
        try:
            model = dynamics.load_robot(file)
        except ValueError as error:
            raise ValueError(f"--robot: {error}") from error
        start = _inside(model, dynamics.neutral(model))
    closes = bool(model.loops or model.couplings)
    close = dynamics.close_loops if closes else lambda _, q: q
    try:
        start = close(model, start)
        goal = close(model, _inside(model, dynamics.integrate(model, start, np.full(model.nv, TURN))))
    except ValueError as error:
        raise ValueError(f"--robot: {error}") from error
    tool = _tool(dynamics, model, start)
    target = dynamics.frame_placement(model, goal, tool).p
    return {
        "robot": source, "imports": imports, "tool": repr(tool), "start": _numbers(start), "target": _numbers(target),
        "closing": CLOSING * closes,
    }  # fmt: skip


def _as_code(file: Path, folder: Path) -> tuple[str, str]:
    """Code with which the script finds a file, beside itself if it is there, and the import that it needs."""
    if not file.is_file():
        raise FileNotFoundError(f"--robot: there is no file {file}")
    file, folder = file.resolve(), folder.resolve()
    if not file.is_relative_to(folder):
        return repr(str(file)), ""
    return f"Path(__file__).parent / {file.relative_to(folder).as_posix()!r}", "from pathlib import Path\n"


def _inside(model: Any, q: np.ndarray) -> np.ndarray:
    """A configuration (nq,) with the joints of one number away from their limits."""
    low, high = model.lower_position, model.upper_position
    finite = np.isfinite(low) & np.isfinite(high)
    margin = np.zeros(len(low))
    margin[finite] = INSIDE * (high - low)[finite]
    return np.clip(q, low + margin, high - margin)


def _tool(dynamics: Any, model: Any, q: np.ndarray) -> str:
    """The frame that most joints move; of several the last, by the first name of its place."""
    moving = [int(dynamics.frame_jacobian(model, q, frame).any(axis=0).sum()) for frame in model.frame_names]
    chosen = [name for name, count in zip(model.frame_names, moving, strict=True) if count == max(moving)]
    places = [dynamics.frame_placement(model, q, frame) for frame in chosen]
    same = [all(np.allclose(x, y) for x, y in zip(place, places[-1], strict=True)) for place in places]
    return chosen[same.index(True)]


def _numbers(values: np.ndarray) -> str:
    """Code of the values, rounded to millimetres."""
    return repr([round(float(value), 3) + 0.0 for value in values])
