"""Any system with declared numbers more in its state: they are chosen once, in front of the horizon, and then stay.

With z = (x, y), x the state of the system inside, y = (p, d), p controls of that system which have one value over the
whole horizon, d the free coordinates of the initial state, which what is asked of the end may need,

    at N knots of the horizon   F(z, w) = (f(x, (w, p)), y)                 w the other controls
    at knots in front of it     F(z, w) = (c (+) (x (-) c + A w), y + B w)  no time, no costs

c is a state near which the initial one is looked for, and rows of A and B choose what each control of a knot in front
changes.  Each of them changes one number: p or a coordinate of x (-) c and, where it is carried along, the same of d.
So there are as many of these knots as it takes to choose all numbers with the controls that there are, and limits of
the numbers are limits of controls.  Of r(x) = x (-) c with J and H as `difference_expansion` has them, at x and x+,

    F_x = J+^-1 J    F_w = J+^-1 A    lam'F'' = J'' - F'H+(mu)F    mu = J+^-T lam

with J'' the Hessian H(mu) of x alone: all that is needed of a manifold is what costs on it need.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from trajopt.capabilities import Knots, capability
from trajopt.interfaces.stepwise import ClosedLoop, closed_loop_by_steps, rollouts_take
from trajopt.interfaces.system import System, control_names, knot_durations, tangent_names, window
from trajopt.problem.extended_system import ExtendedSystem, Lifted, Refused, joined

ALIKE = 1e-12
"""Relative difference up to which declared numbers of all candidates lie on one line through those of the plan."""


FOR_A_SOLVE = "a system with numbers that are chosen in front of the horizon is made for a solve"


class Declared(NamedTuple):
    """What is chosen in front of the horizon.

    center : (nx,) array, c
    free : components of tangents of the system inside in which the initial state is free
    carried : which of these, counted among themselves, are part of the state all along
    parameters : controls of the system inside that have one value
    """

    center: np.ndarray
    free: np.ndarray
    carried: np.ndarray
    parameters: np.ndarray


class AugmentedSystem(ExtendedSystem):
    """A system with declared numbers y in its state, and knots in front of its horizon at which they are chosen.

    Parameters
    ----------
    system : System
    horizon : int, N, its knots
    declared : Declared

    Attributes
    ----------
    front : int, how many knots are in front
    horizon : front + N
    nx, ndx : those of the system inside, and as many more as there are declared numbers
    nu : how many of the controls inside are no parameters, at least 1
    controls : which these are
    """

    remembers = "declared numbers"
    refined, resimulated, with_model = Refused(FOR_A_SOLVE), Refused(FOR_A_SOLVE), Refused(FOR_A_SOLVE)
    start_advice, quasi_static, phase_starts = Refused(FOR_A_SOLVE), Refused(FOR_A_SOLVE), Refused(FOR_A_SOLVE)
    control_limits, control_speeds, joint_feedback = Refused(FOR_A_SOLVE), Refused(FOR_A_SOLVE), Refused(FOR_A_SOLVE)
    integrator_order, joint_inertias, joint_efforts = Refused(FOR_A_SOLVE), Refused(FOR_A_SOLVE), Refused(FOR_A_SOLVE)
    single_joints = Refused(FOR_A_SOLVE)

    def __init__(self, system: System, horizon: int, declared: Declared) -> None:
        super().__init__(system, len(declared.parameters) + len(declared.carried))
        self.declared = declared
        self.controls = np.setdiff1d(np.arange(system.nu), declared.parameters)
        self.nu = max(1, len(self.controls))
        self.map = self.map._replace(controls=self.controls, parameters=declared.parameters)
        chosen, P = len(declared.parameters) + len(declared.free), len(declared.parameters)
        F = -(-chosen // self.nu)
        self._state_choice = np.zeros((F, system.ndx, self.nu))
        self._number_choice = np.zeros((F, self.memory, self.nu))
        for number in range(chosen):
            k, j = divmod(number, self.nu)
            if number < P:
                self._number_choice[k, number, j] = 1.0
                continue
            self._state_choice[k, declared.free[number - P], j] = 1.0
            self._number_choice[k, P + np.flatnonzero(declared.carried == number - P), j] = 1.0
        self._take(np.arange(-F, horizon))

    def _take(self, knots: np.ndarray) -> None:
        """Become these knots, those in front of the horizon below zero."""
        self._knots, self.horizon, self.front = knots, len(knots), int((knots < 0).sum())
        self._windows: dict[tuple[int, int], AugmentedSystem] = {}

    # -------------------------------------------------------------------------------------------- knots
    def window(self, start: int, stop: int) -> AugmentedSystem:
        """The system of the knots start <= t < stop alone; ValueError unless 0 <= start < stop <= horizon."""
        if (start, stop) not in self._windows:
            if not 0 <= start < stop <= self.horizon:
                raise ValueError(f"window: got ({start}, {stop}), expected 0 <= start < stop <= {self.horizon}")
            part, knots = copy.copy(self), self._knots[start:stop]
            inside = knots[knots >= 0]
            if len(inside):
                first = int(self._knots[self.front])
                part.system = window(self.system, int(inside[0]) - first, int(inside[-1]) + 1 - first)
            part._take(knots)
            self._windows[start, stop] = part
        return self._windows[start, stop]

    @property
    def chosen(self) -> tuple[np.ndarray, np.ndarray]:
        """Knots and controls at which the parameters, and then the free components, are chosen, one each."""
        declared = self.declared
        return np.divmod(np.arange(len(declared.parameters) + len(declared.free)), self.nu)

    @property
    def idle(self) -> np.ndarray:
        """True (horizon,) at knots with a control that has no effect."""
        n, resting = self.horizon - self.front, np.asarray(capability(self.system, Knots).idle)
        inside = np.full(n, len(self.controls) == 0)
        inside[: len(resting)] |= resting[:n]
        front = self._knots[: self.front]
        used = np.abs(self._state_choice[front]).sum(axis=1) + np.abs(self._number_choice[front]).sum(axis=1)
        return np.concatenate([used.min(axis=1, initial=1.0) == 0.0, inside])

    @property
    def durations(self) -> np.ndarray:
        """Seconds (horizon,); the knots in front take no time."""
        N = self.horizon - self.front
        return np.append(np.zeros(self.front), knot_durations(self.system, N)[:N])

    # -------------------------------------------------------------------------------------------- states and controls
    def state(self, x: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """z = (x, y)."""
        return joined(np.asarray(x, dtype=np.float64), np.asarray(numbers, dtype=np.float64))

    def _with_names_before(self, names):
        declared = self.declared
        of_controls, of_states = control_names(self.system), tangent_names(self.system)
        parameters = [of_controls[i] if of_controls else f"u_{i + 1}" for i in declared.parameters]
        carried = [of_states[i] if of_states else f"x_{i + 1}" for i in declared.free[declared.carried]]
        return (*names, *(f"{name} of all knots" for name in parameters), *(f"initial {name}" for name in carried))

    @property
    def control_names(self) -> tuple[str, ...] | None:
        """Names of the controls inside that are no parameters; None if they have none."""
        names = control_names(self.system)
        return tuple(names[i] for i in self.controls) if names and len(self.controls) else None

    # -------------------------------------------------------------------------------------------- motion
    def step(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Next state: of one point or a batch for the system of one knot, of its knots in order for others."""
        zs, us = np.atleast_2d(x), np.atleast_2d(u)
        K = max(len(zs), len(us))
        zs, us = np.broadcast_to(zs, (K, self.nx)), np.broadcast_to(us, (K, self.nu))
        front = self._rows_in_front(K)
        out = np.array(zs)
        for rows, knot in front:
            out[rows] = self._chosen_at(knot, zs[rows], us[rows])
        rest = slice(sum(len(rows) for rows, _ in front), None)
        if len(zs[rest]):
            out[rest, : self.system.nx] = self.system.step(*self.map.inside(zs[rest], us[rest]))
        return out if np.ndim(x) > 1 or np.ndim(u) > 1 else out[0]

    def _rows_in_front(self, K: int) -> list[tuple[np.ndarray, int]]:
        """Each knot in front with its rows, among K rows."""
        if not self.front:
            return []
        if self.horizon == 1:
            return [(np.arange(K), int(self._knots[0]))]
        if K != self.horizon:
            raise ValueError(f"u: got {K} knots, expected {self.horizon}")
        return [(np.array([i]), int(knot)) for i, knot in enumerate(self._knots[: self.front])]

    def _chosen_at(self, knot: int, zs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """States after a knot in front."""
        (xs, numbers), A, c = self.split(zs), self._state_choice[knot], self.declared.center
        if self._manifold is None:
            xs = xs + us @ A.T
        elif A.any():
            centers = np.tile(c, (len(xs), 1))
            xs = self._manifold.integrate(centers, self._manifold.difference(centers, xs) + us @ A.T)
        return joined(xs, numbers + us @ self._number_choice[knot].T)

    def rollout(self, x0: np.ndarray, us: np.ndarray) -> np.ndarray:
        """States (horizon + 1, nx) under the controls us (horizon, nu)."""
        us, F = np.asarray(us), self.front
        zs = np.empty((len(us) + 1, self.nx))
        zs[0] = x0
        for t in range(F):
            zs[t + 1] = self._chosen_at(int(self._knots[t]), zs[t : t + 1], us[t : t + 1])[0]
        if len(us) > F:
            zs[F + 1 :, self.system.nx :] = zs[F, self.system.nx :]
            x, inside = self.map.inside(np.tile(zs[F], (len(us) - F, 1)), us[F:])
            zs[F:, : self.system.nx] = self.system.rollout(x[0], inside)
        return zs

    def _roll_out(self, loop: ClosedLoop) -> tuple[np.ndarray, np.ndarray]:
        """The knots in front one by one, the horizon by the system inside."""
        F, N, n = self.front, len(loop.us), self.system.nx
        moving = loop.gaps is not None and loop.gaps[F + 1 :, self.system.ndx :].any()
        if F == N or loop.pull is not None or loop.before is not None or moving or N != self.horizon:
            return closed_loop_by_steps(self, *loop)
        X, U = np.full((len(loop.alphas), N + 1, self.nx), np.nan), np.full((len(loop.alphas), N, self.nu), np.nan)
        X[:, : F + 1], U[:, :F] = self._through_the_front(loop)
        with np.errstate(invalid="ignore"):
            found = self._through_the_horizon(loop, X[:, F])
        X[:, F + 1 :, :n] = found[0][:, 1:]
        X[:, F + 1 :, n:] = X[:, F, None, n:]
        U[:, F:, : len(self.controls)] = found[1][:, :, self.controls]
        U[:, F:, len(self.controls) :] = 0.0
        return X, U

    def _through_the_front(self, loop: ClosedLoop) -> tuple[np.ndarray, np.ndarray]:
        F = self.front
        cut = [None if each is None else each[:F] for each in (loop.lower, loop.upper)]
        gaps = None if loop.gaps is None else loop.gaps[: F + 1]
        part = loop.x0, loop.xs[: F + 1], loop.us[:F], loop.k[:F], loop.K[:F], loop.alphas, gaps, *cut
        return closed_loop_by_steps(self.window(0, F) if F else self, *part)

    def _through_the_horizon(self, loop: ClosedLoop, z0: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Candidates of the system inside from states z0 (A, nx): what is fed back of declared numbers, which stay what
        they are, is a part of the step where they move in proportion to it, and of each candidate's controls elsewhere.
        """
        numbers = loop.xs[self.front, self.system.nx :]
        (x0, of_all), alphas = self.split(z0), np.asarray(loop.alphas)
        moved = of_all - numbers
        slope = moved[np.argmax(alphas)] / alphas.max()
        size = 1.0 + np.abs(numbers).max(initial=0.0) + np.abs(moved).max(initial=0.0)
        together = np.abs(moved - np.multiply.outer(alphas, slope)).max(initial=0.0) <= ALIKE * size
        if together and rollouts_take(type(self.system), "shift", "pull"):
            return self._inside_loop(loop, x0, alphas, 0.0 * slope, slope)
        each = [self._inside_loop(loop, x0[a], alphas[a : a + 1], moved[a], 0.0 * slope) for a in range(len(alphas))]
        return np.concatenate([X for X, _ in each]), np.concatenate([U for _, U in each])

    def _inside_loop(
        self, loop: ClosedLoop, x0: np.ndarray, alphas: np.ndarray, shift: np.ndarray, slope: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Closed loops of the system inside, with declared numbers that are off by shift + alpha slope."""
        F, m, n, P = self.front, len(self.controls), self.system.ndx, len(self.declared.parameters)
        xs, us = self.split(loop.xs[F:])[0], self.map.inside(loop.xs[F:-1], loop.us[F:])[1]
        assert us is not None
        k, K = np.zeros(us.shape), np.zeros((*us.shape, n))
        feedback = loop.K[F:, :m, n:]
        us = np.array(us)
        us[:, self.controls] += feedback @ shift
        us[:, self.declared.parameters] += shift[:P]
        k[:, self.controls] = loop.k[F:, :m] + feedback @ slope
        k[:, self.declared.parameters] = slope[:P]
        K[:, self.controls] = loop.K[F:, :m, :n]
        gaps, limits = None, []
        if loop.gaps is not None:
            gaps = np.vstack([np.zeros(n), loop.gaps[F + 1 :, :n]])
        if loop.lower is not None and loop.upper is not None:
            for given, end in (loop.lower, -np.inf), (loop.upper, np.inf):
                limit = np.full(us.shape, end)
                limit[:, self.controls] = given[F:, :m]
                limits.append(limit)
        arguments = np.ascontiguousarray(x0), xs, us, k, K, alphas
        if gaps is None and not limits:
            return self.system.closed_loop_rollout(*arguments)
        if rollouts_take(type(self.system), "gaps", "lower", "upper"):
            return self.system.closed_loop_rollout(*arguments, gaps, *(limits or (None, None)))
        return closed_loop_by_steps(self.system, *arguments, gaps, *(limits or (None, None)))

    # -------------------------------------------------------------------------------------------- expansions
    def _expand(self, xs, us, lam, first, second) -> None:
        xs, K = np.asarray(xs)[: len(us)], len(us)
        front = self._rows_in_front(K)
        for rows, knot in front:
            self._expand_in_front(knot, rows, xs[rows], us[rows], None if lam is None else lam[rows], first, second)
        rest = slice(sum(len(rows) for rows, _ in front), K)
        if rest.start < K:
            self._expand_moving(self.system, self.map, rest, xs, us, lam, first, second)

    def _expand_in_front(self, knot, rows, zs, us, lam, first, second) -> None:
        n, A, B = self.system.ndx, self._state_choice[knot], self._number_choice[knot]
        K, manifold, c = len(rows), self._manifold, self.declared.center
        Fx, Fw = np.tile(np.eye(n), (K, 1, 1)), np.tile(A, (K, 1, 1))
        if manifold is not None and A.any():
            ends, mu = self.split(self._chosen_at(knot, zs, us))[0], np.zeros((K, n))
            after = manifold.difference_expansion(c, ends, mu)[0]
            Fx = np.linalg.solve(after, manifold.difference_expansion(c, self.split(zs)[0], mu)[0])
            Fw = np.linalg.solve(after, Fw)
            if second is not None:
                mu = np.linalg.solve(after.swapaxes(1, 2), lam[:, :n, None])[..., 0]
                bent = -manifold.difference_expansion(c, ends, mu)[1]
                second[0][rows, :n, :n] = manifold.difference_expansion(c, self.split(zs)[0], mu)[1]
                second[0][rows, :n, :n] += Fx.swapaxes(1, 2) @ bent @ Fx
                second[1][rows, :, :n] = Fw.swapaxes(1, 2) @ bent @ Fx
                second[2][rows] = Fw.swapaxes(1, 2) @ bent @ Fw
        if first is not None:
            first[0][rows, :n, :n], first[1][rows, :n], first[1][rows, n:] = Fx, Fw, B
            first[0][rows, n:, n:] = np.eye(self.memory)

    @Lifted
    def step_noise(self, inside, zs):
        """Noise of the steps of the system inside, and zero for what is chosen or declared."""
        noise = inside(self.split(zs[self.front :])[0])
        return np.pad(noise, [(self.front, 0), (0, self.memory)])

    @Lifted
    def parameter_gradient(self, inside, zs, us, lam):
        """Gradient of the system inside, over its horizon."""
        F = self.front
        xs, whole = self.map.inside(zs[F:], us[F:])
        return inside(xs, whole, np.ascontiguousarray(lam[F:, : self.system.ndx]))
