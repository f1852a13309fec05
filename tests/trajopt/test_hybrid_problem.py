"""Optimal control where knots differ: dynamics, durations and knots without controls, on a quadruped that steps."""

import numpy as np
import pytest

import dynamics
import trajopt
from problems.quadruped_model import FEET, quadruped, standing
from tests.reference.prepared import replay
from tests.reference.riccati import assert_agree_or_zero, by_products, riccati
from tests.tolerances import IDENTITY, relative_error
from tests.trajopt.systems import Pendulum
from trajopt.backward.backward_pass import sweep
from trajopt.backward.expansions import adjoint, expand, prepared_idle_controls, tensors_of
from trajopt.capabilities import CAPABILITIES, members
from trajopt.interfaces.system import semi_implicit_form, window

MODEL = quadruped()
DT = 0.02
SWING, STANCE = 10, 8
IMPACT, N = SWING, SWING + STANCE + 1
LIFTED = FEET[1]


@pytest.fixture(scope="module")
def system():
    others = [foot for foot in FEET if foot != LIFTED]
    return dynamics.HybridSystem(MODEL, DT, [("swing", others, SWING), ("stance", list(FEET), STANCE)])


@pytest.fixture(scope="module")
def step_forwards(system):
    """One foot swings five centimetres forwards and touches down."""
    x0 = system.state(standing())
    foot = dynamics.frame_placement(MODEL, standing(), LIFTED).p

    def reach(offset, weight):
        return trajopt.ResidualCost(dynamics.FrameTranslation(MODEL, LIFTED, foot + offset), weight)

    always = [
        trajopt.StateCost(system, x0, np.r_[np.ones(18), np.full(18, 0.1)]),
        trajopt.ControlCost(0.1, system.quasi_static(x0)[-1]),
    ]
    running = [list(always) for _ in range(N)]
    running[SWING // 2].append(reach([0.025, 0.0, 0.04], 100.0))
    running[IMPACT] = [reach([0.05, 0.0, 0.0], 1e4)]
    terminal = [trajopt.StateCost(system, x0, np.r_[np.full(18, 0.1), np.ones(18)])]
    return trajopt.Problem(system, x0, N, running, terminal, us_init="quasi_static", name="step"), foot


def problem(system, running=(), **options):
    return trajopt.Problem(system, system.state(standing()), N, running, **options)


# ------------------------------------------------------------------------------------------------ solving
def test_tensors_and_products_over_an_impact(step_forwards):
    """A sweep that contracts tensors is that of Hessian products with its own multiplier, one knot after another."""
    problem, _ = step_forwards
    us = problem.us_init + 0.01 * np.cos(np.arange(problem.us_init.size)).reshape(problem.us_init.shape)
    xs = problem.system.rollout(problem.x0, us)
    e, tensors = expand(problem, xs, us), tensors_of(problem.system, xs, us)
    by_hand = riccati(*e, 100.0, curvature=by_products(problem.system, xs, us))
    assert_agree_or_zero(sweep(e, 100.0, tensors=tensors), by_hand)


def test_solvers_agree(step_forwards):
    problem, foot = step_forwards
    ilqr = trajopt.ILQR(max_iterations=200).solve(problem)
    ddp = {hessian: trajopt.DDP(hessian=hessian).solve(problem) for hessian in ("parallel", "tensor")}
    for solution in (ilqr, *ddp.values()):
        assert solution.converged
        assert solution.cost == pytest.approx(ilqr.cost, rel=1e-9)
        assert relative_error(solution.xs, ilqr.xs) < 1e-4
        assert not solution.us[IMPACT].any() and not solution.K[IMPACT].any()
    xs, us = ddp["tensor"].xs, ddp["tensor"].us
    assert relative_error(xs, problem.system.rollout(problem.x0, us)) <= IDENTITY
    landed = dynamics.frame_placement(MODEL, xs[IMPACT:, :19], LIFTED).p
    assert np.abs(landed - foot - [0.05, 0.0, 0.0]).max() < 2e-3
    speeds = np.linalg.norm(dynamics.frame_velocity(MODEL, xs[:, :19], xs[:, 19:], LIFTED)[:, :3], axis=1)
    assert speeds[IMPACT] > 1e-2 and speeds[IMPACT + 1] < 1e-12 and speeds[-1] < 1e-4
    gradient = adjoint(expand(problem, xs, us))[1]
    assert np.abs(gradient).max() < 1e-5


def test_gradient_through_an_impact(step_forwards, rng):
    problem, _ = step_forwards
    us = problem.us_init + 0.05 * rng.standard_normal((N, 12))
    xs = problem.system.rollout(problem.x0, us)
    gradient = adjoint(expand(problem, xs, us))[1]
    d, h = rng.standard_normal(us.shape), 1e-5

    def cost(controls):
        return problem.objective.value(problem.system.rollout(problem.x0, controls), controls)

    assert np.sum(gradient * d) == pytest.approx((cost(us + h * d) - cost(us - h * d)) / (2.0 * h), rel=1e-6)


def test_from_states_with_gaps(step_forwards):
    """Multiple shooting and control limits meet the plain optimum."""
    problem, _ = step_forwards
    plain = trajopt.DDP().solve(problem)
    limited = trajopt.Problem(
        problem.system, problem.x0, N, problem.running_costs, problem.terminal_costs,
        [trajopt.ControlBounds(-2.7, 2.7)], us_init=problem.us_init,
    )  # fmt: skip
    solution = trajopt.DDP().solve(limited, xs=np.tile(problem.x0, (N + 1, 1)))
    assert solution.converged and solution.cost == pytest.approx(plain.cost, rel=1e-8)


# ------------------------------------------------------------------------------------------------ costs and time
def test_lists_of_costs_are_weighed_by_durations(system, rng):
    us, xs = rng.standard_normal((N, 12)), np.tile(system.state(standing()), (N + 1, 1))
    squares = 0.5 * np.square(us).sum(axis=1)
    cost = trajopt.ControlCost(1.0)
    everywhere = problem(system, [cost]).objective.value(xs, us)
    assert everywhere == pytest.approx(DT * (squares.sum() - squares[IMPACT]), rel=1e-13)
    listed = problem(system, [[cost] for _ in range(N)]).objective.value(xs, us)
    assert listed == pytest.approx(everywhere + squares[IMPACT], rel=1e-13)
    only = problem(system, [[cost] if t == IMPACT else [] for t in range(N)]).objective.value(xs, us)
    assert only == pytest.approx(squares[IMPACT], rel=1e-13)


def test_a_cost_with_rows_has_one_for_each_knot_that_lasts(system, rng):
    us, xs = rng.standard_normal((N, 12)), np.tile(system.state(standing()), (N + 1, 1))
    reference = rng.standard_normal((N - 1, 12))
    value = problem(system, [trajopt.ControlCost(1.0, reference)]).objective.value(xs, us)
    assert value == pytest.approx(0.5 * DT * np.square(np.delete(us, IMPACT, 0) - reference).sum(), rel=1e-13)
    with pytest.raises(ValueError, match="made for 19 knots, used at 18"):
        problem(system, [trajopt.ControlCost(1.0, np.zeros((N, 12)))])


def test_any_durations(rng):
    """Of a system that is otherwise the same at all knots."""
    plain = Pendulum()
    plain.durations = np.array([0.5, 0.0, 0.25, 0.5])
    xs, us = np.zeros((5, plain.nx)), rng.standard_normal((4, plain.nu))
    timed = trajopt.Problem(plain, np.zeros(plain.nx), 4, [trajopt.ControlCost(1.0)])
    assert timed.objective.value(xs, us) == pytest.approx(0.5 * plain.durations @ np.square(us).sum(axis=1), rel=1e-13)
    assert timed.times.tolist() == [0.0, 0.5, 0.5, 0.75, 1.25]


def test_times_and_policy(step_forwards):
    problem, _ = step_forwards
    times = problem.times
    assert times[IMPACT] == times[IMPACT + 1] and times[-1] == pytest.approx((N - 1) * DT)
    policy = trajopt.ILQR(max_iterations=1).solve(problem).policy()
    assert policy.horizon == pytest.approx((N - 1) * DT)
    at = [policy.knot((k + 0.5) * DT) for k in range(N - 1)]
    assert at == [t for t in range(N) if t != IMPACT]
    assert policy.knot(SWING * DT) == IMPACT + 1 and policy.knot(-1.0) == 0 and policy.knot(1e3) == N - 1


def test_idle_controls_without_cost_are_settled(system, rng):
    cost = trajopt.ControlCost(np.r_[2.0, np.zeros(11)])
    listed = problem(system, [[cost] for _ in range(N)])
    us = 0.1 * rng.standard_normal((N, 12))
    e = expand(listed, system.rollout(listed.x0, us), us)
    luu = e.luu
    assert np.array_equal(luu[IMPACT], np.diag(np.r_[2.0, np.ones(11)]))
    settle = prepared_idle_controls(e, np.flatnonzero(system.idle))
    luu[IMPACT, 3, 3] = luu[0, 3, 3] = 0.0
    assert replay(settle) and luu[IMPACT, 3, 3] == 1.0 and luu[0, 3, 3] == 0.0
    for t in (0, N - 1):
        assert np.array_equal(luu[t], np.diag(np.r_[2.0 * DT, np.zeros(11)]))


# ------------------------------------------------------------------------------------------------ starting points
def test_quasi_static_controls_to_start_from(system):
    x0 = system.state(standing())
    assert np.array_equal(problem(system, us_init="quasi_static").us_init, system.quasi_static(x0))
    stance = system.segments[-1].system
    alone = trajopt.Problem(stance, x0, 3, us_init="quasi_static")
    assert np.array_equal(alone.us_init, np.tile(stance.quasi_static(x0), (3, 1)))
    with pytest.raises(ValueError, match="us_init: got 'static', expected one of 'quasi_static'"):
        problem(system, us_init="static")
    plain = Pendulum()
    with pytest.raises(TypeError, match='us_init: got "quasi_static", but Pendulum has no such method'):
        trajopt.Problem(plain, np.zeros(plain.nx), 4, us_init="quasi_static")


def test_errors(system):
    x0 = system.state(standing())
    with pytest.raises(ValueError, match="horizon: got 18, expected 19, which the phases fill"):
        trajopt.Problem(system, x0, N - 1)
    foot = dynamics.PointContact(MODEL, FEET[0], (600.0, 50.0), [0.0, 0.0, 0.0])
    away = dynamics.HybridSystem(MODEL, DT, [("stance", [foot], 2)])
    with pytest.raises(ValueError, match=r"x0: frame 'lf_foot' is 0\.\d+ m away from the reference of its contact"):
        trajopt.Problem(away, x0, 2)


# ------------------------------------------------------------------------------------------------ single knots
def test_window_of_an_ordinary_system():
    plain = Pendulum()
    assert window(plain, 3, 4) is plain


OF_THE_ROBOT = (
    "euclidean", "difference_expansion", "integrate_jacobian", "difference_with_jacobian", "difference_residual",
    "check_state", "skeleton", "solids", "body_placements", "contact_points", "center_of_mass", "nq", "neutral_state",
    "state_names", "tangent_names", "tangent_units", "control_names", "control_units", "state_limits", "control_limits",
    "control_speeds",
    "integrator_order", "single_joints", "joint_efforts", "joint_feedback", "joint_inertias", "state_space",
    "start_advice", "contact_frames", "prepared_integrate", "prepared_difference",
)  # fmt: skip
"""Capabilities that have nothing to do with knots."""


@pytest.mark.parametrize(("a", "b"), [(0, 3), (SWING - 1, SWING), (SWING - 2, N - 2), (IMPACT, IMPACT + 1), (N - 1, N)])
def test_a_part_says_of_its_knots_what_the_whole_says(system, rng, a, b):
    """Every capability: those of the robot are the same, those of knots are rows."""
    part, x = system.window(a, b), system.state(standing())
    has = [{name for kind in CAPABILITIES for name in members(kind) if getattr(one, name, None) is not None}
           for one in (system, part)]  # fmt: skip
    of_knots = has[0] - set(OF_THE_ROBOT)
    assert has[0] == has[1]
    assert part.contact_frames == system.contact_frames and part.dt == system.dt
    xs, us, lam = np.tile(x, (N + 1, 1)), rng.standard_normal((N, 12)), rng.standard_normal((N, 36))
    xs[:, 19:] = 0.1 * rng.standard_normal((N + 1, 18))
    blocks = [
        [np.full((knots, *shape), np.nan) for shape in ((36, 36), (36, 12), (36, 36), (12, 36), (12, 12))]
        for knots in (N, b - a)
    ]
    system.write_expansion(xs, us, lam, *blocks[0])
    part.write_expansion(xs[a : b + 1], us[a:b], lam[a:b], *blocks[1])
    dt, first = semi_implicit_form(system)
    fine, heavier = part.refined(2), MODEL.with_body("load", "base", mass=2.0)
    counts, times = np.where(system.idle, 1, 2), np.full((N, 1), system.dt)
    alone = np.where((np.arange(N) >= a) & (np.arange(N) < b), 1.0, 0.0)[:, None] * lam
    rows = {
        "parameter_gradient": (
            part.parameter_gradient(xs[a:b], us[a:b], lam[a:b]), system.parameter_gradient(xs, us, alone)
        ),
        "refined": (fine.durations, 0.5 * np.repeat(system.durations[a:b], counts[a:b])),
        "with_model": (
            part.with_model(heavier).step(xs[a:b], us[a:b]),
            system.with_model(heavier).step(xs[:-1], us)[a:b],
        ),
        "durations": (part.durations, system.durations[a:b]),
        "idle": (part.idle, system.idle[a:b]),
        "phase_starts": (part.phase_starts, np.unique([0, *(t - a for t in system.phase_starts if a < t < b)])),
        "timed": (part.timed().step(xs[a:b], np.hstack([us, times])[a:b]), system.step(xs[:-1], us)[a:b]),
        "horizon": (part.horizon, b - a),
        "window": (part.window(0, 1).step(xs[a], us[a]), system.window(a, a + 1).step(xs[a], us[a])),
        "quasi_static": (part.quasi_static(x), system.quasi_static(x)[a:b]),
        "contact_forces": (part.contact_forces(xs[a:b], us[a:b]), system.contact_forces(xs, us)[a:b]),
        "semi_implicit": (semi_implicit_form(part)[0], dt[a:b]),
        "semi_implicit_from": (semi_implicit_form(part)[1], first),
    }
    assert part.serves[:2] == system.serves and len(part.serves) == 2 + (len(part.segments) == 1)
    prepared, following = [np.full(block.shape, np.nan) for block in blocks[1]], np.zeros((b - a, system.nx))
    part.prepared_expansion(xs[a : b + 1], us[a:b], *prepared[:2], lam[a:b], *prepared[2:])()
    part.prepared_steps(xs[a:b], us[a:b], following)()
    k, K, alphas = np.zeros((b - a, 12)), np.zeros((b - a, 12, 36)), np.ones(1)
    rolled = part.prepared_rollouts(x, xs[a : b + 1], us[a:b], k, K, alphas)()
    assert all(np.array_equal(found, block) for found, block in zip(prepared, blocks[1], strict=True))
    assert np.array_equal(following, part.step(xs[a:b], us[a:b]))
    assert np.array_equal(rolled[0][0], part.rollout(x, us[a:b]))
    also = {f"prepared_{name}" for name in ("expansion", "steps", "rollouts")} | {"check_start", "write_expansion"}
    assert set(rows) | also | {"serves"} == of_knots
    expansions = [(alone, whole[a:b]) for whole, alone in zip(*blocks, strict=True)]
    for got, wanted in [*rows.values(), *expansions]:
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


def test_a_part_checks_its_own_start():
    """A foot that the first phase holds in place; where the part begins it is in the air."""
    foot = dynamics.PointContact(MODEL, FEET[0], (600.0, 50.0), [0.0, 0.0, 0.0])
    phases = [("stance", [foot, *FEET[1:]], 2), ("swing", list(FEET[1:]), 2)]
    system = dynamics.HybridSystem(MODEL, DT, phases)
    x0 = system.state(standing())
    with pytest.raises(ValueError, match="away from the reference"):
        system.check_start(x0)
    system.window(2, 4).check_start(x0)
    rates = trajopt.ControlRateSystem(system)
    with pytest.raises(ValueError, match="away from the reference"):
        trajopt.Problem(rates, rates.state(x0), 4)
    assert trajopt.Problem(rates.window(2, 4), rates.state(x0), 2, us_init="quasi_static").us_init.any()


def test_plans_move_on(step_forwards):
    problem, _ = step_forwards
    solution = trajopt.ILQR(max_iterations=2).solve(problem)
    start = trajopt.ILQR().prepare(problem).shifted(solution, 2)
    last = problem.system.segments[-1].system
    assert np.array_equal(start.xs[:-2], solution.xs[2:])
    assert relative_error(start.xs[-2:], last.rollout(solution.xs[-1], start.us[-2:])[1:]) <= IDENTITY


def test_control_rates(step_forwards):
    """The previous control as a state, over impacts too."""
    inner, _ = step_forwards
    system = trajopt.ControlRateSystem(inner.system)
    running = [system.lift(cost) for cost in inner.running_costs[0]]
    running.append(trajopt.ControlRateCost(system, 1e-6))
    terminal = [system.lift(cost) for cost in inner.terminal_costs]
    x0 = system.state(inner.x0, inner.us_init[0])
    problem = trajopt.Problem(system, x0, N, running, terminal, us_init=inner.us_init)
    assert np.array_equal(problem.times, inner.times)
    parallel, tensor = trajopt.DDP().solve(problem), trajopt.DDP(hessian="tensor").solve(problem)
    assert parallel.converged and tensor.converged
    assert parallel.cost == pytest.approx(tensor.cost, rel=1e-9)
