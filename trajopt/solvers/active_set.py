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

from dynamics.simd import routine
from trajopt.backward.backward_pass import SweepResult
from trajopt.backward.box_qp import box_around
from trajopt.backward.expansions import Expansion
from trajopt.rows import along
from trajopt.solvers.augmented_lagrangian import Multipliers, active_side, sum_of_terms
from trajopt.solvers.formulation import (
    NOTHING,
    Direction,
    Formulation,
    LocalModel,
    RowModel,
    Stopwatch,
    change,
    dot,
    follow,
)

FULL, LOWERING, HALVINGS = 8, 12, 25
"""Largest numbers of sweeps whose full steps are taken, of sweeps whose steps must lower the model, and of halvings of
such a step."""
LITTLE = 0.1
"""Sweeps end once one of them lowers the model by less than this fraction of its total decrease."""
NEWTON, MOST = 3, 0.8
"""Largest number of sweeps where a barrier smooths the model, and the part of its predicted decrease that the last one
gains."""
SUFFICIENT = 1e-4
ROUNDING = 1e-14
"""A control counts as on its limit if their distance is at most this fraction of the control and its change."""
CLIPPED = 1e-12
"""A control is clipped where it differs by more than this, relative to 1 and to the control, from what was wanted."""


# ------------------------------------------------------------------------------------------------ along a step
@routine
def _step(
    dynamics, costs, gaps, policy, box, start, first, C, c, lower, upper, centre, penalty, barrier, wanted, slope, most,
    dx, du, rows,
):  # fmt: skip
    """Write the first step dx, du of `trajopt.solvers.formulation.linear_step`, of at most so many lengths 1, 1/2, ...,
    that changes the model's value to less than is wanted, with a small part of the slope beyond; and the change
    C (dx, du) of the rows.  Returns the value, the linear part of the costs in it, and True if that is so."""
    before, length, value, linear = sum_of_terms(c, None, lower, upper, centre, penalty, barrier), 1.0, 0.0, 0.0
    for _ in range(most):
        follow(*dynamics, gaps, *policy, *box, *start, length, dx, du)
        along(first, *C, dx, du, rows)
        linear, quadratic = change(*costs, dx, du)
        value = linear + 0.5 * quadratic + sum_of_terms(c, rows, lower, upper, centre, penalty, barrier) - before
        if value < wanted + SUFFICIENT * length * slope:
            return value, linear, True
        length *= 0.5
    return value, linear, False


@routine
def _differ(c, before, after, lower, upper, centre, penalty, boxed, policy, dx0, du0, dx, du):
    """True if the set of active terms differs between two changes of the rows; or, within a box, if the step between
    (dx0, du0) and (dx, du) is not that of the policy k, K."""
    for i in range(c.shape[0]):
        shift = centre[i] / penalty
        side = active_side(c[i] + before[i] + shift, lower[i], upper[i])
        if side != active_side(c[i] + after[i] + shift, lower[i], upper[i]):
            return True
    k, K = policy
    if boxed:
        for t in range(du.shape[0]):
            for i in range(du.shape[1]):
                wanted = du0[t, i] + k[t, i]
                for j in range(K.shape[2]):
                    wanted += K[t, i, j] * (dx[t, j] - dx0[t, j])
                if abs(wanted - du[t, i]) > CLIPPED * (1.0 + abs(wanted)):
                    return True
    return False


@routine
def _gradients(lx, lu, lxx, lux, luu, dx, du, gx, gu):
    """Gradients gx (N+1, ndx), gu (N, nu) of the costs' model at (dx, du)."""
    N, ndx, nu = du.shape[0], dx.shape[1], du.shape[1]
    for t in range(N + 1):
        for i in range(ndx):
            gx[t, i] = lx[t, i] + dot(lxx, t, i, dx, t)
        if t < N:
            for i in range(nu):
                gu[t, i] = lu[t, i] + dot(luu, t, i, du, t) + dot(lux, t, i, dx, t)
                for j in range(ndx):
                    gx[t, j] += lux[t, i, j] * du[t, i]


class StepPoint(NamedTuple):
    """A point z = (dx, du) of the model, the change C z (R,) of the rows, the change of the model's value, and the
    part of it that is linear in z in the costs."""

    dx: np.ndarray
    du: np.ndarray
    rows: np.ndarray
    value: float
    linear: float = 0.0


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
        end, _ = self._reached(sweep, (NOTHING, NOTHING))
        value = 0.0 if gaps is None else np.inf
        here = StepPoint(np.zeros_like(e.lx), np.zeros_like(e.lu), np.zeros(len(end.rows)), value)
        best, best_sweep, settled = end if end.value < here.value else here, sweep, False
        if self.multipliers.barrier > 0.0:
            best, best_sweep = self._smooth_minimum(best, sweep)
            return ModelMinimum(direction._replace(sweep=self._about_iterate(best_sweep, best, direction.sweep)), best)
        for _ in range(FULL):
            settled = not self._changes_active_set(here, end, sweep)
            if settled:
                break
            again = self._sweep(end)
            if not again.ok:
                break
            here, sweep = end, again
            end, _ = self._reached(sweep, (here.dx, here.du))
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

    def _smooth_minimum(self, best: StepPoint, sweep: SweepResult) -> tuple[StepPoint, SweepResult]:
        """The point after Newton steps of a model without kinks, until one gains most of what it predicts, and the last
        sweep."""
        predicted, gained = -(sweep.d1 + 0.5 * sweep.d2), -best.value
        for _ in range(NEWTON):
            if self.model.iterate.gaps is not None or gained >= MOST * predicted:
                break
            again = self._sweep(best)
            lower = self._lower(best, again) if again.ok else None
            if lower is None:
                break
            predicted, gained = -(again.d1 + 0.5 * again.d2), best.value - lower.value
            best, sweep = lower, again
        return best, sweep

    def _reached(
        self,
        sweep: SweepResult,
        start: tuple[np.ndarray, np.ndarray],
        wanted: float = np.inf,
        slope: float = 0.0,
        most: int = 1,
    ) -> tuple[StepPoint, bool]:
        """The end of a sweep's step from a start (dx, du), or from the iterate, and True if the model is as low there
        as is wanted: of a full step, or of the first of at most so many halved ones."""
        rows, at, m, e = self.formulation.rows, self.model.rows, self.multipliers, self.expansion
        assert rows is not None and at is not None
        gaps, box = self.model.iterate.gaps, self.model.box
        dx, du, moved = np.empty_like(e.lx), np.empty_like(e.lu), np.empty(len(at.c))
        value, linear, low = _step(
            (e.fx, e.fu), tuple(e[2:]), NOTHING if gaps is None else gaps, (sweep.k, sweep.K),
            (NOTHING, NOTHING) if box is None else (box.lower, box.upper), start, rows.first, at.C, at.c,
            rows.lower, rows.upper, m.centre, m.penalty, m.barrier, wanted, slope, most, dx, du, moved,
        )  # fmt: skip
        return StepPoint(dx, du, moved, value, linear), low

    def _lower(self, here: StepPoint, sweep: SweepResult) -> StepPoint | None:
        """The first point at step length 1, 1/2, ... along the sweep's step with a sufficiently lower model; None if
        there is none."""
        slope = min(sweep.d1 + 0.5 * sweep.d2, 0.0)
        point, low = self._reached(sweep, (here.dx, here.du), here.value, slope, HALVINGS)
        return point if low else None

    def _changes_active_set(self, here: StepPoint, end: StepPoint, sweep: SweepResult) -> bool:
        """True if the set of active terms differs between the start and the end of a sweep's full step, or controls
        were clipped."""
        rows, at, m = self.formulation.rows, self.model.rows, self.multipliers
        assert rows is not None and at is not None
        policy, boxed = (sweep.k, sweep.K), self.model.box is not None
        terms = at.c, here.rows, end.rows, rows.lower, rows.upper, m.centre, m.penalty
        return _differ(*terms, boxed, policy, here.dx, here.du, end.dx, end.du)

    def _sweep(self, here: StepPoint) -> SweepResult:
        """Backward pass of the model expanded at a point, without gaps."""
        formulation, model, e = self.formulation, self.model, self.expansion
        assert model.rows is not None and formulation.rows is not None
        lx, lu = np.empty_like(e.lx), np.empty_like(e.lu)
        _gradients(*e[2:], here.dx, here.du, lx, lu)
        _, weights = self.multipliers.weights(formulation.rows, model.rows.c + here.rows)
        box = None if formulation.limits is None else box_around(model.iterate.us + here.du, *formulation.limits)
        at, iterate = model.rows, model.iterate
        iterate = iterate if iterate.gaps is None else iterate._replace(gaps=None)
        moved = LocalModel(  # all of it: `_replace` takes microseconds
            iterate, Expansion(e.fx, e.fu, lx, lu, e.lxx, e.lux, e.luu), None, model.costate, model.gradient_norm, box,
            None, RowModel(at.c, at.C, at.dual, weights),
        )  # fmt: skip
        return formulation.sweep(moved, self.mu, self.clock)

    def _about_iterate(self, sweep: SweepResult, end: StepPoint, first: SweepResult) -> SweepResult:
        """The sweep at a point with its policy and its value function expressed about the iterate."""
        at, gaps = self.model.rows, self.model.iterate.gaps
        assert at is not None and at.weights is not None
        d1 = end.linear + float(at.weights.p @ end.rows)
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
