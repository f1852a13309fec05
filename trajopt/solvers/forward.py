"""The formulation by forward dynamics: the sweep's controls are the problem's, a trajectory is a rollout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dynamics.validation import as_array
from trajopt.backward.box_qp import box_around
from trajopt.backward.curvature import by_products, by_tensors
from trajopt.backward.expansions import (
    Expansion,
    adjoint,
    expand,
    expand_exactly,
    gaps_of,
    hessian_products,
    largest_gradient,
    with_hessians,
)
from trajopt.backward.regularization import FIRST
from trajopt.backward.sweep import SweepResult, sweep, sweep_with_curvature
from trajopt.interfaces.system import semi_implicit_form
from trajopt.problem.objective import all_finite, zero_blocks
from trajopt.problem.problem import Problem
from trajopt.rows.augmented_terms import with_multipliers
from trajopt.rows.rows import Rows
from trajopt.solvers.iterate import (
    ALPHAS,
    GAUSS_NEWTON,
    Before,
    Exact,
    Iterate,
    Limits,
    LocalModel,
    RowModel,
    Stopwatch,
    closed_loop,
    open_loop,
    remaining_gaps,
    with_terms_of,
)
from trajopt.solvers.line_search import Candidate
from trajopt.solvers.predicted_change import completed, gradient_at


@dataclass(frozen=True)
class Curvature:
    """Curvature in exact sweeps.

    Attributes
    ----------
    hessian : "parallel", "value", "costate" or "tensor"
        Which multiplier contracts the curvature of the dynamics, and how (see `trajopt.DDP`).
    cost_hessian : "exact" or "gauss_newton"
    escape : True if the solve leaves saddles (`trajopt.solvers.escape`)
    """

    hessian: str = "parallel"
    cost_hessian: str = "exact"
    escape: bool = False


def regularized(
    expansion: Expansion, gaps: np.ndarray | None, mu: float, regularization: str
) -> tuple[Expansion, float]:
    """The expansion with mu added to the Hessians in the states, where `regularization` asks for that, and the mu left
    for Quu.

    With gaps "control" means the states too, and for Quu no more than makes a singular one definite: with mu on Quu
    alone the feedback vanishes as mu grows, and nothing keeps the trajectory together while its gaps close.
    """
    if mu == 0.0 or (regularization == "control" and gaps is None):
        return expansion, mu
    lxx = expansion.lxx.copy()
    np.einsum("tii->ti", lxx)[...] += mu
    left = {"control": min(mu, FIRST), "state": 0.0, "both": mu}[regularization]
    return expansion._replace(lxx=lxx), left


def predicted_multiplier(problem: Problem, model: LocalModel, sweep: SweepResult, xs: np.ndarray) -> np.ndarray:
    """Predicted multiplier Vx' + Vxx' dx' (N, ndx) of the dynamics: the gradient of the value function of a sweep at
    states xs, exact up to the square of the step."""
    found = problem.system.difference(model.iterate.xs, xs)
    dx, gaps = as_array("difference", found, (len(xs), problem.system.ndx), finite=False), model.iterate.gaps
    return gradient_at(sweep.Vx, sweep.Vxx, dx if gaps is None else dx - gaps)[1:]


class ForwardFormulation:
    """Rollouts of the system under its own controls.

    Parameters
    ----------
    problem : Problem
    rows : Rows or None
        Constraints other than these limits.
    limits : (lower, upper), (N, nu) each, or None
        Control limits that sweeps and rollouts keep.
    curvature : Curvature
    regularization : "control", "state" or "both"
        Hessians to which mu is added (see `LoopOptions`).
    """

    def __init__(
        self,
        problem: Problem,
        rows: Rows | None,
        limits: Limits | None,
        curvature: Curvature,
        regularization: str,
    ) -> None:
        self.problem, self.rows, self.limits = problem, rows, limits
        self.curvature, self.regularization = curvature, regularization
        dt, self._leading = semi_implicit_form(problem.system)
        self._dt = np.full(problem.horizon, dt, np.float64)

    def start(self, us: np.ndarray, xs: np.ndarray | None, clock: Stopwatch) -> Iterate:
        """The rollout of us, or the states xs with their gaps."""
        with clock.measure("rollouts"):
            us = us if self.limits is None else np.clip(us, *self.limits)
            gaps = None if xs is None else gaps_of(self.problem, xs, us)
            if xs is None:
                xs = open_loop(self.problem, us)
            known = gaps is None or all_finite(gaps)
            gaps = remaining_gaps(gaps, 0.0, xs) if known else gaps
            cost = self.problem.objective.value(xs, us) if known else np.inf
            return Iterate(xs, us, us, cost, gaps, clock.elapsed, cost)

    def expand(
        self,
        iterate: Iterate,
        clock: Stopwatch,
        exact: bool = False,
        before: Before = None,
        dual: np.ndarray | None = None,
    ) -> LocalModel:
        """First-order dynamics and Gauss-Newton costs, with the terms that these leave out if an exact model is to
        follow; with a multiplier predicted by the sweep before, the exact model at once."""
        (xs, us, *_), cost_curvature, rows = iterate, None, None
        with clock.measure("derivatives"):
            all_of_costs = exact and self.curvature.cost_hessian == "exact"
            if exact and before is not None and self.curvature.hessian == "parallel":
                multiplier = predicted_multiplier(self.problem, *before, xs)
                expansion = expand_exactly(self.problem, xs, us, multiplier, cost_curvature=all_of_costs)
                models, curvature = (None, Exact(expansion)), expansion[2:]
            else:
                curvature = cost_curvature = self._no_curvature() if all_of_costs else None
                expansion = expand(self.problem, xs, us, curvature=cost_curvature)
                models = expansion, None
            lagrangian = expansion
            if self.rows is not None and dual is not None:
                c, *C = self.rows.linearized(xs, us)
                rows = RowModel(c, (C[0], C[1]), dual)
                lagrangian = with_multipliers(expansion, self.rows.first, rows.C, dual)
                if all_of_costs and curvature is not None:
                    self.rows.add_curvature(xs, us, dual, curvature)
            costate, gradient = adjoint(lagrangian)
            norm = largest_gradient(gradient, us, self.limits)
            box = None if self.limits is None else box_around(us, *self.limits)
            return LocalModel(iterate, *models, costate, norm, box, cost_curvature, rows)

    def with_curvature(self, model: LocalModel, Vx: np.ndarray | None, clock: Stopwatch) -> LocalModel:
        """See `Formulation`; Vx is needed only in the mode "parallel"."""
        hessian, system, (xs, us, *_) = self.curvature.hessian, self.problem.system, model.iterate
        if hessian == "parallel" and Vx is None:
            return model
        assert model.gauss_newton is not None
        with clock.measure("derivatives"):
            cost_curvature = model.cost_curvature
            if cost_curvature is None and self.curvature.cost_hessian == "exact":
                cost_curvature = self._no_curvature()
                self.problem.objective.accumulate(xs, us, None, cost_curvature)
                if self.rows is not None and model.rows is not None:
                    self.rows.add_curvature(xs, us, model.rows.dual, cost_curvature)
            if hessian in ("value", "tensor"):
                of_knot = (by_products if hessian == "value" else by_tensors)(system, xs, us)
                return model._replace(exact=Exact(with_hessians(model.gauss_newton, cost_curvature), of_knot))
            multiplier = model.costate if Vx is None or hessian == "costate" else Vx
            products = hessian_products(system, xs, us, np.ascontiguousarray(multiplier[1:]))
            return model._replace(exact=Exact(with_hessians(model.gauss_newton, cost_curvature, products)))

    def sweep(self, model: LocalModel, mu: float, clock: Stopwatch, kind: str = GAUSS_NEWTON) -> SweepResult:
        """Backward pass of the model of this kind."""
        expansion, of_knot = model.of_kind(kind)
        with clock.measure("backward_pass"):
            gaps, box = model.iterate.gaps, model.box
            e, mu = regularized(with_terms_of(expansion, self.rows, model), gaps, mu, self.regularization)
            if of_knot is None:
                result = sweep(*e, mu, self._dt, gaps, box, leading=self._leading)
            else:
                result = sweep_with_curvature(e, of_knot, mu, self._dt, gaps, box, self._leading)
            return completed(result, e, gaps)

    def _no_curvature(self) -> tuple[np.ndarray, ...]:
        return zero_blocks(self.problem.horizon, self.problem.system.ndx, self.problem.system.nu)

    def candidates(self, model: LocalModel, sweep: SweepResult) -> Iterator[Candidate]:
        """Closed-loop rollouts, all step lengths in one call."""
        xs, us, gaps = model.iterate.xs, model.iterate.us, model.iterate.gaps
        states, controls = closed_loop(self.problem, xs, us, sweep.k, sweep.K, gaps, self.limits)
        for alpha, xs_new, us_new in zip(ALPHAS, states, controls, strict=True):
            us_new = np.array(us_new, order="C")
            yield Candidate(float(alpha), np.array(xs_new, order="C"), us_new, us_new)

    def policy(self, model: LocalModel, sweep: SweepResult) -> tuple[np.ndarray, np.ndarray]:
        """The sweep's own gains."""
        return sweep.k, sweep.K
