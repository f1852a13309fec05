"""Targets that differ from knot to knot in problems: costs, constraints, updates, gradients, and predictive control."""

import pickle

import numpy as np
import pytest

import dynamics
import problems
from dynamics import FramePlacement, FrameRotation, FrameTranslation
from problems.arm import START
from tests.tolerances import relative_error
from tests.trajopt.cost_differences import assert_exact_hessians, assert_gradients
from tests.trajopt.test_prepared import assert_same
from trajopt import (
    DDP,
    ILQR,
    ControlCost,
    ControlRateSystem,
    FreeDurationSystem,
    ParametricProblem,
    Problem,
    PseudoHuber,
    ResidualConstraint,
    ResidualCost,
    SquaredNorm,
    StateCost,
    total_cost,
    with_free_durations,
)
from trajopt.results.dense_output import dense_output
from trajopt.rows import pack

N, DT = 12, 0.05
MODEL = dynamics.load_urdf(problems.model_path("arm6"))
SYSTEM = dynamics.RigidBodySystem(MODEL, DT, integrator="semi_implicit_euler")
PLACE = dynamics.frame_placement(MODEL, START, "tool").p
TIMES = DT * np.arange(N + 1)


def circle(t):
    """Once around in 3 s."""
    angle = 2.0 * np.pi * t / 3.0
    return PLACE + 0.1 * np.array([0.0, np.sin(angle), 1.0 - np.cos(angle)])


PATH = np.array([circle(t) for t in TIMES])


@pytest.fixture
def trajectory(rng):
    xs = SYSTEM.state(START) + np.hstack([0.2 * rng.standard_normal((N + 1, 6)), rng.standard_normal((N + 1, 6))])
    return xs, rng.standard_normal((N, 6))


def tool(target=circle):
    return FrameTranslation(MODEL, "tool", target)


def missed(xs, path=PATH):
    return tool(np.zeros(3)).evaluate(xs) - path


def make(running=(), terminal=(), constraints=(), system=SYSTEM, x0=None, horizon=N):
    x0 = SYSTEM.state(START) if x0 is None else x0
    return Problem(system, x0, horizon, [ControlCost(1e-3), *running], terminal, constraints)


EVERY = np.arange(N + 1)
PLACES = {
    "path": (None, EVERY[:-1], DT),
    "all": ("all", EVERY, np.r_[np.full(N, DT), 1.0]),
    "slice": (slice(3, 9), EVERY[3:9], DT),
    "times": ([0.1, 0.3], EVERY[[2, 6]], 1.0),
    "knots": ([1, 4, -1], EVERY[[1, 4, N]], 1.0),
    "last": ("terminal", EVERY[-1:], 1.0),
}


@pytest.mark.parametrize("target", [circle, PATH], ids=["function", "rows"])
@pytest.mark.parametrize("where", PLACES)
def test_costs(where, target, trajectory):
    """Of squares, which the residual sums, of another loss and of another residual, at any knots."""
    (at, knots, scale), (xs, us) = PLACES[where], trajectory
    without = total_cost(make(), xs, us)
    squared = (missed(xs)[knots] ** 2).sum(axis=1)
    for cost, expected in (
        (ResidualCost(tool(target), 2.0, at=at), squared),
        (ResidualCost(tool(target), 2.0, PseudoHuber(1e3), at=at), squared),
        (ResidualCost(SquaredNorm(tool(target)), 2.0, at=at), squared**2),
    ):
        problem = make([cost])
        assert total_cost(problem, xs, us) - without == pytest.approx((scale * expected).sum(), rel=1e-5)
        assert_gradients(problem, xs, us)


def test_exact_hessians(trajectory):
    pose = FramePlacement(MODEL, "tool", (np.eye(3), PATH))
    turn = FrameRotation(MODEL, "tool", lambda t: dynamics.frame_placement(MODEL, START + t, "tool").R)
    costs = [ResidualCost(tool(), 2.0), ResidualCost(pose, 0.3, PseudoHuber(1.0), at=slice(2, 7))]
    costs += [ResidualCost(turn, 0.5), ResidualCost(SquaredNorm(tool()), 3.0, at=[2, -1])]
    assert_exact_hessians(make(costs, [ResidualCost(tool(), 4.0)]), *trajectory)


def test_lists_of_costs(trajectory):
    cost = ResidualCost(tool(), 2.0)
    problem = Problem(SYSTEM, SYSTEM.state(START), N, [[cost] if t in (3, 4, 8) else [] for t in range(N)])
    expected = DT * (missed(trajectory[0])[[3, 4, 8]] ** 2).sum()
    assert total_cost(problem, *trajectory) == pytest.approx(expected, rel=1e-12)


def test_a_residual_in_several_places_stays_one_sum():
    shared = tool()
    problem = make([ResidualCost(shared, 2.0)], [ResidualCost(shared, 9.0)])
    _, sums = problem.objective._for(np.zeros((N, 6)))
    assert len(sums) == 2  # of positions, and of controls


@pytest.mark.parametrize("at", ["path", "all", "terminal", [2, 5, -1], slice(0.1, 0.3)])
def test_constraints(at, trajectory):
    xs, us = trajectory
    constraint = ResidualConstraint(tool(), -0.1, 0.1, at=at)
    problem = make(constraints=[constraint])
    rows = pack(problem, problem.residual_constraints)
    (knots,) = rows.knots
    np.testing.assert_allclose(rows.values(xs, us), missed(xs)[knots].ravel(), rtol=0, atol=1e-14)
    _, Cx, _ = rows.linearized(xs, us)
    h, dx = 1e-6, np.random.default_rng(0).standard_normal(xs.shape)
    slope = (rows.values(xs + h * dx, us) - rows.values(xs - h * dx, us)) / (2.0 * h)
    assert relative_error(np.einsum("rj,rj->r", Cx, np.repeat(dx[knots], 3, axis=0)), slope) < 1e-7


def test_a_solve_with_constraints():
    """The tool is on the path wherever it is held there."""
    held = ResidualConstraint(tool(), at=[4, 8, -1])
    solution = DDP().solve(make([StateCost(SYSTEM, SYSTEM.state(START), 0.1)], constraints=[held]))
    assert solution.converged
    np.testing.assert_allclose(missed(solution.xs)[[4, 8, N]], 0.0, atol=1e-6)
    assert "translation of tool" in str(solution.explain())


def test_between_knots():
    """Targets are between those of the knots, too."""
    solution = DDP().solve(make([ResidualCost(tool(), 1e3)], constraints=[ResidualConstraint(tool(), -0.01, 0.01)]))
    motion = dense_output(SYSTEM, solution.xs, solution.us).all_states()
    k, expected = motion.shape[1] - 1, 0.0
    for j in range(1, k):
        off = np.abs(missed(motion[1:-1, j], PATH[1:-2] + j / k * np.diff(PATH, axis=0)[1:-1]))
        expected = max(expected, off.max() - 0.01)
    assert expected > 1e-4
    assert solution.violation_between_knots().violation == pytest.approx(expected, rel=1e-9)


def test_with_the_control_before(trajectory):
    xs, us = trajectory
    system = ControlRateSystem(SYSTEM)
    lifted = [system.lift(ResidualCost(tool(), 2.0)), ResidualCost(system.lift(tool()), 3.0, at=slice(2, 5))]
    held = ResidualConstraint(system.lift(tool()), -0.1, 0.1, at=[3, 7])
    problem = Problem(system, system.state(SYSTEM.state(START)), N, lifted, (), [held])
    zs = np.hstack([xs, np.zeros((N + 1, 6))])
    squared = (missed(xs) ** 2).sum(axis=1)
    expected = DT * (squared[:-1].sum() + 1.5 * squared[2:5].sum())
    assert total_cost(problem, zs, us) == pytest.approx(expected, rel=1e-12)
    rows = pack(problem, problem.residual_constraints).values(zs, us)
    np.testing.assert_allclose(rows, missed(xs)[[3, 7]].ravel(), rtol=0, atol=1e-14)


def test_with_free_durations(trajectory):
    """A target belongs to its knot, however long the knots before it take."""
    xs, us = trajectory
    held = ResidualConstraint(tool(), -0.1, 0.1, at=[3, -1], name="held")
    plain = make([ResidualCost(tool(), 2.0)], [ResidualCost(tool(), 5.0, PseudoHuber(1.0))], [held])
    free = with_free_durations(plain, phases=[6, 6])
    system = free.system
    assert isinstance(system, FreeDurationSystem)
    before = np.cumsum(np.append(0, ~system.setting))
    zs = np.hstack([xs[before], np.ones((system.horizon + 1, 1))])
    ws = np.zeros((system.horizon, 7))
    ws[~system.setting, :-1] = us
    assert total_cost(free, zs, ws) == pytest.approx(total_cost(plain, xs, us), rel=1e-12)
    rows = pack(free, free.residual_constraints)
    of_held = [one for one in rows.blocks if one.constraint.name == "held"]
    found = np.concatenate([rows.values(zs, ws)[one.rows] for one in of_held])
    np.testing.assert_allclose(found, missed(xs)[[3, N]], rtol=0, atol=1e-14)
    prepared = DDP().prepare(free)
    for moved in (LATER, later):
        prepared.update(target=moved)
        of_later = make([ResidualCost(tool(LATER), 2.0)], [ResidualCost(tool(LATER), 5.0, PseudoHuber(1.0))])
        assert total_cost(prepared.problem, zs, ws) == pytest.approx(total_cost(of_later, xs, us), rel=1e-12)


def test_with_a_free_initial_state():
    """The tool is on the path at the knots where it is held there, the first one too."""
    held = ResidualConstraint(tool(), at=[0, 5, -1])
    costs = [ResidualCost(tool(), 10.0), StateCost(SYSTEM, SYSTEM.state(START), 0.1), ControlCost(1e-3)]
    x0 = SYSTEM.state(START + 0.1)
    problem = Problem(SYSTEM, x0, N, costs, costs[:2], [held], us_init="quasi_static", free_initial_state=True)
    solution = DDP().solve(problem)
    assert solution.converged
    np.testing.assert_allclose(missed(solution.xs)[[0, 5, N]], 0.0, atol=1e-6)
    assert solution.cost == pytest.approx(total_cost(problem, solution.xs, solution.us), rel=1e-10)


# ------------------------------------------------------------------------------------------------ updates
def whole(target, pose):
    """The same target in costs and a constraint, a residual in two places, and one of poses."""
    shared = tool(target)
    costs = [ResidualCost(shared, 20.0), StateCost(SYSTEM, np.tile(SYSTEM.state(START), (N, 1)), 0.1)]
    reached = ResidualConstraint(tool(target), -0.2, 0.2, at="terminal", name="reached")
    costs.append(ResidualCost(FramePlacement(MODEL, "tool", pose), 1.0))
    return make(costs, [ResidualCost(shared, 50.0)], [reached])


def later(t):
    return circle(t + 0.4)


LATER, STILL = np.array([later(t) for t in TIMES]), np.tile(np.eye(3), (N + 1, 1, 1))


@pytest.mark.parametrize("new", [later, LATER], ids=["function", "rows"])
def test_updates(new):
    """A problem whose targets moved is solved to the bits of one that was made with them."""
    solver = DDP(max_iterations=3)
    prepared = solver.prepare(whole(circle, lambda t: (np.eye(3), circle(t))))
    before = prepared.solve()
    names = [f"{kind}translation of tool" for kind in ("", "terminal ")] + ["reached"]
    prepared.update(dict.fromkeys(names, new))
    pose = (lambda t: (np.eye(3), later(t))) if callable(new) else (np.eye(3), LATER)
    prepared.update({"placement of tool": pose})
    expected = whole(LATER, (STILL, LATER))
    assert_same(prepared.solve(), solver.solve(expected))
    assert_same(solver.solve(before.problem), before)
    plan = before.shifted()
    assert_same(prepared.solve(warm_start=plan), solver.solve(expected, warm_start=plan))
    assert len(prepared.problem.objective._for(np.zeros((N, 6)))[1]) == len(
        expected.objective._for(np.zeros((N, 6)))[1]
    )


def test_references_are_moved_by_functions_too():
    x = SYSTEM.state(START)
    rows = np.array([x + 0.1 * t for t in TIMES[3:9]])

    def problem(reference):
        return make([StateCost(SYSTEM, reference, 1.0, at=slice(3, 9))])

    prepared = DDP().prepare(problem(np.tile(x, (6, 1))))
    prepared.update({"StateCost": lambda t: x + 0.1 * t})
    assert_same(prepared.solve(), DDP().solve(problem(rows)))


def test_pickled():
    problem = whole(circle, (np.eye(3), PATH))
    solver = DDP(max_iterations=2)
    assert_same(solver.solve(pickle.loads(pickle.dumps(problem))), solver.solve(problem))


@pytest.mark.parametrize(
    ("target", "new", "match"),
    [
        (PATH, PATH[:-1], r"target of 'translation of tool': got shape \(12, 3\), expected \(13, 3\)"),
        (PATH, PATH[0], r"got shape \(3,\), expected \(13, 3\)"),
        (PLACE, PATH, r"got shape \(13, 3\), expected \(3,\)"),
        (PLACE, circle, r"got shape \(13, 3\), expected \(3,\)"),
        (PATH, lambda t: [t], r"target\(0 s\): got shape \(1,\), expected \(3,\)"),
        (PATH, np.full((13, 3), np.nan), "got NaN or Inf"),
    ],
)
def test_bad_updates(target, new, match):
    prepared = DDP().prepare(make([ResidualCost(tool(target), 1.0)]))
    with pytest.raises(ValueError, match=match):
        prepared.update(target=new)


def test_updates_of_poses_and_references_say_what_is_wrong():
    prepared = DDP().prepare(make([ResidualCost(FramePlacement(MODEL, "tool", (np.eye(3), PATH)), 1.0)]))
    with pytest.raises(ValueError, match=r"got shapes \(3, 3\) and \(3,\), expected \(13, 3, 3\) and \(13, 3\)"):
        prepared.update(target=(np.eye(3), PLACE))
    prepared = DDP().prepare(make([StateCost(SYSTEM, SYSTEM.state(START), 1.0)]))
    with pytest.raises(ValueError, match="reference of 'StateCost': got a function of time, expected a value of shape"):
        prepared.update({"StateCost": lambda t: SYSTEM.state(START)})


@pytest.mark.parametrize("make_term", [
    lambda residual: {"running": [ResidualCost(residual, 1.0)]},
    lambda residual: {"terminal": [ResidualCost(SquaredNorm(residual), 1.0)]},
    lambda residual: {"constraints": [ResidualConstraint(residual, -1.0, 1.0)]},
])  # fmt: skip
def test_targets_of_another_horizon(make_term):
    with pytest.raises(ValueError, match="target: 'translation of tool' has 13 of them, expected 11, one per knot"):
        make(**make_term(tool(PATH)), horizon=10)


# ------------------------------------------------------------------------------------------------ gradients
def test_gradients_by_the_targets():
    """Of a path that stands still they add up to that by its target; and each number's is that of differences."""
    solver = DDP(tolerance=1e-14)

    def problem(target):
        held = ResidualConstraint(tool(target), -1.0, 0.0, at=[6, -1], name="held")
        costs = [ResidualCost(tool(target), 30.0), ResidualCost(tool(target), 3.0, PseudoHuber(0.1))]
        return make([*costs, StateCost(SYSTEM, SYSTEM.state(START), 0.1)], constraints=[held])

    there = PLACE + [0.02, -0.03, 0.04]
    us_bar = np.random.default_rng(1).standard_normal((N, 6))
    found = []
    for target in (there, np.tile(there, (N + 1, 1))):
        solution = solver.solve(problem(target))
        found.append(solution.vjp(us_bar=us_bar))
    for name in ("translation of tool 1", "translation of tool 2", "held"):
        one, rows = (each[name]["target"] for each in found)
        assert rows.shape == (N + 1, 3) and relative_error(rows.sum(axis=0), one) < 1e-6
    parametric = ParametricProblem(problem(PATH), "translation of tool 1")
    d = np.random.default_rng(2).standard_normal((N + 1, 3))
    slope = solver.solve(parametric(PATH)).vjp(us_bar=us_bar)["translation of tool 1"]["target"]
    h = 1e-5
    ends = [float((us_bar * solver.solve(parametric(PATH + s * h * d)).us).sum()) for s in (1.0, -1.0)]
    assert (slope * d).sum() == pytest.approx((ends[0] - ends[1]) / (2.0 * h), rel=1e-5)


def test_feedback_of_targets_and_of_the_clock():
    """What is prepared knows how the first control depends on the targets of all knots, and on when the path begins."""
    problem = make([ResidualCost(tool(), 30.0), StateCost(SYSTEM, SYSTEM.state(START), 0.1)])
    exact, plan = DDP(tolerance=1e-14), DDP(tolerance=1e-14).solve(problem)
    h, d = 1e-4, np.random.default_rng(3).standard_normal(PATH.shape)
    name = "translation of tool"
    by_path = exact.prepare(problem, "target").prepare_step(problem.x0, PATH, plan)
    clock = exact.prepare(problem, lambda t: {name: lambda s: circle(t + s)})
    by_time = clock.prepare_step(problem.x0, 0.0, plan)
    parametric = ParametricProblem(problem, name)
    moves = (lambda e: PATH + e * d), (lambda e: np.array([circle(t + e) for t in TIMES]))
    for feedback, move in zip((by_path, by_time), moves, strict=True):
        given = move if feedback is by_path else (lambda e: e)
        slope = (feedback(problem.x0, given(h)) - feedback(problem.x0, given(-h))) / (2.0 * h)
        ends = [exact.solve(parametric(move(e)), warm_start=plan).us[0] for e in (h, -h)]
        assert relative_error(slope, (ends[0] - ends[1]) / (2.0 * h)) < 1e-5


# ------------------------------------------------------------------------------------------------ predictive control
def lateness(preview):
    """The largest distance, m, of the tool from where it is to be, after a turn around the circle, one iteration a
    knot."""
    x0, holding = SYSTEM.state(START), dynamics.gravity_forces(MODEL, START)
    system = dynamics.RigidBodySystem(MODEL, 0.02)
    residual = tool()
    costs = [ResidualCost(residual, 1e4), StateCost(system, x0, np.repeat([0.1, 1.0], 6)), ControlCost(1e-3, holding)]
    problem = Problem(system, x0, 30, costs, [ResidualCost(residual, 1e3)], us_init="quasi_static")
    controller, plan, x, late = ILQR(max_iterations=1).prepare(problem), DDP().solve(problem), x0, []
    for k in range(120):
        t = 0.02 * k
        controller.update(target=(lambda s, t=t: circle(t + s)) if preview else np.tile(circle(t), (31, 1)))
        plan = controller.solve(x, warm_start=controller.shifted(plan))
        x = system.step(x, plan.us[0])
        late.append(np.linalg.norm(tool(circle(t + 0.02)).evaluate(x[None])))
    return max(late[60:])


def test_a_circle_is_tracked_with_preview():
    """Its 0.1 m once around in 3 s: seen coming, the tool is less than 0.5 mm off, and without it lags by more than
    10 mm."""
    assert lateness(True) < 5e-4 and lateness(False) > 1e-2
