"""Read every file of a robot in folders, and compare what is read with Pinocchio (URDF) and MuJoCo (MJCF).

    python -m experiments.public_robots.bulk [--folders FOLDER ...] [--quick] [--out DIR] [--seed N]

Without folders, those of example-robot-data, dm-control, gymnasium and gymnasium-robotics, as far as these packages are
installed, and what robot_descriptions has fetched.  Of each file inverse dynamics and the mass matrix are compared at
random states.  Outcomes:

equal              within 1e-7 of the largest entry, no warning
equal, warned      so, and a warning names what was not read (limits, springs, sensors ...)
different, warned  not equal, and a warning says what was left out
wrong silently     not equal, and no warning: to be mended
refused            an error; "with a way on" where the arguments that it names read the file after all
not compared       read here; the other one refuses the file, or has other joints

Files that both refuse, or that are no robot's, are left out.  Writes DIR/bulk.json.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dynamics
from experiments.harness import Experiment, Run, option, quick, records, seed
from experiments.public_robots.oracles import Pinocchio, of_mujoco

PACKAGES = "example_robot_data", "dm_control", "gymnasium", "gymnasium_robotics"
EQUAL, STATES, QUICK_STATES, QUICK_FILES = 1e-7, 3, 1, 5
SILENT = "wrong silently"
WAYS = {"inertias=": {"inertias": "as_given"}, "floating_base=True": {"floating_base": True}}
"""Part of an error's text -> the argument that it names; so does lock={...}."""
TRIES = 4


class File(NamedTuple):
    path: Path
    kind: str  # "URDF" or "MJCF"


# ------------------------------------------------------------------------------------------------ files
def folders_at_hand() -> list[Path]:
    """Of installed packages, and the cache of robot_descriptions."""
    found = []
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        found += [Path(place) for place in (spec.submodule_search_locations or ()) if spec] if spec else []
    if importlib.util.find_spec("example_robot_data"):
        import example_robot_data  # pyright: ignore[reportMissingImports]

        found.append(Path(example_robot_data.getModelPath("ur_description")))
    found.append(Path(os.environ.get("ROBOT_DESCRIPTIONS_CACHE", "~/.cache/robot_descriptions")).expanduser())
    return [folder for folder in found if folder.is_dir()]


def files(folders: list[Path]) -> Iterator[File]:
    """Every URDF and MJCF file under the folders, each once; MJCF is known by its root element."""
    seen = set()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix not in (".urdf", ".xml") or path.resolve() in seen or not path.is_file():
                continue
            seen.add(path.resolve())
            if path.suffix == ".urdf":
                yield File(path, "URDF")
            elif re.search(r"<mujoco[\s>]", path.read_text(errors="replace")[:10_000]):
                yield File(path, "MJCF")


# ------------------------------------------------------------------------------------------------ one file
def read(path: Path, **options: Any) -> tuple[dynamics.RigidBodyModel, list[str]]:
    """The robot and what its reader warns of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        robot = dynamics.load_robot(path, **options)
    return robot, [str(each.message) for each in said]


def peer_of(file: File, floating: bool) -> Any:
    """A pinocchio.Model without mimic joints, or a mujoco.MjModel."""
    if file.kind == "MJCF":
        import mujoco

        return mujoco.MjModel.from_xml_path(str(file.path))
    import pinocchio

    return pinocchio.buildModelFromUrdf(str(file.path), *([pinocchio.JointModelFreeFlyer()] if floating else []))


def error_of(file: File, model: dynamics.RigidBodyModel, peer: Any, states: int, rng) -> float | None:
    """The largest difference of ID and M, relative to the largest entry of each; None for other joints."""
    of_tree = model.full
    if file.kind == "URDF":
        if list(peer.names)[1:] != list(of_tree.joint_names) or peer.nv != of_tree.nv:
            return None
        peer.armature = np.array(of_tree.armature)  # the file's rotors are read by some versions
    elif (peer.nq, peer.nv) != (of_tree.nq, of_tree.nv):
        return None
    there = Pinocchio(of_tree, peer) if file.kind == "URDF" else None
    worst = 0.0
    for _ in range(states):
        q = dynamics.random_configuration(of_tree, rng)
        v, a = rng.uniform(-1.0, 1.0, (2, of_tree.nv))
        ours = {"ID": dynamics.inverse_dynamics(of_tree, q, v, a), "M": dynamics.mass_matrix(of_tree, q)}
        theirs = there.derivatives(q, v, a, None).values if there else of_mujoco(of_tree, peer, q, v, a)
        for name, array in ours.items():
            worst = max(worst, float(np.abs(array - theirs[name]).max() / (np.abs(theirs[name]).max() or 1.0)))
    return worst


def way_on(error: Exception) -> dict[str, Any]:
    """The argument of `load_robot` that an error names, with its value; none where it names none."""
    lock = re.search(r"lock=(\{.*?\})", str(error))
    if lock:
        return {"lock": ast.literal_eval(lock[1])}
    return next((way for text, way in WAYS.items() if text in str(error)), {})


def read_somehow(path: Path) -> tuple[dynamics.RigidBodyModel | None, list[str], dict[str, Any], str]:
    """The robot, or none, its warnings, the arguments that errors named until it was read, and the first error."""
    options: dict[str, Any] = {}
    first = ""
    for _ in range(TRIES):
        try:
            return *read(path, **options), options, first
        except Exception as error:
            first, way = first or _first_line(error), way_on(error)
            lock = options.get("lock", {}) | way.get("lock", {})
            longer = options | way | ({"lock": lock} if lock else {})
            if longer == options:
                break
            options = longer
    return None, [], options, first


def outcome(file: File, states: int, rng) -> dict[str, Any] | None:
    """What became of a file; None where both refuse it."""
    model, warned, options, refusal = read_somehow(file.path)
    record: dict[str, Any] = {"file": "/".join(file.path.parts[-3:]), "kind": file.kind, "way": "", "said": refusal}
    try:
        peer = peer_of(file, bool(options.get("floating_base")))
    except ImportError:
        return record | {"outcome": "not compared", "said": "there is no peer: make peers"}
    except Exception as error:
        if model is None:
            return None
        return record | {"outcome": "not compared", "said": f"the other one: {_first_line(error)}"}
    if model is None:
        return record | {"outcome": "refused"}
    error = error_of(file, model, peer, states, rng)
    if options:
        return record | {"outcome": "refused, with a way on", "error": error, "way": ", ".join(options)}
    if error is None:
        return record | {"outcome": "not compared", "said": "other joints"}
    same = error < EQUAL
    kind = ("equal, warned" if warned else "equal") if same else ("different, warned" if warned else SILENT)
    return record | {"outcome": kind, "error": error, "said": warned[0][:160] if warned else ""}


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160] if str(error).strip() else ''}"


# ------------------------------------------------------------------------------------------------ all of them
def study(run: Run) -> dict[str, Any]:
    """All files."""
    small, rng = run.options.quick, np.random.default_rng(run.options.seed)
    chosen = list(files([Path(each) for each in run.options.folders] or folders_at_hand()))
    found = []
    for file in run.track(chosen[: QUICK_FILES if small else None], "files"):
        record = outcome(file, QUICK_STATES if small else STATES, rng)
        found += [record] if record else []
    return {"files": len(chosen), "outcomes": found}


def tables(results: dict[str, Any]) -> Iterator[Any]:
    """How many of each outcome, and all that are not equal."""
    found = results["outcomes"]
    if not found:
        yield "no files: give folders of robots, or install the packages of `make peers`"
        return
    counts = Counter((each["kind"], each["outcome"]) for each in found)
    worst = {
        key: max((each["error"] for each in found if (each["kind"], each["outcome"]) == key and each.get("error")),
                 default=0.0)
        for key in counts
    }  # fmt: skip
    yield records(
        f"{len(found)} of {results['files']} files, the others refused by both",
        [
            {
                "format": kind,
                "outcome": what,
                "files": n,
                "worst": f"{worst[kind, what]:.0e}" if worst[kind, what] else "",
            }
            for (kind, what), n in sorted(counts.items())
        ],
    )
    rest = [each for each in found if each["outcome"] not in ("equal", "equal, warned")]
    if rest:
        yield records(
            "not equal, or refused",
            [{key: each[key] for key in ("file", "outcome", "way", "said")} for each in rest],
        )


main = Experiment(
    "public_robots.bulk",
    __doc__,
    study,
    options=[
        option("--folders", nargs="*", default=[], metavar="FOLDER", help="where to look; packages at hand by default"),
        quick(f"{QUICK_FILES} files at one state"),
        seed("states"),
    ],
    tables=tables,
    width=200,
)

if __name__ == "__main__":
    sys.exit(main())
