"""Any system with declared numbers more in its state, which knots that take no time choose, and which then stay.

With z = (x, y), x the state of the system inside, and y the declared numbers,

    at knots of the system inside   F(z, w) = (f(x, u), y)                       u some of w, and numbers among y
    at knots that choose            F(z, w) = (c (+) (x (-) c + A w), y_0 + B w)   no time, no costs

where y_0 is y, or what choices begin from.  The numbers may be durations of phases, each chosen where its phase begins
(`trajopt.FreeDurationSystem`).  Or they are chosen in front of the horizon, y = (p, d), p controls of the system inside
that have one value over the whole horizon, d the free coordinates of the initial state, which what is asked of the end
may need; c is a state near which the initial one is looked for.  There, each control changes one number: p, or a
coordinate of x (-) c and, where it is carried along, the same of d, so that there are as many of these knots as it
takes to choose all numbers with the controls that there are, and limits of the numbers are limits of controls.

Of r(x) = x (-) c with J and H as `difference_expansion` has them, at x and x+,

    F_x = J+^-1 J    F_w = J+^-1 A    lam'F'' = J'' - F'H+(mu)F    mu = J+^-T lam

with J'' the Hessian H(mu) of x alone: all that is needed of a manifold is what costs on it need.
"""

from __future__ import annotations

import copy
import itertools
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd.array_loops import place_columns, repeat
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.validation import as_whole_number
from trajopt.callable_system.functions import plain
from trajopt.capabilities import Knots, capability
from trajopt.interfaces.stepwise import ClosedLoop, closed_loop_by_steps, prepare, prepared_difference
from trajopt.interfaces.system import System, control_names, knot_durations, tangent_names, window
from trajopt.problem.control_map import ControlMap
from trajopt.problem.extended_calls import (
    candidates_in_memory,
    control_candidates,
    follow_kept,
    gaps_left,
    keep,
    keeping_loop,
    place_candidates,
    place_choices,
    place_matrix,
    shifts_of,
    stay_without,
    subtract_gaps,
    take_points,
    tile_plan,
)
from trajopt.problem.extended_system import ExtendedSystem, Lifted, Refused, joined
from trajopt.problem.knot_rows import place_of

FOR_A_SOLVE = "a system with numbers that are chosen in front of the horizon is made for a solve"


class Choices(NamedTuple):
    """What each of F knots that take no time chooses.

    of_state : (F, ndx, nu) array A
    of_numbers : (F, m, nu) array B
    base : (m,) array of the numbers that choices begin from, NaN for those that go on from what is in y
    center : (nx,) array c, which only choices of states need
    carried : the free components of tangents that are the last of the numbers
    """

    of_state: np.ndarray
    of_numbers: np.ndarray
    base: np.ndarray
    center: np.ndarray
    carried: np.ndarray = np.zeros(0, dtype=np.intp)


class AugmentedSystem(ExtendedSystem):
    """A system with declared numbers y in its state, and knots at which they are chosen.

    Parameters
    ----------
    system : System
    choices : Choices
    knots : (N,) integers: those of the system inside in order, and below zero those that choose, counted from the last
    names : names of the numbers
    parameters : controls of the system inside that the first of the numbers are

    Attributes
    ----------
    horizon : N
    setting : (N,) bool, which knots choose numbers
    durations : (N,) seconds; knots that choose take no time
    nx, ndx : those of the system inside, and as many more as there are declared numbers
    """

    remembers = "declared numbers"
    resimulated, control_limits = Refused(FOR_A_SOLVE), Refused(FOR_A_SOLVE)

    def __init__(
        self, system: System, choices: Choices, knots: np.ndarray, names: tuple[str, ...], parameters: Any = ()
    ) -> None:
        super().__init__(system, choices.of_numbers.shape[1])
        self.nu, self.choices, self._names = choices.of_numbers.shape[2], choices, names
        self._chooses_state = choices.of_state.any(axis=(1, 2))
        which = np.array(parameters, dtype=np.intp)
        self.map = self.map._replace(controls=np.setdiff1d(np.arange(system.nu), which), parameters=which)
        self._take(system, *self._motion_of(system), knots)

    def _motion_of(self, system: Any) -> tuple[Any, ControlMap]:
        """What moves x at the knots of a system inside, and where its controls come from."""
        return system, self.map

    def _take(self, system: Any, moves: Any, by: ControlMap, knots: np.ndarray) -> None:
        """Become these knots of this system inside."""
        self.system, self._moves, self._by, self._knots, self.dt = system, moves, by, knots, system.dt
        self.horizon, self.setting, self.durations = len(knots), knots < 0, np.zeros(len(knots))
        self._moving = np.flatnonzero(~self.setting)
        changes = (np.flatnonzero(np.diff(self.setting)) + 1).tolist()
        self._runs = list(itertools.pairwise([0, *changes, len(knots)]))  # of knots that choose, and of others
        self._choosing = [(np.flatnonzero(knots == k), int(k)) for k in np.unique(knots[self.setting])]
        if len(self._moving):
            inside = knots[self._moving]
            self.durations[self._moving] = knot_durations(system, int(inside.max()) + 1)[inside]
        self._windows: dict[tuple[int, int], Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without what moves x, which may be functions of the user: these are made again when they are needed."""
        return {**self.__dict__, "_moves": None, "_windows": {}}

    @property
    def _motion(self):
        if self._moves is None:
            self._moves, self._by = self._motion_of(self.system)
        return self._moves, self._by

    # -------------------------------------------------------------------------------------------- knots
    def window(self, start: int, stop: int) -> Any:
        """The system of the knots start <= t < stop alone; ValueError unless 0 <= start < stop <= horizon."""
        if (start, stop) not in self._windows:
            if not 0 <= start < stop <= self.horizon:
                raise ValueError(f"window: got ({start}, {stop}), expected 0 <= start < stop <= {self.horizon}")
            part, knots = copy.copy(self), self._knots[start:stop]
            system, (moves, by), inside = self.system, self._motion, knots[knots >= 0]
            if len(inside):  # of the system inside only these knots remain
                first, last = int(inside[0]), int(inside[-1]) + 1
                system, moves = window(system, first, last), window(moves, first, last)
                knots = np.where(knots < 0, knots, knots - first)
            part._take(system, moves, by, knots)
            self._windows[start, stop] = part
        return self._windows[start, stop]

    @Lifted
    def refined(self, inside, substeps):
        """The same choices, so many steps for each knot that takes time."""
        steps = np.where(self.durations > 0.0, as_whole_number("substeps", substeps, 1), 1)
        moving, first = self._moving, np.zeros(int(self._knots.max(initial=-1)) + 1, dtype=int)
        first[self._knots[moving]] = np.cumsum(steps[moving]) - steps[moving]
        fine = np.repeat(self._knots, steps)
        pairs = zip(first[self._knots[moving]], steps[moving], strict=True)
        fine[fine >= 0] = np.concatenate([start + np.arange(count) for start, count in pairs])
        return self._with_inside(inside(substeps), fine)

    @Lifted
    def with_model(self, inside, model):
        """The same choices with another model in the system inside."""
        return self._with_inside(inside(model), self._knots)

    def _with_inside(self, inside: Any, knots: np.ndarray) -> Any:
        """These knots of another system inside."""
        part = copy.copy(self)
        part._take(inside, *self._motion_of(inside), knots)
        return part

    @property
    def idle(self) -> np.ndarray:
        """True (horizon,) at knots with a control that has no effect."""
        idle, resting = np.zeros(self.horizon, dtype=bool), np.asarray(capability(self.system, Knots).idle)
        idle[self._moving] = self.nu > len(self.map.controls)
        if len(resting):
            idle[self._moving] |= resting[self._knots[self._moving]]
        for rows, k in self._choosing:
            used = self.choices.of_state[k].any(axis=0) | self.choices.of_numbers[k].any(axis=0)
            idle[rows] = not used.all()
        return idle

    @property
    def phase_starts(self) -> np.ndarray:
        """The knots that choose, at which phases begin."""
        return np.flatnonzero(self.setting)

    # -------------------------------------------------------------------------------------------- states and controls
    def state(self, x: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """z = (x, y)."""
        return joined(np.asarray(x, dtype=np.float64), np.asarray(numbers, dtype=np.float64))

    def _number_names(self):
        return self._names

    @property
    def control_names(self) -> tuple[str, ...] | None:
        """Names of the controls inside that are no parameters; None if they have none."""
        names, controls = control_names(self.system), self.map.controls
        return tuple(names[i] for i in controls) if names and len(controls) else None

    @Lifted
    def quasi_static(self, inside, z):
        """Controls (N, nu) that hold the system inside still; nothing else is changed."""
        us, whole, controls = np.asarray(inside(self.split(z)[0])), np.zeros((self.horizon, self.nu)), self.map.controls
        us = us if us.ndim == 1 else us[self._knots[self._moving]]
        whole[self._moving, : len(controls)] = us[..., controls]
        return whole

    @Lifted
    def contact_forces(self, inside, xs, us):
        """Forces (N, F, 3), N, on the frames at the knots, zero where numbers are chosen."""
        found = inside(*self.map.inside(np.asarray(xs)[self._moving], np.asarray(us)[self._moving]))
        whole = np.zeros((self.horizon, *found.shape[1:]))
        whole[self._moving] = found
        return whole

    # -------------------------------------------------------------------------------------------- motion
    def _rows(self, K: int) -> tuple[list[tuple[np.ndarray, int]], np.ndarray]:
        """Rows of K points that choose, with what they choose, and those at which x moves; for a system of one knot all
        are that knot."""
        if self.horizon == 1:
            rows = np.arange(K)
            return ([(rows, int(self._knots[0]))], rows[:0]) if self.setting[0] else ([], rows)
        if K != self.horizon:
            raise ValueError(f"u: got {K} knots, expected {self.horizon}, which the phases fill")
        return self._choosing, self._moving

    def step(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Next state: of one point or a batch for the system of one knot, of its knots in order for others."""
        zs, us = np.atleast_2d(x), np.atleast_2d(u)
        K = max(len(zs), len(us))
        zs, us = np.broadcast_to(zs, (K, self.nx)), np.broadcast_to(us, (K, self.nu))
        (choosing, moving), out = self._rows(K), np.empty((K, self.nx))
        for rows, k in choosing:
            out[rows] = self._chosen(k, zs[rows], us[rows])
        if len(moving):
            out[moving] = super().step(zs[moving], us[moving])
        return out if np.ndim(x) > 1 or np.ndim(u) > 1 else out[0]

    @Lifted
    def prepared_steps(self, inside, zs, us, following):
        """Steps of what moves x, and choices, of vectors or of numbers alone."""
        choosing, moving = self._rows(len(us))
        calls: list[Any] = [self._prepared_steps(moving, zs, us, following)] if len(moving) else []
        for rows, k in choosing:
            if self._manifold is not None and self._chooses_state[k]:
                return None
            A = self.choices.of_state[k] if self._chooses_state[k] else np.empty((0, self.nu))
            given = rows, A, self.choices.of_numbers[k], self.choices.base, zs, us, following
            calls.append(PreparedCall(place_choices, *given))
        return None if None in calls else PreparedCalls(*calls)

    def _chosen(self, k: int, zs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """States after a knot that chooses."""
        A, base, n, out = self.choices.of_state[k], self.choices.base, self.system.nx, np.array(zs)
        if self._chooses_state[k] and self._manifold is None:
            out[:, :n] += us @ A.T
        elif self._chooses_state[k]:
            centers = np.tile(self.choices.center, (len(zs), 1))
            out[:, :n] = self.system.integrate(centers, self.system.difference(centers, out[:, :n]) + us @ A.T)
        out[:, n:] = np.where(np.isnan(base), out[:, n:], base) + us @ self.choices.of_numbers[k].T
        return out

    def _write_rollout(self, zs, us):
        for a, b in self._runs:
            if not self.setting[a]:
                ExtendedSystem._write_rollout(self.window(a, b), zs[a : b + 1], us[a:b])
                continue
            for t in range(a, b):
                zs[t + 1] = self._chosen(int(self._knots[t]), zs[t : t + 1], us[t : t + 1])[0]

    def _roll_out(self, loop: ClosedLoop) -> tuple[np.ndarray, np.ndarray]:
        """Knots that choose one by one, those between them by the system inside, at once."""
        N, A = len(loop.us), len(loop.alphas)
        if N != self.horizon or loop.pull is not None or loop.before is not None:
            return closed_loop_by_steps(self, *loop)
        if not self.setting.any():
            return super()._roll_out(loop)
        X, U = np.empty((A, N + 1, self.nx)), np.empty((A, N, self.nu))
        X[:, 0] = self._starts(loop)
        for a, b in self._runs:
            cut = (None if each is None else each[a:b] for each in (loop.lower, loop.upper))
            gaps = None if loop.gaps is None else np.vstack([np.zeros(self.ndx), loop.gaps[a + 1 : b + 1]])
            part = X[:, a], loop.xs[a : b + 1], loop.us[a:b], loop.k[a:b], loop.K[a:b], loop.alphas, gaps, *cut
            if self.setting[a]:
                self._roll_choices(a, b, loop, X, U)
            else:
                X[:, a : b + 1], U[:, a:b] = self.window(a, b).closed_loop_rollout(*part)
        return X, U

    def _roll_choices(self, a: int, b: int, loop: ClosedLoop, X: np.ndarray, U: np.ndarray) -> None:
        """Closed loops over the knots a <= t < b, which choose."""
        zs, us, k, K, alphas = map(plain, loop[1:6])
        lower, upper = (np.empty((0, self.nu)) if end is None else plain(end) for end in (loop.lower, loop.upper))
        dz, u = np.full((len(alphas), self.ndx), np.nan), np.zeros((len(alphas), 1, self.nu))
        for t in range(a, b):
            good, now = np.isfinite(X[:, t]).all(axis=1), slice(t, t + 1)
            dz[good] = self.difference(np.tile(zs[t], (good.sum(), 1)), X[good, t])
            control_candidates(0, alphas, us[now], k[now], K[now], dz, lower[now], upper[now], 0, u)
            U[:, t], X[:, t + 1] = u[:, 0], np.nan
            good &= np.isfinite(u[:, 0]).all(axis=1)
            following = self._chosen(int(self._knots[t]), X[good, t], u[good, 0])
            if loop.gaps is not None and self._manifold is None:
                subtract_gaps(alphas[good], loop.gaps[t + 1], following)
            elif loop.gaps is not None:
                following = self.integrate(following, -(1.0 - alphas[good])[:, None] * loop.gaps[t + 1])
            X[good, t + 1] = following

    @Lifted
    def prepared_rollouts(
        self, inside, x0, xs, us, k, K, alphas, gaps=None, lower=None, upper=None, shift=None, pull=None, before=None
    ):
        """Knots that choose one by one, those between them by the system inside; of one number more in the state, and
        where it is vectors that are chosen."""
        whole = x0.ndim == 1 and len(us) == self.horizon and shift is pull is before is None
        if not whole or self.memory != 1 or (self._manifold is not None and self._chooses_state.any()):
            return None
        A, N = len(alphas), len(us)
        Z, W, starts = np.zeros((A, N + 1, self.nx)), np.zeros((A, N, self.nu)), np.zeros((A, self.nx))
        calls: list[Any] = [PreparedCall(repeat, x0, starts)]
        if gaps is not None:
            moved, along = self._prepared_gap(alphas, gaps[0], starts)
            calls += [along, PreparedCall(stay_without, gaps[0], starts, moved)]
            starts = moved
        calls.append(PreparedCall(place_columns, starts, Z.reshape(A, -1), 0))
        none = np.empty((0, self.nu))
        limits = (none, none) if lower is None or upper is None else (lower, upper)
        rows = self._rows_of(gaps, None)[0]
        for a, b in self._runs:
            part, now = self.window(a, b), slice(a, b)
            plan = xs[a : b + 1], us[now], k[now], K[now], rows[a : b + 1], *[end[now] for end in limits]
            roll = part._prepared_choices if self.setting[a] else part._prepared_motion
            calls.append(roll(alphas, *plan, a, Z, W))
        return None if None in calls else PreparedCalls(*calls, result=lambda: (Z, W))

    def _prepared_gap(self, alphas: np.ndarray, gap: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, Any]:
        """States (A, nx) moved along what candidates leave of a gap, and the calls that write them, None where there
        are none."""
        if self._manifold is None:
            return states, PreparedCall(subtract_gaps, alphas, gap, states)
        moved, dx = np.zeros(states.shape), np.zeros((len(states), self.ndx))
        integrate = prepare(self, "prepared_integrate", states, dx, moved)
        return moved, None if integrate is None else PreparedCalls(PreparedCall(gaps_left, alphas, gap, dx), integrate)

    def _prepared_choices(self, alphas, zs, us, k, K, gaps, lower, upper, first, Z, W) -> Any:
        """Calls of `_roll_choices`, from knot `first` of Z and W on; None where there are none."""
        A, nw = len(Z), self.nu
        at, following, plan, dz = (np.zeros((A, size)) for size in (self.nx, self.nx, self.nx, self.ndx))
        u, difference = np.zeros((A, nw)), prepared_difference(self, plan, at, dz)
        calls: list[Any] = []
        for t in range(len(us)):
            chosen, now = int(self._knots[t]), slice(t, t + 1)
            A_of_state = self.choices.of_state[chosen] if self._chooses_state[chosen] else np.empty((0, nw))
            choice = A_of_state, self.choices.of_numbers[chosen], self.choices.base
            law = alphas, us[now], k[now], K[now], dz, lower[now], upper[now]
            calls += [
                PreparedCall(take_points, Z, first + t, at),
                PreparedCall(repeat, zs[t], plan),
                difference,
                PreparedCall(control_candidates, 0, *law, 0, u.reshape(A, 1, nw)),
                PreparedCall(place_columns, u, W.reshape(A, -1), (first + t) * nw),
                PreparedCall(place_choices, np.arange(A), *choice, at, u, following),
            ]
            moved = following
            if len(gaps):
                moved, along = self._prepared_gap(alphas, gaps[t + 1], following)
                calls.append(along)
            calls.append(PreparedCall(place_candidates, moved, at, u, first + t + 1, Z))
        return None if None in calls else PreparedCalls(*calls)

    def _prepared_motion(self, alphas, zs, us, k, K, gaps, lower, upper, first, Z, W) -> Any:
        """Calls of `_roll_out_keeping` with one number, from knot `first` of Z and W on; None where there are none."""
        (moves, by), nx, gapped, N = self._motion, self.system.nx, len(gaps) > 0, len(us)
        starts, inside = np.zeros((len(Z), self.nx)), keeping_loop(by, len(Z), N)
        roll: Any = prepare(moves, "prepared_rollouts", *inside.followed(alphas, gapped, len(lower) > 0))
        if roll is None or roll.result is None:
            return None
        given = starts, zs, us, k, K, gaps, lower, upper, np.ones(1)
        found = map(candidates_in_memory, roll.result())
        calls: list[Any] = [
            PreparedCall(take_points, Z, first, starts),
            PreparedCall(follow_kept, by.controls, by.parameters, by.scale, *given, inside),
            PreparedCall(shifts_of, starts, zs, nx, inside.shift),
            roll,
            PreparedCall(keep, by.controls, nx, alphas, gapped, starts, zs, *found, first, Z, W),
        ]
        if len(by.controls) < self.nu:
            at, plan, dz = (np.zeros((len(Z) * N, size)) for size in (self.nx, self.nx, self.ndx))
            calls += [PreparedCall(take_points, Z, first, at), PreparedCall(tile_plan, zs, plan)]
            calls.append(prepared_difference(self, plan, at, dz))
            law = alphas, us, k, K, dz, lower, upper
            calls.append(PreparedCall(control_candidates, len(by.controls), *law, first, W))
        return None if None in calls else PreparedCalls(*calls)

    # -------------------------------------------------------------------------------------------- expansions
    def _expand(self, xs, us, lam, first, second) -> None:
        xs, (choosing, moving) = np.asarray(xs)[: len(us)], self._rows(len(us))
        for rows, k in choosing:
            self._expand_chosen(k, rows, xs[rows], us[rows], None if lam is None else lam[rows], first, second)
        if len(moving):
            self._expand_moving(place_of(moving), xs, us, lam, first, second)

    def _expand_chosen(self, k, rows, zs, us, lam, first, second) -> None:
        n, A, B = self.system.ndx, self.choices.of_state[k], self.choices.of_numbers[k]
        K, manifold, c = len(rows), self._manifold, self.choices.center
        Fx, Fw = np.eye(n), A
        if manifold is not None and self._chooses_state[k]:
            ends, mu = self.split(self._chosen(k, zs, us))[0], np.zeros((K, n))
            after = manifold.difference_expansion(c, ends, mu)[0]
            Fx = np.linalg.solve(after, manifold.difference_expansion(c, self.split(zs)[0], mu)[0])
            Fw = np.linalg.solve(after, np.tile(A, (K, 1, 1)))
            if second is not None:
                mu = np.linalg.solve(after.swapaxes(1, 2), lam[:, :n, None])[..., 0]
                bent = -manifold.difference_expansion(c, ends, mu)[1]
                second[0][rows, :n, :n] = manifold.difference_expansion(c, self.split(zs)[0], mu)[1]
                second[0][rows, :n, :n] += Fx.swapaxes(1, 2) @ bent @ Fx
                second[1][rows, :, :n] = Fw.swapaxes(1, 2) @ bent @ Fx
                second[2][rows] = Fw.swapaxes(1, 2) @ bent @ Fw
        if first is not None:
            first[0][rows, :n, :n], first[1][rows, :n], first[1][rows, n:] = Fx, Fw, B
            first[0][rows, n:, n:] = np.diag(np.isnan(self.choices.base))

    def _prepared_expansion(self, xs, us, first, lam, second) -> list[Any]:
        """See `ExtendedSystem`; with None where states on a manifold are chosen."""
        choosing, moving = self._rows(len(us))
        calls: list[Any] = [self._prepared_moving(moving, xs, us, first, lam, second)] if len(moving) else []
        goes_on, n = np.diag(np.isnan(self.choices.base).astype(np.float64)), self.system.ndx
        for rows, k in choosing:
            if self._manifold is not None and self._chooses_state[k]:
                return [None]
            changes = np.concatenate([self.choices.of_state[k], self.choices.of_numbers[k]])
            placed = (np.eye(n), 0, 0, first[0]), (goes_on, n, n, first[0]), (changes, 0, 0, first[1])
            calls += [PreparedCall(place_matrix, rows, *each) for each in placed]
        return calls

    @Lifted
    def step_noise(self, inside, zs):
        """Noise of the steps of the system inside, and none of what is chosen or declared."""
        noise = np.zeros((self.horizon, self.ndx))
        noise[self._moving, : self.system.ndx] = inside(self.split(zs[np.append(self._moving, self.horizon)])[0])
        return noise

    @Lifted
    def parameter_gradient(self, inside, zs, us, lam):
        """The gradient (`trajopt.capabilities.Expansions`) of the knots at which x moves."""
        (moves, by), rows = self._motion, self._rows(len(us))[1]
        given = np.ascontiguousarray(lam[rows, : self.system.ndx])
        return moves.parameter_gradient(*by.inside(np.asarray(zs)[rows], us[rows]), given)


# --------------------------------------------------------------------------------------------
# A free initial state, and parameters of the whole horizon.


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

    def chosen(self, nu: int) -> tuple[np.ndarray, np.ndarray]:
        """Knots and controls, of nu, at which the parameters, and then the free components, are chosen, one each."""
        return np.divmod(np.arange(len(self.parameters) + len(self.free)), nu)


def declared_system(system: System, horizon: int, declared: Declared) -> AugmentedSystem:
    """A system of so many knots, in front of which are as many as it takes to choose what is declared.

    Its controls are those of the system inside that are no parameters, and at least one.
    """
    P, carried, nu = len(declared.parameters), declared.free[declared.carried], system.nu - len(declared.parameters)
    at, which = declared.chosen(max(1, nu))
    F, m = int(at.max(initial=-1)) + 1, P + len(carried)
    A, B = np.zeros((F, system.ndx, max(1, nu))), np.zeros((F, m, max(1, nu)))
    A[at[P:], declared.free, which[P:]] = 1.0
    B[at[:P], np.arange(P), which[:P]] = 1.0
    B[at[P:][declared.carried], np.arange(P, m), which[P:][declared.carried]] = 1.0
    of_controls, of_states = control_names(system), tangent_names(system)
    names = [f"{of_controls[i] if of_controls else f'u_{i + 1}'} of all knots" for i in declared.parameters]
    names += [f"initial {of_states[i] if of_states else f'x_{i + 1}'}" for i in carried]
    choices = Choices(A, B, np.full(m, np.nan), declared.center, carried)
    return AugmentedSystem(system, choices, np.arange(-F, horizon), tuple(names), declared.parameters)
