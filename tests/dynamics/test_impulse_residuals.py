"""Residuals of contacts at impacts: values by `contact_impulse`, derivatives by it and by differences, sums of squares.

Robots are those of the residuals of contact forces, in motion; some of them bounce, some of their contacts yield.
"""

import dataclasses

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from dynamics import (
    CenterOfPressure,
    ContactForce,
    FrictionCone,
    Impact,
    PointContact,
    RigidBodySystem,
    SupportPolygon,
    WrenchCone,
    ZeroMomentPoint,
)
from dynamics.simd.squares import KnotSum
from experiments.quadruped import impulses as experiment
from problems.quadruped_model import FEET, quadruped, standing
from tests.dynamics.test_contact_residuals import CASES, MAPS, MU, NORMAL, expected_squares, make, make_case
from tests.dynamics.test_weighted_squares import blocks, figures
from tests.reference.contact_cases import world_forces
from tests.reference.random_robots import random_states
from tests.reference.robot_systems import slope
from tests.reference.tangent_differences import along_state
from tests.tolerances import IDENTITY, SIXTH_ORDER_DIFFERENCES, SLOPE, relative_error

RESTITUTION = {"four feet": 0.0, "two feet": 0.3, "foot and point": 0.5, "arm": 0.0, "zoo": 1.0}
HESSIANS = 1e-8  # their differences
FOOT = {"half_lengths": (0.1, 0.06), "center": (0.02, -0.01, -0.1)}


def struck_case(name, rng):
    """The impact at the contacts of `make_case`, and states before it (3, nx)."""
    system, xs, _ = make_case(name, rng)
    actuation = None if name == "arm" else "floating_base" if system.nu == 12 else system.actuation.B
    return Impact(system.model, system.contacts, actuation, RESTITUTION[name], system.contact_damping), xs


@pytest.fixture(params=CASES)
def case(request, rng):
    return struck_case(request.param, rng)


@pytest.fixture(params=[*MAPS, "wrench", "pressure", "point"])
def residual(request, case):
    """Those of a foot are of a case in which one contact is rigid."""
    impact, kind = case[0], request.param
    if kind in MAPS:
        return make(kind, impact)
    if not impact.contacts.rigid:
        return ZeroMomentPoint(impact, (0.1, -0.2)) if kind == "point" else make("cone", impact)
    feet = {"wrench": lambda: WrenchCone(impact, MU, max_normal_force=40.0, **FOOT),
            "pressure": lambda: CenterOfPressure(impact, **FOOT),
            "point": lambda: SupportPolygon(impact, [[0.0, 0.0], [0.3, 0.1], [0.1, 0.4]])}  # fmt: skip
    return feet[kind]()


def struck(impact, xs):
    """Arguments of `contact_impulse`."""
    q, v = xs[:, : impact.nq], xs[:, impact.nq :]
    return impact.model, q, v, impact.contacts, impact.restitution, impact.contact_damping


def test_forces_are_the_impulses(case, rng):
    impact, xs = case
    f, names = dynamics.contact_impulse(*struck(impact, xs)).f, list(impact.contacts.frames)
    assert relative_error(ContactForce(impact).evaluate(xs), f.reshape(3, -1)) <= IDENTITY
    last = ContactForce(impact, names[-1], 2.0)
    assert relative_error(last.evaluate(xs), f[:, -1] - 2.0) <= IDENTITY and last.nu is None
    assert np.array_equal(last.evaluate(xs, np.ones((3, impact.nu))), last.evaluate(xs))  # whatever the controls are
    d = dynamics.contact_impulse_derivatives(*struck(impact, xs))
    rx, ru = ContactForce(impact, names[::-1]).jacobians(xs)
    expected = np.concatenate([d.df_dq, d.df_dv], axis=3)[:, ::-1].reshape(rx.shape)
    assert relative_error(rx, expected) <= IDENTITY and ru is None


def test_cones_take_impulses_in_world_axes(case):
    impact, xs = case
    f = impact.contact_impulses(xs)
    given = dynamics.contact_impulse(*struck(impact, xs)).f
    turned = [world_forces(impact.model, x[: impact.nq], impact.contacts.contacts, g)
              for x, g in zip(xs, given, strict=True)]  # fmt: skip
    assert relative_error(f, np.array(turned)) <= 10 * IDENTITY
    n = NORMAL / np.linalg.norm(NORMAL)
    normal, along = f @ n, np.linalg.norm(f - (f @ n)[..., None] * n, axis=2)
    expected = np.stack([MU * normal - np.sqrt(along**2 + 0.25), normal], axis=2).reshape(3, -1)
    assert relative_error(make("cone", impact).evaluate(xs), expected) <= 10 * IDENTITY


def test_moments_of_feet_are_those_of_the_impact(rng):
    impact, xs = struck_case("foot and point", rng)
    hit = dynamics.contact_impulse(*struck(impact, xs))
    (place,) = impact.contacts.rigid
    R = dynamics.frame_placement(impact.model, xs[:, : impact.nq], impact.contacts.frames[place]).R
    own = impact.contacts.contacts[place].axes == "local"
    f, m = (x[:, place] if own else np.einsum("kji,kj->ki", R, x[:, place]) for x in (hit.f, hit.moment))
    moment = m - np.cross(FOOT["center"], f)
    X, Y = FOOT["half_lengths"]
    expected = [Y * f[:, 2] - moment[:, 0], Y * f[:, 2] + moment[:, 0],
                X * f[:, 2] - moment[:, 1], X * f[:, 2] + moment[:, 1]]  # fmt: skip
    assert relative_error(CenterOfPressure(impact, **FOOT).evaluate(xs), np.array(expected).T) <= 10 * IDENTITY


def test_derivatives_are_the_differences(case, residual, rng):
    impact, xs = case
    rx, ru = residual.jacobians(xs)
    mu, n = rng.standard_normal((3, residual.nr)), impact.nv
    H, *none = residual.hessian_products(xs, None, mu)
    assert ru is None and none == [None, None]
    of_r = along_state(impact.model, residual.evaluate, xs[1], 1e-3)
    assert relative_error(rx[1], of_r) <= SIXTH_ORDER_DIFFERENCES
    of_g = along_state(impact.model, lambda x: np.einsum("i,kij->kj", mu[1], residual.jacobians(x)[0]), xs[1], 1e-3)
    of_g[:n, :n] = 0.5 * (of_g[:n, :n] + of_g[:n, :n].T)
    assert relative_error(H[1], of_g) <= HESSIANS
    assert np.array_equal(H, H.transpose(0, 2, 1))
    if residual.name == "contact forces":
        assert not H[:, n:, n:].any()  # linear in the velocity


def test_the_quadratic_model_is_exact_to_third_order(case, residual, rng):
    impact, xs = case
    mu, x = rng.standard_normal((1, residual.nr)), xs[1:2]
    r, rx, _ = residual.evaluate_with_jacobians(x)
    H = residual.hessian_products(x, None, mu)[0][0]
    dx, steps, errors = rng.standard_normal((8, impact.ndx)), 2e-2 * 0.5 ** np.arange(5), []
    for h in steps:
        moved = residual.evaluate(impact.integrate(np.tile(x, (8, 1)), h * dx))
        errors.append((moved - r - h * dx @ rx[0].T) @ mu[0] - 0.5 * h**2 * np.einsum("ki,ij,kj->k", dx, H, dx))
    assert slope(steps, np.array(errors)) == pytest.approx(3.0, abs=SLOPE)


@pytest.mark.parametrize("limited", [False, True])
def test_squares_are_those_of_the_residual(case, residual, limited, rng):
    """Blocks of controls stay as they are."""
    impact, points = case
    N = 11
    xs = impact.integrate(points[np.arange(N + 1) % 3], 1e-2 * rng.standard_normal((N + 1, impact.ndx)))
    given = figures(rng, N, residual.nr, limited)
    target, curvature = blocks(N, impact.ndx, impact.nu), blocks(N, impact.ndx, impact.nu)
    value = residual.add_expansion(KnotSum((0, N), xs, np.zeros((N, impact.nu)), given, target, curvature))
    fixed = _OfZeroControls(residual, impact.nu)
    expected, first, second = expected_squares(fixed, xs, np.zeros((N, impact.nu)), given, 0, N)
    assert value == pytest.approx(expected, rel=1e-12)
    for a, b in zip([*target, *curvature], [*first, *second], strict=True):
        assert np.abs(a - b).max(initial=0.0) <= 1e-11 * (1e-3 + np.abs(b).max(initial=0.0))
    both = blocks(N, impact.ndx, impact.nu)
    assert residual.add_expansion(KnotSum((0, N), xs, None, given, both, both)) == value
    for a, b, c in zip(both, first, second, strict=True):
        size = 1e-3 + np.abs(b).max(initial=0.0) + np.abs(c).max(initial=0.0)
        assert np.abs(a - b - c).max(initial=0.0) <= 1e-11 * size


class _OfZeroControls:
    """A residual of states with derivatives of zero in controls."""

    def __init__(self, inner, nu):
        self.inner, self.nu, self.ndx, self.nr = inner, nu, inner.ndx, inner.nr

    def evaluate_with_jacobians(self, xs, us):
        r, rx, _ = self.inner.evaluate_with_jacobians(xs)
        return r, rx, np.zeros((len(xs), self.nr, self.nu))

    def hessian_products(self, xs, us, mu):
        K = len(xs)
        H = self.inner.hessian_products(xs, None, mu)[0]
        return H, np.zeros((K, self.nu, self.ndx)), np.zeros((K, self.nu, self.nu))


def test_joints_that_follow(rng):
    """The same as on the tree, in the coordinates that lead."""
    model = gripper()
    impact = Impact(model, [PointContact(model, "tip")], restitution=0.2)
    q, v = random_states(model, 3, rng, vectors=1)
    xs = np.hstack([q, v])
    for residual in (ContactForce(impact), FrictionCone(impact, MU, facets=None, smoothing=0.5)):
        of_r = along_state(model, residual.evaluate, xs[1], 1e-3)
        assert relative_error(residual.jacobians(xs)[0][1], of_r) <= SIXTH_ORDER_DIFFERENCES
    f = dynamics.contact_impulse(model, q, v, impact._given[0], 0.2).f
    assert relative_error(ContactForce(impact).evaluate(xs), f[:, 0]) <= IDENTITY
    assert ContactForce(impact).made_for in impact.serves


def gripper():
    """Two links, of which the second follows the first."""
    builder = dynamics.ModelBuilder()
    for name, parent in (("upper", "world"), ("lower", "upper")):
        place = (np.eye(3), [0.0, 0.0, -0.4 if parent == "upper" else 0.0])
        builder.add_body(name, parent, dynamics.Revolute("y"), placement=place, mass=1.0, com=(0.0, 0.05, -0.2),
                         inertia=0.01 * np.eye(3))  # fmt: skip
    builder.add_mimic("lower_joint", "upper_joint", multiplier=-0.7, offset=0.4)
    builder.add_frame("tip", "lower", (np.eye(3), [0.1, 0.0, -0.4]))
    return builder.build()


# ------------------------------------------------------------------------------------------------ in problems
def test_a_jump_lands_within_its_cones():
    """Without these cones two of its feet land with |f_t| = 0.86 f_n, where contact forces keep to 0.6."""
    problem = experiment.with_cones("quadruped_jump")
    free, held = (trajopt.DDP().solve(each) for each in (problems.make("quadruped_jump"), problem))
    assert free.converged and held.converged and held.iterations <= 3 * free.iterations
    assert experiment.steepest(free) > 1.4 * MU
    assert experiment.steepest(held) <= MU * (1.0 + 1e-5)
    assert free.cost < held.cost < 1.01 * free.cost
    by_ilqr = trajopt.ILQR().solve(problem)
    assert by_ilqr.converged and by_ilqr.cost == pytest.approx(held.cost, rel=1e-6)


def test_they_are_of_the_impact_alone():
    """Neither forces nor impulses take the place of the other, and not those of another restitution."""
    problem = problems.make("quadruped_jump")
    system, (strike,) = problem.system, [s for s in problem.system.segments if isinstance(s.system, Impact)]
    cone = FrictionCone(strike.system, MU)
    with pytest.raises(ValueError, match=r"at knots 0 to 4, was made for .* an impact of restitution 0 at"):
        _with(problem, cone, range(5))
    forces = FrictionCone(system.segments[0].system, MU)
    with pytest.raises(ValueError, match=f"at knots {strike.start} to {strike.start}, .*not for an impact at lf_foot"):
        _with(problem, forces, [strike.start])
    bouncing = Impact(system.model, [PointContact(system.model, foot) for foot in FEET], "floating_base", 0.5)
    with pytest.raises(ValueError, match=r"an impact of restitution 0.5 at .*not for an impact at"):
        _with(problem, FrictionCone(bouncing, MU), [strike.start])


def _with(problem, cone, knots):
    rows = trajopt.ResidualConstraint(cone, cone.lower, cone.upper, at=knots, name="cone")
    return dataclasses.replace(problem, constraints=[*problem.constraints, rows])


def test_smoothing_is_small_beside_impulses():
    model = quadruped()
    contacts = [PointContact(model, foot) for foot in FEET]
    impact = Impact(model, contacts, "floating_base")
    standing_still = impact.state(standing())[None]
    system = RigidBodySystem(model, 0.01, actuation="floating_base", contacts=contacts)
    assert FrictionCone(impact, MU, facets=None).evaluate(standing_still)[0, 0] == pytest.approx(-1e-5)
    assert FrictionCone(impact, MU, facets=None, smoothing=1e-2).evaluate(standing_still)[0, 0] == pytest.approx(-1e-2)
    given = FrictionCone(system, MU, facets=None, smoothing=1e-3)
    us = np.ones((1, 12))
    assert np.array_equal(FrictionCone(system, MU, facets=None).evaluate(standing_still, us),
                          given.evaluate(standing_still, us))  # fmt: skip
