"""A serial chain of any number of links reaches a posture: the problem for scaling studies.

`links` uniform rods of 0.3 m and 1 kg, axes in turn along y and z, hang down and bend every joint by up to 0.4 rad
within one second, 50 knots by RK4.  The chain starts hanging and its speeds are penalized: otherwise a long chain that
is held horizontally is cheapest to hold when its outer links whip around, at 40 rad/s and in hundreds of iterations.
"""

import numpy as np

import dynamics
import trajopt
from dynamics.validation import as_whole_number

LENGTH, MASS, RADIUS = 0.3, 1.0, 0.03


def model(links: int = 10) -> dynamics.RigidBodyModel:
    """The chain, axes y and z in turn."""
    as_whole_number("links", links, 1)
    builder = dynamics.ModelBuilder(name=f"serial_chain_{links}")
    along, across = 0.5 * MASS * RADIUS**2, MASS * (3 * RADIUS**2 + LENGTH**2) / 12
    parent, joint = "world", (np.eye(3), np.zeros(3))
    for i in range(links):
        builder.add_body(
            f"link_{i}", parent, dynamics.Revolute("yz"[i % 2]), joint_name=f"joint_{i}", placement=joint, mass=MASS,
            com=(LENGTH / 2, 0.0, 0.0), inertia=np.diag([along, across, across]),
        )  # fmt: skip
        parent, joint = f"link_{i}", (np.eye(3), np.array([LENGTH, 0.0, 0.0]))
    builder.add_frame("tip", parent, joint)
    return builder.build()


def make(horizon: int = 50, dt: float = 0.02, links: int = 10, integrator: str = "rk4") -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds and a chain of that many links, by an integrator of
    `dynamics.RigidBodySystem`."""
    robot = model(links)
    system = dynamics.RigidBodySystem(robot, dt, integrator)
    hanging = np.zeros(links)
    hanging[0] = np.pi / 2
    start = system.state(hanging)
    goal = system.state(hanging + 0.4 * np.cos(np.arange(links)))
    return trajopt.Problem(
        system,
        start,
        horizon,
        running_costs=[
            trajopt.StateCost(system, goal, np.r_[np.full(links, 1e-1), np.full(links, 2e-2)]),
            trajopt.ControlCost(np.full(links, 1e-3)),
        ],
        terminal_costs=[trajopt.StateCost(system, goal, np.r_[np.full(links, 1e2), np.full(links, 1e1)])],
        us_init=np.tile(dynamics.gravity_forces(robot, hanging), (horizon, 1)),
        name="serial_chain",
    )
