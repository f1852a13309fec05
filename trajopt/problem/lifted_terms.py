"""Costs and residuals made for a system, as those of a system around it with numbers appended to the states.

A term of a state x and controls u inside is one of z = (x, p) and controls w: derivatives by x and u are placed where z
and w have them (`ControlMap`), and running costs are integrated over durations that are part of the state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trajopt.costs import Cost, Quadratic
from trajopt.costs.cost import ExpandedCost, Into, add_expansion
from trajopt.interfaces.residual import Residual, at_knots, at_times, component_names
from trajopt.interfaces.system import System
from trajopt.interfaces.terms import Subject, Tangents, gradient_by, is_span, subject_of
from trajopt.problem.objective import Term

# --------------------------------------------------------------------------------------------
# Where the controls of a system inside come from, of one around it with longer states: from its controls and states.
#
# With z = (x, p) and controls w around, u inside, index sets C and P of u, and a factor s,
#
#     u_C = first of w        u_P = s times the first of p
#
# so derivatives of a function of (x, u) by z and w are its own, placed: those by u_C by w, s times those by u_P by p.


class ControlMap(NamedTuple):
    """The map from (z, w) to (x, u), and derivatives by (x, u) as those by (z, w).

    nx, ndx, nu : numbers of a state x, of its tangent, and of the controls u
    controls : C, in order
    parameters : P
    scale : s
    """

    nx: int
    ndx: int
    nu: int
    controls: np.ndarray
    parameters: np.ndarray = np.zeros(0, dtype=np.intp)
    scale: float = 1.0

    def inside(self, zs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """States (K, nx) and controls (K, nu), None for None, at points (z, w)."""
        zs = np.asarray(zs)
        return np.ascontiguousarray(zs[..., : self.nx]), None if us is None else self.controls_inside(zs, us)

    def controls_inside(self, zs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Controls (K, nu) at points (z, w)."""
        if not len(self.parameters):
            return np.ascontiguousarray(us[..., : self.nu])
        whole = np.empty((len(us), self.nu))
        whole[:, self.own] = us[:, : len(self.controls)]
        whole[:, self.parameters] = self.scale * zs[:, self.nx : self.nx + len(self.parameters)]
        return whole

    def along(self, dz: np.ndarray, dw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Changes dx (K, ndx, ...) and du (K, nu, ...) along dz (K, ndx, ...) and dw (K, nu, ...)."""
        du = np.empty((len(dw), self.nu, *dw.shape[2:]))
        du[:, self.controls] = dw[:, : len(self.controls)]
        du[:, self.parameters] = self.scale * dz[:, self.ndx : self.ndx + len(self.parameters)]
        return np.ascontiguousarray(dz[:, : self.ndx]), du

    def tangents(self, at: Tangents) -> Tangents:
        """Points (x, u) and changes there."""
        xs, us = self.inside(at.xs, at.us)
        if at.du is None:
            return Tangents(xs, us, np.ascontiguousarray(at.dx[:, : self.ndx]), None)
        return Tangents(xs, us, *self.along(at.dx, at.du))

    def place_first(
        self, rx: np.ndarray, ru: np.ndarray | None, of_states: np.ndarray, of_controls: Any, add: bool = False
    ) -> None:
        """Write derivatives (K, ..., ndx) by x and (K, ..., nu) by u, or None, as those by z and w, or add them."""
        n, P = self.ndx, len(self.parameters)
        _into(of_states[..., :n], rx, add)
        if ru is not None:
            _into(of_controls[..., : len(self.controls)], ru[..., self.own], add)
            if P:
                _into(of_states[..., n : n + P], self.scale * ru[..., self.parameters], add)

    def place_hessian(
        self, Hxx: Any, Hux: Any, Huu: Any, Hzz: np.ndarray, Hwz: Any, Hww: Any, add: bool = False
    ) -> None:
        """Write Hessians by x and u, None for those that are zero, as those by z and w, or add them."""
        n, m, s, p, own = self.ndx, len(self.controls), self.scale, self.parameters, self.own
        at = slice(n, n + len(p))
        if Hxx is not None:
            _into(Hzz[:, :n, :n], Hxx, add)
        if Hux is not None:
            _into(Hwz[:, :m, :n], Hux[:, own], add)
            if len(p):
                mixed = s * Hux[:, p]
                _into(Hzz[:, at, :n], mixed, add)
                _into(Hzz[:, :n, at], mixed.swapaxes(1, 2), add)
        if Huu is not None:
            _into(Hww[:, :m, :m], Huu[:, own][:, :, own], add)
            if len(p):
                _into(Hzz[:, at, at], s * s * Huu[:, p][:, :, p], add)
                _into(Hwz[:, :m, at], s * Huu[:, own][:, :, p], add)

    @property
    def own(self) -> Any:
        """C as an index, a slice where these are the first of u."""
        m = len(self.controls)
        return slice(m) if m == 0 or self.controls[-1] == m - 1 else self.controls


def _into(target: np.ndarray, value: np.ndarray, add: bool) -> None:
    if add:
        target += value
    else:
        target[...] = value


# --------------------------------------------------------------------------------------------
# Costs and residuals of a state x and controls u of a system inside, as those of z = (x, p) and w of a longer state.
#
# Which controls inside are controls w and which are numbers p, the system around it says; it places derivatives so.
# Where knots take s times as long, a running cost l is integrated over time, that is s l:
#
#     gradient  (s l_x, l)
#     Hessian   [[s l_xx, l_x], [., 0]] = [[s l_xx, l_x/2], [., l/(2 s)]] + [[0, l_x/2], [., -l/(2 s)]]
#
# The first part is that of sqrt(s) r where l = r'r/2, the Gauss-Newton one; the second is what that leaves out.


class WithControls(NamedTuple):
    """The subject of terms of a state with numbers appended, as the controls before, or of lifted terms."""

    inside: Subject
    count: int
    remembered: str = "controls"

    def __str__(self) -> str:
        return f"{self.inside}, with {self.count} {self.remembered} before"

    def unlike(self, other: Any) -> str:
        """See `trajopt.interfaces.terms.Subject`."""
        alike = isinstance(other, WithControls) and other[1:] == self[1:]
        return self.inside.unlike(other.inside) if alike else f"not for {other}"


def lifted_subject(inner: object, system: Any) -> WithControls | None:
    """The subject of a cost or a residual, with the numbers appended."""
    subject = subject_of(inner)
    return None if subject is None else WithControls(subject, system.memory, system.remembers)


def check_dimensions(cost: str, made_for: Any, system: System) -> None:
    """Raise ValueError if the system has other dimensions, or another time step, than a cost was made for."""
    expected = made_for.nx, made_for.ndx, made_for.nu, made_for.dt
    got = system.nx, system.ndx, system.nu, system.dt
    if got != expected:
        raise ValueError(f"{cost}: made for a system with (nx, ndx, nu, dt) = {expected}, got one with {got}")


class LiftedCost(ExpandedCost):
    """A cost of (x, u) inside as one of (z, w).

    Parameters
    ----------
    system : ExtendedSystem
    cost : Cost of the system inside
    over_time : bool
        True for a running cost that is integrated over knots that take as long as the last number of z says; a cost at
        single knots, or at the last one, stays as it is.
    """

    def __init__(self, system: Any, cost: Cost, over_time: bool = False) -> None:
        self.system, self.cost = system, cost
        self.knots, self.at = getattr(cost, "knots", None), getattr(cost, "at", None)
        self.over_time = over_time and (self.at is None or is_span(self.at))
        self.made_for = lifted_subject(cost, system)
        self.name = Term(cost, None, 1.0, False).name

    def check(self, system: System, terminal: bool) -> None:
        """Raise ValueError for a system of other dimensions, or whatever the cost inside raises."""
        check_dimensions("lifted cost", self.system, system)
        self.cost.check(self.system.system, terminal)

    def placed(self, system: System, knots: np.ndarray, rows: np.ndarray, times: np.ndarray) -> LiftedCost:
        """See `trajopt.costs.Cost`."""
        placed = getattr(self.cost, "placed", None)
        inside = self.cost if placed is None else placed(self.system.system, knots, rows, times)
        return self if inside is self.cost else LiftedCost(self.system, inside, self.over_time)

    def _durations(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray | None:
        """s (K,), None where the cost is not integrated over time."""
        return np.ascontiguousarray(xs[:, -1]) if self.over_time and us is not None else None

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at states xs (K, nx) and controls us (K, nu)."""
        value, s = self.cost.value(*self.system.map.inside(xs, us)), self._durations(xs, us)
        return value if s is None else s * value

    def add_expansion(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Into, curvature: Into) -> None:
        """See `trajopt.costs.cost.ExpandedCost`."""
        (x, u), s = self.system.map.inside(xs, us), self._durations(xs, us)
        first = None if target is None and s is None else self._none(u, len(x))
        second = None if curvature is None else first if curvature is target else self._none(u, len(x))
        add_expansion(self.cost, x, u, scale, first, second)
        if s is not None and first is not None:
            value = scale * self.cost.value(x, u)
            if target is not None:
                target.lx[:, -1] += value
                self._add_half(first, value / s, 0.5, target)
            if curvature is not None:
                self._add_half(first, value / s, -0.5, curvature)
        if target is not None and first is not None:
            self._add(first, s, target)
        if curvature is not None and second is not None and second is not first:
            self._add(second, s, curvature)

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """See `trajopt.interfaces.terms.AttributeGradient`: d(s l) = s dl + ds l."""
        s = self._durations(at.xs, at.us)
        if s is not None:
            value, slope = s * value + at.dx[:, -1] * slope, s * slope
        return gradient_by(self.cost, name, self.system.map.tangents(at), value, slope)

    def _none(self, us: np.ndarray | None, K: int) -> Quadratic:
        n, m = self.system.system.ndx, self.system.system.nu
        lx, lxx = np.zeros((K, n)), np.zeros((K, n, n))
        if us is None:
            return Quadratic(lx, None, lxx, None, None)
        return Quadratic(lx, np.zeros((K, m)), lxx, np.zeros((K, m, n)), np.zeros((K, m, m)))

    def _add(self, found: Quadratic, s: np.ndarray | None, target: Quadratic) -> None:
        """Add what was found for x and u, s times, where z and w have it."""
        if s is not None:
            for block in found:
                assert block is not None
                block *= s.reshape(-1, *[1] * (block.ndim - 1))
        self.system.map.place_first(found.lx, found.lu, target.lx, target.lu, True)
        self.system.map.place_hessian(found.lxx, found.lux, found.luu, target.lxx, target.lux, target.luu, True)

    def _add_half(self, found: Quadratic, rate: np.ndarray, sign: float, target: Quadratic) -> None:
        """Add the entries of s in one half of the Hessian, `found` being of l alone and rate l/s."""
        n = self.system.system.ndx
        target.lxx[:, n, n] += sign * rate
        target.lxx[:, :n, n] += 0.5 * found.lx
        target.lxx[:, n, :n] += 0.5 * found.lx
        if found.lu is not None and target.lux is not None:
            target.lux[:, : found.lu.shape[1], n] += 0.5 * found.lu


class LiftedResidual:
    """A residual r(x, u) inside as one of (z, w); for costs and constraints."""

    def __init__(self, system: Any, residual: Residual) -> None:
        self.system, self.residual, self.nr = system, residual, residual.nr
        self.made_for, self.component_names = lifted_subject(residual, system), component_names(residual)
        self.name = getattr(residual, "name", "") or type(residual).__name__

    def at_times(self, times: np.ndarray) -> LiftedResidual:
        """See `trajopt.interfaces.residual.KnotByKnotResidual`."""
        return self._with(at_times(self.residual, times))

    def at_knots(self, knots: np.ndarray) -> LiftedResidual:
        """See `trajopt.interfaces.residual.KnotByKnotResidual`."""
        return self._with(at_knots(self.residual, knots))

    def _with(self, residual: Residual) -> LiftedResidual:
        return self if residual is self.residual else type(self)(self.system, residual)

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nr)."""
        return self.residual.evaluate(*self.system.map.inside(xs, us))

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """rz (K, nr, ndx) and rw (K, nr, nu) or None."""
        rx, ru = self.residual.jacobians(*self.system.map.inside(xs, us))
        rz = np.zeros((*rx.shape[:2], self.system.ndx))
        rw = None if ru is None else np.zeros((*rx.shape[:2], self.system.nu))
        self.system.map.place_first(rx, ru, rz, rw)
        return rz, rw

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """See `trajopt.interfaces.terms.AttributeGradient`."""
        return gradient_by(self.residual, name, self.system.map.tangents(at), value, slope)

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
        """Second derivatives of mu_t'r."""
        system, K, (x, u) = self.system, len(xs), self.system.map.inside(xs, us)
        found = self.residual.hessian_products(x, u, mu)
        if all(block is None for block in found):
            return None, None, None
        Hzz, Huz, Hww = np.zeros((K, system.ndx, system.ndx)), None, None
        if found[1] is not None or found[2] is not None:
            Huz, Hww = np.zeros((K, system.nu, system.ndx)), np.zeros((K, system.nu, system.nu))
        system.map.place_hessian(*found, Hzz, Huz, Hww)
        return Hzz, Huz, Hww
