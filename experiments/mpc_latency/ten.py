"""Ten problems whose plans are renewed by one iteration a cycle: limits of states that bind, most of them curved.

SI units.  Costs, limits and horizons are such that every plan from the start reaches a limit, and that the goal is
approached within the cycles that are made.
"""

from collections.abc import Callable

import numpy as np

import dynamics
import problems
import trajopt
from problems import quadrotor as flyer
from trajopt import ControlBounds, ControlCost, Problem, ResidualConstraint, StateBounds, StateCost, residual

FREE = np.inf


def _apart(system: trajopt.CallableSystem, *discs: tuple[float, float, float]) -> ResidualConstraint:
    """Distance of the first two states from discs (x, y, radius)."""

    def clearance(x):
        return [(x[0] - px) ** 2 + (x[1] - py) ** 2 - r * r for px, py, r in discs]

    return ResidualConstraint(residual(clearance, len(discs), system), 0.0, FREE, at="all", name="discs")


def unicycle() -> Problem:
    """A unicycle (x, y, heading) past three pillars; controls: speed, turn rate."""
    system = trajopt.CallableSystem(
        xdot=lambda x, u: (u[0] * np.cos(x[2]), u[0] * np.sin(x[2]), u[1]), nx=3, nu=2, dt=0.05
    )
    pillars = _apart(system, (0.7, 0.1, 0.35), (1.7, -0.25, 0.35), (2.6, 0.2, 0.3))
    return Problem(
        system, np.zeros(3), 40, [StateCost(system, [3.5, 0.0, 0.0], [1.0, 1.0, 0.1]), ControlCost([0.2, 0.1])],
        [StateCost(system, [3.5, 0.0, 0.0], [10.0, 10.0, 1.0])],
        [ControlBounds([0.0, -2.0], [1.0, 2.0]), pillars], us_init=np.tile([0.5, 0.0], (40, 1)),
    )  # fmt: skip


def boat() -> Problem:
    """A boat (x, y, heading, forward and sideways speed, turn rate) to a berth past a buoy; controls: thrust, rudder.

    Drag is quadratic ahead and much larger sideways, and turns the boat into its course.
    """

    def xdot(x, u):
        c, s = np.cos(x[2]), np.sin(x[2])
        return (
            c * x[3] - s * x[4], s * x[3] + c * x[4], x[5], x[4] * x[5] - 0.2 * x[3] * x[3] + u[0],
            -x[3] * x[5] - 1.5 * x[4], 0.5 * x[4] - 1.2 * x[5] + u[1] * x[3],
        )  # fmt: skip

    system = trajopt.CallableSystem(xdot=xdot, nx=6, nu=2, dt=0.1)
    goal, speed = [8.0, 2.0, 0.0, 0.5, 0.0, 0.0], np.array([FREE, FREE, FREE, 1.5, 0.3, 0.6])
    return Problem(
        system, [0.0, 0.0, 0.0, 0.6, 0.0, 0.0], 40,
        [ControlCost([0.1, 0.1])], [StateCost(system, goal, [50.0, 50.0, 10.0, 10.0, 10.0, 10.0])],
        [ControlBounds([-0.5, -0.8], [0.8, 0.8]), StateBounds(system, -speed, speed), _apart(system, (4.0, 0.6, 1.0))],
        us_init=np.tile([0.3, 0.0], (40, 1)),
    )  # fmt: skip


def point_mass() -> Problem:
    """A mass in a plane (x, y, vx, vy) past two discs, its speeds limited; controls: forces."""
    system = trajopt.CallableSystem(xdot=lambda x, u: (x[2], x[3], u[0], u[1]), nx=4, nu=2, dt=0.05)
    goal, speed = [3.0, 0.3, 0.0, 0.0], np.array([FREE, FREE, 1.0, 1.0])
    return Problem(
        system, np.zeros(4), 40, [ControlCost(0.02)], [StateCost(system, goal, [5.0, 5.0, 1.0, 1.0])],
        [
            ControlBounds(-3.0, 3.0), StateBounds(system, -speed, speed),
            _apart(system, (1.0, 0.15, 0.5), (2.1, 0.5, 0.4)),
        ],
    )  # fmt: skip


def bicycle() -> Problem:
    """A car (x, y, heading, speed, steering) goes around a parked one; controls: acceleration, steering rate.

    Wheels are 2.7 m apart; its acceleration to the side is limited too.
    """
    system = trajopt.CallableSystem(
        xdot=lambda x, u: (x[3] * np.cos(x[2]), x[3] * np.sin(x[2]), x[3] * np.tan(x[4]) / 2.7, u[0], u[1]),
        nx=5, nu=2, dt=0.1,
    )  # fmt: skip
    cruise, weights = [0.0, 0.0, 0.0, 8.0, 0.0], [0.0, 0.5, 1.0, 0.2, 1.0]
    parked = ResidualConstraint(
        residual(lambda x: ((x[0] - 20.0) ** 2 / 36.0 + (x[1] + 0.3) ** 2 / 4.0 - 1.0,), 1, system), 0.0, FREE, at="all"
    )
    sideways = ResidualConstraint(
        residual(lambda x: (x[3] * x[3] * np.tan(x[4]) / 2.7,), 1, system), -3.0, 3.0, at="all", name="acceleration"
    )
    return Problem(
        system, [0.0, 0.0, 0.0, 8.0, 0.0], 30, [StateCost(system, cruise, weights), ControlCost([0.1, 1.0])],
        [StateCost(system, cruise, [5.0 * w for w in weights])],
        [ControlBounds([-4.0, -0.8], [2.0, 0.8]), StateBounds(system, [-FREE, -3.0, -1.0, 0.0, -0.5],
         [FREE, 4.0, 1.0, 10.0, 0.5]), parked, sideways],
    )  # fmt: skip


def glider() -> Problem:
    """A glider (x, height, speed, path angle) flies as far as it can across sinking air; control: lift coefficient.

    Mass over wing area 12 kg/m2, drag 0.014 + 0.05 c^2; speeds from 12 to 28 m/s, path angles within 0.5 rad.
    """

    def xdot(x, u):
        lift = 0.5 * 1.2 / 12.0 * x[2] * x[2]
        sink = -1.5 * np.exp(-(((x[0] - 150.0) / 50.0) ** 2))
        drag = lift * (0.014 + 0.05 * u[0] * u[0])
        return (
            x[2] * np.cos(x[3]), x[2] * np.sin(x[3]) + sink, -drag - 9.81 * np.sin(x[3]),
            lift * u[0] / x[2] - 9.81 * np.cos(x[3]) / x[2],
        )  # fmt: skip

    start = [0.0, 100.0, 18.0, -0.03]
    system = trajopt.CallableSystem(xdot=xdot, nx=4, nu=1, dt=0.2, x_example=start, u_example=[0.6])
    return Problem(
        system, start, 50,
        [StateCost(system, [400.0, 100.0, 18.0, 0.0], [1e-4, 1e-2, 1e-2, 0.1]), ControlCost(0.1, 0.6)],
        [StateCost(system, [400.0, 100.0, 18.0, 0.0], [1e-3, 0.1, 0.1, 1.0])],
        [ControlBounds(0.0, 1.3), StateBounds(system, [-FREE, 0.0, 12.0, -0.15], [FREE, 200.0, 22.0, 0.15],
         reference=np.zeros(4))],
        us_init=np.full((50, 1), 0.6),
    )  # fmt: skip


def _body(wheel: bool) -> Problem:
    builder = dynamics.ModelBuilder()
    builder.add_body("base", "world", dynamics.FreeFlyer(), mass=3.0, inertia=np.diag([0.03, 0.04, 0.05]))
    if wheel:
        builder.add_body(
            "wheel", "base", dynamics.Revolute("x"), mass=0.5, inertia=0.01 * np.eye(3), com=[0.0, 0.0, 0.1]
        )
    model = builder.build()
    system = dynamics.RigidBodySystem(model, 0.05, "semi_implicit_euler")
    x0, nv, largest = system.state(dynamics.neutral(model)), model.nv, 3.0 if wheel else 0.8
    free, speed = np.full(nv, FREE), np.full(nv, largest)
    goal = system.integrate(x0, np.r_[0.2, 0.1, 0.3, 0.5, -0.4, 0.2, np.full(nv - 6, 0.3), np.zeros(nv)])
    limits = StateBounds(system, np.r_[-free, -speed], np.r_[free, speed], reference=x0)
    return Problem(
        system, x0, 15, [ControlCost(1e-2)], [StateCost(system, goal, 100.0)], [limits], us_init="quasi_static"
    )


def free_body() -> Problem:
    """A body in space turns and moves, within limits of its speeds."""
    return _body(wheel=False)


def body_with_wheel() -> Problem:
    """The same with a wheel, whose centre of mass is off its axis."""
    return _body(wheel=True)


def arm() -> Problem:
    """The six-axis arm moves its tool around a ball, within its torques, ranges and speeds."""
    return problems.make("arm_obstacle")


def cart_pole() -> Problem:
    """A cart swings up its pole on a rail of 1 m."""
    builder = dynamics.ModelBuilder(name="cart_and_pole")
    builder.add_body("cart", "world", dynamics.Prismatic("x"), mass=1.0)
    builder.add_body("pole", "cart", dynamics.Continuous("y"), mass=0.1, com=(0.0, 0.0, -0.5))
    system = dynamics.RigidBodySystem(builder.build(), 0.05, actuation=np.array([[1.0], [0.0]]))
    upright, rail = system.state([0.0, np.pi]), np.array([0.5, FREE, 3.0, FREE])
    return Problem(
        system, np.zeros(4), 40, [StateCost(system, upright, [1.0, 1.0, 0.1, 0.1]), ControlCost(0.01)],
        [StateCost(system, upright, [100.0, 100.0, 10.0, 10.0])],
        [ControlBounds(-15.0, 15.0), StateBounds(system, -rail, rail)], us_init=np.full((40, 1), 0.1),
    )  # fmt: skip


def quadrotor() -> Problem:
    """A quadrotor flies to a hover, its tilt and its speeds limited."""
    model = flyer.model()
    system = dynamics.RigidBodySystem(model, 0.05, actuation=flyer.actuation())
    start, free = dynamics.neutral(model), np.full(3, FREE)
    x0, hover = system.state(start), dynamics.gravity_forces(model, start)[2] / 4.0
    goal = system.integrate(x0, np.r_[2.0, -1.0, 1.0, 0.0, 0.0, 1.0, np.zeros(6)])
    largest = np.r_[free, 0.25, 0.25, FREE, 1.5, 1.5, 1.5, 2.0, 2.0, 2.0]
    weights = np.r_[np.full(3, 1.0), np.full(3, 0.5), np.full(6, 0.1)]
    return Problem(
        system, x0, 30, [StateCost(system, goal, weights), ControlCost(0.05, hover)],
        [StateCost(system, goal, 100.0 * weights)],
        [ControlBounds(0.0, 2.0 * hover), StateBounds(system, -largest, largest, reference=x0)],
        us_init=np.full((30, 4), hover),
    )  # fmt: skip


TEN: dict[str, Callable[[], Problem]] = {
    "unicycle, pillars": unicycle,
    "boat": boat,
    "point mass": point_mass,
    "bicycle": bicycle,
    "glider": glider,
    "free body, speed limits": free_body,
    "the same with a wheel": body_with_wheel,
    "arm past a ball": arm,
    "cart-pole, rail": cart_pole,
    "quadrotor, tilt": quadrotor,
}
