"""What trajectory optimization needs of a discrete-time dynamical system, and nothing more.

A state x has nx numbers, its tangent space ndx (fewer on a manifold: a quaternion has four numbers and three degrees of
freedom).  `integrate` moves a state along a tangent vector, `difference` is its inverse, and every derivative is taken
along the tangent, so no other part of the package ever subtracts two states.

What only some systems can say or do, `trajopt.capabilities` lists; the functions at the end of this file ask for it.
"""

import re
from typing import Any, Protocol, cast

import numpy as np

from dynamics.validation import as_array
from trajopt.capabilities import Expansions, Knots, Names, StateManifold, capability


class System(Protocol):
    """Discrete dynamics x_{t+1} = f(x_t, u_t) with first and second derivatives, all knots in one call.

    Any object with these members will do; it need not inherit from this class.  `trajopt.capabilities` has what it may
    offer besides.
    """

    @property
    def nx(self) -> int:
        """Numbers in a state."""
        ...

    @property
    def ndx(self) -> int:
        """Dimension of the tangent space of the states."""
        ...

    @property
    def nu(self) -> int:
        """Number of controls."""
        ...

    @property
    def dt(self) -> float:
        """Time step, seconds."""
        ...

    def integrate(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        """Move x (nx,) or (K, nx) along the tangent vector dx (ndx,) or (K, ndx)."""
        ...

    def difference(self, x0: np.ndarray, x1: np.ndarray) -> np.ndarray:
        """Tangent vector from x0 to x1: integrate(x0, difference(x0, x1)) = x1."""
        ...

    def step(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Next state f(x, u), one point or a batch."""
        ...

    def rollout(self, x0: np.ndarray, us: np.ndarray) -> np.ndarray:
        """States (N+1, nx) from x0 under the controls us (N, nu); inf or NaN if they diverge, never an exception."""
        ...

    def closed_loop_rollout(
        self,
        x0: np.ndarray,
        xs: np.ndarray,
        us: np.ndarray,
        k: np.ndarray,
        K: np.ndarray,
        alphas: np.ndarray,
        gaps: np.ndarray | None = None,
        lower: np.ndarray | None = None,
        upper: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Roll out u = us_t + alpha k_t + K_t difference(xs_t, x) for every step length alpha (A,) at once.

        The last three arguments may be missing; `trajopt.interfaces.stepwise` rolls out step by step where
        they are needed.
        Controls keep lower <= u <= upper (N, nu).  Of gaps (N+1, ndx), gaps_0 = difference(xs_0, x0) and
        gaps_t = difference(xs_t, f(xs_{t-1}, us_{t-1})), the part 1 - alpha is kept: each new state is what the
        dynamics give, or x0, moved along -(1 - alpha) gaps_t.
        Returns xs_new (A, N+1, nx) and us_new (A, N, nu), possibly strided views; diverged candidates hold inf or NaN.
        """
        ...

    def linearize(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """fx (N, ndx, ndx) and fu (N, ndx, nu) at the first N = len(us) states."""
        ...

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hessians of lam_t'f per knot, lam (N, ndx): Hxx (N, ndx, ndx), Hux (N, nu, ndx), Huu (N, nu, nu)."""
        ...

    def hessians(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Full tensors fxx (N, ndx, ndx, ndx), fux (N, ndx, nu, ndx), fuu (N, ndx, nu, nu), output index first."""
        ...


class ManifoldSystem(System, Protocol):
    """A system whose states live on a manifold (``euclidean = False``)."""

    def difference_expansion(self, x_ref: np.ndarray, xs: np.ndarray, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `trajopt.capabilities.StateManifold`."""
        ...


def as_manifold(system: System) -> ManifoldSystem | None:
    """The system itself if its states live on a manifold, None if `difference` is plain subtraction."""
    return None if capability(system, StateManifold).euclidean else cast(ManifoldSystem, system)


def along_tangents(system: System, xs: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Derivatives (K, ndx) along the tangents at states xs (K, nx), of functions with these derivatives (K, nx) by the
    numbers of a state.

    Raises: TypeError for a system on a manifold without `integrate_jacobian` (`trajopt.capabilities`).
    """
    J = _integrate_jacobian(system, xs)
    return gradients if J is None else np.einsum("tij,ti->tj", J, gradients)


def across_tangents(system: System, xs: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Derivatives (K, nx) by the numbers of states xs (K, nx), along the manifold, of functions with these derivatives
    (K, ndx) along the tangents: J (J'J)^-1 times these.

    Raises: TypeError as `along_tangents`.
    """
    J = _integrate_jacobian(system, xs)
    if J is None:
        return gradients
    return np.einsum("tij,tj->ti", J, np.linalg.solve(J.swapaxes(1, 2) @ J, gradients[..., None])[..., 0])


def numbers_along(system: System, xs: np.ndarray, dxs: np.ndarray) -> np.ndarray:
    """Changes (K, nx) of the numbers of states xs (K, nx) that move along tangent vectors (K, ndx): J times these.

    Raises: TypeError as `along_tangents`.
    """
    J = _integrate_jacobian(system, xs)
    return dxs if J is None else np.einsum("tij,tj->ti", J, dxs)


def _integrate_jacobian(system: System, xs: np.ndarray) -> np.ndarray | None:
    """J (K, nx, ndx), None where it is the identity."""
    known = capability(system, StateManifold)
    if known.euclidean or known.plain_tangent:
        return None
    if known.integrate_jacobian is None:
        raise TypeError(
            f"system: {type(system).__name__} is not euclidean and lacks integrate_jacobian, expected a system with it "
            "for derivatives by the numbers of a state"
        )
    return as_array("integrate_jacobian", known.integrate_jacobian(xs), (len(xs), system.nx, system.ndx), finite=False)


def window(system: System, start: int, stop: int) -> System:
    """The dynamics of the knots start <= t < stop: the system itself where all knots are alike."""
    return capability(system, Knots).window(start, stop)


def knot_durations(system: System, horizon: int, xs: np.ndarray | None = None) -> np.ndarray:
    """Seconds (N,) that the knots take, along a trajectory xs (N+1, nx) where they are free."""
    known = capability(system, Knots)
    seconds = np.asarray(known.durations if xs is None else known.durations_along(xs), dtype=np.float64)
    return seconds if seconds.ndim else np.full(horizon, seconds)


def knot_times(system: System, horizon: int, xs: np.ndarray | None = None) -> np.ndarray:
    """Times (N+1,) of the knots, seconds, along a trajectory xs (N+1, nx) where they are free."""
    if np.ndim(capability(system, Knots).durations) == 0:
        return system.dt * np.arange(horizon + 1)
    return np.concatenate([[0.0], np.cumsum(knot_durations(system, horizon, xs))])


def idle_knots(system: System) -> np.ndarray:
    """The knots whose controls are without effect."""
    return np.flatnonzero(capability(system, Knots).idle)


def check_states(system: System, xs: np.ndarray) -> None:
    """Raise ValueError if the system knows that one of the states xs (K, nx) is none."""
    check_state = capability(system, StateManifold).check_state
    if check_state is not None:
        check_state(xs)


def neutral_state(system: System) -> np.ndarray:
    """The state (nx,) that limits are counted from."""
    return np.asarray(capability(system, StateManifold).neutral_state)


def tangent_names(system: System) -> tuple[str, ...]:
    """Names (ndx,) of the components of a tangent vector; none if the system has none."""
    return _all_named("tangent_names", capability(system, Names).tangent_names, system.ndx)


def tangent_units(system: System) -> tuple[str, ...]:
    """Units (ndx,) of the components of a tangent vector: those that the system says, or that names end with, as
    "speed [m/s]"; "" where neither is so."""
    known = _all_named("tangent_units", capability(system, Names).tangent_units, system.ndx)
    if known:
        return known
    found = (re.search(r"\[([^\[\]]*)\]$", name) for name in tangent_names(system) or ("",) * system.ndx)
    return tuple("" if unit is None else unit[1] for unit in found)


def control_names(system: System) -> tuple[str, ...]:
    """Names (nu,) of the controls; none if the system has none."""
    return _all_named("control_names", capability(system, Names).control_names, system.nu)


def slope_name(system: System, which: str, i: int, j: int) -> str:
    """An entry of fx or fu in words: "fu[1, 0] of the dynamics, the slope of 'speed' by 'force'"."""
    states, what = tangent_names(system), "component" if which == "fx" else "control"
    arguments = states if which == "fx" else control_names(system)
    value = repr(states[i]) if states else f"component {i}"
    argument = repr(arguments[j]) if arguments else f"{what} {j}"
    return f"{which}[{i}, {j}] of the dynamics, the slope of {value} by {argument}"


def _all_named(what: str, names: Any, count: int) -> tuple[str, ...]:
    if len(names) not in (0, count):
        raise ValueError(f"{what}: got {len(names)} names, expected {count}")
    return tuple(names)


def check_system(system: object, *members: str) -> None:
    """TypeError unless it has these members of a system."""
    missing = [member for member in members if not hasattr(system, member)]
    if missing:
        raise TypeError(f"system: {type(system).__name__} lacks {', '.join(missing)}, expected a trajopt.System")


def state_array(system: System, name: str, value: Any) -> np.ndarray:
    """A state (nx,) that the system accepts as one; ValueError naming the argument otherwise."""
    x = as_array(name, value, (system.nx,), copy=True)
    try:
        check_states(system, x[None])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return x


def semi_implicit_form(system: System) -> tuple[float | np.ndarray, int]:
    """What the backward pass is told: the time step, or those of all knots, 0 without that structure; and the first row
    that has it."""
    known = capability(system, Expansions)
    first = known.semi_implicit_from
    if first is None and not known.semi_implicit:
        return 0.0, 0
    return capability(system, Knots).durations, first or 0
