"""Directions: the Gauss-Newton sweep, and the sweep with exact curvature of dynamics and costs.

An exact Hessian is right near an optimum and often indefinite far from it, so a Gauss-Newton sweep comes first in every
iteration, and remains the direction wherever the exact one is not wanted or not positive definite.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trajopt.backward_pass import SweepResult
from trajopt.curvature_sweeps import sweep_products, sweep_tensors
from trajopt.expansions import Expansion, add_cost_curvature, adjoint, expand
from trajopt.problem import Problem
from trajopt.regularization import Regularization
from trajopt.sweep import sweep
from trajopt.system import semi_implicit_dt
from trajopt.timing import Stopwatch


class LocalModel(NamedTuple):
    """A trajectory xs, us with its cost and expansion.

    Costate (N+1, ndx); largest gradient entry (inf if not a number); `time`: seconds from the start to this iterate.
    """

    xs: np.ndarray
    us: np.ndarray
    cost: float
    time: float
    expansion: Expansion
    costate: np.ndarray
    gradient_norm: float


def local_model(problem: Problem, xs: np.ndarray, us: np.ndarray, cost: float, clock: Stopwatch) -> LocalModel:
    """Expand the problem about xs, us."""
    reached = clock.elapsed
    with clock.measure("derivatives"):
        expansion = expand(problem, xs, us)
        costate, gradient = adjoint(expansion)
        largest = float(np.abs(gradient).max())
        return LocalModel(xs, us, cost, reached, expansion, costate, largest if np.isfinite(largest) else np.inf)


def gauss_newton_sweep(
    problem: Problem, model: LocalModel, regularization: Regularization, clock: Stopwatch
) -> tuple[SweepResult | None, Regularization]:
    """Sweep without curvature, mu raised until it succeeds; None if mu passes its limit first."""
    dt = semi_implicit_dt(problem.system)
    with clock.measure("backward_pass"):
        while not regularization.exhausted:
            result = sweep(*model.expansion, regularization.mu, dt)
            if result.ok:
                return result, regularization
            regularization = regularization.increased()
    return None, regularization


@dataclass(frozen=True)
class ExactCurvature:
    """The second sweep of an exact iteration.

    Attributes
    ----------
    hessian : "parallel", "value", "costate" or "tensor"
        Which multiplier contracts the curvature of the dynamics, and how (see `trajopt.DDP`).
    cost_hessian : "exact" or "gauss_newton"
    threshold : float
        Exact steps are tried once the predicted decrease is below this fraction of the cost.
    """

    hessian: str
    cost_hessian: str
    threshold: float

    def sweep(
        self, problem: Problem, model: LocalModel, gauss_newton: SweepResult, mu: float, clock: Stopwatch
    ) -> SweepResult:
        """Exact sweep with the same mu; its ok is False where Quu + mu I is not positive definite."""
        e, system = model.expansion, problem.system
        if self.hessian in ("value", "tensor"):  # dynamics curvature is added inside the sweep, knot by knot
            with clock.measure("derivatives"):
                expansion = self._with_cost_curvature(problem, model, e.lxx.copy(), e.lux.copy(), e.luu.copy())
                tensors = system.hessians(model.xs, model.us) if self.hessian == "tensor" else None
            with clock.measure("backward_pass"):
                if tensors is None:
                    return sweep_products(system, model.xs, model.us, expansion, mu)
                return sweep_tensors(expansion, tensors, mu)
        multiplier = gauss_newton.Vx if self.hessian == "parallel" else model.costate
        with clock.measure("derivatives"):
            Hxx, Hux, Huu = system.hessian_products(model.xs, model.us, np.ascontiguousarray(multiplier[1:]))
            lxx = np.empty_like(e.lxx)
            np.add(e.lxx[:-1], Hxx, out=lxx[:-1])
            lxx[-1] = e.lxx[-1]
            expansion = self._with_cost_curvature(problem, model, lxx, e.lux + Hux, e.luu + Huu)
        with clock.measure("backward_pass"):
            return sweep(*expansion, mu, semi_implicit_dt(system))

    def _with_cost_curvature(self, problem: Problem, model: LocalModel, lxx, lux, luu) -> Expansion:
        """The model's expansion with these Hessians, to which the costs' curvature is added if that is wanted."""
        expansion = model.expansion._replace(lxx=lxx, lux=lux, luu=luu)
        if self.cost_hessian == "exact":
            add_cost_curvature(problem, model.xs, model.us, *expansion[2:])
        return expansion
