"""Solvers of both libraries under one interface: run so many iterations, then say where that led, or each of them.

Counting.  An iteration is one step tried, in all of them.  Crocoddyl's counter is one short when it stops by itself;
mim_solvers' is not.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import crocoddyl  # pyright: ignore[reportMissingImports]
import numpy as np

import trajopt
from experiments.peers.pair import Pair
from experiments.peers.starts import Start

try:
    import mim_solvers  # pyright: ignore[reportMissingImports]
except ImportError:  # it is not in the `peers` extra
    mim_solvers = None

AT_ONCE = 1e300
"""A switch threshold that every predicted decrease is below."""
NEVER = 1e-30
"""A stopping tolerance that is not reached."""
QP_TOLERANCE = 1e-10
"""Of the inner solver of mim_solvers' CSQP; its default, 1e-4, ends far from the optimum where limits are active."""


class Outcome(NamedTuple):
    """Cost; largest gap between knots or excess over the limits; steps tried; whether the solver was satisfied.

    `kinds`: the kind of every step, "gauss_newton" or "exact".
    """

    cost: float
    infeasibility: float
    iterations: int
    converged: bool
    kinds: tuple[str, ...]


class Contestant(Protocol):
    """A solver on one problem from one start."""

    def run(self, iterations: int, own_stop: bool = False) -> None:
        """Try this many steps; fewer if the solver's own test, at its default tolerance, is to end the solve."""
        ...

    def outcome(self) -> Outcome:
        """Of the last run."""
        ...

    def path(self, iterations: int) -> list[Outcome]:
        """Outcomes after 0, 1, 2 ... iterations of one run of at most this many."""
        ...


class Ours:
    """A solver of this library; its default tolerance is at rounding, so that every run ends by it."""

    def __init__(self, solver: Any, problem: trajopt.Problem, start: Start, limits: Any):
        self.solver, self.problem, self.limits = solver, problem, limits
        self.start = start

    def run(self, iterations: int, own_stop: bool = False) -> None:
        """Solve."""
        solver, start = replace(self.solver, max_iterations=iterations), self.start
        states = {} if start.feasible else {"xs": start.ours}
        self.solution = solver.solve(self.problem, start.us, **states)

    def exact_tail(self, iterations: int) -> "Ours":
        """The same problem from where `iterations` steps lead, with exact steps from the second on."""
        self.run(iterations)
        start = self.start._replace(us=self.solution.us, ours=self.solution.xs, feasible=True)
        return Ours(exact_at_once(), self.problem, start, self.limits)

    def outcome(self) -> Outcome:
        """Of the last run."""
        s, system = self.solution, self.problem.system
        ends = np.vstack([self.problem.x0, system.step(s.xs[:-1], s.us)])
        gaps = system.difference(ends, s.xs)
        kinds = tuple(str(kind) for kind in s.history("step")[: s.iterations])
        worst = max(float(np.abs(gaps).max()), excess(s.us, self.limits))
        return Outcome(s.cost, worst, s.iterations, s.converged, kinds)

    def path(self, iterations: int) -> list[Outcome]:
        """One run, of which the log has cost, gap and violation of every iterate."""
        self.run(iterations)
        end = self.outcome()
        return [
            Outcome(r.cost, max(r.gap, r.violation), r.iteration, False, end.kinds[: r.iteration])
            for r in self.solution.log[:-1]
        ] + [end]


class Theirs:
    """A solver of Crocoddyl, or of mim_solvers, with its defaults."""

    def __init__(self, make: Callable[[Any], Any], problem: Any, start: Start, limits: Any):
        self.solver, self.limits = make(problem), limits
        self.xs, self.feasible = list(start.theirs), start.feasible
        self.us = controls_for(problem, start.us)
        self.counts_last = not hasattr(self.solver, "termination_tolerance")
        self.tolerance = "th_stop" if self.counts_last else "termination_tolerance"
        self.default = getattr(self.solver, self.tolerance)

    def run(self, iterations: int, own_stop: bool = False) -> None:
        """Solve."""
        setattr(self.solver, self.tolerance, self.default if own_stop else NEVER)
        self.finished = self.solver.solve(self.xs, self.us, iterations, self.feasible)

    def outcome(self) -> Outcome:
        """Of the last run."""
        iterations = self.solver.iter + (self.finished and self.counts_last)
        return self._outcome(self.solver.xs.tolist(), self.solver.us.tolist(), iterations, self.finished)

    def path(self, iterations: int) -> list[Outcome]:
        """One run with a callback: Crocoddyl calls after a step, mim_solvers before."""
        keeper = _keeper(crocoddyl if self.counts_last else mim_solvers, self.counts_last)
        self.solver.setCallbacks([keeper])
        self.run(iterations)
        self.solver.setCallbacks([])
        end, passed = self.outcome(), {0: (self.xs, self.us)} | keeper.iterates
        return [self._outcome(xs, us, i, False) for i, (xs, us) in sorted(passed.items()) if i < end.iterations] + [end]

    def _outcome(self, xs: list[np.ndarray], us: list[np.ndarray], iterations: int, finished: bool) -> Outcome:
        problem = self.solver.problem
        cost = problem.calc(xs, us)
        states = [model.state for model in problem.runningModels]
        ends = [data.xnext for data in problem.runningDatas]
        gaps = [state.diff(x, end) for state, x, end in zip(states, xs[1:], ends, strict=True)]
        gaps.append(states[0].diff(problem.x0, xs[0]))
        beyond = 0.0 if self.limits is None else excess(np.array(us), self.limits)
        worst = max(float(np.abs(gaps).max()), beyond)
        return Outcome(cost, worst, iterations, finished, ("gauss_newton",) * iterations)


def _keeper(library: Any, after: bool) -> Any:
    """A callback of Crocoddyl or mim_solvers that keeps iterations -> states, controls; `after` a step or before it."""

    class Keeper(library.CallbackAbstract):
        def __init__(self):
            library.CallbackAbstract.__init__(self)
            self.iterates = {}

        def __call__(self, solver, *_):
            self.iterates[solver.iter + after] = solver.xs.tolist(), solver.us.tolist()

    return Keeper()


def controls_for(problem: Any, us: np.ndarray) -> list[np.ndarray]:
    """Controls (N, nu) as Crocoddyl's problem takes them: none at an impact."""
    return [u[: model.nu] for u, model in zip(us, problem.runningModels, strict=True)]


def excess(us: np.ndarray, limits: Any) -> float:
    """How far controls are outside their limits; zero without limits."""
    if limits is None:
        return 0.0
    lower, upper = limits
    return float(max(0.0, np.max(lower - us), np.max(us - upper)))


def contestants(pair: Pair, start: Start) -> dict[str, Contestant]:
    """Every solver that fits the problem, theirs first."""
    result: dict[str, Contestant] = {
        name: Theirs(make, pair.theirs, start, pair.limits) for name, make in _peers(pair.limits).items()
    }
    solvers = {"ILQR": trajopt.ILQR(), "DDP": trajopt.DDP(), "DDP exact at once": exact_at_once()}
    statements = {"": pair.ours} if pair.inverse is None else {"": pair.ours, " inverse": pair.inverse}
    for suffix, problem in statements.items():
        result |= {name + suffix: Ours(solver, problem, start, pair.limits) for name, solver in solvers.items()}
    return result


def exact_at_once() -> trajopt.DDP:
    """DDP with exact steps from the second on: before the first there is no prediction to compare with a threshold."""
    return trajopt.DDP(switch_threshold=AT_ONCE)


def _peers(limits) -> dict[str, Callable[[Any], Any]]:
    """Constructors by name; the first is what the ratios refer to."""
    if limits is None:
        result = {"Crocoddyl FDDP": crocoddyl.SolverFDDP, "Crocoddyl DDP": crocoddyl.SolverDDP}
    else:
        result = {"Crocoddyl BoxFDDP": crocoddyl.SolverBoxFDDP, "Crocoddyl BoxDDP": crocoddyl.SolverBoxDDP}
    if mim_solvers is not None:
        result["mim CSQP"] = _csqp
    return result


def _csqp(problem):
    solver = mim_solvers.SolverCSQP(problem)
    solver.eps_abs, solver.eps_rel = QP_TOLERANCE, 0.0
    return solver
