"""A quadruped, arms, a quadrotor, a cart, a hopper and a satellite, as rigid bodies; SI units."""

import numpy as np

import dynamics
import trajopt
from dynamics import ModelBuilder
from dynamics.model.joints import FreeFlyer, Joint, Prismatic, Revolute, Spherical
from experiments.holdout.starts import perturbed
from problems import quadrotor
from problems.gaits import DEFAULT, Gait
from problems.quadruped_model import walker
from problems.quadruped_trot import PLAN
from problems.walker import FRICTION


def rod(mass: float, radius: float, axis: int, length: float) -> np.ndarray:
    """Inertia (3, 3) of a uniform cylinder along the axis of this number about its middle."""
    moments = np.full(3, mass * (3.0 * radius**2 + length**2) / 12.0)
    moments[axis] = 0.5 * mass * radius**2
    return np.diag(moments)


def loaded_trot(rng: np.random.Generator) -> trajopt.Problem:
    """The quadruped of 2.5 kg trots 12 cm forwards and 4 cm sideways, with twice its weight on its back.

    Starts: a load of 4 to 6 kg, a cube of 10 cm, up to 2 cm aside from the middle of the trunk and 6 cm above it; the
    plan's own states and the torques that stand.
    """
    mass, robot = rng.uniform(4.0, 6.0), walker()
    place = np.r_[rng.uniform(-0.02, 0.02, 2), 0.06]
    model = robot.model.with_body("load", "base", mass=mass, com=place, inertia=mass * 0.1**2 / 6.0 * np.eye(3))
    gait = Gait(robot._replace(model=model), PLAN, (0.12, 0.04, 0.0), 0.04, 62, 0.01, DEFAULT)
    return gait.problem("loaded_trot")


def seven_axes() -> dynamics.RigidBodyModel:
    """An arm of seven axes, 1.3 m and 22 kg, with the joint limits usual for its class; frame "tool"."""
    builder = ModelBuilder(name="seven axes")
    parent, height = "world", 0.16
    for i, (axis, length, mass, degrees, speed, torque) in enumerate((
        ("z", 0.18, 4.5, 170.0, 1.7, 176.0), ("y", 0.20, 4.5, 120.0, 1.7, 176.0), ("z", 0.20, 3.0, 170.0, 1.75, 110.0),
        ("y", 0.20, 3.0, 120.0, 2.25, 110.0), ("z", 0.20, 2.5, 170.0, 2.25, 110.0), ("y", 0.08, 2.5, 120.0, 3.1, 40.0),
        ("z", 0.08, 1.5, 175.0, 3.1, 40.0),
    ), 1):  # fmt: skip
        limit = np.radians(degrees)
        builder.add_body(
            f"link {i}", parent, Revolute(axis), f"joint {i}", (np.eye(3), [0.0, 0.0, height]), mass=mass,
            com=[0.0, 0.0, 0.5 * length], inertia=rod(mass, 0.06, 2, length), lower=-limit, upper=limit,
            velocity=speed, effort=torque,
        )  # fmt: skip
        parent, height = f"link {i}", length
    builder.add_frame("tool", parent, (np.eye(3), [0.0, 0.0, height]))
    return builder.build()


BENT = np.array([0.0, 0.5, 0.0, -1.2, 0.0, 0.8, 0.0])
"""The posture that the arm of seven axes starts from, rad."""


def random_posture(model: dynamics.RigidBodyModel, rng: np.random.Generator) -> np.ndarray:
    """Positions of joints within 0.6 of their limits."""
    return 0.6 * rng.uniform(model.lower_position, model.upper_position)


def seven_axis_pose(rng: np.random.Generator) -> trajopt.Problem:
    """An arm of seven axes brings its tool to a pose within its limits of joints, speeds and torques, and stops.

    60 knots of 0.04 s, from a bent posture.  Starts: the pose of a random posture, which a quintic polynomial reaches
    within the limits, and torques that hold the first posture.  Links alone have inertia, as in most files of robots:
    errors grow 1e14 times from the first knot to the last where the wrist stands on its head.
    """
    model, horizon = seven_axes(), 60
    posture = random_posture(model, rng)
    system = dynamics.RigidBodySystem(model, 0.04, "rk4")
    x0 = system.state(BENT)
    pose = dynamics.FramePlacement(model, "tool", dynamics.frame_placement(model, posture, "tool"))
    return trajopt.Problem(
        system, x0, horizon,
        running_costs=[trajopt.ControlCost(1e-3), trajopt.StateCost(system, x0, np.repeat([0.0, 0.1], 7))],
        constraints=[
            trajopt.ControlBounds.from_model(system),
            trajopt.StateBounds.from_model(system),
            trajopt.ResidualConstraint(pose, at="terminal", name="pose"),
            trajopt.ResidualConstraint(trajopt.StateResidual(system, x0, range(7, 14)), at="terminal", name="rest"),
        ],
        us_init="quasi_static", name="seven_axis_pose",
    )  # fmt: skip


def space_arm() -> dynamics.RigidBodyModel:
    """A free base of 80 kg with an arm of four axes, 1.6 m and 12 kg; frame "tool"."""
    builder = ModelBuilder(gravity=(0.0, 0.0, 0.0), name="space arm")
    builder.add_body("base", "world", FreeFlyer(), mass=80.0, inertia=np.diag([6.0, 7.0, 8.0]))
    parent, place = "base", [0.4, 0.0, 0.0]
    for i, (axis, length, mass, limit) in enumerate((
        ("z", 0.1, 2.0, 2.0), ("y", 0.7, 4.0, 2.0), ("y", 0.6, 4.0, 2.5), ("x", 0.2, 2.0, 3.0),
    ), 1):  # fmt: skip
        builder.add_body(
            f"link {i}", parent, Revolute(axis), f"joint {i}", (np.eye(3), place), mass=mass,
            com=[0.5 * length, 0.0, 0.0], inertia=rod(mass, 0.05, 0, length), lower=-limit, upper=limit,
            velocity=1.0, effort=5.0,
        )  # fmt: skip
        parent, place = f"link {i}", [length, 0.0, 0.0]
    builder.add_frame("tool", parent, (np.eye(3), place))
    return builder.build()


def tumbling_space_arm(rng: np.random.Generator) -> trajopt.Problem:
    """A satellite with an arm that tumbles stops, with its tool at a pose, by thrusters of the base and motors.

    Forces of at most 4 N and moments of 1.5 N m on the base, torques of 5 N m; limits of joints and of their speeds.
    80 knots of 0.1 s.  Starts: base velocities with standard deviations of 0.05 m/s and 0.1 rad/s, and no controls.
    """
    model, horizon = space_arm(), 80
    system = dynamics.RigidBodySystem(model, 0.1, "rk4")
    q0 = np.r_[dynamics.neutral(model)[:7], 0.5, 0.8, -1.6, 0.0]
    x0 = system.state(q0, np.r_[0.05 * rng.standard_normal(3), 0.1 * rng.standard_normal(3), np.zeros(4)])
    last = np.r_[0.2, -0.2, 0.1, 0.0, 0.0, np.sin(0.3), np.cos(0.3), -0.5, 0.4, -0.6, 1.0]
    pose = dynamics.FramePlacement(model, "tool", dynamics.frame_placement(model, last, "tool"))
    largest = np.r_[np.full(3, 4.0), np.full(3, 1.5), np.full(4, 5.0)]
    rest = trajopt.StateResidual(system, system.state(q0), range(10, 20))
    return trajopt.Problem(
        system, x0, horizon,
        running_costs=[trajopt.ControlCost(1.0)],
        constraints=[
            trajopt.ControlBounds(-largest, largest),
            trajopt.StateBounds.from_model(system),
            trajopt.ResidualConstraint(pose, at="terminal", name="pose"),
            trajopt.ResidualConstraint(rest, at="terminal", name="rest"),
        ],
        us_init=np.zeros((horizon, 10)), name="tumbling_space_arm",
    )  # fmt: skip


def quadrotor_window(rng: np.random.Generator) -> trajopt.Problem:
    """A quadrotor flies 4 m through a window of 0.8 m by 0.4 m, which is off the straight way, and hovers.

    Each rotor stays clear of the wall, 0.4 m thick, so that no way through it fits between two knots.  The last state
    holds exactly; thrusts between zero and those of the motors.  2.4 s of 0.04 s knots.  Starts: thrusts that hover,
    and noise of 0.1 N.
    """
    builder = ModelBuilder(name="quadrotor")
    builder.add_model(quadrotor.model())
    for rotor in quadrotor.ROTORS:
        builder.add_geometry(rotor, dynamics.Sphere(0.08))
    model, horizon = builder.build(), 60
    y, z = -0.4, 0.5  # the middle of the window
    side, lintel = dynamics.Box((0.2, 2.0, 4.0)), dynamics.Box((0.2, 0.4, 2.0))
    wall = {
        "left": (side, [0.0, y + 2.4, z]), "right": (side, [0.0, y - 2.4, z]),
        "above": (lintel, [0.0, y, z + 2.2]), "below": (lintel, [0.0, y, z - 2.2]),
    }  # fmt: skip
    system = dynamics.RigidBodySystem(model, 0.04, "rk4", actuation=quadrotor.actuation())
    start = dynamics.neutral(model)
    goal = system.state([2.0, 0.6, 0.3, 0.0, 0.0, np.sin(0.5), np.cos(0.5)])
    hover = dynamics.gravity_forces(model, start)[2] / 4
    clear = dynamics.Collisions(model, wall, self_collision=False)
    problem = trajopt.Problem(
        system, system.state(np.r_[-2.0, start[1:]]), horizon,
        running_costs=[trajopt.ControlCost(1.0, hover)],
        constraints=[
            trajopt.ControlBounds(0.0, quadrotor.LARGEST_THRUST),
            trajopt.ResidualConstraint(clear, at="all", name="wall"),
            trajopt.ResidualConstraint(trajopt.StateResidual(system, goal), at="terminal", name="goal"),
        ],
        us_init=np.full((horizon, 4), hover), name="quadrotor_window",
    )  # fmt: skip
    return perturbed(problem, 0.1, rng)


def cart_double_pendulum(rng: np.random.Generator) -> trajopt.Problem:
    """Two hanging rods on a cart swing up and stand still in the middle of the rail, which is 0.8 m to either side.

    Cart of 0.6 kg, rods of 0.2 kg and 0.4 m, a force of at most 5 N.  3 s of 0.025 s knots.  Starts: no force, and
    noise of 0.5 N.
    """
    builder = ModelBuilder(name="cart with two rods")
    builder.add_body("cart", "world", Prismatic("x"), "rail", mass=0.6, inertia=1e-3 * np.eye(3))
    for name, parent, place in (("upper", "cart", 0.0), ("lower", "upper", -0.4)):
        builder.add_body(
            name, parent, Revolute("y"), placement=(np.eye(3), [0.0, 0.0, place]), mass=0.2, com=[0.0, 0.0, -0.2],
            inertia=rod(0.2, 0.01, 2, 0.4),
        )  # fmt: skip
    horizon = 120
    system = dynamics.RigidBodySystem(builder.build(), 0.025, "rk4", actuation=np.array([[1.0], [0.0], [0.0]]))
    upright = trajopt.StateResidual(system, system.state([0.0, np.pi, 0.0]))
    problem = trajopt.Problem(
        system, system.state(np.zeros(3)), horizon,
        running_costs=[trajopt.ControlCost(1e-1)],
        constraints=[
            trajopt.ControlBounds(-5.0, 5.0),
            trajopt.StateBounds(system, {"rail": -0.8}, {"rail": 0.8}, name="rail"),
            trajopt.ResidualConstraint(upright, at="terminal", name="upright"),
        ],
        us_init=np.zeros((horizon, 1)), name="cart_double_pendulum",
    )  # fmt: skip
    return perturbed(problem, 0.5, rng)


def hopper() -> dynamics.RigidBodyModel:
    """A trunk of 3 kg that moves and pitches in the plane, on one leg of two links of 0.2 m; frame "foot"."""
    builder = ModelBuilder(name="hopper")
    parts: list[tuple[str, str, Joint, str, float]] = [
        ("slide", "world", Prismatic("x"), "x", 0.0), ("lift", "slide", Prismatic("z"), "z", 0.0),
        ("trunk", "lift", Revolute("y"), "pitch", 0.0), ("upper", "trunk", Revolute("y"), "hip", 0.0),
        ("lower", "upper", Revolute("y"), "knee", -0.2),
    ]  # fmt: skip
    masses = {"trunk": (3.0, [0.0, 0.0, 0.05], np.diag([0.02, 0.03, 0.03]))}
    masses |= {link: (0.25, [0.0, 0.0, -0.1], rod(0.25, 0.015, 2, 0.2)) for link in ("upper", "lower")}
    for name, parent, joint, joint_name, place in parts:
        mass, com, inertia = masses.get(name, (0.0, np.zeros(3), np.zeros((3, 3))))
        motor = {"effort": 15.0, "velocity": 20.0} if name in ("upper", "lower") else {}
        builder.add_body(
            name, parent, joint, joint_name, (np.eye(3), [0.0, 0.0, place]), mass=mass, com=com, inertia=inertia,
            **motor,
        )  # fmt: skip
    builder.add_frame("foot", "lower", (np.eye(3), [0.0, 0.0, -0.2]))
    return builder.build()


def one_leg_hop(rng: np.random.Generator) -> trajopt.Problem:
    """A planar robot on one leg hops 0.2 m forwards and comes to rest above its foot, its trunk level.

    Push-off of 0.5 s, in which it leans forwards, flight of 0.2 s, touch-down exactly at the next foothold, and 0.5 s
    to rest, of 10 ms knots.  Friction of 0.6, motors of 15 N m and 20 rad/s, a knee that bends one way, at most 0.8 rad
    of pitch, the foot above the ground in flight.  Starts: torques that would hold the first posture, and noise of
    0.3 N m.
    """
    model, dt, push, flight, stand = hopper(), 0.01, 50, 20, 50
    bend, shift = 0.7, np.array([0.2, 0.0, 0.0])
    q0 = np.array([0.0, 0.4 * np.cos(bend), 0.0, bend, -2.0 * bend])
    first, second = (dynamics.PointContact(model, "foot", (1.0 / dt**2, 1.0 / dt), p) for p in (np.zeros(3), shift))
    phases = [("push", [first], push), ("flight", [], flight), ("stand", [second], stand)]
    system = dynamics.HybridSystem(model, dt, phases, actuation=np.eye(5)[:, 3:])
    landing = push + flight  # the knot of the impact
    foot = dynamics.FrameTranslation(model, "foot", np.zeros(3))
    rest = trajopt.StateResidual(system, system.state(q0 + np.r_[shift[0], np.zeros(4)]), (0, 1, 2, 5, 6, 7))
    below, above = np.array([[-np.inf, -np.inf, 0.0], [np.inf, np.inf, np.inf]])
    aside = np.array([0.0, np.inf, 0.0])  # y, which is always zero
    cones = []
    for segment in (system.segments[0], system.segments[-1]):
        cone, at = dynamics.FrictionCone(segment.system, FRICTION, facets=None), range(segment.start, segment.stop)
        cones.append(trajopt.ResidualConstraint(cone, cone.lower, cone.upper, at, f"friction, {segment.name}"))
    problem = trajopt.Problem(
        system, system.state(q0), system.horizon,
        running_costs=[trajopt.ControlCost(1e-1), trajopt.StateCost(system, system.state(q0), np.repeat([0, 1e-2], 5))],
        constraints=[
            trajopt.ControlBounds.from_model(system),
            trajopt.StateBounds.from_model(system),
            trajopt.StateBounds(system, {"pitch": -0.8, "knee": -2.4}, {"pitch": 0.8, "knee": -0.1}, name="posture"),
            trajopt.ResidualConstraint(foot, below, above, at=range(push + 1, landing), name="ground"),
            trajopt.ResidualConstraint(foot, shift - aside, shift + aside, at=[landing], name="foothold"),
            *cones,
            trajopt.ResidualConstraint(rest, at="terminal", name="rest"),
        ],
        us_init="quasi_static", name="one_leg_hop",
    )  # fmt: skip
    return perturbed(problem, 0.3, rng)


def keep_out_slew(rng: np.random.Generator) -> trajopt.Problem:
    """A satellite turns its telescope by 150 degrees and never points it within 30 degrees of the sun.

    Three reaction wheels of 0.025 N m and at most 100 rad/s; the sun, along the world's x axis, is 12 degrees beside
    the shortest way.  The hub's attitude and rest hold at the end, the wheels keep what momentum there is.  30 s of
    0.3 s knots.  Starts: wheel speeds of a standard deviation of 20 rad/s, and torques of 0.005 N m.
    """
    beside, horizon = np.radians(12.0), 100
    builder = ModelBuilder(gravity=(0.0, 0.0, 0.0), name="satellite")
    builder.add_body("hub", "world", Spherical(), "attitude", mass=40.0, inertia=np.diag([2.0, 2.4, 1.6]))
    for i, axis in enumerate("xyz"):
        spin = 2e-3 * (np.eye(3) + np.diag(np.eye(3)[i]))
        builder.add_body(f"wheel {axis}", "hub", Revolute(axis), f"spin {axis}", mass=1.0, inertia=spin, velocity=100.0)
    builder.add_frame("telescope", "hub", (np.eye(3), [np.cos(beside), 0.0, np.sin(beside)]))
    model = builder.build()
    system = dynamics.RigidBodySystem(model, 0.3, "rk4", actuation=np.eye(6)[:, 3:])
    first, last = (np.r_[0.0, 0.0, np.sin(0.5 * a), np.cos(0.5 * a), np.zeros(3)] for a in np.radians([-70.0, 80.0]))
    goal = trajopt.StateResidual(system, system.state(last), (0, 1, 2, 6, 7, 8))
    sight = dynamics.FrameTranslation(model, "telescope", np.zeros(3))  # of length 1
    problem = trajopt.Problem(
        system, system.state(first, np.r_[np.zeros(3), 20.0 * rng.standard_normal(3)]), horizon,
        running_costs=[trajopt.ControlCost(100.0)],
        constraints=[
            trajopt.ControlBounds(-0.025, 0.025),
            trajopt.StateBounds.from_model(system),
            trajopt.ResidualConstraint(
                sight, np.full(3, -np.inf), [np.cos(np.radians(30.0)), np.inf, np.inf], at="all", name="sun"
            ),
            trajopt.ResidualConstraint(goal, at="terminal", name="goal"),
        ],
        us_init=np.zeros((horizon, 3)), name="keep_out_slew",
    )  # fmt: skip
    return perturbed(problem, 0.005, rng)
