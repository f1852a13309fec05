"""A quadrotor flies to a hover a few metres away and above, turning by 120 degrees.

The parameters are those published for the AscTec Hummingbird in the RotorS simulator (Furrer, Burri, Achtelik and
Siegwart, "RotorS: a modular Gazebo MAV simulator framework", 2016, hummingbird.xacro): a body of 0.68 kg with the
inertia below and four rotors of 9 g on arms of 0.17 m, whose thrust is 8.54858e-6 N s^2 times the square of their
speed, at most 838 rad/s, and whose drag is 0.016 m times the thrust.  Controls are the four thrusts, from 0 to 6 N each
(hovering takes 1.76 N), front, left, back, right; front and back turn clockwise.

One and a half seconds of 30 ms knots by RK4 from hovering at the origin; costs on the deviation from the goal, in the
tangent of SE(3), and on the thrusts' deviation from hovering.  Seventeen thrusts reach a limit in this short time.
"""

import numpy as np

import dynamics
import trajopt

MASS, ROTOR_MASS, ARM = 0.68, 0.009, 0.17
INERTIA = np.diag([0.007, 0.007, 0.012])
DRAG = 0.016
"""Moment about a rotor's axis per thrust [m]."""
LARGEST_THRUST = 8.54858e-6 * 838.0**2
ROTORS = {"front": (ARM, 0.0), "left": (0.0, ARM), "back": (-ARM, 0.0), "right": (0.0, -ARM)}
GOAL_POSITION, GOAL_YAW = (3.0, 2.0, 1.5), 2 * np.pi / 3


def model() -> dynamics.RigidBodyModel:
    """One free body, the rotors' masses at the ends of its arms; a frame at each rotor."""
    places = np.array([[x, y, 0.0] for x, y in ROTORS.values()])
    rotors = ROTOR_MASS * sum((p @ p) * np.eye(3) - np.outer(p, p) for p in places)
    builder = dynamics.ModelBuilder(name="quadrotor")
    mass = MASS + len(places) * ROTOR_MASS
    builder.add_body("body", "world", dynamics.FreeFlyer(), joint_name="free", mass=mass, inertia=INERTIA + rotors)
    for name, place in zip(ROTORS, places, strict=True):
        builder.add_frame(name, "body", (np.eye(3), place))
    return builder.build()


def actuation() -> np.ndarray:
    """Forces and moments (6, 4) on the body, [linear; angular], per thrust."""
    spin = [1.0, -1.0, 1.0, -1.0]  # a rotor that turns clockwise drags the body counter-clockwise
    return np.array([[0.0, 0.0, 1.0, y, -x, DRAG * s] for (x, y), s in zip(ROTORS.values(), spin, strict=True)]).T


def make(horizon: int = 50, dt: float = 0.03, integrator: str = "rk4") -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, by an integrator of `dynamics.RigidBodySystem`."""
    robot = model()
    system = dynamics.RigidBodySystem(robot, dt, integrator, actuation=actuation())
    start = dynamics.neutral(robot)
    hover = dynamics.gravity_forces(robot, start)[2] / 4
    half = 0.5 * GOAL_YAW
    goal = system.state([*GOAL_POSITION, 0.0, 0.0, np.sin(half), np.cos(half)])
    return trajopt.Problem(
        system,
        system.state(start),
        horizon,
        running_costs=[trajopt.StateCost(system, goal, np.full(12, 1e-1)), trajopt.ControlCost(2e-2, hover)],
        terminal_costs=[trajopt.StateCost(system, goal, np.repeat([1e3, 1e2], 6))],
        constraints=[trajopt.ControlBounds(0.0, LARGEST_THRUST)],
        us_init=np.full((horizon, 4), hover),
        scenery=[trajopt.Target(GOAL_POSITION, ARM, dynamics.frame_placement(robot, goal[: robot.nq], "body").R)],
        name="quadrotor",
    )
