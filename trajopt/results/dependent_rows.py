"""Rows of constraints at one knot that nearly depend on each other, where a solve could not meet them.

    J_s = d c / d u_s, c (r,) the rows of a knot t:   Y = C_x,  J_t = C_u;   J_s = Y fu_s,  Y <- Y fx_s,  s = t-1 ... 0

Where rows with gradients of length one have singular values far below the largest, some combinations of them are hardly
changed by any controls: these rows follow from the others, but for what an integrator leaves of a conserved quantity.
An arm on a free-flying base that starts at rest has no momentum; where its joints rest, so does the base, and to ask
for both is to ask for six rows twice.  With the two not quite equal, controls that meet both are far away, or nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from trajopt.backward.expansions import Expansion, adjoint, expand
from trajopt.capabilities import Joints, Steps, capability
from trajopt.interfaces.residual import at_knots
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.objective import zero_blocks
from trajopt.results.records import ConstraintReport, SolutionData
from trajopt.results.stationary import solution_inside

DEPENDENT = 1e-2
"""Singular value, relative to the largest, below which a combination of rows counts as a dependence.  Of a floating arm
with three joints and steps of 0.05 s by semi-implicit Euler six are between 1e-4 and 4e-3, the next one is 0.09."""
WITHIN = 0.5
"""Fraction of the violation, in units of the gradients' lengths, that lies in these combinations."""
UNDER_FEEDBACK = 0.1
"""Largest change of the combinations by controls under feedback, relative to that of all rows."""
CONSISTENT = 1e-2
"""Largest violation of scaled rows that follow from each other but for errors of integration: in that example it goes
up and down between 1e-4 and 5e-3.  Where more is left rows contradict each other, or a search has got stuck."""
BALANCES = 5
"""Number of times that rows and controls are scaled in turn."""
BEST_ORDER = 4
"""Order of 'rk4', the integrator with the smallest errors that is advised."""
PART = 0.1
"""Least entry of a row in the combinations with which it counts as one of them."""


class DependentRows(NamedTuple):
    """Rows of a knot, of which some follow from the others: components (indices) by name of the constraint, the number
    of those that follow, and the largest singular value among these, relative to that of all."""

    knot: int
    components: dict[str, list[int]]
    number: int
    ratio: float


def dependent_rows(solution: SolutionData) -> DependentRows | None:
    """The nearly dependent equalities at the knot of the largest violation; None if what violates them is none of their
    dependences."""
    inside = solution_inside(solution.problem, solution)
    problem, xs, us = inside.problem, inside.xs, inside.us
    pairs = [
        (constraint, report)
        for constraint, report in zip(problem.constraints, inside.constraints, strict=True)
        if isinstance(constraint, ResidualConstraint) and report.values.size
    ]
    if not pairs:
        return None
    knot = max((report for _, report in pairs), key=lambda report: report.violation).worst_knot
    names, numbers, v, C = [], [], [], []
    for constraint, report in pairs:
        for k in np.flatnonzero(report.knots == knot):
            chosen = np.flatnonzero(report.lower[k] == report.upper[k])
            if not len(chosen):
                continue
            here = slice(knot, knot + 1)
            controls = us[here] if knot < len(us) else None
            rx, ru = at_knots(constraint.residual, report.knots[k : k + 1]).jacobians(xs[here], controls)
            Cu = np.zeros((len(chosen), us.shape[1])) if ru is None else ru[0][chosen]
            C.append((rx[0][chosen], Cu))
            v.append((report.values[k] - report.lower[k])[chosen])
            names += [report.name] * len(chosen)
            numbers += chosen.tolist()
    if not C:
        return None
    values = np.concatenate(v)
    Cx, Cu = (np.concatenate(parts) for parts in zip(*C, strict=True))
    if len(values) < 2 or not values.any():
        return None
    scaled = max(report.violation * _factor(report) for _, report in pairs)
    if scaled > CONSISTENT:
        return None
    with np.errstate(all="ignore"):
        fx, fu = expand(problem, xs, us)[:2]
        found = _dependences(Cx, Cu, values, fx, fu, fx + fu @ inside.K, knot)
    if found is None:
        return None
    U, ratio = found
    components: dict[str, list[int]] = {}
    for i in np.flatnonzero(np.linalg.norm(U, axis=1) >= PART):
        components.setdefault(names[i], []).append(numbers[i])
    return DependentRows(knot, components, U.shape[1], ratio)


def _factor(report: ConstraintReport) -> float:
    """The largest factor by which the solver scales rows of a constraint."""
    return 1.0 if report.factors is None else float(report.factors.max(initial=0.0))


def _influence(Cx: np.ndarray, Cu: np.ndarray, A: np.ndarray, fu: np.ndarray, knot: int) -> np.ndarray:
    """Jacobian (r, N, nu) of r rows of a knot with respect to the controls; A (N, ndx, ndx): fx, or fx + fu K for
    changes of the controls under feedback."""
    N, ndx, nu = fu.shape
    J = []
    for of_state, of_control in zip(Cx, Cu, strict=True):
        row = Expansion(A, fu, *zero_blocks(N, ndx, nu))
        row.lx[knot] = of_state
        row.lu[knot : knot + 1] = of_control  # the last knot has none
        J.append(adjoint(row)[1])
    return np.stack(J)


def _dependences(
    Cx: np.ndarray, Cu: np.ndarray, v: np.ndarray, fx: np.ndarray, fu: np.ndarray, closed: np.ndarray, knot: int
) -> tuple[np.ndarray, float] | None:
    """Combinations (r, d) of r rows that controls hardly change, where these contain the violation v (r,), and the
    largest singular value of them, relative to that of all; closed (N, ndx, ndx): fx + fu K.

    Where the open loop is unstable all rows follow its fastest mode; then feedback changes the combinations."""
    J, under_feedback = (_influence(Cx, Cu, A, fu, knot) for A in (fx, closed))
    if not (np.isfinite(J).all() and np.isfinite(under_feedback).all() and len(v) <= J[0].size):
        return None
    lengths, units = _equilibrated(J)
    if not lengths.all():
        return None
    flat, there = ((one / (lengths[:, None, None] * units)).reshape(len(v), -1) for one in (J, under_feedback))
    U, sizes, _ = np.linalg.svd(flat, full_matrices=False)
    small, v = sizes <= DEPENDENT * sizes[0], v / lengths
    if not small.any() or np.linalg.norm(U[:, small].T @ v) < WITHIN * np.linalg.norm(v):
        return None
    if np.linalg.norm(U[:, small].T @ there, 2) > UNDER_FEEDBACK * np.linalg.norm(there, 2):
        return None
    return U[:, small], float(sizes[small][0] / sizes[0])


def _equilibrated(J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Units of rows (r,) and of controls (nu,) in which all rows of J (r, N, nu) have length 1, and the controls about
    the same influence."""
    lengths, units = np.ones(len(J)), np.ones(J.shape[2])
    for _ in range(BALANCES):
        units = np.sqrt(np.square(J / lengths[:, None, None]).mean(axis=(0, 1)))
        lengths = np.sqrt(np.square(J / np.where(units > 0.0, units, 1.0)).sum(axis=(1, 2)))
        if not lengths.all():
            break
    return lengths, np.where(units > 0.0, units, 1.0)


# ------------------------------------------------------------------------------------------------ in words
def _listed(solution: SolutionData, found: DependentRows) -> str:
    """The constraints with their components that take part."""
    parts = []
    for name, numbers in found.components.items():
        names = next((report.components for report in solution.constraints if report.name == name), ())
        listed = ", ".join(repr(names[i]) if names else str(i) for i in numbers)
        parts.append(f"'{name}' ({'' if names else 'components '}{listed})")
    return " and ".join(parts)


def in_words(solution: SolutionData, found: DependentRows) -> str:
    """A sentence on nearly dependent rows."""
    rows = sum(map(len, found.components.values()))
    return (
        f"Nearly dependent: at knot {found.knot}, {found.number} of the {rows} rows of {_listed(solution, found)} "
        f"follow from the others but for {found.ratio:.1g} of what controls do to these; what violates them is in that "
        "part, which controls can hardly change."
    )


def advice(solution: SolutionData, found: DependentRows) -> Iterator[str]:
    """What to try where rows are nearly dependent."""
    violation, system = max(report.violation for report in solution.constraints), solution.problem.system
    rows, follow = ("1 row", "follows") if found.number == 1 else (f"{found.number} rows", "follow")
    base = ""
    if capability(system, Joints).nq is not None:
        base = ", as the rest of a base follows from that of its joints where momentum is conserved"
    yield (
        f"drop {rows} that {follow} from others, of {' or '.join(map(repr, found.components))}{base}; where they "
        "follow at this trajectory alone, start from another one"
    )
    order, better = capability(system, Steps).integrator_order, ""
    if order is not None and order < BEST_ORDER:
        better = ", or an integrator with smaller ones, such as 'rk4'"
        better += ", which conserves momentum better" if base else ""
    yield (
        f"a feasibility_tolerance above {violation:.1g}, if these rows agree but for errors of rounding or of "
        f"integration{better}"
    )
