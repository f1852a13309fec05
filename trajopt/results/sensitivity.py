"""Derivatives of a solution by what its problem is made of [the implicit function theorem at the KKT conditions]."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trajopt.optimality.first_order import Change, change_with, default_steps, first_order
from trajopt.optimality.kkt_point import KKTPoint, kkt_point
from trajopt.optimality.kkt_system import KKTStep, KKTSystem
from trajopt.optimality.parameters import Parameters, parameters_of
from trajopt.problem.problem import Problem

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Sensitivity:
    p: Parameters
    point: KKTPoint
    system: KKTSystem
    make_problem: Callable[[Any], Problem]
    steps: np.ndarray = field(repr=False)

    @cached_property
    def change(self) -> Change:
        return change_with(self.make_problem, self.p, self.point, self.steps)

    @cached_property
    def step(self) -> KKTStep:
        return self.system.solve(self.change.rhs)

    @property
    def xs(self) -> np.ndarray:
        return self.step.dx

    @property
    def us(self) -> np.ndarray:
        return self.step.du

    @property
    def cost(self) -> np.ndarray:
        return self.change.cost

    def vjp(self, xs_bar=None, us_bar=None, cost_bar: float = 0.0):
        rhs = self.system.zeros(1)
        if xs_bar is not None:
            rhs.gx[:, :, 0] = xs_bar
        if us_bar is not None:
            rhs.gu[:, :, 0] = us_bar
        a = self.system.solve(rhs)
        e, A = self.point.e, self.point.active
        d = self.change.rhs
        total = np.einsum("tiz,tip->p", a.dx, d.gx) + np.einsum("tiz,tip->p", a.du, d.gu)
        total += np.einsum("tiz,tip->p", a.dlam, d.F) + np.einsum("rz,rp->p", a.dnu, d.c)
        gu = rhs.gu + e.lux @ a.dx[:-1] + e.luu @ a.du + e.fu.swapaxes(1, 2) @ a.dlam[1:]
        A.add_transposed(a.dnu, np.zeros_like(rhs.gx), gu)
        gu[self.system.free] = 0.0
        total += np.einsum("tiz,tip->p", gu, d.held)
        return total + cost_bar * self.cost


def sensitivity(make_problem, p, solution, *, wrt=None, steps=None) -> Sensitivity:
    parameters = parameters_of(p, wrt)
    problem = make_problem(p)
    point = kkt_point(problem, solution.xs, solution.us, solution.constraints)
    system = KKTSystem(point, max((r.penalty for r in solution.constraints), default=0.0))
    return Sensitivity(parameters, point, system, make_problem, default_steps(parameters))


def polished_point(point: KKTPoint, system: KKTSystem) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """A Newton step of the optimality conditions: xs, us, nu (R,) and how large the conditions' error was before."""
    from trajopt.optimality.kkt_system import RightHandSide

    here = first_order(point.problem, point)
    gx = here.gx - point.costate
    gu = np.where(system.free, here.gu, 0.0)
    held = np.where(system.free, 0.0, here.limits - point.us)
    rhs = RightHandSide(gx[..., None], gu[..., None], here.F[..., None], here.c[..., None], held[..., None])
    step = system.solve(rhs)
    xs = point.problem.system.integrate(point.xs, step.dx[..., 0])
    nu = point.nu.copy()
    nu[point.active.index] += step.dnu[:, 0]
    return xs, point.us + step.du[..., 0], nu, max(np.abs(x).max(initial=0.0) for x in rhs)
