"""Methods of systems, of residuals and of soft robots that compute knot by knot: rows as those of `knot_functions`."""

import numpy as np
import pytest

import dynamics
from dynamics import RigidBodySystem, rods
from dynamics.rods.stepping.soft_steps import INTEGRATORS as SOFT_INTEGRATORS
from problems.quadruped_model import FEET, quadruped, standing
from tests.dynamics import test_contact_residuals as forces
from tests.dynamics import test_link_residuals as links
from tests.dynamics import test_residuals as residuals
from tests.dynamics import test_wrench_cone as soles
from tests.dynamics.test_rod_closures import closed_robot
from tests.reference import rod_robots
from tests.reference.contact_cases import contacts_on
from tests.reference.knot_functions import Knots, of_points
from tests.reference.robot_systems import CASES, INTEGRATORS, ROBOTS, make_system
from tests.reference.tangent_differences import state_step

METHODS: list = []
"""Functions that make `Knots` of a number of knots and a generator."""


def add(label, make) -> None:
    METHODS.append(pytest.param(make, id=label))


def more(system, xs, us, K, rng):
    """The system, and as many states and controls around those given."""
    rows = np.arange(K) % len(xs)
    xs = system.integrate(xs[rows], 0.1 * rng.standard_normal((K, system.ndx)))
    return system, xs, us[rows] + 0.1 * rng.standard_normal((K, system.nu))


# ------------------------------------------------------------------------------------------------ systems
def rigid(robot, integrator):
    return lambda K, rng: more(*make_system(robot, 0.02, integrator, rng), K, rng)


def on_stretched_legs(K, rng):
    """The quadruped on three feet, every other time with a knee that is stretched, held or not."""
    model = quadruped()
    q = dynamics.integrate(model, np.tile(standing(), (K, 1)), 0.2 * rng.normal(size=(K, 18)))
    knees = (0.0, 1e-12, -1e-8, 1e-5, -1e-3, 0.01, 0.05, -0.5)
    for i in range(0, K, 2):
        q[i, [9, 12 + 3 * (i // 2 % 3)]] = knees[i // 2 % 8]
    system = RigidBodySystem(model, 1.0, contacts=contacts_on(model, (FEET[0], FEET[1], FEET[3]), rng, (30.0, 8.0)))
    return system, np.hstack([q, rng.normal(size=(K, 18))]), rng.normal(size=(K, 18))


def soft(robot, integrator):
    def make(K, rng):
        dt = 1e-3 if integrator == "newmark" else 0.01
        system = rods.SoftRobotSystem(rod_robots.ROBOTS[robot](), dt, integrator)
        return system, 0.1 * rng.normal(size=(K, system.nx)), rng.uniform(0.0, 3.0, (K, system.nu))

    return make


def method(make_system, name, arguments, **figures):
    """A method of a system, whose states and controls come with it."""

    def make(K, rng):
        system, xs, us = make_system(K, rng)
        dx = rng.uniform(-1, 1, (K, system.ndx))
        others = {"u": us, "us": us, "x1": xs[::-1].copy(), "dx": dx, "lam": dx, "mu": dx}
        given = {argument: others.get(argument, xs) for argument in arguments.split()}
        points = given if name in ("step", "integrate", "difference") else {"x_ref"} & given.keys()
        finite = None if name == "hessians" else name in ("step", "integrate_jacobian")
        return Knots(getattr(system, name), given, tuple(points), finite=finite, **figures)

    return make


def expansion(make_system):
    """First and second order together."""

    def make(K, rng):
        system, xs, us = make_system(K, rng)
        given = {"xs": xs, "us": us, "lam": rng.uniform(-1, 1, (K, system.ndx))}

        def call(xs, us, lam):
            return *system.linearize(xs, us), *system.hessian_products(xs, us, lam)

        return Knots(call, given, finite=False)

    return make


def candidates(make_system):
    """Closed-loop rollouts; their step lengths are the knots."""

    def make(K, rng):
        system, xs, us = make_system(4, rng)
        gains = 0.1 * rng.standard_normal((3, system.nu)), 0.1 * rng.standard_normal((3, system.nu, system.ndx))

        def call(alphas):
            return system.closed_loop_rollout(xs[0], xs, us[:3], *gains, alphas)

        return Knots(call, {"alphas": rng.uniform(0, 1, K)}, finite=False, none=False)

    return make


OF_SYSTEMS = {f"{robot}-{by}": rigid(robot, by) for robot in (*ROBOTS, *CASES) for by in INTEGRATORS}
OF_SYSTEMS |= {f"{robot}-{by}": soft(robot, by) for robot in rod_robots.ROBOTS for by in SOFT_INTEGRATORS}
SOME = (
    "ur5-semi_implicit_euler", "ur5-rk4", "joint_zoo-semi_implicit_euler", "joint_zoo-rk4", "hyq afloat-rk4",
    "hyq on a foot and a point-explicit_euler", "manipulator-implicit_midpoint",
)  # fmt: skip
for label, system in OF_SYSTEMS.items():
    add(f"expansion-{label}", expansion(system))
for label in SOME:
    for name, arguments in {"step": "x u", "linearize": "xs us", "hessians": "xs us"}.items():
        add(f"{name}-{label}", method(OF_SYSTEMS[label], name, arguments))
    add(f"closed_loop_rollout-{label}", candidates(OF_SYSTEMS[label]))
add("step-stretched legs", method(on_stretched_legs, "step", "x u"))
for robot in ("ur5", "hyq", "spherical_tree", "joint_zoo"):
    for name, arguments in {
        "integrate": "x dx", "difference": "x0 x1", "difference_with_jacobian": "x_ref xs",
        "difference_expansion": "x_ref xs mu", "integrate_jacobian": "xs",
    }.items():  # fmt: skip
        alone = name.startswith("difference_")  # as residuals are
        add(f"{name}-states of {robot}", method(rigid(robot, "semi_implicit_euler"), name, arguments, split=not alone))


# ------------------------------------------------------------------------------------------------ residuals
def of_robot(kind):
    def make(K, rng):
        model, xs = residuals.with_frames("joint_zoo", rng)
        xs = state_step(model, xs[1], 0.3 * rng.standard_normal((K, 2 * model.nv)))
        us = rng.standard_normal((K, model.nv)) if kind == "gravity" else None
        return residuals.make(kind, model, xs[0], rng), xs, us

    return make


def of_forces(case, kind):
    def make(K, rng):
        system, *knots = forces.make_case(case, rng)
        return forces.make(kind, system), *more(system, *knots, K, rng)[1:]

    return make


def of_soles(kind):
    def make(K, rng):
        system, *knots = soles.on_two_feet(rng)
        return soles.make(kind, system), *more(system, *knots, K, rng)[1:]

    return make


def of_link(robot, link, kind):
    def make(K, rng):
        model = rod_robots.ROBOTS[robot]().model
        return links.RESIDUALS[kind](model, link), rng.uniform(-0.5, 0.5, (K, 2 * model.nq)), None

    return make


def all_orders(make_residual, forces=False, linear=False):
    """Value, Jacobians and Hessian products, in the caller's thread but for contact forces; Jacobians of linear ones
    stay finite whatever the state."""

    def make(K, rng):
        residual, xs, us = make_residual(K, rng)
        given = {"xs": xs} | ({} if us is None else {"us": us}) | {"mu": rng.standard_normal((K, residual.nr))}

        def call(xs, mu, us=None):
            return residual.evaluate(xs, us), residual.jacobians(xs, us), residual.hessian_products(xs, us, mu)

        return Knots(call, given, finite=False, spoilt=not (forces or linear), split=forces)

    return make


for kind in residuals.KINDS:
    add(f"residual-{kind}", all_orders(of_robot(kind)))
for link in links.CASES:
    if link[1] in ("arm", "flap"):
        add(f"residual-{'-'.join(link)}", all_orders(of_link(*link), linear=link[-1] in ("strain", "forces")))
for case in forces.CASES:
    for kind in forces.MAPS:
        add(f"residual-{kind}-{case}", all_orders(of_forces(case, kind), forces=True))
for kind in soles.KINDS:
    add(f"residual-{kind}-two soles", all_orders(of_soles(kind), forces=True))


# ------------------------------------------------------------------------------------------------ soft robots
def of_rods(make_robot, function, arguments):
    """A method of a soft robot, or a function of its model."""

    def make(K, rng):
        robot = make_robot()
        shapes = {"u": (robot.nu,), "wrenches": (robot.model.wrench_count, 6)}
        given = {x: rng.uniform(-0.5, 0.5, (K, *shapes.get(x, (robot.nq,)))) for x in arguments.split()}
        given |= {"u": given["u"] + 1.0} if "u" in given else {}
        method = getattr(robot, function, None)
        if method is None:
            return of_points(lambda **given: getattr(rods, function)(model=robot.model, **given), given)
        return of_points(method, given)

    return make


FIRST_ORDER = {
    "residual": "q v a u", "residual_derivatives": "q v a u", "forward_dynamics": "q v u",
    "forward_dynamics_derivatives": "q v u",
}  # fmt: skip
SECOND_ORDER = {"residual_hessian": "q v a u w", "forward_dynamics_hessian": "q v u w"}
OF_A_MODEL = {
    "inverse_dynamics": "q v a", "mass_matrix": "q", "center_of_mass": "q", "energies": "q v", "momentum": "q v",
}  # fmt: skip
for name, arguments in (FIRST_ORDER | SECOND_ORDER | OF_A_MODEL).items():
    for label, robot in rod_robots.ROBOTS.items():
        add(f"{name}-{label}", of_rods(robot, name, arguments))
for name, arguments in FIRST_ORDER.items():
    add(f"{name}-closed chains", of_rods(closed_robot, name, arguments + " wrenches"))
