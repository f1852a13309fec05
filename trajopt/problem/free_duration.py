"""Systems whose phases take as long as is best: the system, its rollouts, and running costs over free durations."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trajopt.capabilities import Knots, KnownLimits, capability
from trajopt.interfaces.stepwise import ClosedLoop, closed_loop_by_steps, rollouts_take
from trajopt.interfaces.system import System, control_names, knot_durations, state_array, window
from trajopt.problem.constraints import ControlBounds
from trajopt.problem.extended_system import ControlMap, ExtendedSystem, Lifted, LiftedCost, Refused
from trajopt.problem.objective import place_of
from trajopt.validation import float_array, number_array, whole_number

# --------------------------------------------------------------------------------------------
# Closed loops of systems with free durations, by those of the systems inside, a phase at once.
#
# Along a phase a candidate's duration is what its first knot has: with s that of the nominal trajectory and s + sigma
# the candidate's, the feedback to it is the number sigma times K's last column, and h = s dt + sigma dt the last
# control of the system inside.  Where s changes from knot to knot, by gaps, sigma takes on what s loses, or alpha times
# that where the gaps are closed.


def roll_out_phases(system: Any, loop: ClosedLoop) -> tuple[np.ndarray, np.ndarray]:
    """What `closed_loop_rollout` of a `FreeDurationSystem` returns."""
    N, A = len(loop.us), len(loop.alphas)
    shifted = rollouts_take(type(system.timed_inside(0, 1)), "shift", "pull")
    if loop.pull is not None or loop.before is not None or N != system.horizon or not shifted:
        return closed_loop_by_steps(system, *loop)
    X, U = np.full((A, N + 1, system.nx), np.nan), np.full((A, N, system.nu), np.nan)
    X[:, :1] = closed_loop_by_steps(system, *_knots(loop, 0, 0, loop.x0, loop.gaps))[0]
    edges = (np.flatnonzero(np.diff(system.setting)) + 1).tolist()
    for a, b in itertools.pairwise([0, *edges, N]):
        rest = None if loop.gaps is None else np.vstack([np.zeros(system.ndx), loop.gaps[a + 1 :]])
        part = _knots(loop, a, b, X[:, a], rest)
        found = closed_loop_by_steps(system.window(a, b), *part) if system.setting[a] else _phase(system, a, part)
        X[:, a + 1 : b + 1], U[:, a:b] = found[0][:, 1:], found[1]
    return X, U


def _knots(loop: ClosedLoop, a: int, b: int, x0: np.ndarray, gaps: np.ndarray | None) -> ClosedLoop:
    """The knots a <= t < b, from these states; gaps (b - a + 1 or more, ndx)."""
    cut = (None if each is None else each[a:b] for each in (loop.lower, loop.upper))
    gaps = None if gaps is None else gaps[: b - a + 1]
    return ClosedLoop(x0, loop.xs[a : b + 1], loop.us[a:b], loop.k[a:b], loop.K[a:b], loop.alphas, gaps, *cut)


def _phase(system: Any, a: int, part: ClosedLoop) -> tuple[np.ndarray, np.ndarray]:
    """Candidates of knots from a on that a phase goes on through."""
    n, m, h, s = len(part.us), system.system.nu, system.dt, part.xs[:, -1]
    alphas, lost, sigma = np.asarray(part.alphas), s[0] - s, part.x0[:, -1] - s[0]
    pull = np.column_stack([part.K[:, :m, -1], np.full(n, h)])
    us, k = np.column_stack([part.us[:, :m], h * s[:-1]]), np.column_stack([part.k[:, :m], np.zeros(n)])
    K, gaps = np.zeros((n, m + 1, system.system.ndx)), None
    K[:, :m] = part.K[:, :m, :-1]
    if part.gaps is None:
        us += pull * lost[:-1, None]
        durations = s + sigma[:, None] + lost
    else:
        k += pull * lost[:-1, None]
        durations = s + sigma[:, None] + np.multiply.outer(alphas, lost)
        gaps = np.ascontiguousarray(part.gaps[:, :-1])
    limits = [None, None]
    if part.lower is not None and part.upper is not None:
        limits = [
            np.column_stack([each[:, :m], np.full(n, end)])
            for each, end in ((part.lower, -np.inf), (part.upper, np.inf))
        ]
    xs = np.ascontiguousarray(part.xs[:, :-1])
    x0 = np.ascontiguousarray(part.x0[:, :-1])
    inside = system.timed_inside(a, a + n)
    X, U = inside.closed_loop_rollout(x0, xs, us, k, K, alphas, gaps, *limits, sigma, pull)
    X = np.concatenate([X, durations[:, :, None]], axis=2)
    return X, np.concatenate([U[:, :, :m], _idle(system, part, X)[:, :, None]], axis=2)


def _idle(system: Any, part: ClosedLoop, X: np.ndarray) -> np.ndarray:
    """The controls (A, n) that would set a duration, which are without effect here."""
    e = part.us[:, -1] + np.multiply.outer(np.asarray(part.alphas), part.k[:, -1])
    if part.K[:, -1].any():
        at = X[:, :-1].reshape(-1, system.nx)
        dz = system.difference(np.tile(part.xs[:-1], (len(X), 1)), at).reshape(*X[:, :-1].shape[:2], -1)
        e = e + np.einsum("tj,atj->at", part.K[:, -1], dz)
    return e if part.lower is None or part.upper is None else np.clip(e, part.lower[:, -1], part.upper[:, -1])


# --------------------------------------------------------------------------------------------
# Systems whose phases take as long as is best: the duration of knots becomes part of the state.
#
# With z = (x, s), s how long a knot takes relative to the system's own dt, and Phi(x, u; h) a step of h seconds,
#
#     where a phase goes on       F(z, w) = (Phi(x, u; s dt), s)          w = (u, e)
#     where a phase begins        F(z, w) = (x, 1 + e)
#
# so each phase has one more knot, which takes no time and sets s.  Phi has exact derivatives by its duration, of first
# and second order; with h = s dt as one more argument they are those of F.  Running costs l are integrated over time,
# that is s l (`trajopt.problem.free_duration`).

SETTING = -1
"""In place of a knot of the system inside: a knot that sets the duration of those that follow."""


class FreeDurationSystem(ExtendedSystem):
    """A system with free durations, one for each phase: states z = (x, s), controls w = (u, e).

    Parameters
    ----------
    system : System that can step for any time (`timed` of `trajopt.capabilities.Knots`): robots, phases of contact,
        differential equations (`trajopt.CallableSystem(xdot=...)`)
    horizon : int, the number of knots, for a system that has none of its own
    phases : sequence of int, how many knots each phase has; by default those that the system has, or one
    bounds : lower and upper limit of s, how long a knot takes relative to the system's dt: positive numbers, or (P, 2)
        for P phases; see `duration_bounds`

    Attributes
    ----------
    horizon : int, N, the knots of all phases, and one more for each, in front, at which its duration is set
    setting : (N,) bool, which knots these are
    nx, ndx, nu : those of the system inside, plus 1

    Raises
    ------
    TypeError : a system that cannot step for any time.
    ValueError : no horizon, phases that do not fill it, bounds that are no growing positive numbers.

    Notes
    -----
    e is zero for s = 1, so that zeros for controls are the system's own durations.  Costs and residuals of the system
    inside are taken by `lift`; running ones are integrated over the time that knots take.  `at=` in seconds means the
    system's own durations.
    """

    remembers = "durations"
    resimulated = Refused("steps are exact for durations that are given")

    def __init__(
        self,
        system: System,
        horizon: int | None = None,
        phases: Sequence[int] | None = None,
        bounds: ArrayLike = (0.2, 3.0),
    ) -> None:
        timed = capability(system, Knots).timed
        if timed is None:
            raise TypeError(
                f"system: got {type(system).__name__}, which cannot step for any time, expected one that can "
                "(timed of trajopt.capabilities.Knots)"
            )
        super().__init__(system, 1)
        self.nu = system.nu + 1
        knots = _knots_of_phases(system, horizon, phases)
        self.bounds = _checked_bounds(bounds, len(knots))
        self._take(timed(), np.concatenate([np.append(SETTING, phase) for phase in knots]))

    def _take(self, timed: Any, knots: np.ndarray) -> None:
        """Become these knots of the system inside, or `SETTING`, which `timed` steps through."""
        self._timed, self._knots = timed, knots
        self.horizon, self.setting = len(knots), knots == SETTING
        self._phase_knots = np.flatnonzero(~self.setting)
        self.durations = np.zeros(self.horizon)
        if len(self._phase_knots):
            inside = knots[self._phase_knots]
            self.durations[self._phase_knots] = knot_durations(self.system, int(inside.max()) + 1)[inside]
        self._windows: dict[tuple[int, int], FreeDurationSystem] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without the steps of any duration, which may be functions made of the user's: these are made again."""
        return {**self.__dict__, "_timed": None, "_windows": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._timed = self.system.timed()

    # -------------------------------------------------------------------------------------------- knots
    def window(self, start: int, stop: int) -> FreeDurationSystem:
        """The system of the knots start <= t < stop alone; ValueError unless 0 <= start < stop <= horizon."""
        if (start, stop) not in self._windows:
            if not 0 <= start < stop <= self.horizon:
                raise ValueError(f"window: got ({start}, {stop}), expected 0 <= start < stop <= {self.horizon}")
            part, knots = copy.copy(self), self._knots[start:stop]
            timed, inside = self._timed, knots[knots != SETTING]
            if len(inside):  # of the system inside only these knots remain
                first, last = int(inside[0]), int(inside[-1]) + 1
                part.system, timed = window(self.system, first, last), window(timed, first, last)
                knots = np.where(knots == SETTING, SETTING, knots - first)
            part._take(timed, knots)
            self._windows[start, stop] = part
        return self._windows[start, stop]

    def timed_inside(self, start: int, stop: int) -> Any:
        """The system inside of the knots start <= t < stop, whose last control is how long a step takes, s."""
        return self.window(start, stop)._timed

    @property
    def idle(self) -> np.ndarray:
        """(N,) all knots: each has a control that is without effect there."""
        return np.ones(self.horizon, dtype=bool)

    # -------------------------------------------------------------------------------------------- others like it
    @Lifted
    def refined(self, inside: Callable[[int], Any], substeps: int) -> FreeDurationSystem:
        """The same phases, so many steps for each knot that takes time, which last s dt/substeps."""
        steps = np.where(self.durations > 0.0, whole_number("substeps", substeps, 1), 1)
        phase_knots, first = self._phase_knots, np.zeros(int(self._knots.max(initial=-1)) + 1, dtype=int)
        first[self._knots[phase_knots]] = np.cumsum(steps[phase_knots]) - steps[phase_knots]
        fine = np.repeat(self._knots, steps)
        flowing = fine != SETTING
        pairs = zip(first[self._knots[phase_knots]], steps[phase_knots], strict=True)
        fine[flowing] = np.concatenate([start + np.arange(count) for start, count in pairs])
        return self._with_inside(inside(substeps), fine)

    @Lifted
    def with_model(self, inside: Callable[[Any], Any], model: Any) -> FreeDurationSystem:
        """The same phases and bounds with another model in the system inside."""
        return self._with_inside(inside(model), self._knots)

    def _with_inside(self, inside: Any, knots: np.ndarray) -> FreeDurationSystem:
        """These knots of another system inside."""
        part = copy.copy(self)
        part.system, part.dt = inside, inside.dt
        part._take(inside.timed(), knots)
        return part

    # -------------------------------------------------------------------------------------------- states and times
    def state(self, x: ArrayLike, duration: float = 1.0) -> np.ndarray:
        """z = (x, s), x (nx,) of the system inside, s how long a knot takes relative to its dt."""
        s = float(float_array("duration", duration, ()))
        if s <= 0.0:
            raise ValueError(f"duration: got {s}, expected a positive number")
        return np.append(state_array(self.system, "x", x), s)

    def durations_along(self, xs: np.ndarray) -> np.ndarray:
        """How long each knot of a trajectory xs (N or N+1, nx) takes, (N,), s."""
        return self.durations * np.asarray(xs)[: self.horizon, -1]

    def phase_durations(self, xs: np.ndarray) -> np.ndarray:
        """How long each phase of a trajectory takes, (P,), s."""
        return np.add.reduceat(self.durations_along(xs), np.flatnonzero(self.setting))

    def total_time(self, xs: np.ndarray) -> float:
        """Duration of a trajectory, s."""
        return float(self.durations_along(xs).sum())

    @property
    def control_names(self) -> tuple[str, ...]:
        """Names of the controls: those of the system inside, and "duration"."""
        names = control_names(self.system) or tuple(f"u_{i + 1}" for i in range(self.system.nu))
        return (*names, "duration")

    def _with_names_before(self, names):
        return (*names, "duration")

    def control_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """lower and upper (nu,) of the system inside, and of e in any phase."""
        limits, n = capability(self.system, KnownLimits).control_limits, self.system.nu
        lower, upper = (np.full(n, -np.inf), np.full(n, np.inf)) if limits is None else limits()
        return np.append(lower, self.bounds[:, 0].min() - 1.0), np.append(upper, self.bounds[:, 1].max() - 1.0)

    def duration_bounds(self) -> ControlBounds:
        """The limits of the phases' durations, as a constraint for `trajopt.Problem`."""
        limits = np.full((2, self.horizon, self.nu), [[[-np.inf]], [[np.inf]]])
        limits[:, self.setting, -1] = self.bounds.T - 1.0
        return ControlBounds(limits[0], limits[1])

    @property
    def phase_starts(self) -> np.ndarray:
        """The knots at which phases begin, those that set durations."""
        return np.flatnonzero(self.setting)

    @Lifted
    def quasi_static(self, inside: Callable[[np.ndarray], np.ndarray], z: np.ndarray) -> np.ndarray:
        """Controls (N, nu) that hold the system inside still; nothing else is changed."""
        us, whole = np.asarray(inside(self.split(z)[0])), np.zeros((self.horizon, self.nu))
        whole[self._phase_knots, :-1] = us if us.ndim == 1 else us[self._knots[self._phase_knots]]
        return whole

    @Lifted
    def contact_forces(self, inside: Callable[..., np.ndarray], xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Forces (N, F, 3), N, on the frames at the knots, zero where a duration is set."""
        x = self.split(xs)[0][: self.horizon]
        found = inside(*self._inside(x, us))
        whole = np.zeros((self.horizon, *found.shape[1:]))
        whole[self._phase_knots] = found
        return whole

    def _inside(self, x, us):
        return np.ascontiguousarray(x[self._phase_knots]), np.ascontiguousarray(us[self._phase_knots, :-1])

    # -------------------------------------------------------------------------------------------- motion
    @property
    def _timed_map(self) -> ControlMap:
        """Map to the controls of the system inside that steps for any time, of which the last one is s dt."""
        own, m = self.map, self.system.nu
        return own._replace(nu=m + 1, parameters=np.array([m]), scale=self.dt)

    def step(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Next state: of one point or a batch for the system of one knot, of its knots in order for others."""
        zs, us = np.atleast_2d(x), np.atleast_2d(u)
        K = max(len(zs), len(us))
        zs, us = np.broadcast_to(zs, (K, self.nx)), np.broadcast_to(us, (K, self.nu))
        out, setting = np.array(zs), self._setting_of(us)
        out[setting, -1] = 1.0 + us[setting, -1]
        if not setting.all():
            rows = np.flatnonzero(~setting)
            out[rows, :-1] = self._timed.step(*self._timed_map.inside(zs[rows], us[rows]))
        return out if np.ndim(x) > 1 or np.ndim(u) > 1 else out[0]

    def _setting_of(self, us: np.ndarray) -> np.ndarray:
        """True (K,) at those of K knots that set durations; for a system of one knot all K are that knot."""
        if self.horizon == 1:
            return np.full(len(us), self.setting[0])
        if len(us) != self.horizon:
            raise ValueError(f"u: got {len(us)} knots, expected {self.horizon}, which the phases fill")
        return self.setting

    def rollout(self, x0: np.ndarray, us: np.ndarray) -> np.ndarray:
        """States (N+1, nx) under the controls us (N, nu), a phase after another."""
        us = np.asarray(us)
        xs = np.empty((self.horizon + 1, self.nx))
        xs[0], edges = x0, (np.flatnonzero(np.diff(self.setting)) + 1).tolist()
        for a, b in zip([0, *edges], [*edges, self.horizon], strict=True):
            for t in range(a, b) if self.setting[a] else ():
                xs[t + 1] = np.append(xs[t, :-1], 1.0 + us[t, -1])
            if not self.setting[a]:
                xs[a + 1 : b + 1, -1] = xs[a, -1]
                timed = np.hstack([us[a:b, :-1], np.full((b - a, 1), self.dt * xs[a, -1])])
                xs[a : b + 1, :-1] = self.window(a, b)._timed.rollout(np.ascontiguousarray(xs[a, :-1]), timed)
        return xs

    def _roll_out(self, loop: ClosedLoop) -> tuple[np.ndarray, np.ndarray]:
        """A phase after another, see `trajopt.problem.free_duration`."""
        return roll_out_phases(self, loop)

    # -------------------------------------------------------------------------------------------- expansions
    def _expand(self, xs, us, lam, first, second) -> None:
        setting, n = self._setting_of(us), self.system.ndx
        if first is not None:
            first[0][setting, :n, :n] = np.eye(n)
            first[1][setting, n, -1] = 1.0
        rows = np.flatnonzero(~setting)
        if len(rows):
            self._expand_moving(self._timed, self._timed_map, place_of(rows), xs, us, lam, first, second)

    @Lifted
    def parameter_gradient(self, inside, zs, us, lam):
        """The gradient (`trajopt.capabilities.Expansions`) of the knots that flow."""
        rows = np.flatnonzero(~self._setting_of(us))
        x, w = self._timed_map.inside(zs[rows], us[rows])
        return self._timed.parameter_gradient(x, w, np.ascontiguousarray(lam[rows, :-1]))

    # -------------------------------------------------------------------------------------------- what was made for x
    def lift(self, inner: Any) -> Any:
        """A cost or a residual made for the system inside, as one for this system; running costs over the time that
        knots take, but those at single knots (`at=`).

        Raises TypeError if it is neither.
        """
        made = super().lift(inner)
        return LiftedCost(self, made.cost, True) if isinstance(made, LiftedCost) else made


def _knots_of_phases(system: System, horizon: int | None, phases: Sequence[int] | None) -> list[np.ndarray]:
    """The knots of the system inside that each phase has."""
    own = capability(system, Knots).horizon
    if own is not None:
        if horizon not in (None, own):
            raise ValueError(f"horizon: got {horizon}, expected {own}, which the system has")
        count = own
    elif horizon is not None:
        count = whole_number("horizon", horizon, 1)
    elif phases is not None:
        count = sum(whole_number("phases", knots, 1) for knots in phases)
    else:
        raise ValueError("horizon: got None, expected the number of knots, or the knots of phases")
    if phases is not None:
        if not isinstance(phases, Iterable):
            raise TypeError(f"phases: got {type(phases).__name__}, expected how many knots each phase has")
        ends = np.cumsum([whole_number("phases", knots, 1) for knots in phases])
        if not len(ends) or ends[-1] != count:
            raise ValueError(f"phases: got {list(phases)}, expected numbers of knots whose sum is {count}")
        return np.split(np.arange(count), ends[:-1])
    starts = np.asarray(capability(system, Knots).phase_starts)
    return np.split(np.arange(count), starts[starts > 0])


def _checked_bounds(bounds: ArrayLike, phases: int) -> np.ndarray:
    limits = number_array("bounds", bounds)
    if limits.shape not in ((2,), (phases, 2)):
        raise ValueError(f"bounds: got shape {limits.shape}, expected (2,), or ({phases}, 2), one row for each phase")
    limits = np.broadcast_to(limits, (phases, 2))
    if not (np.isfinite(limits).all() and (0.0 < limits[:, 0]).all() and (limits[:, 0] <= limits[:, 1]).all()):
        raise ValueError(f"bounds: got {np.asarray(bounds).tolist()}, expected positive numbers, the lower one first")
    return limits
