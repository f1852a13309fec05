"""A spacecraft, a truck and a crane, as differential equations; SI units."""

import numpy as np

import trajopt
from experiments.holdout.starts import perturbed

EARTH = 3.986004418e14
"""Gravitational parameter of the Earth, m^3/s^2."""


def circular(radius: float, angle: float, inclination: float) -> np.ndarray:
    """Position and velocity (6,) on a circular orbit about the Earth, at an angle from the ascending node on x."""
    speed = np.sqrt(EARTH / radius)
    ahead = np.array([0.0, np.cos(inclination), np.sin(inclination)])
    across = np.array([1.0, 0.0, 0.0])
    place, along = (np.cos(a) * across + np.sin(a) * ahead for a in (angle, angle + 0.5 * np.pi))
    return np.r_[radius * place, speed * along]


def orbit_transfer(rng: np.random.Generator) -> trajopt.Problem:
    """A satellite of 500 kg climbs from 400 to 500 km, changes its plane by half a degree and meets a target.

    Position [m] and velocity [m/s] in inertial axes, one and a half revolutions of 60 s knots.  The thrust is at most
    8 N in any direction; the last state is the target's, which was 4 degrees ahead at first.  Starts: no thrust, and
    noise of 1 N.
    """
    mass, horizon, dt, largest = 500.0, 140, 60.0, 8.0

    def xdot(x, u):
        pull = EARTH / np.sqrt(x[0] ** 2 + x[1] ** 2 + x[2] ** 2) ** 3
        return (
            x[3], x[4], x[5], u[0] / mass - pull * x[0], u[1] / mass - pull * x[1], u[2] / mass - pull * x[2],
        )  # fmt: skip

    def thrust(x, u):
        return (u[0] ** 2 + u[1] ** 2 + u[2] ** 2,)

    x0, radius = circular(6.778e6, 0.0, 0.0), 6.878e6
    angle = np.radians(4.0) + np.sqrt(EARTH / radius**3) * horizon * dt
    system = trajopt.CallableSystem(xdot=xdot, nx=6, nu=3, dt=dt, x_example=x0, name="satellite")
    norm = trajopt.residual(thrust, 1, system, x_example=x0)
    goal = trajopt.StateResidual(system, circular(radius, angle, np.radians(0.5)))
    problem = trajopt.Problem(
        system, x0, horizon,
        running_costs=[trajopt.ControlCost(1e-3)],
        constraints=[
            trajopt.ResidualConstraint(norm, upper=largest**2, lower=-np.inf, name="thrust"),
            trajopt.ResidualConstraint(goal, at="terminal", name="target"),
        ],
        us_init=np.zeros((horizon, 3)), name="orbit_transfer",
    )  # fmt: skip
    return perturbed(problem, 1.0, rng)


def trailer_parking(rng: np.random.Generator) -> trajopt.Problem:
    """A car with a trailer backs into a parking place at a right angle to the road.

    State: rear axle of the car x, y, headings of car and trailer, speed, steering angle; controls: acceleration,
    steering rate.  The car is 2.7 m between its axles, the trailer 4 m from its hitch, which is the rear axle.  They
    stand along the road, and have to drive on before they can back into the place 8 m ahead, with at most 1.2 rad
    between car and trailer, and y between 0 and 9 m.  30 s of 0.25 s knots.  Starts: controls of 0, and noise of
    0.1 m/s^2 and 0.1 rad/s.
    """
    axles, trailer, horizon = 2.7, 4.0, 120

    def xdot(x, u):
        return (
            x[4] * np.cos(x[2]), x[4] * np.sin(x[2]), x[4] * np.tan(x[5]) / axles,
            x[4] * np.sin(x[2] - x[3]) / trailer, u[0], u[1],
        )  # fmt: skip

    def hitch(x):
        return (x[2] - x[3],)

    names = ["x [m]", "y [m]", "car [rad]", "trailer [rad]", "speed [m/s]", "steering [rad]"]
    system = trajopt.CallableSystem(xdot=xdot, nx=6, nu=2, dt=0.25, name="car with a trailer", state_names=names)
    parked = trajopt.StateResidual(system, [8.0, 2.0, 0.5 * np.pi, 0.5 * np.pi, 0.0, 0.0])
    problem = trajopt.Problem(
        system, np.array([0.0, 6.0, 0.0, 0.0, 0.0, 0.0]), horizon,
        running_costs=[trajopt.ControlCost([1.0, 1.0]), trajopt.StateCost(system, np.zeros(6), [0, 0, 0, 0, 0.1, 0.1])],
        constraints=[
            trajopt.ControlBounds([-1.5, -0.8], [1.5, 0.8]),
            trajopt.StateBounds(system, {"y": 0.0, "speed": -2.0, "steering": -0.6},
                                {"y": 9.0, "speed": 3.0, "steering": 0.6}, name="road, speed and steering"),
            trajopt.ResidualConstraint(trajopt.residual(hitch, 1, system), -1.2, 1.2, at="all", name="hitch"),
            trajopt.ResidualConstraint(parked, at="terminal", name="parked"),
        ],
        us_init=np.zeros((horizon, 2)), name="trailer_parking",
    )  # fmt: skip
    return perturbed(problem, 0.1, rng)


def hoisting_crane(rng: np.random.Generator) -> trajopt.Problem:
    """A container crane takes a load 20 m across a stack in the least time, and it hangs still at the end.

    State: trolley, rope, angle of the rope and their rates; controls: accelerations of trolley and rope.  Both have
    limits of acceleration and speed, the rope swings by at most 0.1 rad, and the load stays clear of the stack, a disc.
    60 knots, and one that sets their duration; cost: the time, and 1e-2 of the squared controls.  Starts: controls of
    0, 0.25 s a knot, and noise of 0.1 m/s^2.
    """
    knots = 60

    def xdot(x, u):
        swing = -(9.81 * np.sin(x[2]) + u[0] * np.cos(x[2]) + 2.0 * x[4] * x[5]) / x[1]
        return x[3], x[4], x[5], u[0], u[1], swing

    def clearance(x):
        return ((x[0] + x[1] * np.sin(x[2]) - 10.0) ** 2 + (12.0 - x[1] * np.cos(x[2])) ** 2 - 5.0**2,)

    start, goal = np.array([[0.0, 10.0, 0.0, 0.0, 0.0, 0.0], [20.0, 10.0, 0.0, 0.0, 0.0, 0.0]])
    inside = trajopt.CallableSystem(xdot=xdot, nx=6, nu=2, dt=0.25, x_example=start, name="crane")
    system = trajopt.FreeDurationSystem(inside, knots, bounds=(0.2, 4.0))
    stack = trajopt.residual(clearance, 1, inside, x_example=start)
    largest = np.array([np.inf, 11.0, 0.1, 4.0, 1.5, np.inf, np.inf])
    problem = trajopt.Problem(
        system, system.state(start), knots + 1,
        running_costs=[trajopt.TimeCost(system), system.lift(trajopt.ControlCost(2e-2))],
        constraints=[
            system.duration_bounds(),
            trajopt.ControlBounds([-0.8, -0.6, -np.inf], [0.8, 0.6, np.inf]),
            trajopt.StateBounds(system, np.r_[-np.inf, 3.0, -largest[2:]], largest, name="rope, swing and speeds"),
            trajopt.ResidualConstraint(system.lift(stack), 0.0, np.inf, at="all", name="stack"),
            trajopt.ResidualConstraint(system.lift(trajopt.StateResidual(inside, goal)), at="terminal", name="goal"),
        ],
        us_init=np.zeros((knots + 1, 3)), name="hoisting_crane",
    )  # fmt: skip
    return perturbed(problem, [0.1, 0.1, 0.0], rng)
