"""Systems that remember numbers of the knot before as part of their state, as the controls.

With z = (x, p), p what is remembered, a linear function of state and control, the system

    F(z, u) = (f(x, u), p+)

has only blocks of f's derivatives, and constants: F_z = [[f_x, 0], [p+_x, 0]] and F_u = [[f_u], [p+_u]].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trajopt.interfaces.stepwise import ClosedLoop, closed_loop_by_steps, rollouts_take
from trajopt.problem.extended_system import ExtendedSystem, joined


class RememberingSystem(ExtendedSystem):
    """Base of systems with numbers of the knot before appended to the state."""

    memory_of_states = 0
    """How many of these numbers are the last ones of the state before."""

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
    """How many of a state's last numbers are of the step before."""
    return system.memory + remembered_numbers(system.system) if isinstance(system, RememberingSystem) else 0


def remembered_next(system: object, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """These numbers (..., memory) after a step from states x (..., nx) with controls u (..., nu)."""
    if not isinstance(system, RememberingSystem):
        return x[..., :0]
    inside = system.split(x)[0]
    return joined(remembered_next(system.system, inside, u), system._remembered(inside, u))


def remembered_between(
    system: object, before: np.ndarray, after: np.ndarray, moment: np.ndarray, s: float
) -> np.ndarray:
    """These numbers (..., memory) after the part s of a step: of what they are at its knot and at the next one, and in
    finer steps."""
    if not isinstance(system, RememberingSystem):
        return before
    own = -system.memory
    inside = remembered_between(system.system, before[..., :own], after[..., :own], moment[..., :own], s)
    return joined(inside, system._remembered_between(before[..., own:], after[..., own:], moment[..., own:], s))
