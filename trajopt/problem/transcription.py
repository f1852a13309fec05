"""Problems with a free initial state, or parameters of the whole horizon, as problems whose initial state is given.

The states have the declared numbers besides, and knots in front of the horizon choose them
(`trajopt.problem.augmented_system`).  What a solve finds there, and derivatives of it, are translated back, so that a
solution has the problem's own states, controls and knots.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from trajopt.interfaces.residual import at_knots
from trajopt.interfaces.system import as_manifold, neutral_state
from trajopt.interfaces.terms import knots_at, summed_to
from trajopt.problem.augmented_system import Declared, declared_system
from trajopt.problem.constraints import ControlBounds, ResidualConstraint, common_limits
from trajopt.problem.initial_state import FreeInitialState
from trajopt.problem.objective import Objective, Term
from trajopt.problem.periodic import Periodic, StartAndEnd, depends_on_x0
from trajopt.problem.problem import Problem

KEPT, BACK = "_transcription", "_transcribes"
"""Attributes: of a problem its transcription, and of the transcribed problem the transcription that made it."""
INITIAL_BOUNDS = "limits of the initial state"
AWAY = 1e-3
"""Distance from the given initial state at which a constraint's dependence on what is free is looked for."""


def transcription_of(problem: Problem) -> Transcription | None:
    """The transcription of a problem; None of one with a given initial state and no parameters."""
    if problem.free_initial_state is None and not problem.parameters:
        return None
    known = vars(problem).get(KEPT)
    if known is None or known.given is not problem:  # a copy has that of another
        known = Transcription(problem)
        object.__setattr__(problem, KEPT, known)
    return known


def counts_besides(problem: Problem) -> bool:
    """True if the initial state of a problem counts by more than the motion that begins there."""
    return depends_on_x0(problem) or transcription_of(problem) is not None


def transcribed_by(problem: Problem) -> Transcription | None:
    """The transcription that has made a problem; None if none has."""
    return vars(problem).get(BACK)


def transcribed(problem: Problem) -> Problem:
    """The problem that a solve works on: the given one, or that of its transcription."""
    found = transcription_of(problem)
    return problem if found is None else found.problem


class Transcribed:
    """A function that makes problems, made to return what is solved in their place; it can be pickled if that can."""

    def __init__(self, given: Callable[[Any], Problem], unmarked: bool = False) -> None:
        self.given, self.unmarked = given, unmarked

    def __call__(self, p: Any) -> Problem:
        """What is solved for these parameters; if `unmarked`, its solutions are not translated back."""
        made = transcribed(self.given(p))
        if self.unmarked:
            made = copy.copy(made)
            vars(made).pop(BACK, None)
        return made


class Transcription:
    """A problem as one whose initial state is given.

    Attributes
    ----------
    given : Problem, the user's
    system : AugmentedSystem
    front : int, the knots in front of the horizon
    chosen : knots and controls there that choose the parameters, and then the free components, one each
    problem : Problem, of that system, over front + N knots
    """

    def __init__(self, given: Problem) -> None:
        self.given = given
        none = FreeInitialState(np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0))
        self._free = given.free_initial_state or none
        parameters = np.array(given.parameters, dtype=np.intp)
        declared = Declared(given.x0, self._free.components, self._carried(), parameters)
        self.system = declared_system(given.system, given.horizon, declared)
        self.front = int(self.system.setting.sum())
        self.chosen = declared.chosen(self.system.nu)
        self._guess = given.us_init[0, parameters]
        self._x0 = self.system.state(given.x0, np.append(self._guess, np.zeros(len(declared.carried))))
        self.problem = self._problem()

    def _carried(self) -> np.ndarray:
        """Indices of the free components that a constraint between both ends reads."""
        problem, free = self.given, self._free.components
        used = np.zeros(problem.system.ndx, dtype=bool)
        for constraint in problem.constraints:
            if isinstance(constraint, Periodic):
                of = constraint.residual
                plain = np.array_equal(of.reference, problem.x0) or as_manifold(problem.system) is None
                M = np.eye(problem.system.ndx) if of.matrix is None else of.matrix
                used |= M[of.components].any(axis=0) if plain else True
        return np.flatnonzero(used[free])

    # -------------------------------------------------------------------------------------------- the problem
    def _problem(self) -> Problem:
        """The class is frozen and its parts are checked: they are put in place as they are."""
        given, system, lifted = self.given, self.system, {}
        terms, N = [], given.horizon
        for cost, knots, scale, terminal in given.objective.terms:
            if id(cost) not in lifted:
                lifted[id(cost)] = system.lift(cost)
            at = None if terminal else self.front + (np.arange(N) if knots is None else knots)
            terms.append(Term(lifted[id(cost)], at, scale, terminal))
        constraints = [self._constraint(constraint) for constraint in given.constraints]
        limits = self._initial_bounds()
        made, us = copy.copy(given), self.inside(None, given.us_init)[1]
        xs = None if given.xs_init is None else self.inside(given.xs_init, given.us_init)[0]
        for name, value in {
            "system": system, "x0": self._x0, "horizon": system.horizon, "running_costs": (), "terminal_costs": (),
            "constraints": (*constraints, *limits), "us_init": us, "xs_init": xs, "objective": Objective(terms),
            "control_limits": common_limits((*constraints, *limits), system.horizon, system.nu),
            "free_initial_state": None, "parameters": (), BACK: self,
        }.items():  # fmt: skip
            if isinstance(value, np.ndarray):
                value.flags.writeable = False  # a problem never changes
            object.__setattr__(made, name, value)
        vars(made).pop(KEPT, None)
        return made

    def _constraint(self, given: Any) -> Any:
        if isinstance(given, ControlBounds):
            return ControlBounds(*self._limits_inside(*given.limits(self.given.horizon, self.given.system.nu)),
                                 name=given.name)  # fmt: skip
        if isinstance(given, Periodic):
            residual = StartAndEnd(self.system, given.residual)
            return ResidualConstraint(residual, given.lower, given.upper, "terminal", given.name)
        in_front = np.zeros(self.front, dtype=np.intp)
        residual = self.system.lift(at_knots(given.residual, np.append(in_front, np.arange(self.given.horizon + 1))))
        if given.at == "terminal":
            return ResidualConstraint(residual, given.lower, given.upper, "terminal", given.name)
        knots, at_start = self._knots(given)
        lower, upper = given.limits(knots)
        if at_start is not None and len(knots) and knots[0] == 0:
            lower[0], upper[0] = np.where(at_start, lower[0], -np.inf), np.where(at_start, upper[0], np.inf)
        return ResidualConstraint(residual, lower, upper, self.front + knots, given.name)

    def _knots(self, constraint: ResidualConstraint) -> tuple[np.ndarray, np.ndarray | None]:
        """The knots at which a constraint holds, the first one too where its state is free; and which of its rows do
        there, None of one that reads controls."""
        problem, free = self.given, self._free.components
        N, system, x0 = problem.horizon, problem.system, problem.x0[None]
        first = at_knots(constraint.residual, np.zeros(1, dtype=np.intp))
        _, ru = first.jacobians(x0, problem.us_init[:1])
        if ru is not None:
            return constraint.knots(N, False), None
        away = np.zeros((1, system.ndx))
        away[:, free] = AWAY
        points = np.concatenate([x0, system.integrate(x0, away)])
        moves = first.jacobians(points, np.repeat(problem.us_init[:1], 2, axis=0))[0][:, :, free]
        asked = knots_at(constraint.at, np.arange(N + 1.0), constraint.name)
        moving = np.asarray(moves.any(axis=(0, 2)))
        return (asked if moving.any() else asked[asked > 0]), moving

    def _limits_inside(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Limits (front + N, nu) of the controls there, from those (N, nu) of the problem's own: of a parameter, the
        tightest of all knots."""
        system, F, m = self.system, self.front, len(self.system.map.controls)
        limits, (at, which) = [], self.chosen
        for given, end, tightest in (lower, -np.inf, np.max), (upper, np.inf, np.min):
            whole = np.full((system.horizon, system.nu), end)
            whole[F:, :m] = given[:, system.map.controls]
            for i, parameter in enumerate(self.given.parameters):
                whole[at[i], which[i]] = tightest(given[:, parameter]) - self._guess[i]
            limits.append(whole)
        if (limits[0] > limits[1]).any():
            raise ValueError("constraints: the ControlBounds of a parameter have no value in common over the horizon")
        return limits[0], limits[1]

    def _initial_bounds(self) -> list[ControlBounds]:
        """Limits of the initial state, if there are some."""
        free, system, (at, which) = self._free, self.system, self.chosen
        if not (np.isfinite(free.lower).any() or np.isfinite(free.upper).any()):
            return []
        inside, P = self.given.system, len(self.given.parameters)
        guess = inside.difference(neutral_state(inside), self.given.x0)[free.components]
        limits = np.full((2, system.horizon, system.nu), [[[-np.inf]], [[np.inf]]])
        limits[0, at[P:], which[P:]], limits[1, at[P:], which[P:]] = free.lower - guess, free.upper - guess
        return [ControlBounds(limits[0], limits[1], name=INITIAL_BOUNDS)]

    # -------------------------------------------------------------------------------------------- trajectories
    def inside(self, xs: np.ndarray | None, us: np.ndarray, x0: np.ndarray | None = None) -> Any:
        """States, None for None, and controls there, from those of the problem's own; x0: where they begin, if there
        are no states that say so."""
        system, F, given = self.system, self.front, self.given
        start = xs[0] if xs is not None else given.x0 if x0 is None else x0
        moved = given.system.difference(given.x0, start)[self._free.components]
        at, which = self.chosen
        ws = np.zeros((system.horizon, system.nu))
        ws[F:, : len(system.map.controls)] = us[:, system.map.controls]
        ws[at, which] = np.append(us[0, list(given.parameters)] - self._guess, moved)
        if xs is None:
            return None, ws
        zs = np.empty((system.horizon + 1, system.nx))
        zs[: F + 1] = system.window(0, F).rollout(self._x0, ws[:F])
        zs[F:] = system.state(xs, zs[F, given.system.nx :])
        return zs, ws

    def outside(self, zs: np.ndarray, ws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """States (N+1, nx) and controls (N, nu) of the problem's own."""
        F = self.front
        xs, us = self.system.split(zs[F:])[0], self.system.map.inside(zs[F:-1], ws[F:])[1]
        assert us is not None
        return xs, np.array(us)

    def changes_outside(self, dz: np.ndarray, dw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Changes of states (N+1, ndx, ...) and controls (N, nu, ...) from those there."""
        F, n = self.front, self.given.system.ndx
        return np.ascontiguousarray(dz[F:, :n]), self.system.map.along(dz[F:-1], dw[F:])[1]

    def covectors_inside(self, xs_bar: Any, us_bar: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Derivatives by states (N+1, ndx) and controls (N, nu) as those by states and controls there."""
        if xs_bar is None and us_bar is None:
            return None, None
        F, n, system = self.front, self.given.system.ndx, self.system
        zs, ws = np.zeros((system.horizon + 1, system.ndx)), np.zeros((system.horizon, system.nu))
        if xs_bar is not None:
            zs[F:, :n] = xs_bar
        if us_bar is not None:
            more = np.zeros((len(us_bar), system.ndx))
            system.map.place_first(np.zeros((len(us_bar), n)), us_bar, more, ws[F:])
            zs[F:-1] += more
        return zs, ws

    def direction_outside(self, dw: np.ndarray) -> np.ndarray:
        """A direction of the controls (N, nu), from one there."""
        dz = np.zeros((self.system.horizon, self.system.ndx))
        at, which = self.chosen
        P, n = len(self.given.parameters), self.given.system.ndx
        dz[:, n : n + P] = dw[at[:P], which[:P]]
        return self.system.map.along(dz[self.front :], dw[self.front :])[1]

    def gradient_outside(self, gradient: np.ndarray) -> np.ndarray:
        """A gradient by the controls (N, nu), from one by those there; by a parameter as a whole at the first knot."""
        system, (at, which), P = self.system, self.chosen, len(self.given.parameters)
        whole = np.zeros((self.given.horizon, self.given.system.nu))
        whole[:, system.map.controls] = gradient[self.front :, : len(system.map.controls)]
        whole[0, list(self.given.parameters)] = gradient[at[:P], which[:P]]
        return whole

    def knot_outside(self, knot: int) -> int:
        """A knot, the first one for those in front of it, and -1 for none."""
        return knot if knot < 0 else max(0, knot - self.front)

    # -------------------------------------------------------------------------------------------- rows of controls
    def control_rows_outside(self, rows: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Multipliers (N, nu, ...) of limits (N, nu) of controls, from those there: that of a parameter at the knot of
        its tightest limit."""
        system, (at, which) = self.system, self.chosen
        whole = np.zeros((self.given.horizon, self.given.system.nu, *rows.shape[2:]))
        whole[:, system.map.controls] = rows[self.front :, : len(system.map.controls)]
        for i, parameter in enumerate(self.given.parameters):
            row = rows[at[i], which[i]]
            positive = row if row.ndim == 0 else row[np.argmax(np.abs(row))]
            knot = int(np.argmin(upper[:, parameter]) if positive > 0.0 else np.argmax(lower[:, parameter]))
            whole[knot, parameter] = row
        return whole

    def gradients_outside(self, found: dict[str, Any]) -> dict[str, Any]:
        """Gradients by what is in the problem, from those there (`trajopt.Solution.vjp`)."""
        system, N, nu = self.given.system, self.given.horizon, self.given.system.nu
        by_name = {constraint.name: constraint for constraint in self.given.constraints}
        result = {name: dict(value) if isinstance(value, dict) else value for name, value in found.items()}
        result.pop(INITIAL_BOUNDS, None)
        if "x0" in result:
            result["x0"] = result["x0"][: system.ndx]
        for name, constraint in by_name.items():
            of = result.get(name, {})
            for limit in {"lower", "upper"}.intersection(of):
                own = getattr(constraint, limit)
                if isinstance(constraint, ControlBounds):
                    rows = self.control_rows_outside(of[limit], *constraint.limits(N, nu))
                elif constraint.at == "terminal":
                    rows = of[limit]
                else:
                    asked, knots = np.array(constraint.at), self._knots(constraint)[0]
                    asked = asked if asked.ndim else knots
                    rows = np.zeros((len(asked), constraint.nr))
                    rows[np.isin(asked, knots)] = of[limit]
                of[limit] = summed_to(rows, np.shape(own)) if np.ndim(rows) == 2 else rows
        return result
