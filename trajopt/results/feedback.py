"""Feedback of real-time iterations: the control for a state and parameters that arrive after the plan was made for
predicted ones.

The plan is prepared between samples: an iteration at the predicted state x^ and the old parameters p^, and the KKT
system there, without regularization, whose solution for a right-hand side of n + P columns is the derivative of the
plan. When x and p arrive, the control is

    u = us_0 + du_0/dx0 difference(x^, x) + du_0/dp (p - p^),     clipped to its limits, which may move with p

and the whole plan is moved by the same derivatives, for the next preparation.  Rows of a control that a limit holds are
zero, or those of the limit.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.printed import in_brief
from dynamics.simd import lean_routine
from dynamics.simd.c_library import identifier
from dynamics.simd.prepared_calls import PreparedCall
from dynamics.validation import as_array, as_whole_number
from trajopt.backward.expansions import expand, finite
from trajopt.backward.regularization import Regularization
from trajopt.interfaces.state_space import StateSpace, state_space
from trajopt.interfaces.system import as_manifold, state_array
from trajopt.optimality.active_limits import kkt_point
from trajopt.optimality.first_order import FirstOrder, Parameters, change_with, default_steps
from trajopt.optimality.kkt_point import Held, KKTPoint, active_rows
from trajopt.optimality.kkt_system import Indefinite, KKTSystem
from trajopt.problem.constraints import ControlBounds
from trajopt.problem.problem import Problem
from trajopt.results.records import ConstraintReport, WarmStart
from trajopt.results.sensitivity import change_of_multipliers
from trajopt.results.solution import Solution

EXACT, GAUSS_NEWTON, NONE = "exact", "gauss_newton", "none"
"""Hessians of a plan's derivatives: with all second derivatives, Gauss-Newton, or none, without derivatives."""
FLOAT64 = np.dtype(np.float64)


class PlanDerivatives(NamedTuple):
    """Derivatives of a plan with respect to its initial state, n columns, and its parameters, P columns: states
    (N+1, n, n+P) along tangents, controls (N, m, n+P), costate (N+1, n, n+P), multipliers of each constraint
    (K, nr, n+P), the controls' lower and upper limits (N, m, n+P); kind: their Hessians."""

    kind: str
    xs: np.ndarray
    us: np.ndarray
    costate: np.ndarray
    multipliers: tuple[np.ndarray, ...]
    limits: tuple[np.ndarray, np.ndarray]


@lean_routine
def _respond(table, reference, x, p, u):
    """u = clip(w, lower, upper), where w, lower and upper are the rows 0, 1 and 2 of a table (m, 3, 1+n+P) times
    (1, x - x0, p - p0); returns True if x and p are finite."""
    n, total = x.shape[0], 0.0
    for i in range(u.shape[0]):
        w, lower, upper = table[i, 0, 0], table[i, 1, 0], table[i, 2, 0]
        for j in range(n):
            w += table[i, 0, 1 + j] * (x[j] - reference[j])
        for j in range(p.shape[0]):
            change = p[j] - reference[n + j]
            w += table[i, 0, 1 + n + j] * change
            lower += table[i, 1, 1 + n + j] * change
            upper += table[i, 2, 1 + n + j] * change
        u[i] = min(max(w, lower), upper)
    for j in range(n):
        total += abs(x[j])
    for j in range(p.shape[0]):
        total += abs(p[j])
    return total < np.inf


@dataclass(frozen=True, eq=False)
class Feedback:
    """u = feedback(x, p), microseconds after x and p arrive; made by `PreparedSolver.prepare_step`.

    Attributes
    ----------
    solution : Solution
        The plan at the predicted state and the old parameters; its status says how the iteration ended.
    kind : str
        Hessians of the derivatives: "exact"; "gauss_newton" where the exact Hessian is not positive definite; "none"
        where there are no derivatives, and the plan does not depend on x and p.
    costate : (N+1, ndx)
        Costate of the plan.
    K : (nu, ndx)
        d u / d x at the first knot.
    D : (nu, P)
        d u / d p at the first knot.
    """

    solution: Solution
    derivatives: PlanDerivatives = field(repr=False)
    costate: np.ndarray = field(repr=False)
    parameters: Parameters | None = field(default=None, repr=False)
    _table: np.ndarray = field(init=False, repr=False)
    _reference: np.ndarray = field(init=False, repr=False)
    _p: np.ndarray = field(init=False, repr=False)
    _space: StateSpace | None = field(init=False, repr=False)

    def __repr__(self) -> str:
        return in_brief(self, kind=self.kind, status=str(self.solution.status))

    def __post_init__(self) -> None:
        s, system, of = self.solution, self.solution.problem.system, self.derivatives
        limits, space = s.problem.control_limits, None if as_manifold(system) is None else state_space(system)
        lower, upper = (np.full(system.nu, side) for side in (-np.inf, np.inf)) if limits is None else (
            limit[0] for limit in limits
        )  # fmt: skip
        rows = zip((s.us[0], lower, upper), (of.us[0], *(part[0] for part in of.limits)), strict=True)
        p = np.zeros(0) if self.parameters is None else self.parameters.vector
        x = s.xs[0] if space is None else np.zeros(system.ndx)
        for name, value in {
            "_table": np.stack([np.column_stack(each) for each in rows], axis=1),
            "_reference": np.concatenate([x, p]),
            "_p": p,
            "_space": space,
        }.items():
            object.__setattr__(self, name, value)  # the class is frozen

    @property
    def kind(self) -> str:
        """Hessians of the derivatives: "exact", "gauss_newton" or "none"."""
        return self.derivatives.kind

    @property
    def exact(self) -> bool:
        """True if the derivatives contain all second derivatives."""
        return self.kind == EXACT

    @property
    def K(self) -> np.ndarray:
        """d u / d x (nu, ndx) at the first knot."""
        return self.derivatives.us[0][:, : self.solution.problem.system.ndx]

    @property
    def D(self) -> np.ndarray:
        """d u / d p (nu, P) at the first knot."""
        return self.derivatives.us[0][:, self.solution.problem.system.ndx :]

    def __call__(self, x: ArrayLike, p: Any = None) -> np.ndarray:
        """The control (nu,) for the state x (nx,) and parameters p, of the form of those of `prepare_step`.

        Without p the old parameters are used.  Raises TypeError or ValueError naming x or p.
        """
        moved, new = self._moved_state(x), self._numbers(p)
        u = np.empty(len(self._table))
        if not _respond(self._table, self._reference, moved, new, u):
            as_array("x", x)
            as_array("p", new)
        return u

    def plan(self, x: ArrayLike, p: Any = None, steps: int = 0) -> WarmStart:
        """The whole plan for the state x and parameters p, to first order: states, controls within their limits,
        multipliers; shifted by this number of steps, as by `Solution.shifted`, for the next preparation.

        Raises TypeError or ValueError naming x, p or steps.
        """
        s, system = self.solution, self.solution.problem.system
        as_whole_number("steps", steps, 0)
        moved, new = as_array("x", self._moved_state(x), copy=True), as_array("p", self._numbers(p), copy=True)
        d, of = np.concatenate([moved, new]) - self._reference, self.derivatives
        us, limits = s.us + of.us @ d, s.problem.control_limits
        us = us if limits is None else np.clip(us, *(a + b @ d for a, b in zip(limits, of.limits, strict=True)))
        reports = tuple(
            report._replace(multipliers=report.multipliers + change @ d)
            for report, change in zip(s.constraints, of.multipliers, strict=True)
        )
        xs, costate = system.integrate(s.xs, of.xs @ d), self.costate + of.costate @ d
        return replace(s, xs=xs, us=us, Vx=costate, constraints=reports).shifted(steps)

    def export(self, folder: str | os.PathLike[str], name: str = "feedback", target: str = "native") -> Path:
        """Write the feedback as a C library, as `trajopt.Policy.export` does, but for an example: its function
        ``control`` writes ``u`` for ``x`` and parameters by name, ``p`` where they have none, with the bits of
        ``feedback(x, p)``, in less than a microsecond.

        Parameters, results and errors are those of `trajopt.Policy.export`.
        """
        from trajopt.results.control_library import OF_FEEDBACK, compiled, law_of

        s, (space, factors) = self.solution, compiled(state_space(self.solution.problem.system))
        nx, u = s.xs.shape[1], s.us[0].copy()
        given = np.concatenate([s.xs[0], self._p])
        x, p = given[:nx], given[nx:]
        arrays, start, moved, then = {"x": x}, 0, x, []
        if self._space is not None:
            moved = np.zeros(s.problem.system.ndx)
            then = [PreparedCall(space.compare, space.rows, s.xs[0].copy(), x, moved)]
        then.append(PreparedCall(_respond, self._table.copy(), self._reference.copy(), moved, p, u))
        for parameter, shape in () if self.parameters is None else zip(*self.parameters[1:3], strict=True):
            size = int(np.prod(shape, dtype=int))
            arrays[identifier(parameter or "p", "p")] = p[start : start + size].reshape(shape or (1,))
            start += size
        law = law_of(given, (*factors, ("euclidean", len(p))), then, u, arrays)
        return law.write(folder, name, target, OF_FEEDBACK, {})

    def _moved_state(self, x: ArrayLike) -> np.ndarray:
        """The state, or on a manifold its tangent from the predicted one; entries may not be finite."""
        s = self.solution
        if self._space is not None:
            return self._space.compare(s.xs[0], state_array(s.problem.system, "x", x))
        return _as_floats("x", x, s.xs.shape[1:])

    def _numbers(self, p: Any) -> np.ndarray:
        """The vector of parameters; entries may not be finite."""
        if p is None:
            return self._p
        if self.parameters is None:
            raise TypeError(f"p: got {type(p).__name__}, expected none, for prepare_step was given none")
        if self.parameters.names == ("",) and len(self.parameters.shapes[0]) == 1:
            return _as_floats("p", p, self._p.shape)
        return self.parameters.numbers(p)


def _as_floats(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The value as an array of this shape, without a copy if it is one that can be written to, for kernels know others
    from these; entries may not be finite."""
    if type(value) is np.ndarray and value.dtype == FLOAT64 and value.shape == shape and value.flags.carray:
        return value
    return as_array(name, value, shape, copy=True)


# ------------------------------------------------------------------------------------------------ preparation
def feedback_of(
    solution: Solution,
    parameters: Parameters | None,
    make_problem: Callable[[Any], Problem],
    exact: bool,
    max_regularization: float,
    soft_penalty: float = 0.0,
) -> Feedback:
    """The feedback of a plan; make_problem: its problem as a function of the parameters; exact: True to try exact
    second derivatives first; soft_penalty: penalty of soft constraints, whose multipliers do not move along."""
    n, P = solution.problem.system.ndx, 0 if parameters is None else len(parameters.vector)
    found, costate = None, solution.Vx
    if np.isfinite(solution.cost) and finite(solution.xs, solution.us):
        with np.errstate(all="ignore"):
            reports, K = solution.constraints, solution.K if finite(solution.K) else None
            at = kkt_point(solution.problem, solution.xs, solution.us, reports, K=K)
            point = _with_bounds_of_rows(at, reports)
            change, costate = None, point.costate if finite(point.costate) else costate
            if parameters is not None:
                change = change_with(make_problem, parameters, point, default_steps(parameters), frozen=True)
            if exact and finite(*point.e):
                found = _solved(EXACT, *_softened(point, change, soft_penalty))
            if found is None:
                plain = point._replace(e=expand(point.problem, point.xs, point.us))
                found = _by_gauss_newton(*_softened(plain, change, soft_penalty), max_regularization)
    return Feedback(solution, found or _none(solution, n + P), costate, parameters)


def _solved(kind: str, point: KKTPoint, change: FirstOrder | None) -> PlanDerivatives | None:
    """Derivatives with the Hessian of this point; None where that is not positive definite."""
    try:
        system = KKTSystem(point)
    except Indefinite:
        return None
    n, P = point.problem.system.ndx, 0 if change is None else change.gx.shape[-1]
    rhs = system.zeros(n + P)
    rhs.F[0, :, :n] = np.eye(n)
    limits = np.zeros(rhs.gu.shape), np.zeros(rhs.gu.shape)
    if change is not None:
        limits[0][..., n:], limits[1][..., n:] = change.least, change.largest
        for part, of_parameters in zip(rhs, change.right_hand_side(system.held), strict=True):
            part[..., n:] += of_parameters
    step = system.solve(rhs)
    if not finite(step.dx, step.du, step.dlam, step.dnu):
        return None
    return PlanDerivatives(kind, step.dx, step.du, step.dlam, change_of_multipliers(system, step, rhs.gu), limits)


def _by_gauss_newton(point: KKTPoint, change: FirstOrder | None, largest: float) -> PlanDerivatives | None:
    """Derivatives with Gauss-Newton Hessians, luu raised until Quu is positive definite; None if no shift up to the
    largest one makes it so."""
    e, regularization = point.e, Regularization(0.0, largest)
    if not finite(*e):
        return None
    while not regularization.exhausted:
        luu = e.luu + regularization.mu * np.eye(e.luu.shape[1])
        found = _solved(GAUSS_NEWTON, point._replace(e=e._replace(luu=luu)), change)
        if found is not None:
            return found
        regularization = regularization.increased()
    return None


def _softened(point: KKTPoint, change: FirstOrder | None, rho: float) -> tuple[KKTPoint, FirstOrder | None]:
    """The point whose active rows are terms rho/2 |c - limit|^2 of the cost, and the change of its optimality
    conditions; both unchanged if rho is zero."""
    if rho == 0.0:
        return point, change
    active = active_rows(point, point.held.rows, np.zeros_like(point.held.controls))
    if change is not None:
        gx, gu = change.gx.copy(), change.gu.copy()
        active.add_transposed(rho * change.right_hand_side(point.held).c, gx, gu)
        change = change._replace(gx=gx, gu=gu)
    held = point.held._replace(rows=np.zeros_like(point.held.rows))
    return point._replace(held=held, e=active.with_terms_in(point.e, rho)), change


def _none(solution: Solution, columns: int) -> PlanDerivatives:
    """Derivatives that are zero."""
    s = solution
    multipliers = tuple(np.zeros((*report.multipliers.shape, columns)) for report in s.constraints)
    of_states, of_controls = np.zeros((*s.Vx.shape, columns)), np.zeros((*s.us.shape, columns))
    return PlanDerivatives(NONE, of_states, of_controls, of_states, multipliers, (of_controls, of_controls))


def _with_bounds_of_rows(point: KKTPoint, reports: Sequence[ConstraintReport]) -> KKTPoint:
    """The point with those controls held whose limits are active rows of the solver, for such controls are only near
    their limits."""
    controls = point.held.controls
    for constraint, report in zip(point.problem.constraints, reports, strict=True):
        if isinstance(constraint, ControlBounds) and report.penalty > 0.0:
            side = np.sign(report.multipliers).astype(np.int8)
            controls = np.where(controls == 0, side, controls)
    return point._replace(held=Held(point.held.rows, controls))
