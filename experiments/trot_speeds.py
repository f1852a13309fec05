"""How fast, and with what load, the quadruped trots: its solution followed until correctors find none.

The problem is `quadruped_trot`: two steps in 0.6 s.  One family goes over the speed, by longer strides; the other over
a payload in the middle of the base, at strides of 20 cm.  At every point the problem is solved again from scratch and
from the solution before it.  Cost of transport is the work of the motors, of either sign, over weight and way.
"""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

import trajopt
from experiments.harness import Experiment, Run, quick, records
from experiments.harness.pictures import Row, look, panels
from problems.gaits import DEFAULT, Gait
from problems.quadruped_model import walker
from problems.quadruped_trot import PLAN
from trajopt.plotting.style import tidy

DURATION, HORIZON, DT = 0.6, 62, 0.01
STRIDE, HALF = 0.2, 0.05
"""Of the loaded robot, m; half the side of its load, a cube, m."""
ENDS = {"speed": (0.1, 0.7), "payload": (0.1, 8.0)}
SHORT = {"speed": (0.1, 0.22), "payload": (0.1, 1.0)}
LABELS = {"speed": "speed [m/s]", "payload": "payload [kg]"}
NAMES = {"iterations": "from the prediction", "cold": "from scratch", "warm": "from the solution before"}
SOLVER = trajopt.DDP(switch_threshold=0.1, max_iterations=100)


def faster(speed: float) -> trajopt.Problem:
    """The trot at this speed, m/s."""
    stride = speed * DURATION, 0.0, 0.0
    return Gait(walker(), PLAN, stride, 0.04, HORIZON, DT, DEFAULT).problem("quadruped_trot")


def loaded(mass: float) -> trajopt.Problem:
    """The trot with this load, kg."""
    robot = walker()
    inertia = mass * 2.0 / 3.0 * HALF**2 * np.eye(3)
    model = robot.model.with_body("load", "base", mass=mass, inertia=inertia)
    gait = Gait(robot._replace(model=model), PLAN, (STRIDE, 0.0, 0.0), 0.04, HORIZON, DT, DEFAULT)
    return gait.problem("quadruped_trot")


MAKE = {"speed": faster, "payload": loaded}


def transport(solution: trajopt.Solution) -> float:
    """Cost of transport."""
    system: Any = solution.problem.system
    turned = system.difference(solution.xs[:-1], solution.xs[1:])[:, 6 : system.model.nv]
    work = np.abs(solution.us * turned).sum()
    return float(work / (9.81 * system.model.total_mass * (solution.xs[-1, 0] - solution.xs[0, 0])))


def rows_of(family: str, found: trajopt.Continuation) -> list[Row]:
    """A row of figures for each point."""
    assert found.cold is not None and found.warm is not None
    return [
        {
            family: found.numbers[k, 0], "cost": s.cost, "transport": transport(s),
            "torque": np.abs(s.us).max(), "eigenvalue": found.smallest_eigenvalues[k],
            "pressing": found.pressing[k], "refused": found.refused[k], "iterations": found.iterations[k],
            **{name: again[k].iterations if same(again[k], s) else None
               for name, again in (("cold", found.cold), ("warm", found.warm))},
        }
        for k, s in enumerate(found.solutions)
    ]  # fmt: skip


def same(again: trajopt.Solution, solution: trajopt.Solution) -> bool:
    """Whether the same minimum was found."""
    return again.converged and abs(again.cost - solution.cost) <= 1e-6 * solution.cost


def study(run: Run) -> dict[str, Any]:
    """Both families."""
    ends, results = SHORT if run.options.quick else ENDS, {}
    steps = {"first_step": 0.5, "longest_step": 0.5} if run.options.quick else {"smallest_step": 5e-3}
    for family in run.track(list(MAKE), "following"):
        found = trajopt.continuation(MAKE[family], ends[family], SOLVER, **steps).with_restarts()
        results[family] = {"status": str(found.status), "message": found.message, "rows": rows_of(family, found)}
    return results


def tables(results: dict[str, Any]) -> list[Table]:
    """One for each family."""
    titled = {f"{family}: {found['status']}. {found['message']}": found["rows"] for family, found in results.items()}
    return [records(*each) for each in titled.items()]


def picture(results: dict[str, Any]) -> Figure:
    """Figures against speed, and against payload."""
    names = {
        "transport": "cost of transport", "torque": "largest torque [N m]", "eigenvalue": "smallest eigenvalue",
        "pressing": "limits that press", "iterations": "iterations",
    }  # fmt: skip
    figure, axes = panels(len(names) * 2, len(names), 3.4, 3.2)
    for row, family in enumerate(MAKE):
        rows = results[family]["rows"]
        x = [r[family] for r in rows]
        for panel, (name, label) in zip(axes[row * len(names) :], names.items(), strict=False):
            ways = ("iterations", "cold", "warm") if name == "iterations" else (name,)
            values = np.array([[r[way] for way in ways] for r in rows], float)  # NaN where there is none
            for i, way in enumerate(ways):
                panel.plot(x, values[:, i], marker="o", markersize=4, label=NAMES.get(way), **look(i, linewidth=1.3))
            tidy(panel, LABELS[family], label)
            panel.set_ylim(0.0, 1.1 * np.nanmax(values) or 1.0)
        panel.legend(frameon=False, fontsize=8)
    return figure


main = Experiment(
    "trot_speeds", __doc__, study, options=[quick("two short families")], tables=tables,
    pictures={"trot_speeds.png": picture},
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(main())
