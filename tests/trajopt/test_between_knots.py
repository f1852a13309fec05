"""Constraints that hold at knots and are broken between them: measured, said where it matters, and nowhere else."""

import numpy as np
import pytest

import problems
import trajopt
from tests.trajopt.systems import LinearSystem
from trajopt import (
    DDP,
    CallableSystem,
    ControlCost,
    ControlRateBounds,
    ControlRateSystem,
    JerkBounds,
    JerkSystem,
    Problem,
    ResidualConstraint,
    Solution,
    StateBounds,
    StateCost,
)

H = 0.1


# ------------------------------------------------------------------------------------------------ a car and discs
def bicycle(x, u):
    return x[3] * np.cos(x[2]), x[3] * np.sin(x[2]), x[3] * np.tan(x[4]), u[0], u[1]


ROW = np.linspace(2.0, 3.0, 10)
"""Places of discs with a radius of 0.1 m across the way at x = 5 m: a wall without gaps."""


def past_the_wall(dt=H, margin=0.0):
    """At 1 m/s the car goes as far in a step as the discs' radius."""
    system = CallableSystem(xdot=bicycle, nx=5, nu=2, dt=dt)
    clear = trajopt.residual(lambda x: [(x[0] - 5.0) ** 2 + (x[1] - y) ** 2 - 0.01 for y in ROW], 10, system)
    goal = StateCost(system, [10.0, 2.5, 0.0, 0.0, 0.0], [1e3, 1e3, 1e2, 1e2, 1e1])
    limits = [
        trajopt.ControlBounds([-3.0, -2.0], [3.0, 2.0]),
        ResidualConstraint(clear, lower=margin, at="all", name="wall"),
    ]
    return Problem(system, [0.0, 2.5, 0.0, 1.0, 0.0], round(10.0 / dt), [ControlCost(1.0)], [goal], limits)


@pytest.fixture(scope="module")
def jump():
    solution = DDP().solve(past_the_wall())
    assert solution.converged and solution.violation < 1e-9
    return solution


def integrated(x, u, duration, steps=200):
    """The bicycle's motion by many steps of Heun's method: an integrator that the library does not have."""
    motion, h = [np.array(x)], duration / steps
    for _ in range(steps):
        a = np.array(bicycle(motion[-1], u))
        b = np.array(bicycle(motion[-1] + h * a, u))
        motion.append(motion[-1] + 0.5 * h * (a + b))
    return np.array(motion)


def test_discs_that_are_jumped_over(jump):
    """Four centimetres deep through discs of ten, where every knot is outside."""
    found = jump.violation_between_knots()
    (wall,) = found.constraints
    motion = [integrated(x, u, H) for x, u in zip(jump.xs[:-1], jump.us, strict=True)]
    distances = np.array([[np.hypot(x[:, 0] - 5.0, x[:, 1] - y).min() for y in ROW] for x in motion])
    depth, true = 0.1 - distances.min(), 0.01 - distances.min() ** 2
    assert depth > 0.04 and wall.violation == pytest.approx(true, rel=0.02) == found.violation
    assert (wall.knot, wall.component) == np.unravel_index(distances.argmin(), distances.shape)
    assert wall.at_knots == jump.violation and wall.knot * H < wall.time < (wall.knot + 1) * H
    assert wall.notable and found.notable == (wall,)


def test_what_is_said_of_it(jump, tmp_path):
    told = " ".join(jump.explain().split())
    (wall,) = jump.violation_between_knots().constraints
    said = f"'wall' by {wall.violation:.2g} (component {wall.component} at {wall.time:.4g} s, between knots {wall.knot}"
    at_knots = f"at knots by {wall.at_knots:.1g}"
    assert f"Between knots constraints are broken: {said} and {wall.knot + 1}; {at_knots})." in told
    assert said in repr(jump.violation_between_knots()) == str(jump.violation_between_knots())
    comparison = str(trajopt.compare(jump.problem, {"ddp": DDP()}))
    broken = f"ddp: 'wall' broken by {wall.violation:.2g} between knots {wall.knot} and {wall.knot + 1}, see explain()"
    assert broken in " ".join(comparison.split())
    assert "Between knots" not in Solution.load(jump.save(tmp_path / "plan.npz")).explain()


def past_a_pillar(dt, margin=0.0):
    """A disc with a radius of 0.3 m nearly on the straight way, past which no step jumps."""
    system = CallableSystem(xdot=bicycle, nx=5, nu=2, dt=dt)
    clear = trajopt.residual(lambda x: [(x[0] - 2.0) ** 2 + (x[1] + 0.05) ** 2 - 0.09], 1, system)
    goal = StateCost(system, [4.0, 0.0, 0.0, 1.0, 0.0], 1e3)
    pillar = ResidualConstraint(clear, lower=margin, at="all", name="pillar")
    return Problem(system, [0.0, 0.0, 0.0, 1.0, 0.0], round(4.0 / dt), [ControlCost(1.0)], [goal], [pillar])


def test_what_is_advised_helps():
    """Steps half as long let through a quarter, and a margin nearly nothing of what would be without."""
    plan, finer = (DDP().solve(past_a_pillar(dt)) for dt in (0.2, 0.1))
    (before,), (after,) = (each.violation_between_knots().constraints for each in (plan, finer))
    assert before.notable and after.violation < 0.4 * before.violation
    assert "shorter steps, or a margin on the limits, let less through" in " ".join(plan.explain().split())
    wider = DDP().solve(past_a_pillar(0.2, margin=before.violation))
    assert wider.converged and only(wider).violation < 1.2 * before.violation  # beyond the margin


@pytest.mark.parametrize("name", ["unicycle_obstacles", "arm_obstacle"])
def test_ordinary_plans_are_not_spoken_of(name):
    """Steps that follow a limit break it by little: it is measured, and nobody is alarmed."""
    solution = DDP().solve(problems.make(name))
    found = solution.violation_between_knots()
    assert found.violation > 10.0 * solution.violation and not found.notable
    assert "Between knots" not in solution.explain()


# ------------------------------------------------------------------------------------------------ closed forms
def block(us, x0, constraints, **options):
    """A mass on rails, which RK4 integrates exactly, under these controls."""
    system = CallableSystem(xdot=lambda x, u: (x[1], u[0]), nx=2, nu=1, dt=H, state_names=["place [m]", "speed [m/s]"])
    made = [each(system) if callable(each) else each for each in constraints]
    problem = Problem(system, x0, len(us), [ControlCost(1.0)], [], made, us_init=np.reshape(us, (-1, 1)))
    return DDP(max_iterations=0).solve(problem)


def place(lower=-np.inf, upper=np.inf, at="all", name="rail"):
    """Limits of the place, numbers or rows."""
    return lambda system: ResidualConstraint(trajopt.StateResidual(system, np.zeros(2), [0]), lower, upper, at, name)


A = 3.0
THROWN = [0.0, -A, -A, 0.0], [-0.5 * A * H**2, 0.5 * A * H]
"""Controls and the initial state of a block that is at 0 at knot 1, goes up at half of what -A takes away in a step,
and is at 0 again at knot 2."""


def only(solution):
    (found,) = solution.violation_between_knots().constraints
    return found


def test_a_parabola_between_knots():
    """A H^2/8 in the middle between knots at which the violation is zero."""
    found = only(block(*THROWN, [place(upper=0.0)]))
    assert found.violation == pytest.approx(A * H**2 / 8.0, rel=1e-12) and found.at_knots < 1e-15
    assert (found.knot, found.component, found.name) == (1, 0, "rail") and found.time == pytest.approx(1.5 * H)
    assert found.component_name == "place [m]"
    lowest = only(block([-u for u in THROWN[0]], [-x for x in THROWN[1]], [place(lower=0.0)]))
    assert lowest.violation == pytest.approx(found.violation, rel=1e-12)


@pytest.mark.parametrize(("at", "counts"), [("all", True), ("path", True), (range(1, 3), True), ([1, 2], True),
                                             ([1, 3], False), (range(2, 5), False), ("terminal", False)])  # fmt: skip
def test_steps_count_at_both_ends_of_which_a_constraint_holds(at, counts):
    found = block(*THROWN, [place(upper=0.0, at=list(at) if isinstance(at, range) else at)]).violation_between_knots()
    assert any(each.violation > 0.0 for each in found.constraints) == counts
    assert bool(found.constraints) == (at not in ([1, 3], "terminal"))


def test_limits_go_linearly_from_knot_to_knot():
    """From 0 at knot 1 to c at knot 2, to which the parabola A H^2 s (1 - s)/2 is nearest at s = 1/2 - c/(A H^2)."""
    c = 0.25 * A * H**2 / 2.0
    rows = np.array([[0.0], [c], [np.inf], [np.inf]])
    found = only(block(*THROWN, [place(upper=rows)]))
    s = np.arange(1, 8) / 8.0
    assert found.violation == pytest.approx((0.5 * A * H**2 * s * (1.0 - s) - c * s).max(), rel=1e-12)
    assert (found.knot, found.time) == (1, pytest.approx(1.375 * H))
    free = only(block(*THROWN, [place(upper=np.full((4, 1), np.inf), lower=-1e3)]))
    assert free.violation == 0.0 and free.knot == -1 and np.isnan(free.time)


def test_a_given_state_that_breaks_a_limit_is_not_held_against_the_plan():
    """It does at knot 0, where no constraint holds; one that it keeps is broken on the first step."""
    found = only(block([0.0, 0.0, 0.0], [1.0, -10.0], [place(upper=0.5)]))
    assert found.violation == 0.0
    found = only(block([-A, 0.0, 0.0], [0.0, 0.5 * A * H], [place(upper=0.0)]))
    assert (found.violation, found.knot) == (pytest.approx(A * H**2 / 8.0), 0)


def test_rows_of_controls_are_those_of_the_control_held():
    """Power u v, with the speed of the middle and the control of the knot."""

    def power(system):
        return ResidualConstraint(trajopt.residual(lambda x, u: (x[1] * u[0],), 1, system), upper=1e-3, name="power")

    us, v = np.array([2.0, -2.0, 1.0, 3.0]), 0.1
    found = only(block(us, [0.0, v], [power]))
    speeds = v + np.concatenate([[0.0], np.cumsum(H * us)])[:4, None] + H * us[:, None] * np.arange(1, 8) / 8.0
    expected = speeds * us[:, None] - 1e-3
    assert found.violation == pytest.approx(expected.max(), rel=1e-12)
    assert found.knot == np.unravel_index(expected.argmax(), expected.shape)[0]


@pytest.mark.filterwarnings("ignore::trajopt.SlowDynamicsWarning")
def test_what_means_nothing_between_knots_is_left_out():
    """Rates, accelerations and jerks are of whole steps."""
    inner = CallableSystem(xdot=lambda x, u: (x[1], u[0]), nx=2, nu=1, dt=H, integrator="semi_implicit_euler")
    rates, jerks = ControlRateSystem(inner), JerkSystem(inner)
    for system, bound in (
        (rates, ControlRateBounds(rates, -1.0, 1.0)), (jerks, JerkBounds(jerks, -1.0, 1.0)),
        (inner, trajopt.AccelerationBounds(inner, -0.1, 0.1)),
        (jerks, ResidualConstraint(jerks.lift(trajopt.AccelerationResidual(inner)), -0.1, 0.1)),
    ):  # fmt: skip
        where = StateBounds(system, np.r_[-1e-3, np.full(system.ndx - 1, -np.inf)], name="rail")
        x0 = np.zeros(system.nx)
        problem = Problem(system, x0, 4, [ControlCost(1.0)], [], [bound, where], us_init=-np.ones((4, 1)))
        found = DDP(max_iterations=0).solve(problem).violation_between_knots()
        assert [each.name for each in found.constraints] == ["rail"] and found.left_out == (bound.name,)
        assert f"left out: '{bound.name}'" in repr(found)


def test_gaits_are_measured_phase_by_phase():
    """Forces at interior states of each phase, with the control held; impacts take no time and count for nothing."""
    solution = trajopt.ILQR(max_iterations=1).solve(problems.make("quadruped_walk"))
    system, found = solution.problem.system, solution.violation_between_knots()
    assert len(found.constraints) == len(solution.problem.residual_constraints) and np.isfinite(found.violation)
    worst = max(found.constraints, key=lambda each: each.violation)
    assert worst.violation > 0.0 and not system.idle[worst.knot]
    t, s = worst.knot, round(8.0 * (worst.time - solution.times[worst.knot]) / system.dt)
    cone = next(c for c, each in zip(solution.problem.residual_constraints, found.constraints, strict=True)
                if each is worst)  # fmt: skip
    flow = next(phase.system for phase in system.segments if phase.start <= t < phase.stop)
    fine = flow.refined(8)
    ends = fine.rollout(solution.xs[t], np.tile(solution.us[t], (8, 1)))
    left, part = flow.difference(ends[8], solution.xs[t + 1]), s / 8.0
    x = flow.integrate(ends[s], part * part * (3.0 - 2.0 * part) * left)
    r = cone.residual.evaluate(x[None], solution.us[t : t + 1])[0]
    outside = np.maximum(np.broadcast_to(cone.lower, r.shape) - r, r - np.broadcast_to(cone.upper, r.shape)).max()
    assert worst.violation == pytest.approx(outside, rel=1e-6)


# ------------------------------------------------------------------------------------------------ who has none
def test_nothing_is_said_where_nothing_can_be(tmp_path):
    system = LinearSystem(np.eye(2), np.eye(2))
    bound = StateBounds(system, -1.0, 1.0)
    discrete = DDP().solve(
        Problem(system, [0.5, 0.0], 5, [ControlCost(1.0)], [StateCost(system, [2.0, 0], 1.0)], [bound])
    )
    with pytest.raises(TypeError, match="system: LinearSystem has no finer steps"):
        discrete.violation_between_knots()
    assert "Between knots" not in discrete.explain()
    with pytest.raises(ValueError, match="solution: got one without its problem"):
        Solution.load(discrete.save(tmp_path / "plan.npz")).violation_between_knots()
    free = block(*THROWN, [])
    found = free.violation_between_knots()
    assert found.constraints == found.left_out == found.notable == () and found.violation == 0.0
    assert repr(found) == "ViolationBetweenKnots(0: no constraint holds between knots)"


def test_a_residual_that_is_not_finite_between_knots_is_broken_without_end():
    """A root of what is negative there."""

    def root(system):
        inside = trajopt.residual(lambda x: (np.sqrt(1e-6 - x[0]),), 1, system, x_example=[-1.0, 0.0])
        return ResidualConstraint(inside, lower=0.0, name="root")

    solution = block(*THROWN, [root])
    found = only(solution)
    assert found.violation == np.inf and found.knot == 1 and found.notable
    assert "'root' by inf (component 0 at 0.1" in " ".join(solution.explain().split())
