"""Random starts: other initial controls for a problem, so that both solvers face the same optimum from elsewhere.

The initial state stays, for costs are compared between starts.  Where the controls come from, by what is known:

- a problem's own ``perturbed_start(rng, horizon)``, controls (N, nu);
- a robot with a motor at every joint: the torques of a random motion, by inverse dynamics, whose accelerations are
  those of the perturbed starts of `experiments.convergence`: normal noise of 1 or 5 rad/s^2, held for a tenth of the
  horizon at a time;
- controls with limits: the problem's own and normal noise, a tenth of half the distance between their limits;
- else the problem's own and normal noise of one unit of the control.

A start is a function of the seed and its number alone.  Wild starts are so many times as far from the problem's own.
"""

import importlib
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

import dynamics
import problems
import trajopt
from experiments.convergence.starts import KINDS, PIECES, kind_of

SOLVERS = {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()}
LIMITS_SHARE = 0.1
UNLIMITED = 1.0
WARM_ITERATIONS = 60
"""Enough for every kernel of a solve to have run."""

Parameter = tuple[str, int, int, str, float]
"""Name of a problem, number of the start, seed, name of the solver, and how many times the usual spread."""


@dataclass(frozen=True)
class Both:
    """Both solvers as one: a start is solved by the one whose name its problem has.

    So they take turns in a worker, and what else the machine does in the meantime befalls both alike.
    """

    ilqr: Any = SOLVERS["ilqr"]
    ddp: Any = SOLVERS["ddp"]

    def solve(self, problem: trajopt.Problem) -> trajopt.Solution:
        """Solve a start."""
        return getattr(self, problem.name).solve(problem)


def make_start(parameter: Parameter) -> trajopt.Problem:
    """The problem from one start, named after the solver that is to solve it.

    The first of a problem in a process also loads its kernels, outside any solve.
    """
    name, number, seed, solver, times = parameter
    warm_up(name)
    problem = problems.make(name)
    return replace(problem, us_init=controls(name, problem, number, seed, times), name=solver)


@cache
def warm_up(name: str) -> None:
    """Solve the problem once by every solver."""
    for solver in SOLVERS.values():
        replace(solver, max_iterations=WARM_ITERATIONS).solve(problems.make(name))


def controls(name: str, problem: trajopt.Problem, number: int, seed: int, times: float = 1.0) -> np.ndarray:
    """Initial controls (N, nu) of a start, so many times as far from the problem's own as they usually are."""
    us = _controls(name, problem, number, seed)
    return us if times == 1.0 else problem.us_init + times * (us - problem.us_init)


def _controls(name: str, problem: trajopt.Problem, number: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, number])
    module = importlib.import_module(f"problems.{name}")
    if hasattr(module, "perturbed_start"):
        return module.perturbed_start(rng, problem.horizon)
    if has_motor_everywhere(problem.system):
        return torques_of_a_motion(problem, KINDS[kind_of(number)].acceleration, rng)
    return problem.us_init + noise(problem) * rng.standard_normal(problem.us_init.shape)


def has_motor_everywhere(system: Any) -> bool:
    """Whether this is a robot whose controls are the torques of all its joints."""
    return isinstance(system, dynamics.RigidBodySystem) and system.actuation.skip == 0


def torques_of_a_motion(problem: trajopt.Problem, size: float, rng: np.random.Generator) -> np.ndarray:
    """Torques (N, nv) of a motion with normal accelerations of this size [rad/s^2] from the initial state."""
    system: Any = problem.system
    robot, N = system.model, problem.horizon
    a = size * rng.standard_normal((PIECES, robot.nv))[np.arange(N) * PIECES // N]
    q, v = np.empty((N, robot.nq)), problem.x0[robot.nq :] + system.dt * np.vstack([0.0 * a[:1], a[:-1].cumsum(axis=0)])
    q[0] = problem.x0[: robot.nq]
    for t in range(1, N):
        q[t] = dynamics.integrate(robot, q[t - 1], system.dt * v[t])
    return dynamics.inverse_dynamics(robot, q, v, a)


def noise(problem: trajopt.Problem) -> np.ndarray:
    """Standard deviations (N, nu) or (1, nu) from limits, for want of something better."""
    limits = problem.control_limits
    if limits is None:
        return np.full((1, problem.system.nu), UNLIMITED)
    half = 0.5 * (limits[1] - limits[0])
    return np.where(np.isfinite(half), LIMITS_SHARE * half, UNLIMITED)
