"""One step of each integrator, and its exact first and second derivatives from those of the user's function g.

All are Runge-Kutta steps of which each stage depends on the one before,

    X_1 = x,   k_s = g(X_s, u),   X_{s+1} = x + h a_s k_s,   x+ = x + h sum_s b_s k_s.

With T_s = d[X_s; u]/d[x; u] and G_s = [g_x g_u] at stage s, first order is the chain rule, dk_s = G_s T_s.  Second
order needs no second derivatives of the stages: the X_s are affine in the k_s, so with the adjoints

    mu_S = h b_S lam,   mu_s = h b_s lam + h a_s g_x(X_{s+1})' mu_{s+1}
    Hessian of lam'x+ = sum_s T_s' [Hessian of mu_s'g at (X_s, u)] T_s.

The implicit midpoint rule x+ = x + h k, k = g(x + h/2 k, u) has one stage, and by the implicit function theorem

    dk = (I - h/2 g_x)^-1 [g_x g_u],   mu = h (I - h/2 g_x)^-T lam.

Semi-implicit Euler of x = [q; v], g = [v; a] is v+ = v + h a, q+ = q + h v+: only a is differentiated.
Below, `g` is a derivative source: evaluate, jacobians (K, nx, nz), hessian_products (K, nz, nz), z = [x; u].  Explicit
rules work on arrays of symbols too, K being one.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import njit

from dynamics.simd.array_loops import split_columns, split_hessian
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls, PreparedLaunch
from dynamics.tape.expressions import Expressions, Tapes
from dynamics.tape.graph import Untraceable
from dynamics.tape.interpreter import closed_loops, write_closed_loops
from dynamics.tape.symbol import product
from trajopt.callable_system.derivatives import COMPLEX_STEP, JACOBIAN_STEP, Differentiated
from trajopt.callable_system.functions import KEPT, OPTIONS, finite, in_place_form, plain, recompiled
from trajopt.callable_system.sources import TracedDerivatives

ORDERS: dict[str | None, int] = {
    "explicit_euler": 1, "semi_implicit_euler": 1, "rk2": 2, "rk4": 4, "implicit_midpoint": 2,
}  # fmt: skip
INTEGRATORS = ("explicit_euler", "semi_implicit_euler", "rk2", "rk4", "implicit_midpoint")

NEWTON_ITERATIONS = 30
NEWTON_TOLERANCE = 1e-12
"""Size of the last step of Newton's method, relative to the state; convergence is quadratic, so what is left is below
rounding."""

TABLEAUS = {
    "explicit_euler": ((), (1.0,)),
    "rk2": ((0.5,), (0.0, 1.0)),
    "rk4": ((0.5, 0.5, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
}
"""a_s and b_s of the explicit rules; rk2 is the midpoint rule."""


class Integrator(Protocol):
    """A step x+ = f(x, u) and its derivatives, all points in one call."""

    def step(self, g: Differentiated, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """x+ (K, nx) from X (K, nx), U (K, nu)."""
        ...

    def jacobians(self, g: Differentiated, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """[fx fu] (K, nx, nx + nu)."""
        ...

    def hessian_products(self, g: Differentiated, X: np.ndarray, U: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Hessian (K, nz, nz) of lam'f, lam (K, nx)."""
        ...


class Discrete:
    """The user's function is the step itself."""

    def step(self, g: Differentiated, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """x+ = g(x, u)."""
        return g.evaluate(X, U)

    def jacobians(self, g: Differentiated, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """Derivatives of g, which is the step."""
        return g.jacobians(X, U)

    def hessian_products(self, g: Differentiated, X: np.ndarray, U: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Derivatives of g, which is the step."""
        return g.hessian_products(X, U, lam)


class ExplicitRungeKutta:
    """Explicit Euler, the midpoint rule and the classical rule of fourth order."""

    def __init__(self, a: tuple[float, ...], b: tuple[float, ...], h: float) -> None:
        self.a, self.b, self.h = a, b, h

    def _stages(self, g, X, U):
        points = [X]
        for a in self.a:
            points.append(X + self.h * a * g.evaluate(points[-1], U))
        return points

    def step(self, g: Differentiated, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """x+ = x + h sum_s b_s k_s."""
        total, k = 0.0, None
        for a, b in zip((0.0, *self.a), self.b, strict=True):
            k = g.evaluate(X if k is None else X + self.h * a * k, U)
            total = total + b * k
        return X + self.h * total

    def _chain(self, g, X, U):
        """Stage points X_s, their Jacobians G_s and T_s (identity rows of x and u included), and dx+."""
        n, nz = X.shape[1], X.shape[1] + U.shape[1]
        points, Gs, Ts = self._stages(g, X, U), [], []
        T = np.broadcast_to(np.eye(nz), (len(X), nz, nz))
        total = 0.0
        for a, b, point in zip((*self.a, 0.0), self.b, points, strict=True):
            G = g.jacobians(point, U)
            dk = product(G, T) if Ts else G
            Gs.append(G)
            Ts.append(T)
            total = total + b * dk
            T = np.tile(np.eye(nz, dtype=dk.dtype), (len(X), 1, 1))
            T[:, :n] += self.h * a * dk
        return points, Gs, Ts, np.eye(n, nz) + self.h * total

    def jacobians(self, g: Differentiated, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """I + h sum_s b_s G_s T_s."""
        return self._chain(g, X, U)[-1]

    def hessian_products(self, g: Differentiated, X: np.ndarray, U: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Sum over the stages with adjoints, see the head of this file."""
        if not self.a:
            return g.hessian_products(X, U, self.h * lam)
        n = X.shape[1]
        points, Gs, Ts, _ = self._chain(g, X, U)
        H, pulled = np.zeros(()), 0.0
        for s in range(len(points) - 1, -1, -1):
            mu = self.h * self.b[s] * lam + pulled
            H = H + product(product(Ts[s].swapaxes(1, 2), g.hessian_products(points[s], U, mu)), Ts[s])
            if s:
                pulled = self.h * self.a[s - 1] * product(mu[:, None], Gs[s][:, :, :n])[:, 0]
        return H


class SemiImplicitEuler:
    """v+ = v + h a(q, v, u), q+ = q + h v+; so fx[:, :n] = [I 0] + h fx[:, n:] and fu[:, :n] = h fu[:, n:] exactly."""

    def __init__(self, h: float) -> None:
        self.h = h

    def step(self, g: Differentiated, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """Reads only a, the lower half of g."""
        n, h = X.shape[1] // 2, self.h
        Y = np.empty_like(X)
        Y[:, n:] = X[:, n:] + h * g.evaluate(X, U)[:, n:]
        Y[:, :n] = X[:, :n] + h * Y[:, n:]
        return Y

    def jacobians(self, g: Differentiated, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """Lower half from a, upper half from the lower."""
        n, h = X.shape[1] // 2, self.h
        J = g.jacobians(X, U)
        rows = np.arange(n)
        J[:, n:] *= h
        J[:, n + rows, n + rows] += 1.0
        np.multiply(J[:, n:], h, out=J[:, :n])
        J[:, rows, rows] += 1.0
        return J

    def hessian_products(self, g: Differentiated, X: np.ndarray, U: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Hessian of mu'a with mu = h lam_v + h^2 lam_q."""
        n, h = X.shape[1] // 2, self.h
        mu = np.zeros_like(lam)
        mu[:, n:] = h * lam[:, n:] + h**2 * lam[:, :n]
        return g.hessian_products(X, U, mu)


class ImplicitMidpoint:
    """x+ = x + h k with k = g(x + h/2 k, u) by Newton's method; NaN where that does not converge."""

    def __init__(self, h: float) -> None:
        self.h = h

    def step(self, g: Differentiated, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """Newton with the Jacobian of g, on the points that have not converged yet."""
        n, h = X.shape[1], self.h
        k = g.evaluate(X, U)
        left = np.flatnonzero(np.isfinite(k).all(axis=1))
        k[~np.isfinite(k).all(axis=1)] = np.nan
        for _ in range(NEWTON_ITERATIONS):
            if not len(left):
                break
            middle = X[left] + 0.5 * h * k[left]
            residual = g.evaluate(middle, U[left]) - k[left]
            A = np.eye(n) - 0.5 * h * g.jacobians(middle, U[left])[:, :, :n]
            dk = solve(A, residual[:, :, None])[:, :, 0]
            k[left] += dk
            size = np.abs(X[left]).max(axis=1) + h * np.abs(k[left]).max(axis=1)
            left = left[~(h * np.abs(dk).max(axis=1) <= NEWTON_TOLERANCE * size)]
            left = left[np.isfinite(k[left]).all(axis=1)]
        k[left] = np.nan
        return X + h * k

    def _middle(self, g, X, U):
        """The stage (x + x+)/2, G there and A = I - h/2 g_x."""
        n = X.shape[1]
        middle = 0.5 * (X + self.step(g, X, U))
        G = g.jacobians(middle, U)
        return middle, G, np.eye(n) - 0.5 * self.h * G[:, :, :n]

    def jacobians(self, g: Differentiated, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """I + h dk."""
        _, G, A = self._middle(g, X, U)
        return np.eye(*G.shape[1:]) + self.h * solve(A, G)

    def hessian_products(self, g: Differentiated, X: np.ndarray, U: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """One stage with T = d[middle; u]."""
        n, nz = X.shape[1], X.shape[1] + U.shape[1]
        middle, G, A = self._middle(g, X, U)
        T = np.tile(np.eye(nz), (len(X), 1, 1))
        T[:, :n] += 0.5 * self.h * solve(A, G)
        mu = self.h * solve(A.swapaxes(1, 2), lam[:, :, None])[:, :, 0]
        return T.swapaxes(1, 2) @ g.hessian_products(middle, U, mu) @ T


def solve(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Solutions (K, n, m) of A (K, n, n) and B; NaN where a matrix is singular or not finite."""
    try:
        return np.linalg.solve(A, B)
    except np.linalg.LinAlgError:
        if len(A) == 1:
            return np.full_like(B, np.nan)
        return np.concatenate([solve(A[t : t + 1], B[t : t + 1]) for t in range(len(A))])


def make_integrator(name: str | None, h: float) -> Integrator:
    """The integrator of this name; None for a discrete step."""
    if name is None:
        return Discrete()
    if name in TABLEAUS:
        a, b = TABLEAUS[name]
        return ExplicitRungeKutta(a, b, h)
    return SemiImplicitEuler(h) if name == "semi_implicit_euler" else ImplicitMidpoint(h)


# --------------------------------------------------------------------------------------------
# Whole steps of an integrator by the trace of what it integrates.


STEP_NODES = 60_000
"""Number of nodes of the graph that a step or a derivative of it may take, and as many more as its stages multiply
numbers in matrices without zeros, a quarter of them: longer programs take as long as these, and half a second to
write."""


class TracedStep:
    """A whole step of an integrator that can take symbols, and its derivatives, each in one program.

    Attributes
    ----------
    rolls : whether the step itself is, which may be too long for that
    """

    def __init__(self, integrator: Integrator, source: TracedDerivatives) -> None:
        self.integrator = integrator
        self.tapes = source.tapes if isinstance(integrator, Discrete) else tapes_of_step(integrator, source.expressions)
        try:
            self.tapes.program(0)
            self.rolls = True
        except Untraceable:
            self.rolls = False

    def step(self, g: Differentiated, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """x+ (K, nx)."""
        return self.tapes.evaluate(plain(X), plain(U)) if self.rolls else self.integrator.step(g, X, U)

    def roll_out(self, loop: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
        """See `dynamics.tape.interpreter`."""
        return closed_loops(self.tapes.program(0)[0], loop)

    def prepared_steps(self, X: np.ndarray, U: np.ndarray, following: np.ndarray) -> PreparedLaunch:
        """The call of `step` that writes into `following` (K, nx)."""
        return self.tapes.prepared(0, X, U, into=following)[0]

    def prepared_rollouts(self, loop: tuple[np.ndarray, ...], X: np.ndarray, U: np.ndarray) -> PreparedLaunch:
        """The call of `roll_out` that writes into X (A, N+1, nx) and U (A, N, nu)."""
        return write_closed_loops(self.tapes.program(0)[0], loop, X, U, PreparedLaunch)

    def prepared_derivatives(
        self, X: np.ndarray, U: np.ndarray, first: Sequence[np.ndarray], lam: np.ndarray | None, H: Sequence[np.ndarray]
    ) -> PreparedCalls | None:
        """Calls that write fx and fu into `first`, and with lam (N, nx) the Hessian of lam'f into its blocks H; None
        where one of the programs is too long."""
        try:
            jacobians, J = self.tapes.prepared(1, X, U)
            calls = [jacobians, PreparedCall(split_columns, J, *first)]
            if lam is not None:
                hessians, B = self.tapes.prepared(2, X, U, lam)
                calls += [hessians, PreparedCall(split_hessian, B, *H)]
        except Untraceable:
            return None
        return PreparedCalls(*calls)

    def jacobians(self, g: Differentiated, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """[fx fu] (K, nx, nz)."""
        try:
            return self.tapes.jacobians(plain(X), plain(U))
        except Untraceable:
            return self.integrator.jacobians(g, X, U)

    def hessian_products(self, g: Differentiated, X: np.ndarray, U: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Hessian (K, nz, nz) of lam'f."""
        try:
            return self.tapes.hessian_products(plain(X), plain(U), plain(lam))
        except Untraceable:
            return self.integrator.hessian_products(g, X, U, lam)


def tapes_of_step(integrator: Integrator, f: Expressions) -> Tapes:
    """Programs of the step and its derivatives, from expressions f of what is integrated."""
    e = Expressions(len(f.x), len(f.u), lambda x, u: integrator.step(f, x[None], u[None])[0])
    x, u, mu = e.x[None], e.u[None], e.mu[None]
    nx, nz = x.shape[1], x.shape[1] + u.shape[1]
    return Tapes(
        e,
        lambda: e.y[None],
        lambda: integrator.jacobians(f, x, u),
        lambda: mirrored(integrator.hessian_products(f, x, u, mu)),
        (f.content, type(integrator), *vars(integrator).values()),
        fuse=not isinstance(integrator, SemiImplicitEuler),  # whose blocks are equal to the last bit
        nodes=STEP_NODES + nx * nx * nz,
    )


def mirrored(H: np.ndarray) -> np.ndarray:
    """The upper triangles of (K, n, n) in place of the lower ones."""
    below = np.tril_indices(H.shape[-1], -1)
    H[:, below[0], below[1]] = H[:, below[1], below[0]]
    return H


# --------------------------------------------------------------------------------------------
# One compiled step of each integrator over a user's numba function; the formulas are those above.
#
# A step is step(h, x, u, work, x_next) with `work` scratch of numbers(nx, nu) floats.  Only the implicit rule needs
# derivatives here: the Jacobian of g at one point, by the same source that serves `linearize`.


class CompiledPlant(NamedTuple):
    """What a compiled step depends on; two systems that agree in it share their compiled code."""

    function: Any
    in_place: bool
    integrator: str | None
    jacobians: Any = None
    """For the implicit rule: the user's compiled Jacobians, "complex_step", or the steps of finite differences."""


@lru_cache(KEPT)
def step_kernel(plant: CompiledPlant) -> tuple[Callable, Callable]:
    """step(h, x, u, work, x_next) and numbers(nx, nu)."""
    g = in_place_form(plant.function, plant.in_place)
    if plant.integrator is None:
        return _discrete(g)
    if plant.integrator == "semi_implicit_euler":
        return _semi_implicit_euler(g)
    if plant.integrator == "implicit_midpoint":
        return _implicit_midpoint(g, _point_jacobian(g, plant.jacobians))
    return _runge_kutta(g, *TABLEAUS[plant.integrator])


def _discrete(g):
    @njit(**OPTIONS)
    def step(h, x, u, work, x_next):
        g(x, u, x_next)

    @njit(**OPTIONS)
    def numbers(nx, nu):
        return 0

    return step, numbers


def _runge_kutta(g, a, b):
    shifts, stages = np.array((0.0, *a)), len(b)
    weights = np.array(b)

    @njit(**OPTIONS)
    def step(h, x, u, work, x_next):
        n = x.shape[0]
        k, stage = work[:n], work[n : 2 * n]
        for s in range(stages):
            if s == 0:
                g(x, u, k)
            else:
                for i in range(n):
                    stage[i] = x[i] + h * shifts[s] * k[i]
                g(stage, u, k)
            for i in range(n):
                x_next[i] = (x_next[i] if s else 0.0) + weights[s] * k[i]
        for i in range(n):
            x_next[i] = x[i] + h * x_next[i]

    @njit(**OPTIONS)
    def numbers(nx, nu):
        return 2 * nx

    return step, numbers


def _semi_implicit_euler(g):
    @njit(**OPTIONS)
    def step(h, x, u, work, x_next):
        n = x.shape[0] // 2
        g(x, u, work)
        for i in range(n):
            x_next[n + i] = x[n + i] + h * work[n + i]
            x_next[i] = x[i] + h * x_next[n + i]

    @njit(**OPTIONS)
    def numbers(nx, nu):
        return nx

    return step, numbers


def _implicit_midpoint(g, jacobian):
    @njit(**OPTIONS)
    def step(h, x, u, work, x_next):
        n, nz = x.shape[0], x.shape[0] + u.shape[0]
        k, middle, r = work[:n], work[n : 2 * n], work[2 * n : 3 * n]
        G = work[3 * n : 3 * n + n * nz].reshape(n, nz)
        A = work[3 * n + n * nz :].reshape(n, n)
        g(x, u, k)
        for _ in range(NEWTON_ITERATIONS):
            for i in range(n):
                middle[i] = x[i] + 0.5 * h * k[i]
            if not finite(middle):
                break
            g(middle, u, r)
            jacobian(middle, u, G)
            for i in range(n):
                r[i] -= k[i]
                for j in range(n):
                    A[i, j] = -0.5 * h * G[i, j]
                A[i, i] += 1.0
            _solve_in_place(A, r)
            change, rate, state = 0.0, 0.0, 0.0
            for i in range(n):
                k[i] += r[i]
                change, rate, state = max(change, abs(r[i])), max(rate, abs(k[i])), max(state, abs(x[i]))
            if finite(k) and h * change <= NEWTON_TOLERANCE * (state + h * rate):
                for i in range(n):
                    x_next[i] = x[i] + h * k[i]
                return
        x_next[:] = np.nan

    @njit(**OPTIONS)
    def numbers(nx, nu):
        return 3 * nx + nx * (nx + nu) + nx * nx

    return step, numbers


@njit(**OPTIONS)
def _solve_in_place(A, b):
    """b <- A^-1 b by elimination with row pivoting; A is destroyed; a singular A gives inf or NaN."""
    n = b.shape[0]
    for c in range(n):
        p = c
        for i in range(c + 1, n):
            if abs(A[i, c]) > abs(A[p, c]):
                p = i
        if p != c:
            for j in range(c, n):
                A[c, j], A[p, j] = A[p, j], A[c, j]
            b[c], b[p] = b[p], b[c]
        for i in range(c + 1, n):
            factor = A[i, c] / A[c, c]
            for j in range(c + 1, n):
                A[i, j] -= factor * A[c, j]
            b[i] -= factor * b[c]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            b[i] -= A[i, j] * b[j]
        b[i] /= A[i, i]


def _point_jacobian(g, source):
    """jacobian(x, u, G): [g_x g_u] at one point."""
    if source == "complex_step":
        return _complex_step_jacobian(g)
    if isinstance(source, tuple):
        return _difference_jacobian(g, np.array(source))
    jacobians = recompiled(source)

    @njit(**OPTIONS)
    def jacobian(x, u, G):
        fx, fu = jacobians(x, u)
        G[:, : x.shape[0]] = fx
        G[:, x.shape[0] :] = fu

    return jacobian


def _complex_step_jacobian(g):
    @njit(**OPTIONS)
    def jacobian(x, u, G):
        n = x.shape[0]
        z = np.empty(n + u.shape[0], np.complex128)
        y = np.empty(n, np.complex128)
        z[:n] = x
        z[n:] = u
        for j in range(z.shape[0]):
            z[j] += 1j * COMPLEX_STEP
            g(z[:n], z[n:], y)
            z[j] = z[j].real
            for i in range(n):
                G[i, j] = y[i].imag / COMPLEX_STEP

    return jacobian


def _difference_jacobian(g, scale):
    @njit(**OPTIONS)
    def jacobian(x, u, G):
        n = x.shape[0]
        z, y = np.empty(n + u.shape[0]), np.empty(n)
        z[:n] = x
        z[n:] = u
        for j in range(z.shape[0]):
            center, h = z[j], JACOBIAN_STEP * scale[j]
            G[:, j] = 0.0
            for shift, weight in ((1.0, 8.0), (-1.0, -8.0), (2.0, -1.0), (-2.0, 1.0)):
                z[j] = center + shift * h
                g(z[:n], z[n:], y)
                for i in range(n):
                    G[i, j] += weight * y[i] / (12.0 * h)
            z[j] = center

    return jacobian
