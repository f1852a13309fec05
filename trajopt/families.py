"""Solutions along a path of parameters: a predictor along the tangent, a solver as corrector, adaptive steps.

The tangent is the derivative of the solution with respect to the position on the path [implicit function theorem],
one column whatever the number of parameters.  A step of length h from a point z with tangent z. is accepted if a
solve from z + h z. converges to a strict minimum nearby,

    |z_new - (z + h z.)|  <=  JUMP |h z.| + NEAR |z|        |.|: the larger one of states and controls, relative

else h is halved, since a solution farther away is on another branch.  The next step is longer or shorter as this
error is below or above its target, and at most half of the way to the extrapolated zero of the smallest eigenvalue of
the reduced Hessian; so points approach a fold geometrically.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynamics.printed import in_brief
from dynamics.validation import as_positive, as_whole_number
from trajopt.optimality.certificate import certificate
from trajopt.optimality.first_order import STEP, Parameters, default_steps, parameters_of
from trajopt.printed import PrintedAsTable, new_table
from trajopt.problem.problem import Problem, check_problem
from trajopt.results.records import Progress, WarmStart
from trajopt.results.sensitivity import Directional, Sensitivity, sensitivity
from trajopt.results.solution import Solution
from trajopt.solvers.solver import DDP

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

# --------------------------------------------------------------------------------------------
# A path of parameters: straight from one given p to the next, one p per unit of the position.


class Path(NamedTuple):
    """Corners of the path, as parameters of the same form; position i is that of corner i."""

    corners: tuple[Parameters, ...]

    @property
    def length(self) -> float:
        """Position of its end."""
        return len(self.corners) - 1.0

    def leg(self, position: float) -> int:
        """Index of the straight part (leg) that begins at or before a position; the last one includes its end."""
        return min(int(position), len(self.corners) - 2)

    def at(self, position: float, leg: int | None = None) -> Any:
        """p at a position, in its form, on the line of a leg if one is given."""
        i = self.leg(position) if leg is None else leg
        a, b, s = self.corners[i].vector, self.corners[i + 1].vector, position - i
        return self.corners[i].at(a + s * (b - a) if s < 1.0 or leg is not None else b)

    def moving(self) -> list[int]:
        """Indices of the numbers of p that change along the path."""
        vectors = np.array([corner.vector for corner in self.corners])
        return np.flatnonzero(np.ptp(vectors, axis=0)).tolist()

    def numbers(self, position: float) -> np.ndarray:
        """The numbers of p at a position."""
        i = self.leg(position)
        a, b = self.corners[i].vector, self.corners[i + 1].vector
        return a + (position - i) * (b - a)

    def problems_along(self, leg: int, make_problem: Callable[[Any], Problem]) -> Callable[[float], Problem]:
        """The problem as a function of the position on the line of a leg."""
        return lambda position: make_problem(self.at(position, leg))

    def difference_step(self, position: float, leg: int) -> float:
        """Step of the position for differences: no number of p moves by more than its step in `sensitivity`."""
        moved = np.abs(self.corners[leg + 1].vector - self.corners[leg].vector)
        steps = default_steps(self.corners[leg]._replace(vector=self.numbers(position)))
        return min(STEP, float(np.min(steps[moved > 0.0] / moved[moved > 0.0])))


def path_of(path: Any) -> Path:
    """The path through a sequence of at least two p, each different from the one before.

    Raises: TypeError, ValueError naming the item.
    """
    if isinstance(path, str | bytes | Mapping) or not isinstance(path, Iterable):
        raise TypeError(f"path: got {type(path).__name__}, expected a sequence of two or more p, from start to end")
    given = [float(p) if isinstance(p, int | np.number) and not isinstance(p, bool) else p for p in path]
    if len(given) < 2:
        raise ValueError(f"path: got {len(given)} p, expected two or more, from start to end")
    corners = []
    for number, p in enumerate(given):
        try:
            corner = parameters_of(p)
        except (TypeError, ValueError) as error:
            raise type(error)(f"path[{number}]: {error}") from None
        first = corners[0] if corners else corner
        if (corner.names, corner.shapes) != (first.names, first.shapes) or type(p) is not type(given[0]):
            raise ValueError(f"path[{number}]: got {p!r}, expected numbers of the form that path[0] has: {given[0]!r}")
        if corners and np.array_equal(corner.vector, corners[-1].vector):
            raise ValueError(f"path[{number}]: got {p!r}, which is path[{number - 1}], expected another")
        corners.append(corner)
    return Path(tuple(corners))


# --------------------------------------------------------------------------------------------
# A family of solutions: the result of a continuation, how it ended, and its table.


SHOWN = 3
"""Largest number of entries of p in a table."""


class Ending(StrEnum):
    """Status at the end of a continuation."""

    COMPLETE = "complete"
    FOLD = "fold"
    BIFURCATION = "bifurcation"
    INFEASIBLE = "infeasible"
    LOST = "lost"
    START_FAILED = "start_failed"
    MAX_POINTS = "max_points"


class SingularPoint(NamedTuple):
    """Estimate of the point at which the branch becomes singular: position on the path, p there, and the difference of
    the position from the estimate without the last point."""

    position: float
    p: Any
    spread: float

    def __repr__(self) -> str:
        return in_brief(self)


@dataclass(frozen=True)
class Continuation(PrintedAsTable):
    """Solutions along a path of parameters; prints as a table.  See `trajopt.continuation`.

    Attributes
    ----------
    status, message : how it ended, as a name and as a sentence: "complete"; "fold", the branch turns back;
        "bifurcation", it becomes singular without turning back; "infeasible", near the last point no solution meets the
        constraints further on; "lost", correctors find nothing near the prediction, however short the step;
        "start_failed", there is no strict minimum to begin with; "max_points"
    positions : (K,) positions on the path, i at path[i]
    parameters : K p, in the form of the path's
    numbers : (K, P) the numbers of p that change along the path
    labels : (P,) their names
    solutions : K Solutions
    tangents : K derivatives of xs, us and multipliers by the position, in the direction of the path
    smallest_eigenvalues : (K,) of the certificates, relative to the controls' own cost
    iterations : (K,) iterations of the corrector, from the prediction
    refused : (K,) numbers of longer steps that were rejected before each point
    pressing : (K,) numbers of active limits
    switched : (K,) numbers of limits that became active or inactive since the point before
    jumped : (K,) True where a branch ended and the solution is on another one; see `jumps` of `trajopt.continuation`
    singular : SingularPoint, or None unless the status is "fold" or "bifurcation"
    cold, warm : the problems solved again, from their own start and from the solution before; see `with_restarts`
    """

    status: Ending
    message: str
    positions: np.ndarray = field(repr=False)
    parameters: tuple[Any, ...] = field(repr=False)
    numbers: np.ndarray = field(repr=False)
    labels: tuple[str, ...]
    solutions: tuple[Solution, ...] = field(repr=False)
    tangents: tuple[Directional, ...] = field(repr=False)
    smallest_eigenvalues: np.ndarray = field(repr=False)
    iterations: np.ndarray = field(repr=False)
    refused: np.ndarray = field(repr=False)
    pressing: np.ndarray = field(repr=False)
    switched: np.ndarray = field(repr=False)
    jumped: np.ndarray = field(repr=False)
    singular: SingularPoint | None
    solver: Any = field(repr=False)
    path: Path = field(repr=False)
    cold: tuple[Solution, ...] | None = field(default=None, repr=False)
    warm: tuple[Solution, ...] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return in_brief(
            self, status=str(self.status), points=len(self), positions=self.positions[[0, -1]] if len(self) else ()
        )

    def __len__(self) -> int:
        return len(self.solutions)

    @property
    def complete(self) -> bool:
        """True if the end of the path was reached."""
        return self.status is Ending.COMPLETE

    @property
    def costs(self) -> np.ndarray:
        """Costs (K,) of the solutions."""
        return np.array([solution.cost for solution in self.solutions])

    def with_restarts(self) -> Continuation:
        """The continuation with every problem solved again without predictions: from its own start (`cold`), and from
        the solution before it (`warm`)."""
        cold = tuple(self.solver.solve(one.problem) for one in self.solutions)
        before = (None, *self.solutions[:-1])
        pairs = zip(self.solutions, before, strict=True)
        warm = tuple(self.solver.solve(one.problem, warm_start=start) for one, start in pairs)
        return replace(self, cold=cold, warm=warm)

    def plot(self, path: str | FilePath | None = None) -> Figure:
        """Cost, eigenvalue, iterations and limits along the path; see `trajopt.plot_continuation`."""
        from trajopt.plotting import plot_continuation

        return plot_continuation(self, path)

    def table(self) -> Table:
        """Table with one row per point."""
        name = self.solutions[0].problem.name if self.solutions else "continuation"
        table = new_table(f"{name}: {len(self)} points, {self.status}", self.message)
        again = {"cold": self.cold, "warm": self.warm}
        again = {heading: solved for heading, solved in again.items() if solved is not None}
        for heading in ("position", *self.labels[:SHOWN], "cost", "smallest\neigenvalue", "pressing\n(switched)",
                        "refused\nsteps", "itera-\ntions", *again):  # fmt: skip
            table.add_column(heading, justify="right", no_wrap=True)
        for k, solution in enumerate(self.solutions):
            place = f"{'jump to ' if self.jumped[k] else ''}{self.positions[k]:.5g}"
            table.add_row(
                place, *(f"{number:.5g}" for number in self.numbers[k, :SHOWN]),
                f"{solution.cost:.8g}", f"{self.smallest_eigenvalues[k]:.3g}",
                f"{self.pressing[k]} ({self.switched[k]})", str(self.refused[k]), str(self.iterations[k]),
                *(_as_iterations(solved[k], solution) for solved in again.values()),
            )  # fmt: skip
        return table


def _as_iterations(again: Solution, solution: Solution) -> str:
    """The number of iterations; "worse" or "better" if another minimum was found, "failed" if none."""
    if not again.converged:
        return "[red]failed"
    off = again.cost - solution.cost
    if abs(off) <= 1e-6 * abs(solution.cost):
        return str(again.iterations)
    return f"{again.iterations} ({'worse' if off > 0.0 else 'better'})"


# --------------------------------------------------------------------------------------------
# Estimate of the singular point of a branch of solutions from the points before.
#
# Near a fold at s* the solutions move as the square root of s* - s: so does the smallest eigenvalue of the reduced
# Hessian, hence its square falls linearly, and so does the inverse square of the tangent's length.  At a bifurcation
# the eigenvalue falls linearly and the tangent stays finite.  In both cases s is a smooth function near zero of the
# falling quantity e, the eigenvalue or the inverse length,
#
#     s = s* + a e + b e^2 + ...        a = 0 at a fold
#
# whose value at e = 0 is extrapolated from the last three points.


def remaining(positions: Sequence[float], falling: Sequence[float]) -> float:
    """Distance from the last position to the zero of the squared falling quantity, extrapolated linearly; inf if it
    grows."""
    if len(positions) < 2 or not falling[-1] < falling[-2] < np.inf:
        return np.inf
    before, last = (e * e for e in falling[-2:])
    return last * (positions[-1] - positions[-2]) / (before - last)


def singular_position(positions: Sequence[float], falling: Sequence[float]) -> float:
    """s at e = 0 by extrapolation through the last points, three at most, of s as a polynomial in e; through two, in
    e^2."""
    s, e = (np.array(values[-3:]) for values in (positions, falling))
    if not (len(s) == 3 and np.inf > e[0] > e[1] > e[2]):
        return float(positions[-1] + remaining(positions, falling))
    weights = [np.prod([e[j] / (e[j] - e[i]) for j in range(3) if j != i]) for i in range(3)]
    return float(np.dot(weights, s))


# --------------------------------------------------------------------------------------------
# The continuation.

JUMP, NEAR = 0.5, 0.02
TARGET_ERROR = 0.2
"""Target of the predictor's error, in units of |h z.| + NEAR |z|."""
LONGER, SHORTER = 2.0, 0.5
BEFORE = 0.5
"""Largest step, as a fraction of the distance to the extrapolated zero eigenvalue."""
LEAST_SIZE = 1e-6
"""Least size of a solution for relative changes, SI units: one that stands still has none of its own."""
SETTLED, FALLEN = 5.0, 0.8
"""A continuation stopped at a singular point if that is at most SETTLED smallest steps ahead, and the falling quantity
dropped to the fraction FALLEN in the last three points."""


class BranchPoint(NamedTuple):
    """A solution on the path: its derivatives, tangent, the tangent's length, and its smallest eigenvalue."""

    position: float
    leg: int
    solution: Solution
    derivatives: Sensitivity
    tangent: Directional
    length: float
    eigenvalue: float
    refused: int
    jumped: bool = False

    def held(self) -> np.ndarray:
        """Sides of all active limits, -1, 0 or 1."""
        rows, controls = self.derivatives.point.held
        return np.concatenate([rows.ravel(), controls.ravel()])


class RejectedStep(NamedTuple):
    """Reason for the rejection of a step: the status of a corrector that did not converge, or another one."""

    reason: str
    infeasible: bool = False


def continuation(
    make_problem: Callable[[Any], Problem],
    path: Iterable[Any],
    solver: Any = None,
    *,
    start: WarmStart | Solution | None = None,
    first_step: float = 0.1,
    longest_step: float = 0.25,
    smallest_step: float = 1e-4,
    max_iterations: int = 50,
    max_points: int = 200,
    jumps: int = 0,
) -> Continuation:
    """Follow the solution of a problem while its parameters move, as far as it exists.

    From a solved problem it leads to those that a solve from scratch fails at, or solves by another minimum, and to the
    end of a branch of solutions.  Parameters move along straight lines from one p of the path to the next; for any
    other curve c pass `lambda s: make_problem(c(s))` and the path (0.0, 1.0), and for numbers that change by orders of
    magnitude their logarithms.

    Where contacts are stiff or minima many, branches are short, since plans change in kind: `jumps` lets the
    continuation go on from what a solve finds from the last point, as a loop with warm starts does, further along the
    path.

    Parameters
    ----------
    make_problem : function of p that returns a Problem, as for `sensitivity`; it is called slightly beyond the ends of
        the path, too, for differences
    path : two or more p, from start to end, all of which are solved: numbers, arrays, mappings or dataclasses of
        numbers and arrays; other entries are constants
    solver : ILQR or DDP, for the start and as corrector; by default DDP()
    start : start of the first solve
    first_step, longest_step, smallest_step : steps of the position, which moves by 1 from one p of the path to the next
    max_iterations : limit for a corrector; one that takes more is repeated with half the step
    max_points : largest number of points on the path
    jumps : largest number of branches that it may go on from when one ends; each begins at most `first_step` after the
        end of the one before, with a solve that may take as many iterations as the solver allows

    Returns
    -------
    Continuation; its `status` says how it ended, "complete" at the end of the path.  No end is an exception.

    Raises
    ------
    TypeError, ValueError : naming the argument; and errors of make_problem.
    """
    if not callable(make_problem):
        raise TypeError(f"make_problem: got {type(make_problem).__name__}, expected a function of p")
    steps = {"first_step": first_step, "longest_step": longest_step, "smallest_step": smallest_step}
    first, longest, least = (as_positive(name, value) for name, value in steps.items())
    if not least <= first <= longest:
        raise ValueError(f"first_step: got {first}, expected one from smallest_step {least} to longest_step {longest}")
    as_whole_number("max_iterations", max_iterations, 1)
    as_whole_number("max_points", max_points, 1)
    as_whole_number("jumps", jumps, 0)
    solver = DDP() if solver is None else solver
    if isinstance(solver, type) or not callable(getattr(solver, "solve", None)):
        raise TypeError(f"solver: got {solver!r}, expected a solver such as trajopt.DDP()")
    follower = Follower(make_problem, path_of(path), solver, max_iterations)
    return follower.follow(start, first, longest, least, max_points, jumps)


class Follower:
    """The continuation: its data that do not change along a path, and the loop."""

    def __init__(self, make_problem: Callable, path: Path, solver: Any, max_iterations: int) -> None:
        self.make_problem, self.path, self.solver, self.most = make_problem, path, solver, max_iterations

    def follow(
        self, start: WarmStart | Solution | None, first: float, longest: float, least: float, most: int, jumps: int
    ) -> Continuation:
        """Follow the path from its start, over at most `jumps` ends of branches."""
        problem = self.make_problem(self.path.at(0.0))
        check_problem(problem)
        found = self._point(0.0, self.solver.solve(problem, warm_start=start), 0)
        if isinstance(found, RejectedStep):
            return self._record([], Ending.START_FAILED, f"No start: {found.reason}.")
        points, branch, step, refused, last = [found], 0, first, 0, RejectedStep("")  # the branch begins at this point
        while points[-1].position < self.path.length:
            if len(points) >= most:
                return self._record(points, Ending.MAX_POINTS, f"{most} points did not reach the end of the path.")
            here = points[-1]
            ahead = min(step, here.leg + 1.0 - here.position)
            if here.leg + 1.0 - here.position - ahead < least:  # the rest is at least the smallest step
                ahead = here.leg + 1.0 - here.position
            tried = self._step(here, ahead, refused)
            if isinstance(tried, RejectedStep):
                refused, step, last = refused + 1, SHORTER * ahead, tried
            else:
                new, factor = tried
                points.append(new)
                step = min(max(step if ahead < step else least, ahead * factor), longest)
                refused = 0
            own = points[branch:]
            way = remaining([p.position for p in own], [p.eigenvalue for p in own])
            if len(own) > 1 and own[-2].leg == own[-1].leg:
                step = min(step, BEFORE * way)
            if step >= least or points[-1].position >= self.path.length:
                continue
            other = self._beyond(points[-1], first, least, refused) if jumps > 0 else None
            if other is None:
                return self._stopped(points, branch, least, last)
            points.append(other)
            branch, step, refused, jumps = len(points) - 1, first, 0, jumps - 1
        over = sum(p.jumped for p in points)
        how = f", over {over} end{'s' if over > 1 else ''} of branches" if over else ""
        return self._record(points, Ending.COMPLETE, f"The end of the path was reached{how}.")

    def _beyond(self, here: BranchPoint, first: float, least: float, refused: int) -> BranchPoint | None:
        """A solution on another branch, found from the last one, as far on as a first step goes or nearer."""
        ahead = first
        while ahead >= least:
            position = min(here.position + ahead, here.leg + 1.0)
            solution = self.solver.solve(self.make_problem(self.path.at(position)), warm_start=here.solution)
            found = self._point(position, solution, refused)
            if isinstance(found, BranchPoint):
                return found._replace(jumped=True)
            ahead *= SHORTER
        return None

    # -------------------------------------------------------------------------------------------- one step
    def _step(self, here: BranchPoint, ahead: float, refused: int) -> tuple[BranchPoint, float] | RejectedStep:
        """The next point, and the factor of the next step's length; or the reason for the rejection."""
        whole = here.leg + 1.0 - here.position <= ahead
        position = here.leg + 1.0 if whole else here.position + ahead
        predicted = here.derivatives.predict(ahead)
        problem = self.make_problem(self.path.at(position))
        solution = self.solver.solve(problem, warm_start=predicted, callback=self._too_many)
        if not solution.converged:
            return RejectedStep(f"the corrector ended as '{solution.status}'", solution.status == "infeasible")
        system, size = problem.system, _sizes(here.solution, solution)
        off = system.difference(predicted.xs, solution.xs), solution.us - predicted.us
        error, moved = _length(off, size), _length((ahead * here.tangent.xs, ahead * here.tangent.us), size)
        if error > JUMP * moved + NEAR:
            return RejectedStep("the corrector ended far from the prediction")
        found = self._point(position, solution, refused)
        if isinstance(found, RejectedStep):
            return found
        factor = TARGET_ERROR * (moved + NEAR) / max(error, 1e-300)
        return found, min(max(factor, SHORTER), LONGER if refused == 0 else 1.0)

    def _too_many(self, progress: Progress) -> bool:
        return progress.record.iteration >= self.most

    def _point(self, position: float, solution: Solution, refused: int) -> BranchPoint | RejectedStep:
        """A solution with its second order; rejected unless it is a strict minimum."""
        if not solution.converged:
            return RejectedStep(f"the solve ended as '{solution.status}'")
        leg = self.path.leg(position)
        make, h = self.path.problems_along(leg, self.make_problem), self.path.difference_step(position, leg)
        try:
            derivatives = sensitivity(make, float(position), solution, steps=h)
            tangent = derivatives.directional(1.0)
        except (ValueError, RuntimeError) as error:
            return RejectedStep(f"the solve ended where there is no derivative: {error}")
        found = certificate(derivatives.point)
        if found.minimum is not True:
            return RejectedStep("the solve ended at what is no strict minimum")
        length = _length((tangent.xs, tangent.us), _sizes(solution, solution))
        return BranchPoint(position, leg, solution, derivatives, tangent, length, found.smallest_eigenvalue, refused)

    # -------------------------------------------------------------------------------------------- the end
    def _stopped(self, points: list[BranchPoint], branch: int, least: float, last: RejectedStep) -> Continuation:
        """The end of a continuation in which no step is possible, with its reason; `branch`: the first point of the
        last branch."""
        leg = [p for p in points[branch:] if p.leg == points[-1].leg]
        s = [p.position for p in leg]
        ends = {
            Ending.FOLD: ([1.0 / p.length if p.length > 0.0 else np.inf for p in leg], "turns back at a fold"),
            Ending.BIFURCATION: ([p.eigenvalue for p in leg], "meets others or ends, at a bifurcation"),
        }
        for status, (falling, what) in ends.items():
            near = SETTLED * least
            if len(leg) < 3 or not (falling[-1] < FALLEN * falling[-3] and remaining(s, falling) <= near):
                continue
            found, before = singular_position(s, falling), singular_position(s[:-1], falling[:-1])
            if s[-1] < found <= s[-1] + near and abs(found - before) <= near:
                singular = SingularPoint(found, self.path.at(found, leg[-1].leg), abs(found - before))
                return self._record(points, status, f"The branch {what}, near position {found:.8g}.", singular)
        text = f"Beyond position {s[-1]:.6g} no step of {least:g} succeeds: {last.reason}."
        return self._record(points, Ending.INFEASIBLE if last.infeasible else Ending.LOST, text)

    def _record(
        self, points: list[BranchPoint], status: Ending, message: str, singular: SingularPoint | None = None
    ) -> Continuation:
        path, moving = self.path, self.path.moving()
        held = [p.held() for p in points]
        labels, positions = path.corners[0].labels(), np.array([p.position for p in points])
        return Continuation(
            status, message, positions, tuple(path.at(s) for s in positions),
            np.array([path.numbers(s)[moving] for s in positions]).reshape(len(points), len(moving)),
            tuple(labels[i] for i in moving), tuple(p.solution for p in points), tuple(p.tangent for p in points),
            np.array([p.eigenvalue for p in points]), np.array([p.solution.iterations for p in points], int),
            np.array([p.refused for p in points], int), np.array([np.count_nonzero(h) for h in held], int),
            np.array([np.count_nonzero(h != held[max(k - 1, 0)]) for k, h in enumerate(held)], int),
            np.array([p.jumped for p in points], bool), singular,
            self.solver, path,
        )  # fmt: skip


def _sizes(a: Solution, b: Solution) -> tuple[float, float]:
    """Sizes of the states' motion and of the controls, the larger ones of two solutions, at least LEAST_SIZE."""
    xs = [one.problem.system.difference(one.xs[:1].repeat(len(one.xs), 0), one.xs) for one in (a, b)]
    moves, forces = (max(map(np.linalg.norm, pair)) for pair in (xs, (a.us, b.us)))
    return max(float(moves), LEAST_SIZE), max(float(forces), LEAST_SIZE)


def _length(change: tuple[np.ndarray, np.ndarray], sizes: tuple[float, float]) -> float:
    """The larger one of the changes of states and controls, relative to their sizes."""
    return max(float(np.linalg.norm(part)) / size for part, size in zip(change, sizes, strict=True))
