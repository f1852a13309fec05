"""The compiled iteration: the same steps, bit for bit, as the loop in Python, and all that interrupts it."""

import dataclasses
import signal
import threading

import numpy as np
import pytest

import problems
import trajopt
from tests.trajopt.test_time_limit import Clock
from trajopt.backward.regularization import LONGEST
from trajopt.backward.slots import _kept, take_slots
from trajopt.solvers import program
from trajopt.solvers.ddp import Loop
from trajopt.solvers.formulation import Curvature
from trajopt.solvers.program import Program

ARRAYS = "xs", "us", "k", "K", "Vx", "Vxx", "gaps"


@pytest.fixture
def in_python(monkeypatch):
    """A function that solves without the compiled iteration."""

    def solve(solver, problem, *arguments, **options):
        with monkeypatch.context() as patch:
            patch.setattr(program, "program_of", lambda *_: None)
            return solver.solve(problem, *arguments, **options)

    return solve


def timeless(log):
    return [record._replace(time=0.0) for record in log]


def assert_same(found, expected):
    assert found.status == expected.status
    assert timeless(found.log) == timeless(expected.log)
    for name in ARRAYS:
        assert getattr(found, name).tobytes() == getattr(expected, name).tobytes(), name


def user_step(x, u):
    return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] - np.sin(x[0]))])


def user_problem():
    system = trajopt.CallableSystem(user_step, nx=2, nu=1, dt=0.1)
    running = [trajopt.StateCost(system, np.array([3.0, 0.0]), np.ones(2)), trajopt.ControlCost(np.ones(1))]
    return trajopt.Problem(system, np.zeros(2), 30, running_costs=running)


CASES = {
    "pendulum": lambda: problems.make("pendulum"),
    "pendulum_limits": lambda: problems.make("pendulum_limits"),
    "cartpole": lambda: problems.make("cartpole"),
    "arm": lambda: problems.make("arm", horizon=20, dt=0.05),
    "quadrotor": lambda: problems.make("quadrotor"),
    "user": user_problem,
}


@pytest.mark.parametrize("solver", [trajopt.ILQR(), trajopt.DDP(), trajopt.DDP(cost_hessian="gauss_newton")], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_same_bits_as_in_python(name, solver, in_python):
    problem = CASES[name]()
    made = []
    found = solver.solve(problem, callback=lambda progress: made.append(progress.record))
    expected = in_python(solver, problem)
    assert_same(found, expected)
    assert timeless(made) == timeless(expected.log)[: len(made)]


@pytest.mark.parametrize("name", CASES)
def test_same_bits_from_states_with_gaps(name, in_python, rng):
    problem = CASES[name]()
    plan = trajopt.DDP(max_iterations=5).solve(problem)
    shifts = 0.01 * rng.standard_normal((len(plan.xs), problem.system.ndx))
    xs = problem.system.integrate(plan.xs, shifts)
    expected = in_python(trajopt.DDP(max_iterations=20), problem, plan.us, xs)
    assert expected.log[0].gap > 0.0
    assert_same(trajopt.DDP(max_iterations=20).solve(problem, plan.us, xs), expected)


def few(penalty):
    return [kind(max_iterations=60, soft_penalty=penalty) for kind in (trajopt.ILQR, trajopt.DDP)]


@pytest.mark.parametrize("solver", [*few(0.0), *few(1e3)], ids=repr)
@pytest.mark.parametrize("name", ["arm_obstacle", "unicycle_obstacles", "arm_minimum_time"])
def test_same_bits_under_constraints(name, solver, in_python):
    """Obstacles, ends and free durations: multipliers and reports too."""
    problem = problems.make(name)
    found, expected = solver.solve(problem), in_python(solver, problem)
    assert_same(found, expected)
    for one, other in zip(found.constraints, expected.constraints, strict=True):
        assert one.penalty == other.penalty and one.multipliers.tobytes() == other.multipliers.tobytes()
    again = solver.solve(problem, warm_start=found)
    assert_same(again, in_python(solver, problem, warm_start=expected))


@pytest.mark.parametrize("soft", [0.0, 1e3])
@pytest.mark.parametrize("name", ["arm_obstacle", "unicycle_obstacles", "arm_minimum_time"])
def test_constrained_iterations_are_compiled(name, soft, monkeypatch):
    """Most of them: a few are left to Python."""
    steps = []
    of_loop = Loop.step
    monkeypatch.setattr(Program, "rests", lambda _: False)
    monkeypatch.setattr(Loop, "step", lambda *given: steps.append(1) or of_loop(*given))
    solution = trajopt.DDP(soft_penalty=soft).solve(problems.make(name))
    assert len(steps) < 0.7 * solution.iterations


@pytest.fixture
def steps(monkeypatch):
    """Steps that are made in Python, where programs wait for as many as they do for users."""
    monkeypatch.setattr(program, "LONGEST", LONGEST)
    made, of_loop = [], Loop.step
    monkeypatch.setattr(Loop, "step", lambda *given: made.append(1) or of_loop(*given))
    return made


def test_a_single_solve_is_long_before_a_program_is_prepared(steps):
    solution = trajopt.ILQR().solve(problems.make("cartpole"))
    assert solution.iterations > 2 * LONGEST and len(steps) == LONGEST


def test_prepared_problems_have_a_program_from_the_second_solve(steps):
    prepared = trajopt.ILQR().prepare(problems.make("pendulum", horizon=17))
    first = prepared.solve()
    assert len(steps) == first.iterations + 1
    assert_same(prepared.solve(), first)
    assert len(steps) == first.iterations + 1


def test_problems_that_ask_often_are_left_to_python(steps):
    """For some iterations, more where it asks again."""
    prepared = trajopt.DDP().prepare(problems.make("quadrotor"))
    first, again = prepared.solve(), prepared.solve()
    assert_same(again, first)
    found = [x for slots in _kept.slots for x in slots.kept.values() if isinstance(x, tuple) and x[1] is not None]
    assert any(isinstance(of, Program) and of.rest > 0 for _, of in found)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("closing", [False, True])
def test_all_are_pieces(name, closing):
    """Nothing of these problems is left to Python."""
    slots = take_slots(CASES[name](), None)
    Program(slots, Curvature(), None, closing)


@pytest.mark.parametrize("most", [0, 1, 2, 5])
def test_limits_of_iterations(most, in_python):
    solver, problem = trajopt.DDP(max_iterations=most), problems.make("pendulum")
    assert_same(solver.solve(problem), in_python(solver, problem))


@pytest.mark.parametrize("name", ["pendulum", "quadrotor", "arm_obstacle", "unicycle_obstacles"])
@pytest.mark.parametrize("gaps", [False, True])
def test_time_limits(name, gaps, in_python, monkeypatch):
    """The best iterate until then, with the policy about it, and nothing done in Python between."""
    problem, clock, steps, of_loop = problems.make(name), Clock(), [], Loop.step
    monkeypatch.setattr("trajopt.solvers.formulation.time", clock)
    plan = trajopt.DDP(max_iterations=3).solve(problem)
    start = (plan.us, problem.system.integrate(plan.xs, np.full(problem.system.ndx, 1e-3))) if gaps else ()
    for seconds in (1.0, 2.0, 4.0, 7.0):
        clock.now = 0.0
        expected = in_python(trajopt.DDP(), problem, *start, callback=clock.tick, time_limit=seconds)
        clock.now = 0.0
        with monkeypatch.context() as patch:
            patch.setattr(Loop, "step", lambda *given: steps.append(1) or of_loop(*given))
            found = trajopt.DDP().solve(problem, *start, callback=clock.tick, time_limit=seconds)
        assert found.status == "time_limit" and found.iterations == seconds
        assert_same(found, expected)
        for one, other in zip(found.constraints, expected.constraints, strict=True):
            assert one.multipliers.tobytes() == other.multipliers.tobytes()
    assert len(steps) < 10 or name == "quadrotor", "which starts from states, with gaps, and regularization for long"


def test_a_callback_stops(in_python):
    def third(progress):
        return progress.record.iteration == 2

    problem = problems.make("pendulum")
    found = trajopt.DDP().solve(problem, callback=third)
    assert found.status == "stopped_by_callback"
    assert_same(found, in_python(trajopt.DDP(), problem, callback=third))


def test_interrupts_keep_the_iterate():
    def interrupts(progress):
        if progress.record.iteration == 3:
            signal.raise_signal(signal.SIGINT)

    problem = problems.make("pendulum")
    found = trajopt.DDP().solve(problem, callback=interrupts)
    assert found.status == "interrupted" and len(found.log) == 5
    assert found.cost == trajopt.DDP(max_iterations=4).solve(problem).cost


def test_a_function_that_changes_is_noticed(in_python):
    """The step that its old trace leads to is not taken."""

    def changing(force):
        def step(x, u):
            return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] + force[0] * np.sin(x[0]))])

        system = trajopt.CallableSystem(step, nx=2, nu=1, dt=0.1)
        running = [trajopt.StateCost(system, np.array([3.0, 0.0]), np.ones(2)), trajopt.ControlCost(np.ones(1))]
        return trajopt.Problem(system, np.zeros(2), 30, running_costs=running)

    def solved(solve):
        force = [1.0]

        def later(progress):
            if progress.record.iteration == 2:
                force[0] = -1.0

        return solve(changing(force), callback=later)

    found = solved(trajopt.DDP().solve)
    assert_same(found, solved(lambda *a, **o: in_python(trajopt.DDP(), *a, **o)))
    assert found.cost != trajopt.DDP().solve(changing([1.0])).cost


def test_saddles_kinks_and_indefinite_models(in_python, rng):
    """Iterations that are left to Python, in the middle of others."""
    for name in ("double_pendulum", "cartpole", "pendulum_limits"):
        problem = problems.make(name)
        for _ in range(3):
            us = problem.us_init + 3.0 * rng.standard_normal(problem.us_init.shape)
            assert_same(trajopt.DDP().solve(problem, us), in_python(trajopt.DDP(), problem, us))


def test_numbers_of_a_problem_change(in_python):
    """Programs are kept for problems that differ in numbers."""
    problem = problems.make("pendulum")
    for x in (0.0, 0.3, -0.5):
        other = dataclasses.replace(problem, x0=problem.x0 + x)
        assert_same(trajopt.DDP().solve(other), in_python(trajopt.DDP(), other))


def test_threads_have_programs_of_their_own():
    problem, found = problems.make("pendulum"), {}
    starts = [problem.x0 + 0.05 * i for i in range(6)]

    def work(part):
        for i in part:
            found[i] = trajopt.DDP().solve(dataclasses.replace(problem, x0=starts[i]))

    team = [threading.Thread(target=work, args=(range(i, 6, 2),)) for i in range(2)]
    for thread in team:
        thread.start()
    for thread in team:
        thread.join()
    for i, x0 in enumerate(starts):
        assert_same(found[i], trajopt.DDP().solve(dataclasses.replace(problem, x0=x0)))
