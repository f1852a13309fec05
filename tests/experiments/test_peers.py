"""The comparison with Crocoddyl: both statements of a problem agree, and a small run says what it should."""

import json

import numpy as np
import pytest

import trajopt

pytestmark = pytest.mark.peer
pytest.importorskip("pinocchio")
crocoddyl = pytest.importorskip("crocoddyl")
pytest.importorskip("example_robot_data")

from matplotlib.image import imread  # noqa: E402

from experiments.peers import double_pendulum, hector, kinova, starts, ur5  # noqa: E402
from experiments.peers.__main__ import main  # noqa: E402
from experiments.peers.contestants import Outcome, contestants, excess  # noqa: E402
from experiments.peers.pair import from_pinocchio, to_pinocchio  # noqa: E402
from experiments.peers.study import SAME, first_exact, iterations_to, last_exact, settled  # noqa: E402

PROBLEMS = {"double pendulum": double_pendulum, "Kinova": kinova, "Hector": hector, "UR5": ur5}
EQUAL = 1e-9


@pytest.fixture(scope="module", params=PROBLEMS)
def pair(request):
    """Every problem without limits."""
    return PROBLEMS[request.param].pair()


def peer_model(pair):
    return pair.theirs.runningModels[0].state.pinocchio


def random_trajectory(pair, seed):
    """States around x0, each angle less than half a turn away, and controls: ours and theirs."""
    rng, problem = np.random.default_rng(seed), pair.ours
    system, N = problem.system, problem.horizon
    xs = system.integrate(np.repeat(problem.x0[None], N + 1, 0), rng.uniform(-1.5, 1.5, (N + 1, system.ndx)))
    return xs, to_pinocchio(peer_model(pair), xs), rng.uniform(-3, 3, (N, system.nu))


@pytest.mark.parametrize("seed", range(3))
def test_costs_and_steps_agree(pair, seed):
    xs, peers_xs, us = random_trajectory(pair, seed)
    cost = pair.theirs.calc(list(peers_xs), list(us))
    assert trajopt.total_cost(pair.ours, xs, us) == pytest.approx(cost, rel=EQUAL)
    ends = np.array([data.xnext for data in pair.theirs.runningDatas])
    mine = to_pinocchio(peer_model(pair), pair.ours.system.step(xs[:-1], us))
    assert np.abs(mine - ends).max() <= EQUAL * np.abs(ends).max()


def test_expansions_agree(pair):
    """Gradients and Jacobians of the two statements, knot by knot."""
    xs, peers_xs, us = random_trajectory(pair, 7)
    pair.theirs.calc(list(peers_xs), list(us))
    pair.theirs.calcDiff(list(peers_xs), list(us))
    e, running = trajopt.expand(pair.ours, xs, us), pair.theirs.runningDatas
    theirs = {name: np.array([getattr(data, name.title()) for data in running]) for name in ("fx", "fu", "lx", "lu")}
    theirs["lx"] = np.vstack([theirs["lx"], pair.theirs.terminalData.Lx])
    shapes = {name: getattr(e, name).shape for name in theirs}
    for name, expected in theirs.items():
        expected = expected.reshape(shapes[name])
        assert np.abs(getattr(e, name) - expected).max() <= EQUAL * np.abs(expected).max(), name


def test_states_there_and_back(pair):
    xs, peers_xs, _ = random_trajectory(pair, 3)
    back = np.array([from_pinocchio(peer_model(pair), x) for x in peers_xs])
    turns = (back - xs) / (2 * np.pi)
    assert np.abs(turns - np.round(turns)).max() < 1e-14
    assert np.abs(to_pinocchio(peer_model(pair), back) - peers_xs).max() < 1e-14


def test_starts(pair):
    still, example = starts.still(pair), starts.example(pair)
    gaps = pair.ours.system.difference(pair.ours.system.step(still.ours[:-1], still.us), still.ours[1:])
    assert still.feasible and np.abs(gaps).max() < 1e-12
    model = pair.theirs.runningModels[0].state
    assert not example.feasible and not example.us.any()
    assert np.array_equal(example.theirs, np.tile(model.zero(), (pair.ours.horizon + 1, 1)))
    assert np.allclose(to_pinocchio(peer_model(pair), example.ours), example.theirs, atol=1e-15)


def test_own_residual():
    """Jacobians and curvature against central differences of what each is the derivative of."""
    residual, nx, nu = double_pendulum.UprightResidual(2), 4, 1
    rng, h = np.random.default_rng(5), 1e-5
    xs, us, mu = (rng.uniform(-2, 2, (3, size)) for size in (nx, nu, residual.nr))
    rx, ru = residual.jacobians(xs, us)
    Hxx, Hux, Huu = residual.hessian_products(xs, us, mu)
    for i, e in enumerate(h * np.eye(nx)):
        dr = (residual.evaluate(xs + e, us) - residual.evaluate(xs - e, us)) / (2 * h)
        assert np.abs(rx[:, :, i] - dr).max() <= 1e-7
        ahead, behind = residual.jacobians(xs + e, us)[0], residual.jacobians(xs - e, us)[0]
        row = np.einsum("ki,kij->kj", mu, (ahead - behind) / (2 * h))
        assert np.abs(Hxx[:, i] - row).max() <= 1e-7
    assert Hux is None and Huu is None
    moved = residual.evaluate(xs, us + 0.5) - residual.evaluate(xs, us)
    assert np.allclose(moved, 0.0 if ru is None else ru @ np.full(nu, 0.5), atol=1e-12)
    assert np.allclose(residual.evaluate(xs, None), residual.evaluate(xs, 0 * us), atol=1e-12)


def test_both_libraries_reach_the_same_minimum(pair):
    """From the start that all share; CSQP, if it is there, finds another one of the double pendulum."""
    solvers = contestants(pair, starts.still(pair))
    ends = {}
    for name in ("Crocoddyl FDDP", "ILQR", "DDP", "DDP exact at once"):
        solvers[name].run(200)
        ends[name] = solvers[name].outcome()
        assert ends[name].infeasibility < EQUAL
    lowest = min(end.cost for end in ends.values())
    assert all(end.cost <= lowest * (1.0 + SAME) for end in ends.values())
    assert ends["DDP"].kinds.count("exact") > 0 and "exact" not in ends["ILQR"].kinds


def test_gaps_are_seen():
    pair = ur5.pair()
    fddp = contestants(pair, starts.example(pair))["Crocoddyl FDDP"]
    fddp.run(0)
    assert fddp.outcome().infeasibility > 1e-2  # the neutral posture does not stay where it is without torques
    fddp.run(1)
    assert fddp.outcome().infeasibility < EQUAL  # one full step closes all gaps


def test_published_minima_of_the_examples(pair):
    """Crocoddyl's own solver, from its own start, ends where its examples say it does."""
    fddp = contestants(pair, starts.example(pair))["Crocoddyl FDDP"]
    fddp.run(200, own_stop=True)
    assert fddp.outcome().converged
    assert fddp.outcome().cost == pytest.approx(pair.published, rel=2e-4)


def test_limits_of_their_statement():
    lower, upper = hector.LIMITS
    shooting = hector.peer(hector.LIMITS)
    model = shooting.runningModels[0]
    assert np.array_equal(model.u_lb, np.full(4, lower)) and np.array_equal(model.u_ub, np.full(4, upper))
    assert model.differential.ng == 4  # the same limits once more, for solvers that know constraints only
    assert excess(np.array([[0.0, 6.0], [1.0, 5.0]]), hector.LIMITS) == 1.0
    assert excess(np.array([[1.0]]), hector.LIMITS) == 0.0 and excess(np.array([[9.0]]), None) == 0.0


def path_to(ends):
    """Outcomes of these costs and infeasibilities."""
    return [Outcome(cost, off, i, False, ()) for i, (cost, off) in enumerate(ends)]


def test_iterations_to_the_minimum():
    halving = path_to((1.0 + 0.5**i, 0.0) for i in range(100))
    assert iterations_to(halving, 1.0) == 30  # 2^-30 is the first power below 1e-9
    assert iterations_to(halving[:31], 1.0) == 30
    assert iterations_to(halving[:30], 1.0) is None
    assert iterations_to(path_to([(1.0, 1e-3), (1.0, 1e-8), (1.0, 0.0)]), 1.0) == 2


def test_settled_runs():
    ends = [(1.0 + 0.5**i, 0.0) for i in range(101)]
    assert settled(path_to(ends), 100) and not settled(path_to(ends), 40)
    assert settled(path_to(ends[:40]), 100), "it ended by itself"
    assert not settled(path_to([*ends, (1.0, 1e-3)]), 100) and not settled(path_to([*ends, (np.nan, 0.0)]), 100)


def test_paths_are_those_of_shorter_runs(pair):
    for name, contestant in contestants(pair, starts.example(pair)).items():
        path = contestant.path(6)
        assert [end.iterations for end in path] == list(range(7)), name
        for end in path:
            contestant.run(end.iterations)
            short = contestant.outcome()
            assert end.cost == pytest.approx(short.cost, rel=1e-12), (name, end.iterations)
            assert end.infeasibility == pytest.approx(short.infeasibility, rel=1e-9, abs=1e-12)
            assert end.kinds == short.kinds


def test_exact_parts_of_a_solve():
    g, e = "gauss_newton", "exact"
    assert [last_exact(kinds) for kinds in ((g, e, g, e, e), (e, g), (e, e), ())] == [3, 2, 0, 0]
    assert [first_exact(kinds) for kinds in ((g, e, e, g, e), (g, g), (g, e), (g,))] == [2, 0, 1, 0]


def test_a_small_run(tmp_path, capsys):
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("UR5", "example", "Crocoddyl FDDP", "DDP exact at once"))
    data = json.loads((tmp_path / "peers.json").read_text())
    still, example = data["problems"]["UR5"]["starts"].values()
    for name in ("Crocoddyl FDDP", "Crocoddyl DDP", "ILQR", "DDP"):
        row = still[name]
        assert row["converged"] and row["above_best"] < SAME and row["total_ms"] >= row["least_total_ms"] > 0.0
        assert row["iterations_to_tolerance"] >= 1
    assert still["Crocoddyl FDDP"]["total_ratio"] == 1.0
    assert still["DDP"]["exact_steps"] > 0 == still["ILQR"]["exact_steps"]
    assert "exact_iteration_ms" in still["DDP"] and "exact_iteration_ms" not in still["ILQR"]
    assert example["DDP"]["converged"] and example["DDP"]["infeasibility"] < EQUAL  # started from states with gaps
    pixels = imread(tmp_path / "peers.png")[..., :3]
    assert min(pixels.shape[:2]) > 300 and 0.02 < np.mean(pixels.min(axis=2) < 0.9) < 0.6
