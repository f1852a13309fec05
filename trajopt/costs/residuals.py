"""Residuals of any system: the deviation of a state, the controls, the squared norm of another residual.

Robots have more in `dynamics.residuals`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.simd import by_address, routine
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.simd.squares import Blocks, KnotSum, multipliers, without_effect
from dynamics.validation import as_floats, as_number_or_vector
from trajopt.capabilities import Expansions, Joints, Knots, StateManifold, capability
from trajopt.costs.cost_of_residual import along, linearized, prepared_rows, prepared_sum, sums
from trajopt.costs.deviation import Deviation, ManifoldDifference, subtract_reference
from trajopt.costs.summed_rows import SummedRows, at_span, rows_of, with_room
from trajopt.interfaces.residual import Components, Residual, at_knots, at_times, check_residual
from trajopt.interfaces.stepwise import prepare
from trajopt.interfaces.system import (
    System,
    as_manifold,
    check_system,
    control_names,
    neutral_state,
    state_array,
    tangent_names,
)
from trajopt.interfaces.terms import Tangents, gradient_by, state_space, subject_of, summed_to


class StateResidual:
    """r = x (-) x_ref, the tangent vector from the reference to the state.

    Parameters
    ----------
    system : System
    reference : (nx,) array, optional
        By default the system's neutral state, zeros where it names none.
    components : integers, optional
        Which components of the tangent vector; all by default.

    Attributes
    ----------
    component_names : their names, empty if the system has none
    made_for : the space of the system's states (see `trajopt.interfaces.terms`)
    """

    adjustable = ("reference",)

    def __init__(self, system: System, reference: ArrayLike | None = None, components: ArrayLike | None = None) -> None:
        check_system(system, "nx", "ndx", "difference")
        self.system = system
        self.reference = state_array(system, "reference", _default(system) if reference is None else reference)
        self.components = chosen_components(components, system.ndx)
        self.nr = len(self.components)
        self.made_for = state_space(system)
        names = tangent_names(system)
        self.component_names = tuple(names[i] for i in self.components) if names else ()
        manifold = as_manifold(system)
        self._whole: Any = Deviation(False, self.reference)
        self._sum: Any = self._whole
        """The whole difference as a residual that sums its squares; None if the system has none."""
        if manifold is not None:
            self._whole = ManifoldDifference(manifold, self.reference)
            by_itself = capability(system, StateManifold).difference_residual
            self._sum = None if by_itself is None else by_itself(self.reference)

    def adjusted(self, reference: ArrayLike) -> StateResidual:
        """With another reference."""
        return StateResidual(self.system, reference, self.components)

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nr)."""
        return self._whole.evaluate(xs, None)[:, self.components]

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, None]:
        """rx (K, nr, ndx), None."""
        return np.ascontiguousarray(self._whole.jacobians(xs, None)[0][:, self.components]), None

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray | None, None, None]:
        """Hessians of mu'r: the curvature of the difference, None where it is plain subtraction."""
        full = np.zeros((len(xs), self.system.ndx))
        full[:, self.components] = mu
        return self._whole.hessian_products(xs, None, full)

    @property
    def sums_squares(self) -> bool:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        return type(self) is StateResidual and self._sum is not None

    def add_expansion(self, wanted: KnotSum) -> float:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        whole = self._of_all(wanted)
        if whole is not wanted:
            place_columns(wanted.weights.rows, self.components, whole.weights.rows, self.system.ndx)
        return self._sum.add_expansion(whole)

    def prepared_sum(self, wanted: KnotSum) -> Callable[[], float] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        whole = self._of_all(wanted)
        add = prepared_sum(self._sum, whole)
        if add is None or whole is wanted:
            return add
        rows, of_all = wanted.weights.rows, whole.weights.rows
        return PreparedCalls(PreparedCall(place_columns, rows, self.components, of_all, self.system.ndx), add)

    def prepared_rows(
        self, xs: np.ndarray, us: np.ndarray | None, jacobians: bool
    ) -> Callable[[], tuple[Any, ...]] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        whole = None if type(self) is not StateResidual else prepared_rows(self._sum, xs, None, jacobians)
        if whole is None:
            return None
        r, rx, _ = whole.arrays
        if self._all:
            return PreparedCalls(whole, result=lambda: whole.arrays)
        chosen = [None if array is None else np.zeros((len(array), self.nr, *array.shape[2:])) for array in (r, rx)]
        choose = [
            PreparedCall(choose_rows, array, self.components, into)
            for array, into in zip((r, rx), chosen, strict=True)
            if array is not None
        ]
        return PreparedCalls(whole, *choose, result=lambda: (*chosen, None))

    @property
    def _all(self) -> bool:
        """True if r has all components in their order."""
        return np.array_equal(self.components, np.arange(self.system.ndx))

    def _of_all(self, wanted: KnotSum) -> KnotSum:
        """The sum with weights of all components, without effect as yet; the one given if r has all of them."""
        wanted.check_weights(self.nr)
        if self._all:
            return wanted
        rows, layout = wanted.weights
        return wanted._replace(weights=without_effect(len(rows), self.system.ndx, layout))

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """See `trajopt.interfaces.terms.AttributeGradient`; along the tangent of the reference (ndx,)."""
        if type(self) is not StateResidual:
            return None
        of_all = np.zeros((2, len(at.xs), self.system.ndx))
        of_all[:, :, self.components] = value, slope
        if isinstance(self._whole, Deviation):
            return -of_all[0].sum(axis=0)
        return self._whole.gradient_by(name, at, *of_all)

    def components_read(self) -> Components | None:
        """See `trajopt.interfaces.residual`; None on a manifold."""
        if type(self) is not StateResidual or not isinstance(self._whole, Deviation):
            return None
        return Components(False, len(self.reference), self.components, self.reference[self.components])


@routine
def place_columns(rows, columns, whole, width):
    """Write columns of weights of some numbers of a residual to those of all of them, as many as the width."""
    n = len(columns)
    for k in range(rows.shape[0]):
        for g in range(rows.shape[1] // n):
            for i in range(n):
                whole[k, g * width + columns[i]] = rows[k, g * n + i]


@by_address
def choose_rows(whole, components, chosen):
    """Write chosen[k, i] = whole[k, components[i]], numbers or rows of matrices."""
    for k in range(chosen.shape[0]):
        for i in range(chosen.shape[1]):
            if chosen.ndim == 3:
                for j in range(chosen.shape[2]):
                    chosen[k, i, j] = whole[k, components[i], j]
            else:
                chosen[k, i] = whole[k, components[i]]


def chosen_components(components: ArrayLike | None, count: int) -> np.ndarray:
    """The argument `components`, indices of some of so many numbers, None for all; raises TypeError or ValueError."""
    if components is None:
        return np.arange(count)
    as_floats("components", components, "a list of indices")
    chosen = np.asarray(components)
    if chosen.ndim != 1 or not len(chosen):
        raise ValueError(f"components: got shape {chosen.shape}, expected a list of at least one index")
    if chosen.dtype.kind == "f" or (chosen < 0).any() or (chosen >= count).any():
        raise ValueError(f"components: got {chosen.tolist()}, expected indices from 0 to {count - 1}")
    return np.array(chosen, dtype=np.intp)


def _default(system: System) -> np.ndarray:
    """The neutral state; ValueError if the system names none and does not accept zeros."""
    try:
        return state_array(system, "neutral_state", neutral_state(system))
    except ValueError as error:
        raise ValueError(f"reference: got none, expected a state of {type(system).__name__} ({error})") from None


class ControlResidual(SummedRows):
    """r = u - u_ref.

    Parameters
    ----------
    system : System
    reference : number or (nu,) array
    """

    adjustable = ("reference",)

    def __init__(self, system: System, reference: ArrayLike = 0.0) -> None:
        check_system(system, "ndx", "nu")
        self.nr, self._ndx = system.nu, system.ndx
        self.reference = as_number_or_vector("reference", reference, system.nu)
        self.made_for = state_space(system)
        self.component_names = control_names(system)

    def adjusted(self, reference: ArrayLike) -> ControlResidual:
        """With another reference."""
        new = copy.copy(self)
        new.reference = as_number_or_vector("reference", reference, self.nr)
        return new

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nu)."""
        if us is None:
            raise ValueError("ControlResidual: the terminal knot has no control")
        return us - self.reference

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """rx (K, nu, ndx) = 0, ru (K, nu, nu) = 1."""
        return np.zeros((len(xs), self.nr, self._ndx)), np.tile(np.eye(self.nr), (len(xs), 1, 1))

    @property
    def sums_squares(self) -> bool:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        return type(self) is ControlResidual

    def prepared_rows(
        self, xs: np.ndarray, us: np.ndarray | None, jacobians: bool
    ) -> Callable[[], tuple[Any, ...]] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        if us is None or type(self) is not ControlResidual:
            return None
        r, slopes = np.zeros(us.shape), self.jacobians(us, us) if jacobians else (None, None)
        reference = np.full(self.nr, 1.0) * self.reference
        return PreparedCalls(PreparedCall(subtract_reference, us, reference, r), result=lambda: (r, *slopes))

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """See `trajopt.interfaces.terms.AttributeGradient`."""
        return summed_to(-value, np.shape(self.reference)) if type(self) is ControlResidual else None

    def components_read(self) -> Components | None:
        """See `trajopt.interfaces.residual`."""
        if type(self) is not ControlResidual:
            return None
        return Components(True, self.nr, np.arange(self.nr), np.full(self.nr, self.reference))

    def hessian_products(self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray) -> tuple[None, None, None]:
        """No curvature."""
        return None, None, None


# --------------------------------------------------------------------------------------------
# Squared norms, to second order, from those of the residual inside.


@routine
def squared_norms(s, r):
    """Write |s|^2 (K, 1) of s (K, n)."""
    for k in range(s.shape[0]):
        total = 0.0
        for i in range(s.shape[1]):
            total += s[k, i] * s[k, i]
        r[k, 0] = total


@routine
def norm_jacobian(s, S, start, J):
    """Write 2 s'S, S (K, n, m), to columns of J (K, 1, ...) from `start` on."""
    for k in range(S.shape[0]):
        for j in range(S.shape[2]):
            total = 0.0
            for i in range(S.shape[1]):
                total += 2.0 * s[k, i] * S[k, i, j]
            J[k, 0, start + j] = total


@routine
def norm_multipliers(s, mu, weights):
    """Write multipliers and weights (K, 2 n) of s, of which the expansion is the curvature of mu |s|^2, mu (K, 1)."""
    n = s.shape[1]
    for k in range(s.shape[0]):
        for i in range(n):
            weights[k, i], weights[k, n + i] = 2.0 * mu[k, 0] * s[k, i], 2.0 * mu[k, 0]


def _norms(s: np.ndarray) -> np.ndarray:
    r = np.empty((len(s), 1))
    squared_norms(s, r)
    return r


def _norm_jacobian(s: np.ndarray, S: np.ndarray) -> np.ndarray:
    J = np.empty((len(s), 1, S.shape[2]))
    norm_jacobian(s, S, 0, J)
    return J


def _gradients_apart(blocks: Blocks) -> Blocks:
    """The blocks, with gradients in arrays that nobody reads."""
    lxx, lux, luu = blocks[2:]
    return np.zeros(lxx.shape[:2]), None if luu is None else np.zeros(luu.shape[:2]), lxx, lux, luu


class SquaredNorm:
    """r = |s|^2 of another residual s: with a position for s, the squared distance that obstacles are kept at.

    Smooth everywhere, unlike the distance itself.  With J = ds/d(x, u) the Jacobian is 2 s'J and the Hessian of mu r is
    2 mu J'J + the Hessian of (2 mu s)'s.

    Parameters
    ----------
    residual : Residual
        s.
    """

    nr = 1

    def __init__(self, residual: Residual) -> None:
        check_residual(residual)
        self.residual: Any = residual
        self.made_for = subject_of(residual)
        self.name = f"squared norm of {getattr(residual, 'name', type(residual).__name__)}"

    def at_times(self, times: np.ndarray) -> SquaredNorm:
        """See `trajopt.interfaces.residual.KnotByKnotResidual`."""
        return self._with(at_times(self.residual, times))

    def at_knots(self, knots: np.ndarray) -> SquaredNorm:
        """See `trajopt.interfaces.residual.KnotByKnotResidual`."""
        return self._with(at_knots(self.residual, knots))

    def _with(self, residual: Residual) -> SquaredNorm:
        if residual is self.residual:
            return self
        new = copy.copy(self)
        new.residual = residual
        return new

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, 1)."""
        return _norms(self.residual.evaluate(xs, us))

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """rx (K, 1, ndx), and ru (K, 1, nu) or None."""
        return self.evaluate_with_jacobians(xs, us)[1:]

    def evaluate_with_jacobians(
        self, xs: np.ndarray, us: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """r, rx and ru in one pass."""
        s, sx, su = linearized(self.residual, self.residual.nr, xs, us)
        rx, ru = _norm_jacobian(s, sx), None if su is None else _norm_jacobian(s, su)
        return _norms(s), rx, ru

    def prepared_rows(
        self, xs: np.ndarray, us: np.ndarray | None, jacobians: bool
    ) -> Callable[[], tuple[Any, ...]] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        inside = prepared_rows(self.residual, xs, us, jacobians)
        if inside is None:
            return None
        s, *slopes = inside.arrays
        found = _norms(s), *[None if S is None else _norm_jacobian(s, S) for S in slopes]
        parts = [PreparedCall(squared_norms, s, found[0])]
        for S, J in zip(slopes, found[1:], strict=True):
            if S is not None:
                parts.append(PreparedCall(norm_jacobian, s, S, 0, J))
        return PreparedCalls(inside, *parts, result=lambda: found)

    # -------------------------------------------------------------------------------------------- sums over knots
    @property
    def sums_squares(self) -> bool:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        return type(self) is SquaredNorm and sums(self.residual)

    def add_expansion(self, wanted: KnotSum) -> float:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        steps, bent, (last, *arguments) = self._steps(wanted, rows_of(self.residual, wanted))
        for step, *given in steps:
            step(*given)
        if bent is not None:
            self.residual.add_expansion(bent)
        return last(*arguments)

    def prepared_sum(self, wanted: KnotSum) -> Callable[[], float] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        inside, xs, us = at_span(self.residual, wanted)
        evaluate = prepared_rows(inside, xs, us, wanted.target is not None)
        if evaluate is None:
            return None
        steps, bent, last = self._steps(wanted, evaluate.arrays)
        add_bent = PreparedCalls() if bent is None else prepared_sum(self.residual, bent)
        if add_bent is None:
            return None
        return PreparedCalls(evaluate, *[PreparedCall(*step) for step in steps], add_bent, PreparedCall(*last))

    def with_own_numbers(self) -> SquaredNorm:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        own = getattr(self.residual, "with_own_numbers", None)
        return self if own is None else self._with(own())

    def take_numbers(self, other: Any) -> bool:
        """See `trajopt.interfaces.residual.PreparedResidual`; targets that differ from knot to knot are taken if they
        are the same ones alone, since sums over some knots have copies of them."""
        if type(other) is not SquaredNorm or type(self) is not SquaredNorm:
            return False
        take, alike = getattr(self.residual, "take_numbers", None), at_knots(self.residual, np.arange(1))
        if take is None or alike is not self.residual:
            return self.residual is other.residual
        return take(other.residual)

    @staticmethod
    def _steps(wanted: KnotSum, rows: tuple[Any, ...]) -> tuple[list[tuple[Any, ...]], KnotSum | None, tuple[Any, ...]]:
        """Routines with their arguments that follow the evaluation of s, sx and su; the sum of s whose expansion is the
        curvature, with weights that these leave; and the last routine, which returns the sum."""
        (s, sx, su), mu, J = with_room(wanted, 1, rows)
        r, bent = np.zeros(mu.shape), None
        steps: list[tuple[Any, ...]] = [(squared_norms, s, r)]
        if wanted.target is not None:
            steps += [(norm_jacobian, s, sx, 0, J), (norm_jacobian, s, su, sx.shape[2], J)]
        if wanted.curvature is not None:
            weights = multipliers(np.zeros(s.shape))
            bent = wanted._replace(weights=weights, target=_gradients_apart(wanted.curvature))
            steps += [wanted._replace(target=None).of_rows(r, J, mu), (norm_multipliers, s, mu, weights.rows)]
        return steps, bent, wanted.of_rows(r, J, mu)

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """See `trajopt.interfaces.terms.AttributeGradient`: that of s, of multipliers 2 (v s + w ds) and 2 w s."""
        s, ds = along(self.residual, self.residual.nr, at)
        return gradient_by(self.residual, name, at, 2.0 * (value * s + slope * ds), 2.0 * slope * s)

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Hessians of mu r."""
        s, sx, su = linearized(self.residual, self.residual.nr, xs, us)
        inner = self.residual.hessian_products(xs, us, 2.0 * mu * s)
        scaled = 2.0 * mu[:, :, None] * sx
        Hxx = _sum(scaled.transpose(0, 2, 1) @ sx, inner[0])
        if su is None:
            return Hxx, None, None
        lifted = su.transpose(0, 2, 1)
        return Hxx, _sum(lifted @ scaled, inner[1]), _sum(lifted @ (2.0 * mu[:, :, None] * su), inner[2])


def _sum(H: np.ndarray, other: np.ndarray | None) -> np.ndarray:
    """H and a block of curvature, None for none."""
    return H if other is None else H + other


# --------------------------------------------------------------------------------------------
# Accelerations that the controls cause, as a residual: of any system whose states end with velocities.
#
#     r = (v+ - v)/h                     v+ the velocities of f(x, u)
#     r_x = (f_x - [0 1])/h, r_u = f_u/h (the rows of v+)     mu'r'' = lam'f'' with lam = mu/h in those rows
#
# Under Euler steps this is the acceleration of the equation of motion, with damping where it is taken implicitly; under
# others the mean over the step.  What the system knows of f, contacts and friction too, is exact here to second order.


def velocity_count(system: System) -> int:
    """Number of last entries of a state that are velocities; TypeError if the system does not say."""
    check_system(system, "nx", "ndx", "nu", "dt", "step", "linearize", "hessian_products")
    nq = capability(system, Joints).nq
    if nq is not None:
        return system.nx - nq
    if capability(system, Expansions).semi_implicit:
        return system.nx // 2
    raise TypeError(
        f"system: {type(system).__name__} does not say which numbers of its states are velocities (nq), expected a "
        'robot, or a CallableSystem with integrator="semi_implicit_euler", whose states are [q; v]'
    )


@by_address
def _accelerations(following, xs, columns, dt, r):
    """r = (x+ - x)/dt of these numbers of states."""
    for k in range(r.shape[0]):
        for i in range(r.shape[1]):
            r[k, i] = (following[k, columns[i]] - xs[k, columns[i]]) / dt


@by_address
def _acceleration_jacobians(fx, fu, rows, dt, rx, ru):
    """rx = (fx - 1)/dt and ru = fu/dt of these rows."""
    for k in range(rx.shape[0]):
        for i in range(rx.shape[1]):
            for j in range(rx.shape[2]):
                own = 1.0 if j == rows[i] else 0.0
                rx[k, i, j] = (fx[k, rows[i], j] - own) / dt
            for j in range(ru.shape[2]):
                ru[k, i, j] = fu[k, rows[i], j] / dt


@by_address
def _multipliers_of_steps(mu, rows, dt, lam):
    """lam = mu/dt in these rows."""
    for k in range(mu.shape[0]):
        for i in range(mu.shape[1]):
            lam[k, rows[i]] = mu[k, i] / dt


class AccelerationResidual(SummedRows):
    """r = (v+ - v)/dt, the accelerations (rad/s^2, m/s^2) that the controls cause at a state.

    Parameters
    ----------
    system : System, whose states are positions and velocities, all knots alike
    components : integers, optional
        Which velocities, counted among themselves; all by default.

    Attributes
    ----------
    joints : names of all velocities' degrees of freedom, empty if the system has none
    component_names : "elbow acceleration", ..., or none
    made_for : what the system serves (see `trajopt.interfaces.terms`)

    Raises
    ------
    TypeError, ValueError
        For a system that does not say which numbers are velocities, or whose knots differ.
    """

    name, reads_dynamics = "accelerations", True

    def __init__(self, system: System, components: ArrayLike | None = None) -> None:
        n = velocity_count(system)
        if capability(system, Knots).horizon is not None:
            raise ValueError(
                f"system: the knots of {type(system).__name__} differ, expected the system of some that are alike, as "
                "a segment has it, with these knots for at="
            )
        self.system, self._n = system, n
        self.components = chosen_components(components, n)
        self.nr, serving = len(self.components), capability(system, StateManifold).serves
        self.made_for: Any = serving[-1] if serving else None
        names = tangent_names(system)
        self.joints = names[: len(names) - n] if len(names) == 2 * n else ()
        self.component_names = tuple(f"{self.joints[i]} acceleration" for i in self.components) if self.joints else ()
        self._rows = system.ndx - n + self.components

    def _given(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        if us is None:
            raise ValueError("us: got None, expected controls: accelerations depend on them")
        return np.ascontiguousarray(xs[: len(us)]), np.ascontiguousarray(us)

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nr)."""
        xs, us = self._given(xs, us)
        n = self._n
        return ((self.system.step(xs, us)[:, -n:] - xs[:, -n:]) / self.system.dt)[:, self.components]

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """rx (K, nr, ndx), ru (K, nr, nu)."""
        fx, fu = self.system.linearize(*self._given(xs, us))
        rx = fx[:, self._rows]
        rx[:, np.arange(self.nr), self._rows] -= 1.0
        return rx / self.system.dt, fu[:, self._rows] / self.system.dt

    @property
    def sums_squares(self) -> bool:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        return type(self) is AccelerationResidual

    def prepared_rows(
        self, xs: np.ndarray, us: np.ndarray | None, jacobians: bool
    ) -> Callable[[], tuple[Any, ...]] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        if us is None or type(self) is not AccelerationResidual or np.ndim(self.system.dt):
            return None
        K, dt, system = len(us), float(self.system.dt), self.system
        following, columns = np.zeros((K, system.nx)), system.nx - self._n + self.components
        r, step = np.zeros((K, self.nr)), prepare(system, "prepared_steps", xs[:K], us, following)
        parts = [step, PreparedCall(_accelerations, following, xs[:K], columns, dt, r)]
        found: tuple[Any, ...] = r, None, None
        if jacobians:
            fx, fu = np.zeros((K, system.ndx, system.ndx)), np.zeros((K, system.ndx, system.nu))
            found = r, np.zeros((K, self.nr, system.ndx)), np.zeros((K, self.nr, system.nu))
            parts.append(prepare(system, "prepared_expansion", xs[:K], us, fx, fu))
            parts.append(PreparedCall(_acceleration_jacobians, fx, fu, self._rows, dt, *found[1:]))
        return None if any(part is None for part in parts) else PreparedCalls(*parts, result=lambda: found)

    def prepared_hessians(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[Callable[[], Any], tuple[np.ndarray | None, ...]] | None:
        """See `SummedRows`."""
        assert us is not None
        K, n, m = len(us), self.system.ndx, self.system.nu
        lam, fx, fu = np.zeros((K, n)), np.zeros((K, n, n)), np.zeros((K, n, m))
        H = np.zeros((K, n, n)), np.zeros((K, m, n)), np.zeros((K, m, m))
        expand = prepare(self.system, "prepared_expansion", xs[:K], us, fx, fu, lam, *H)
        if expand is None:
            return None
        return PreparedCalls(PreparedCall(_multipliers_of_steps, mu, self._rows, float(self.system.dt), lam), expand), H

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hessians of mu'r."""
        lam = np.zeros((len(mu), self.system.ndx))
        lam[:, self._rows] = mu / self.system.dt
        return self.system.hessian_products(*self._given(xs, us), lam)
