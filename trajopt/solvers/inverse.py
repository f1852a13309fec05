"""The formulation by inverse dynamics: accelerations are the sweep's controls, the dynamics are linear, and the
controls u(x, a) an output.

The problem and its optimum are the same.  Costs and constraints keep their form in (x, u); their quadratic model is
rewritten in (x, a) by the system (`AccelerationControl.substitute`), whose multiplier for the curvature of u(x, a) is
lu, known before any sweep.  A trajectory is a linear recursion, and all its controls are computed in one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dynamics.simd import routine
from trajopt.backward.backward_pass import SweepResult
from trajopt.backward.expansions import Expansion, adjoint, finite, largest_gradient
from trajopt.costs import Quadratic
from trajopt.problem.objective import zero_blocks
from trajopt.problem.problem import Problem
from trajopt.rows import add_gradients, with_multipliers
from trajopt.solvers.formulation import (
    ALPHAS,
    EXACT,
    GAUSS_NEWTON,
    Before,
    Candidate,
    Formulation,
    Iterate,
    LocalModel,
    RowModel,
    remaining_gaps,
)


@routine
def _roll_out(x0, xs, a, k, K, h, semi_implicit, gaps, alpha, xs_new, a_new):
    """v' = v + h a, q' = q + h v' (or h v), less (1 - alpha) gaps, with a = a_t + alpha k_t + K_t (x - xs_t)."""
    N, n = a.shape
    left = 1.0 - alpha
    for i in range(2 * n):
        xs_new[0, i] = x0[i] - left * gaps[0, i]
    for t in range(N):
        x, y = xs_new[t], xs_new[t + 1]
        for i in range(n):
            s = a[t, i] + alpha * k[t, i]
            for j in range(2 * n):
                s += K[t, i, j] * (x[j] - xs[t, j])
            a_new[t, i] = s
            v = x[n + i] + h * s
            y[i] = x[i] + h * (v if semi_implicit else x[n + i]) - left * gaps[t + 1, i]
            y[n + i] = v - left * gaps[t + 1, n + i]


class InverseFormulation(Formulation):
    """Trajectories of accelerations; there are no control limits.

    The system has an `acceleration_control` (see `dynamics.systems.acceleration_control`).
    """

    def __init__(self, problem: Problem, *arguments: Any) -> None:
        super().__init__(problem, *arguments)
        system: Any = problem.system
        self._map, N = system.acceleration_control, problem.horizon
        self._fx, self._fu = np.tile(self._map.fx, (N, 1, 1)), np.tile(self._map.fu, (N, 1, 1))
        self._dt = system.dt if system.semi_implicit else 0.0
        self._no_gaps = np.zeros((N + 1, system.ndx))

    def start(self, us: np.ndarray, xs: np.ndarray | None) -> Iterate:
        """The rollout of us, or the states xs with their gaps; the accelerations are those of us there."""
        x0, gaps, given = self.problem.x0, None, xs is not None
        with self.clock.measure("rollouts"), np.errstate(all="ignore"):
            if xs is None:
                xs = np.ascontiguousarray(self.problem.system.rollout(x0, us))
                a = np.diff(xs[:, us.shape[1] :], axis=0) / self.problem.system.dt
            else:
                a = self._map.accelerations(xs, us)
            if not finite(xs, a):
                return Iterate(xs, us, us, np.inf, None, self.clock.elapsed, np.inf)
            if given:
                reached = np.concatenate([x0[None], xs[:-1] @ self._map.fx.T + a @ self._map.fu.T])
                gaps = remaining_gaps(reached - xs, 0.0, xs)
            cost = self.cost(xs, us)
            return Iterate(xs, us, a, cost, gaps, self.clock.elapsed, cost)

    def expand(
        self, iterate: Iterate, exact: bool = False, before: Before = None, dual: np.ndarray | None = None
    ) -> LocalModel:
        """Linear dynamics, costs and rows rewritten in (x, a), with all curvature if exact.

        The multiplier of the curvature of u(x, a) is lu + Cu'lam, that of the Lagrangian.
        """
        (xs, us, controls, *_), rows = iterate, None
        with self.clock.measure("derivatives"):
            blocks = Quadratic(*zero_blocks(len(us), self.problem.system.ndx, us.shape[1]))
            all_of_costs = exact and self.curvature.cost_hessian == "exact"
            self.problem.objective.accumulate(xs, us, blocks, blocks if all_of_costs else None)
            if self.rows is None or dual is None:
                expansion = lagrangian = self._substituted(iterate, blocks, exact)
            else:
                if all_of_costs:
                    self.rows.add_curvature(xs, us, dual, blocks)
                (c, Cx, Cu), first = self.rows.linearized(xs, us), self.rows.first
                forces = np.zeros(us.shape)
                add_gradients(first, Cx, Cu, dual, np.zeros(xs.shape), forces)
                expansion = self._substituted(iterate, blocks._replace(lu=forces + blocks.lu), exact)
                Ux, Ua = self._map.jacobians(xs, controls)
                lx, lu = expansion.lx.copy(), expansion.lu - np.einsum("tij,ti->tj", Ua, forces)
                lx[:-1] -= np.einsum("tij,ti->tj", Ux, forces)
                expansion = expansion._replace(lx=lx, lu=lu)
                knots = np.repeat(np.arange(len(us) + 1), np.diff(first)).clip(max=len(us) - 1)
                C = Cx + np.einsum("ri,rij->rj", Cu, Ux[knots]), np.einsum("ri,rij->rj", Cu, Ua[knots])
                lagrangian, rows = with_multipliers(expansion, first, C, dual), RowModel(c, C, dual)
            costate, gradient = adjoint(lagrangian)
            norm, kind = largest_gradient(gradient, us, None), EXACT if exact else GAUSS_NEWTON
            return LocalModel(iterate, {kind: expansion}, costate, norm, rows=rows)

    def with_curvature(self, model: LocalModel, Vx: np.ndarray | None) -> LocalModel:
        """See `Formulation`; the multiplier is lu, known before any sweep."""
        dual = None if model.rows is None else model.rows.dual
        return model.with_expansion(EXACT, self.expand(model.iterate, True, dual=dual).expansion)

    def _substituted(self, iterate: Iterate, blocks: Quadratic, exact: bool) -> Expansion:
        with np.errstate(all="ignore"):
            return Expansion(
                self._fx, self._fu, *self._map.substitute(iterate.xs, iterate.controls, blocks, curvature=exact)
            )

    def candidates(self, model: LocalModel, sweep: SweepResult) -> Iterator[Candidate]:
        """Linear rollouts, one step length after another, with the controls that they need."""
        xs, a, gaps = model.iterate.xs, model.iterate.controls, model.iterate.gaps
        gaps = self._no_gaps if gaps is None else gaps
        for alpha in ALPHAS:
            xs_new, a_new = np.empty_like(xs), np.empty_like(a)
            h, semi_implicit = self.problem.system.dt, self._dt > 0.0
            _roll_out(self.problem.x0, xs, a, sweep.k, sweep.K, h, semi_implicit, gaps, alpha, xs_new, a_new)
            yield Candidate(float(alpha), xs_new, self._map.controls(xs_new, a_new), a_new)

    def policy(self, model: LocalModel, sweep: SweepResult) -> tuple[np.ndarray, np.ndarray]:
        """Gains of the controls, from du = U_x dx + U_a da."""
        Ux, Ua = self._map.jacobians(model.iterate.xs, model.iterate.controls)
        return np.einsum("tij,tj->ti", Ua, sweep.k), Ux + Ua @ sweep.K
