"""Minimum of an iteration's piecewise quadratic model: terms of constraints become active or inactive along the step,
and controls reach their limits.

    q(z) = grad'z + 1/2 z'H z + sum rho/2 |s(c + C z)|^2      z = (dx, du), du within its box, dx the linear dynamics

A sweep at z knows the terms that are active there, and of the control limits only those that its step meets at z. So
the step is followed, as a rollout of the linear dynamics with the controls clipped, and the sweep repeated at its end:
semismooth Newton steps [Hintermueller, Ito and Kunisch 2002].  A few full steps settle most models; otherwise steps are
halved until q falls.  Where the active set does not change, the first sweep is the last one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajopt.backward.backward_pass import SweepResult
from trajopt.backward.box_qp import box_around
from trajopt.backward.expansions import Expansion
from trajopt.rows import change_of_rows
from trajopt.solvers.augmented_lagrangian import Multipliers
from trajopt.solvers.formulation import Direction, Formulation, LocalModel, Stopwatch, change_along, linear_step

FULL, LOWERING, HALVINGS = 8, 12, 25
"""Largest numbers of sweeps whose full steps are taken, of sweeps whose steps must lower the model, and of halvings of
such a step."""
LITTLE = 0.1
"""Sweeps end once one of them lowers the model by less than this fraction of its total decrease."""
SUFFICIENT = 1e-4
ROUNDING = 1e-14
"""A control counts as on its limit if their distance is at most this fraction of the control and its change."""


class StepPoint(NamedTuple):
    """A point z = (dx, du) of the model, the change C z (R,) of the rows, and the change of the model's value."""

    dx: np.ndarray
    du: np.ndarray
    rows: np.ndarray
    value: float


class ModelMinimum(NamedTuple):
    """A direction whose d1 and d2 give the change that the piecewise model predicts, and the end point of its full
    step."""

    direction: Direction
    point: StepPoint

    @property
    def promise(self) -> float:
        """Predicted decrease of the cost, augmented-Lagrangian terms included, of a full step."""
        return -self.point.value


class PiecewiseModel(NamedTuple):
    """A piecewise quadratic model; `expansion` is that of the direction's kind, without augmented-Lagrangian terms."""

    formulation: Formulation
    model: LocalModel
    multipliers: Multipliers
    expansion: Expansion
    mu: float
    clock: Stopwatch

    def minimum(self, direction: Direction) -> ModelMinimum:
        """The model's minimum, starting from the direction of a sweep at the iterate: full steps first; where these do
        not settle, steps that lower the model."""
        e, gaps, sweep = self.expansion, self.model.iterate.gaps, direction.sweep
        end = self._at(*linear_step(e, gaps, sweep, self.model.box))
        value = 0.0 if gaps is None else np.inf
        here = StepPoint(np.zeros_like(e.lx), np.zeros_like(e.lu), np.zeros(len(end.rows)), value)
        best, best_sweep, settled = end if end.value < here.value else here, sweep, False
        for _ in range(FULL):
            settled = not self._changes_active_set(here, end, sweep)
            if settled:
                break
            again = self._sweep(end)
            if not again.ok:
                break
            here, sweep = end, again
            end = self._at(*linear_step(e, gaps, sweep, self.model.box, (here.dx, here.du)))
            if end.value < best.value:
                best, best_sweep = end, sweep
        for _ in range(0 if settled or gaps is not None else LOWERING):
            again = self._sweep(best) if best.value < 0.0 else direction.sweep
            lower = self._lower(best, again) if again.ok else None
            if lower is None:
                break
            gained, best, best_sweep = best.value - lower.value, lower, again
            if gained <= LITTLE * -best.value:
                break
        return ModelMinimum(direction._replace(sweep=self._about_iterate(best_sweep, best, direction.sweep)), best)

    def _at(self, dx: np.ndarray, du: np.ndarray) -> StepPoint:
        rows, at, m = self.formulation.rows, self.model.rows, self.multipliers
        assert rows is not None and at is not None
        change = change_of_rows(rows.first, at.C, dx, du)
        first, second = change_along(self.expansion, dx, du)
        return StepPoint(dx, du, change, first + 0.5 * second + m.value(rows, at.c + change) - m.value(rows, at.c))

    def _lower(self, here: StepPoint, sweep: SweepResult) -> StepPoint | None:
        """The first point at step length 1, 1/2, ... along the sweep's step with a sufficiently lower model; None if
        there is none."""
        gaps, slope = self.model.iterate.gaps, min(sweep.d1 + 0.5 * sweep.d2, 0.0)
        for halvings in range(HALVINGS):
            length, start = 0.5**halvings, (here.dx, here.du)
            point = self._at(*linear_step(self.expansion, gaps, sweep, self.model.box, start, length))
            if point.value < here.value + SUFFICIENT * length * slope:
                return point
        return None

    def _changes_active_set(self, here: StepPoint, end: StepPoint, sweep: SweepResult) -> bool:
        """True if the set of active terms differs between the start and the end of a sweep's full step, or controls
        were clipped."""
        rows, at, m = self.formulation.rows, self.model.rows, self.multipliers
        assert rows is not None and at is not None
        if (m.sides(rows, at.c + here.rows) != m.sides(rows, at.c + end.rows)).any():
            return True
        wanted = here.du + sweep.k + np.einsum("tij,tj->ti", sweep.K, (end.dx - here.dx)[:-1])
        return self.model.box is not None and bool((np.abs(wanted - end.du) > 1e-12 * (1.0 + np.abs(wanted))).any())

    def _sweep(self, here: StepPoint) -> SweepResult:
        """Backward pass of the model expanded at a point, without gaps."""
        formulation, model, e = self.formulation, self.model, self.expansion
        assert model.rows is not None and formulation.rows is not None
        lx, lu = e.lx + np.einsum("tij,tj->ti", e.lxx, here.dx), e.lu + np.einsum("tij,tj->ti", e.luu, here.du)
        lx[:-1] += np.einsum("tij,ti->tj", e.lux, here.du)
        lu += np.einsum("tij,tj->ti", e.lux, here.dx[:-1])
        _, weights = self.multipliers.weights(formulation.rows, model.rows.c + here.rows)
        box = None if formulation.limits is None else box_around(model.iterate.us + here.du, *formulation.limits)
        moved = model._replace(
            iterate=model.iterate._replace(gaps=None), gauss_newton=e._replace(lx=lx, lu=lu), exact=None, box=box,
            rows=model.rows._replace(weights=weights),
        )  # fmt: skip
        return formulation.sweep(moved, self.mu, self.clock)

    def _about_iterate(self, sweep: SweepResult, end: StepPoint, first: SweepResult) -> SweepResult:
        """The sweep at a point with its policy and its value function expressed about the iterate."""
        at, gaps = self.model.rows, self.model.iterate.gaps
        assert at is not None and at.weights is not None
        rate, _ = change_along(self.expansion, end.dx, end.du)
        d1 = rate + float(at.weights.p @ end.rows)
        if sweep is not first:
            shift = end.dx if gaps is None else end.dx - gaps
            k = self._snapped(end.du - np.einsum("tij,tj->ti", sweep.K, end.dx[:-1]))
            sweep = sweep._replace(k=k, Vx=sweep.Vx - np.einsum("tij,tj->ti", sweep.Vxx, shift))
        return sweep._replace(d1=d1, d2=2.0 * (end.value - d1))

    def _snapped(self, k: np.ndarray) -> np.ndarray:
        """The change k of the controls, set to the limit itself where it differs from that by rounding alone."""
        box, rounding = self.model.box, ROUNDING * (np.abs(self.model.iterate.us) + np.abs(k))
        for limit in () if box is None else (box.lower, box.upper):
            k = np.where(np.abs(k - limit) <= rounding, limit, k)
        return k
