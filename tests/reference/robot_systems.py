"""Robots under integrators for tests: the systems, states with moderate accelerations, and steps written in numpy."""

from dataclasses import replace

import numpy as np

from dynamics.algorithms.configuration import integrate, neutral
from dynamics.algorithms.forward_dynamics import forward_dynamics
from dynamics.algorithms.inverse_dynamics import inverse_dynamics
from dynamics.algorithms.mass_matrix import inverse_mass_matrix
from dynamics.contacts.dynamics import contact_dynamics
from dynamics.systems.rigid_body import RigidBodySystem
from tests.reference import contact_cases
from tests.reference.lie_brackets import structure_constants
from tests.reference.random_robots import random_states
from tests.reference.rigid_body_models import load_reference

STEPS = 0.04 * 0.5 ** np.arange(5)
"""How far along each of `DIRECTIONS` random directions models of a step are compared with the step."""
DIRECTIONS = 12

INTEGRATORS = ("semi_implicit_euler", "explicit_euler", "rk4")
# a fixed arm, a floating base with and without torques on it, and joints of every kind
ROBOTS = {"ur5": None, "hyq": None, "hyq afloat": "floating_base", "joint_zoo": None, "spherical_tree": None}
ROBOTS |= {"ur5 rough": None, "joint_zoo rough": None}  # with damping and Coulomb friction
CASES = {
    "hyq on four feet": ("hyq", 4, (0.0, 0.0)),
    "hyq on two feet, gains": ("hyq", 2, contact_cases.GAINS),
    "joint_zoo, gains": ("joint_zoo", 1, contact_cases.GAINS),
    "ur5 held": ("ur5", 1, (0.0, 5.0)),
    "hyq on a foot and a point": ("hyq", 2, contact_cases.GAINS, (0,)),
}
"""In contact: a robot, how many of its frames are held, with which gains, and which of them as feet."""
SMOOTHING = 2.0  # rad/s and m/s, of rough joints


def rough(model, rng):
    """The robot with damping and Coulomb friction in all its degrees of freedom."""
    damping, friction = rng.uniform(0.1, 0.5, (2, model.nv)) / np.diag(inverse_mass_matrix(model, neutral(model)))
    return replace(model, damping=damping, friction=friction)


def make_system(robot, dt, integrator, rng):
    """System, states xs (3, nx) and controls us (3, nu) whose accelerations are about 1 where all joints are driven and
    none is held; robots may be those of `CASES`."""
    if robot in CASES:
        return make_contact_system(robot, dt, integrator, rng)
    model, data = load_reference(robot.split()[0])
    smoothing = None
    if robot.endswith("rough"):
        model, smoothing = rough(model, rng), SMOOTHING
    system = RigidBodySystem(model, dt, integrator, ROBOTS[robot], friction_speed=smoothing)
    tau = inverse_dynamics(model, data["q"], data["v"], rng.uniform(-1, 1, (3, model.nv)))
    us = np.linalg.lstsq(system.actuation.B, tau.T, rcond=None)[0].T
    return system, np.hstack([data["q"], data["v"]]), np.ascontiguousarray(us)


def make_contact_system(case, dt, integrator, rng, axes="local_world_aligned", damping=0.0, has_friction=False):
    """System, states xs (3, nx) in motion and controls us (3, nu); with friction in all joints if it rubs."""
    name, count, gains, *rigid = CASES[case]
    model, frames = contact_cases.robot(name, rng)
    model = rough(model, rng) if has_friction else model
    q, v = random_states(model, 3, rng, vectors=1)
    contacts = contact_cases.contacts_on(model, frames[:count], rng, gains, axes, *rigid)
    actuation = "floating_base" if name == "hyq" else None
    speed = SMOOTHING if has_friction else None
    system = RigidBodySystem(model, dt, integrator, actuation, contacts, contact_damping=damping, friction_speed=speed)
    tau = inverse_dynamics(model, q, v, np.zeros_like(v))
    return system, np.hstack([q, v]), tau @ system.actuation.B


def control_scale(system, xs, us):
    """A change of the controls that changes velocities by about one."""
    return 1.0 / max(1.0, np.abs(system.linearize(xs, us)[1]).max())


def step(system, x, u):
    """One step, in numpy.  The RK4 is the Munthe-Kaas method of order four with two brackets [Munthe-Kaas 1999]."""
    model, h, held = system.model, system.dt, system.contacts
    q, v, tau = x[: model.nq], x[model.nq :], system.actuation.B @ u

    def without_friction(q, v, tau):
        if len(held):
            return contact_dynamics(model, q, v, tau, held, system.contact_damping).a
        return forward_dynamics(model, q, v, tau)

    def accelerated(q, v):
        if not (model.damping.any() or model.friction.any()):
            return without_friction(q, v, tau)
        resisting = model.damping * v + model.friction * v / np.hypot(v, SMOOTHING)
        a = without_friction(q, v, tau - resisting)
        if system.integrator == "rk4":
            return a
        pushes = np.array([without_friction(q, v, tau - resisting + e) - a for e in np.eye(len(v))]).T
        return np.linalg.solve(np.eye(len(v)) + h * pushes * model.damping, a)  # damping acts on v + h a

    if system.integrator != "rk4":
        moved = v + h * accelerated(q, v)
        return np.concatenate([integrate(model, q, h * (v if system.integrator == "explicit_euler" else moved)), moved])
    c = structure_constants(model)

    def acceleration(increment, v):
        return accelerated(integrate(model, q, increment), v)

    def bracket(x, y):
        return np.einsum("lkj,k,j->l", c, x, y)

    a1 = acceleration(0 * v, v)
    a2 = acceleration(h / 2 * v, v + h / 2 * a1)
    a3 = acceleration(h / 2 * v + h**2 / 4 * a1 + h**3 / 16 * bracket(v, a1), v + h / 2 * a2)
    a4 = acceleration(h * v + h**2 / 2 * a2, v + h * a3)
    whole = h * v + h**2 / 6 * (a1 + a2 + a3) + h**3 / 12 * bracket(v, a3)
    return np.concatenate([integrate(model, q, whole), v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)])


def whole_hessian(Hxx, Hux, Huu):
    return np.block([[Hxx, Hux.T], [Hux, Huu]])


def seen_changes(system, x, u, dz):
    """difference(f(x, u), f(x (+) dx, u + du)) for directions dz (S, D, ndx + nu)."""
    flat = dz.reshape(-1, dz.shape[-1])
    moved = system.step(system.integrate(x, flat[:, : system.ndx]), u + flat[:, system.ndx :])
    return system.difference(system.step(x, u), moved).reshape(*dz.shape[:2], -1)


def directions(system, xs, us, rng):
    dz = rng.standard_normal((DIRECTIONS, system.ndx + system.nu))
    dz[:, system.ndx :] *= control_scale(system, xs, us)
    return STEPS[:, None, None] * dz


def model_slopes(system, xs, us, rng, scale=1.0):
    """Orders in which the errors of the linear and of the quadratic model of a step vanish, at the second of the knots;
    the latter along a random multiplier.  scale: of the steps, for strongly curved systems."""
    lam = rng.standard_normal((len(us), system.ndx))
    fx, fu = system.linearize(xs, us)
    H = whole_hessian(*(X[1] for X in system.hessian_products(xs, us, lam)))
    dz = scale * directions(system, xs, us, rng)
    linear = seen_changes(system, xs[1], us[1], dz) - dz @ np.hstack([fx[1], fu[1]]).T
    quadratic = linear @ lam[1] - 0.5 * np.einsum("sdi,ij,sdj->sd", dz, H, dz)
    return slope(STEPS, linear), slope(STEPS, quadratic)


def slope(steps, errors):
    """Of the errors' root mean square (all axes but the first) against the step length, on a log-log plot."""
    size = np.sqrt(np.mean(np.square(errors).reshape(len(steps), -1), axis=1))
    return np.polyfit(np.log(steps), np.log(size), 1)[0]


def both_orders_at_once(system, xs, us, lam):
    """fx, fu, Hxx, Hux, Huu from one evaluation, written over NaN."""
    n, nu, N = system.ndx, system.nu, len(us)
    arrays = [np.full((N, *shape), np.nan) for shape in ((n, n), (n, nu), (n, n), (nu, n), (nu, nu))]
    system.write_expansion(xs, us, lam, *arrays)
    return arrays
