"""What trajectory optimization needs of a discrete-time dynamical system, and nothing more.

A state x has nx numbers, its tangent space ndx (fewer on a manifold: a quaternion has four numbers and three degrees of
freedom).  `integrate` moves a state along a tangent vector, `difference` is its inverse, and every derivative is taken
along the tangent, so no other part of the package ever subtracts two states.

These promises are optional attributes, read by the functions at the end of this file:

``semi_implicit`` (default False)
    True if fx[:, :n] = [I 0] + dt fx[:, n:] and fu[:, :n] = dt fu[:, n:] exactly, with n = ndx/2, as semi-implicit
    Euler integration gives; a structured backward pass then reads only the lower halves.  dt is each knot's duration
    where these differ.
``semi_implicit_from`` (default None)
    A row b < n from which on this holds, fx[:, b:n] = [0 I 0] + dt fx[:, n + b:] and fu[:, b:n] = dt fu[:, n + b:], if
    it does not hold for all rows: the b = 6 of a floating base move on a group.  The backward pass then reads the first
    b rows and the lower halves.
``euclidean`` (default True)
    False if `difference` is not plain subtraction; the system then also has `difference_expansion` (see
    `ManifoldSystem`).
``difference_with_jacobian(x_ref, xs)``
    difference(x_ref, xs) (K, ndx) and its Jacobian (K, ndx, ndx) in xs in one call; x_ref (nx,) or (K, nx).  Costs use
    it, where it is there, in place of `difference` and `difference_expansion`.
``check_state(xs)``
    Raises ValueError if one of the states xs (K, nx) is no point of the manifold.
``skeleton(xs)``, ``scenery``
    Line segments (K, segments, 2, 3) to draw at each knot, and those (S, 2, 3) that never move.
``contact_points(xs)``, ``contact_forces(xs, us)``
    Positions (K, F, 3), m, of the F frames that are ever in contact, at any states; forces (N, F, 3), N, on them at the
    knots, world axes, zero where a frame is not held.
``center_of_mass(xs)``
    Positions (K, 3), m, world axes.
``horizon``, ``window(start, stop)``
    Dynamics that differ from knot to knot: the number of knots, which a trajectory must have, and the system of the
    knots start <= t < stop alone.  A system of one knot takes batches of any length, all at that knot.
``durations`` (N,), ``idle`` (N,)
    Seconds that each knot takes, by which running costs are weighed, where these are not all dt; a knot may take no
    time.  And whether a knot's controls are without effect.
``write_expansion(xs, us, lam, fx, fu, Hxx, Hux, Huu)``
    Writes what `linearize` and `hessian_products` return into the arrays given, for less than the two together.
``quasi_static(x)``
    Controls (nu,), or (N, nu) of all knots, that hold the system still at x (nx,).
``check_start(x0)``
    Raises ValueError if a trajectory cannot sensibly begin at x0 (nx,).
``state_names``, ``control_names``
    What plots call the numbers of states (nx,) and controls (nu,).
"""

from typing import Any, Protocol, cast

import numpy as np

from trajopt.validation import float_array


class System(Protocol):
    """Discrete dynamics x_{t+1} = f(x_t, u_t) with first and second derivatives, all knots in one call.

    Any object with these members will do; it need not inherit from this class.
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

        The last three arguments may be missing; `trajopt.stepwise` then rolls out step by step where they are needed.
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
        """Expand r = difference(x_ref, xs) along the tangent of xs (K, nx); x_ref (nx,) or (K, nx).

        Returns J (K, ndx, ndx), the Jacobian of r, and H (K, ndx, ndx), the Hessian of mu'r with mu (K, ndx).
        """
        ...


def as_manifold(system: System) -> ManifoldSystem | None:
    """The system itself if its states live on a manifold, None if `difference` is plain subtraction."""
    return None if getattr(system, "euclidean", True) else cast(ManifoldSystem, system)


def window(system: System, start: int, stop: int) -> System:
    """The dynamics of the knots start <= t < stop: the system itself where all knots are alike."""
    part = getattr(system, "window", None)
    return system if part is None else part(start, stop)


def knot_durations(system: System, horizon: int) -> np.ndarray:
    """Seconds (N,) that the knots take."""
    return np.asarray(getattr(system, "durations", np.full(horizon, system.dt)), dtype=np.float64)


def knot_times(system: System, horizon: int) -> np.ndarray:
    """Times (N+1,) of the knots, seconds."""
    if not hasattr(system, "durations"):
        return system.dt * np.arange(horizon + 1)
    return np.concatenate([[0.0], np.cumsum(knot_durations(system, horizon))])


def idle_knots(system: System) -> np.ndarray:
    """The knots whose controls are without effect."""
    return np.flatnonzero(getattr(system, "idle", ()))


def state_array(system: System, name: str, value: Any) -> np.ndarray:
    """A state (nx,) that the system accepts as one; ValueError naming the argument otherwise."""
    x = float_array(name, value, (system.nx,))
    check = getattr(system, "check_state", None)
    if check is not None:
        try:
            check(x[None])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return x


def semi_implicit_form(system: System) -> tuple[float | np.ndarray, int]:
    """What the backward pass is told: the time step, or those of all knots, 0 without that structure; and the first row
    that has it."""
    first = getattr(system, "semi_implicit_from", None)
    if first is None and not getattr(system, "semi_implicit", False):
        return 0.0, 0
    return getattr(system, "durations", float(system.dt)), int(first or 0)
