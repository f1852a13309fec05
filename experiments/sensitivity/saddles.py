"""Problems at whose saddles solvers stop that do not look at the curvature."""

from __future__ import annotations

import numpy as np

import dynamics
import problems
import trajopt


def hanging_pendulum() -> trajopt.Problem:
    """The tip is to be above; hanging still is a stationary point, since it may go up either way."""
    builder = dynamics.ModelBuilder()
    builder.add_body("bob", "world", dynamics.Continuous("y"), mass=1.0, com=(0.0, 0.0, -1.0))
    builder.add_frame("tip", "bob", (np.eye(3), np.array([0.0, 0.0, -1.0])))
    system = dynamics.RigidBodySystem(builder.build(), 0.02)
    tip = dynamics.FrameTranslation(system.model, "tip", np.array([0.0, 0.0, 1.0]))
    running = [trajopt.ResidualCost(tip, np.full(3, 0.2)), trajopt.ControlCost(2e-2)]
    return trajopt.Problem(system, np.zeros(2), 100, running, [trajopt.ResidualCost(tip, np.full(3, 100.0))])


def unicycle_over_a_bump() -> trajopt.Problem:
    """Straight ahead over a bump in the cost, which it may pass on either side."""
    base = problems.make("unicycle_obstacles")
    system, goal = base.system, np.array([3.0, 0.0, 0.0])

    def bump(x):
        return [3.0 * np.exp(-((x[0] - 1.5) ** 2 + x[1] ** 2) / 0.2)]

    running = [
        trajopt.StateCost(system, goal, 0.1), trajopt.ControlCost(0.1),
        trajopt.ResidualCost(trajopt.residual(bump, 1, system), 1.0),
    ]  # fmt: skip
    us, terminal = np.tile([0.6, 0.0], (base.horizon, 1)), [trajopt.StateCost(system, goal, 10.0)]
    return trajopt.Problem(system, np.zeros(3), base.horizon, running, terminal, us_init=us)


SADDLES = {"pendulum": hanging_pendulum, "unicycle": unicycle_over_a_bump}
