"""Rates of controls: the system that remembers the control before, and costs of rates."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from trajopt.costs.activations import add_rates, weighted_squares
from trajopt.costs.cost import ExpandedCost, Into, PlacedCost, as_rows, check_knots, common_knots, weight_rows
from trajopt.interfaces.stepwise import ClosedLoop, closed_loop_by_steps, rollouts_take
from trajopt.interfaces.system import System, check_system, control_names, state_array
from trajopt.interfaces.terms import At, Tangents, checked_at, state_space, summed_to
from trajopt.problem.extended_system import ExtendedSystem, check_dimensions, joined
from trajopt.validation import check_rows, scalar_or_vector

# --------------------------------------------------------------------------------------------
# Systems that remember numbers of the knot before as part of their state, as the controls.
#
# With z = (x, p), p what is remembered, a linear function of state and control, the system
#
#     F(z, u) = (f(x, u), p+)
#
# has only blocks of f's derivatives, and constants: F_z = [[f_x, 0], [p+_x, 0]] and F_u = [[f_u], [p+_u]].


class RememberingSystem(ExtendedSystem):
    """Base of systems with numbers of the knot before appended to the state."""

    memory_of_states = 0
    """Number of these numbers that are the last ones of the state before."""

    def _remembered(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """p+ (..., memory) at states x (..., nx) of the system inside and controls u (..., nu)."""
        raise NotImplementedError

    def _to_knot_before(self, gains: np.ndarray) -> np.ndarray:
        """Gains (N, nu, memory) of what is remembered as those of the last numbers of the state before and of its
        controls (N, nu, n + nu)."""
        raise NotImplementedError

    def _remembered_between(self, before: np.ndarray, after: np.ndarray, moment: np.ndarray, s: float) -> np.ndarray:
        """What is remembered (..., memory) after the part s of a step, between what is so at its knot and at the next:
        here what it is in finer steps, those of the moment before."""
        return moment

    def _names_before(self) -> Sequence[str]:
        """Names (memory,) of what is remembered, without "before"."""
        raise NotImplementedError

    def _with_names_before(self, names):
        return (*names, *(f"{name} before" for name in self._names_before()))

    # -------------------------------------------------------------------------------------------- motion
    def step(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Next state (f(x, u), p+), one point or a batch."""
        x = self.split(x)[0]
        return joined(self.system.step(x, u), self._remembered(x, np.asarray(u)))

    def rollout(self, x0: np.ndarray, us: np.ndarray) -> np.ndarray:
        """States (N+1, nx + memory) under the controls us (N, nu); in finer steps they begin at a knot, which its other
        states remember."""
        x, before = self.split(x0)
        xs, us = self.system.rollout(x, us), np.asarray(us)
        knots = np.arange(len(us)) // self.steps_a_knot * self.steps_a_knot
        return joined(xs, np.vstack([before, self._remembered(xs[knots], us[knots])]))

    def _roll_out(self, loop: ClosedLoop) -> tuple[np.ndarray, np.ndarray]:
        """Closed loops of the system inside, whose feedback to what is remembered is one to the knot before.

        With r_t what the knot before xs_t, us_t gives to remember, p_t what xs_t remembers and g_t the gap there, what
        a candidate remembers is off by what its knot before was, and by r_t - p_t - (1 - alpha) g_t.
        """
        if not self._rolls_inside(loop):
            return closed_loop_by_steps(self, *loop)
        n, nu, N = self.system.ndx, self.nu, len(loop.us)
        (xs, before), gains = self.split(loop.xs), np.ascontiguousarray(loop.K[:, :, n:])
        start, off = self.split(loop.x0), np.empty((N, self.memory))
        off[0], off[1:] = start[1] - before[0], self._remembered(xs[:-2], loop.us[:-1]) - before[1:-1]
        k, gaps, left = loop.k, None, np.zeros((N + 1, self.memory))
        if loop.gaps is not None:
            gaps, left = self._split_tangent(loop.gaps)
            off -= left[:-1]
            k = k + np.einsum("tij,tj->ti", gains, left[:-1])
        offsets, last = np.einsum("tij,tj->ti", gains, off), self._to_knot_before(gains)
        if loop.before is not None:
            last[:, :, self.memory_of_states :] += loop.before
        us = self._shifted(loop.us, offsets, last[:, :, -nu:])
        K = np.ascontiguousarray(loop.K[:, :, :n])
        given = start[0], xs, us, k, K, loop.alphas, gaps, loop.lower, loop.upper, loop.shift, loop.pull, last
        X, U = self.system.closed_loop_rollout(*given)
        remembered = np.empty((*X.shape[:2], self.memory))
        part = 1.0 - np.asarray(loop.alphas)[:, None, None]
        remembered[:, 0], remembered[:, 1:] = start[1], self._remembered(X[:, :-1], U)
        return joined(X, remembered - part * left), U

    def _rolls_inside(self, loop: ClosedLoop) -> bool:
        """True where the system inside has closed loops with feedback to the knot before."""
        nested = loop.before is not None and loop.before.shape[2] > self.nu
        return np.ndim(loop.x0) == 1 and not nested and rollouts_take(type(self.system), "before") and len(loop.us) > 0

    @staticmethod
    def _shifted(us: np.ndarray, offsets: np.ndarray, gains: np.ndarray) -> np.ndarray:
        """Controls us (N, nu) moved by offsets (N, nu), and by what these are fed back (N, nu, nu) at the next knot."""
        if not offsets.any():
            return us
        for t in range(1, len(us)):
            offsets[t] += gains[t] @ offsets[t - 1]
        return us + offsets


def remembered_numbers(system: object) -> int:
    """Number of last entries of a state that are of the step before."""
    return system.memory + remembered_numbers(system.system) if isinstance(system, RememberingSystem) else 0


def remembered_next(system: object, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """What is remembered (..., memory) after a step from states x (..., nx) with controls u (..., nu)."""
    if not isinstance(system, RememberingSystem):
        return x[..., :0]
    inside = system.split(x)[0]
    return joined(remembered_next(system.system, inside, u), system._remembered(inside, u))


def remembered_between(
    system: object, before: np.ndarray, after: np.ndarray, moment: np.ndarray, s: float
) -> np.ndarray:
    """What is remembered (..., memory) after the part s of a step, from what it is at the step's knot, at the next one,
    and in finer steps."""
    if not isinstance(system, RememberingSystem):
        return before
    own = -system.memory
    inside = remembered_between(system.system, before[..., :own], after[..., :own], moment[..., :own], s)
    return joined(inside, system._remembered_between(before[..., own:], after[..., own:], moment[..., own:], s))


# --------------------------------------------------------------------------------------------
# Any system with the controls before in its state, for costs and limits of how fast controls change.


class ControlRateSystem(RememberingSystem):
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

    def __init__(self, system: System) -> None:
        check_system(system, "nx", "ndx", "nu", "dt", "integrate", "difference", "step")
        super().__init__(system, system.nu)

    def state(self, x: ArrayLike, u_before: ArrayLike = 0.0) -> np.ndarray:
        """z = (x, u_before), x (nx,) of the system inside, u_before a number or (nu,)."""
        before = np.full(self.nu, 1.0) * scalar_or_vector("u_before", u_before, self.nu)
        return np.concatenate([state_array(self.system, "x", x), before])

    def _remembered(self, x, u):
        return u

    def _to_knot_before(self, gains):
        return gains

    def _write_numbers(self, pz, pw):
        pw[:] = np.eye(self.nu)

    def _names_before(self):
        return control_names(self.system) or [f"u_{i + 1}" for i in range(self.nu)]


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
        return weighted_squares(*self._controls(xs, us), self._weights)

    def add_expansion(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Into, curvature: Into) -> None:
        """See `trajopt.costs.cost.ExpandedCost`; the rates are linear in state and control."""
        assert us is not None
        check_knots("ControlRateCost", self.knots, us)
        if target is None:
            return
        n, m = self.system.ndx, self.system.nu
        for block, row in zip(target, ((n,), (m,), (n, n), (m, n), (m, m)), strict=True):
            assert block is not None
            check_rows("target", block, len(us), row)
        add_rates(*self._controls(xs, us), self._weights, scale, *target)

    def _controls(self, xs, us) -> tuple[np.ndarray, np.ndarray]:
        """us and the controls before, (K, nu) each."""
        before = self.system.split(xs)[1]
        check_rows("us", us, 0, (self.system.nu,))
        check_rows("xs", before, len(us), (self.system.nu,))
        return us, before
