"""Linear functions of the controls and of the last entries of a state (velocities, or the previous controls) as
residuals, and limits built from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.simd import routine
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.validation import as_array, as_flag
from trajopt.capabilities import KnownLimits, capability
from trajopt.costs.residuals import AccelerationResidual
from trajopt.costs.summed_rows import SummedRows
from trajopt.interfaces.system import System, check_system, control_names
from trajopt.interfaces.terms import At, state_space
from trajopt.problem.constraints import Limits, ResidualConstraint, limit_rows, limited_components, limits_by_name
from trajopt.problem.control_rate import ControlRateSystem, check_control_rate_system
from trajopt.problem.extended_system import innermost, lifted


@routine
def linear_rows(A, B, xs, us, r):
    """Write A y + B u (K, nr), y being the last numbers of xs (K, nx)."""
    first = xs.shape[1] - A.shape[1]
    for k in range(r.shape[0]):
        for i in range(r.shape[1]):
            total = 0.0
            for j in range(B.shape[1]):
                total += B[i, j] * us[k, j]
            for j in range(A.shape[1]):
                total += A[i, j] * xs[k, first + j]
            r[k, i] = total


class LinearResidual(SummedRows):
    """r = A y + B u, y being the last n entries of the state, which are plain numbers even where others lie on a
    manifold.

    Parameters
    ----------
    system : System
    A : (nr, n) array
    B : (nr, nu) array
    component_names : names of the nr entries, or empty
    name : name in messages
    """

    def __init__(
        self, system: System, A: ArrayLike, B: ArrayLike, component_names: tuple[str, ...] = (), name: str = "linear"
    ) -> None:
        check_system(system, "nx", "ndx", "nu")
        self.A, self.B = as_array("A", A, copy=True), as_array("B", B, copy=True)
        self.nr, self.name, self.component_names = len(self.B), name, component_names
        if self.B.shape != (self.nr, system.nu) or self.A.shape != (self.nr, min(self.A.shape[-1], system.ndx)):
            expected = f"({self.nr}, n <= {system.ndx}) and ({self.nr}, {system.nu})"
            raise ValueError(f"A, B: got shapes {self.A.shape} and {self.B.shape}, expected {expected}")
        self.made_for: Any = state_space(system)
        self._rx = np.zeros((self.nr, system.ndx))
        self._rx[:, system.ndx - self.A.shape[1] :] = self.A

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Residuals r (K, nr)."""
        if us is None:
            raise ValueError(f"us: got None, expected controls: {self.name} depends on them")
        r = np.empty((len(us), self.nr))
        linear_rows(self.A, self.B, xs, us, r)
        return r

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Jacobians rx (K, nr, ndx), ru (K, nr, nu), the same at all knots."""
        return np.tile(self._rx, (len(xs), 1, 1)), np.tile(self.B, (len(xs), 1, 1))

    @property
    def sums_squares(self) -> bool:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        return type(self) is LinearResidual

    def prepared_rows(
        self, xs: np.ndarray, us: np.ndarray | None, jacobians: bool
    ) -> Callable[[], tuple[Any, ...]] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        if us is None or type(self) is not LinearResidual:
            return None
        r, slopes = np.zeros((len(us), self.nr)), self.jacobians(us, us) if jacobians else (None, None)
        return PreparedCalls(PreparedCall(linear_rows, self.A, self.B, xs, us, r), result=lambda: (r, *slopes))

    def hessian_products(self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray) -> tuple[None, None, None]:
        """None: no curvature."""
        return None, None, None


# --------------------------------------------------------------------------------------------
# Limits of accelerations, of control rates, and of torques at a speed.


def limited_joints(
    what: str, system: System, residual: Callable[..., Any], lower: Limits, upper: Limits, kind: type | None = None
) -> tuple[Any, np.ndarray, np.ndarray]:
    """A residual for the joints that have a finite limit, residual(inside, which), mapped to the system; and these
    limits.

    inside is the innermost system of those with a memory, or the first of them that is of this kind."""
    inside = innermost(system, kind)
    whole = residual(inside)
    low, high, used = limited_components(what, lower, upper, whole.joints, whole.nr)
    return lifted(system, residual(inside, used), kind), low, high


class AccelerationBounds(ResidualConstraint):
    """lower <= (v+ - v)/dt <= upper: limits of the accelerations that the controls cause, as in
    `trajopt.AccelerationResidual`, with exact derivatives.

    Where the sweep's controls can be accelerations (``formulation="inverse"``), these limits are linear in them, and
    fewer iterations may suffice.

    Parameters
    ----------
    system : System, whose states end with velocities, or a `ControlRateSystem` or `JerkSystem` around one
        For a robot with phases the system of a segment, with the segment's knots for ``at``.
    lower, upper : number, (n,) array of the n velocities, or mapping of joints' names to numbers
        Limits, rad/s^2 or m/s^2, infinite by default; joints with two infinite limits are free.
    at : "path" (default), knots, times or a slice
    name : str, optional

    Raises
    ------
    TypeError, ValueError
        Naming the argument, the value it got and the one expected.
    """

    def __init__(
        self,
        system: System,
        lower: Limits = -np.inf,
        upper: Limits = np.inf,
        at: At = "path",
        name: str = "acceleration bounds",
    ) -> None:
        super().__init__(*limited_joints("AccelerationBounds", system, AccelerationResidual, lower, upper), at, name)


class ControlRateBounds(ResidualConstraint):
    """lower <= (u_t - u_{t-1})/dt <= upper; u_{-1} is part of the initial state.

    Parameters
    ----------
    system : ControlRateSystem
    lower, upper : number, (nu,) array, or mapping of controls' names to numbers
        Limits of rates, per second, infinite by default; controls with two infinite limits are free.
    at : "path" (default), knots, times or a slice
    name : str, optional

    Raises
    ------
    TypeError, ValueError
        Naming the argument, the value it got and the one expected.
    """

    def __init__(
        self,
        system: ControlRateSystem,
        lower: Limits = -np.inf,
        upper: Limits = np.inf,
        at: At = "path",
        name: str = "control rate bounds",
    ) -> None:
        check_control_rate_system(system)
        names = control_names(system)
        low, high, used = limited_components("ControlRateBounds", lower, upper, names, system.nu)
        rates = np.eye(system.nu)[used] / system.dt
        labels = tuple(f"{names[j]} rate" for j in used) if names else ()
        super().__init__(LinearResidual(system, -rates, rates, labels, "control rates"), low, high, at, name)


class TorqueSpeedBounds(ResidualConstraint):
    """|u| <= u_0 (1 - |w|/w_0): the torque u of a motor decreases with its speed w.

    As linear rows, -1 <= u/u_0 + w/w_0 <= 1 and -1 <= u/u_0 - w/w_0 <= 1.

    Parameters
    ----------
    system : System
    stall_torque : number, (nu,) array, or mapping of controls' names to numbers, positive
        u_0, N m; motors that a mapping leaves out are free, and so are those with an infinite u_0.
    no_load_speed : w_0, rad/s, in the same form
    speeds : (nu, n) array, optional
        S of w = S v, with v the last n entries of a state; by default the system's: for a robot the speeds of its
        motors, with gears and couplings of the actuation.
    braking : bool
        True: torques against the motion are limited in the same way; False leaves out the second of the rows, as for
        motors with limited voltage, whose current `ControlBounds` can limit.
    at : "path" (default), knots, times or a slice
    name : str, optional

    Raises
    ------
    TypeError, ValueError
        Naming the argument, the value it got and the one expected.
    """

    def __init__(
        self,
        system: System,
        stall_torque: Limits,
        no_load_speed: Limits,
        speeds: ArrayLike | None = None,
        braking: bool = True,
        at: At = "path",
        name: str = "torque-speed bounds",
    ) -> None:
        check_system(system, "nx", "ndx", "nu")
        names = control_names(system)
        given = ("stall_torque", stall_torque), ("no_load_speed", no_load_speed)
        stall, no_load = (_positive(which, limits_by_name(which, value, names, np.inf), system.nu)
                          for which, value in given)  # fmt: skip
        S = _speeds(system)[0] if speeds is None else as_array("speeds", speeds, copy=True)
        if S.ndim != 2 or len(S) != system.nu or not 0 < S.shape[1] <= system.ndx:
            raise ValueError(f"speeds: got shape {S.shape}, expected ({system.nu}, n) with n from 1 to {system.ndx}")
        used = np.flatnonzero(np.isfinite(stall) & np.isfinite(no_load))
        if not len(used):
            raise ValueError("TorqueSpeedBounds: got no motor with finite stall_torque and no_load_speed, expected one")
        signs = (1.0, -1.0) if as_flag("braking", braking) else (1.0,)
        A = np.vstack([sign * S[used] / no_load[used, None] for sign in signs])
        B = np.tile(np.eye(system.nu)[used] / stall[used, None], (len(signs), 1))
        labels = tuple(f"{names[j]} torque {'+' if sign > 0.0 else '-'} speed" for sign in signs for j in used if names)
        super().__init__(LinearResidual(system, A, B, labels, "torque and speed"), -1.0, 1.0, at, name)

    @classmethod
    def from_model(
        cls, system: System, braking: bool = True, at: At = "path", name: str = "torque-speed bounds"
    ) -> TorqueSpeedBounds:
        """The limits of the system: u_0 the effort of a robot's motors, w_0 the speed of their joints.

        Parameters: braking, at, name: see `TorqueSpeedBounds`.

        Raises
        ------
        TypeError, ValueError
            For a system without these limits, or without a motor that has both.
        """
        check_system(system, "nx", "ndx", "nu")
        limits = capability(system, KnownLimits).control_limits
        if limits is None:
            raise TypeError(f"system: {type(system).__name__} knows no limits of its controls")
        lower, upper = limits()
        no_load = _speeds(system)[1]
        return cls(system, np.minimum(-lower, upper), no_load, braking=braking, at=at, name=name)


def _speeds(system: System) -> tuple[np.ndarray, np.ndarray]:
    """S (nu, n) and w_0 of the system."""
    speeds = capability(system, KnownLimits).control_speeds
    if speeds is None:
        raise TypeError(f"system: {type(system).__name__} knows no speeds of its motors, expected speeds=")
    return speeds


def _positive(name: str, value: ArrayLike, count: int) -> np.ndarray:
    """Positive numbers (count,), which may be infinite."""
    rows = limit_rows(name, value, count)
    if rows.ndim > 1:
        raise ValueError(f"{name}: got shape {rows.shape}, expected a number or ({count},)")
    array = np.broadcast_to(rows, (count,))
    if (array <= 0.0).any():
        raise ValueError(f"{name}: got {float(array.min())}, expected positive numbers")
    return array
