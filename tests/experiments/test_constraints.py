"""The benchmark of constrained problems: one statement makes both sides alike, and a small run says what it should."""

import json
import os
import warnings
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.image import imread

import trajopt
from experiments.constraints.__main__ import main
from experiments.constraints.ablation import VARIANTS, changed
from experiments.constraints.catalogue import NAMES, statement
from experiments.constraints.contestants import SOLVERS, Attempt, available
from experiments.constraints.gains import active_sides, at_solution, sensitivity
from experiments.constraints.residuals import Multiplied, problem_of, residual_of, system_of
from experiments.constraints.starts import controls, states
from experiments.constraints.statement import Limits, Rows
from experiments.constraints.study import (
    KNOWN,
    geometric_means,
    known_minima,
    minima_of,
    ratios,
    run_record,
    same,
    summary,
)
from experiments.constraints.tables import feasible_rows, infeasible_rows, markdown
from trajopt.solvers import constrained, solve
from trajopt.solvers.formulation import EXACT

EQUAL = 1e-12
INFEASIBLE = ("weak_force", "wall_before_goal", "out_of_reach")


@pytest.fixture(params=NAMES)
def each(request):
    """Every statement."""
    return statement(request.param)


def trajectory(each, seed):
    """States and controls around a start, which the dynamics do not connect."""
    rng = np.random.default_rng(seed)
    us = controls(each, seed, 3)
    xs = states(each, us)
    return np.array(each.x0) + 0.9 * (xs - each.x0) * rng.uniform(0.9, 1.1, xs.shape), us


def test_what_there_is():
    assert len(NAMES) == len(set(NAMES)) and sum(statement(name).feasible for name in NAMES) >= 20
    assert {name for name in NAMES if not statement(name).feasible} == set(INFEASIBLE)


def test_known_minima():
    known = json.loads(KNOWN.read_text())
    assert set(known) == set(NAMES) - set(INFEASIBLE)
    assert all(costs and costs == sorted(costs) for costs in known.values())
    assert known["bryson_denham"][0] == pytest.approx(4.0, rel=1e-3)  # the minimum of continuous time
    assert known["minimum_time_integrator"][0] == pytest.approx(2.0, rel=1e-6)
    assert known["hang_glider"][0] == pytest.approx(-12.48, rel=1e-3) and known["zermelo"][0] < 5.47


def test_every_problem_states_and_steps(each):
    us = controls(each, 1, 0)
    assert (us >= each.lower).all() and (us <= each.upper).all() and np.ptp(us) > 0
    assert not np.array_equal(us, controls(each, 2, 0)) and np.array_equal(us, controls(each, 1, 0))
    xs = each.rollout(us)
    assert np.isfinite(xs).all() and np.isfinite(each.cost(xs, us))
    violation = each.violation(xs, us)
    assert 1e-3 < violation < np.inf, "a start that is feasible shows nothing"
    problem = problem_of(each, fast=False)
    assert problem.horizon == each.horizon and problem.name == each.name
    ends = problem.system.step(xs[:-1], us)
    assert np.abs(ends - xs[1:]).max() <= EQUAL * np.abs(xs).max()
    assert len(problem.residual_constraints) == len(each.constraints)
    for ours, own in zip(problem.residual_constraints, each.constraints, strict=True):
        state_only = own.of == "state"
        assert ours.knots(each.horizon, state_only).tolist() == list(each.knots(own))


@pytest.mark.parametrize("name", ["zermelo", "hang_glider", "brachistochrone", "moon_lander"])
def test_minima_made_by_limits_alone(name):
    """Costs without curvature: the Lagrangian's is indefinite, and a small penalty leads away from the constraints."""
    each = statement(name)
    solution = trajopt.DDP().solve(problem_of(each), us=controls(each, 1, 0))
    assert solution.converged and any(same(solution.cost, known) for known in known_minima(name))
    assert "convexified" in solution.history("step")


@pytest.mark.peer
def test_both_sides_agree(each):
    ca = pytest.importorskip("casadi")
    from experiments.constraints.programme import packed, programme, unpacked

    nlp = programme(each)
    sides = ca.Function("sides", [nlp.w], [nlp.f, nlp.g])
    problem = problem_of(each, fast=False)
    for seed in range(2):
        xs, us = trajectory(each, seed)
        w = packed(xs, us)
        assert all(np.array_equal(a, b) for a, b in zip(unpacked(w, each), (xs, us), strict=True))
        f, g = (np.array(value).ravel() for value in sides(w))
        assert f[0] == pytest.approx(trajopt.total_cost(problem, xs, us), rel=EQUAL, abs=EQUAL)
        assert each.cost(xs, us) == pytest.approx(f[0], rel=EQUAL, abs=EQUAL)
        gaps = xs[1:] - problem.system.step(xs[:-1], us)
        rows = _rows_of_ours(each, xs, us)
        expected = [np.r_[gaps[t], rows[t]] for t in range(each.horizon)]
        expected[0] = np.r_[gaps[0], xs[0], rows[0]]
        mine = np.concatenate([*expected, rows[each.horizon]])
        assert mine.shape == g.shape and np.abs(mine - g).max() <= EQUAL * max(1.0, np.abs(g).max())
        outside = [nlp.lbg - g, g - nlp.ubg, nlp.lbx - w, w - nlp.ubx]
        if all(c.unit == 1.0 for c in each.constraints):
            assert each.violation(xs, us) == pytest.approx(np.max(np.concatenate(outside)), rel=1e-10)


def _rows_of_ours(each, xs, us):
    """Rows knot by knot, without those that are bounds of variables."""
    rows = [[] for _ in range(each.horizon + 1)]
    for own in each.constraints:
        if not (isinstance(own, Limits) and own.lower != own.upper):
            for t in each.knots(own):
                rows[t] += own.values(xs[t], us[t] if t < each.horizon else None)
    return rows


def test_residuals_of_functions():
    def function(x, u):
        return x[0] * np.sin(x[1]) + u[0] * x[0], u[0] ** 2 * np.exp(x[1])

    rows = Rows(function, (0.0, 0.0), (0.0, 0.0), of="both")
    system = system_of(statement("double_integrator"), fast=False)
    residual = residual_of(rows, system)
    assert residual.derivative_source == "traced"
    rng = np.random.default_rng(1)
    xs, us, mu = rng.uniform(-1, 1, (5, 2)), rng.uniform(-1, 1, (5, 1)), rng.uniform(-1, 1, (5, 2))
    assert np.allclose(residual.evaluate(xs, us), np.array(function(xs.T, us.T)).T, rtol=0, atol=1e-15)
    report = trajopt.check_derivatives(residual, system=system)
    assert report.ok, str(report)
    Hxx, Hux, Huu = residual.hessian_products(xs, us, mu)
    assert Huu is not None and np.allclose(Huu[:, 0, 0], 2 * mu[:, 1] * np.exp(xs[:, 1]), rtol=0, atol=1e-11)
    thousand = Multiplied(residual, 1e3)
    assert np.array_equal(thousand.evaluate(xs, us), 1e3 * residual.evaluate(xs, us))
    assert np.array_equal(thousand.jacobians(xs, us)[0], 1e3 * residual.jacobians(xs, us)[0])
    assert np.allclose(thousand.hessian_products(xs, us, mu)[0], 1e3 * Hxx, rtol=1e-12)
    assert Hux is not None and Hux.shape == (5, 1, 2)


def complex_step_twin(each, rows=None):
    """The dynamics or rows of a statement in plain Python, differentiated by complex steps."""
    options = {"derivatives": "complex_step", "x_example": each.x0, "u_example": each.us_init[0], "scale": 0.03}
    system = system_of(each, fast=False)
    if rows is not None:
        return trajopt.residual(rows.function, len(rows.lower), system, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", trajopt.SlowDynamicsWarning)
        return trajopt.CallableSystem(
            xdot=each.xdot, nx=each.nx, nu=each.nu, dt=each.dt, integrator=each.integrator, **options
        )


def test_traced_derivatives_are_those_of_complex_steps(each):
    xs, us = trajectory(each, 2)
    knots, rng = np.arange(0, each.horizon, 7), np.random.default_rng(3)
    xs, us = xs[knots], us[knots]
    system = system_of(each, fast=False)
    pairs = [(system.linearize, system.hessian_products, system, complex_step_twin(each), each.nx)]
    for rows in [own for own in each.constraints if isinstance(own, Rows)]:
        traced, twin = residual_of(rows, system, fast=False), complex_step_twin(each, rows)
        pairs.append((traced.jacobians, traced.hessian_products, traced, twin, traced.nr))
    for first, second, traced, twin, n in pairs:
        assert traced.derivative_source == "traced" and twin.derivative_source == "complex_step"
        mu = rng.standard_normal((len(knots), n))
        wanted = (*(twin.linearize if traced is system else twin.jacobians)(xs, us), *twin.hessian_products(xs, us, mu))
        size = max(np.abs(block).max() for block in wanted if block is not None)
        for got, block in zip((*first(xs, us), *second(xs, us, mu)), wanted, strict=True):
            expected = 0.0 if block is None else block
            assert np.abs((0.0 if got is None else got) - expected).max() < 1e-10 * size


def test_rows_multiplied():
    one = statement("cart_pole")
    plain, scaled = (problem_of(s, fast=False) for s in (one, one.scaled(1e3)))
    xs, _ = trajectory(one, 1)
    for a, b in zip(plain.residual_constraints, scaled.residual_constraints, strict=True):
        assert np.allclose(1e3 * a.residual.evaluate(xs, None), b.residual.evaluate(xs, None), rtol=1e-15)
        assert np.allclose(1e3 * a.upper, b.upper) and np.allclose(1e3 * a.lower, b.lower)


def attempt(cost, status="converged", violation=1e-9, seconds=0.1):
    """An attempt by hand."""
    return Attempt(status, 7, seconds, cost, violation, None, None)


def test_statistics_by_hand(monkeypatch):
    monkeypatch.setattr("experiments.constraints.study.importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("experiments.constraints.study.known_minima", lambda name: [2.0])
    ddp = [attempt(1.0, seconds=0.2), attempt(2.0 + 1e-5), attempt(0.5, "max_iterations"), attempt(0.4, violation=1e-3)]
    ipopt = [attempt(1.0 + 5e-5), attempt(3.0), attempt(np.nan, "failed", np.nan), attempt(2.0)]
    minima, refused = minima_of(statement("cart_pole"), {"ddp": ddp, "ipopt": ipopt})
    assert minima == [1.0, 2.0, 3.0] and not refused
    runs = {name: [run_record(i, a, minima) for i, a in enumerate(of)] for name, of in (("ddp", ddp), ("ipopt", ipopt))}
    assert [r["success"] for r in runs["ddp"]] == [True, True, False, False]
    assert [r["best"] for r in runs["ddp"]] == [True, False, False, False]
    assert runs["ipopt"][2]["cost"] is None
    entries = {name: {"summary": summary(of), "runs": of} for name, of in runs.items()}
    assert entries["ipopt"]["summary"]["successes"] == 3 and entries["ipopt"]["summary"]["best"] == 1
    found = ratios(entries)
    assert found["ipopt"] == {"all": pytest.approx(0.5 / 0.4), "both": pytest.approx(0.3 / 0.2)}
    record = {"feasible": True, "solvers": entries, "ratios": found}
    means = geometric_means({"a": record, "b": record})
    assert means["ipopt"]["all"] == {"ratio": pytest.approx(1.25), "problems": 2}
    assert feasible_rows({"a": record})[0][:3] == ["a", "2 (1)", "3 (1)"]
    assert infeasible_rows({"a": {**record, "feasible": False}})[0][2] == "3 converged, 1 max_iterations"
    assert "| sum | 4/8 | 6/8 |" in markdown({"problems": {"a": record, "b": record}, "geometric_means": means})
    assert same(1.00005, 1.0) and not same(1.001, 1.0)


@pytest.mark.peer
def test_certificate():
    pytest.importorskip("casadi")
    from experiments.constraints.certificate import STATIONARY, Certifier
    from experiments.constraints.programme import Peer, programme

    one = statement("cart_pole")
    nlp = programme(one)
    us = controls(one, 0, 0)
    certifier, xs = Certifier(nlp), states(one, us)
    for solver in ("ipopt", "fatrop"):
        found = Peer(solver, one, nlp).solve(us, xs)
        assert found.converged and one.violation(found.xs, found.us) < 1e-6
        assert certifier.residual(found.xs, found.us) < STATIONARY
        assert (
            certifier.residual(found.xs + 1e-2 * np.sin(np.arange(found.xs.size)).reshape(xs.shape), found.us)
            > 10 * STATIONARY
        )


def test_a_small_run(tmp_path, capsys):
    solvers = ["ddp", *available()[2:]]
    names = ["double_integrator", "weak_force"]
    arguments = ["--starts", "1", "--limit", "20", "--out", str(tmp_path), "--solvers", *solvers, "--only", *names]
    assert main(arguments) == 0
    assert "infeasible problems" in capsys.readouterr().out
    results = json.loads((tmp_path / "constraints.json").read_text())
    record = results["problems"]["double_integrator"]
    assert list(record["solvers"]) == solvers and len(record["minima"]) == 1
    for solver in solvers:
        (run,) = record["solvers"][solver]["runs"]
        assert run["success"] and run["seconds"] > 0 and run["violation"] <= 1e-6
    assert results["problems"]["weak_force"]["minima"] == []
    assert not any(entry["summary"]["successes"] for entry in results["problems"]["weak_force"]["solvers"].values())
    assert "| double_integrator | 1 |" in (tmp_path / "constraints.md").read_text()
    pixels = imread(tmp_path / "constraints.png")[..., :3]
    assert min(pixels.shape[:2]) > 200 and 0.005 < np.mean(pixels.min(axis=2) < 0.9) < 0.6


def deadly_peer(solver, name):
    """In place of a peer: aborts as an assertion in compiled code does, from every start but the nominal one."""
    from experiments.constraints.catalogue import statement

    nominal = controls(statement(name), 0, 0)
    return lambda us, xs: (xs, us, False, "failed", 5, 1e-3) if np.array_equal(us, nominal) else os.abort()


def test_a_peer_that_dies_is_a_row(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("experiments.constraints.contestants.available", lambda: SOLVERS)
    monkeypatch.setattr("experiments.constraints.contestants.peer", deadly_peer)
    arguments = ["--starts", "2", "--only", "weak_force", "double_integrator", "--solvers", "fatrop"]
    assert main([*arguments, "--out", str(tmp_path)]) == 0
    problems = json.loads((tmp_path / "constraints.json").read_text())["problems"]
    ended, lost = problems["double_integrator"]["solvers"]["fatrop"]["runs"]
    assert (ended["status"], lost["status"]) == ("failed", "died: SIGABRT")
    assert all(lost[key] is None for key in ("iterations", "cost", "violation"))
    summary = problems["weak_force"]["solvers"]["fatrop"]["summary"]
    assert summary["iterations"] == 5 and summary["successes"] == 0
    printed = capsys.readouterr().out
    assert "1 failed, 1 died: SIGABRT" in printed and "solves without an answer" in printed
    written = (tmp_path / "constraints.md").read_text()
    assert "| double_integrator | FATROP | 1 died: SIGABRT |" in written


def test_a_small_run_with_rows_multiplied(tmp_path, capsys):
    assert main(["--scaled", "--starts", "1", "--only", "double_integrator", "--out", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "constraints.json").read_text())["scaled"]["double_integrator"]
    assert list(record) == ["1", "1000", "0.001"] and all(len(of["iterations"]) == 1 for of in record.values())
    assert "rows multiplied" in capsys.readouterr().out


def test_random_poses_are_counted(tmp_path, capsys):
    assert main(["--poses", "--starts", "2", "--out", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "constraints.json").read_text())["poses"]
    assert record["poses"] == 2 == sum(record["statuses"].values()) and "infeasible" not in record["statuses"]
    assert "random poses" in capsys.readouterr().out


def test_ablation_leaves_parts_out_and_puts_them_back(tmp_path, capsys, monkeypatch):
    """Of the solver as it is, and of two variants; afterwards it is as it was."""
    chosen = ("no second solve", "penalty not updated by the model")
    some = tuple(variant for variant in VARIANTS if variant.what in chosen)
    monkeypatch.setattr("experiments.constraints.ablation.VARIANTS", some)
    raised, turn = constrained.AugmentedLagrangian._raised, solve.TURN
    assert main(["--ablation", "--starts", "1", "--only", "bead_on_circle", "--out", str(tmp_path)]) == 0
    assert constrained.AugmentedLagrangian._raised is raised and turn == solve.TURN
    record = json.loads((tmp_path / "constraints.json").read_text())["ablation"]
    assert list(record) == ["all parts", *chosen] and record["all parts"] == record["no second solve"]
    assert record["all parts"]["converged"] == 1 and record["all parts"]["steps"] > 0
    assert "parts left out" in capsys.readouterr().out


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.what)
def test_every_variant_solves(variant):
    """Also a problem whose constraints are searched for trajectories that meet them."""
    each = statement("out_of_reach")
    with changed(variant):
        solution = trajopt.DDP(max_iterations=60).solve(problem_of(each), us=controls(each, 0, 0))
    assert solution.iterations > 0


def test_gains_by_penalty(tmp_path, capsys, monkeypatch):
    """Errors of the sensitivities fall with the penalty, gains grow with it; a solution has those of 1e4."""
    monkeypatch.setattr("experiments.constraints.__main__.PROBLEMS", ("arm_tip",))
    assert main(["--gains", "--out", str(tmp_path)]) == 0
    record = json.loads((tmp_path / "constraints.json").read_text())["gains"]["arm_tip"]
    errors, largest = (np.array([of[key] for of in record["penalties"].values()]) for key in ("error", "largest"))
    assert record["status"] == "converged" and (np.diff(largest) > 0.0).all()
    assert (errors[2:] < 0.02 * errors[1:-1]).all() and errors[-1] < 1e-6
    assert record["solution"] == pytest.approx(record["penalties"]["10000"], rel=1e-4)
    assert "solution's" in capsys.readouterr().out


def test_sensitivities_of_a_dense_solve():
    """Against re-solved problems, by central differences of the start."""
    each, h = statement("arm_tip"), 1e-5
    solver = trajopt.DDP(feasibility_tolerance=1e-10, tolerance=1e-15)
    problem = problem_of(each, fast=False)
    solution = solver.solve(problem)
    formulation, model, lam, unit = at_solution(solution, solver)
    held = active_sides(formulation, lam, unit) != 0
    free = np.full(solution.us.shape, True)
    count = np.concatenate([[0], np.cumsum(held)])[formulation.rows.first]
    C = model.rows.C[0][held], model.rows.C[1][held]
    found, columns = sensitivity(model.expansions[EXACT], count, C, free), []
    for dx in np.eye(each.nx):
        up, down = (solver.solve(replace(problem, x0=problem.x0 + s * h * dx), us=solution.us) for s in (1.0, -1.0))
        columns.append((up.us[0] - down.us[0]) / (2.0 * h))
    np.testing.assert_allclose(found, np.array(columns).T, atol=1e-5 * np.abs(found).max())


def test_a_pose_with_four_weights(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("experiments.constraints.arm_pose.WEIGHTS", (4e-4,))
    assert main(["--pose", "--out", str(tmp_path)]) == 0
    for record in json.loads((tmp_path / "constraints.json").read_text())["pose"].values():
        assert record["0.0004"]["status"] == "converged" and record["0.0004"]["violation"] <= 1e-7
        assert record["0.0004"]["cost"] == pytest.approx(0.930388, rel=1e-5)
    assert "terminal pose" in capsys.readouterr().out
