"""Cart and pole in closed loop: what the solver believes, what is simulated, and the gusts.

The cart of 1 kg carries a point mass at the end of a massless rod of 0.5 m, which is to swing up and stay up.  The
solver believes in 0.1 kg and in knots of 20 ms; the plant has a tenth more and steps ten times finer, with forces on
both joints held for 0.1 s: normal, of standard deviation `level` newtons on the cart and level/20 newton metres on the
pole, which gravity pulls with at most 0.5 N m.
"""

from typing import NamedTuple

import numpy as np

import dynamics
import trajopt
from trajopt.solvers.prepared import PreparedSolver

DT, FINE = 0.02, 10
DURATION, WINDOW = 200, 50
"""Knots simulated, and knots that the predictive controller looks ahead; the plan looks as far beyond the end."""
LENGTH, MASS, HEAVIER = 0.5, 0.1, 1.1
FORCE = 20.0
GUST_KNOTS = 5
CONTROLLERS = ("open loop", "gains", "MPC")


def cart_and_pole(pole: float) -> dynamics.RigidBodyModel:
    """The robot with a pole of this mass [kg], its angle 0 hanging."""
    builder = dynamics.ModelBuilder(name="cart_and_pole")
    builder.add_body("cart", "world", dynamics.Prismatic("x"), joint_name="rail", mass=1.0)
    builder.add_body("pole", "cart", dynamics.Continuous("y"), joint_name="pivot", mass=pole, com=(0.0, 0.0, -LENGTH))
    return builder.build()


def swing_up(horizon: int) -> trajopt.Problem:
    """The solver's problem with `horizon` knots, from hanging."""
    system = dynamics.RigidBodySystem(cart_and_pole(MASS), DT, actuation=np.array([[1.0], [0.0]]))
    upright = system.state([0.0, np.pi])
    return trajopt.Problem(
        system,
        system.state([0.0, 0.0]),
        horizon,
        running_costs=[trajopt.StateCost(system, upright, [5.0, 5.0, 0.1, 0.1]), trajopt.ControlCost([0.01])],
        terminal_costs=[trajopt.StateCost(system, upright, [100.0, 100.0, 10.0, 10.0])],
        constraints=[trajopt.ControlBounds(-FORCE, FORCE)],
        us_init=2.0 * np.sin(2.0 * np.pi * DT * np.arange(horizon))[:, None],
        name="cart and pole",
    )


def plant() -> dynamics.RigidBodySystem:
    """What is simulated: the heavier pole, finer steps, a force on either joint."""
    return dynamics.RigidBodySystem(cart_and_pole(HEAVIER * MASS), DT / FINE)


def gusts(level: float, number: int, seed: int) -> np.ndarray:
    """Forces (DURATION * FINE, 2) on the joints [N, N m]; a function of level, number and seed alone."""
    rng = np.random.default_rng([seed, number])
    pieces = level * rng.standard_normal((DURATION // GUST_KNOTS, 2)) * [1.0, 0.05]
    return np.repeat(pieces, GUST_KNOTS * FINE, axis=0)


def tip_error(xs: np.ndarray) -> np.ndarray:
    """Distance (K,) of the pole's tip from its place above the middle of the rail [m]."""
    return np.hypot(xs[:, 0] - LENGTH * np.sin(xs[:, 1]), LENGTH * (1.0 + np.cos(xs[:, 1])))


class Run(NamedTuple):
    """States (DURATION + 1, 4) at the knots, and seconds per solve of a predictive controller."""

    xs: np.ndarray
    solve_times: list[float]


def simulate(controller: str, plan: trajopt.Solution, window: PreparedSolver, forces: np.ndarray) -> Run:
    """The plant under one of CONTROLLERS.

    Parameters: plan, for at least DURATION knots; window, the predictive controller's solver, which does one iteration
    at every knot from its last plan, moved up; between knots its gains act, as those of the plan do without it.
    """
    robot, x, start = plant(), plan.problem.x0, 0.0
    policy, solution = plan.policy(feedback=controller != "open loop"), None
    xs, times = [x], []
    for i, force in enumerate(forces):
        t = i * DT / FINE
        if controller == "MPC" and i % FINE == 0:
            if solution is None:
                horizon = window.problem.horizon
                solution = window.solve(x, us=plan.us[:horizon], xs=plan.xs[: horizon + 1])
            else:
                solution = window.solve(x, warm_start=window.shifted(solution))
            times.append(solution.timings["total"])
            policy, start = solution.policy(), t
        x = robot.step(x, np.append(policy(t - start, x), 0.0) + force)
        if i % FINE == FINE - 1:
            xs.append(x)
    return Run(np.array(xs), times)
