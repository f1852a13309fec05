"""Rates of controls: the system that remembers the control before, and costs of rates."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.validation import as_number_or_vector, check_rows
from trajopt.costs import Quadratic
from trajopt.costs.activations import add_rates, rate_squares
from trajopt.costs.cost import ExpandedCost, Into, PlacedCost, as_rows, check_knots, common_knots, weight_rows
from trajopt.interfaces.system import System, check_system, control_names, state_array
from trajopt.interfaces.terms import At, Tangents, checked_at, state_space, summed_to
from trajopt.problem.extended_system import ExtendedSystem
from trajopt.problem.lifted_terms import check_dimensions

# --------------------------------------------------------------------------------------------
# Any system with the controls before in its state, for costs and limits of how fast controls change.


class ControlRateSystem(ExtendedSystem):
    """Any system with the previous control appended to its state: z = (x, u_before), tangent (dx, du_before).

    Parameters
    ----------
    system : System
        With state x (nx), tangent (ndx) and controls u (nu); its time step and controls remain.

    Attributes
    ----------
    nx, ndx : those of the system inside, plus nu.

    Raises
    ------
    ValueError
        If the system takes accelerations for controls (``formulation="inverse"``).

    Notes
    -----
    It has most capabilities of the system inside; those that it cannot carry raise an AttributeError
    that says why.
    """

    numbers_are = "controls"

    def __init__(self, system: System) -> None:
        check_system(system, "nx", "ndx", "nu", "dt", "integrate", "difference", "step")
        super().__init__(system, system.nu)

    def state(self, x: ArrayLike, u_before: ArrayLike = 0.0) -> np.ndarray:
        """z = (x, u_before), x (nx,) of the system inside, u_before a number or (nu,)."""
        before = np.full(self.nu, 1.0) * as_number_or_vector("u_before", u_before, self.nu)
        return np.concatenate([state_array(self.system, "x", x), before])

    def _number_names(self):
        return [f"{name} before" for name in control_names(self.system) or [f"u_{i + 1}" for i in range(self.nu)]]


# --------------------------------------------------------------------------------------------
# A cost of control rates, of a system that has the control before, p, in its state.
#
# l = 1/2 sum_i w_i ((u_i - p_i)/dt)^2     l_u = W (u - p)/dt^2 = -l_p     l_uu = l_pp = W/dt^2 = -l_up


def check_control_rate_system(system: object) -> None:
    """TypeError unless it is one."""
    if not isinstance(system, ControlRateSystem):
        raise TypeError(f"system: got {type(system).__name__}, expected a trajopt.ControlRateSystem")


class ControlRateCost(PlacedCost, ExpandedCost):
    """1/2 sum_i w_i ((u_t - u_{t-1})_i/dt)^2, a running cost; u_{-1} is part of the initial state.

    Parameters
    ----------
    system : ControlRateSystem
    weights : number, (nu,) array, or (K, nu) with weights for each of K knots; non-negative
    at : where it counts, by default at all knots; see `trajopt.ControlCost`

    Attributes
    ----------
    knots : K, the number of knots at which it can be evaluated; None if the weights are constant.
    """

    by_knot = adjustable = ("weights",)

    def __init__(self, system: ControlRateSystem, weights: ArrayLike, at: At | None = None) -> None:
        check_control_rate_system(system)
        self.system, self.at = system, checked_at(at)
        self.made_for = state_space(system)
        self._set(weights)

    def _set(self, weights: ArrayLike) -> None:
        self.weights = np.full(self.system.nu, 1.0) * weight_rows(weights, self.system.nu)
        self.knots = common_knots("ControlRateCost", weights=self.weights)
        self._weights = as_rows(self.weights, self.system.nu) / self.system.dt**2

    def adjusted(self, weights: ArrayLike) -> Self:
        """With other weights."""
        new = copy.copy(self)
        new._set(weights)
        return new

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """See `trajopt.interfaces.terms.AttributeGradient`: l is linear in its weights."""
        xs, us, dx, du = at
        if us is None or du is None or type(self) is not ControlRateCost:
            return None
        rate = (us - self.system.split(xs)[1]) / self.system.dt
        change = (du - dx[:, -self.system.nu :]) / self.system.dt
        return summed_to((0.5 * value[:, None] * rate + slope[:, None] * change) * rate, self.weights.shape)

    def check(self, system: System, terminal: bool) -> None:
        """Raise ValueError at the terminal knot, or for a system of other dimensions."""
        if terminal:
            raise ValueError("terminal_costs: got a ControlRateCost, expected costs of the state")
        check_dimensions("ControlRateCost", self.system, system)

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at xs (K, nx) and us (K, nu)."""
        assert us is not None
        check_knots("ControlRateCost", self.knots, us)
        self._check_points(xs, us)
        values = np.empty(len(us))
        rate_squares(us, xs, self._weights, values)
        return values

    def prepared_value(self, xs: np.ndarray, us: np.ndarray | None, values: np.ndarray) -> PreparedCall | None:
        """See `trajopt.costs.cost.PreparedCost`."""
        if us is None or type(self) is not ControlRateCost:
            return None
        check_knots("ControlRateCost", self.knots, us)
        self._check_points(xs, us)
        return PreparedCall(rate_squares, us, xs, self._weights, values)

    def add_expansion(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Into, curvature: Into) -> None:
        """See `trajopt.costs.cost.ExpandedCost`; the rates are linear in state and control."""
        assert us is not None
        check_knots("ControlRateCost", self.knots, us)
        if target is None:
            return
        add_rates(*self._arguments(xs, us, scale, target))

    def prepared_accumulation(
        self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Into, curvature: Into
    ) -> Callable[[], Any] | None:
        """See `trajopt.costs.cost.PreparedCost`."""
        if us is None or type(self) is not ControlRateCost:
            return None
        check_knots("ControlRateCost", self.knots, us)
        if target is None:
            return PreparedCalls()
        return PreparedCall(add_rates, *self._arguments(xs, us, scale, target))

    def _arguments(self, xs: np.ndarray, us: np.ndarray, scale: float, target: Quadratic) -> tuple[Any, ...]:
        """Arguments of `add_rates`, checked."""
        n, m = self.system.ndx, self.system.nu
        for block, row in zip(target, ((n,), (m,), (n, n), (m, n), (m, m)), strict=True):
            assert block is not None
            check_rows("target", block, len(us), row)
        self._check_points(xs, us)
        return us, xs, self._weights, scale, *target

    def _check_points(self, xs: np.ndarray, us: np.ndarray) -> None:
        check_rows("us", us, 0, (self.system.nu,))
        check_rows("xs", xs, len(us), (self.system.nx,))
