"""The quadruped moves its centre of mass while it stands on four feet.

4 cm forwards, 3 cm sideways and 4 cm down in half a second of 10 ms knots, at rest at the end, within the motors'
torques and the friction cones of the feet.  The robot is that of `quadruped_model`; starts from torques that stand and
states that move the base as far, with legs that bend for the feet to stay.
"""

import numpy as np

import dynamics
import trajopt
from problems.gaits import smooth
from problems.quadruped_model import walker
from problems.walker import Walker

SHIFT = (0.04, 0.03, -0.04)


def make(horizon: int = 50, dt: float = 0.01) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds."""
    robot = walker()
    model, q0, feet = robot.model, robot.standing, robot.contacts(robot.footholds(), robot.feet, dt)
    system = dynamics.RigidBodySystem(model, dt, actuation="floating_base", contacts=feet)
    x0 = system.state(q0)
    center = dynamics.CenterOfMass(model, dynamics.center_of_mass(model, q0) + SHIFT)
    posture = np.r_[np.zeros(3), np.full(model.nv - 3, 1e-1), np.full(model.nv, 1e-2)]
    rest = np.r_[np.zeros(3), np.full(3, 1e2), np.full(model.nv - 6, 1e-1), np.full(model.nv, 1e1)]
    cone = robot.cones(system)
    return trajopt.Problem(
        system,
        x0,
        horizon,
        running_costs=[
            trajopt.StateCost(system, x0, posture),
            trajopt.ControlCost(1e-1),
            trajopt.ResidualCost(center, 1e2),
        ],
        terminal_costs=[trajopt.StateCost(system, x0, rest), trajopt.ResidualCost(center, 1e5)],
        constraints=[
            trajopt.ControlBounds.from_model(system),
            trajopt.ResidualConstraint(cone, cone.lower, cone.upper, name="friction cones"),
        ],
        us_init="quasi_static",
        xs_init=motion(robot, horizon, dt),
        name="quadruped_stand",
    )


def motion(robot: Walker, horizon: int, dt: float) -> np.ndarray:
    """States (N+1, nx) of a robot whose base moves by SHIFT, whatever forces that takes."""
    q = np.tile(robot.standing, (horizon + 1, 1))
    q[:, :3] += np.outer(smooth(np.linspace(0.0, 1.0, horizon + 1)), SHIFT)
    return robot.states_along(robot.with_feet_at(q, robot.footholds()), np.full(horizon, dt))
