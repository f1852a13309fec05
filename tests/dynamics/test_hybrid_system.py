"""HybridSystem: phases of contact and impacts as one system, against its parts, single steps and differences.

The robot is the project's quadruped in motion: two feet held, then four with an impact between, then flight.
"""

import pickle

import numpy as np
import pytest

import dynamics
import trajopt
from dynamics import HybridSystem, Impact, PointContact, RigidBodySystem
from dynamics.simd import LANES
from problems.quadruped_model import FEET, quadruped, standing
from tests.reference import contact_cases
from tests.reference.robot_systems import both_orders_at_once, model_slopes
from tests.tolerances import CONTRACTED, IDENTITY, SLOPE, relative_error
from trajopt.interfaces.stepwise import closed_loop_by_steps

MODEL = quadruped()
PAIR = [FEET[0], FEET[3]]
PHASES = [("trot", PAIR, 2), ("stance", list(FEET), 3), ("flight", [], 2)]
IMPACT = 2
DT = 0.02


def hybrid(**options):
    return HybridSystem(MODEL, DT, PHASES, **options)


def motion(system, rng, speed=0.3):
    """A trajectory xs (N+1, nx), us (N, nu) from a stance in motion."""
    x0 = np.r_[standing(), speed * rng.standard_normal(MODEL.nv)]
    us = system.quasi_static(x0) + 0.1 * rng.standard_normal((system.horizon, system.nu))
    return system.rollout(x0, us), us


def around(system, x, rng, count=3):
    return system.integrate(np.tile(x, (count, 1)), 0.2 * rng.standard_normal((count, system.ndx)))


# ------------------------------------------------------------------------------------------------ knots
def test_segments():
    system = HybridSystem(MODEL, DT, [*PHASES, ("landing", FEET[::-1], 1), ("trot again", PAIR, 1)])
    assert [(s.name, s.start, s.stop) for s in system.segments] == [
        ("trot", 0, 2), ("impact of stance", 2, 3), ("stance", 3, 6), ("flight", 6, 8), ("impact of landing", 8, 9),
        ("landing", 9, 10), ("trot again", 10, 11),
    ]  # fmt: skip
    trot, strike, stance, flight, second_strike, landing, again = (s.system for s in system.segments)
    assert trot is again and stance is landing and strike is second_strike and len({trot, stance, flight}) == 3
    assert isinstance(strike, Impact) and isinstance(flight, RigidBodySystem) and not flight.in_contact
    assert strike.dt == 0.0 and [c.frame for c in strike.contacts.contacts] == list(FEET)
    idle = np.isin(np.arange(11), [2, 8])
    assert np.array_equal(system.idle, idle) and np.array_equal(system.durations, np.where(idle, 0.0, DT))
    assert system.horizon == 11 and system.contact_frames == (FEET[0], FEET[3], FEET[1], FEET[2])
    assert system.knots_in_contact(FEET[0]).tolist() == [0, 1, 3, 4, 5, 9, 10]
    assert system.knots_in_contact(FEET[1]).tolist() == [3, 4, 5, 9]
    assert system.segments_of(11) == system.segments and stance.segments_of(5) == (("motion", stance, 0, 5),)
    assert "impact of landing" in repr(system) and "Impact" in repr(strike)


def test_without_impacts():
    system = hybrid(impacts=False)
    assert system.horizon == 7 and not system.idle.any() and [s.name for s in system.segments] == [p[0] for p in PHASES]


@pytest.mark.parametrize("impacts", [True, False])
def test_a_phase_of_no_knots_is_an_impact_on_its_frames(impacts):
    strike = ("touch-down", [FEET[1], FEET[2]], 0)
    system = HybridSystem(MODEL, DT, [("trot", PAIR, 2), strike, ("stance", FEET, 3), strike], impacts=impacts)
    assert [(s.name, s.start, s.stop) for s in system.segments] == [
        ("trot", 0, 2), ("touch-down", 2, 3), ("stance", 3, 6), ("touch-down", 6, 7)
    ]  # fmt: skip
    first, last = system.segments[1].system, system.segments[3].system
    assert first is last and [c.frame for c in first.contacts.contacts] == [FEET[1], FEET[2]]
    assert system.idle.tolist() == [False, False, True, False, False, False, True]


def test_feet_that_stay_or_leave_make_no_impact():
    system = HybridSystem(MODEL, DT, [("four", FEET, 1), ("turned", FEET[::-1], 1), ("two", PAIR, 1), ("none", [], 1)])
    assert not system.idle.any() and system.segments[0].system is system.segments[1].system


def test_contacts_of_ones_own_keep_gains_and_references():
    foot = PointContact(MODEL, FEET[0], (600.0, 50.0), [0.1, 0.2, 0.3])
    system = HybridSystem(MODEL, DT, [("stance", [foot, FEET[1]], 1)], gains=(0.0, 7.0))
    held = system.segments[0].system.contacts.contacts
    assert held[0] is foot and held[1].gains == (0.0, 7.0)


def test_windows(rng):
    system = hybrid()
    xs, us = motion(system, rng)
    part = system.window(1, 5)
    assert [(s.name, s.start, s.stop) for s in part.segments] == [
        ("trot", 0, 1), ("impact of stance", 1, 2), ("stance", 2, 4),
    ]  # fmt: skip
    assert part.horizon == 4 and part.idle.tolist() == [False, True, False, False]
    assert part.knots_in_contact(FEET[1]).tolist() == [2, 3] and system.horizon == 8
    assert relative_error(part.rollout(xs[1], us[1:5]), xs[1:6]) <= IDENTITY
    assert np.array_equal(part.contact_forces(xs[1:5], us[1:5]), system.contact_forces(xs, us)[1:5])
    assert part.window(1, 2).contact_impulses(xs[2:3]).any()


# ------------------------------------------------------------------------------------------------ motion
def test_one_phase_is_its_rigid_body_system(rng):
    contacts = [PointContact(MODEL, foot, (0.0, 50.0)) for foot in FEET]
    alone = RigidBodySystem(MODEL, DT, actuation="floating_base", contacts=contacts)
    system = HybridSystem(MODEL, DT, [("stance", FEET, 4), ("on", FEET, 2)])
    xs, us = motion(system, rng)
    lam = rng.standard_normal((6, system.ndx))
    assert np.array_equal(xs, alone.rollout(xs[0], us))
    assert np.array_equal(system.step(xs[:-1], us), alone.step(xs[:-1], us))
    for method, args in (("linearize", ()), ("hessian_products", (lam,)), ("hessians", ())):
        for one, other in zip(
            getattr(system, method)(xs, us, *args), getattr(alone, method)(xs, us, *args), strict=True
        ):
            assert np.array_equal(one, other)


def test_rollouts_repeat_single_knots(rng):
    system = hybrid(restitution=0.3)
    xs, us = motion(system, rng)
    assert np.isfinite(xs).all()
    for t in range(system.horizon):
        assert relative_error(system.window(t, t + 1).step(xs[t], us[t]), xs[t + 1]) <= IDENTITY
    assert relative_error(system.step(xs[:-1], us), xs[1:]) <= IDENTITY


@pytest.mark.parametrize("what", ["feedback", "gaps and limits"])
@pytest.mark.parametrize("knots", [(0, 8), (IMPACT, 6)])
def test_closed_loops_equal_steps(what, knots, rng):
    """In lanes against single steps; also where the first knot is an impact, and with more candidates than lanes."""
    system = hybrid().window(*knots)
    N, alphas = system.horizon, 0.8 ** np.arange(LANES + 2)
    x0 = np.r_[standing(), 0.3 * rng.standard_normal(18)]
    xs, us = around(system, x0, rng, N + 1), system.quasi_static(x0)
    k, K = 0.1 * rng.standard_normal(us.shape), 0.02 * rng.standard_normal((*us.shape, system.ndx))
    options = {}
    if what != "feedback":
        width = 0.05 * rng.random(us.shape)
        options = {"gaps": 0.05 * rng.standard_normal((N + 1, system.ndx)), "lower": us - width, "upper": us + width}
    X, U = system.closed_loop_rollout(x0, xs, us, k, K, alphas, **options)
    X_steps, U_steps = closed_loop_by_steps(system, x0, xs, us, k, K, alphas, **options)
    assert np.isfinite(X_steps).all()
    assert relative_error(X, X_steps) <= 1e-9 and relative_error(U, U_steps) <= 1e-9


def test_impacts_are_impulses(rng):
    """q stays, v jumps as `contact_impulse` says, points leave with -restitution of the velocities they came with."""
    system = hybrid(restitution=0.4).window(IMPACT, IMPACT + 1)
    x = np.r_[standing(), rng.standard_normal(18)]
    after = system.step(x, np.ones(12))
    impulses = system.contact_impulses(x[None])[0]
    J = contact_cases.jacobian(MODEL, x[:19], [PointContact(MODEL, foot) for foot in system.contact_frames])
    jump = dynamics.mass_matrix(MODEL, x[:19]) @ (after[19:] - x[19:])
    assert np.array_equal(after[:19], x[:19])
    assert relative_error(J @ after[19:], -0.4 * J @ x[19:]) <= 1e-9
    assert relative_error(jump, J.T @ impulses.ravel()) <= 1e-9


def test_contact_forces(rng):
    """Those of each phase, in the axes of the world whatever those of its contacts, zero where nothing is held."""
    system = hybrid()
    xs, us = motion(system, rng)
    forces, order = system.contact_forces(xs, us), system.contact_frames
    trot, stance = system.segments[0].system, system.segments[2].system
    assert np.array_equal(forces[:2, :2], trot.contact_forces(xs[:2], us[:2])) and not forces[:2, 2:].any()
    found = stance.contact_forces(xs[3:6], us[3:6])
    assert np.array_equal(forces[3:6], found[:, [FEET.index(frame) for frame in order]])
    assert not forces[[IMPACT, 6, 7]].any()
    impulses = system.contact_impulses(xs)
    assert np.array_equal(np.flatnonzero(impulses.any(axis=(1, 2))), [IMPACT])
    local = [PointContact(MODEL, foot, (0.0, 50.0), axes="local") for foot in FEET]
    turned = HybridSystem(MODEL, DT, [("trot", [local[0], local[3]], 2), ("stance", local, 3), ("flight", [], 2)])
    assert relative_error(turned.contact_forces(xs, us), forces) <= 1e-9
    assert relative_error(turned.contact_impulses(xs), impulses) <= 1e-9


# ------------------------------------------------------------------------------------------------ expansions
@pytest.mark.parametrize("restitution", [0.0, 0.4])
def test_slopes_of_an_impact(restitution, rng):
    knot = hybrid(restitution=restitution).window(IMPACT, IMPACT + 1)
    xs = around(knot, np.r_[standing(), 0.5 * rng.standard_normal(18)], rng)
    us = rng.standard_normal((3, 12))
    assert model_slopes(knot, xs, us, rng) == pytest.approx((2.0, 3.0), abs=SLOPE)
    assert not knot.linearize(xs, us)[1].any()


def test_derivatives_along_a_trajectory(rng):
    """All blocks at all knots against differences of sixth order."""
    system = hybrid(restitution=0.2).window(1, 4)
    xs, us = motion(hybrid(restitution=0.2), rng)
    report = trajopt.check_derivatives(system, xs[1:4], us[1:4], system=system, step=2.0**-7, tolerance=1e-5)
    assert report.ok, str(report)


def test_expansions_are_those_of_single_knots(rng):
    system = HybridSystem(MODEL, DT, [*PHASES, ("landing", FEET[::-1], 1)])
    xs, us = motion(system, rng)
    lam = rng.standard_normal((system.horizon, system.ndx))
    whole = (*system.linearize(xs, us), *system.hessian_products(xs, us, lam))
    for t in range(system.horizon):
        knot, at = system.window(t, t + 1), slice(t, t + 1)
        single = (*knot.linearize(xs[at], us[at]), *knot.hessian_products(xs[at], us[at], lam[at]))
        for many, one in zip(whole, single, strict=True):
            assert np.array_equal(many[t], one[0])
    tensors = system.hessians(xs, us)
    size = np.abs(whole[2]).max()
    for T, H in zip(tensors, whole[2:], strict=True):
        assert relative_error(H, np.einsum("ti,tijk->tjk", lam, T), floor=size) <= 100 * CONTRACTED
    assert relative_error(whole[2], np.swapaxes(whole[2], 1, 2)) <= CONTRACTED


# ------------------------------------------------------------------------------------------------ rest
def test_both_orders_at_once(rng):
    """In contact, at an impact and in flight: `write_expansion` gives what `linearize` and `hessian_products` give."""
    system = hybrid(restitution=0.3)
    xs, us = motion(system, rng)
    lam = rng.standard_normal((system.horizon, system.ndx))
    apart = (*system.linearize(xs, us), *system.hessian_products(xs, us, lam))
    for one, other in zip(both_orders_at_once(system, xs, us, lam), apart, strict=True):
        assert relative_error(one, other) <= CONTRACTED


def test_quasi_static_controls_hold_the_robot(rng):
    system = hybrid()
    q = dynamics.integrate(MODEL, standing(), np.r_[np.zeros(6), 0.1 * rng.standard_normal(12)])
    stance = system.segments[2].system
    u = stance.quasi_static(stance.state(q, rng.standard_normal(18)))
    still = dynamics.contact_dynamics(MODEL, q, np.zeros(18), np.r_[np.zeros(6), u], stance.contacts)
    assert np.abs(still.a).max() < 1e-10
    J = contact_cases.jacobian(MODEL, q, stance.contacts.contacts)
    null = np.linalg.svd(J[:, :6].T)[2][6:]  # least forces: none that the base does not feel
    assert np.abs(null @ still.f.ravel()).max() < 1e-10
    us = system.quasi_static(stance.state(q))
    assert np.array_equal(us[3:6], np.tile(u, (3, 1))) and not us[[IMPACT, 6, 7]].any()
    many = stance.quasi_static(np.tile(stance.state(q), (2, 1)))
    assert relative_error(many, np.tile(u, (2, 1))) <= IDENTITY


def test_quasi_static_arm():
    arm, tips = contact_cases.robot("ur5", np.random.default_rng(0))
    system = HybridSystem(arm, DT, [("free", [], 1), ("held", [tips[0]], 1)], actuation=None)
    q = np.full(arm.nq, 0.3)
    us = system.quasi_static(np.r_[q, np.zeros(arm.nv)])
    g = dynamics.gravity_forces(arm, q)
    assert relative_error(us, [g, np.zeros(arm.nv), g]) <= IDENTITY


def test_where_a_motion_starts():
    x0 = np.r_[standing(), np.zeros(18)]
    p = dynamics.frame_placement(MODEL, x0[:19], FEET[0]).p

    def held_at(reference):
        return PointContact(MODEL, FEET[0], (600.0, 50.0), reference)

    near, far = [held_at(p + [0.0, 0.0, 5e-4]), FEET[1]], [held_at(p + [0.0, 0.02, 0.0]), FEET[1]]
    HybridSystem(MODEL, DT, [("flight", [], 1), ("stance", far, 1)]).check_start(x0)
    for make in (
        lambda feet: HybridSystem(MODEL, DT, [("stance", feet, 1)]),
        lambda feet: RigidBodySystem(
            MODEL, DT, actuation="floating_base", contacts=[c for c in feet if not isinstance(c, str)]
        ),
    ):
        make(near).check_start(x0)
        with pytest.raises(ValueError, match=r"x0: frame 'lf_foot' is 0.02 m away from the reference of its contact"):
            make(far).check_start(x0)


# ------------------------------------------------------------------------------------------------ errors
@pytest.mark.parametrize(
    "phases, message",
    [
        ([("stance", FEET, 1), ("fall", [], 0)], "'fall': got neither knots nor frames"),
        ([("impact", FEET, 0)], "got impacts alone, expected a phase that takes time"),
        ([("s", FEET, 1), ("t", ["rf_fot"], 1)], r"phases\[1\], 't': frame: got 'rf_fot', expected .*; did you mean"),
    ],
)
def test_errors_of_phases(phases, message):
    with pytest.raises(ValueError, match=message):
        HybridSystem(MODEL, DT, phases)


def test_gains_want_a_reference():
    with pytest.raises(ValueError, match="reference: needed where kp is not zero"):
        hybrid(gains=(100.0, 20.0))


def test_errors_of_calls(rng):
    system = hybrid()
    xs, us = motion(system, rng)
    for call in (
        lambda: system.rollout(xs[0], us[:5]),
        lambda: system.step(xs[:5], us[:5]),
        lambda: system.linearize(xs[:5], us[:5]),
        lambda: system.hessian_products(xs[:5], us[:5], np.zeros((5, 36))),
        lambda: system.hessians(xs[:5], us[:5]),
        lambda: system.contact_forces(xs[:5], us[:5]),
    ):
        with pytest.raises(ValueError, match="us: got 5 knots, expected 8, which the phases fill"):
            call()
    with pytest.raises(ValueError, match="xs: got 5 states, expected 8 or 9"):
        system.contact_impulses(xs[:5])
    with pytest.raises(ValueError, match=r"window: got \(3, 9\), expected 0 <= start < stop <= 8"):
        system.window(3, 9)
    with pytest.raises(ValueError, match=r"frame in contact: got 'lf_fot', expected .*; did you mean 'lf_foot'"):
        system.knots_in_contact("lf_fot")


# ------------------------------------------------------------------------------------------------ other robots
def loaded(**options):
    """The stance carries a load, and so does its impact."""
    heavier = MODEL.with_body("load", "base", mass=5.0, com=(0.1, 0.02, 0.1), inertia=0.02 * np.eye(3))
    return heavier, hybrid(**options).with_model(heavier, ["stance"])


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_phases_with_a_load(integrator, rng):
    """Knot by knot what the systems of one robot each do, at every order; the same for forces and torques at rest."""
    plain = hybrid(integrator=integrator)
    heavier, system = loaded(integrator=integrator)
    full = HybridSystem(heavier, DT, PHASES, integrator=integrator)
    xs, us = motion(system, rng)
    lam = rng.standard_normal((system.horizon, system.ndx))
    carried = np.isin(np.arange(system.horizon), [2, 3, 4, 5])
    there = np.where(carried[:, None], full.step(xs[:-1], us), plain.step(xs[:-1], us))
    np.testing.assert_allclose(xs[1:], there, rtol=0, atol=1e-12)
    assert np.abs(full.step(xs[:-1], us) - plain.step(xs[:-1], us))[carried].max() > 1e-3
    pairs = zip(
        (*system.linearize(xs, us), *system.hessian_products(xs, us, lam)),
        (*full.linearize(xs, us), *full.hessian_products(xs, us, lam)),
        (*plain.linearize(xs, us), *plain.hessian_products(xs, us, lam)), strict=True,
    )  # fmt: skip
    for got, heavy, light in pairs:
        np.testing.assert_allclose(got, np.where(carried[:, None, None], heavy, light), rtol=1e-12, atol=1e-10)
    x0, rows = xs[0], carried[:, None, None]
    np.testing.assert_allclose(
        system.quasi_static(x0), np.where(rows[..., 0], full.quasi_static(x0), plain.quasi_static(x0)), atol=1e-12
    )
    forces = [each.contact_forces(xs, us) for each in (system, full, plain)]
    np.testing.assert_allclose(forces[0], np.where(rows, *forces[1:]), rtol=1e-12, atol=1e-9)
    impulses = [each.contact_impulses(xs) for each in (system, full, plain)]
    np.testing.assert_allclose(impulses[0], np.where(rows, *impulses[1:]), rtol=1e-12, atol=1e-12)


def test_others_of_a_system_with_a_load(rng):
    """Windows, finer steps and steps of free duration keep who carries what."""
    heavier, system = loaded()
    full = HybridSystem(heavier, DT, PHASES)
    xs, us = motion(system, rng)
    np.testing.assert_array_equal(system.window(2, 6).step(xs[2:6], us[2:6]), full.window(2, 6).step(xs[2:6], us[2:6]))
    assert [segment.system.model is MODEL for segment in system.refined(2).segments] == [True, False, False, True]
    held = np.hstack([us, np.full((system.horizon, 1), DT)])
    np.testing.assert_allclose(system.timed().step(xs[:-1], held), xs[1:], rtol=0, atol=1e-12)
    whole = pickle.loads(pickle.dumps(hybrid())).with_model(heavier)
    np.testing.assert_array_equal(whole.step(xs[:-1], us), full.step(xs[:-1], us))
    copied = pickle.loads(pickle.dumps(system))
    np.testing.assert_array_equal(copied.step(xs[:-1], us), system.step(xs[:-1], us))
    back = system.with_model(MODEL, ["stance"])
    np.testing.assert_array_equal(back.step(xs[:-1], us), hybrid().step(xs[:-1], us))
    report = trajopt.check_derivatives(system, x=xs[:-1], u=us)
    assert report.ok, str(report)


def test_terms_where_a_robot_carries_a_load():
    """Those of the load's robot hold where it is carried, those of places anywhere, forces of another robot nowhere."""
    heavier, system = loaded()
    x0 = np.r_[standing(), np.zeros(MODEL.nv)]
    stance = system.segments[2].system

    def term(residual, at):
        return trajopt.ResidualCost(residual, 1.0, at=at)

    for residual, knots in (
        (dynamics.FrameTranslation(MODEL, FEET[0], np.zeros(3)), slice(0, 7)),
        (dynamics.CenterOfMass(heavier, np.zeros(3)), slice(3, 6)),
        (dynamics.ContactForce(stance, None), slice(3, 6)),
    ):
        trajopt.Problem(system, x0, system.horizon, [trajopt.ControlCost(1.0), term(residual, knots)])
    plain = hybrid().segments[2].system
    for residual, knots in (
        (dynamics.CenterOfMass(heavier, np.zeros(3)), slice(0, 7)),
        (dynamics.ContactForce(plain, None), slice(3, 6)),
    ):
        with pytest.raises(ValueError, match=r"was made for .*, not for"):
            trajopt.Problem(system, x0, system.horizon, [trajopt.ControlCost(1.0), term(residual, knots)])


def test_a_plan_with_a_load_is_simulated_with_it(rng):
    """As it is; with another robot only if that is said of phases."""
    builder = dynamics.ModelBuilder()
    builder.add_body("arm", "world", dynamics.Revolute("y"), mass=1.0, com=(0.5, 0.0, 0.0), inertia=0.01 * np.eye(3))
    arm = builder.build()
    heavier = arm.with_body("load", "arm", placement=(np.eye(3), (1.0, 0.0, 0.0)), mass=0.5)
    phases = [("free", [], 10), ("carry", [], 10)]
    plain = HybridSystem(arm, DT, phases, actuation=None, integrator="rk4")
    system, x0 = plain.with_model(heavier, ["carry"]), np.zeros(2)
    goal = trajopt.StateCost(system, [0.3, 0.0], 100.0, at="terminal")
    problem = trajopt.Problem(system, x0, 20, [trajopt.ControlCost(1e-2), goal], us_init="quasi_static")
    plan = trajopt.DDP().solve(problem)
    assert plan.converged
    still = system.quasi_static(x0)[:, 0]  # half a kilogram at a metre
    np.testing.assert_allclose(still, np.repeat([-0.5 * 9.81, -9.81], 10), rtol=1e-12)
    exact = trajopt.simulate(plan, dt=1e-3, policy="open loop")
    wrong = trajopt.simulate(plan, system=plain, dt=DT, policy="open loop")
    assert exact.largest_deviation.max() < 1e-4 < 0.1 < wrong.largest_deviation.max()
    with pytest.raises(ValueError, match="model: got one for all phases, but 'carry' have"):
        trajopt.simulate(plan, model=heavier)
    assert "feet" not in system.start_advice and "feet" in hybrid().start_advice


def test_phases_of_other_robots_that_are_none():
    heavier, system = loaded()
    other = dynamics.ModelBuilder()
    other.add_body("rod", "world", dynamics.Revolute("y"), mass=1.0, com=(0.0, 0.0, -0.5))
    for call, error, message in (
        (lambda: system.with_model(heavier), ValueError, "model: got one for all phases, but 'impact of stance'"),
        (lambda: system.with_model(heavier, ["stanse"]), ValueError, "phases: got 'stanse', expected .*; did you mean"),
        (lambda: system.with_model(heavier, "stance"), TypeError, "phases: got str, expected a sequence of names"),
        (lambda: system.with_model(other.build(), ["stance"]), ValueError, "model: got 1 joints, expected the"),
        (lambda: system.with_model(3, ["stance"]), TypeError, "model: got int"),  # pyright: ignore[reportArgumentType]
    ):
        with pytest.raises(error, match=message):
            call()
