"""Systems whose states are those of another system and some numbers more.

With z = (x, p), p in R^m, tangent dz = (dx, dp): the manifold of a longer state, costs and residuals made for the
system inside, which know nothing of p, and what the system inside offers besides (`trajopt.capabilities`), offered here
too, or refused with a reason.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from dynamics.simd.array_loops import add, fill, place_columns, subtract, take_columns
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from trajopt.callable_system.functions import plain
from trajopt.capabilities import Expansions, StateManifold, capability
from trajopt.interfaces.stepwise import ClosedLoop, ClosedLoopRollouts, closed_loop_by_steps, prepare, rollouts_take
from trajopt.interfaces.system import System, as_manifold
from trajopt.problem.control_map import ControlMap
from trajopt.problem.extended_calls import (
    RememberingLoop,
    candidates_in_memory,
    control_candidates,
    first_placed,
    follow_inside,
    follow_kept,
    hessian_placed,
    keep,
    keeping_loop,
    place_matrix,
    place_steps,
    points_inside,
    remember,
    subtract_gaps,
    take_rows,
)
from trajopt.problem.lifted_terms import LiftedCost, LiftedResidual, WithControls

# --------------------------------------------------------------------------------------------
# How a system around another one has the optional members of the system inside (`trajopt.capabilities`).
#
# Each member is written once, in the class of the wrapper, and inherited from there: lifted from that of the system
# inside, or refused with a reason.  A wrapper has a member only where the system inside has it.


class Lifted:
    """A method of a wrapper that is given the same method of the system inside as its first argument."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method, self.__doc__ = method, method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, wrapper: Any, owner: type | None = None) -> Any:
        if wrapper is None:
            return self
        offered = getattr(wrapper.__dict__.get("system"), self.name, None)
        if offered is None:
            raise AttributeError(f"{type(wrapper).__name__} has no {self.name!r}, nor has the system inside")
        return self.lifted(wrapper, offered)

    def lifted(self, wrapper: Any, offered: Any) -> Any:
        """The member of a wrapper, of what the system inside offers."""
        return partial(self.method, wrapper, offered)


class LiftedValue(Lifted):
    """A value of a wrapper, made from the same value of the system inside."""

    def lifted(self, wrapper: Any, offered: Any) -> Any:
        """The value of a wrapper, of that of the system inside."""
        return self.method(wrapper, offered)


def same() -> LiftedValue:
    """A member that a wrapper has as the system inside has it."""
    return LiftedValue(lambda wrapper, offered: offered)


def of_states() -> Lifted:
    """A function of states, and perhaps controls, that a wrapper has of the states inside its own."""
    return Lifted(lambda wrapper, inside, zs, *us: inside(wrapper.split(zs)[0], *us))


class Refused(LiftedValue):
    """A member of the system inside that a wrapper has not got, and why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def lifted(self, wrapper: Any, offered: Any) -> Any:
        """Raise AttributeError with the reason."""
        raise AttributeError(f"{type(wrapper).__name__} has no {self.name!r} of the system inside: {self.reason}")


# --------------------------------------------------------------------------------------------
# The system.  With f a step of the system inside and u as `ControlMap` has it,
#
#     F(z, w) = (f(x, u), p+)        p+ = p, w, or the last numbers of x
#
# so that its derivatives are blocks of f's, and constants.


class ExtendedSystem(ClosedLoopRollouts):
    """System with numbers p appended to the state: z = (x, p), tangent (dx, dp).

    Parameters
    ----------
    system : System, the one inside
    memory : int, how many numbers p has

    Attributes
    ----------
    nx, ndx : those of the system inside, plus `memory`.
    map : ControlMap, where terms of the system inside find its controls
    """

    numbers_are: Literal["kept", "controls", "states"] = "kept"
    """What p is after a step: what it was, the controls of the step, or the last numbers of the state before it."""
    remembers = "controls"
    """Description of p in words."""
    steps_a_knot = 1
    """Number of steps in a knot that takes time, where the system takes finer steps than its plan."""

    def __init__(self, system: System, memory: int) -> None:
        if capability(system, Expansions).acceleration_control is not None:
            raise ValueError(
                f"system: got a {type(system).__name__} that takes accelerations for controls, expected one with "
                'formulation="forward", whose controls are torques: rates are those of the controls'
            )
        self.system: Any = system
        self.memory = memory
        self.nx, self.ndx, self.nu = system.nx + memory, system.ndx + memory, system.nu
        self.map = ControlMap(system.nx, system.ndx, system.nu, np.arange(system.nu))
        self.dt = system.dt
        self._manifold = as_manifold(system)
        self.euclidean = self._manifold is None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.system!r})"

    # -------------------------------------------------------------------------------------------- the state manifold
    def split(self, zs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """States x (..., nx) of the system inside and what is remembered with them (..., memory)."""
        zs = np.asarray(zs)
        n = self.system.nx
        return np.ascontiguousarray(zs[..., :n]), np.ascontiguousarray(zs[..., n:])

    def _split_tangent(self, dz):
        dz = np.asarray(dz)
        n = self.system.ndx
        return np.ascontiguousarray(dz[..., :n]), dz[..., n:]

    def integrate(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        """Move x along the tangent vector dx."""
        (inside, p), (d, dp) = self.split(x), self._split_tangent(dx)
        return joined(self.system.integrate(inside, d), p + dp)

    def difference(self, x0: np.ndarray, x1: np.ndarray) -> np.ndarray:
        """Tangent vector from x0 to x1."""
        (a, p), (b, q) = self.split(x0), self.split(x1)
        return joined(self.system.difference(a, b), q - p)

    def difference_expansion(self, x_ref: np.ndarray, xs: np.ndarray, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `ManifoldSystem.difference_expansion`: the blocks of the system inside, and the identity."""
        K, n = len(xs), self.system.ndx
        J, H = np.tile(np.eye(self.ndx), (K, 1, 1)), np.zeros((K, self.ndx, self.ndx))
        if self._manifold is not None:
            inside = self.split(x_ref)[0], self.split(xs)[0], self._split_tangent(mu)[0]
            J[:, :n, :n], H[:, :n, :n] = self._manifold.difference_expansion(*inside)
        return J, H

    @Lifted
    def prepared_integrate(self, inside, xs, dxs, moved):
        """The integration inside, in arrays of its own, and that of the numbers appended."""
        K, n, d = len(moved), self.system.nx, self.system.ndx
        x, dx, y = np.zeros((K, n)), np.zeros((K, d)), np.zeros((K, n))
        if (integrate := inside(x, dx, y)) is None:
            return None
        p, dp, q = (np.zeros((K, self.memory)) for _ in range(3))
        taken = (xs, 0, x), (dxs, 0, dx), (xs, n, p), (dxs, d, dp)
        calls = *(PreparedCall(take_columns, *each) for each in taken), integrate, PreparedCall(add, p, dp, q)
        return PreparedCalls(*calls, *(PreparedCall(place_columns, *each) for each in ((y, moved, 0), (q, moved, n))))

    @Lifted
    def prepared_difference(self, inside, x0s, x1s, dx):
        """The difference inside, in arrays of its own, and that of the numbers appended."""
        K, n = len(dx), self.system.nx
        a, b, d = np.zeros((K, n)), np.zeros((K, n)), np.zeros((K, self.system.ndx))
        if (difference := inside(a, b, d)) is None:
            return None
        p, q, dp = (np.zeros((K, self.memory)) for _ in range(3))
        taken = (x0s, 0, a), (x1s, 0, b), (x0s, n, p), (x1s, n, q)
        calls = *(PreparedCall(take_columns, *each) for each in taken), difference, PreparedCall(subtract, p, q, dp)
        return PreparedCalls(
            *calls, PreparedCall(place_columns, d, dx, 0), PreparedCall(place_columns, dp, dx, self.system.ndx)
        )

    @Lifted
    def difference_with_jacobian(self, inside, x_ref, zs):
        """The difference and its Jacobian: those of the system inside, and the identity."""
        (a, p), (b, q) = self.split(x_ref), self.split(zs)
        n, J = self.system.ndx, np.tile(np.eye(self.ndx), (len(zs), 1, 1))
        r, J[:, :n, :n] = inside(a, b)
        return joined(r, q - p), J

    @Lifted
    def integrate_jacobian(self, inside, zs):
        """The Jacobian of the system inside, and the identity."""
        xs, p = self.split(zs)
        n, d, J = self.system.nx, self.system.ndx, np.zeros((len(zs), self.nx, self.ndx))
        J[:, :n, :d], J[:, n:, d:] = inside(xs), np.eye(p.shape[-1])
        return J

    @LiftedValue
    def state_space(self, factors):
        """Factors of the system inside, and the numbers appended."""
        return *factors, ("euclidean", self.memory)

    @LiftedValue
    def serves(self, subjects):
        """Subjects of the system inside, with the numbers appended."""
        return tuple(WithControls(subject, self.memory, self.remembers) for subject in subjects)

    @LiftedValue
    def neutral_state(self, x):
        """The state that limits are counted from."""
        return self.state(x)

    check_state, plain_tangent = of_states(), same()
    difference_residual = Refused(
        "it sums squares over states of the system inside, without the control before; "
        "difference_with_jacobian serves costs of both"
    )

    # -------------------------------------------------------------------------------------------- names and the start
    @LiftedValue
    def state_names(self, names):
        """Names of the numbers of a state."""
        return *names, *self._number_names()

    @LiftedValue
    def tangent_names(self, names):
        """Names of the components of a tangent vector."""
        return *names, *self._number_names()

    @LiftedValue
    def tangent_units(self, units):
        """Units of the components of a tangent vector, none of the numbers appended."""
        return *units, *("",) * self.memory

    control_names = same()
    control_units = Refused("its controls may be rates of those inside, or have durations among them")
    check_start, quasi_static, start_advice = of_states(), of_states(), same()

    # -------------------------------------------------------------------------------------------- knots and steps
    def _around(self, inside: Any) -> Any:
        """This system around another system inside, whatever that no longer says of its states."""
        new = copy.copy(self)
        ExtendedSystem.__init__(new, inside, self.memory)
        new.steps_a_knot = self.steps_a_knot * round(self.dt / new.dt)
        return new

    @Lifted
    def window(self, inside, start, stop):
        """The system of the knots start <= t < stop alone."""
        return self._around(inside(start, stop))

    @Lifted
    def refined(self, inside, substeps):
        """The same in finer steps."""
        return self._around(inside(substeps))

    @Lifted
    def resimulated(self, inside):
        """The same in steps that are exact."""
        return self._around(inside())

    @Lifted
    def with_model(self, inside, model):
        """The same of another model."""
        return self._around(inside(model))

    @Lifted
    def step_noise(self, inside, zs):
        """Noise of the steps inside, and none of the numbers appended."""
        noise = inside(self.split(zs)[0])
        return np.hstack([noise, np.zeros((len(noise), self.memory))])

    horizon, durations, phase_starts, integrator_order, implicit_step = same(), same(), same(), same(), same()
    idle = Refused("a control that moves nothing is the control before of the next knot all the same")
    timed = Refused("rates are counted by the system's own time step")
    durations_along = Refused("rates are counted by the system's own time step")

    # -------------------------------------------------------------------------------------------- motion
    @property
    def _motion(self) -> tuple[Any, ControlMap]:
        """What moves x, and where its controls come from."""
        return self.system, self.map

    def _numbers_after(self, x: np.ndarray, p: np.ndarray, u: np.ndarray) -> np.ndarray:
        """p+ (..., memory) after a step from x (..., nx) of the system inside and p (..., memory) with controls u."""
        return {"kept": p, "controls": u, "states": x[..., -self.memory :]}[self.numbers_are]

    def step(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Next state, one point or a batch."""
        z, w, (moves, by) = np.asarray(x), np.asarray(u), self._motion
        inside, whole = by.inside(z, w)
        return joined(moves.step(inside, whole), self._numbers_after(inside, z[..., self.system.nx :], w))

    @Lifted
    def prepared_steps(self, inside, zs, us, following):
        """Steps of what moves x, and the numbers after them."""
        return self._prepared_steps(np.arange(len(us)), zs, us, following)

    def _prepared_steps(self, rows: np.ndarray, zs: np.ndarray, us: np.ndarray, following: np.ndarray) -> Any:
        """Prepared steps at the rows at which x moves; None where there are none."""
        moves, by = self._motion
        x, u, enter = points_inside(by, rows, zs, us)
        y = np.zeros(x.shape)
        step = prepare(moves, "prepared_steps", x, u, y)
        if step is None:
            return None
        after = {"kept": (zs, by.nx), "controls": (us, 0), "states": (zs, by.nx - self.memory)}[self.numbers_are]
        return PreparedCalls(enter, step, PreparedCall(place_steps, rows, y, *after, following))

    def rollout(self, x0: np.ndarray, us: np.ndarray) -> np.ndarray:
        """States (N+1, nx) under the controls us (N, nu); in finer steps they begin at a knot, which its other states
        remember."""
        us = np.asarray(us)
        zs = np.empty((len(us) + 1, self.nx))
        zs[0] = x0
        self._write_rollout(zs, us)
        return zs

    def _write_rollout(self, zs: np.ndarray, us: np.ndarray) -> None:
        """Write the states that follow from the first one."""
        (moves, by), n = self._motion, self.system.nx
        zs[1:, n:] = zs[0, n:]
        zs[:, :n] = moves.rollout(np.array(zs[0, :n]), by.controls_inside(zs[:-1], us))
        if self.numbers_are != "kept":
            knots = np.arange(len(us)) // self.steps_a_knot * self.steps_a_knot
            zs[1:, n:] = self._numbers_after(zs[knots, :n], zs[knots, n:], us[knots])

    def _roll_out(self, loop: ClosedLoop) -> tuple[np.ndarray, np.ndarray]:
        """Closed loops of what moves x, where these have the feedback to p in another form."""
        if self.numbers_are == "kept":
            shifted = rollouts_take(type(self._motion[0]), "shift", "pull")
            inside = shifted and loop.pull is None and loop.before is None
            return self._roll_out_keeping(loop) if inside else closed_loop_by_steps(self, *loop)
        return self._roll_out_remembering(loop) if self._feeds_back_inside(loop) else closed_loop_by_steps(self, *loop)

    def _feeds_back_inside(self, loop: ClosedLoop) -> bool:
        """True if the system inside can roll out a closed loop with feedback to the knot before."""
        nested = loop.before is not None and loop.before.shape[2] > self.nu
        inside = (
            rollouts_take(type(self.system), "before") and np.ndim(loop.x0) == 1 and len(loop.us) > 0 and not nested
        )
        if self.numbers_are == "states":  # which have to be numbers of a tangent as well
            factors = capability(self.system, StateManifold).state_space
            inside = inside and (self._manifold is None if factors is None else factors[-1][0] == "euclidean")
        return inside

    def _starts(self, loop: ClosedLoop) -> np.ndarray:
        """Initial states (A, nx) of all candidates."""
        A = len(loop.alphas)
        starts = np.array(loop.x0) if np.ndim(loop.x0) == 2 else np.tile(loop.x0, (A, 1))
        if loop.gaps is None or not loop.gaps[0].any():
            return starts
        if self._manifold is None:
            subtract_gaps(plain(loop.alphas), loop.gaps[0], starts)
            return starts
        return self.integrate(starts, -(1.0 - np.asarray(loop.alphas))[:, None] * loop.gaps[0])

    def _roll_out_keeping(self, loop: ClosedLoop) -> tuple[np.ndarray, np.ndarray]:
        """Closed loops with numbers that stay what they are; those of all candidates are rolled out at once if they are
        on one line, else one by one."""
        (moves, by), nx = self._motion, self.system.nx
        starts, zs, us, k, K, alphas = map(plain, (self._starts(loop), *loop[1:6]))
        shift, direction = _on_one_line(starts[:, nx:] - zs[0, nx:])
        if shift is None:
            gaps = None if loop.gaps is None else np.vstack([np.zeros(self.ndx), loop.gaps[1:]])
            each = range(len(alphas))
            parts = [loop._replace(x0=starts[a : a + 1], alphas=alphas[a : a + 1], gaps=gaps) for a in each]
            X, U = (np.concatenate(each) for each in zip(*map(self._roll_out_keeping, parts), strict=True))
            return X, U
        gaps, _ = self._rows_of(loop.gaps, None)
        lower, upper = (np.empty((0, self.nu)) if end is None else plain(end) for end in (loop.lower, loop.upper))
        inside = keeping_loop(by, len(alphas), len(us))
        given = starts, zs, us, k, K, gaps, lower, upper, direction
        follow_kept(by.controls, by.parameters, by.scale, *given, inside)
        loop_inside = inside.followed(alphas, len(gaps) > 0, len(lower) > 0)._replace(shift=shift)
        found = map(candidates_in_memory, moves.closed_loop_rollout(*loop_inside[:-1]))
        Z, W = np.empty((len(alphas), len(us) + 1, self.nx)), np.empty((len(alphas), *us.shape))
        keep(by.controls, nx, alphas, len(gaps) > 0, starts, zs, *found, 0, Z, W)
        m, dz = len(by.controls), np.empty((0, self.ndx))
        if K[:, m:].any():
            plan, at = np.tile(zs[:-1], (len(Z), 1)), Z[:, :-1].reshape(-1, self.nx)
            dz = plain(self.difference(plan, at))
        if m < self.nu:
            control_candidates(m, alphas, us, k, K, dz, lower, upper, 0, W)
        return Z, W

    def _roll_out_remembering(self, loop: ClosedLoop) -> tuple[np.ndarray, np.ndarray]:
        """Closed loops whose feedback to what is remembered is one to the knot before."""
        z0, zs, us, k, K, alphas = map(plain, loop[:6])
        gaps, before = self._rows_of(loop.gaps, loop.before)
        inside, of_states, sizes = self._loop_inside(len(us)), self.numbers_are == "states", self.system
        follow_inside(of_states, z0, zs, us, k, K, gaps, before, inside)
        gapped = None if loop.gaps is None else inside.gaps
        given = *inside[:5], alphas, gapped, loop.lower, loop.upper, loop.shift, loop.pull, inside.before
        X, U = self.system.closed_loop_rollout(*given)
        Z = np.empty((*X.shape[:2], self.nx))
        remember(of_states, sizes.nx, sizes.ndx, z0, alphas, gaps, *map(candidates_in_memory, (X, U)), Z)
        return Z, U

    def _rows_of(self, gaps: np.ndarray | None, before: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Gaps and feedback to the knot before, without rows where there are none."""
        return (
            np.empty((0, self.ndx)) if gaps is None else plain(gaps),
            np.empty((0, self.nu, self.nu)) if before is None else plain(before),
        )

    def _loop_inside(self, N: int) -> RememberingLoop:
        """Arrays for what the system inside follows."""
        nx, n, nu = self.system.nx, self.system.ndx, self.nu
        width = self.memory + nu if self.numbers_are == "states" else nu
        shapes = (nx,), (N + 1, nx), (N, nu), (N, nu), (N, nu, n), (N + 1, n), (N, nu, width), (N, nu)
        return RememberingLoop(*map(np.zeros, shapes))

    @Lifted
    def prepared_rollouts(
        self, inside, x0, xs, us, k, K, alphas, gaps=None, lower=None, upper=None, shift=None, pull=None, before=None
    ):
        """Rollouts of the system inside with feedback to the knot before."""
        loop = ClosedLoop(x0, xs, us, k, K, alphas, gaps, lower, upper, shift, pull, before)
        if self.numbers_are == "kept" or not self._feeds_back_inside(loop):
            return None
        rows, of_states, follows = self._rows_of(gaps, before), self.numbers_are == "states", self._loop_inside(len(us))
        gapped = None if gaps is None else follows.gaps
        given = *follows[:5], alphas, gapped, lower, upper, shift, pull, follows.before
        roll: Any = prepare(self.system, "prepared_rollouts", *given)
        if roll is None or roll.result is None:
            return None
        X, U = roll.result()
        Z, sizes = np.zeros((*X.shape[:2], self.nx)), (self.system.nx, self.system.ndx)
        found = *map(candidates_in_memory, (X, U)), Z
        return PreparedCalls(
            PreparedCall(follow_inside, of_states, *loop[:5], *rows, follows),
            roll,
            PreparedCall(remember, of_states, *sizes, x0, alphas, rows[0], *found),
            result=lambda: (Z, U),
        )

    # -------------------------------------------------------------------------------------------- expansions
    def linearize(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F_z (N, ndx, ndx) and F_w (N, ndx, nu)."""
        first = np.zeros((len(us), self.ndx, self.ndx)), np.zeros((len(us), self.ndx, self.nu))
        self._expand(xs, us, None, first, None)
        return first

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hessians of lam_t'F per knot, lam (N, ndx)."""
        N, n, m = len(us), self.ndx, self.nu
        H = np.zeros((N, n, n)), np.zeros((N, m, n)), np.zeros((N, m, m))
        self._expand(xs, us, lam, None, H)
        return H

    def write_expansion(
        self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, fx: np.ndarray, fu: np.ndarray, *H: np.ndarray
    ) -> None:
        """Write what `linearize` and `hessian_products` return into the arrays given."""
        for block in (fx, fu, *H):
            block[...] = 0.0
        self._expand(xs, us, lam, (fx, fu), H)

    def hessians(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Full tensors of F, output index first."""
        parts = [self.hessian_products(xs, us, np.tile(row, (len(us), 1))) for row in np.eye(self.ndx)]
        Fzz, Fuz, Fuu = (np.stack(blocks, axis=1) for blocks in zip(*parts, strict=True))
        return Fzz, Fuz, Fuu

    def _expand(self, xs: Any, us: Any, lam: Any, first: Any, second: Any) -> None:
        """Write F_z, F_w to `first`, and the Hessians of lam'F to `second`, all of them zeros before, unless these are
        None."""
        self._expand_moving(slice(len(us)), xs, us, lam, first, second)

    def _expand_moving(self, rows: slice | np.ndarray, xs: Any, us: Any, lam: Any, first: Any, second: Any) -> None:
        """`_expand` at the rows at which x moves."""
        moves, by = self._motion
        x, u = by.inside(xs[: len(us)][rows], us[rows])
        given = None if lam is None else np.ascontiguousarray(lam[rows, : by.ndx])
        f, H = expansion_of(moves, x, u, given, first is not None)
        blocks = *(first or ()), *(second or ())
        parts = [block[rows] for block in blocks]  # views, but for rows that are apart
        if first is not None:
            by.place_first(f[0], f[1], parts[0][:, : by.ndx], parts[1][:, : by.ndx])
            pz, pw = (part[:, by.ndx :] for part in parts[:2])
            n, m = self.ndx, self.memory
            of, end = {"kept": (pz, n), "controls": (pw, m), "states": (pz, n - m)}[self.numbers_are]
            of[:, :, end - m : end] = np.eye(m)
        if second is not None:
            by.place_hessian(H[0], H[1], H[2], *parts[-3:])
        if not isinstance(rows, slice):
            for block, part in zip(blocks, parts, strict=True):
                block[rows] = part

    @Lifted
    def prepared_expansion(self, inside, xs, us, fx, fu, lam=None, *H):
        """Derivatives inside, placed among those of the numbers appended."""
        zeros = [PreparedCall(fill, block, 0.0) for block in (fx, fu, *H)]
        parts = self._prepared_expansion(xs, us, (fx, fu), lam, H)
        return None if None in parts else PreparedCalls(*zeros, *parts)

    def _prepared_expansion(self, xs: Any, us: Any, first: Any, lam: Any, second: Any) -> list[Any]:
        """Calls of `_expand`, one of which is None where there are none."""
        return [self._prepared_moving(np.arange(len(us)), xs, us, first, lam, second)]

    def _prepared_moving(self, rows: np.ndarray, xs: Any, us: Any, first: Any, lam: Any, second: Any) -> Any:
        """Calls of `_expand_moving`; None where there are none."""
        (moves, by), K = self._motion, len(rows)
        x, u, enter = points_inside(by, rows, xs, us)
        f = [np.zeros((K, by.ndx, size)) for size in (by.ndx, by.nu)]
        before, inside, calls = [enter], [], [first_placed(by, rows, *f, *first)]
        if lam is not None:
            given = np.zeros((K, by.ndx))
            H = [np.zeros((K, *size)) for size in ((by.ndx, by.ndx), (by.nu, by.ndx), (by.nu, by.nu))]
            before.append(PreparedCall(take_rows, rows, lam, given))
            inside, calls = [given, *H], [*calls, hessian_placed(by, rows, *H, *second)]
        expand = prepare(moves, "prepared_expansion", x, u, *f, *inside)
        n, m = self.ndx, self.memory
        of, end = {"kept": (first[0], n), "controls": (first[1], m), "states": (first[0], n - m)}[self.numbers_are]
        calls.append(PreparedCall(place_matrix, rows, np.eye(m), by.ndx, end - m, of))
        return None if expand is None else PreparedCalls(*before, expand, *calls)

    @Lifted
    def parameter_gradient(self, inside, zs, us, lam):
        """The gradient of the system inside: the numbers appended depend on no parameters."""
        return inside(self.split(zs)[0], us, self._split_tangent(lam)[0])

    semi_implicit = Refused("the rows of the control before do not have that structure")
    semi_implicit_from = Refused("the rows of the control before do not have that structure")
    acceleration_control = Refused("rates are those of the controls, which would have to be accelerations")

    # -------------------------------------------------------------------------------------------- joints and limits
    @LiftedValue
    def joint_feedback(self, offered):
        """Joints of the system inside, of whose tangents and controls those here are longer ones."""
        (positions, velocities, efforts), controls = offered, self.map.controls
        return positions, velocities, np.pad(efforts[:, controls], ((0, 0), (0, self.nu - len(controls))))

    @Lifted
    def joint_efforts(self, inside, us):
        """Efforts of the controls inside."""
        return inside(np.ascontiguousarray(us[:, : self.system.nu]))

    @Lifted
    def state_limits(self, inside, position=True, velocity=True):
        """Limits of the system inside, and none of the numbers appended."""
        lower, upper = inside(position=position, velocity=velocity)
        return np.append(lower, np.full(self.memory, -np.inf)), np.append(upper, np.full(self.memory, np.inf))

    @LiftedValue
    def control_speeds(self, offered):
        """Speeds of the system inside, which read the velocities in front of the numbers appended; other controls have
        none."""
        (S, w), controls = offered, self.map.controls
        others = self.nu - len(controls)
        return np.pad(S[controls], ((0, others), (0, self.memory))), np.pad(
            w[controls], (0, others), constant_values=np.inf
        )

    joint_inertias, single_joints, control_limits = of_states(), same(), same()
    nq = Refused("the numbers of a state behind its positions are velocities and the control before")

    # -------------------------------------------------------------------------------------------- contacts, pictures
    contact_frames, contact_points, contact_forces = same(), of_states(), of_states()
    skeleton, body_placements, center_of_mass, quantities = of_states(), of_states(), of_states(), of_states()
    solids, scenery = same(), same()

    # -------------------------------------------------------------------------------------------- what was made for x
    def lift(self, inner: Any) -> Any:
        """A cost or a residual made for the system inside, as one for this system.

        Raises TypeError if it is neither.
        """
        inner = inner.for_system(self.system) if hasattr(inner, "for_system") else inner
        if all(hasattr(inner, name) for name in ("check", "value", "accumulate", "accumulate_curvature")):
            return LiftedCost(self, inner)
        if all(hasattr(inner, name) for name in ("nr", "evaluate", "jacobians", "hessian_products")):
            return LiftedResidual(self, inner)
        raise TypeError(f"lift: got {type(inner).__name__}, expected a cost or a residual")


def expansion_of(system: Any, x: np.ndarray, u: Any, lam: np.ndarray | None, first: bool) -> tuple[Any, Any]:
    """(fx, fu) of a system if `first`, else None, and its (Hxx, Hux, Huu) along lam, None without one."""
    write_expansion = capability(system, Expansions).write_expansion
    if lam is not None and first and write_expansion is not None:
        N, n, m = len(u), lam.shape[1], u.shape[1]
        f, H = [np.empty((N, n, k)) for k in (n, m)], [np.empty((N, j, k)) for j, k in ((n, n), (m, n), (m, m))]
        write_expansion(x, u, lam, *f, *H)
        return f, H
    return system.linearize(x, u) if first else None, None if lam is None else system.hessian_products(x, u, lam)


def _is_outer(system: Any, kind: type | None) -> bool:
    return isinstance(system, ExtendedSystem) and not (kind is not None and isinstance(system, kind))


def innermost(system: Any, kind: type | None = None) -> Any:
    """The system inside all with longer states, or the first of them that is of this kind."""
    return innermost(system.system, kind) if _is_outer(system, kind) else system


def lifted(system: Any, inner: Any, kind: type | None = None) -> Any:
    """A cost or residual of `innermost` as one for the system."""
    return system.lift(lifted(system.system, inner, kind)) if _is_outer(system, kind) else inner


ALIKE = 1e-12
"""Relative difference up to which the numbers of all candidates lie on one line."""


def _on_one_line(sigma: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """shift (A,) and direction (memory,) with sigma = shift x direction, sigma (A, memory); None for the first if that
    is not so."""
    if sigma.shape[1] == 1:
        return sigma[:, 0], np.ones(1)
    size = np.where(np.isfinite(sigma), np.abs(sigma), 0.0)
    if not size.any():
        return sigma.sum(axis=1), np.ones(sigma.shape[1])
    a, j = np.unravel_index(size.argmax(), size.shape)
    shift, direction = sigma[:, j], sigma[a] / sigma[a, j]
    apart = np.abs(sigma - np.multiply.outer(shift, direction))
    return (None if (apart > ALIKE * size.max()).any() else shift), direction


def remembered_numbers(system: object) -> int:
    """Number of last entries of a state that are of the step before."""
    if not isinstance(system, ExtendedSystem) or system.numbers_are == "kept":
        return 0
    return system.memory + remembered_numbers(system.system)


def remembered_next(system: Any, x: np.ndarray, u: np.ndarray) -> np.ndarray:
    """What is remembered (..., memory) after a step from states x (..., nx) with controls u (..., nu)."""
    if not remembered_numbers(system):
        return x[..., :0]
    inside, before = system.split(x)
    return joined(remembered_next(system.system, inside, u), system._numbers_after(inside, before, u))


def remembered_between(system: Any, before: np.ndarray, after: np.ndarray, moment: np.ndarray, s: float) -> np.ndarray:
    """What is remembered (..., memory) after the part s of a step, from what it is at the step's knot, at the next one,
    and in finer steps; velocities of a step before are taken to change evenly between knots."""
    if not remembered_numbers(system):
        return before
    own = -system.memory
    inside = remembered_between(system.system, before[..., :own], after[..., :own], moment[..., :own], s)
    if system.numbers_are == "controls":
        return joined(inside, moment[..., own:])
    return joined(inside, before[..., own:] + s * (after[..., own:] - before[..., own:]))


def joined(x: np.ndarray, p: np.ndarray) -> np.ndarray:
    """(x, p), one of which may be a single point while the other is a batch."""
    batch = np.broadcast_shapes(x.shape[:-1], p.shape[:-1])
    return np.concatenate([np.broadcast_to(a, (*batch, a.shape[-1])) for a in (x, p)], axis=-1)
