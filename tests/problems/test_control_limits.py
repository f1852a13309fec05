"""Torque limits on the benchmark problems: first-order conditions, and the augmented Lagrangian as the other way."""

import numpy as np
import pytest

import problems
import trajopt
from trajopt import ControlBounds, Problem
from trajopt.backward.expansions import adjoint, expand

SHARES = {"pendulum": 0.8, "double_pendulum": 0.6, "cartpole": 0.6}
"""Limits as a part of the largest torque without limits."""
SOLVERS = {"ilqr": trajopt.ILQR, "ddp": trajopt.DDP}


@pytest.fixture(scope="module", params=SHARES)
def limited(request, solved):
    p = problems.make(request.param)
    limit = SHARES[request.param] * np.abs(solved(request.param, "parallel").us).max(axis=0)
    return Problem(
        p.system, p.x0, p.horizon, p.running_costs, p.terminal_costs, [ControlBounds(-limit, limit)], p.us_init
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_box_and_augmented_lagrangian(solver, limited):
    """Both ways find the same torques, cost and multipliers, and the box solution is a KKT point."""
    box = SOLVERS[solver](tolerance=1e-18).solve(limited)
    lower, upper = limited.control_limits
    assert box.converged and (box.us >= lower).all() and (box.us <= upper).all()
    held = box.constraints[0].active
    assert 5 < held.sum() < held.size - 5
    _, g = adjoint(expand(limited, limited.system.rollout(limited.x0, box.us), box.us))
    left = np.where(((box.us == lower) & (g > 0)) | ((box.us == upper) & (g < 0)), 0.0, g)
    assert np.abs(left).max() <= 1e-6 * np.abs(g).max()
    other = SOLVERS[solver](
        control_limits="augmented_lagrangian",
        tolerance=1e-18,
        feasibility_tolerance=1e-10,
        complementarity_tolerance=1e-10,
    ).solve(limited, us=box.us)
    assert other.converged and other.cost == pytest.approx(box.cost, rel=1e-6)
    np.testing.assert_allclose(other.us, box.us, atol=5e-6 * np.abs(box.us).max())
    lam = box.constraints[0].multipliers
    left = max(1e-4 * np.abs(lam).max(), 1.01 * other.gradient_norm)  # multipliers are as exact as the gradient
    assert left <= 2e-4 * np.abs(lam).max()
    np.testing.assert_allclose(other.constraints[0].multipliers, lam, atol=left)
