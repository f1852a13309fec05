"""The difference of states or controls from a reference as a residual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics.simd import by_address
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.simd.squares import NO_TARGET, KnotSum, add_squares
from dynamics.validation import as_array, check_rows
from trajopt.capabilities import StateManifold, capability
from trajopt.costs.cost import FOURTH_ORDER
from trajopt.interfaces.system import ManifoldSystem
from trajopt.interfaces.terms import Tangents, summed_to


@by_address
def subtract_reference(z, reference, r):
    """r = z - reference, (K, n), (n,)"""
    for k in range(z.shape[0]):
        for i in range(z.shape[1]):
            r[k, i] = z[k, i] - reference[i]


class Deviation:
    """r = x - x_ref, or u - u_ref.  Equal where all this is equal.

    Parameters
    ----------
    of_controls : bool
    reference : (n,) array
    """

    sums_squares = True

    def __init__(self, of_controls: bool, reference: np.ndarray) -> None:
        self._of_controls, self._reference = of_controls, np.array(reference, dtype=np.float64)
        self.nr = len(self._reference)
        self._key = of_controls, self._reference.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deviation) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, n)."""
        z = us if self._of_controls and us is not None else xs
        check_rows("residual", z, 0, (self.nr,))
        return z - self._reference

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[Any, Any]:
        """rx and ru: the identity, and None for the zeros of the other one."""
        identity = np.tile(np.eye(self.nr), (len(xs), 1, 1))
        return (None, identity) if self._of_controls else (identity, None)

    def hessian_products(self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray) -> tuple[None, None, None]:
        """No curvature."""
        return None, None, None

    def add_expansion(self, wanted: KnotSum) -> float:
        """As `trajopt.interfaces.residual` has it; there is no curvature."""
        return add_squares(*self._along(wanted))

    def prepared_sum(self, wanted: KnotSum) -> Callable[[], float]:
        """As `trajopt.interfaces.residual` has it."""
        return PreparedCall(add_squares, *self._along(wanted))

    def prepared_rows(self, xs: np.ndarray, us: np.ndarray | None, jacobians: bool) -> PreparedCalls:
        """As `trajopt.interfaces.residual` has it."""
        z = us if self._of_controls and us is not None else xs
        check_rows("residual", z, 0, (self.nr,))
        r, (rx, ru) = np.zeros(z.shape), self.jacobians(z, None) if jacobians else (None, None)
        return PreparedCalls(PreparedCall(subtract_reference, z, self._reference, r), result=lambda: (r, rx, ru))

    def with_own_numbers(self) -> Deviation:
        """As `trajopt.interfaces.residual` has it."""
        return Deviation(self._of_controls, self._reference)

    def take_numbers(self, other: Any) -> bool:
        """As `trajopt.interfaces.residual` has it."""
        if type(other) is not Deviation or other._of_controls != self._of_controls or other.nr != self.nr:
            return False
        self._reference[...] = other._reference
        return True

    def _along(self, wanted: KnotSum) -> tuple:
        """Arguments of `add_squares`, checked."""
        (start, stop), xs, us, weights, target, _ = wanted
        z: Any = us if self._of_controls else xs
        gradient, hessian = NO_TARGET[0], NO_TARGET[2]
        check_rows("us" if self._of_controls else "xs", z, stop, (self.nr,))
        wanted.check_weights(self.nr)
        if target is not None:
            gradient, hessian = (target[1], target[4]) if self._of_controls else (target[0], target[2])
            check_rows("gradient", gradient, stop, (self.nr,))
            check_rows("hessian", hessian, stop, (self.nr, self.nr))
        return weights.layout, weights.rows, start, stop, z, self._reference, gradient, hessian


def deviation(of_controls: bool, rows: np.ndarray) -> tuple[Deviation, np.ndarray]:
    """The residual of a reference (1 or K, n), and what it leaves of it as a reference for its cost: all of a reference
    for each knot, else zeros."""
    if len(rows) == 1:
        return Deviation(of_controls, rows[0]), np.zeros(rows.shape)
    return Deviation(of_controls, np.zeros(rows.shape[1])), rows


REFERENCE_STEP = 1e-3
"""Step of differences along the tangent of references."""


class ManifoldDifference:
    """r = x (-) x_ref of a system with states on a manifold; reference (nx,), or (K, nx) with one for each knot."""

    def __init__(self, system: ManifoldSystem, reference: np.ndarray) -> None:
        self.system, self.reference, self.nr = system, reference, system.ndx

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, ndx)."""
        reference = np.broadcast_to(self.reference, xs.shape)
        return as_array("difference", self.system.difference(reference, xs), (len(xs), self.nr), finite=False)

    def evaluate_with_jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, None]:
        """r (K, ndx), rx (K, ndx, ndx), None, in one call of a system that has both."""
        r, J = capability(self.system, StateManifold).difference_with_jacobian(self.reference, xs)
        r = as_array("difference", r, (len(xs), self.nr), finite=False)
        return r, as_array("difference_expansion", J, (len(xs), self.nr, self.nr), finite=False), None

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, None]:
        """rx (K, ndx, ndx), None."""
        return self.evaluate_with_jacobians(xs, us)[1:]

    def hessian_products(self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray) -> tuple[np.ndarray, None, None]:
        """The curvature of the difference, (K, ndx, ndx)."""
        H = self.system.difference_expansion(self.reference, xs, mu)[1]
        return as_array("difference_expansion", H, (len(xs), self.nr, self.nr), finite=False), None, None

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """See `trajopt.interfaces.terms.AttributeGradient`: along the tangent of the reference (ndx,), or
        (K, ndx), by differences in each of its directions, for all knots at once."""
        n, total = self.nr, np.zeros((len(at.xs), self.nr))
        for i in range(n):
            for multiple, weight in FOURTH_ORDER:
                step = np.zeros((*self.reference.shape[:-1], n))
                step[..., i] = multiple * REFERENCE_STEP
                moved = ManifoldDifference(self.system, self.system.integrate(self.reference, step))
                r, J, _ = moved.evaluate_with_jacobians(at.xs, None)
                y = np.einsum("ti,ti->t", value, r) + np.einsum("ti,tij,tj->t", slope, J, at.dx)
                total[:, i] += weight / REFERENCE_STEP * y
        return summed_to(total, (*self.reference.shape[:-1], n))
