"""The direction of an iteration: an exact sweep where that is wanted and positive definite, else Gauss-Newton."""

from __future__ import annotations

import math
from typing import NamedTuple

from trajopt.backward.regularization import Regularization
from trajopt.results.status import Status
from trajopt.solvers.iterate import EXACT, GAUSS_NEWTON, Direction, Formulation, LocalModel, with_gauss_newton
from trajopt.solvers.state import Aim
from trajopt.solvers.timing import Stopwatch


class Directions(NamedTuple):
    """What finding them takes."""

    formulation: Formulation
    clock: Stopwatch

    def find(self, model: LocalModel, regularization: Regularization, exact: bool) -> Aim:
        """The direction of a model, exact if wanted and possible, mu raised as it needs.

        The model that comes with it has what its sweep had, the exact one where there are constraints."""
        formulation, clock = self.formulation, self.clock
        knot, without_curvature = -1, False
        if not math.isfinite(model.gradient_norm):
            return Aim(None, model, regularization, status=Status.INVALID_DERIVATIVES)
        if exact and model.exact is None:
            model = formulation.with_curvature(model, None, clock)
        if exact and model.exact is not None:
            newton = formulation.sweep(model, regularization.mu, clock, EXACT)
            if newton.ok:
                return Aim(Direction(EXACT, newton, None, -1), model, regularization)
            exact, knot, without_curvature = False, newton.failed_knot, not newton.finite
        model = with_gauss_newton(formulation, model, clock)
        gauss_newton = formulation.sweep(model, regularization.mu, clock)
        while not gauss_newton.ok:
            if not gauss_newton.finite:
                return Aim(None, model, regularization, without_curvature, Status.INVALID_DERIVATIVES)
            knot, regularization = gauss_newton.failed_knot, regularization.increased()
            if regularization.exhausted:
                return Aim(None, model, regularization, without_curvature, Status.NOT_POSITIVE_DEFINITE)
            gauss_newton = formulation.sweep(model, regularization.mu, clock)
        if exact:
            whole = formulation.with_curvature(model, gauss_newton.Vx, clock)
            newton = formulation.sweep(whole, regularization.mu, clock, EXACT)
            if newton.ok:
                kept = model if model.rows is None else whole
                return Aim(Direction(EXACT, newton, gauss_newton, knot), kept, regularization, without_curvature)
            knot, without_curvature = newton.failed_knot, not newton.finite
        return Aim(Direction(GAUSS_NEWTON, gauss_newton, None, knot), model, regularization, without_curvature)
