"""Control rates: the augmented system against differences, its cost in closed form, and a dense optimum."""

import numpy as np
import pytest
from scipy.optimize import minimize

import dynamics
from tests.reference.rigid_body_models import load_reference
from tests.tolerances import SIXTH_ORDER_DIFFERENCES
from tests.trajopt.cost_differences import assert_exact_hessians, assert_gradients, random_trajectory
from tests.trajopt.systems import CartPole, CirclePendulum, LinearSystem, Pendulum, TipResidual
from trajopt import DDP, ControlCost, Problem, ResidualCost, StateCost, expand, total_cost
from trajopt.interfaces.stepwise import closed_loop_by_steps
from trajopt.interfaces.system import semi_implicit_form
from trajopt.problem.control_rate import ControlRateCost, ControlRateSystem


class Circle(CirclePendulum):
    """With a check of its states."""

    def check_state(self, xs):
        if not np.allclose(xs[:, 0] ** 2 + xs[:, 1] ** 2, 1.0):
            raise ValueError("the angle is no unit vector")


def floating():
    """A quadruped in the air: states with a quaternion, motors without torque on the base."""
    model, _ = load_reference("hyq")
    system = dynamics.RigidBodySystem(model, 0.02, actuation="floating_base")
    return system, lambda rng: system.state(dynamics.random_configuration(model, rng), 0.3 * rng.standard_normal(18))


def circle():
    return Circle(), lambda rng: Circle().embed(rng.uniform(-1.0, 1.0, 2))


SYSTEMS = {
    "pendulum": lambda: (Pendulum(), lambda rng: rng.standard_normal(2)),
    "cartpole": lambda: (CartPole(), lambda rng: rng.standard_normal(4)),
    "circle": circle,
    "floating": floating,
}


@pytest.fixture(params=SYSTEMS)
def system(request):
    """The system inside, and how to draw a state of it."""
    return SYSTEMS[request.param]()


def knots(system, draw, rng, K=4):
    """The augmented system, states zs (K, nx + nu) and controls us (K, nu)."""
    augmented = ControlRateSystem(system)
    zs = np.stack([augmented.state(draw(rng), rng.standard_normal(system.nu)) for _ in range(K)])
    return augmented, zs, rng.standard_normal((K, system.nu))


def along(f, zs, us, system, dz, du, h=2e-2):
    """Derivative of f at (zs, us) along (dz, du), sixth-order central differences."""
    total = 0.0
    for k, c in {1: 45.0, 2: -9.0, 3: 1.0}.items():
        ahead, behind = (f(system.integrate(zs, s * k * h * dz), us + s * k * h * du) for s in (1, -1))
        total = total + c * (ahead - behind)
    return total / (60.0 * h)


def test_the_state_is_the_inner_one_and_the_control_before(system, rng):
    inner, draw = system
    augmented, zs, _ = knots(inner, draw, rng)
    nx, ndx, nu = inner.nx, inner.ndx, inner.nu
    assert (augmented.nx, augmented.ndx, augmented.nu, augmented.dt) == (nx + nu, ndx + nu, nu, inner.dt)
    assert semi_implicit_form(augmented) == (0.0, 0) and augmented.euclidean == getattr(inner, "euclidean", True)
    np.testing.assert_array_equal(augmented.state(zs[0, :nx])[nx:], np.zeros(nu))
    assert hasattr(augmented, "skeleton") == hasattr(inner, "skeleton")
    if hasattr(inner, "skeleton"):
        np.testing.assert_array_equal(augmented.skeleton(zs), inner.skeleton(zs[:, :nx].copy()))


def test_integrate_and_difference_are_inverse(system, rng):
    augmented, zs, _ = knots(*system, rng)
    d = 0.3 * rng.standard_normal((4, augmented.ndx))
    np.testing.assert_allclose(augmented.difference(zs, augmented.integrate(zs, d)), d, atol=1e-12)
    np.testing.assert_allclose(augmented.integrate(zs[0], d[0]), augmented.integrate(zs, d)[0], rtol=1e-14)
    np.testing.assert_array_equal(augmented.difference(zs[0], zs[1])[augmented.ndx - augmented.nu :],
                                  (zs[1] - zs[0])[augmented.nx - augmented.nu :])  # fmt: skip


def test_rollouts_step_by_step(system, rng):
    inner, draw = system
    augmented, zs, us = knots(inner, draw, rng)
    xs = augmented.rollout(zs[0], us)
    np.testing.assert_array_equal(xs[0], zs[0])
    np.testing.assert_array_equal(xs[1:, inner.nx :], us)
    np.testing.assert_allclose(xs[:, : inner.nx], inner.rollout(zs[0, : inner.nx], us), rtol=1e-14)
    np.testing.assert_allclose(augmented.step(xs[2], us[2]), xs[3], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(augmented.step(xs[:-1], us), xs[1:], rtol=1e-10, atol=1e-12)


def test_closed_loop_rollouts_feed_back_the_control_before(rng):
    """In the linear-quadratic case the policy can be unrolled by hand."""
    augmented = ControlRateSystem(LinearSystem([[1.0, 0.1], [0.0, 1.0]], [[0.0], [0.1]], dt=0.1))
    z0, us, N = np.array([0.2, -0.1, 0.5]), rng.standard_normal((3, 1)), 3
    xs, k, K = augmented.rollout(z0, us), rng.standard_normal((N, 1)), rng.standard_normal((N, 1, 3))
    lower, upper = np.full((N, 1), -0.6), np.full((N, 1), 0.7)
    X, U = augmented.closed_loop_rollout(z0, xs, us, k, K, np.array([1.0, 0.5]), lower=lower, upper=upper)
    for a, alpha in enumerate((1.0, 0.5)):
        x, before = z0[:2], z0[2:]
        for t in range(N):
            u = np.clip(us[t] + alpha * k[t] + K[t] @ (np.r_[x, before] - xs[t]), -0.6, 0.7)
            np.testing.assert_allclose(U[a, t], u, rtol=1e-13)
            x, before = augmented.system.step(x, u), u
            np.testing.assert_allclose(X[a, t + 1], np.r_[x, before], rtol=1e-13)
    gaps = 0.1 * rng.standard_normal((N + 1, 3))
    with_gaps = augmented.closed_loop_rollout(z0, xs, us, k, K, np.ones(1), gaps=gaps)
    for got, wanted in zip(with_gaps, closed_loop_by_steps(augmented, z0, xs, us, k, K, np.ones(1), gaps), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_first_derivatives_against_differences(system, rng):
    augmented, zs, us = knots(*system, rng)
    Fz, Fu = augmented.linearize(zs, us)
    following = augmented.step(zs, us)
    dz, du = rng.standard_normal((4, augmented.ndx)), rng.standard_normal((4, augmented.nu))
    numeric = along(lambda z, u: augmented.difference(following, augmented.step(z, u)), zs, us, augmented, dz, du, 5e-3)
    expected = np.einsum("tij,tj->ti", Fz, dz) + np.einsum("tij,tj->ti", Fu, du)
    np.testing.assert_allclose(numeric, expected, atol=1e2 * SIXTH_ORDER_DIFFERENCES * np.abs(expected).max())


def test_second_derivatives_embed_those_inside(system, rng):
    inner, draw = system
    augmented, zs, us = knots(inner, draw, rng)
    n, xs = inner.ndx, np.ascontiguousarray(zs[:, : inner.nx])
    lam = rng.standard_normal((4, augmented.ndx))
    for got, wanted in zip(augmented.hessian_products(zs, us, lam),
                           inner.hessian_products(xs, us, np.ascontiguousarray(lam[:, :n])), strict=True):  # fmt: skip
        cut = tuple(slice(s) for s in wanted.shape)
        np.testing.assert_allclose(got[cut], wanted, rtol=1e-13)
        assert np.count_nonzero(got) == np.count_nonzero(got[cut])
    for H, F in zip(augmented.hessian_products(zs, us, lam), augmented.hessians(zs, us), strict=True):
        np.testing.assert_allclose(np.einsum("ti,tijk->tjk", lam, F), H, atol=1e-11 * max(1.0, np.abs(H).max()))


def test_expansions_of_both_orders_from_one_evaluation(rng):
    """Of a robot with a group in its state, what solvers take in place of two calls."""
    augmented, zs, us = knots(*floating(), rng)
    m, nu, lam = augmented.ndx, augmented.nu, rng.standard_normal((4, augmented.ndx))
    written = [np.full(shape, np.nan) for shape in ((4, m, m), (4, m, nu), (4, m, m), (4, nu, m), (4, nu, nu))]
    augmented.write_expansion(zs, us, lam, *written)
    for got, wanted in zip(
        written, (*augmented.linearize(zs, us), *augmented.hessian_products(zs, us, lam)), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12 * max(1.0, np.abs(wanted).max()))


@pytest.mark.parametrize("inner", [Pendulum(), CartPole()])
def test_second_derivatives_against_differences(inner, rng):
    augmented, zs, us = knots(inner, lambda rng: rng.standard_normal(inner.nx), rng)
    lam = rng.standard_normal((4, augmented.ndx))
    dz, du = rng.standard_normal((4, augmented.ndx)), rng.standard_normal((4, augmented.nu))
    Hxx, Hux, Huu = augmented.hessian_products(zs, us, lam)

    def gradient(part):
        return lambda z, u: np.einsum("ti,tij->tj", lam, augmented.linearize(z, u)[part])

    slopes = [along(gradient(part), zs, us, augmented, dz, du, 5e-3) for part in (0, 1)]
    atol = 1e2 * SIXTH_ORDER_DIFFERENCES * max(np.abs(slopes[0]).max(), np.abs(slopes[1]).max())
    np.testing.assert_allclose(
        slopes[0], np.einsum("tij,tj->ti", Hxx, dz) + np.einsum("tji,tj->ti", Hux, du), atol=atol
    )
    np.testing.assert_allclose(
        slopes[1], np.einsum("tij,tj->ti", Hux, dz) + np.einsum("tij,tj->ti", Huu, du), atol=atol
    )


def test_expansion_of_the_difference(system, rng):
    augmented, zs, us = knots(*system, rng)
    reference, xs = zs[0], augmented.integrate(np.tile(zs[0], (4, 1)), 0.4 * rng.standard_normal((4, augmented.ndx)))
    mu, dz = rng.standard_normal((4, augmented.ndx)), rng.standard_normal((4, augmented.ndx))
    J, H = augmented.difference_expansion(reference, xs, mu)

    def residual(z, u):
        return augmented.difference(np.tile(reference, (4, 1)), z)

    slope = along(residual, xs, us, augmented, dz, 0 * us)
    np.testing.assert_allclose(slope, np.einsum("tij,tj->ti", J, dz), atol=1e-7)
    h = 1e-3
    ahead, behind = (residual(augmented.integrate(xs, s * h * dz), us) for s in (1, -1))
    second = np.einsum("ti,ti->t", mu, ahead + behind - 2 * residual(xs, us)) / h**2
    np.testing.assert_allclose(second, np.einsum("ti,tij,tj->t", dz, H, dz), atol=1e-4)


def rate_problem(inner, x0, reference, N, u_before=0.4, weights=2e-3):
    """Costs made for the system inside, lifted, and a cost of rates."""
    system = ControlRateSystem(inner)
    goal = StateCost(inner, reference, 20.0)
    running = [system.lift(StateCost(inner, reference, 0.1)), ControlCost(1e-2), ControlRateCost(system, weights)]
    return Problem(system, system.state(x0, u_before), N, running, [system.lift(goal)])


def test_the_total_cost_is_that_of_plain_trajectories(rng):
    inner, N = CartPole(), 5
    problem, target = rate_problem(inner, np.zeros(4), [1.0, 0.5, 0.0, 0.0], N), np.array([1.0, 0.5, 0.0, 0.0])
    zs, us = random_trajectory(problem, rng)
    xs = inner.rollout(np.zeros(4), us)
    rates = np.diff(us, axis=0, prepend=[[0.4]]) / inner.dt
    running = 0.1 * ((xs[:-1] - target) ** 2).sum() + 1e-2 * (us**2).sum() + 2e-3 * (rates**2).sum()
    expected = 0.5 * inner.dt * running + 10.0 * ((xs[-1] - target) ** 2).sum()
    assert total_cost(problem, zs, us) == pytest.approx(expected, rel=1e-13)


def lifted_problem(inner, x0):
    """Every kind of lifted cost, with cross terms of state and control."""
    system = ControlRateSystem(inner)
    running = [
        system.lift(ResidualCost(TipResidual(), [0.5, 0.7, 0.1])),
        ResidualCost(system.lift(TipResidual()), 0.4),
        system.lift(ControlCost(0.3)),
        ControlRateCost(system, [[0.1], [0.2], [0.3], [0.4]]),
        StateCost(system, system.state(x0, 0.2), 0.5),
    ]
    return Problem(system, system.state(x0, 0.7), 4, running, [ResidualCost(system.lift(TipResidual()), 2.0)])


@pytest.mark.parametrize("make", [
    lambda: lifted_problem(Pendulum(), [0.3, -0.2]),
    lambda: rate_problem(Circle(), *Circle().embed(np.array([[0.3, -0.2], [1.2, 0.1]])), 4),
    lambda: rate_problem(CartPole(), np.zeros(4), [1.0, 0.5, 0.0, 0.0], 4),
])  # fmt: skip
def test_costs_against_differences(make, rng):
    problem = make()
    trajectory = random_trajectory(problem, rng)
    assert_gradients(problem, *trajectory)
    assert_exact_hessians(problem, *trajectory)


def test_a_lifted_residual_costs_what_the_lifted_cost_does(rng):
    system = ControlRateSystem(Pendulum())
    zs, us = rng.standard_normal((5, 3)), rng.standard_normal((5, 1))
    lifted = system.lift(ResidualCost(TipResidual(), 0.7)), ResidualCost(system.lift(TipResidual()), 0.7)
    problems = [Problem(system, zs[0], 4, [cost], [cost]) for cost in lifted]
    for a, b in zip(*(expand(problem, zs, us[:4]) for problem in problems), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", ["pendulum", "circle"])
def test_the_optimum_is_that_of_a_dense_minimization(name):
    inner, N = {"pendulum": Pendulum(), "circle": Circle()}[name], 20
    x0, target = np.array([0.3, 0.0]), np.array([1.2, 0.0])
    points = [x0, target] if name == "pendulum" else [inner.embed(x0), inner.embed(target)]
    problem = rate_problem(inner, *points, N)
    solution = DDP().solve(problem)
    assert solution.converged
    plain = Pendulum()

    def objective(u):
        us = u[:, None]
        xs, rates = plain.rollout(x0, us), np.diff(u, prepend=0.4) / plain.dt
        running = 0.1 * ((xs[:-1] - target) ** 2).sum() + 1e-2 * (u**2).sum() + 2e-3 * (rates**2).sum()
        return 0.5 * plain.dt * running + 10.0 * ((xs[-1] - target) ** 2).sum()

    dense = minimize(objective, np.zeros(N), method="BFGS", options={"gtol": 1e-7, "maxiter": 2000})
    assert solution.cost == pytest.approx(objective(solution.us[:, 0]), rel=1e-12)
    assert solution.cost == pytest.approx(dense.fun, rel=1e-6)
    np.testing.assert_allclose(solution.us[:, 0], dense.x, atol=1e-3 * np.abs(dense.x).max())


def test_heavier_weights_make_smoother_controls():
    """Of two optima, the one whose rates weigh more has the smaller sum of squared rates."""
    roughness = []
    for weights in (1e-4, 1e-2, 1.0):
        solution = DDP().solve(rate_problem(Pendulum(), [0.3, 0.0], [1.2, 0.0], 30, weights=weights))
        assert solution.converged
        roughness.append((np.diff(solution.us[:, 0], prepend=0.4) ** 2).sum())
    assert roughness[0] > roughness[1] > roughness[2]


def test_states_are_checked_by_the_system_inside():
    system = ControlRateSystem(Circle())
    with pytest.raises(ValueError, match="x: the angle is no unit vector"):
        system.state([1.0, 1.0, 0.0])
    with pytest.raises(ValueError, match="x0: the angle is no unit vector"):
        Problem(system, [1.0, 1.0, 0.0, 0.0], 2)
    assert not hasattr(ControlRateSystem(Pendulum()), "check_state")


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda s: s.state([0, 0, 0]), ValueError, r"x: got shape \(3,\), expected \(2,\)"),
        (lambda s: s.state([0, 0], [1, 2]), ValueError, "u_before: got 2 numbers, expected one or 1"),
        (lambda s: s.lift(3), TypeError, "lift: got int, expected a cost or a residual"),
        (lambda s: ControlRateCost(s.system, 1.0), TypeError, "system: got Pendulum, expected a trajopt.Control"),
        (lambda s: ControlRateCost(s, [1, 2]), ValueError, "weights: got 2 numbers, expected one or 1"),
        (lambda s: ControlRateCost(s, -1.0), ValueError, "weights: got -1.0"),
        (lambda s: ControlRateCost(s, 1.0).check(s, True), ValueError, "terminal_costs: got a ControlRateCost"),
        (lambda s: ControlRateCost(s, 1.0).check(s.system, False), ValueError, "ControlRateCost: made for a system"),
        (lambda s: s.lift(ControlCost(1.0)).check(s, True), ValueError, "terminal_costs: got a ControlCost"),
        (lambda s: s.lift(ControlCost(1.0)).check(s.system, False), ValueError, "lifted cost: made for a system with"),
        (lambda s: ControlRateCost(s, np.ones((3, 1))).value(np.zeros((2, 3)), np.zeros((2, 1))), ValueError,
         "ControlRateCost: made for 3 knots, got 2"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(make, error, match):
    with pytest.raises(error, match=match):
        make(ControlRateSystem(Pendulum()))
