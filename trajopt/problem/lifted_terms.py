"""Costs and residuals made for a system, as those of a system around it with numbers appended to the states.

A term of a state x and controls u inside is one of z = (x, p) and controls w: derivatives by x and u are placed where z
and w have them (`trajopt.problem.control_map`), and running costs are integrated over durations that are part of the
state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import by_address, routine
from dynamics.simd.array_loops import fill
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.simd.squares import Blocks, KnotSum
from trajopt.costs import Cost, Quadratic
from trajopt.costs.cost import ExpandedCost, Into, add_expansion
from trajopt.costs.cost_of_residual import prepared_rows, prepared_sum, sums
from trajopt.interfaces.residual import Residual, at_knots, at_times, component_names
from trajopt.interfaces.system import System
from trajopt.interfaces.terms import Subject, Tangents, gradient_by, is_span, subject_of
from trajopt.problem.control_map import ControlMap
from trajopt.problem.extended_calls import first_placed, points_inside
from trajopt.problem.knot_rows import multiply, scale_rows
from trajopt.problem.objective import Term

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


@routine
def add_gradients(controls, parameters, scale, lx, lu, lz, lw):
    """Add gradients lx (K, ndx) and lu (K or K - 1, nu) inside where those around have them."""
    n = lx.shape[1]
    for k in range(lx.shape[0]):
        for i in range(n):
            lz[k, i] += lx[k, i]
    for k in range(lu.shape[0]):
        for i in range(controls.shape[0]):
            lw[k, i] += lu[k, controls[i]]
        for i in range(parameters.shape[0]):
            lz[k, n + i] += scale * lu[k, parameters[i]]


@routine
def add_hessians(controls, parameters, scale, Hxx, Hux, Huu, Hzz, Hwz, Hww):
    """Add Hessians inside where those around have them."""
    n, m, p = Hxx.shape[1], controls.shape[0], parameters.shape[0]
    for k in range(Hxx.shape[0]):
        for i in range(n):
            for j in range(n):
                Hzz[k, i, j] += Hxx[k, i, j]
    for k in range(Huu.shape[0]):
        for i in range(m):
            for j in range(n):
                Hwz[k, i, j] += Hux[k, controls[i], j]
            for j in range(m):
                Hww[k, i, j] += Huu[k, controls[i], controls[j]]
            for j in range(p):
                Hwz[k, i, n + j] += scale * Huu[k, controls[i], parameters[j]]
        for i in range(p):
            for j in range(n):
                mixed = scale * Hux[k, parameters[i], j]
                Hzz[k, n + i, j] += mixed
                Hzz[k, j, n + i] += mixed
            for j in range(p):
                Hzz[k, n + i, n + j] += scale * scale * Huu[k, parameters[i], parameters[j]]


@routine
def add_durations(values, s, scale, half, lx, lu, lz, Hzz, Hwz):
    """Add what depends on s to the first part of the expansion, half = 1/2, or to the second, half = -1/2; values (K,)
    of l, and scale times its gradients lx, lu."""
    n = lx.shape[1]
    for k in range(lx.shape[0]):
        value = scale * values[k]
        if half > 0.0:
            lz[k, n] += value
        Hzz[k, n, n] += half * (value / s[k])
        for i in range(n):
            Hzz[k, i, n] += 0.5 * lx[k, i]
            Hzz[k, n, i] += 0.5 * lx[k, i]
        for i in range(lu.shape[1]):
            Hwz[k, i, n] += 0.5 * lu[k, i]


@by_address
def _last(zs, s):
    """s = the last numbers of zs"""
    for k in range(s.shape[0]):
        s[k] = zs[k, zs.shape[1] - 1]


_NO_ROWS, _NO_BLOCKS = np.empty((0, 0)), np.empty((0, 0, 0))


def blocks_inside(map: ControlMap, K: int, controlled: int | None) -> Quadratic:
    """Zeros for an expansion inside at K knots, so many of which have controls; None for a function of states."""
    n, m = map.ndx, map.nu
    lx, lxx = np.zeros((K, n)), np.zeros((K, n, n))
    if controlled is None:
        return Quadratic(lx, None, lxx, None, None)
    return Quadratic(lx, np.zeros((controlled, m)), lxx, np.zeros((controlled, m, n)), np.zeros((controlled, m, m)))


def _additions(map: ControlMap, found: Blocks, into: Blocks) -> list[tuple[Any, ...]]:
    """Routines with their arguments that add an expansion inside to that around."""
    (lx, lu, lxx, lux, luu), (lz, lw, lzz, lwz, lww) = found, into
    if lu is None or lw is None:
        map, lu, lw = map.of_states, _NO_ROWS, _NO_ROWS
        lux = luu = lwz = lww = _NO_BLOCKS
    by = map.controls, map.parameters, map.scale
    return [(add_gradients, *by, lx, lu, lz, lw), (add_hessians, *by, lxx, lux, luu, lzz, lwz, lww)]


def prepared_inside(
    map: ControlMap, zs: np.ndarray, us: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None, PreparedCall]:
    """States and controls inside, None for None, of K points, and the call that writes them."""
    rows = np.arange(len(zs) if us is None else len(us))
    if us is None:
        x, _, call = points_inside(map.of_states, rows, zs, np.empty((len(zs), 0)))
        return x, None, call
    return points_inside(map, rows, zs, us)


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
        first, second = self._blocks(x, u, s is not None, target, curvature)
        add_expansion(self.cost, x, u, scale, first, second)
        if s is not None:
            values = np.ascontiguousarray(self.cost.value(x, u), np.float64)
            for add, *given in self._durations_added(values, s, scale, first, target, curvature):
                add(*given)
            for block in _distinct(first, second):
                block *= s.reshape(-1, *[1] * (block.ndim - 1))
        for add, *given in self._added(first, second, target, curvature):
            add(*given)

    def prepared_value(self, xs: np.ndarray, us: np.ndarray | None, values: np.ndarray) -> Callable[[], Any] | None:
        """See `trajopt.costs.cost.PreparedCost`."""
        prepare = getattr(self.cost, "prepared_value", None)
        if prepare is None or type(self).value is not LiftedCost.value:
            return None
        x, u, inside = prepared_inside(self.system.map, xs, us)
        evaluate = prepare(x, u, values)
        if evaluate is None:
            return None
        if not self.over_time or us is None:
            return PreparedCalls(inside, evaluate)
        s = np.ones(len(x))
        return PreparedCalls(inside, evaluate, PreparedCall(_last, xs, s), PreparedCall(multiply, values, s))

    def prepared_accumulation(
        self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Into, curvature: Into
    ) -> Callable[[], Any] | None:
        """See `trajopt.costs.cost.PreparedCost`."""
        prepare = getattr(self.cost, "prepared_accumulation", None)
        evaluate = getattr(self.cost, "prepared_value", None)
        if prepare is None or type(self).add_expansion is not LiftedCost.add_expansion:
            return None
        (x, u, inside), timed = prepared_inside(self.system.map, xs, us), self.over_time and us is not None
        first, second = self._blocks(x, u, timed, target, curvature)
        blocks = _distinct(first, second)
        parts: list[Any] = [inside, *[PreparedCall(fill, block, 0.0) for block in blocks]]
        parts.append(prepare(x, u, scale, first, second))
        if timed:
            values, s = np.zeros(len(x)), np.ones(len(x))
            parts += [None if evaluate is None else evaluate(x, u, values), PreparedCall(_last, xs, s)]
            given = self._durations_added(values, s, scale, first, target, curvature)
            parts += [PreparedCall(*each) for each in given]
            parts += [PreparedCall(scale_rows, block, s) for block in blocks]
        parts += [PreparedCall(*each) for each in self._added(first, second, target, curvature)]
        return None if any(part is None for part in parts) else PreparedCalls(*parts)

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """See `trajopt.interfaces.terms.AttributeGradient`: d(s l) = s dl + ds l."""
        s = self._durations(at.xs, at.us)
        if s is not None:
            value, slope = s * value + at.dx[:, -1] * slope, s * slope
        return gradient_by(self.cost, name, self.system.map.tangents(at), value, slope)

    def _blocks(self, x: np.ndarray, u: np.ndarray | None, timed: bool, target: Into, curvature: Into) -> Any:
        """Zeros for both parts of the expansion inside; None for what is not wanted."""
        K, controlled = len(x), None if u is None else len(u)
        first = None if target is None and not timed else blocks_inside(self.system.map, K, controlled)
        if curvature is None or curvature is target:
            return first, None if curvature is None else first
        return first, blocks_inside(self.system.map, K, controlled)

    @staticmethod
    def _durations_added(
        values: np.ndarray, s: np.ndarray, scale: float, first: Quadratic, target: Into, curvature: Into
    ) -> list[tuple[Any, ...]]:
        """Routines with their arguments that add what depends on durations, `first` being of l alone."""
        halves = (target, 0.5), (curvature, -0.5)
        return [
            (add_durations, values, s, scale, half, *first[:2], into.lx, into.lxx, into.lux)
            for into, half in halves
            if into is not None
        ]

    def _added(self, first: Into, second: Into, target: Into, curvature: Into) -> list[tuple[Any, ...]]:
        """Routines with their arguments that add what was found for x and u where z and w have it."""
        added = []
        if target is not None and first is not None:
            added += _additions(self.system.map, first, target)
        if curvature is not None and second is not None and second is not first:
            added += _additions(self.system.map, second, curvature)
        return added


def _distinct(first: Into, second: Into) -> list[np.ndarray]:
    """All arrays of the two, those of one alone if they are the same."""
    each = (first,) if second is first else (first, second)
    return [block for blocks in each if blocks is not None for block in blocks if block is not None]


class LiftedResidual:
    """A residual r(x, u) inside as one of (z, w); for costs and constraints."""

    def __init__(self, system: Any, residual: Residual) -> None:
        self.system, self.nr = system, residual.nr
        self.residual: Any = residual
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

    def prepared_rows(
        self, xs: np.ndarray, us: np.ndarray | None, jacobians: bool
    ) -> Callable[[], tuple[Any, ...]] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        map, (x, u, inside) = self.system.map, prepared_inside(self.system.map, xs, us)
        found = None if type(self) is not LiftedResidual else prepared_rows(self.residual, x, u, jacobians)
        if found is None:
            return None
        r, rx, ru = found.arrays
        if not jacobians:
            return PreparedCalls(inside, found, result=lambda: (r, None, None))
        K, nr = r.shape
        rz, rw = np.zeros((K, nr, self.system.ndx)), None if ru is None else np.zeros((K, nr, self.system.nu))
        rx = np.zeros((K, nr, map.ndx)) if rx is None else rx
        if ru is None or rw is None:
            nothing = np.empty((K, nr, 0))
            place = first_placed(map.of_states, np.arange(K), rx, nothing, rz, nothing)
        else:
            place = first_placed(map, np.arange(K), rx, ru, rz, rw)
        return PreparedCalls(inside, found, place, result=lambda: (r, rz, rw))

    # -------------------------------------------------------------------------------------------- sums over knots
    @property
    def sums_squares(self) -> bool:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        return type(self) is LiftedResidual and sums(self.residual)

    def add_expansion(self, wanted: KnotSum) -> float:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        x, u = self.system.map.inside(wanted.xs, wanted.us)
        first, second, added = self._added(wanted)
        total = self.residual.add_expansion(KnotSum(wanted.span, x, u, wanted.weights, first, second))
        for add, *given in added:
            add(*given)
        return total

    def prepared_sum(self, wanted: KnotSum) -> Callable[[], float] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        x, u, inside = prepared_inside(self.system.map, wanted.xs, wanted.us)
        if u is not None and len(x) < len(wanted.xs):
            x, _, inside_all = prepared_inside(self.system.map, wanted.xs, None)
            inside = PreparedCalls(inside, inside_all)
        first, second, added = self._added(wanted)
        add = prepared_sum(self.residual, KnotSum(wanted.span, x, u, wanted.weights, first, second))
        if add is None:
            return None
        clear = [PreparedCall(fill, block[slice(*wanted.span)], 0.0) for block in _distinct(first, second)]
        return PreparedCalls(inside, *clear, add, *[PreparedCall(*each) for each in added])

    def _added(self, wanted: KnotSum) -> tuple[Into, Into, list[tuple[Any, ...]]]:
        """Zeros for the expansion inside, None for what is not wanted, and routines with their arguments that add it to
        that around."""
        span, xs, us, _, target, curvature = wanted
        map, K, controlled, at, added = self.system.map, len(xs), None if us is None else len(us), slice(*span), []
        first = None if target is None else blocks_inside(map, K, controlled)
        second = first if curvature is target else None if curvature is None else blocks_inside(map, K, controlled)
        for found, into in ((first, target), (None if second is first else second, curvature)):
            if found is not None and into is not None:
                rows = [[None if block is None else block[at] for block in blocks] for blocks in (found, into)]
                added += _additions(map, *rows)
        return first, second, added

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
