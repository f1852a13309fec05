"""Running costs where durations are free: l(x, u) of a knot that takes s times as long counts s times as much.

    gradient  (s l_x, l)
    Hessian   [[s l_xx, l_x], [., 0]] = [[s l_xx, l_x/2], [., l/(2 s)]] + [[0, l_x/2], [., -l/(2 s)]]

The first part is that of sqrt(s) r where l = r'r/2, the Gauss-Newton one; the second is what that leaves out.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from trajopt.costs import Quadratic
from trajopt.interfaces.adjustable import Direction
from trajopt.interfaces.knots import is_span
from trajopt.interfaces.system import System
from trajopt.problem.lifted import LiftedCost

if TYPE_CHECKING:
    from trajopt.problem.free_duration import FreeDurationSystem


class StretchedCost(LiftedCost):
    """A running cost l(x, u) as s l; as it is where it counts at single knots, or at the last one."""

    system: "FreeDurationSystem"

    def __init__(self, system: "FreeDurationSystem", cost: Any, integrated: bool = True) -> None:
        super().__init__(system, cost)
        self._integrated = integrated and (self.at is None or is_span(self.at))

    def placed(self, system: System, knots: np.ndarray, rows: np.ndarray, times: np.ndarray) -> LiftedCost:
        """See `trajopt.costs.Cost`."""
        inside = super().placed(system, knots, rows, times)
        return self if inside is self else StretchedCost(self.system, inside.cost, self._integrated)

    def _stretch(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        stretched = us is not None and self._integrated
        return np.ascontiguousarray(xs[:, -1]) if stretched else np.ones(len(xs))

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at xs (K, nx) and us (K, nu)."""
        return self._stretch(xs, us) * self._value(xs, us)

    def _value(self, xs, us):
        return self.cost.value(self.system.split(xs)[0], self.system.inside_controls(us))

    def accumulate(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times gradient and Gauss-Newton Hessian."""
        self._add_parts(self.cost.accumulate, xs, us, scale, target, 0.5)

    def accumulate_curvature(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times what the Gauss-Newton Hessian leaves out."""
        self._add_parts(self.cost.accumulate_curvature, xs, us, scale, target, -0.5)

    def gradient_by(self, name: str, at: Direction, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """See `trajopt.interfaces.adjustable.AttributeGradient`: d(s l) = s dl + ds l."""
        s, ds = self._stretch(at.xs, at.us), at.dx[:, -1] if at.us is not None and self._integrated else 0.0
        return super().gradient_by(name, at, s * value + ds * slope, s * slope)

    def _add_parts(self, accumulate, xs, us, scale, target, half) -> None:
        n, m = self.system.system.ndx, self.system.system.nu
        x, u, s = self.system.split(xs)[0], self.system.inside_controls(us), self._stretch(xs, us)
        found = _nothing(len(xs), n, m, us is not None)
        accumulate(x, u, scale, found)
        target.lx[:, :n] += s[:, None] * found.lx
        target.lxx[:, :n, :n] += s[:, None, None] * found.lxx
        if us is None:
            return
        target.lu[:, :m] += s[:, None] * found.lu
        target.lux[:, :m, :n] += s[:, None, None] * found.lux
        target.luu[:, :m, :m] += s[:, None, None] * found.luu
        if self._integrated:
            self._add_durations(x, u, s, scale, target, found if half > 0 else None)

    def _add_durations(self, x, u, s, scale, target, found) -> None:
        """Entries of s: with the first derivatives that were found, those of the Gauss-Newton Hessian and the gradient,
        else what that leaves out."""
        n, m = self.system.system.ndx, self.system.system.nu
        value, sign = scale * self.cost.value(x, u), -1.0
        if found is not None:
            target.lx[:, n] += value
            sign = 1.0
        else:
            found = _nothing(len(x), n, m, True)
            self.cost.accumulate(x, u, scale, found)
        target.lxx[:, n, n] += sign * 0.5 * value / s
        target.lxx[:, :n, n] += 0.5 * found.lx
        target.lxx[:, n, :n] += 0.5 * found.lx
        target.lux[:, :m, n] += 0.5 * found.lu


def _nothing(K: int, n: int, m: int, controlled: bool) -> Quadratic:
    lx, lxx = np.zeros((K, n)), np.zeros((K, n, n))
    if not controlled:
        return Quadratic(lx, None, lxx, None, None)
    return Quadratic(lx, np.zeros((K, m)), lxx, np.zeros((K, m, n)), np.zeros((K, m, m)))
