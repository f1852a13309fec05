"""Many solves of one prepared problem: the same bits as one after another, whatever is left to Python."""

import pickle
import signal
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import problems
import trajopt
from tests.trajopt.systems import Pendulum
from trajopt import DDP, ILQR, ControlBounds, ControlCost, Problem, StateCost
from trajopt.problem.parametric import places
from trajopt.solvers import prepared_batch
from trajopt.solvers.prepared_batch import Batch

FIELDS = "xs", "us", "cost", "iterations", "violation", "k", "K"


def user_step(x, u):
    return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] - np.sin(x[0]))])


def users_own():
    system = trajopt.CallableSystem(user_step, nx=2, nu=1, dt=0.1)
    running = [StateCost(system, [3.0, 0.0], [1.0, 1.0]), ControlCost([1.0])]
    return Problem(system, np.zeros(2), 12, running_costs=running)


def python_system():
    system = Pendulum()
    return Problem(system, [0.3, 0.0], 10, [ControlCost(1e-2)], [StateCost(system, [np.pi, 0.0], [50.0, 5.0])])


def small_costs():
    problem = problems.make("pendulum", horizon=10)
    terms = [trajopt.ControlCost([1e-9])], [StateCost(problem.system, [1.0, 0.0], [1e-7, 1e-7])]
    return Problem(problem.system, problem.x0, 10, *terms)


def with_states():
    problem = problems.make("pendulum", horizon=20)
    return replace(problem, xs_init=np.linspace(problem.x0, [1.0, 0.0], 21))


def limited():
    problem = problems.make("pendulum_limits", horizon=50)
    walls = trajopt.StateBounds(problem.system, [-np.inf, -4.0], [np.inf, 4.0])
    return replace(problem, constraints=[*problem.constraints, walls])


def traced(**changes):
    """A car whose dynamics and goal are functions of the user."""

    def car(x, u):
        return u[0] * np.cos(x[2]), u[0] * np.sin(x[2]), SLIP["turn"] * u[1]

    system = trajopt.CallableSystem(xdot=car, nx=3, nu=2, dt=0.1)
    place = trajopt.residual(lambda x: (x[0] * np.cos(x[2]), x[1] + SLIP["goal"]), 2, system, name="place")
    problem = Problem(
        system, np.zeros(3), 20,
        [ControlCost(1e-2), trajopt.ResidualCost(place, 1.0, reference=[1.0, 0.5])],
        [StateCost(system, [1.0, 1.0, 0.5], [50.0, 50.0, 5.0])],
    )  # fmt: skip
    return replace(problem, **changes)


def traced_rates():
    """A cost of changes of its controls."""

    def car(x, u):
        return u[0] * np.cos(x[2]), u[0] * np.sin(x[2]), SLIP["turn"] * u[1]

    inside = trajopt.CallableSystem(xdot=car, nx=3, nu=2, dt=0.1)
    system = trajopt.ControlRateSystem(inside)
    running = [ControlCost(1e-2), trajopt.ControlRateCost(system, 1e-2)]
    goal = trajopt.residual(lambda x: (x[0], x[1] + SLIP["goal"]), 2, system, name="goal")
    terminal = [trajopt.ResidualCost(goal, 50.0, reference=[1.0, 1.0])]
    return Problem(system, np.zeros(5), 20, running, terminal)


def traced_in_a_box():
    return traced(constraints=[ControlBounds([-0.4, -0.7], [0.4, 0.7])])


SLIP = {"turn": 1.0, "goal": 0.0}
"""Numbers that functions of the user read, as they may change."""


CASES = {
    "arm": (DDP(), lambda: problems.make("arm", horizon=20, dt=0.05)),  # some are held, some rolled out
    "pendulum": (DDP(), lambda: problems.make("pendulum", horizon=30)),
    "iLQR": (ILQR(), lambda: problems.make("pendulum", horizon=30)),
    "limits": (DDP(), lambda: problems.make("pendulum_limits", horizon=60)),  # some ask
    "cartpole": (DDP(max_iterations=60), lambda: problems.make("cartpole", horizon=60)),
    "few iterations": (DDP(max_iterations=2), lambda: problems.make("pendulum", horizon=30)),
    "no iterations": (DDP(max_iterations=0), lambda: problems.make("pendulum", horizon=30)),
    "one iteration": (DDP(max_iterations=1), lambda: problems.make("pendulum", horizon=30)),
    "tensors": (DDP(hessian="tensor"), lambda: problems.make("pendulum", horizon=10)),
    "as rows": (DDP(control_limits="augmented_lagrangian"), lambda: problems.make("pendulum_limits", horizon=30)),
    "rows": (DDP(), limited),
    "user": (DDP(), users_own),
    "python": (DDP(), python_system),
    "traced": (DDP(), traced),
    "traced, limited": (DDP(), traced_in_a_box),  # some ask
    "traced, rates": (DDP(), traced_rates),
    "traced, iLQR": (ILQR(), traced),
    "traced, few": (DDP(max_iterations=3), traced),
    "small costs": (DDP(), small_costs),
    "states": (DDP(), with_states),
}


def states_near(problem, size, seed=0, spread=0.3):
    offsets = spread * np.random.default_rng(seed).normal(size=(size, problem.system.ndx))
    return np.array([problem.system.integrate(problem.x0, dx) for dx in offsets])


def terminal_name(problem):
    return next(place.name for place in places(problem).values() if place.name.startswith("terminal"))


def assert_same(batch, solutions):
    assert len(batch) == len(solutions)
    for i, expected in enumerate(solutions):
        assert batch.status[i] == expected.status
        for name in FIELDS:
            assert np.asarray(getattr(batch, name)[i]).tobytes() == np.asarray(getattr(expected, name)).tobytes(), name


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_as_one_after_another(name):
    solver, make = CASES[name]
    problem = make()
    prepared, x0s = solver.prepare(problem), states_near(problem, 4)
    batch = prepared.solve_batch(x0s, workers=2, gains=True)
    assert_same(batch, [prepared.solve(x0) for x0 in x0s])


def test_compiled_code_makes_whole_solves(monkeypatch):
    """Neither the loop in Python nor the solver has anything to do where all is usual."""
    for name in "_of_solution", "Loop":
        monkeypatch.setattr(prepared_batch, name, None)
    problem = problems.make("arm", horizon=20, dt=0.05)
    batch = DDP().prepare(problem).solve_batch(states_near(problem, 3, spread=0.1), workers=1)
    assert batch.converged.all() and batch.k is None and batch.K is None
    assert batch.success_rate == 1.0 and "solves=3" in repr(batch)


@pytest.fixture
def slip():
    before = dict(SLIP)
    yield SLIP
    SLIP.update(before)


def test_compiled_code_makes_whole_solves_of_traced_functions(monkeypatch):
    problem, whole = traced(), prepared_batch._of_solution
    monkeypatch.setattr(prepared_batch, "_of_solution", None)
    monkeypatch.setattr(prepared_batch, "Loop", None)
    prepared, x0s = DDP().prepare(problem), states_near(problem, 4, spread=0.1)
    batch = prepared.solve_batch(x0s, workers=2, gains=True)
    monkeypatch.setattr(prepared_batch, "_of_solution", whole)
    assert batch.converged.all()
    assert_same(batch, [prepared.solve(x0) for x0 in x0s])


@pytest.mark.parametrize("name", SLIP)
@pytest.mark.parametrize("make", [traced, traced_in_a_box, traced_rates])
def test_functions_that_change_between_batches(name, make, slip, monkeypatch):
    """The first solve notices, and is made by the solver; all others are made by calls that are prepared anew."""
    problem = make()
    prepared, x0s, made = DDP().prepare(problem), states_near(problem, 4, spread=0.1), []
    before, whole = prepared.solve_batch(x0s, workers=1), prepared_batch._of_solution
    slip[name] += 0.2
    monkeypatch.setattr(prepared_batch, "_of_solution", lambda found: made.append(found) or whole(found))
    batch = prepared.solve_batch(x0s, workers=1, gains=True)
    assert len(made) == 1 and (batch.us != before.us).any()
    assert_same(batch, [DDP().prepare(make()).solve(x0) for x0 in x0s])
    slip[name] -= 0.2
    assert prepared.solve_batch(x0s, workers=1).us.tobytes() == before.us.tobytes()


def test_functions_that_change_within_a_batch(slip, monkeypatch):
    problem, write = traced(), Batch.write
    prepared, x0s = DDP().prepare(problem), states_near(problem, 6, spread=0.1)
    before = [prepared.solve(x0) for x0 in x0s[:3]]

    def changing(self, i, result):
        write(self, i, result)
        if i == 2:
            slip["goal"] = -0.3

    monkeypatch.setattr(Batch, "write", changing)
    batch = prepared.solve_batch(x0s, workers=1, gains=True)
    assert_same(batch, [*before, *[DDP().solve(replace(traced(), x0=x0)) for x0 in x0s[3:]]])


def test_a_function_that_cannot_be_traced_any_more(slip):
    problem = traced()
    prepared, x0s = DDP().prepare(problem), states_near(problem, 3, spread=0.1)
    prepared.solve_batch(x0s, workers=1)

    class Hidden(float):
        """A number that says no to symbols."""

        def __rmul__(self, other):
            return float(self) * float(other)

        def __mul__(self, other):
            return float(self) * float(other)

    slip["turn"] = Hidden(1.2)
    batch = prepared.solve_batch(x0s, workers=1, gains=True)
    assert problem.system.derivative_source != "traced"
    assert_same(batch, [prepared.solve(x0) for x0 in x0s])


def test_what_threads_have_prepared_serves_later_batches():
    """Also after another solver has taken the place of the first; copies in other processes prepare their own."""
    problem = problems.make("pendulum", horizon=20)
    prepared, x0s = DDP().prepare(problem), states_near(problem, 3)
    first = prepared.solve_batch(x0s, workers=1)
    for solver in DDP(), DDP(max_iterations=2), ILQR(tolerance=1e-6):
        prepared.solver = solver
        assert_same(prepared.solve_batch(x0s, gains=True), [prepared.solve(x0) for x0 in x0s])
    copied = pickle.loads(pickle.dumps(DDP().prepare(problem)))
    assert copied.solve_batch(x0s, workers=1).xs.tobytes() == first.xs.tobytes()


def test_a_saddle_is_left():
    """The pendulum that hangs at rest, without a reason to go to either side, ends where a single solve does."""
    system = problems.make("pendulum").system
    upright = StateCost(system, [np.pi, 0.0], [10.0, 1.0])
    problem = Problem(system, [0.0, 0.0], 20, [ControlCost([1e-2])], [upright])
    x0s = np.array([[0.0, 0.0], [2 * np.pi, 0.0], [np.pi, 0.0]])
    prepared = DDP().prepare(problem)
    assert_same(prepared.solve_batch(x0s, gains=True), [prepared.solve(x0) for x0 in x0s])


def test_a_start_that_diverges():
    """What is not finite at its start ends in a status of its own, and no other solve notices."""
    problem = problems.make("pendulum", horizon=20)
    x0s = np.array([[0.1, 0.0], [0.1, 1e200], [0.2, 0.0]])
    prepared = DDP().prepare(problem)
    assert_same(prepared.solve_batch(x0s, workers=1, gains=True), [prepared.solve(x0) for x0 in x0s])


def test_numbers_of_each_solve():
    problem = problems.make("pendulum_limits", horizon=40)
    problem = replace(problem, constraints=[ControlBounds([-4.0], [4.0], name="torque")])
    x0s, targets = states_near(problem, 5), np.array([[np.pi + 0.1 * i, 0.0] for i in range(5)])
    uppers = np.linspace(2.0, 6.0, 5)[:, None]
    prepared, alone = DDP().prepare(problem), DDP().prepare(problem)
    name = terminal_name(problem)
    batch = prepared.solve_batch(x0s, {name: targets, "torque": {"upper": uppers}}, workers=2, gains=True)
    expected = []
    for x0, target, upper in zip(x0s, targets, uppers, strict=True):
        alone.update({name: target, "torque": {"upper": upper}})
        expected.append(alone.solve(x0))
    assert_same(batch, expected)
    again = batch.solution(3)
    assert again.xs.tobytes() == expected[3].xs.tobytes() and again.log[-1].cost == expected[3].log[-1].cost
    listed = [{name: target, "torque": {"upper": upper}} for target, upper in zip(targets, uppers, strict=True)]
    assert_same(prepared.solve_batch(x0s, listed, workers=1, gains=True), expected)
    assert prepared.solve(x0s[0]).cost == DDP().prepare(problem).solve(x0s[0]).cost  # nothing of it stays


def test_targets_of_the_parameters_that_were_declared():
    problem = problems.make("pendulum", horizon=20)
    prepared, alone = DDP().prepare(problem, parameters="weights"), DDP().prepare(problem)
    with pytest.raises(ValueError, match="weights"):
        prepared.solve_batch([problem.x0], [np.ones(7)])
    name = terminal_name(problem)
    prepared = DDP().prepare(problem, parameters=lambda angle: {name: np.array([angle, 0.0])})
    batch = prepared.solve_batch(states_near(problem, 3), [3.0, 3.1, 3.2], gains=True)
    expected = []
    for x0, angle in zip(states_near(problem, 3), (3.0, 3.1, 3.2), strict=True):
        alone.update({name: [angle, 0.0]})
        expected.append(alone.solve(x0))
    assert_same(batch, expected)


def test_errors_say_in_which_solve():
    """Also those of limits, and of what a function of prepare returns; the type stays."""
    problem = problems.make("pendulum_limits", horizon=10)
    problem = replace(problem, constraints=[ControlBounds([-4.0], [4.0], name="torque")])
    x0s, lowers = states_near(problem, 5), np.array([[-4.0], [-4.0], [-4.0], [99.0], [-4.0]])
    with pytest.raises(ValueError, match=r"^solve 3: .*lower 99.0"):
        DDP().prepare(problem).solve_batch(x0s, {"torque": {"lower": lowers}})
    prepared = DDP().prepare(problem, parameters=lambda p: {} if p < 2 else p)
    with pytest.raises(TypeError, match=r"^solve 2: parameters: the function of prepare returned int, expected"):
        prepared.solve_batch(x0s, range(5), workers=1)

    def fail(p):
        raise KeyError

    with pytest.raises(KeyError, match="solve 0"):
        DDP().prepare(problem, parameters=fail).solve_batch(x0s, range(5))


def test_progress(capsys):
    problem = problems.make("pendulum", horizon=20)
    DDP(verbose=True).prepare(problem).solve_batch(states_near(problem, 5), progress=True)
    out, err = capsys.readouterr()
    assert "solving 5/5" in err and out == ""


def test_what_a_function_raises_is_raised(monkeypatch):
    problem = python_system()
    prepared = DDP().prepare(problem)

    def fail(*_):
        raise RuntimeError("of a thread")

    monkeypatch.setattr(Pendulum, "linearize", fail)
    with pytest.raises(RuntimeError, match=r"^solve [0-3]: of a thread"):
        prepared.solve_batch(states_near(problem, 4), workers=2)


def test_ctrl_c_keeps_what_is_done(monkeypatch):
    problem = problems.make("pendulum", horizon=30)
    x0s, written = states_near(problem, 2000), []
    write = Batch.write

    def interrupting(self, i, result):
        write(self, i, result)
        written.append(i)
        if len(written) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Batch, "write", interrupting)
    prepared = DDP().prepare(problem)
    batch = prepared.solve_batch(x0s, workers=2, gains=True)
    done = batch.status != "interrupted"
    assert 3 <= done.sum() < len(x0s) and done.sum() == len(written)
    assert np.isfinite(batch.xs[done]).all() and np.isnan(batch.xs[~done]).all() and np.isinf(batch.cost[~done]).all()
    assert np.isinf(batch.violation[~done]).all() and (batch.violation[done] == 0.0).all()
    first = int(np.flatnonzero(done)[0])
    assert batch.xs[first].tobytes() == prepared.solve(x0s[first]).xs.tobytes()


def test_ctrl_c_waits_for_the_solve_that_has_begun():
    """Its memory serves the next batch; it comes while the caller waits for a thread that makes a problem."""
    problem, ended = problems.make("pendulum", horizon=30), []
    x0s, name = states_near(problem, 6), terminal_name(problem)

    def targets(i):
        if i == 2 and not ended:
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.3)
            ended.append(i)
        return {name: [3.0 + 0.01 * i, 0.0]}

    prepared = DDP().prepare(problem, parameters=targets)
    batch = prepared.solve_batch(x0s, range(6), workers=1)
    assert ended == [2] and list(batch.status[2:]) == ["interrupted"] * 4 and len(prepared._arenas) == 1
    again = prepared.solve_batch(x0s, range(6), workers=1)
    expected = DDP().prepare(problem, parameters=targets).solve_batch(x0s, range(6), workers=1)
    assert again.us.tobytes() == expected.us.tobytes() and (again.status == expected.status).all()


def test_errors_of_the_caller_stop_the_threads(monkeypatch):
    """As where the bar of progress cannot be written."""
    problem = problems.make("pendulum", horizon=30)
    prepared, made = DDP().prepare(problem), []

    @contextmanager
    def broken(*_):
        def count(more):
            raise BrokenPipeError

        yield count

    monkeypatch.setattr(prepared_batch, "counted", broken)
    write = Batch.write
    monkeypatch.setattr(Batch, "write", lambda self, i, result: made.append(i) or write(self, i, result))
    with pytest.raises(BrokenPipeError):
        prepared.solve_batch(states_near(problem, 5000), workers=1)
    count = len(made)
    time.sleep(0.05)
    assert count == len(made) < 5000


ARRAYS = "x0s", "xs", "us", "cost", "status", "iterations", "violation", "k", "K"


def assert_equal_arrays(batch, other):
    for name in ARRAYS:
        one, two = getattr(batch, name), getattr(other, name)
        assert one is two is None or (one.dtype == two.dtype and one.tobytes() == two.tobytes()), name


def small_batch(**options):
    problem = problems.make("pendulum", horizon=10)
    targets = {terminal_name(problem): np.array([[3.0, 0.0], [3.1, 0.0]])}
    return DDP().prepare(problem).solve_batch(states_near(problem, 2), targets, workers=1, **options), targets


@pytest.mark.parametrize("gains", [True, False])
def test_files(gains, tmp_path):
    """All arrays and the parameters come back; so do those of a pickle; what cannot be solved again says so."""
    batch, targets = small_batch(gains=gains)
    batch.xs[1], batch.status[1] = np.nan, "interrupted"
    path = batch.save(tmp_path / "new" / "batch.npz")
    assert path.is_file() and [each.name for each in path.parent.iterdir()] == ["batch.npz"]
    with path.open("rb") as stream:
        streamed = trajopt.BatchSolution.load(stream)
    for read in trajopt.BatchSolution.load(path), pickle.loads(pickle.dumps(batch)), streamed:
        assert_equal_arrays(batch, read)
        assert list(read.parameters) == list(targets)
        assert all((read.parameters[name] == targets[name]).all() for name in targets)
        assert read.success_rate == batch.success_rate and len(read) == 2
        with pytest.raises(ValueError, match=r"^solution: got a batch from a file or a pickle, .*batch\.x0s"):
            read.solution(0)
    assert batch.solution(0).xs.tobytes() == batch.xs[0].tobytes()


def test_parameters_of_files(tmp_path):
    problem = problems.make("pendulum", horizon=10)
    name = terminal_name(problem)
    listed = [{name: np.array([3.0, 0.0])}, {name: (3.1, 0.0)}]
    batch = DDP().prepare(problem).solve_batch(states_near(problem, 2), listed)
    read = trajopt.BatchSolution.load(batch.save(tmp_path / "batch"))
    assert read.parameters[1] == {name: (3.1, 0.0)} and (read.parameters[0][name] == [3.0, 0.0]).all()
    prepared = DDP().prepare(problem, parameters=lambda angle: {name: [abs(angle), 0.0]})
    batch = prepared.solve_batch(states_near(problem, 2), [3.0, 3.1j])
    with pytest.raises(TypeError, match=r"^parameters\.1: got complex"):
        batch.save(tmp_path / "other")
    assert not (tmp_path / "other").exists()
    assert trajopt.BatchSolution.load(replace(batch, parameters=None).save(tmp_path / "other")).parameters is None


def test_parameters_stay_what_they_were():
    problem = problems.make("pendulum", horizon=10)
    x0s, targets = states_near(problem, 2), np.array([[3.0, 0.0], [3.1, 0.0]])
    batch = DDP().prepare(problem).solve_batch(x0s, {terminal_name(problem): targets})
    x0s[...], targets[...] = 0.0, 1.0
    assert batch.solution(1).xs.tobytes() == batch.xs[1].tobytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"us": None}, "damaged"),
        ({"status": np.array(["converged", "fine"])}, "damaged .*status: got fine"),
        ({"cost": np.zeros(3)}, r"damaged .*cost: got \(3,\)"),
        ({"iterations": np.zeros(2)}, "damaged .*iterations"),
        ({"K": np.zeros((2, 10, 2))}, "damaged"),
        ({"k": None}, "damaged"),
        ({"layout": np.array("[")}, "damaged"),
        ({"format": np.array("trajopt.Policy")}, "without the mark 'trajopt.BatchSolution', expected a batch file"),
        ({"format_version": np.array(2)}, "of a newer trajopt"),
    ],
)
def test_damaged_files(change, message, tmp_path):
    batch, _ = small_batch(gains=True)
    with np.load(batch.save(tmp_path / "batch.npz")) as file:
        arrays = {name: array for name, array in {**file, **change}.items() if array is not None}
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ValueError, match=f"bad.npz: got .*{message}"):
        trajopt.BatchSolution.load(tmp_path / "bad.npz")


def test_files_that_are_none(tmp_path):
    batch, _ = small_batch()
    content = batch.save(tmp_path / "batch.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=r"cut\.npz: got a file that is cut short or not a batch file"):
        trajopt.BatchSolution.load(tmp_path / "cut.npz")
    with pytest.raises(FileNotFoundError):
        trajopt.BatchSolution.load(tmp_path / "none.npz")


def test_an_index_of_a_batch():
    batch, _ = small_batch()
    for use in lambda: batch[0], lambda: list(batch):  # pyright: ignore[reportIndexIssue]
        with pytest.raises(TypeError, match=r"batch: got the index 0, expected .*batch\.us\[0\].*batch\.solution"):
            use()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"x0s": np.zeros((2, 3))}, ValueError, "x0s"),
        ({"x0s": np.zeros((0, 2))}, ValueError, "x0s: got none"),
        ({"x0s": [[0.0, np.nan]]}, ValueError, "x0s"),
        ({"parameters": 3.0}, TypeError, "parameters: got float"),
        ({"parameters": [{}]}, ValueError, "parameters: got 1, expected one for each of 2"),
        ({"parameters": {"StateCost": np.zeros((3, 2))}}, ValueError, r"parameters: got \(3, 2\) for 'StateCost', exp"),
        ({"parameters": {"StateCost": {"weights": 1.0}}}, TypeError, "parameters: got float for 'weights', expected"),
        ({"parameters": np.zeros((2, 2))}, TypeError, r"^parameters: got an array of shape \(2, 2\), expected a map"),
        ({"parameters": [{}, np.zeros(2)]}, TypeError, "^solve 1: parameters: got ndarray, expected a mapping"),
        ({"parameters": {"terminal StateCost": np.zeros((2, 3))}}, ValueError, r"^solve 0: .*got shape \(3,\)"),
        ({"parameters": {"terminal StateCost": [[1.0, 0.0], [np.nan, 0.0]]}}, ValueError, "^solve 1: .*got nan"),
        ({"parameters": {"nobody": np.zeros((2, 2))}}, ValueError, "nobody"),
        ({"workers": 0}, ValueError, "workers"),
        ({"progress": "yes"}, TypeError, "progress"),
        ({"gains": 1}, TypeError, "gains"),
    ],
)
def test_bad_input(change, error, message):
    problem = problems.make("pendulum", horizon=10)
    with pytest.raises(error, match=message):
        DDP().prepare(problem).solve_batch(**{"x0s": np.zeros((2, 2)), **change})


def test_an_index_that_is_none():
    problem = problems.make("pendulum", horizon=10)
    batch = DDP().prepare(problem).solve_batch([problem.x0])
    with pytest.raises(ValueError, match="index: got 1"):
        batch.solution(1)
