"""Random small problems with bad weights, starts, limits and constraints, and what every solve of them must fulfil.

`python -m tests.reference.fuzz FIRST LAST` solves the cases of these seeds and counts how they ended.
"""

import collections
import sys
from typing import Any, NamedTuple

import numpy as np

import dynamics
from experiments.constraints.residuals import Multiplied
from tests.reference import fuzz_checks
from tests.trajopt.systems import CartPole, CirclePendulum, LinearSystem, Pendulum, TipResidual
from trajopt import (
    DDP,
    ILQR,
    ControlBounds,
    ControlCost,
    ControlResidual,
    Problem,
    ResidualConstraint,
    ResidualCost,
    Solution,
    StateBounds,
    StateCost,
    StateResidual,
    Status,
)
from trajopt.backward.expansions import gaps_of
from trajopt.solvers.solve import takes_accelerations
from trajopt.solvers.solver import HESSIANS

EVALUATIONS = 20_000
"""Evaluations of the cost after which a solve counts as one that does not end."""
SYSTEMS = ("linear", "pendulum", "circle", "cartpole", "robot", "inverse robot")
ITERATIONS = 40


class FuzzCase(NamedTuple):
    """A solver, a problem, and where to start: us (N, nu) or None, xs (N+1, nx) or None."""

    solver: Any
    problem: Problem
    us: np.ndarray | None
    xs: np.ndarray | None


class Patient(ControlCost):
    """A cost that refuses to be evaluated for ever."""

    left = EVALUATIONS

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,)."""
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("the solve does not end")
        return super().value(xs, us)


def robot_pendulum(dt: float = 0.05, **options) -> dynamics.RigidBodySystem:
    """A point mass of 1 kg on a rod of 0.5 m, a motor at its pivot."""
    builder = dynamics.ModelBuilder()
    builder.add_body("rod", "world", dynamics.Continuous("y"), mass=1.0, com=(0.0, 0.0, -0.5))
    return dynamics.RigidBodySystem(builder.build(), dt, **options)


def fuzz_case(seed: int) -> FuzzCase:
    """The case of this seed, always the same."""
    rng = np.random.default_rng([7, seed])
    system = _system(rng, SYSTEMS[seed % len(SYSTEMS)])
    N = int(rng.integers(1, 31))
    x0 = _state(system, rng)
    running = [Patient(_weight(rng)), *_state_cost(system, rng, 0.5)]
    if _maybe(rng, 0.2):  # one list for each knot
        running = [running[: int(rng.integers(1, len(running) + 1))] for _ in range(N)]
    terminal = [*_state_cost(system, rng, 0.7), *_curved_cost(system, rng)]
    constraints = _constraints(system, N, rng)
    constraints += _more_of_them(constraints, np.random.default_rng([8, seed]))
    problem = Problem(system, x0, N, running, terminal, constraints, name=f"fuzz {seed}")
    us = 10.0 ** rng.uniform(-2, 3) * rng.standard_normal((N, system.nu)) if _maybe(rng, 0.6) else None
    xs = np.array([_state(system, rng) for _ in range(N + 1)]) if _maybe(rng, 0.5) else None
    return FuzzCase(_solver(rng), problem, us, xs)


def _maybe(rng, share):
    return rng.random() < share


def _weight(rng):
    return 10.0 ** rng.uniform(-6, 6)


def _system(rng, name):
    if name == "linear":
        ndx, nu = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        A = np.eye(ndx) + 0.3 * rng.standard_normal((ndx, ndx))
        return LinearSystem(A, rng.standard_normal((ndx, nu)), dt=0.1)
    if name in ("robot", "inverse robot"):
        return robot_pendulum(formulation="inverse" if name == "inverse robot" else "forward")
    return {"pendulum": Pendulum, "circle": CirclePendulum, "cartpole": CartPole}[name]()


def _state(system, rng):
    x = 10.0 ** rng.uniform(-2, 1) * rng.standard_normal(system.ndx)
    return system.embed(x) if isinstance(system, CirclePendulum) else x


def _state_cost(system, rng, share):
    return [StateCost(system, _state(system, rng), _weight(rng))] if _maybe(rng, share) else []


def _curved_cost(system, rng):
    return [ResidualCost(TipResidual(), _weight(rng))] if isinstance(system, Pendulum) and system.nx == 2 else []


def _limits(rng, shape):
    """Two-sided, one-sided, equal or no limits, sometimes far from the start, ordered."""
    centre, width = rng.standard_normal(shape), 10.0 ** rng.uniform(-2, 1, shape)
    lower, upper = centre - width, centre + width
    lower[rng.random(shape) < 0.2], upper[rng.random(shape) < 0.2] = -np.inf, np.inf
    equal = rng.random(shape) < 0.05
    return np.where(equal, centre, lower), np.where(equal, centre, upper)


def _constraints(system, N, rng):
    constraints: list[Any] = []
    if _maybe(rng, 0.5):
        constraints.append(ControlBounds(*_limits(rng, (N, system.nu) if _maybe(rng, 0.5) else (system.nu,))))
    if _maybe(rng, 0.2):
        constraints.append(StateBounds(system, -5.0 * rng.random(system.ndx) - 0.1, 5.0, _state(system, rng)))
    if _maybe(rng, 0.15):
        constraints.append(ResidualConstraint(StateResidual(system, _state(system, rng)), at="terminal"))
    if _maybe(rng, 0.1):
        constraints.append(ResidualConstraint(ControlResidual(system), *_limits(rng, (system.nu,))))
    if _maybe(rng, 0.2) and isinstance(system, Pendulum) and system.nx == 2:
        constraints.append(ResidualConstraint(TipResidual(), -np.inf, [1.5, np.inf, 2.0]))
    return constraints


def _more_of_them(constraints, rng):
    """One of the constraints again, in other units: redundant, or beyond its own limits, so that the two contradict."""
    chosen = [each for each in constraints if isinstance(each, ResidualConstraint)]
    if not chosen or _maybe(rng, 0.5):
        return []
    one, factor = chosen[rng.integers(len(chosen))], 10.0 ** rng.uniform(-4, 4) if _maybe(rng, 0.5) else 1.0
    lower, upper = one.lower, one.upper
    if _maybe(rng, 0.3):
        beyond = np.isfinite(upper) & _maybe(rng, 0.7)
        lower = np.where(beyond, upper + 0.1 * rng.random(upper.shape) + 1e-3, lower)
        upper = np.where(beyond, np.inf, upper)
    return [ResidualConstraint(Multiplied(one.residual, factor), factor * lower, factor * upper, one.at, "again")]


def _solver(rng):
    options = {
        "max_iterations": ITERATIONS,
        "control_limits": "box" if _maybe(rng, 0.7) else "augmented_lagrangian",
    }
    for share, name, value in (
        (0.1, "initial_regularization", 10.0 ** rng.uniform(-6, 4)),
        (0.1, "max_regularization", 10.0 ** rng.uniform(-6, 4)),
        (0.1, "tolerance", 10.0 ** rng.uniform(-20, -4)),
        (0.1, "soft_penalty", 10.0 ** rng.uniform(-4, 6)),
    ):
        if _maybe(rng, share):
            options[name] = value
    if _maybe(rng, 0.3):
        return ILQR(**options)
    threshold = 1e6 if _maybe(rng, 0.2) else 1e-2
    cost_hessian = "exact" if _maybe(rng, 0.8) else "gauss_newton"
    return DDP(hessian=str(rng.choice(HESSIANS)), cost_hessian=cost_hessian, switch_threshold=threshold, **options)


def complaints(case: FuzzCase, solution: Solution) -> list[str]:
    """What a solution must fulfil however it ended, and does not."""
    found = []
    system, xs, us = case.problem.system, solution.xs, solution.us
    if solution.status not in set(Status):
        found.append(f"status {solution.status!r}")
    for name in ("xs", "us", "k", "K", "Vx", "Vxx", "gaps"):
        if not np.isfinite(getattr(solution, name)).all():
            found.append(f"{name} is not finite")
    if solution.status == "diverged":
        return found
    if not np.isfinite(solution.cost):
        found.append(f"cost {solution.cost}")
    with np.errstate(all="ignore"):
        gaps = gaps_of(case.problem, xs, us)
    size = max(1.0, np.abs(xs).max(), np.abs(system.dt * us).max(), solution.largest_gap)
    if not np.abs(gaps - solution.gaps).max() <= 1e-9 * size:
        found.append(f"gaps are off by {np.abs(gaps - solution.gaps).max():.1e}")
    limits = case.problem.control_limits
    if limits is not None and case.solver.control_limits == "box" and not takes_accelerations(system):
        if (us < limits[0]).any() or (us > limits[1]).any():
            found.append("controls beyond their limits")
        inside = np.minimum(us - limits[0], limits[1] - us)
        if solution.converged and ((inside > 0.0) & (inside < 1e-14 * np.abs(us))).any():
            found.append("converged with controls off their limits by rounding")
    hard = case.solver.soft_penalty == 0.0
    if solution.converged and hard and solution.violation > case.solver.feasibility_tolerance:
        found.append(f"converged with a violation of {solution.violation:.1e}")
    if solution.converged and not solution.consistent:
        found.append(f"converged with a gap of {solution.largest_gap:.1e}")
    costs = solution.history("cost")
    if not np.isfinite(costs).all():
        found.append("a cost in the log is not finite")
    if len(costs) == 0 or not np.isclose(costs[-1], solution.cost, rtol=1e-12):
        found.append("the log does not end with the solution's cost")
    return [*found, *fuzz_checks.complaints(case.solver, solution)]


def run(case: FuzzCase) -> Solution:
    """Solve the case."""
    return case.solver.solve(case.problem, us=case.us, xs=case.xs)


def main(first: int, last: int) -> int:
    """Solve the cases first to last - 1, print what went wrong and how often each status occurred."""
    counts, failures = collections.Counter(), 0
    for seed in range(first, last):
        case = fuzz_case(seed)
        try:
            solution = run(case)
        except Exception as error:
            counts["exception"] += 1
            failures += 1
            print(f"seed {seed}: {type(error).__name__}: {error}")
            continue
        counts[str(solution.status)] += 1
        for complaint in complaints(case, solution):
            failures += 1
            print(f"seed {seed} ({solution.status}): {complaint}")
    print(dict(counts), f"{failures} failures")
    return failures


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])) > 0)
