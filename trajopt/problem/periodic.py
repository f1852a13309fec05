"""Periodic motions: a constraint between the two ends of the horizon.

    r = x_N (-) r_0 - M (x_0 (-) r_0) = shift

With M the identity and r_0 = x_0 this is x_N (-) x_0; another M, such as a mirror that swaps legs, ends half a gait.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dynamics.simd.array_loops import fill, place_columns
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.simd.squares import KnotSum, multipliers
from dynamics.validation import as_array, as_number_or_vector
from trajopt.costs.cost_of_residual import prepared_rows
from trajopt.costs.deviation import subtract_reference
from trajopt.costs.residuals import StateResidual
from trajopt.costs.summed_rows import SummedRows
from trajopt.interfaces.system import System, as_manifold, check_system, neutral_state, state_array, tangent_names
from trajopt.interfaces.terms import state_space
from trajopt.problem.augmented_system import AugmentedSystem
from trajopt.problem.constraints import ResidualConstraint, limits_by_name
from trajopt.problem.initial_state import moving_components, named_components
from trajopt.problem.lifted_terms import LiftedResidual


class PeriodicResidual(SummedRows):
    """r = x (-) r_0 - M (x_0 (-) r_0) for the last state x, restricted to some components.

    Parameters
    ----------
    system : System
    components : integers
    matrix : (ndx, ndx) array M, None for the identity
    reference : (nx,) array r_0, None for the initial state
    start : (nx,) array, the initial state x_0, None until a problem sets it
    """

    name = "periodic"

    def __init__(
        self,
        system: System,
        components: np.ndarray,
        matrix: np.ndarray | None,
        reference: np.ndarray | None,
        start: np.ndarray | None = None,
    ) -> None:
        self.system, self.components, self.matrix, self.given = system, components, matrix, reference
        self.nr, self.made_for = len(components), state_space(system)
        names = tangent_names(system)
        self.component_names = tuple(names[i] for i in components) if names else ()
        self.start, self._offset = start, np.zeros(self.nr)
        if start is not None:
            self.reference = start if reference is None else reference
            self.end = StateResidual(system, self.reference, components)
            self._offset = self.rows_of(system.difference(self.reference, start))

    def starting_at(self, x0: np.ndarray) -> PeriodicResidual:
        """The residual with another initial state."""
        return PeriodicResidual(self.system, self.components, self.matrix, self.given, x0)

    def rows_of(self, start: np.ndarray) -> np.ndarray:
        """The residual's components of M start, start (..., ndx), or of M J for its transpose."""
        return (start if self.matrix is None else start @ self.matrix.T)[..., self.components]

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Residuals r (K, nr)."""
        return self._end.evaluate(xs, None) - self._offset

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, None]:
        """Jacobians rx (K, nr, ndx), None."""
        return self._end.jacobians(xs, None)

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray | None, None, None]:
        """Hessians of mu'r with respect to the state."""
        return self._end.hessian_products(xs, None, mu)

    @property
    def sums_squares(self) -> bool:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        return type(self) is PeriodicResidual and self._end.sums_squares

    def prepared_rows(
        self, xs: np.ndarray, us: np.ndarray | None, jacobians: bool
    ) -> Callable[[], tuple[Any, ...]] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        end = prepared_rows(self._end, xs, None, jacobians) if type(self) is PeriodicResidual else None
        if end is None:
            return None
        r, found = np.zeros(end.arrays[0].shape), end.arrays[1:]
        return PreparedCalls(
            end, PreparedCall(subtract_reference, end.arrays[0], self._offset, r), result=lambda: (r, *found)
        )

    def prepared_hessians(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[Callable[[], Any], tuple[np.ndarray | None, ...]] | None:
        """See `trajopt.costs.summed_rows.SummedRows`."""
        weights, (K, n) = multipliers(np.zeros(mu.shape)), (len(xs), self.system.ndx)
        H = np.zeros((K, n, n))
        into = np.zeros((K, n)), None, H, None, None
        add = self._end.prepared_sum(KnotSum((0, K), xs, None, weights, None, into))
        if add is None:
            return None
        weigh = PreparedCall(place_columns, mu, weights.rows, 0)
        return PreparedCalls(weigh, PreparedCall(fill, H, 0.0), add), (H, None, None)

    @property
    def _end(self) -> StateResidual:
        if self.start is None:
            raise ValueError("Periodic: got no initial state, expected that of problem.constraints")
        return self.end


class StartAndEnd(LiftedResidual):
    """The residual for a free initial state: x_0 = c (+) d with coordinates d that are part of the augmented state.

    With g(d) = (c (+) d) (-) r_0, J_r, H_r the derivatives of x_0 (-) r_0 and J_c, H_c those of x_0 (-) c,

        dg = J_r J_c^-1     (nu'g)'' = J_c^-T (H_r(nu) - H_c(J_c^-T J_r' nu)) J_c^-1     g = d where r_0 = c
    """

    system: AugmentedSystem
    residual: PeriodicResidual

    def __init__(self, system: AugmentedSystem, residual: PeriodicResidual) -> None:
        super().__init__(system, residual)
        self._columns = system.choices.carried
        self._at = system.ndx - len(self._columns)
        manifold = as_manifold(system.system)
        self._curved = None if np.array_equal(residual.reference, system.choices.center) else manifold

    def _start(self, zs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The initial states (K, nx), and x_0 (-) r_0 (K, ndx)."""
        inside, c, K = self.system.system, self.system.choices.center, len(zs)
        d = np.zeros((K, inside.ndx))
        if len(self._columns):
            d[:, self._columns] = zs[:, -len(self._columns) :]
        x0 = inside.integrate(np.tile(c, (K, 1)), d)
        return x0, inside.difference(np.tile(self.residual.reference, (K, 1)), x0) if self._curved else (
            inside.difference(self.residual.reference, c) + d
        )

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Residuals r (K, nr)."""
        x = self.system.split(xs)[0]
        return self.residual.end.evaluate(x, None) - self.residual.rows_of(self._start(xs)[1])

    def _by_start(self, x0: np.ndarray) -> np.ndarray:
        """Jacobians dg (K, ndx, ndx)."""
        K, n = len(x0), self.system.system.ndx
        if self._curved is None:
            return np.tile(np.eye(n), (K, 1, 1))
        mu = np.zeros((K, n))
        of_reference = self._curved.difference_expansion(self.residual.reference, x0, mu)[0]
        of_center = self._curved.difference_expansion(self.system.choices.center, x0, mu)[0]
        return np.linalg.solve(of_center.swapaxes(1, 2), of_reference.swapaxes(1, 2)).swapaxes(1, 2)

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, None]:
        """Jacobians rz (K, nr, ndx), None."""
        inside = self.system.system
        rz = np.zeros((len(xs), self.nr, self.system.ndx))
        rz[:, :, : inside.ndx] = self.residual.end.jacobians(self.system.split(xs)[0], None)[0]
        by_start = self.residual.rows_of(self._by_start(self._start(xs)[0]).swapaxes(1, 2)).swapaxes(1, 2)
        rz[:, :, self._at :] = -by_start[:, :, self._columns]
        return rz, None

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray | None, None, None]:
        """Hessians of mu'r with respect to the augmented state."""
        n, K = self.system.system.ndx, len(xs)
        Hxx = self.residual.end.hessian_products(self.system.split(xs)[0], None, mu)[0]
        if Hxx is None and self._curved is None:
            return None, None, None
        Hzz = np.zeros((K, self.system.ndx, self.system.ndx))
        if Hxx is not None:
            Hzz[:, :n, :n] = Hxx
        if self._curved is not None:
            x0, nu, M = self._start(xs)[0], np.zeros((K, n)), self.residual.matrix
            nu[:, self.residual.components] = mu
            nu = nu if M is None else nu @ M
            Jr, Hr = self._curved.difference_expansion(self.residual.reference, x0, nu)
            c = self.system.choices.center
            Jc = self._curved.difference_expansion(c, x0, nu)[0]
            back = np.linalg.solve(Jc.swapaxes(1, 2), Jr.swapaxes(1, 2) @ nu[..., None])[..., 0]
            inverse = np.linalg.inv(Jc)
            bent = inverse.swapaxes(1, 2) @ (Hr - self._curved.difference_expansion(c, x0, back)[1]) @ inverse
            Hzz[:, self._at :, self._at :] = -bent[:, self._columns[:, None], self._columns]
        return Hzz, None, None


class Periodic(ResidualConstraint):
    """The motion ends as it begins: x_N (-) x_0 = 0, in all components or some.

    With a free initial state (``trajopt.Problem(..., free_initial_state=True)``) both ends are found together; with a
    given one it is a constraint at the last knot.

    Parameters
    ----------
    system : System
    components : names, integers, or a mask (ndx,), optional
        The components that repeat; by default all, except free durations.  A walking robot does not return to its
        initial position: leave that out, or give its displacement by `shift`.
    shift : number, (nr,) or (ndx,) array, or mapping of components' names to numbers
        Increase of the components at the end; zero by default.
    map : (ndx, ndx) array, or (ndx,) signs, optional
        M in x_N (-) r = M (x_0 (-) r), such as the mirror by which half a gait continues with the other legs.
    reference : (nx,) array, optional
        r, by default the initial state, or the neutral state of the system where there is a map.
    name : str, optional

    Raises
    ------
    TypeError, ValueError
        Naming the argument, the value it got and the one expected.

    Examples
    --------
    >>> system = problems.make("pendulum").system
    >>> turn = trajopt.Periodic(system, shift=[2 * np.pi, 0.0])  # once around in each period
    >>> effort = [trajopt.ControlCost(1.0)]
    >>> problem = trajopt.Problem(system, [0.0, 5.0], 50, effort, [], [turn], free_initial_state=True)
    >>> solution = trajopt.DDP().solve(problem)
    >>> print(solution.status, (solution.xs[-1] - solution.xs[0] - [2 * np.pi, 0.0]).round(6) + 0.0)
    converged [0. 0.]
    """

    residual: PeriodicResidual

    def __init__(
        self,
        system: System,
        components: Any = None,
        *,
        shift: ArrayLike | Mapping[str, float] = 0.0,
        map: ArrayLike | None = None,
        reference: ArrayLike | None = None,
        name: str = "periodic",
    ) -> None:
        check_system(system, "nx", "ndx", "difference", "integrate")
        chosen = moving_components(system) if components is None else named_components("components", components, system)
        matrix = None if map is None else _matrix(map, system.ndx)
        centre: Any = reference
        if centre is None and matrix is not None:
            centre = neutral_state(system)
        centre = None if centre is None else state_array(system, "reference", centre)
        gained = _shift(shift, chosen, system)
        super().__init__(PeriodicResidual(system, chosen, matrix, centre), gained, gained, "terminal", name)

    def starting_at(self, x0: np.ndarray) -> Self:
        """The constraint of a problem with this initial state, or with a free one near it."""
        new = copy.copy(self)
        new.residual = self.residual.starting_at(x0)
        return new


def starting_at(constraints: Sequence[Any], x0: np.ndarray) -> tuple[Any, ...]:
    """The constraints of a problem with this initial state."""
    return tuple(one.starting_at(x0) if isinstance(one, Periodic) else one for one in constraints)


def depends_on_x0(problem: Any) -> bool:
    """True if a constraint of a problem depends on its initial state itself."""
    return any([isinstance(one, Periodic) for one in problem.constraints])


def _matrix(given: ArrayLike, n: int) -> np.ndarray:
    M = as_array("map", given, copy=True)
    if M.shape not in ((n,), (n, n)):
        raise ValueError(f"map: got shape {M.shape}, expected ({n}, {n}), or ({n},) of its diagonal")
    return np.diag(M) if M.ndim == 1 else M


def _shift(given: Any, chosen: np.ndarray, system: System) -> np.ndarray:
    """Increase of each of the chosen components."""
    if isinstance(given, Mapping):
        whole = as_array("shift", limits_by_name("shift", given, tangent_names(system), 0.0), (system.ndx,), copy=True)
        outside = np.setdiff1d(np.flatnonzero(whole), chosen)
        if len(outside):
            raise ValueError(f"shift: got {tangent_names(system)[outside[0]]!r}, which is none of the components")
        return whole[chosen]
    array = as_number_or_vector("shift", given, None)
    if array.shape not in ((), (len(chosen),), (system.ndx,)):
        raise ValueError(f"shift: got {len(array)} numbers, expected one, {len(chosen)} or {system.ndx}")
    return array[chosen] if array.shape == (system.ndx,) else np.full(len(chosen), 1.0) * array
