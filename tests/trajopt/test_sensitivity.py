"""Derivatives of solutions: against problems solved again, forward against reverse, limits that press or nearly do."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import trajopt
from experiments.sensitivity.cases import CASES, swinging_double_pendulum, unicycle_past_discs
from experiments.sensitivity.references import Reference, derivatives, polished_solution, reference
from tests.tolerances import IDENTITY, relative_error
from tests.trajopt.systems import CirclePendulum, Pendulum
from trajopt.optimality import first_order
from trajopt.optimality.first_order import FOURTH_ORDER
from trajopt.optimality.kkt_system import RAISE, Factor, factorized
from trajopt.results.stationary import stationary_point

RESOLVED = 1e-7
"""Tolerance of derivatives against differences of solutions."""
OF_LIMITS = 1e-6
"""Of multipliers of controls' limits: the gradient there, a difference of far larger numbers."""
REVERSE = 1e-10


@pytest.fixture(scope="module", params=list(CASES))
def solved(request):
    """A case, its problem, its polished solution, derivatives."""
    case = CASES[request.param]
    problem = case.make(case.p)
    solution = polished_solution(problem, trajopt.DDP().solve(problem))
    return case, problem, solution, trajopt.sensitivity(case.make, case.p, solution)


def test_problems_solved_again(solved):
    case, _, solution, found = solved
    for number in range(len(found.labels)):
        again, here = reference(case, solution, found.parameters, number), derivatives(found, number)
        for name in Reference._fields:
            error = relative_error(getattr(here, name), getattr(again, name))
            assert error < (OF_LIMITS if name == "bounds" else RESOLVED), (found.labels[number], name)
    assert found.residual < IDENTITY and found.multipliers_unique and not found.weak


def test_forward_equals_reverse(solved, rng):
    _, _, _, found = solved
    xs_bar, us_bar = rng.standard_normal(found.xs.shape[:2]), rng.standard_normal(found.us.shape[:2])
    forward = np.einsum("ti,tip->p", xs_bar, found.xs) + np.einsum("ti,tip->p", us_bar, found.us) + 2.0 * found.cost
    reverse = found.parameters.flat(found.vjp(xs_bar, us_bar, 2.0))
    assert relative_error(reverse, forward) < REVERSE


def test_initial_state(solved):
    """`dx0` is what a parameter that moves the initial state gives."""
    _, _, solution, found = solved
    number = found.labels.index("x0")
    dx, du = solution.dx0()
    moved = dx[0] @ found.xs[0, :, number]
    assert relative_error(moved, found.xs[0, :, number]) < IDENTITY
    scale = np.abs(found.us[..., number]).max()
    assert np.abs(du @ found.xs[0, :, number] - found.us[..., number]).max() < 1e-8 * scale


# -------------------------------------------------------------------------------------------- manifolds, constraints
def test_losses_of_the_numbers_of_states(rng):
    """Of a quadrotor's quaternions and places: against the loss at solutions of neighbouring problems."""
    case = CASES["quadrotor"]
    problem = case.make(case.p)
    solution = polished_solution(problem, trajopt.DDP().solve(problem))
    weights = rng.standard_normal(solution.xs.shape)
    found = trajopt.sensitivity(case.make, case.p, solution, wrt=["x0", "target"])
    gradient = found.vjp(weights * np.cos(solution.xs), ambient=True)
    for number, name in enumerate(found.labels):
        h, total = case.factor * found.steps[number], 0.0
        for multiple, weight in FOURTH_ORDER:
            other = case.make({**case.p, name: case.p[name] + multiple * h})
            again = polished_solution(other, trajopt.DDP().solve(other, warm_start=solution))
            total += weight / h * float((weights * np.sin(again.xs)).sum())
        assert gradient[name] == pytest.approx(total, rel=RESOLVED)
    with pytest.raises(ValueError, match=r"xs_bar: got shape \(76, 12\), expected \(76, 13\)"):
        found.vjp(np.zeros((76, 12)), ambient=True)


def test_numbers_of_states_need_a_jacobian():
    """A system on a manifold without `integrate_jacobian` says so."""
    system = CirclePendulum()
    goal = system.embed(np.array([np.pi, 0.0]))
    costs = [trajopt.ControlCost(0.1)], [trajopt.StateCost(system, goal, 5.0)]
    problem = trajopt.Problem(system, system.embed(np.array([2.5, 0.0])), 20, *costs)
    solution = trajopt.DDP().solve(problem)
    found = trajopt.sensitivity(lambda p: problem, 1.0, solution)
    assert found.vjp(np.ones((21, 2))) == 0.0
    with pytest.raises(TypeError, match="CirclePendulum is not euclidean and lacks integrate_jacobian"):
        found.vjp(np.ones((21, 3)), ambient=True)


def test_dynamics_are_carried_back_on_manifolds(monkeypatch):
    """Without the Jacobian of the difference, derivatives of the quadrotor are wrong by percents."""
    case = CASES["quadrotor"]
    problem = case.make(case.p)
    solution = polished_solution(problem, trajopt.DDP().solve(problem))
    right = trajopt.sensitivity(case.make, case.p, solution, wrt=["mass"]).us
    monkeypatch.setattr(first_order, "as_manifold", lambda system: None)
    wrong = trajopt.sensitivity(case.make, case.p, solution, wrt=["mass"]).us
    assert relative_error(wrong, right) > 1e-2


@pytest.fixture(scope="module")
def unicycle():
    """Past discs: clamped controls, inequalities and equalities."""
    case = CASES["unicycle"]
    problem = case.make(case.p)
    return case, problem, polished_solution(problem, trajopt.DDP().solve(problem))


def test_penalty_of_the_factor(unicycle):
    """Where it is too small the factor is refused, though this is a minimum; above, none changes the derivatives."""
    case, _, solution = unicycle
    found = trajopt.sensitivity(case.make, case.p, solution)
    system, dnu, rhs = found.system, derivatives(found, 0).nu, found.change.right_hand_side(found.system.held)
    chosen = system.penalty
    for penalty in (1.0, 100.0, chosen / RAISE):
        assert isinstance(factorized(system.active.with_terms_in(system.masked, penalty)), int)
    for penalty in chosen * np.array([1.0, 10.0, 1e2, 1e4]):
        factor = factorized(system.active.with_terms_in(system.masked, penalty))
        assert isinstance(factor, Factor)
        system.penalty, system.factor = penalty, factor
        step = system.solve(rhs)
        assert relative_error(step.du, found.us) < 1e-9, penalty
        scaled = system.of_all_rows(step.dnu)[:, 0] * found.point.rows.D
        assert relative_error(scaled, dnu) < 1e-8, penalty


def test_constraints_that_depend_on_each_other(unicycle):
    """A disc given twice: the same derivatives, multipliers that are not the only ones."""
    case, _, solution = unicycle

    def twice(p):
        one = unicycle_past_discs(p)
        return trajopt.Problem(
            one.system, one.x0, one.horizon, one.running_costs, one.terminal_costs,
            [*one.constraints, one.constraints[1]], us_init=one.us_init,
        )  # fmt: skip

    report = solution.constraints[1]
    halves = report._replace(multipliers=0.5 * report.multipliers)
    reports = (solution.constraints[0], halves, *solution.constraints[2:], halves)
    both = replace(solution, problem=twice(case.p), constraints=reports)
    found = trajopt.sensitivity(twice, case.p, both)
    once = trajopt.sensitivity(case.make, case.p, solution)
    assert relative_error(found.us, once.us) < 1e-9
    assert once.multipliers_unique and not found.multipliers_unique


def test_where_other_limits_begin_to_press(unicycle):
    """Within the estimate the same limits press, a little beyond it others do."""
    case, _, solution = unicycle
    found = trajopt.sensitivity(case.make, case.p, solution, wrt=["weight"])
    (down, up), held = found.valid[0], found.point.held
    assert down < 0.0 < up

    def pressing(change):
        other = case.make({**case.p, "weight": case.p["weight"] + change})
        return stationary_point(other, trajopt.DDP().solve(other, warm_start=solution)).held

    near, far = pressing(0.3 * up), pressing(3.0 * up)
    assert (near.controls == held.controls).all() and (near.rows == held.rows).all()
    assert (far.controls != held.controls).any() or (far.rows != held.rows).any()


def braked(low, high, *constraints):
    """A pendulum whose torque is between limits."""
    system = Pendulum()
    costs = [trajopt.ControlCost(1e-2)], [trajopt.StateCost(system, [1.0, 0.0], [50.0, 5.0])]
    return trajopt.Problem(system, [0.3, 0.0], 10, *costs, [trajopt.ControlBounds(low, high), *constraints])


@pytest.mark.parametrize("torque", [-1.0, 20.0])
def test_controls_that_can_have_one_value(torque):
    """They follow it, whichever way they are pressed."""

    def make(p):
        return braked(p, p)

    found, h = trajopt.sensitivity(make, torque, trajopt.DDP().solve(make(torque))), 1e-4
    ahead, back = (trajopt.DDP().solve(make(torque + d)) for d in (h, -h))
    assert relative_error(found.us, np.ones((10, 1, 1))) < IDENTITY and not found.weak and np.isinf(found.valid).all()
    assert found.cost[0] == pytest.approx((ahead.cost - back.cost) / (2.0 * h), rel=1e-6)
    assert relative_error(found.xs[..., 0], (ahead.xs - back.xs) / (2.0 * h)) < 1e-6


def test_multipliers_of_limits_that_others_are_within():
    """They stay zero."""
    problem = braked(-10.0, 12.0, trajopt.ControlBounds(-20.0, 10.0))
    solution = trajopt.DDP().solve(problem)
    found = trajopt.sensitivity(lambda p: replace(problem, x0=[p, 0.0]), 0.3, solution)
    below, above = solution.us <= -10.0, solution.us >= 10.0
    wide, tight = (part[..., 0] != 0.0 for part in found.multipliers)
    assert below.any() and above.any() and (wide == below).all() and (tight == above).all()


def test_limits_of_controls_among_the_rows():
    """Polished, they have the multipliers of the solve, others those of the Newton steps."""
    reached = trajopt.ResidualConstraint(trajopt.StateResidual(Pendulum(), [0.9, 0.0], [0]), at="terminal")
    problem = braked(-10.0, 10.0, reached)
    rows = trajopt.DDP(control_limits="augmented_lagrangian").solve(problem)
    box, found = (polished_solution(problem, each) for each in (trajopt.DDP().solve(problem), rows))
    assert rows.constraints[0].factors is not None and (np.abs(box.us) == 10.0).any()
    assert relative_error(found.us, box.us) < 1e-9
    assert relative_error(found.constraints[1].multipliers, box.constraints[1].multipliers) < 1e-8
    assert found.constraints[0] is rows.constraints[0]


# ------------------------------------------------------------------------------------------------ weak limits
@pytest.fixture(scope="module")
def touching():
    """A double pendulum whose largest torque just touches its limit; p moves the goal."""
    p = {**CASES["double_pendulum"].p}
    free = swinging_double_pendulum(p)
    limit = polished_solution(free, trajopt.DDP().solve(free)).us.max()

    def make(change):
        one = swinging_double_pendulum({**p, "target": float(change)})
        bounds = [trajopt.ControlBounds(-np.inf, limit)]
        return trajopt.Problem(one.system, one.x0, one.horizon, one.running_costs, one.terminal_costs, bounds)

    problem = make(0.0)
    solution = trajopt.DDP().solve(problem, us=np.minimum(polished_solution(free, trajopt.DDP().solve(free)).us, limit))
    return make, polished_solution(problem, solution)


@pytest.mark.parametrize("direction", [1.0, -1.0])
def test_limits_that_are_just_touched(touching, direction):
    """One-sided derivatives: on one side the limit presses, on the other it does not."""
    make, solution = touching
    found = trajopt.sensitivity(make, 0.0, solution)
    assert len(found.weak) == 1 and found.weak[0].side == 1
    along, h, us = found.directional(direction), 1e-4, []
    for multiple in (1.0, 2.0, 3.0):
        problem = make(direction * h * multiple)
        us.append(polished_solution(problem, trajopt.DDP().solve(problem, warm_start=solution)).us)
    one_sided = (18.0 * us[0] - 9.0 * us[1] + 2.0 * us[2] - 11.0 * solution.us) / (6.0 * h)  # third order
    assert relative_error(along.us, one_sided) < 1e-6
    knot, component = found.weak[0].knot, found.weak[0].component
    held = along.us[knot, component] == 0.0
    assert held == (found.us[knot, component, 0] * direction > 0.0)


# -------------------------------------------------------------------------------------------- prediction, forms of p
def test_prediction_is_of_second_order():
    case = CASES["cartpole"]
    problem = case.make(case.p)
    solution = polished_solution(problem, trajopt.DDP().solve(problem))
    found, errors = trajopt.sensitivity(case.make, case.p, solution, wrt=["pole"]), []
    for h in (4e-4, 2e-4):
        other = case.make({**case.p, "pole": case.p["pole"] + h})
        start = found.predict({"pole": h})
        exact = polished_solution(other, trajopt.DDP().solve(other, warm_start=start)).us
        errors.append(np.abs(start.us - exact).max())
    assert abs(np.log2(errors[0] / errors[1]) - 2.0) < 0.1


@dataclass(frozen=True)
class Figures:
    """Parameters of a pendulum, some of which are not floats."""

    mass: float = 1.0
    weight: float = 2e-2
    knots: int = 100


def test_forms_of_parameters(rng):
    base = CASES["pendulum"]

    def of_dataclass(p):
        return base.make({**base.p, "mass": p.mass, "weight": p.weight})

    problem = of_dataclass(Figures())
    solution = trajopt.DDP().solve(problem)
    found = trajopt.sensitivity(of_dataclass, Figures(), solution)
    assert found.labels == ("mass", "weight")
    us_bar = rng.standard_normal(found.us.shape[:2])
    gradient = found.vjp(us_bar=us_bar)
    assert set(gradient) == {"mass", "weight"}
    array = trajopt.sensitivity(lambda p: of_dataclass(Figures(p[0], p[1])), np.array([1.0, 2e-2]), solution)
    assert np.array_equal(array.us, found.us) and array.vjp(us_bar=us_bar).tolist() == list(gradient.values())
    number = trajopt.sensitivity(lambda m: of_dataclass(Figures(m)), 1.0, solution)
    assert number.vjp(us_bar=us_bar) == pytest.approx(gradient["mass"], rel=1e-12)
    one = trajopt.sensitivity(of_dataclass, Figures(), solution, wrt=["weight"])
    assert relative_error(one.us[..., 0], found.us[..., 1]) < IDENTITY


class Place:
    """The first number of a state less a goal, which may be set."""

    nr, goal = 1, 1.0

    def evaluate(self, xs, us):
        return xs[:, :1] - self.goal

    def jacobians(self, xs, us):
        return np.tile([[[1.0, 0.0]]], (len(xs), 1, 1)), None

    def hessian_products(self, xs, us, mu):
        return None, None, None


def test_functions_that_set_what_their_problems_share():
    """As those that make it anew."""
    system, place = Pendulum(), Place()
    terminal = trajopt.ResidualCost(place, 50.0)

    def setting(goal):
        place.goal = goal
        return trajopt.Problem(system, [0.3, 0.0], 10, [trajopt.ControlCost(1e-2)], [terminal])

    def making(goal):
        new = Place()
        new.goal = goal
        return trajopt.Problem(system, [0.3, 0.0], 10, [trajopt.ControlCost(1e-2)], [trajopt.ResidualCost(new, 50.0)])

    found, expected = (trajopt.sensitivity(make, 1.0, trajopt.DDP().solve(make(1.0))) for make in (setting, making))
    assert np.abs(expected.us).max() > 1.0
    np.testing.assert_array_equal(found.us, expected.us)
    np.testing.assert_array_equal(found.cost, expected.cost)


def test_polish():
    """A Newton step takes the error of a solution out of its derivatives."""
    case = CASES["cartpole"]
    problem = case.make(case.p)
    rough = trajopt.DDP(tolerance=1e-8).solve(problem)
    exact = trajopt.sensitivity(case.make, case.p, polished_solution(problem, rough), wrt=["pole"])
    plain, better = (trajopt.sensitivity(case.make, case.p, rough, wrt=["pole"], polish=p) for p in (False, True))
    assert relative_error(better.us, exact.us) < 1e-2 * relative_error(plain.us, exact.us)


def test_bad_input():
    case = CASES["pendulum"]
    problem = case.make(case.p)
    solution = trajopt.DDP().solve(problem)
    with pytest.raises(TypeError, match="make_problem: got dict, expected a function"):
        trajopt.sensitivity({}, case.p, solution)
    with pytest.raises(TypeError, match="p: got 'x', expected a number"):
        trajopt.sensitivity(lambda p: problem, "x", solution)
    with pytest.raises(TypeError, match=r"p: got .*, expected at least one number"):
        trajopt.sensitivity(lambda p: problem, np.zeros(0), solution)
    with pytest.raises(ValueError, match="wrt: got 'masses', expected some of mass, length"):
        trajopt.sensitivity(case.make, case.p, solution, wrt=["masses"])
    with pytest.raises(ValueError, match=r"differ by .* from the dynamics of make_problem"):
        trajopt.sensitivity(case.make, {**case.p, "mass": 2.0}, solution)
    with pytest.raises(ValueError, match=r"cost .*, which make_problem"):
        trajopt.sensitivity(case.make, {**case.p, "weight": 1.0}, solution)
    with pytest.raises(ValueError, match="status 'max_iterations', expected a converged one"):
        trajopt.sensitivity(case.make, case.p, trajopt.DDP(max_iterations=2).solve(problem))
    with pytest.raises(ValueError, match="steps: got"):
        trajopt.sensitivity(case.make, case.p, solution, steps=0.0)
    with pytest.raises(ValueError, match=r"steps: got shape \(2,\)"):
        trajopt.sensitivity(case.make, case.p, solution, steps=np.ones(2))
    found = trajopt.sensitivity(case.make, case.p, solution)
    with pytest.raises(ValueError, match="us_bar: got shape"):
        found.vjp(us_bar=np.zeros(3))
    with pytest.raises(ValueError, match="dp: got shape"):
        found.predict(np.zeros(2))
