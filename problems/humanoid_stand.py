"""The humanoid keeps its balance on both soles after a push.

Its centre of mass is pushed off at 0.2 m/s forwards and 0.1 m/s to the left, soles at rest, and is back above them
after a second and a half of 20 ms knots, within the motors' torques and the wrench cones of the soles: the centre of
pressure goes to their toes, not beyond.  The robot is that of `humanoid_model`; starts from torques that stand.
Steps are those of semi-implicit Euler, as is usual with contacts: the plan is meant for its gains, with which the
motion ends within 5 mm, not for its torques alone.
"""

import numpy as np

import dynamics
import trajopt
from problems.humanoid_model import SOLE, walker
from problems.walker import FRICTION, Walker

PUSH = (0.2, 0.1, 0.0)


def make(horizon: int = 75, dt: float = 0.02) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds."""
    robot = walker()
    return standing_problem("humanoid_stand", robot, pushed(robot), [], [], horizon, dt)


def pushed(robot: Walker) -> np.ndarray:
    """Velocity (nv,) of least norm that moves the centre of mass by PUSH and no foot."""
    model, q = robot.model, robot.standing
    J = [dynamics.center_of_mass_jacobian(model, q), *(dynamics.frame_jacobian(model, q, foot) for foot in robot.feet)]
    return np.linalg.lstsq(np.vstack(J), np.r_[PUSH, np.zeros(12)])[0]


def standing_problem(
    name: str, robot: Walker, v: np.ndarray, running: list, terminal: list, horizon: int, dt: float
) -> trajopt.Problem:
    """A problem of the robot on both soles from a velocity v: costs of posture, torques relative to the motors' limits,
    and rest at the end, further costs, and limits of torques and wrenches."""
    system = robot.stance(dt)
    stands, nv = system.state(robot.standing), robot.model.nv
    posture = np.r_[np.zeros(3), np.full(nv - 3, 1.0), np.full(nv, 1e-1)]
    rest = np.r_[np.zeros(3), np.full(nv - 3, 1e1), np.full(nv, 1e4)]
    cone = dynamics.WrenchCone(system, FRICTION, SOLE, inner=True)
    return trajopt.Problem(
        system,
        system.state(robot.standing, v),
        horizon,
        running_costs=[
            trajopt.StateCost(system, stands, posture),
            trajopt.ControlCost(3.0 / robot.model.effort_limit[6:] ** 2),
            *running,
        ],
        terminal_costs=[trajopt.StateCost(system, stands, rest), *terminal],
        constraints=[
            trajopt.ControlBounds.from_model(system),
            trajopt.ResidualConstraint(cone, cone.lower, cone.upper, name="wrench cones"),
        ],
        us_init="quasi_static",
        name=name,
    )
