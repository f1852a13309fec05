"""Costs 1/2 sum_i w_i r_i^2 of the state, of the controls, and of any residual.

Of l = 1/2 r'W r with r = r(x, u),

    gradient              J'W r
    Gauss-Newton Hessian  J'W J                            never indefinite
    residual curvature    sum_i w_i r_i d2 r_i             the rest of the exact Hessian

A cost knows neither time step nor horizon: it evaluates the knots it is given, and adds scale times its derivatives to
the arrays it is given.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from trajopt.cost_kernels import add_cross, add_diagonal, add_gauss_newton, weighted_squares
from trajopt.residual import Residual
from trajopt.system import System, as_manifold, state_array
from trajopt.validation import one_of, same_shape, scalar_or_vector, weights_array, whole_number


class Quadratic(NamedTuple):
    """Where costs add their derivatives, K knots: lx (K, ndx), lu (K, nu), lxx, lux (K, nu, ndx), luu.

    At the terminal knot there is no control: lu, lux and luu are None there.
    """

    lx: np.ndarray
    lu: np.ndarray | None
    lxx: np.ndarray
    lux: np.ndarray | None
    luu: np.ndarray | None


class Cost(Protocol):
    """What `Problem` accepts as a cost; any object with these methods will do."""

    def check(self, system: System, terminal: bool) -> None:
        """Raise ValueError if this cost does not fit the system, or not the terminal knot."""
        ...

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at xs (K, nx) and us (K, nu); us is None at the terminal knot."""
        ...

    def accumulate(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times gradient and Gauss-Newton Hessian to the target."""
        ...

    def accumulate_curvature(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times the residual curvature to the Hessians of the target (its gradients are left alone)."""
        ...


class StateCost:
    """1/2 sum_i w_i r_i^2 with r = x (-) x_ref, the tangent vector from the reference to the state.

    Parameters
    ----------
    system : System
    reference : (nx,) array
    weights : number or (ndx,) array, non-negative
    """

    def __init__(self, system: System, reference: Any, weights: Any):
        self.system = system
        self.reference = state_array(system, "reference", reference)
        self.weights = np.full(system.ndx, 1.0) * weights_array(weights, system.ndx)
        self._manifold = as_manifold(system)

    def check(self, system: System, terminal: bool) -> None:
        """Raise ValueError if the cost was made for states of other dimensions."""
        if (system.nx, system.ndx) != (self.system.nx, self.system.ndx):
            raise ValueError(
                f"StateCost: made for a system with (nx, ndx) = {(self.system.nx, self.system.ndx)}, "
                f"wanted {(system.nx, system.ndx)}"
            )

    def _residual(self, xs):
        if self._manifold is None:
            return xs - self.reference
        return np.ascontiguousarray(self.system.difference(np.broadcast_to(self.reference, xs.shape), xs))

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at xs (K, nx)."""
        return weighted_squares(self._residual(xs), self.weights)

    def accumulate(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times gradient and Gauss-Newton Hessian."""
        r = self._residual(xs)
        if self._manifold is None:
            add_diagonal(r, self.weights, scale, target.lx, target.lxx)
        else:
            J, _ = self._manifold.difference_expansion(self.reference, xs, r * self.weights)
            J = same_shape("difference_expansion", J, (len(xs), self.system.ndx, self.system.ndx))
            add_gauss_newton(r, self.weights, scale, J, target.lx, target.lxx)

    def accumulate_curvature(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times the curvature of the difference; a Euclidean state has none."""
        if self._manifold is not None:
            _, H = self._manifold.difference_expansion(self.reference, xs, self._residual(xs) * self.weights)
            np.add(target.lxx, scale * H, out=target.lxx)


class ControlCost:
    """1/2 sum_i w_i (u_i - u_ref_i)^2.

    Parameters
    ----------
    weights : number or (nu,) array, non-negative
    reference : number or (nu,) array
    """

    def __init__(self, weights: Any, reference: Any = 0.0):
        self.weights = weights_array(weights, None)
        self.reference = scalar_or_vector("reference", reference, None)

    def check(self, system: System, terminal: bool) -> None:
        """Raise ValueError at the terminal knot, or where a vector does not have nu numbers."""
        if terminal:
            raise ValueError(
                "terminal_costs: got a ControlCost, wanted costs of the state (the last knot has no control)"
            )
        for name, value in (("weights", self.weights), ("reference", self.reference)):
            if value.ndim == 1 and len(value) != system.nu:
                raise ValueError(f"ControlCost {name}: got {len(value)} numbers, wanted one or {system.nu}")

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at us (K, nu)."""
        assert us is not None
        return weighted_squares(us - self.reference, np.full(us.shape[1], 1.0) * self.weights)

    def accumulate(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times gradient and Hessian."""
        assert us is not None
        add_diagonal(us - self.reference, np.full(us.shape[1], 1.0) * self.weights, scale, target.lu, target.luu)

    def accumulate_curvature(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Nothing: the residual is linear."""


class ResidualCost:
    """1/2 sum_i w_i r_i(x, u)^2 of any residual.

    Parameters
    ----------
    residual : Residual
    weights : number or (nr,) array, non-negative
    activation : "quadratic", the only one so far
    """

    def __init__(self, residual: Residual, weights: Any, activation: str = "quadratic"):
        for method in ("evaluate", "jacobians", "hessian_products"):
            if not callable(getattr(residual, method, None)):
                raise TypeError(f"residual: {type(residual).__name__} has no method {method!r}")
        self.residual = residual
        self.nr = whole_number("residual.nr", getattr(residual, "nr", None), 1)
        self.weights = np.full(self.nr, 1.0) * weights_array(weights, self.nr)
        self.activation = one_of("activation", activation, ("quadratic",))

    def check(self, system: System, terminal: bool) -> None:
        """Accept any system: what the residual returns is checked at each use, when it is evaluated."""

    def _evaluate(self, xs, us):
        return same_shape("residual.evaluate", self.residual.evaluate(xs, us), (len(xs), self.nr))

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at xs (K, nx) and us (K, nu)."""
        return weighted_squares(self._evaluate(xs, us), self.weights)

    def accumulate(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times gradient and Gauss-Newton Hessian."""
        r = self._evaluate(xs, us)
        rx, ru = self.residual.jacobians(xs, us)
        rx = same_shape("residual.jacobians, rx", rx, (len(xs), self.nr, target.lx.shape[1]))
        add_gauss_newton(r, self.weights, scale, rx, target.lx, target.lxx)
        if ru is not None and target.lu is not None:
            ru = same_shape("residual.jacobians, ru", ru, (len(xs), self.nr, target.lu.shape[1]))
            add_gauss_newton(r, self.weights, scale, ru, target.lu, target.luu)
            add_cross(self.weights, scale, ru, rx, target.lux)

    def accumulate_curvature(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times sum_i w_i r_i d2 r_i."""
        blocks = self.residual.hessian_products(xs, us, scale * self.weights * self._evaluate(xs, us))
        for name, H, into in zip(("Hxx", "Hux", "Huu"), blocks, target[2:], strict=True):
            if H is not None and into is not None:
                np.add(into, same_shape(f"residual.hessian_products, {name}", H, into.shape), out=into)
