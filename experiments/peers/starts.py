"""Where the solves start.

"still": controls that hold the robot in its initial state (least squares where it is not fully actuated), kept inside
the limits, and the states they lead to.  Every solver can start there.

"example": what Crocoddyl's examples start from, its neutral state at every knot, the first included, and no controls.
These states do not satisfy the dynamics, so a solver must accept gaps to start there.  (No controls at all and the
states they lead to is no start: under them the light hand of the Kinova arm diverges.)
"""

from typing import Any, NamedTuple

import numpy as np

import dynamics
from experiments.peers.pair import Pair, from_pinocchio, to_pinocchio


class Start(NamedTuple):
    """States ours (N+1, nx) and theirs (N+1, Pinocchio's nx), controls (N, nu), and whether there are no gaps."""

    name: str
    ours: np.ndarray
    theirs: np.ndarray
    us: np.ndarray
    feasible: bool


def still(pair: Pair) -> Start:
    """The feasible start."""
    problem = pair.ours
    system: Any = problem.system
    gravity = dynamics.gravity_forces(system.model, problem.x0[: system.nq])
    u = np.linalg.lstsq(system.actuation.B, gravity, rcond=None)[0]
    if pair.limits is not None:
        u = np.clip(u, *pair.limits)
    us = np.tile(u, (problem.horizon, 1))
    xs = system.rollout(problem.x0, us)
    return Start("still", xs, to_pinocchio(_model(pair), xs), us, True)


def example(pair: Pair) -> Start:
    """The start with gaps."""
    problem, neutral = pair.ours, pair.theirs.runningModels[0].state.zero()
    knots = problem.horizon + 1
    ours = np.tile(from_pinocchio(_model(pair), neutral), (knots, 1))
    return Start("example", ours, np.tile(neutral, (knots, 1)), np.zeros((problem.horizon, problem.system.nu)), False)


def _model(pair):
    return pair.theirs.runningModels[0].state.pinocchio
