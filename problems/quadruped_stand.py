"""The quadruped moves its centre of mass while it stands on four feet.

4 cm forwards, 3 cm sideways and 4 cm down in half a second of 10 ms knots, at rest at the end, within the motors'
torques and the friction cones of the feet.  The robot is that of `quadruped_model`; starts from torques that stand and
states that move the base by the same distances, with legs that bend so that the feet stay.
"""

import numpy as np

import dynamics
import trajopt
from dynamics.gait import smooth
from problems.quadruped_model import walker
from problems.walker import FRICTION

SHIFT = (0.04, 0.03, -0.04)


def make(horizon: int = 50, dt: float = 0.01) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds."""
    robot = walker()
    stands = robot.gait([(horizon, ())], np.zeros(3), 0.0, dt, base=way)
    model, q0, system = robot.model, robot.standing, stands.system.segments[0].system
    x0 = system.state(q0)
    center = dynamics.CenterOfMass(model, dynamics.center_of_mass(model, q0) + SHIFT)
    posture = np.r_[np.zeros(3), np.full(model.nv - 3, 1e-1), np.full(model.nv, 1e-2)]
    rest = np.r_[np.zeros(3), np.full(3, 1e2), np.full(model.nv - 6, 1e-1), np.full(model.nv, 1e1)]
    ((cone, _, _),) = stands.friction_cones(FRICTION)
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
        xs_init=stands.states(),
        name="quadruped_stand",
    )


def way(times: np.ndarray) -> np.ndarray:
    """Displacement (N+1, 3) of the base at each time in the initial states."""
    return np.outer(smooth(np.linspace(0.0, 1.0, len(times))), SHIFT)
