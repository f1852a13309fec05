"""The experiment on tasks at small size: its own references agree with the library, and what is wrong would show."""

import json
import os

import numpy as np
import pytest

import problems
import trajopt
from experiments.tasks import distances, durations, expansions, users
from experiments.tasks.__main__ import main
from tests.tolerances import COMPLEX_STEP, SIXTH_ORDER_DIFFERENCES, SLOPE


# ------------------------------------------------------------------------------------------------ distances
@pytest.mark.parametrize("kind", distances.KINDS)
def test_derivatives_of_distances(kind, rng):
    """Rows against numpy's complex numbers, Hessians against differences of order eight of these."""
    found = distances.derivative_errors(kind, 1, rng)
    assert found["gradients"] >= 3 and found["hessians"] >= 1
    assert found["gradient"] < COMPLEX_STEP and found["hessian"] < COMPLEX_STEP


@pytest.mark.peer
def test_distances_beside_coal(rng):
    pytest.importorskip("coal")
    found = [distances.coal_errors(kind, 40, rng) for kind in distances.KINDS]
    assert max(each["error"] for each in found) < SIXTH_ORDER_DIFFERENCES
    assert min(each["deepest"] for each in found) < 0.0 and all(each["compared"] > 100 for each in found)


# ------------------------------------------------------------------------------------------------ durations
def test_a_metre_in_the_least_time():
    """Which is two seconds, by each solver that is installed."""
    runs = durations.runs_of("double integrator", lambda: None, 1)
    assert {run["solver"] for run in runs} >= set(durations.SOLVERS)
    for run in runs:
        assert run["T"] == pytest.approx(2.0, abs=1e-6) and run["violation"] < 1e-6, run


def deadly_peer(name):
    """In place of a peer."""
    return lambda us, xs: os.abort()


def test_a_peer_that_dies_is_a_row(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(durations.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(durations, "peer", deadly_peer)
    assert main(["--quick", "--only", "durations", "--out", str(tmp_path)]) == 0
    (runs,) = json.loads((tmp_path / "tasks.json").read_text())["durations"].values()
    lost = runs[-1]
    assert (lost["solver"], lost["status"], lost["T"], lost["iterations"]) == ("ipopt", "died: SIGABRT", None, None)
    assert "died: SIGABRT" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------ expansions
@pytest.mark.parametrize("name", ["cartpole", "quadrotor", "car_minimum_time"])
def test_orders_of_problems(name, rng):
    found = expansions.orders_of(name, rng)
    assert len(found["all"]) == 3, "knots"
    assert found["linear"] == pytest.approx(2.0, abs=SLOPE) and found["quadratic"] == pytest.approx(3.0, abs=SLOPE)


def test_where_steps_are_expanded():
    """Neither where durations are set nor where the first trajectory has diverged."""
    free = problems.make("car_minimum_time")
    xs, _ = expansions.first_trajectory(free)
    assert not free.system.setting[expansions.knots_of(free, xs)].any()
    short = trajopt.with_free_durations(problems.make("pendulum", horizon=2))
    assert expansions.knots_of(short, short.system.rollout(short.x0, short.us_init)) == [1, 2]
    pendulum = problems.make("pendulum")
    xs, _ = expansions.first_trajectory(pendulum)
    xs[40:] = np.nan
    assert expansions.knots_of(pendulum, xs) == [10, 20, 30]


@pytest.mark.parametrize("wrong", [0.0, 0.99])
def test_wrong_hessians_have_a_wrong_order(wrong, rng, monkeypatch):
    true = expansions.whole_hessian
    monkeypatch.setattr(expansions, "whole_hessian", lambda *point: wrong * true(*point))
    found = expansions.orders_of("cartpole", rng)
    assert found["linear"] == pytest.approx(2.0, abs=SLOPE) and found["quadratic"] < 3.0 - 2.0 * SLOPE


def test_exact_models(rng):
    """Linear steps have no order, bilinear ones that of the linear model."""
    for step, linear in (
        (lambda x, u: (x[0] + 0.1 * x[1], x[1] + u[0]), True),
        (lambda x, u: (x[1] * u[0], x[0]), False),
    ):
        system = trajopt.CallableSystem(step, nx=2, nu=1, dt=0.1)
        found = expansions.orders_at(system, np.ones(2), np.ones(1), rng)
        assert found["quadratic"] is None
        assert found["linear"] is None if linear else found["linear"] == pytest.approx(2.0, abs=SLOPE)


# ------------------------------------------------------------------------------------------------ users
@pytest.mark.parametrize("name", users.CASES)
def test_plain_python(name):
    """Traced, and both solvers find the same."""
    found = users.ratio_of(name, 1)
    assert found["derivatives"] == "traced, compiled" and found["ratio"] > 0.0
    for solver in users.SOLVERS:
        run = found[solver]
        assert run["status"] == "converged" and run["violation"] < 1e-6 and run["ms"] > 0.0
    assert found["apart"] < 1e-6


def test_the_ball_is_in_the_way():
    problem = users.quadrotor("rk4", 100)
    solution = trajopt.DDP().solve(problem)
    assert abs(min(users.past_the_ball(x)[0] for x in solution.xs)) < 1e-6


def test_chain_rates_are_those_of_an_energy(rng):
    """Where it is at rest, without wall and control: minus the gradient of gravity's and the springs' energy."""
    n = users.MASSES

    def energy(places):
        at = np.vstack([np.zeros(2), places.reshape(n, 2)])
        lengths = np.sqrt(np.sum(np.diff(at, axis=0) ** 2, axis=1) + 1e-9)
        return 0.5 * users.STIFFNESS * np.sum((lengths - users.LENGTH) ** 2) + 9.81 * at[1:, 1].sum()

    places = 0.1 * rng.standard_normal(2 * n) - 3.0  # far from the wall
    h = 1e-5
    wanted = [-(energy(places + h * e) - energy(places - h * e)) / (2.0 * h) for e in np.eye(2 * n)]
    found = np.array(users.chain_rates(np.append(places, np.zeros(2 * n)), np.zeros(2)))
    assert np.abs(found[2 * n :] - wanted).max() < 1e-6 * np.abs(wanted).max() and not found[: 2 * n].any()


def test_chains_of_more_masses_take_as_many_more_instructions():
    short, middle, long = (np.array(users.preparation_of(masses)["instructions"]) for masses in (5, 10, 15))
    assert (long - middle <= 1.05 * (middle - short)).all(), (short, middle, long)


# ------------------------------------------------------------------------------------------------ the command
def test_small_run(tmp_path, capsys):
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "tasks.json").read_text())
    assert set(found) >= {"machine", "distances", "durations", "expansions", "users", "chains"}
    assert set(found["distances"]["errors"]) == set(distances.KINDS) and min(found["distances"]["us"].values()) > 0.0
    assert len(found["expansions"]) == 3 and set(found["users"]) == set(users.CASES)
    text = capsys.readouterr().out
    titles = (
        "capsule capsule", "us a knot", "minimum time", "orders of the errors", "systems in plain Python",
        "before the first",
    )  # fmt: skip
    for title in titles:
        assert title in text


def test_without_peers(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["--quick", "--only", "distances", "durations", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "tasks.json").read_text())
    assert "users" not in found and all(row["coal"] is None for row in found["distances"]["errors"].values())
    assert {run["solver"] for run in found["durations"]["double integrator"]} == set(durations.SOLVERS)
    row = next(line for line in capsys.readouterr().out.splitlines() if "box capsule" in line)
    assert row.split()[-3:] == ["-", "-", "-"]
