"""Costs in torques rewritten as costs in accelerations, against dense formulas and differences."""

import numpy as np
import pytest

import dynamics
from dynamics.systems.acceleration_control import AccelerationControl
from tests.reference.rigid_body_models import load_reference

ROBOTS = ("ur5", "panda", "double_pendulum_continuous")
EULER = ("semi_implicit_euler", "explicit_euler")


def make(robot, actuated, integrator="semi_implicit_euler"):
    """A system in inverse formulation with torques of its own, or those of an invertible matrix B."""
    model, data = load_reference(robot)
    n = model.nv
    B = None if not actuated else np.eye(n) + 0.3 * np.random.default_rng(n).standard_normal((n, n))
    system = dynamics.RigidBodySystem(model, 0.01, integrator, actuation=B, formulation="inverse")
    return system, data, np.eye(n) if B is None else B


def random_blocks(rng, N, n):
    half = rng.standard_normal((N + 1, 3 * n, 3 * n))
    H = half @ half.transpose(0, 2, 1)
    return (
        rng.standard_normal((N + 1, 2 * n)), rng.standard_normal((N, n)), H[:, : 2 * n, : 2 * n].copy(),
        H[:N, 2 * n :, : 2 * n].copy(), H[:N, 2 * n :, 2 * n :].copy(),
    )  # fmt: skip


def points(data, rng, N):
    n = data["v"].shape[1]
    rows = np.arange(N + 1) % len(data["q"])
    return np.hstack([data["q"], data["v"]])[rows] + 0.01 * rng.standard_normal((N + 1, 2 * n)), rng.standard_normal(
        (N, n)
    )


@pytest.mark.parametrize("actuated", [False, True])
@pytest.mark.parametrize("robot", ROBOTS)
def test_controls_and_jacobians(robot, actuated, rng):
    system, data, B = make(robot, actuated)
    model, n = system.model, system.nv
    xs, a = points(data, rng, 11)
    q, v = xs[:11, :n], xs[:11, n:]
    us = system.acceleration_control.controls(xs, a)
    np.testing.assert_allclose(us @ B.T, dynamics.inverse_dynamics(model, q, v, a), atol=1e-10)
    np.testing.assert_allclose(system.acceleration_control.accelerations(xs, us), a, atol=1e-7)
    Ux, Ua = system.acceleration_control.jacobians(xs, a)
    h = 1e-6
    for _ in range(3):
        dx, da = rng.standard_normal((12, 2 * n)), rng.standard_normal((11, n))
        ahead, behind = (system.acceleration_control.controls(xs + s * dx, a + s * da) for s in (h, -h))
        expected = np.einsum("tij,tj->ti", Ux, dx[:11]) + np.einsum("tij,tj->ti", Ua, da)
        np.testing.assert_allclose(expected, (ahead - behind) / (2 * h), atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("curvature", [False, True])
@pytest.mark.parametrize("actuated", [False, True])
@pytest.mark.parametrize("robot", ROBOTS)
def test_substitution_against_dense_formulas(robot, actuated, curvature, rng):
    system, data, B = make(robot, actuated)
    model, n, N = system.model, system.nv, 11  # more than one chunk of lanes, and an incomplete one
    xs, a = points(data, rng, N)
    lx, lu, lxx, lux, luu = blocks = random_blocks(rng, N, n)
    before = [b.copy() for b in blocks]
    sx, sa, sxx, sax, saa = system.acceleration_control.substitute(xs, a, blocks, curvature)
    for array, kept in zip(blocks, before, strict=True):
        np.testing.assert_array_equal(array, kept)
    for t in range(N):
        q, v = xs[t, :n], xs[t, n:]
        d = dynamics.inverse_dynamics_derivatives(model, q, v, a[t])
        Ux, Ua = np.linalg.solve(B, np.hstack([d.dtau_dq, d.dtau_dv])), np.linalg.solve(B, d.M)
        cross = Ux.T @ lux[t]
        xx, ax = lxx[t] + Ux.T @ luu[t] @ Ux + cross + cross.T, Ua.T @ (luu[t] @ Ux + lux[t])
        if curvature:
            H = dynamics.inverse_dynamics_hessian(model, q, v, a[t], np.linalg.solve(B.T, lu[t]))
            xx += np.block([[H.Hqq, H.Hqv], [H.Hqv.T, H.Hvv]])
            ax[:, :n] += H.Hqa.T
        x, u, uu = lx[t] + Ux.T @ lu[t], Ua.T @ lu[t], Ua.T @ luu[t] @ Ua
        for got, expected in ((sx[t], x), (sa[t], u), (sxx[t], xx), (sax[t], ax), (saa[t], uu)):
            np.testing.assert_allclose(got, expected, atol=1e-11 * max(1.0, np.abs(expected).max()))
    np.testing.assert_array_equal(sxx[:N], sxx[:N].transpose(0, 2, 1))
    np.testing.assert_array_equal(sx[N], lx[N])
    np.testing.assert_array_equal(sxx[N], lxx[N])


@pytest.mark.parametrize("robot", ["double_pendulum_continuous", "ur5"])
def test_the_model_is_of_second_order(robot, rng):
    """A quadratic in (x, u) evaluated at u(x, a) and the substituted quadratic in (x, a) differ by O(h^3)."""
    system, data, _ = make(robot, True)
    n = system.nv
    xs, a = points(data, rng, 1)
    blocks = random_blocks(rng, 1, n)
    new = system.acceleration_control.substitute(xs, a, blocks, curvature=True)
    u0 = system.acceleration_control.controls(xs, a)[0]
    dx, da = rng.standard_normal(2 * n), rng.standard_normal(n)

    def quadratic(g, w, A, C, D, x, y):
        return g[0] @ x + w[0] @ y + 0.5 * x @ A[0] @ x + y @ C[0] @ x + 0.5 * y @ D[0] @ y

    errors = []
    for h in (1e-2, 5e-3, 2.5e-3):
        moved = xs.copy()
        moved[0] += h * dx
        du = system.acceleration_control.controls(moved, a + h * da)[0] - u0
        errors.append(abs(quadratic(*blocks, h * dx, du) - quadratic(*new, h * dx, h * da)))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(orders, 3.0, atol=0.25)


@pytest.mark.parametrize("integrator", EULER)
@pytest.mark.parametrize("actuated", [False, True])
def test_the_linear_dynamics_are_those_of_the_system(integrator, actuated, rng):
    """x+ = fx x + fu a, with the accelerations that the torques cause."""
    system, data, _ = make("ur5", actuated, integrator)
    xs, a = points(data, rng, 9)
    control = system.acceleration_control
    assert isinstance(control, AccelerationControl)
    expected = system.step(xs[:9], control.controls(xs, a))
    np.testing.assert_allclose(xs[:9] @ control.fx.T + a @ control.fu.T, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("robot", "options", "match"),
    [
        ("joint_zoo", {}, "joints of one degree of freedom"),
        ("spherical_tree", {}, "joints of one degree of freedom"),
        ("ur5", {"integrator": "rk4"}, 'formulation: got \'inverse\', expected an Euler integrator'),
        ("ur5", {"actuation": np.eye(6, 5)}, "an independent control for every degree of freedom"),
        ("ur5", {"actuation": np.ones((6, 6))}, "an independent control for every degree of freedom"),
        ("hyq", {"actuation": "floating_base"}, "of one degree of freedom and an independent control"),
    ],
)
def test_what_it_does_not_support_is_named(robot, options, match):
    model, _ = load_reference(robot)
    with pytest.raises(ValueError, match=match):
        dynamics.RigidBodySystem(model, 0.01, formulation="inverse", **options)


def test_a_formulation_has_one_of_two_names():
    model, _ = load_reference("ur5")
    with pytest.raises(ValueError, match="formulation: got 'backward', expected one of 'forward', 'inverse'"):
        dynamics.RigidBodySystem(model, 0.01, formulation="backward")
    assert dynamics.RigidBodySystem(model, 0.01).acceleration_control is None
