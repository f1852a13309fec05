"""Rows that follow from others but for errors of integration are named where a solve could not meet them."""

import numpy as np
import pytest

import dynamics
import problems
from experiments.constraints.catalogue import statement
from experiments.constraints.residuals import problem_of
from experiments.constraints.starts import controls
from trajopt import DDP, ILQR, ControlCost, Problem, ResidualConstraint, Solution, StateCost, StateResidual
from trajopt.results.dependent_rows import _influence, dependent_rows


def floating(joints, integrator="semi_implicit_euler", base_at_rest=True):
    """An arm on a free-flying base, from rest to angles of its joints and to rest; its momentum is zero throughout."""
    builder, parent = dynamics.ModelBuilder(gravity=(0.0, 0.0, 0.0), name="floating arm"), "base"
    builder.add_body("base", "world", dynamics.FreeFlyer(), mass=10.0, inertia=np.diag([1.0, 1.2, 0.8]))
    for i in range(joints):
        at, inertia = [0.5 if i else 0.3, 0.1, 0.0], np.diag([0.02, 0.08, 0.08])
        builder.add_body(
            f"link {i + 1}", parent, dynamics.Revolute("yzx"[i]), placement=(np.eye(3), at), mass=2.0,
            com=(0.25, 0.02, 0.01), inertia=inertia,
        )  # fmt: skip
        parent = f"link {i + 1}"
    model = builder.build()
    system = dynamics.RigidBodySystem(model, 0.05, integrator=integrator, actuation="floating_base")
    x0, nv = system.state(dynamics.neutral(model)), model.nv
    goal = x0.copy()
    goal[7 : 7 + joints] = [0.9, -0.7, 0.5][:joints]
    rows = [("base at rest", range(nv, nv + 6)), ("joints at rest", range(nv + 6, 2 * nv)), ("pose", range(6, nv))]
    constraints = [
        ResidualConstraint(StateResidual(system, goal, components=which), at="terminal", name=name)
        for name, which in (rows if base_at_rest else rows[1:])
    ]
    costs = [ControlCost(1e-2), StateCost(system, x0, np.r_[np.zeros(nv), np.full(nv, 1e-2)])]
    return Problem(system, x0, 40, costs, (), constraints)


def said(solution, solver=None):
    return " ".join(solution.explain(solver).split())


@pytest.mark.parametrize("joints", [2, 3])
@pytest.mark.parametrize("solver", [ILQR(max_iterations=200), DDP(max_iterations=60)])
def test_the_rest_of_a_floating_base_and_of_its_joints_is_asked_twice(joints, solver):
    """Six of the rows of rest follow from the others by momentum, but for what the integrator adds to it."""
    solution = solver.solve(floating(joints))
    assert not solution.converged
    found, text = dependent_rows(solution), said(solution, solver)
    assert found is not None and found.number == 6 and found.knot == 40 and 0.0 < found.ratio < 1e-2
    assert found.components == {"base at rest": list(range(6)), "joints at rest": list(range(joints))}
    assert f"Nearly dependent: at knot 40, 6 of the {6 + joints} rows of 'base at rest'" in text
    assert "'base_joint[0] velocity'" in text and f"'link {joints}_joint velocity'" in text
    advised = text[text.index("Try: ") :]
    assert advised.startswith("Try: drop 6 rows that follow from others, of 'base at rest' or 'joints at rest'")
    assert "feasibility_tolerance above" in advised and "conserves momentum" in advised


def test_what_is_advised_helps():
    """Without the rows that follow, by an integrator that conserves momentum, or with a tolerance for its errors."""
    fewer = DDP().solve(floating(3, base_at_rest=False))
    assert fewer.converged and np.abs(fewer.xs[-1, 10:16]).max() < 1e-2
    solver = DDP(feasibility_tolerance=2e-3)
    for solution in (fewer, DDP().solve(floating(3, "rk4")), solver.solve(floating(3))):
        assert solution.converged and "Nearly dependent" not in said(solution, solver)


def test_the_influence_of_controls_equals_differences_of_rollouts():
    problem = floating(2)
    system, rng, h = problem.system, np.random.default_rng(0), 1e-6
    us = 0.1 * rng.standard_normal((40, 2))
    xs = system.rollout(problem.x0, us)
    fx, fu = system.linearize(xs[:-1], us)
    Cx, Cu = rng.standard_normal((3, system.ndx)), rng.standard_normal((3, 2))
    for knot in (40, 17):
        J = _influence(Cx, Cu, fx, fu, knot)
        for s, j in ((0, 1), (11, 0), (knot - 1, 1), *([(knot, 0)] if knot < 40 else [])):
            sides = []
            for step in (h, -h):
                moved = us.copy()
                moved[s, j] += step
                sides.append(system.rollout(problem.x0, moved)[knot])
            dx = system.difference(xs[None, knot], sides[0][None]) - system.difference(xs[None, knot], sides[1][None])
            expected = Cx @ dx[0] / (2.0 * h) + (Cu[:, j] if s == knot else 0.0)
            np.testing.assert_allclose(J[:, s, j], expected, rtol=1e-5, atol=1e-7 * np.abs(J).max())
        assert not J[:, knot + 1 :].any()


@pytest.mark.parametrize("name", ["arm_tip", "arm_redundant", "acrobot", "moon_lander", "out_of_reach"])
def test_nothing_is_said_of_the_benchmark(name):
    each = statement(name)
    solution = DDP().solve(problem_of(each), us=controls(each, 0, 0))
    assert dependent_rows(solution) is None and "Nearly dependent" not in said(solution)


def test_without_equalities_or_without_a_problem_there_is_nothing_to_say(tmp_path):
    solution = DDP(max_iterations=30).solve(floating(2))
    assert "Nearly dependent" in said(solution)
    loaded = Solution.load(solution.save(tmp_path / "solution.npz"))
    assert "Nearly dependent" not in said(loaded)
    assert dependent_rows(DDP().solve(problems.make("pendulum"))) is None
