"""Loads after laws of the user's own: against complex steps and the loads that the library has, and what is refused."""

import math
from functools import partial

import numpy as np
import pytest
from scipy.optimize import brentq

from dynamics import Prismatic, Revolute, Spherical, Translation
from dynamics.rods.algorithms.inverse_dynamics import inverse_dynamics
from dynamics.rods.model.arrays import FIRST, FORCES
from dynamics.rods.model.cross_section import Circular
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from tests.reference.robot_systems import slope
from tests.reference.rod_robots import SOFT, complex_steps, hybrid_builder
from tests.tolerances import COMPLEX_STEP, IDENTITY, relative_error


def magnet(moment, R, p, w, v, u):
    """A dipole that turns with the link in a uniform field and in that of a point, which controls scale."""
    m, r = R @ np.array(moment), p - np.array([0.1, 0.5, 0.2])
    field = u[0] * np.array([0.3, -0.2, 1.0]) + u[1] * r / np.sqrt(r @ r + 0.04) ** 3
    return np.concatenate([np.cross(m, field), u[1] * m])


def swirl(R, p, w, v, u):
    """Drag that depends on the place and on axes of the link, and a moment against turning."""
    along = R[:, 0]
    force = -np.sqrt(v @ v + 0.01) * (v + np.sin(p[0]) * along) - (along @ v) * np.cross(w, p)
    return [*(-0.3 * w + np.cross(p, v)), *force]


def sided(R, p, w, v, u):
    """A force that depends on the side of a plane, and drag of two laws."""
    push = np.where((p[0] > 0.1) & ~(p[1] > 5.0), p[0] ** 3 + v[1], 0.2 * p[1] * p[0])
    drag = -0.3 * v if v @ R[:, 1] > 0.0 else -0.1 * (v @ v) * v
    return [0.0, 0.0, 0.0, *(drag + push * R[:, 2])]


def lawful():
    builder = hybrid_builder()
    builder.add_load("trunk", partial(magnet, [3.0, 1.0, 0.5]), ["coil", "pole"], at=0.6)
    builder.add_load("tail", swirl)
    builder.add_load("flap", swirl, per_length=True)
    builder.add_load("weight", lambda R, p, w, v, u: [0.0, 0.0, 0.0, u[0] * math.cos(p[2]), 0.0, 0.1], ["push"])
    return builder


def test_derivatives_against_complex_steps(rng):
    """Of the forces, of their first derivatives and of what controls do."""
    builder = lawful()
    builder.add_load("plate", sided)
    builder.add_load("trunk", sided, at=0.3)
    robot = SoftRobot(builder.build(), torques=("shoulder",))
    assert robot.control_names == ("shoulder", "coil", "pole", "push") and robot.nu == 4
    n, u = robot.nq, rng.standard_normal(4)
    states = 0.4 * rng.standard_normal((4, n))
    q, v, a, w = states
    x = np.concatenate([states.ravel(), u, np.zeros(int(robot.arrays.counts[1]))])
    J, _ = complex_steps(robot, FORCES, x)
    first = robot.residual_derivatives(q, v, a, u)
    columns = J[:, :n], J[:, n : 2 * n], J[:, 2 * n : 3 * n], -J[:, 4 * n : 4 * n + 4]
    for found, expected in zip(first, columns, strict=True):
        assert relative_error(found, expected) <= COMPLEX_STEP
    _, T = complex_steps(robot, FIRST, x)
    of_r = np.einsum("i,kijl->kjl", w, T[: 2 * n * n].reshape(2, n, n, -1))
    H = robot.residual_hessian(q, v, a, u, w)
    expected = of_r[0, :, :n], of_r[0, :, n : 2 * n], of_r[1, :, n : 2 * n], of_r[0, :, 2 * n : 3 * n]
    expected = (*expected, of_r[0, :, 4 * n : 4 * n + 4])
    for name, found, block in zip(H._fields, H, expected, strict=True):
        assert relative_error(found, block) <= COMPLEX_STEP, name
    without = SoftRobot(hybrid_builder().build(), torques=("shoulder",)).residual_hessian(q, v, a, u[:1], w)
    for name in ("Hqq", "Hqv", "Hvv"):
        assert relative_error(getattr(H, name), getattr(without, name)) > 0.1, name
    assert np.abs(H.Hqu[:, 1:]).max(axis=0).min() > 1e-2


def test_closed_chains_leave_controls_where_they_are(rng):
    builder = lawful()
    open_ = SoftRobot(builder.build())
    builder.add_closure("loop", "weight", "tail", Spherical(), (np.eye(3), [0.1, 0.0, 0.0]))
    robot = SoftRobot(builder.build())
    q, v, a, w = 0.3 * rng.standard_normal((4, robot.nq))
    u = rng.standard_normal(3)
    for method, given in (("residual_derivatives", ()), ("residual_hessian", (w,))):
        pair = (getattr(one, method)(q, v, a, u, *given) for one in (open_, robot))
        for expected, found in zip(*pair, strict=True):
            assert relative_error(found, expected) <= IDENTITY
    A = robot.forward_dynamics_derivatives(q, v, u).da_du
    h = 1e-3
    steps = [robot.forward_dynamics(q, v, u + s * h * np.eye(3)) for s in (1.0, -1.0)]
    assert relative_error(A, (steps[0] - steps[1]).T / (2.0 * h)) < 1e-9


@pytest.mark.parametrize("integrator", ["sdirk2", "extrapolated_euler"])
def test_expansions_to_third_order(integrator, rng):
    """Of steps of a robot that laws drive, in states and controls."""
    system = SoftRobotSystem(SoftRobot(lawful().build()), 1e-3, integrator)
    assert system.control_names == ("coil", "pole", "push")
    z, dz = 0.3 * rng.standard_normal((2, system.nx + 3))
    lam, (x, u), (dx, du) = rng.standard_normal(system.ndx), *(np.split(y, [system.nx]) for y in (z, dz))
    fx, fu = system.linearize(x[None], u[None])
    Hxx, Hux, Huu = system.hessian_products(x[None], u[None], lam[None])
    first = lam @ (fx[0] @ dx + fu[0] @ du)
    second = 0.5 * dx @ Hxx[0] @ dx + du @ Hux[0] @ dx + 0.5 * du @ Huu[0] @ du
    base, steps = lam @ system.step(x, u), 2.0 ** -np.arange(8.0, 13.0)
    errors = [lam @ system.step(x + s * dx, u + s * du) - base - s * first - s * s * second for s in steps]
    assert slope(steps, errors) == pytest.approx(3.0, abs=0.1)


# ------------------------------------------------------------------------------------------------ laws that are known
def test_weight_as_a_law(rng):
    """Per length of a rod, and at the frame of a body; without gravity, the forces are those of gravity."""
    g, section, models = np.array([0.3, -0.2, -9.81]), Circular(0.02), []
    density = SOFT.density * section.properties(np.array([0.0])).A[0]

    def weight(mass, R, p, w, v, u):
        return np.concatenate([np.zeros(3), mass * g])

    for gravity in (g, np.zeros(3)):
        builder = RodModelBuilder(gravity)
        builder.add_rod("rod", "world", 0.5, section, SOFT, LegendreBasis(1, 2, 2, 0, 0, 0))
        builder.add_body("mass", "rod", Translation(), mass=2.0)
        if not gravity.any():
            builder.add_load("rod", partial(weight, density), per_length=True)
            builder.add_load("mass", partial(weight, 2.0))
        models.append(builder.build())
    q, zero = 0.3 * rng.standard_normal(models[0].nq), np.zeros(models[0].nq)
    of_weight, of_law = (inverse_dynamics(model, q, zero, zero) for model in models)
    assert relative_error(of_law, of_weight) <= IDENTITY


def test_a_magnet_turns_into_the_field():
    """A needle on a hinge with a spring in a field that a control scales: k angle = - m B cos(angle)."""
    builder, up = RodModelBuilder(gravity=(0.0, 0.0, 0.0)), np.array([0.0, 0.0, 1.0])
    builder.add_body("needle", "world", Revolute("y"), mass=0.1, inertia=np.eye(3), stiffness=0.2)
    builder.add_load("needle", lambda R, p, w, v, u: [*np.cross(R[:, 0], u[0] * up), 0, 0, 0], ["B"])
    rest = static_equilibrium(SoftRobot(builder.build()), [0.1])
    angle = brentq(lambda x: 0.2 * x + 0.1 * np.cos(x), -1.0, 1.0, xtol=1e-14)
    assert rest.converged and rest.q[0] == pytest.approx(angle, abs=1e-9)


def test_a_law_with_conditions():
    """A cart of 2 kg that is pushed to the right beyond the middle, and twice as hard to the left before it."""
    builder = RodModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body("cart", "world", Prismatic("x"), mass=2.0, inertia=np.eye(3))
    builder.add_load("cart", lambda R, p, w, v, u: [0, 0, 0, u[0] if p[0] > 0.5 else -2.0 * u[0], 0, 0], ["push"])
    robot = SoftRobot(builder.build())
    accelerations = robot.forward_dynamics(np.array([[0.2], [0.9]]), np.zeros((2, 1)), np.full((2, 1), 3.0))
    np.testing.assert_allclose(accelerations, [[-3.0], [1.5]], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (lambda R, p, w, v, u: np.zeros(3), "shape"),
        (lambda R, p, w, v, u: "text", "law"),
        (lambda R, p, w, v, u: np.interp(p[0], [0.0, 1.0], [0.0, 1.0]) * np.ones(6), "law"),
        (lambda R, p, w, v, u: [0, 0, 0, u[0] * u[0], 0, 0], "affine"),
        (lambda R, p, w, v, u: [0, 0, 0, u[0] * v[0], 0, 0], "affine"),
        (lambda R, p: np.zeros(6), "law"),
    ],
)
def test_laws_that_are_refused(law, message):
    builder = RodModelBuilder()
    builder.add_body("needle", "world", Revolute("y"))
    with pytest.raises(ValueError, match=message):
        builder.add_load("needle", law, ["one"])
