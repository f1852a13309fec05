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

from typing import Protocol

import numpy as np

from dynamics.tape.symbol import product
from trajopt.callable_system.derivatives import Differentiated

ORDERS: dict[str | None, int] = {
    "explicit_euler": 1, "semi_implicit_euler": 1, "rk2": 2, "rk4": 4, "implicit_midpoint": 2,
}  # fmt: skip
INTEGRATORS = ("explicit_euler", "semi_implicit_euler", "rk2", "rk4", "implicit_midpoint")

NEWTON_ITERATIONS = 30
NEWTON_TOLERANCE = 1e-12
"""Of the last step, relative to the state; convergence is quadratic, so what is left is below rounding."""

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
        """Those of g."""
        return g.jacobians(X, U)

    def hessian_products(self, g: Differentiated, X: np.ndarray, U: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Those of g."""
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
