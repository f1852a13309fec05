"""Slots: arrays that a solve takes in turn are never those that somebody keeps, and change no number."""

import threading

import numpy as np
import pytest

import problems
import problems.arm
import trajopt
from trajopt import ControlBounds, ControlCost, Problem, StateCost
from trajopt.backward.expansions import adjoint, expand, expand_exactly
from trajopt.backward.slots import _kept, new_slots
from trajopt.interfaces.system import semi_implicit_form
from trajopt.solvers import formulation


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
def test_the_numbers_are_those_without_slots(name, solver, monkeypatch):
    problem = make(name)
    first, again = solver.solve(problem), solver.solve(problem)  # the second one with what the first has prepared
    assert _kept.slots
    monkeypatch.setattr(formulation, "PATIENCE", np.inf)
    _kept.slots.clear()
    plain = solver.solve(problem)
    assert not _kept.slots
    assert numbers_of(first) == numbers_of(plain) == numbers_of(again)


def slots_of(problem, limits=None):
    dt, leading = semi_implicit_form(problem.system)
    return new_slots(problem, limits, np.full(problem.horizon, dt, np.float64), leading)


@pytest.mark.parametrize("name", ["arm", "quadrotor", "cartpole"])
def test_expansions_are_the_plain_ones(name, rng):
    problem = make(name)
    slot = slots_of(problem).trajectory()
    slot.us[...] = 0.1 * rng.standard_normal(slot.us.shape)
    slot.xs[...] = problem.system.rollout(problem.x0, slot.us)
    assert slot.cost() == problem.objective.value(slot.xs, slot.us)
    multiplier = rng.standard_normal((problem.horizon, problem.system.ndx))
    at = slot.expanded()
    for _ in range(2):
        e, left_out = at.expand(with_curvature=False)
        plain = expand(problem, slot.xs, slot.us)
        assert left_out is None and all(a.tobytes() == b.tobytes() for a, b in zip(e, plain, strict=True))
        for a, b in zip(at.adjoint(), adjoint(plain), strict=True):
            assert a.tobytes() == b.tobytes()
        e, left_out = at.expand(with_curvature=True)
        curvature = [np.zeros(block.shape) for block in left_out]
        plain = expand(problem, slot.xs, slot.us, curvature=curvature)
        for a, b in zip((*e, *left_out), (*plain, *curvature), strict=True):
            assert a.tobytes() == b.tobytes()
        for cost_curvature in (True, False):
            e = at.expand_exactly(multiplier, cost_curvature)
            plain = expand_exactly(problem, slot.xs, slot.us, multiplier, cost_curvature=cost_curvature)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(e, plain, strict=True))


def test_a_slot_is_taken_again_once_nobody_refers_to_it():
    slots = slots_of(make("arm"))
    first = slots.trajectory()
    assert slots.trajectory() is first
    kept = first.xs
    other = slots.trajectory()
    assert other is not first and slots.of(kept, first.us) is first
    del kept
    assert slots.trajectory() is first
    at = first.expanded()
    e, _ = at.expand(with_curvature=False)
    part = e.lxx[3]  # a view of a view
    del e
    assert first.expanded() is not at
    del part
    assert first.expanded() is at
    swept = at.swept()
    result = swept.sweep(0.0)
    assert swept.rollouts(formulation.ALPHAS) is not None
    assert at.swept() is not swept
    K = result.K[0, 0]
    del result
    assert at.swept() is not swept
    del K
    assert at.swept() is swept and first.expanded() is at and slots.trajectory() is first


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


def test_solutions_keep_no_slot():
    problem = make("arm")
    solutions = [trajopt.DDP().solve(problem) for _ in range(4)]
    (slots,) = _kept.slots
    assert all(slot.free for slot in slots._trajectories) and len(slots._trajectories) <= 4
    assert len({solution.xs.ctypes.data for solution in solutions}) == 4


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
