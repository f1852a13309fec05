"""Problems whose constraints cannot be met, each with the nearest variant that can, and a table of both.

    python -m tests.trajopt.infeasible_cases

prints, for each pair, the number of steps tried and the seconds of the solves by DDP.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

import dynamics
import trajopt
from experiments.constraints.arm_pose import reach
from problems import arm

PILLARS = np.array([[0.9, 0.15], [1.9, -0.25]])


def unicycle(x, u):
    """Rates of place and heading (px, py, heading) at speed and turn rate u."""
    return u[0] * np.cos(x[2]), u[0] * np.sin(x[2]), u[1]


def slalom(
    speed: float = 0.82, goal: tuple[float, ...] = (3.0, 0.0, 0.0), x0: tuple[float, ...] = (0.0, 0.0, 0.0)
) -> trajopt.Problem:
    """A vehicle past two pillars to a goal: that of the tutorial on constraints."""
    system = trajopt.CallableSystem(xdot=unicycle, nx=3, nu=2, dt=0.05)

    def clearance(x):
        return [(x[0] - a) ** 2 + (x[1] - b) ** 2 - 0.16 for a, b in PILLARS]

    pillars = trajopt.ResidualConstraint(trajopt.residual(clearance, 2, system), lower=0.0, at="all", name="pillars")
    there = trajopt.ResidualConstraint(trajopt.StateResidual(system, goal), at="terminal", name="goal")
    bounds = trajopt.ControlBounds([0.0, -2.0], [speed, 2.0])
    costs = [trajopt.ControlCost([0.2, 0.5])]
    return trajopt.Problem(
        system, np.array(x0), 80, costs, (), [bounds, pillars, there], np.tile([0.75, 0.0], (80, 1)), "slalom"
    )


def held(torque: float) -> trajopt.Problem:
    """A horizontal pendulum that is to stay within 0.1 rad of where it is, with so much torque; 9.81 N m hold it."""
    system = trajopt.CallableSystem(xdot=lambda x, u: (x[1], u[0] - 9.81 * np.sin(x[0])), nx=2, nu=1, dt=0.05)
    x0 = np.array([0.5 * np.pi, 0.0])
    near = trajopt.StateBounds(system, [-0.1, -np.inf], [0.1, np.inf], x0, name="near")
    bounds = trajopt.ControlBounds(-torque, torque)
    return trajopt.Problem(system, x0, 40, [trajopt.ControlCost(1e-2)], (), [bounds, near])


def bent(angle: float) -> trajopt.Problem:
    """An arm whose elbow is to go so far, with limits of its joints at 2.5 rad."""
    system = dynamics.RigidBodySystem(dynamics.load_urdf(arm.MODEL), 0.02)
    x0, goal = system.state(arm.START), np.r_[arm.START, np.zeros(6)]
    goal[2] = angle
    most = np.r_[np.full(6, 2.5), np.full(6, np.inf)]
    constraints = [
        trajopt.StateBounds(system, -most, most, name="joints"),
        trajopt.ResidualConstraint(trajopt.StateResidual(system, goal), at="terminal", name="goal"),
    ]
    costs = [trajopt.StateCost(system, x0, 1e-2), trajopt.ControlCost(4e-3)]
    return trajopt.Problem(system, x0, 40, costs, (), constraints, "quasi_static")


def cart(place: float) -> trajopt.Problem:
    """A mass on a line to a place and to rest, with a force of 1 N for 2 s, and not beyond 3 m/s: it gets 1 m far."""
    system = trajopt.CallableSystem(xdot=lambda x, u: (x[1], u[0]), nx=2, nu=1, dt=0.04)
    there = trajopt.ResidualConstraint(trajopt.StateResidual(system, [place, 0.0]), at="terminal", name="there")
    bounds = trajopt.ControlBounds(-1.0, 1.0)
    return trajopt.Problem(system, np.zeros(2), 50, [trajopt.ControlCost(1e-2)], (), [bounds, there])


POSTURE = np.array([-2.0, -0.7, 1.2, 0.5, 0.9, -1.0])
OUT_OF_REACH = dynamics.Placement(np.eye(3), [3.0, 0.0, 0.0])
Pair = tuple[Callable[[], trajopt.Problem], Callable[[], trajopt.Problem]]
PAIRS: dict[str, Pair] = {
    "too slow for the way": (lambda: slalom(0.5), lambda: slalom(0.82)),
    "goal inside a pillar": (lambda: slalom(0.82, (1.9, -0.1, 0.0)), lambda: slalom(0.82, (1.9, 0.2, 0.0))),
    "start inside a pillar": (lambda: slalom(0.82, x0=(0.9, 0.15, 0.0)), lambda: slalom(0.82)),
    "pose out of reach": (lambda: reach(OUT_OF_REACH), lambda: reach(POSTURE)),
    "torque too small to hold": (lambda: held(9.0), lambda: held(10.0)),
    "goal beyond a joint limit": (lambda: bent(3.0), lambda: bent(2.2)),
    "horizon too short": (lambda: cart(1.5), lambda: cart(0.9)),
}


def steps(problem: trajopt.Problem) -> tuple[str, int, int, float]:
    """Status of a solve by DDP, steps tried, those of them in search of feasibility, and seconds."""
    solver = trajopt.DDP()
    began = perf_counter()
    solution = solver.solve(problem)
    kinds = solution.history("step").tolist()
    return str(solution.status), solution.iterations, kinds.count("feasibility"), perf_counter() - began


def main() -> None:
    """Print the table."""
    print(f"{'':28}{'infeasible: status, steps (searching), s':>44}{'feasible: status, steps, s':>36}{'ratio':>8}")
    for name, (impossible, possible) in PAIRS.items():
        parts = []
        for make in (impossible, possible):
            steps(make())  # compiles
            parts.append(steps(make()))
        (status, tried, searching, seconds), (other, count, _, took) = parts
        print(
            f"{name:28}{status:>16}{tried:>8} ({searching:3}){seconds:>12.3f}{other:>20}{count:>7}{took:>9.3f}"
            f"{tried / count:>8.1f}{seconds / took:>6.1f}", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
