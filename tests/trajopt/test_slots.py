"""Slots: arrays that a solve takes in turn are never those that somebody keeps, and change no number."""

import threading

import numpy as np
import pytest

import dynamics
import problems
import problems.arm
import trajopt
from experiments.mpc_latency.scene import TARGET, follow, target
from tests.reference.expansions import expand_exactly
from tests.reference.prepared import replay
from trajopt import ControlBounds, ControlCost, Problem, StateCost
from trajopt.backward.backward_pass import box_around, sweep
from trajopt.backward.expansions import adjoint, expand, gaps_of, prepared_gaps
from trajopt.backward.slots import Slots, _kept
from trajopt.rows import pack
from trajopt.solvers.formulation import ALPHAS, closed_loop


def make(name, horizon=20):
    return problems.arm.make(horizon, 0.05) if name == "arm" else problems.make(name)


@pytest.fixture(autouse=True)
def nothing_kept():
    _kept.slots.clear()
    yield
    _kept.slots.clear()


def numbers_of(solution):
    """All that a solve finds, to the last bit."""
    records = [{**record._asdict(), "time": 0.0} for record in solution.log]
    arrays = solution.xs, solution.us, solution.k, solution.K, solution.Vx, solution.Vxx
    return [*(a.tobytes() for a in arrays), repr(records), solution.cost, str(solution.constraints)]


@pytest.mark.parametrize("solver", [trajopt.ILQR(), trajopt.DDP()], ids=["ilqr", "ddp"])
@pytest.mark.parametrize("name", ["arm", "pendulum", "pendulum_limits", "quadrotor", "cartpole", "car_parking"])
def test_a_second_solve_finds_the_same(name, solver):
    problem = make(name)
    first = solver.solve(problem)
    (slots,) = _kept.slots
    assert numbers_of(first) == numbers_of(solver.solve(problem))
    assert _kept.slots == [slots]


def same(found, expected):
    return all(np.ascontiguousarray(a).tobytes() == b.tobytes() for a, b in zip(found, expected, strict=True))


def trajectory(problem, rng):
    us = 0.1 * rng.standard_normal((problem.horizon, problem.system.nu))
    return problem.system.rollout(problem.x0, us), us


@pytest.mark.parametrize("name", ["arm", "quadrotor", "cartpole"])
def test_expansions_are_the_plain_ones(name, rng):
    problem = make(name)
    slots, (xs, us) = Slots(problem, None), trajectory(problem, rng)
    assert slots.cost(xs, us) == problem.objective.value(xs, us)
    beside = problem.system.integrate(xs, 0.1 * rng.standard_normal((len(xs), problem.system.ndx)))
    assert same([slots.gaps(beside, us)], [gaps_of(problem, beside, us)])
    multiplier = rng.standard_normal((problem.horizon, problem.system.ndx))
    at = slots.expanded()
    for _ in range(2):
        e, plain = at.expand(xs, us), expand(problem, xs, us)
        assert same(e, plain) and same(at.adjoint(), adjoint(plain))
        for cost_curvature in (True, False):
            e = at.expand(xs, us, multiplier, cost_curvature)
            assert same(e, expand_exactly(problem, xs, us, multiplier, cost_curvature=cost_curvature))


def write(held, e):
    """Complete an expansion that a sweep has taken the dynamics of."""
    assert same(held[:2], e[:2])
    for own, block in zip(held[2:], e[2:], strict=True):
        own[...] = block


@pytest.mark.parametrize("limited", [False, True], ids=["free", "limited"])
@pytest.mark.parametrize("name", ["arm", "quadrotor", "cartpole"])
def test_sweeps_and_rollouts_are_the_plain_ones(name, limited, rng):
    problem = make(name)
    (N, nu), n = (problem.horizon, problem.system.nu), problem.system.ndx
    limits = (np.full((N, nu), -0.3), np.full((N, nu), 0.2)) if limited else None
    slots, (xs, us) = Slots(problem, limits), trajectory(problem, rng)
    us = np.clip(us, -0.3, 0.2)
    at = slots.expanded()
    e = at.expand(xs, us)
    for k in range(4):
        scaled = e if k < 2 else e._replace(lxx=2.0 * e.lxx)
        gaps, mu = None if k % 2 == 0 else 0.01 * rng.standard_normal((N + 1, n)), 0.1 * k
        box = at.box_around_controls()
        swept = slots.swept_over(scaled, box) if gaps is None else None
        assert (swept is None) == (k > 0)
        if swept is None:
            swept = slots.swept()
            write(swept.hold(scaled, gaps, box), scaled)
        found = swept.sweep(mu)
        of = None if limits is None else box_around(us, *limits)
        plain = sweep(scaled, mu, slots.dt, gaps, of, leading=slots.leading)
        assert same(found[:4], plain[:4]) and found[4:] == plain[4:] and found.ok
        rolled = slots.rollouts(xs, us, found.k, found.K, ALPHAS, gaps)
        assert rolled is not None
        assert same(rolled, map(np.array, closed_loop(problem, xs, us, found.k, found.K, gaps, limits)))


@pytest.mark.parametrize("name", ["arm", "pendulum", "car_parking", "double_pendulum", "quadrotor", "quadruped_trot"])
def test_gaps_are_prepared_calls(name, rng):
    problem = make(name)
    system = problem.system
    xs, us = np.repeat(problem.x0[None], problem.horizon + 1, axis=0), problem.us_init + 0.1
    xs = system.integrate(xs, 0.1 * rng.standard_normal((len(xs), system.ndx)))
    find = prepared_gaps(system, problem.x0, xs, us)
    gaps = find()
    assert same([gaps], [gaps_of(problem, xs, us)])
    us += 0.1
    assert replay(find) and same([gaps], [gaps_of(problem, xs, us)]) and gaps.any()
    us[3] = np.inf
    assert replay(find) and np.isnan(gaps).all()


def test_sweeps_that_fail():
    problem = make("arm")
    slots, (xs, us) = Slots(problem, None), trajectory(problem, np.random.default_rng(0))
    e = slots.expanded().expand(xs, us)
    bad = e._replace(luu=-e.luu)
    swept = slots.swept()
    write(swept.hold(bad, None, None), bad)
    found, plain = swept.sweep(0.0), sweep(bad, 0.0, slots.dt, leading=slots.leading)
    assert not found.ok and found.failed_knot == plain.failed_knot and not any(map(np.any, found[:4]))


HOLDERS = {
    "the expansion": lambda e, box, costate: e,
    "some of its arrays": lambda e, box, costate: e._replace(lx=2.0 * e.lx, lxx=2.0 * e.lxx),
    "a model": lambda e, box, costate: {"gauss_newton": e},
    "the box": lambda e, box, costate: (box,),
    "a limit": lambda e, box, costate: box.upper,
    "the costate": lambda e, box, costate: costate,
    "a view": lambda e, box, costate: e.lxx[3],
    "a view of a view": lambda e, box, costate: e.lxx[3][1:].T,
}


@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_an_expansion_is_free_once_nobody_holds_it(hold, rng):
    problem = make("arm")
    xs, us = trajectory(problem, rng)
    slots = Slots(problem, (np.full(us.shape, -1.0), np.full(us.shape, 1.0)))
    first = slots.expanded()
    assert slots.expanded() is first
    held = hold(first.expand(xs, us), first.box_around_controls(), first.adjoint()[0])
    for _ in range(3):
        assert slots.expanded() is not first
    del held
    assert slots.expanded() is first


def test_an_expansion_that_was_swept_is_free(rng):
    """Whatever calls refer to it."""
    problem = make("arm")
    slots, (xs, us) = Slots(problem, None), trajectory(problem, rng)
    first = slots.expanded()
    for exact in (False, True):
        if exact:
            first.expand(xs, us, np.ones((len(us), problem.system.ndx)), True)
        else:
            first.expand(xs, us)
        direct, other = slots.swept_over(first.e, None), slots.swept()
        write(other.hold(first.e, None, None), first.e)
        found = direct.sweep(0.0), other.sweep(0.1)
        assert slots.rollouts(xs, us, found[0].k, found[0].K, ALPHAS, None) is not None
        assert slots.expanded() is first
        assert slots.swept_over(first.e, None) is not direct and slots.swept() is not other
        gains = found[0].K, found[1].Vxx[2]
        del found
        assert slots.swept_over(first.e, None) is not direct and slots.swept() is not other
        del gains
        assert slots.swept_over(first.e, None) is direct and slots.swept() is other


def test_what_callers_keep_is_not_overwritten():
    problem, seen = make("arm"), []

    def callback(progress):
        seen.append((progress.xs, progress.us, progress.xs.copy(), progress.us.copy()))

    solutions = [trajopt.ILQR().solve(problem, callback=callback) for _ in range(3)]
    copies = [numbers_of(solution) for solution in solutions]
    trajopt.ILQR().solve(problem)
    assert len(seen) > 10 and all(np.array_equal(xs, x) and np.array_equal(us, u) for xs, us, x, u in seen)
    assert copies[0] == copies[1] == copies[2] == numbers_of(solutions[0])


def test_a_solve_within_a_solve():
    problem, inner = make("arm"), []
    expected = numbers_of(trajopt.ILQR().solve(problem))

    def callback(progress):
        inner.append(numbers_of(trajopt.ILQR().solve(problem)))

    assert numbers_of(trajopt.ILQR().solve(problem, callback=callback)) == expected
    assert inner and all(found == expected for found in inner)


def test_few_are_kept(monkeypatch):
    """Those used last, and no more than a limit in all."""
    monkeypatch.setattr("trajopt.backward.slots.MOST_KEPT", 4)
    several = [make("arm", horizon) for horizon in range(5, 11)]
    for problem in several:
        trajopt.ILQR(max_iterations=1).solve(problem)
    assert [slots.problem.horizon for slots in _kept.slots] == [10, 9, 8, 7]
    monkeypatch.setattr("trajopt.backward.slots.LARGEST_KEPT", 20 * 18**2)
    trajopt.ILQR(max_iterations=1).solve(several[0])
    assert [slots.problem.horizon for slots in _kept.slots] == [5, 10]
    monkeypatch.setattr("trajopt.backward.slots.LARGEST_KEPT", 0)
    trajopt.ILQR(max_iterations=1).solve(several[0])
    assert not _kept.slots


def test_solutions_keep_no_slot():
    problem = make("arm")
    solutions = [trajopt.DDP().solve(problem) for _ in range(4)]
    (slots,) = _kept.slots
    assert all(slot.results.free for slot in slots._expanded) and len(slots._expanded) <= 4
    assert len({array.ctypes.data for s in solutions for array in (s.xs, s.us, s.K, s.Vxx)}) == 16


@pytest.mark.parametrize("name", ["pendulum_limits", "arm_obstacle", "cartpole"])
def test_a_solve_makes_few(name):
    """However many iterations it has: else something keeps what it does not need."""
    problem = make(name)
    solution = trajopt.DDP().solve(problem)
    (slots,) = _kept.slots
    assert solution.iterations > 5 and len(slots._expanded) <= 4 and len(slots._swept) <= 10


def test_other_starts_limits_and_costs():
    system = problems.make("pendulum").system
    for bound in (2.0, 1.5):
        for angle in (0.5, 1.0):
            for weight in (1.0, 2.0):
                costs = [ControlCost(0.01)], [StateCost(system, [np.pi, 0.0], 100.0 * weight)]
                problem = Problem(system, [angle, 0.0], 40, *costs, constraints=[ControlBounds(-bound, bound)])
                solution = trajopt.DDP().solve(problem)
                _kept.slots.clear()
                assert numbers_of(solution) == numbers_of(trajopt.DDP().solve(problem))
                assert np.array_equal(solution.xs[0], problem.x0) and np.abs(solution.us).max() <= bound


@pytest.mark.parametrize("constrained", [False, True], ids=["free", "constrained"])
def test_targets_weights_and_starts_are_numbers(constrained, rng):
    """Slots serve all problems that differ in these, and find what new ones find."""
    problem, plan, kept = follow(constrained), None, []
    prepared = trajopt.DDP(max_iterations=1).prepare(problem)
    for step in range(5):
        x0, p = problem.x0 + 0.01 * rng.standard_normal(14), target(0.1 * step)
        prepared.update({TARGET: p, f"terminal {TARGET}": p})
        if step > 2:
            heavier = {"weights": (1.0 + step) * np.ones(14), "reference": x0}
            prepared.update({"StateCost": heavier, "terminal StateCost": {"reference": x0}})
        found = prepared.solve(x0, warm_start=plan)
        kept += [slots for slots in _kept.slots if slots not in kept]
        _kept.slots.clear()
        assert numbers_of(found) == numbers_of(prepared.solve(x0, warm_start=plan))
        _kept.slots[:] = kept
        plan = found.shifted()
    assert len(kept) == 1


def test_costs_that_differ_in_more_than_numbers():
    """Slots that have taken some of their numbers serve those that they had before again."""
    system = problems.make("pendulum").system
    pull = StateCost(system, [np.pi, 0.0], [1.0, 0.1])
    one = Problem(system, [0.3, 0.0], 30, [ControlCost(0.1)], [pull])
    other = Problem(system, [0.3, 0.0], 30, [ControlCost(0.4), pull], [])
    expected = [numbers_of(trajopt.DDP().solve(problem)) for problem in (one, other)]
    for index in (0, 1, 1, 0, 1, 0):
        assert numbers_of(trajopt.DDP().solve((one, other)[index])) == expected[index]
    assert len(_kept.slots) == 2
    first = _kept.slots[-1]
    assert not first.serve((one, other)[first.problem is one], None)
    assert first.serve(first.problem, None) and first.objective.value(np.ones((31, 2)), np.ones((30, 1))) == (
        first.problem.objective.value(np.ones((31, 2)), np.ones((30, 1)))
    )


def test_threads_have_their_own():
    problem = make("arm")
    expected, found = numbers_of(trajopt.DDP().solve(problem)), []

    def solve():
        found.extend(numbers_of(trajopt.DDP().solve(problem)) for _ in range(5))

    workers = [threading.Thread(target=solve) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 15 and all(numbers == expected for numbers in found)


SHIFT = np.array([0.5])


def beside(x, u):
    return np.sin(x[0]) * u[0] + SHIFT[0], x[1] * x[0]


def rows_of(name):
    """A problem with constraints of several kinds."""
    if name == "arm":
        return follow(constrained=True)
    system = problems.make("pendulum").system
    residual = trajopt.residual(beside, 2, system)
    held = [
        trajopt.ResidualConstraint(residual, -1.0, 1.0, at="path", name="everywhere"),
        trajopt.ResidualConstraint(trajopt.SquaredNorm(residual), 0.0, 4.0, at=(2, 3, 4), name="a run of knots"),
        trajopt.ResidualConstraint(residual, -1.0, 1.0, at=(1, 5, 9), name="some knots"),
        trajopt.StateBounds(system, [-4.0, -9.0], [4.0, 9.0]),
    ]
    return Problem(system, [0.3, 0.0], 12, [ControlCost(1.0)], [], constraints=held)


def plain_rows(rows, xs, us):
    """c, Cx and Cu from what residuals return."""
    c, Cx, Cu = np.empty(len(rows)), np.zeros((len(rows), xs.shape[1])), np.zeros((len(rows), us.shape[1]))
    for block in rows.blocks:
        points, D = block.points(xs, us), rows.D[block.rows]
        rx, ru = block.residual.jacobians(*points)
        c[block.rows], Cx[block.rows] = block.residual.evaluate(*points) * D, rx * D[:, :, None]
        if ru is not None:
            Cu[block.rows] = ru * D[:, :, None]
    return c, Cx, Cu


@pytest.mark.parametrize("name", ["arm", "functions"])
def test_prepared_rows_are_the_plain_ones(name, rng, monkeypatch):
    """Also of functions that others have taken the place of, and at knots of which some are missing."""
    problem = rows_of(name)
    constraints = tuple(c for c in problem.constraints if isinstance(c, trajopt.ResidualConstraint))
    rows, (xs, us) = pack(problem, constraints), trajectory(problem, rng)
    for step in range(4):
        factors = [(1.0 + step) * np.ones(c.nr) for c in constraints]
        scaled = rows.with_factors(factors)
        assert scaled.calls is rows.calls
        if step == 2:
            monkeypatch.setitem(globals(), "SHIFT", np.array([0.25]))  # functions are traced again
        us += 0.1 * rng.standard_normal(us.shape)
        xs = problem.system.rollout(problem.x0, us)
        expected = plain_rows(scaled, xs, us)
        assert same([scaled.values(xs, us)], expected[:1])
        assert same(scaled.linearized(xs, us), expected)


class Doubtful(dynamics.RigidBodySystem):
    """A system whose derivatives and rollouts somebody has replaced."""

    def linearize(self, xs, us):
        fx, fu = super().linearize(xs, us)
        return fx, 0.5 * fu

    def closed_loop_rollout(self, *arguments, **options):
        xs, us = super().closed_loop_rollout(*arguments, **options)
        return xs, us + 1.0


def test_methods_of_derived_classes_are_called(rng):
    """Not what their parents prepare."""
    inside = problems.make("pendulum").system
    system = Doubtful(inside.model, inside.dt)
    problem = Problem(system, [0.1, 0.0], 10, [ControlCost(1.0)], [])
    slots, (xs, us) = Slots(problem, None), trajectory(problem, rng)
    e = slots.expanded().expand(xs, us)
    assert same(e[:2], system.linearize(xs, us))
    assert slots.rollouts(xs, us, us, np.zeros((10, 1, 2)), ALPHAS, None) is None


@pytest.mark.parametrize("name", ["quadruped_trot", "soft_manipulator_reach"])
def test_expansions_of_phases_and_rods_are_written_in_place(name):
    problem = problems.make(name)
    slots, us = Slots(problem, None), problem.us_init
    xs = np.repeat(problem.x0[None], len(us) + 1, axis=0)
    e = slots.expanded().expand(xs, us)
    assert same(e, expand(problem, xs, us))
