"""Error of a plan's integrator: distance of the plan from the motion of its controls in continuous time.

The reference is the system's own dynamics in k finer steps Phi_k with the controls held.  A step of the plan errs by

    e_t = difference(f(x_t, u_t), Phi_k(x_t, u_t))

times 1/(1 - k^-p), where f and Phi are one method of order p (Richardson's extrapolation), and the plan's own
linearization propagates it,

    E_0 = 0        E_(t+1) = fx_t E_t + e_t        with gains: fx_t + fu_t K_t in place of fx_t,

E_t being the tangent from the planned state to the true one.  Impacts, which take no time, have no error.

Where a system can be simulated again in continuous time (`resimulated` of `trajopt.capabilities.Steps`: soft robots, by
a stiff solver at tight tolerances) that is the reference, unless a number of substeps is asked for: E_t then is
computed by executing the controls from the start, without a linearization, and e_t from several substeps.

An error is compared with the largest motion in its unit, as relative errors of vectors are: the error of a joint that
stands still with the motion of those that move.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dynamics.printed import in_brief
from dynamics.validation import as_whole_number
from trajopt.capabilities import Contacts, Expansions, Joints, Steps, capability
from trajopt.interfaces.system import System, tangent_names, tangent_units
from trajopt.results.advice import called
from trajopt.results.dense_output import deviations, fine_rows, finer, inside_knots, roll_out_finely
from trajopt.results.policy import planned_problem
from trajopt.results.records import SolutionData

NOTABLE, AWAY = 0.1, 100.0
"""A plan's error is reported above NOTABLE times its own motion; a plan runs away whose error exceeds AWAY times its
motion, and AWAY units."""
LARGE = 1.0
"""Deviation, rad or m, above which the linearization is not valid."""
DISPLACED = ("rad", "m")
GROWTH = 1e3
"""Ratio of the closed-loop error to the sum of all local errors above which the linearization is not valid."""
LEAST_RANGE, SHARE = 1e-3, 0.1
"""Ranges are at least LEAST_RANGE in their unit; where units are not known, at least the fraction SHARE of the largest
displacement or velocity."""
SUBSTEPS, SEVERAL = 2, 8
TRIED = (SUBSTEPS, SEVERAL, 32)
"""Numbers of substeps, tried in turn where the dynamics are too stiff for fewer."""


@dataclass(frozen=True, eq=False)
class DiscretizationError:
    """Errors of a plan's integrator, as tangent vectors from the planned states to the true ones; made by
    `Solution.discretization_error`.

    Attributes
    ----------
    local : (N, ndx) array
        Error of one step from each planned state.
    open_loop, closed_loop : (N+1, ndx) arrays
        Errors at the knots if the planned controls are executed from the initial state on, without and with the gains;
        without limits of controls.  Infinite from where the motion runs away.
    scale : (ndx,) array
        Ranges that the errors of each component are compared with: the largest range of a component with its unit;
        its own where units are not known, at least a tenth of the largest displacement or velocity.  At least 1e-3.
    order, substeps : int
        Order of the plan's integrator, and substeps of the reference; 0 substeps if the reference of both loops is
        continuous time, and that of single steps eight finer ones.
    beyond_linearization : bool
        True if the errors are too large to be predicted (displacements over 1 rad or m, or closed-loop errors over 1e3
        times the sum of the local ones): those of both loops then come from a rollout in finer steps, as they always do
        with continuous time.
    components, units : tuples of str
        Names (ndx,), empty if the system has none, and units (ndx,), "" where they are not known.
    """

    local: np.ndarray = field(repr=False)
    open_loop: np.ndarray = field(repr=False)
    closed_loop: np.ndarray = field(repr=False)
    scale: np.ndarray = field(repr=False)
    order: int
    substeps: int
    beyond_linearization: bool
    components: tuple[str, ...] = field(default=(), repr=False)
    units: tuple[str, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        loops = {"open_loop": False, "closed_loop": True}
        said = {name: self.in_words(feedback).removeprefix("is ") for name, feedback in loops.items()}
        return in_brief(self, "order", "substeps", "beyond_linearization", **said)

    @property
    def relative(self) -> float:
        """Largest ratio of an open-loop error to the `scale` of its component."""
        return float((np.abs(self.open_loop) / self.scale).max())

    @property
    def relative_closed_loop(self) -> float:
        """Largest ratio of a closed-loop error to the `scale` of its component."""
        return float((np.abs(self.closed_loop) / self.scale).max())

    @property
    def worst_knot(self) -> int:
        """The knot whose step has the largest error, relative to `scale`: where shorter steps would help."""
        return int(np.argmax((np.abs(self.local) / self.scale).max(axis=1)))

    @property
    def worst_component(self) -> int:
        """The component of the tangent whose open-loop error is largest, relative to `scale`."""
        return int(np.argmax((np.abs(self.open_loop) / self.scale).max(axis=0)))

    def in_words(self, feedback: bool) -> str:
        """The largest error with the gains or without, such as "is off by 0.1 rad ('elbow' at knot 40), 5 % of ..."."""
        E = np.abs(self.closed_loop if feedback else self.open_loop)
        knot, i = np.unravel_index(np.argmax(E / self.scale), E.shape)
        part = float(E[knot, i] / self.scale[i])
        if _runs_away(E[knot, i], self.scale[i]):
            return "runs away"
        unit = self.units[i] if self.units else ""
        least = self.scale[i] <= LEAST_RANGE
        motion = f"the largest motion in {unit}" if unit else "its motion"
        compared = f"{share_of(part, motion)}, {self.scale[i]:.2g}"
        where = f"{called(self.components, i, 'component')} at knot {knot}"
        return f"is off by {amount(E[knot, i], unit)} ({where})" + ("" if least else f", {compared}")


def discretization_error(solution: SolutionData, substeps: int | None = None) -> DiscretizationError:
    """Compute the errors of a plan's integrator.

    Parameters
    ----------
    solution : Solution
        With its problem, and with a trajectory.
    substeps : int, optional
        Steps of the finer motion for each of the plan's, at least 2; more where the dynamics are stiff.  By default
        continuous time where the system has it, 2 where not.

    Raises
    ------
    TypeError
        If the system has no finer steps, being a discrete map, or substeps is no integer.
    ValueError
        For a solution without a problem or a trajectory; for too few substeps.
    """
    system = planned_problem(solution).system
    xs, us, K = solution.xs, solution.us, solution.K
    continuous = capability(system, Steps).resimulated if substeps is None else None
    default = SUBSTEPS if continuous is None else SEVERAL
    k = default if substeps is None else as_whole_number("substeps", substeps, SUBSTEPS)
    fine, rows = finer(system, k), fine_rows(system, len(us), k)
    factor = _extrapolation(system, fine, k)
    after = system.integrate(xs[1:], solution.gaps[1:])
    local = factor * system.difference(after, inside_knots(fine, rows, k, xs, us)[:, -1])
    local[np.diff(rows) != k] = 0.0
    fx, fu = system.linearize(xs, us)
    with np.errstate(all="ignore"):
        open_loop, closed_loop = _carried_on(fx, local), _carried_on(fx + fu @ K, local)
    names, units = tangent_names(system), tangent_units(system)
    scale, displacements = _scale(system, xs, units)
    beyond = not _predictable(local, open_loop, closed_loop, scale, displacements)
    if continuous is not None:
        fine, rows, factor = continuous(), np.arange(len(xs)), 1.0
    if beyond or continuous is not None:
        plan = roll_out_finely(fine, rows, xs[0], us, lambda t, x: us[t])[0]
        held = roll_out_finely(fine, rows, xs[0], us, lambda t, x: us[t] + K[t] @ system.difference(xs[t], x))[0]
        open_loop, closed_loop = (factor * deviations(system, xs, states[rows]) for states in (plan, held))
    steps = k if continuous is None else 0
    return DiscretizationError(local, open_loop, closed_loop, scale, _order(system), steps, beyond, names, units)


def _extrapolation(system: System, fine: System, k: int) -> float:
    """Richardson's factor from the difference to k finer steps to the error."""
    order = _order(system)
    same = _order(fine) == order and _integrator(fine) == _integrator(system)
    return 1.0 / (1.0 - float(k) ** -order) if same else 1.0


def _order(system: System) -> int:
    order = capability(system, Steps).integrator_order
    assert order is not None
    return order


def _integrator(system: System) -> str | None:
    return getattr(system, "integrator", None)


def _carried_on(F: np.ndarray, e: np.ndarray) -> np.ndarray:
    """E_(t+1) = F_t E_t + e_t from zero; infinite in place of NaN."""
    E = np.zeros((len(e) + 1, e.shape[1]))
    for t in range(len(e)):
        E[t + 1] = F[t] @ E[t] + e[t]
    return np.where(np.isnan(E), np.inf, E)


def _scale(system: System, xs: np.ndarray, units: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Scales of the errors of each component (ndx,), and True for the components (ndx,) that are displacements: all,
    where neither units nor coordinates say which are."""
    moved = system.difference(np.tile(xs[0], (len(xs), 1)), xs)
    ranges, nq = np.ptp(moved, axis=0), capability(system, Joints).nq
    first = np.arange(system.ndx) < (system.ndx if nq is None else system.ndx - (system.nx - nq))
    scale, unit = ranges.copy(), np.array(units)
    for one in dict.fromkeys(units):
        for kind in (first, ~first) if one == "" else (first | ~first,):
            alike = (unit == one) & kind
            share = 1.0 if one else 0.0 if nq is None else SHARE
            scale[alike] = np.maximum(scale[alike], share * ranges[alike].max(initial=0.0))
    displaced = np.where(unit == "", first, np.isin(unit, DISPLACED))
    return np.maximum(scale, LEAST_RANGE), displaced


def _predictable(local, open_loop, closed_loop, scale, displacements) -> bool:
    """True if the linearization holds for errors of this size."""
    with np.errstate(all="ignore"):
        grown = (np.abs(closed_loop) / scale).max() <= GROWTH * (np.abs(local) / scale).max(axis=1).sum()
        small = max(np.abs(E[:, displacements]).max(initial=0.0) for E in (open_loop, closed_loop)) <= LARGE
    return bool(grown and small and np.isfinite(open_loop).all())


# ------------------------------------------------------------------------------------------------ in words
def notable_error(solution: SolutionData) -> DiscretizationError | None:
    """The error of a plan if it is large, None if it is small or cannot be computed."""
    problem = solution.problem
    if problem is None or not np.isfinite(solution.cost) or capability(problem.system, Steps).refined is None:
        return None
    for substeps in TRIED:
        try:
            error = discretization_error(solution, substeps)
        except ValueError:  # too stiff for so few, or not finite
            continue
        return error if error.relative > NOTABLE else None
    return None


def in_words(solution: SolutionData, error: DiscretizationError) -> str:
    """Sentences on the size of a notable error and on what reduces it."""
    alone, held = (error.in_words(feedback) for feedback in (False, True))
    return (
        f"Integration error: executed without feedback the plan {alone}; with its gains it {held}; "
        f"{remedy(solution, error)}."
    )


def in_short(error: DiscretizationError) -> str:
    """A notable error in short, for a footnote."""
    i = error.worst_component
    largest = float(np.abs(error.open_loop[:, i]).max())
    if _runs_away(largest, error.scale[i]):
        return "without feedback the plan runs away, by its integration error"
    off = amount(largest, error.units[i] if error.units else "")
    return f"integration error of {off} without feedback, {share_of(error.relative, 'its motion')}"


def remedy(solution: SolutionData, error: DiscretizationError) -> str:
    """Sentence that names the integrator and the dt with which a notable error becomes smaller."""
    system = solution.problem.system
    shorter = f"dt = {system.dt * 0.5 ** (1.0 / error.order):.3g} would halve it"
    if error.order >= 4 or _in_contact(system, solution.xs):
        return shorter
    finest = finer(system, max(error.substeps, SUBSTEPS))
    better = capability(system, Expansions).acceleration_control is None and _order(finest) == 4
    return f'use integrator="rk4", or a smaller dt: {shorter}' if better else shorter


def _in_contact(system: System, xs: np.ndarray) -> bool:
    """True if contacts or loops hold the robot, for which Euler steps with feedback are usual."""
    contact_points = capability(system, Contacts).contact_points
    return contact_points is not None and np.shape(contact_points(xs[:1]))[1] > 0


def _runs_away(error: float, scale: float) -> bool:
    return not error <= AWAY * max(scale, 1.0)


def amount(value: float, unit: str) -> str:
    """A value with its unit: '0.18 rad'."""
    return f"{value:.2g} {unit}".rstrip()


def share_of(part: float, whole: str) -> str:
    """A ratio in words: '12 % of it', and 'more than it' above 1."""
    return f"{100.0 * part:.{0 if part >= 0.1 else 1}f} % of {whole}" if part <= 1.0 else f"more than {whole}"
