"""Gains of a plan that is followed by standing still for ever.

The terminal cost of a plan that ends has a large weight, which makes the last gains stiff, and says nothing of what
comes after.  Here the plan's cost goes on: at the last posture x_h, still, with the controls u_h that keep it there,
and the running costs of the plan's last knot, for ever.  The value function of that is the fixed point of

    V <- lxx + fx'V fx - Qux'Quu^-1 Qux,      Quu = luu + fu'V fu,   Qux = lux + fu'V fx,      K_h = - Quu^-1 Qux

in place of the terminal cost and of constraints at the end a sweep over the plan begins with it, with the Hessians
that the plan's gains were made with: exact ones after `trajopt.DDP`, active constraints penalized but for those of
knots that take no time, controls on their limits held.  With the terminal cost it would make the plan's gains again.
Those of standing are Gauss-Newton's, for multipliers of the plan's end say nothing of what comes after it.

Directions that no control moves, as those that held contacts forbid, may stay where they are: V then grows along them
from sweep to sweep, K_h does not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dynamics.printed import in_brief
from trajopt.backward.expansions import Expansion, convexified, expand
from trajopt.backward.sweep import SweepResult, sweep
from trajopt.capabilities import Coordinates, QuasiStatic, capability
from trajopt.interfaces.system import System, knot_durations, tangent_names, window
from trajopt.optimality.active_rows import ActiveRows, active_rows
from trajopt.optimality.points import kkt_point
from trajopt.optimality.riccati_factor import without_clamped
from trajopt.problem.extended_system import innermost
from trajopt.problem.problem import Problem
from trajopt.problem.remembering_system import remembered_numbers
from trajopt.results.advice import called
from trajopt.results.records import ConstraintReport
from trajopt.results.transcribed import after_the_start

if TYPE_CHECKING:
    from trajopt.results.solution import Solution

STILL = 0.5
"""Rate of change, rad/s, m/s or those per second, below which the end of a plan is at rest: plans of the library that
end at rest end with 0.12 at most, one that falls with 9.81."""
BLOCK, BLOCKS, SETTLED = 64, 500, 1e-9
"""Knots of a sweep towards the fixed point, sweeps at most, and the relative change of gains at the end."""
GAUSS_NEWTON = "gauss_newton"
"""Steps of this kind made gains without exact Hessians."""
NEUTRAL = 1e-7
"""A mode that decays by less in a step is not held, if it is one that controls move."""
PENALTY = 1e4
"""Largest penalty of active constraints, in units of the costs' Hessians, as of the gains of a solution."""


class Hold(NamedTuple):
    """What is done after the end of a plan: u = u_h + K_h difference(x_h, x); x (nx,), u (nu,), K (nu, ndx)."""

    x: np.ndarray
    u: np.ndarray
    K: np.ndarray

    def __repr__(self) -> str:
        return in_brief(self)


def followed_by_standing(solution: Solution) -> tuple[Solution, Hold]:
    """The solution with gains of a plan that goes on by standing still, and what is done then.

    Raises ValueError for a plan whose end is not at rest, or where no gain holds it, and for one with parameters.
    """
    problem, xs, us = solution.problem, solution.xs, solution.us
    if problem.parameters:
        raise ValueError("hold: got a plan with parameters of the whole horizon, expected one without")
    lasting = knot_durations(problem.system, len(us), xs) > 0.0
    last = int(np.flatnonzero(lasting)[-1])
    at_end = window(problem.system, last, last + 1)
    x, u = _still(at_end, xs[-1], us[last])
    V, K = _stationary(_standing(problem, xs, us, last, x, u))
    e = _along(solution)
    lxx = e.lxx.copy()
    lxx[-1] = V
    result = _gains(e._replace(lxx=lxx))
    if not result.ok:
        raise ValueError(f"hold: got a plan whose costs have no minimum in the controls at knot {result.failed_knot}")
    gains = result.K.copy()
    gains[~lasting] = solution.K[~lasting]
    return replace(solution, K=gains), Hold(x, u, K)


def _still(system: System, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The last state with its velocities zero, and controls that hold it; ValueError where it moves."""
    inside = innermost(system)
    known, still, at_rest = capability(inside, Coordinates), capability(system, QuasiStatic), x.copy()
    if known is not None:
        at_rest[known.nq : inside.nx] = 0.0
    if still is not None:
        u = np.asarray(still.quasi_static(at_rest), dtype=np.float64).reshape(-1, system.nu)[0]
    memory = remembered_numbers(system)
    if memory:
        at_rest[-memory:] = system.step(at_rest, u)[-memory:]
    rates = np.abs([system.difference(y, np.asarray(system.step(y, u))) for y in (x, at_rest)]).max(axis=0) / system.dt
    fastest = int(np.argmax(rates[: system.ndx - memory]))
    if not rates[fastest] <= STILL:
        name = called(tangent_names(system), fastest, "component")
        raise ValueError(
            f"hold: got a plan that is not at rest at its end, where {name} changes by {rates[fastest]:.2g} in a "
            f"second; expected at most {STILL:g}"
        )
    return at_rest, u.copy()


def _standing(problem: Problem, xs: np.ndarray, us: np.ndarray, last: int, x: np.ndarray, u: np.ndarray) -> Expansion:
    """The expansion (of one knot) of standing at x with the controls u, and the terminal cost."""
    xs, us = xs.copy(), us.copy()
    xs[last], us[last], xs[-1] = x, u, x
    e = expand(problem, xs, us)
    rows = [last, len(us)]
    return Expansion(*(part[rows] if len(part) > len(us) else part[[last]] for part in e))


def _stationary(e: Expansion) -> tuple[np.ndarray, np.ndarray]:
    """Value function (ndx, ndx) and gain (nu, ndx) of standing for ever; ValueError where there is none.

    Running costs that leave directions free which controls move are helped by a share of the terminal cost: a
    hundredth of it, in every knot.
    """
    for share in (0.0, 1e-2):
        lxx = e.lxx[:1] + share * e.lxx[1:]
        found = _fixed_point(e._replace(lxx=np.concatenate([lxx, lxx])))
        if found is not None:
            return found
    raise ValueError(
        "hold: got a plan whose costs leave the state at its end free, or a system that cannot be held there; expected "
        "running costs of all that controls move"
    )


def _fixed_point(e: Expansion) -> tuple[np.ndarray, np.ndarray] | None:
    """That of an expansion of one knot, None where the gains do not settle or do not hold the state."""
    many = Expansion(*(np.repeat(part[:1], BLOCK + (len(part) > 1), axis=0) for part in e))
    many = many._replace(lx=np.zeros_like(many.lx), lu=np.zeros_like(many.lu))
    for _ in range(BLOCKS):
        result = _gains(many)
        K, V = result.K[0], result.Vxx[0]
        if not (result.ok and np.isfinite(V).all()):
            return None
        if np.abs(K - result.K[1]).max() <= SETTLED * np.abs(K).max():
            return (V.copy(), K.copy()) if _holds(e.fx[0], e.fu[0], K) else None
        many.lxx[-1] = V
    return None


def _holds(fx: np.ndarray, fu: np.ndarray, K: np.ndarray) -> bool:
    """Whether every mode decays that controls move, and none grows."""
    values, left = np.linalg.eig((fx + fu @ K).T)
    moved = np.abs(fu.T @ left).max(axis=0) > 1e-6 * max(float(np.abs(fu).max()), 1e-300)
    sizes = np.abs(values)
    return bool((sizes < 1.0 + 1e-6).all() and (sizes[moved] < 1.0 - NEUTRAL).all())


def _along(solution: Solution) -> Expansion:
    """The expansion along the plan, with its active constraints and its controls on limits."""
    problem, xs, us = solution.problem, solution.xs, solution.us
    durations = knot_durations(problem.system, len(us), xs)
    reports = after_the_start(problem, solution.constraints)
    constraints = [_that_last(report, durations) for report in reports]
    point = kkt_point(problem, xs, us, tuple(constraints), K=solution.K)
    exact = not solution.log or solution.log[-1].step != GAUSS_NEWTON
    e = point.e if exact else expand(problem, xs, us)
    rows = active_rows(point, point.held.rows, point.held.controls)
    rows = ActiveRows(*(part[np.append(durations, np.inf)[rows.knots] > 0.0] for part in rows))
    unit = max(float(np.abs(H).max(initial=0.0)) for H in (e.lxx, e.lux, e.luu))
    e = rows.folded_into(without_clamped(e, point.held.controls), min(point.penalty, PENALTY * unit))
    return e._replace(lx=np.zeros_like(e.lx), lu=np.zeros_like(e.lu))


def _that_last(report: ConstraintReport, durations: np.ndarray) -> ConstraintReport:
    """Without multipliers at knots that take no time, as of impulses at touch-downs: such limits shape the plan, but a
    feedback that kept to them would have to undo all deviations in the last knots before."""
    lasting = np.append(durations, np.inf)[report.knots] > 0.0
    return report._replace(multipliers=np.where(lasting[:, None], report.multipliers, 0.0))


def _gains(e: Expansion) -> SweepResult:
    """The sweep of an expansion, of what is positive of it where need be."""
    result = sweep(*e, 0.0)
    return result if result.ok else sweep(*convexified(e), 0.0)
