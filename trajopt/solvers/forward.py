"""The problem as it stands: the sweep's controls are the controls, a trajectory is a rollout of the dynamics."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dynamics.simd import routine
from trajopt.backward.box_qp import Box, box_around
from trajopt.backward.curvature import by_products, by_tensors
from trajopt.backward.expansions import (
    Expansion,
    adjoint,
    changed,
    expand,
    expand_exactly,
    hessian_products,
    largest_gradient,
    with_hessians,
)
from trajopt.backward.regularization import FIRST
from trajopt.backward.sweep import SweepResult, sweep, sweep_with_curvature
from trajopt.interfaces.system import semi_implicit_form
from trajopt.problem.objective import Objective, zero_blocks
from trajopt.problem.problem import Problem
from trajopt.solvers.iterate import EXACT, Iterate, LocalModel, completed, sweep_of_kind, with_slope
from trajopt.solvers.line_search import Candidate
from trajopt.solvers.rollout import ALPHAS, closed_loop, gaps_of, open_loop
from trajopt.solvers.timing import Stopwatch
from trajopt.validation import same_shape

Limits = tuple[np.ndarray, np.ndarray]


@routine
def gradient_at(Vx, Vxx, dx):
    """Vx + Vxx dx of all knots (N+1, ndx) but the first, contiguous."""
    gradient = Vx[1:].copy()
    for t in range(gradient.shape[0]):
        for j in range(gradient.shape[1]):
            for i in range(gradient.shape[1]):  # along the rows of the symmetric Vxx, which vectorizes
                gradient[t, i] += Vxx[t + 1, j, i] * dx[t + 1, j]
    return gradient


@dataclass(frozen=True)
class Curvature:
    """What an exact sweep contains.

    Attributes
    ----------
    hessian : "parallel", "value", "costate" or "tensor"
        Which multiplier contracts the curvature of the dynamics, and how (see `trajopt.DDP`).
    cost_hessian : "exact" or "gauss_newton"
    """

    hessian: str = "parallel"
    cost_hessian: str = "exact"


def regularized(
    expansion: Expansion, gaps: np.ndarray | None, mu: float, regularization: str
) -> tuple[Expansion, float]:
    """The expansion with mu added to the Hessians in the states, where that is wanted, and the mu left for Quu.

    With gaps "control" means the states too, and for Quu no more than makes a singular one definite: with mu on Quu
    alone feedback fades as mu grows, and nothing holds the trajectory while its gaps close.
    """
    if mu == 0.0 or (regularization == "control" and gaps is None):
        return expansion, mu
    lxx = expansion.lxx.copy()
    np.einsum("tii->ti", lxx)[...] += mu
    left = {"control": min(mu, FIRST), "state": 0.0, "both": mu}[regularization]
    return expansion._replace(lxx=lxx), left


class ForwardFormulation:
    """Rollouts of the system under its own controls.

    Parameters
    ----------
    problem : Problem
    objective : Objective
        The problem's, or with terms that stand for constraints.
    limits : (lower, upper), (N, nu) each, or None
        Control limits for sweeps and rollouts to keep.
    curvature : Curvature
    regularization : "control", "state" or "both"
        What mu is added to.
    """

    def __init__(
        self,
        problem: Problem,
        objective: Objective,
        limits: Limits | None,
        curvature: Curvature,
        regularization: str,
    ) -> None:
        self.problem, self.objective, self.limits = problem, objective, limits
        self.curvature, self.regularization = curvature, regularization
        self._dt, self._leading = semi_implicit_form(problem.system)

    def start(self, us: np.ndarray, xs: np.ndarray | None, clock: Stopwatch) -> Iterate:
        """The rollout of us, or the states xs with their gaps."""
        with clock.measure("rollouts"):
            us = us if self.limits is None else np.clip(us, *self.limits)
            gaps = None if xs is None else gaps_of(self.problem, xs, us)
            if xs is None:
                xs = open_loop(self.problem, us)
            elif gaps is not None and not gaps.any():
                gaps = None
            known = gaps is None or bool(np.isfinite(gaps).all())
            return Iterate(xs, us, us, self.objective.value(xs, us) if known else np.inf, gaps, clock.elapsed)

    def expand(
        self, iterate: Iterate, clock: Stopwatch, exact: bool = False, multiplier: np.ndarray | None = None
    ) -> LocalModel:
        """First-order dynamics, Gauss-Newton costs.  If an exact sweep will follow: what these leave out besides, or,
        with a multiplier, all curvature in place."""
        with clock.measure("derivatives"):
            (xs, us, *_), curvature = iterate, None
            curved = exact and self.curvature.cost_hessian == "exact"
            if exact and multiplier is not None:
                expansion = expand_exactly(self.problem, xs, us, multiplier, self.objective, curved)
            else:
                curvature = self._no_curvature() if curved else None
                expansion = expand(self.problem, xs, us, self.objective, curvature)
            costate, gradient = adjoint(expansion)
            norm = largest_gradient(gradient, us, self.limits)
            box = None if self.limits is None else box_around(us, *self.limits)
            return LocalModel(iterate, expansion, costate, norm, box, exact and multiplier is not None, curvature)

    def predicted(self, model: LocalModel, sweep: SweepResult, moved: Iterate, clock: Stopwatch) -> np.ndarray | None:
        """Vx' + Vxx' dx', the gradient of the sweep's value function where its full step led."""
        if self.curvature.hessian != "parallel":
            return None
        with clock.measure("derivatives"):
            found = self.problem.system.difference(model.iterate.xs, moved.xs)
            dx = same_shape("difference", found, (len(moved.xs), self.problem.system.ndx))
            gaps = model.iterate.gaps
            return gradient_at(sweep.Vx, sweep.Vxx, dx if gaps is None else dx - gaps)

    def needs_gauss_newton(self, model: LocalModel) -> bool:
        """In the mode "parallel", unless the curvature is in the model already."""
        return self.curvature.hessian == "parallel" and not model.exact

    def sweep(self, model: LocalModel, mu: float, clock: Stopwatch) -> SweepResult:
        """Backward pass without curvature."""
        if model.exact:
            model = self.expand(model.iterate, clock)._replace(box=model.box)
        with clock.measure("backward_pass"):
            return self._sweep(model.expansion, model.iterate.gaps, model.box, mu)

    def _sweep(self, expansion: Expansion, gaps: np.ndarray | None, box: Box | None, mu: float) -> SweepResult:
        e, mu = regularized(expansion, gaps, mu, self.regularization)
        return completed(sweep(*e, mu, self._dt, gaps, box, leading=self._leading), e, gaps)

    def exact_sweep(
        self, model: LocalModel, gauss_newton: SweepResult | None, mu: float, clock: Stopwatch
    ) -> SweepResult:
        """Backward pass with the curvature of dynamics and costs; ok is False where Quu is not positive definite."""
        if model.exact:
            with clock.measure("backward_pass"):
                return self._sweep(model.expansion, model.iterate.gaps, model.box, mu)
        e, system, (xs, us, *_) = model.expansion, self.problem.system, model.iterate
        gaps, box, hessian = model.iterate.gaps, model.box, self.curvature.hessian
        with clock.measure("derivatives"):
            curvature = self._cost_curvature(model)
            if hessian in ("value", "tensor"):
                expansion, mu = regularized(with_hessians(e, curvature), gaps, mu, self.regularization)
                of_knot = (by_products if hessian == "value" else by_tensors)(system, xs, us)
            else:
                if hessian == "costate":
                    multiplier = model.costate
                else:
                    assert gauss_newton is not None
                    multiplier = gauss_newton.Vx
                products = hessian_products(system, xs, us, np.ascontiguousarray(multiplier[1:]))
                expansion, of_knot = with_hessians(e, curvature, products), None
        with clock.measure("backward_pass"):
            if of_knot is None:
                return self._sweep(expansion, gaps, box, mu)
            result = sweep_with_curvature(expansion, of_knot, mu, self._dt, gaps, box, self._leading)
            return completed(result, expansion, gaps)

    def _no_curvature(self) -> tuple[np.ndarray, ...]:
        return zero_blocks(self.problem.horizon, self.problem.system.ndx, self.problem.system.nu)

    def _cost_curvature(self, model: LocalModel) -> Sequence[np.ndarray] | None:
        """Blocks with what the costs' Gauss-Newton Hessians leave out, None if that is not wanted."""
        if model.curvature is not None or self.curvature.cost_hessian != "exact":
            return model.curvature
        blocks = self._no_curvature()
        self.objective.accumulate(model.iterate.xs, model.iterate.us, None, blocks)
        return blocks

    def foresee(
        self, model: LocalModel, trial: Candidate, kind: str, mu: float, clock: Stopwatch
    ) -> tuple[SweepResult, bytes] | None:
        """As `Formulation` has it; the curvature of the constraints is that of the iterate."""
        if model.exact and kind != EXACT:
            model = self.expand(model.iterate, clock)._replace(box=model.box)
        (xs, us, _, _, gaps, _), e = model.iterate, model.expansion
        with clock.measure("derivatives"):
            change = self._no_curvature()
            found = self.objective.foresee(xs, us, (trial.xs, trial.us), change)
        if not found:
            return None
        other = model._replace(expansion=changed(e, change))
        return with_slope(sweep_of_kind(self, other, kind, mu, clock), e, gaps), found

    def candidates(self, model: LocalModel, sweep: SweepResult) -> Iterator[Candidate]:
        """Closed-loop rollouts, all step lengths in one call."""
        xs, us, _, _, gaps, _ = model.iterate
        states, controls = closed_loop(self.problem, xs, us, sweep, gaps, self.limits)
        for alpha, xs_new, us_new in zip(ALPHAS, states, controls, strict=True):
            us_new = np.array(us_new, order="C")
            yield Candidate(float(alpha), np.array(xs_new, order="C"), us_new, us_new)

    def hold_clipped(self, model: LocalModel, sweep: SweepResult) -> LocalModel | None:
        """The model with its box closed for controls that lie on a limit and that even the shortest step's feedback
        pushes against it; None if there are none.

        The sweep counts on such feedback, so its direction may lead uphill where the limit swallows it.
        """
        if self.limits is None or model.box is None:
            return None
        (lower, upper), (xs, us, _, _, gaps, _), box = self.limits, model.iterate, model.box
        states, _ = closed_loop(self.problem, xs, us, sweep, gaps, self.limits)
        shortest = np.array(states[-1][:-1], order="C")
        if not np.isfinite(shortest).all():
            return None
        dx = self.problem.system.difference(xs[:-1], shortest)
        wanted = us + ALPHAS[-1] * sweep.k + np.einsum("tij,tj->ti", sweep.K, dx)
        swallowed = ((us <= lower) & (wanted < lower)) | ((us >= upper) & (wanted > upper))
        if not swallowed.any():
            return None
        shut = box_around(us, *self.limits)
        shut.lower[...], shut.upper[...] = np.where(swallowed, 0.0, box.lower), np.where(swallowed, 0.0, box.upper)
        return model._replace(box=shut)

    def policy(self, model: LocalModel, sweep: SweepResult) -> tuple[np.ndarray, np.ndarray]:
        """The sweep's own gains."""
        return sweep.k, sweep.K

    def gradient_norm(self, model: LocalModel) -> float:
        """That of the model."""
        return model.gradient_norm
