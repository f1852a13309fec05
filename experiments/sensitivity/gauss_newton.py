"""What a library without second derivatives of dynamics and constraints makes of the same optimality conditions.

The right-hand side, first derivatives of the neighbouring problems at the solution, is the same; the Hessian of the
Lagrangian is the one that iLQR sweeps: that of the costs' squares, without the curvature of residuals, dynamics and
constraints.  And feedback gains, taken for the derivative of the controls by the initial state.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import trajopt
from trajopt.backward.expansions import expand
from trajopt.optimality.kkt_system import KKTSystem


def gauss_newton(found: trajopt.Sensitivity) -> trajopt.Sensitivity:
    """The derivatives with that Hessian; what is held stays."""
    point = found.point._replace(e=expand(found.point.problem, found.point.xs, found.point.us))
    return replace(found, point=point, system=KKTSystem(point))


def by_gains(solution: trajopt.Solution) -> np.ndarray:
    """d us / d x0 (N, nu, ndx) as the gains of a solution have it: its feedback from knot to knot."""
    fx, fu = solution.problem.system.linearize(solution.xs, solution.us)
    dx, du = np.eye(fx.shape[1]), []
    for A, B, K in zip(fx, fu, solution.K, strict=True):
        du.append(K @ dx)
        dx = A @ dx + B @ du[-1]
    return np.array(du)
