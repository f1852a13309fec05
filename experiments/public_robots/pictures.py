"""Move robots of other packages, and show them with their own shapes.

    python -m experiments.public_robots.pictures [--quick] [--out DIR]

Writes, for each robot, OUT/<robot>.png (plots and snapshots), OUT/<robot>.gif, and, where viser and the program
chromium are installed, OUT/<robot>_page.png, a photograph of `trajopt.view`; OUT/pictures.json counts shapes and
triangles.  Nothing pulls robots down: postures are reached by as little torque as possible, and bases swim along.
"""

import importlib.util
import sys
import tempfile
from typing import Any

import numpy as np
from PIL import Image

import dynamics
import trajopt
from dynamics.model.edits import builder_of
from experiments.harness import Experiment, Run, quick, table
from experiments.public_robots.robots import loaders
from tests.trajopt.browser import CHROMIUM, Browser

ROBOTS = ("panda", "solo12", "talos", "gymnasium_robotics: reach", "dm_control: humanoid")
HORIZON, DT = 40, 0.025
POSTURE, SHARE = 10.0, 0.35
"""Weight of the posture at the end, and how far it is between the middle of the joints' limits and a random one."""
SIZE, SECONDS, SHOWN = (1200, 800), 120.0, 4000
"""Of the page, pixels; of patience; pixels below the middle that are not white once the robot is there."""


def motion(model: dynamics.RigidBodyModel, name: str, rng: np.random.Generator) -> trajopt.Solution:
    """From the middle of the joints' limits to another posture."""
    builder = builder_of(model)
    builder.gravity = np.zeros(3)
    system = dynamics.RigidBodySystem(builder.build(), dt=DT)
    lower, upper = system.model.lower_position, system.model.upper_position
    bounded = np.isfinite(lower) & np.isfinite(upper)
    q0, far = dynamics.neutral(system.model), dynamics.random_configuration(system.model, rng)
    q0[bounded] = 0.5 * (lower + upper)[bounded]
    towards = SHARE * dynamics.difference(system.model, q0, far)
    towards[: system.model.joint_nv[0] if system.model.joint_nv[0] == 6 else 0] = 0.0
    x0, goal = system.state(q0), system.state(dynamics.integrate(system.model, q0, towards))
    posture = np.repeat([POSTURE, 0.1 * POSTURE], system.nv)
    if system.model.joint_nv[0] == 6:
        posture[:6] = 0.0
    costs = [trajopt.ControlCost(1e-3), trajopt.StateCost(system, x0, np.repeat([0.0, 1e-3], system.nv))]
    problem = trajopt.Problem(
        system, x0, HORIZON, running_costs=costs, terminal_costs=[trajopt.StateCost(system, goal, posture)], name=name
    )
    return trajopt.DDP().solve(problem)


def photograph(solution: trajopt.Solution) -> np.ndarray:
    """The page of a solution at its end."""
    with (
        tempfile.TemporaryDirectory() as folder,
        trajopt.view(solution, port=0, block=False) as page,
        Browser(folder, SIZE, SECONDS) as browser,
    ):
        page.slider.value = float(solution.problem.times[-1])
        browser.open(page.url)
        height, width = SIZE[1] // 2, SIZE[0] // 2
        return browser.photograph_when(lambda image: (image[-height:, :width].min(axis=2) < 250).sum() > SHOWN)


def study(run: Run) -> dict[str, Any]:
    """All robots that are there."""
    there = {each.name: each for each in loaders() if each.name in ROBOTS}
    names = list(there)[:1] if run.options.quick else list(there)
    found, rng = {}, np.random.default_rng(0)
    for name in run.track(names, "robots"):
        label, model = name.replace(": ", "_"), there[name].load().model
        solution = motion(model, name, rng)
        run.picture(f"{label}.png", trajopt.plot_trajectory(solution))
        trajopt.animate(solution, run.file(f"{label}.gif"), fps=20)
        if CHROMIUM is not None and importlib.util.find_spec("viser") is not None and not run.options.quick:
            Image.fromarray(photograph(solution).astype(np.uint8)).save(run.file(f"{label}_page.png"))
        system: Any = solution.problem.system
        fine, few = system.solids(), system.solids(fine=False)
        found[name] = {
            "status": solution.status, "iterations": solution.iterations, "shapes": len(model.geometries),
            "triangles": sum(len(each.faces) for each in fine), "in_pictures": sum(len(each.faces) for each in few),
        }  # fmt: skip
    return {"robots": found}


main = Experiment(
    "public_robots.pictures",
    __doc__,
    study,
    options=[quick("one robot, no page")],
    tables=lambda results: (
        table(
            "robots of other packages in pictures",
            ("robot",),
            ("solved", "iterations", "shapes", "triangles", "in moving pictures"),
            [[(name, *row.values()) for name, row in results["robots"].items()]],
        )
        if results["robots"]
        else "no robots: the packages of `make peers` are not installed",
    ),
)

if __name__ == "__main__":
    sys.exit(main())
