"""The direction of an iteration: an exact sweep where that is asked for and positive definite, else Gauss-Newton."""

from __future__ import annotations

import math
from typing import NamedTuple

from trajopt.backward.expansions import blended, convexified
from trajopt.backward.regularization import Regularization
from trajopt.backward.sweep import SweepResult
from trajopt.results.records import Status
from trajopt.solvers.iterate import (
    CONVEXIFIED,
    EXACT,
    GAUSS_NEWTON,
    Direction,
    Formulation,
    LocalModel,
    Stopwatch,
    with_gauss_newton,
)
from trajopt.solvers.state import FoundDirection


class Directions(NamedTuple):
    """Computes directions from models; `clock` counts the time."""

    formulation: Formulation
    clock: Stopwatch

    def find(
        self, model: LocalModel, regularization: Regularization, exact: bool, near: bool = False
    ) -> FoundDirection:
        """The direction of a model, exact if asked for and possible, mu raised until Quu is positive definite.  Where
        exact curvature is indefinite, its positive part is used under constraints near the optimum (`near`), otherwise
        none.  The model returned is that of the sweep, the exact one where there are constraints."""
        formulation, clock = self.formulation, self.clock
        knot, without_curvature = -1, False
        if not math.isfinite(model.gradient_norm):
            return FoundDirection(None, model, regularization, status=Status.INVALID_DERIVATIVES)
        if exact and model.exact is None:
            model = formulation.with_curvature(model, None, clock)
        if exact and model.exact is not None:
            newton = formulation.sweep(model, regularization.shift, clock, EXACT)
            if newton.ok:
                return FoundDirection(Direction(EXACT, newton, None, -1), model, regularization)
            found = self._convexified(model, regularization, newton, None) if near else None
            if found is not None:
                return found
            exact, knot, without_curvature = False, newton.failed_knot, not newton.finite
        model = with_gauss_newton(formulation, model, clock)
        gauss_newton = formulation.sweep(model, regularization.shift, clock)
        while not gauss_newton.ok:
            if not gauss_newton.finite:
                return FoundDirection(None, model, regularization, without_curvature, Status.INVALID_DERIVATIVES)
            knot, regularization = gauss_newton.failed_knot, regularization.increased()
            if regularization.exhausted:
                return FoundDirection(None, model, regularization, without_curvature, Status.NOT_POSITIVE_DEFINITE)
            gauss_newton = formulation.sweep(model, regularization.shift, clock)
        if exact:
            whole = formulation.with_curvature(model, gauss_newton.Vx, clock)
            newton = formulation.sweep(whole, regularization.shift, clock, EXACT)
            if newton.ok:
                kept = model if model.rows is None else whole
                return FoundDirection(
                    Direction(EXACT, newton, gauss_newton, knot), kept, regularization, without_curvature
                )
            found = self._convexified(whole, regularization, newton, gauss_newton) if near else None
            if found is not None:
                return found
            knot, without_curvature = newton.failed_knot, not newton.finite
        return FoundDirection(
            Direction(GAUSS_NEWTON, gauss_newton, None, knot), model, regularization, without_curvature
        )

    def _convexified(
        self, model: LocalModel, regularization: Regularization, rejected: SweepResult, fallback: SweepResult | None
    ) -> FoundDirection | None:
        """The direction with the positive part of the curvature, where an exact sweep is rejected under constraints."""
        exact = model.exact
        if model.rows is None or exact is None or exact.of_knot is not None or not rejected.finite:
            return None
        convex = convexified(exact.expansion)
        while True:
            some = blended(exact.expansion, convex, regularization.share)
            model = model._replace(exact=exact._replace(convex=some))
            sweep = self.formulation.sweep(model, regularization.shift, self.clock, CONVEXIFIED)
            if sweep.ok:
                return FoundDirection(
                    Direction(CONVEXIFIED, sweep, fallback, rejected.failed_knot), model, regularization
                )
            if regularization.share == 1.0:
                return None
            regularization = regularization.with_larger_share()
