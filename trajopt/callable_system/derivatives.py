"""Derivatives of a user's function g(z), z = [x; u]: the user's own, complex steps, or differences.

Complex step, first order, exact to rounding [Squire & Trapp 1998]: dg/dz_j = Im g(z + i h e_j) / h with h = 1e-30.

Complex step, second order along a direction d [Lai & Crassidis 2008]: with w = exp(i pi/4), w^2 = i,

    Im[g(z + h w d) + g(z - h w d)] / h^2 = g''(d, d) - h^4/360 g^(6) + ...

Nothing large cancels: the first-order terms are Im(h w) g' and cancel to eps h |g'|, so the error is eps |g'| / h from
rounding and h^4/360 |g^(6)| from truncation, both about 1e-12 where g varies over lengths of one.

Central differences of fourth order along a direction:

    g'(d)    = [8 (g_1 - g_-1) - (g_2 - g_-2)] / 12 h
    g''(d,d) = [16 (g_1 + g_-1) - (g_2 + g_-2) - 30 g_0] / 12 h^2

with errors of about 1e-12 and 1e-10.  Where a function has a corner at the point itself, its slope jumps there by

    s = [4 (g_1 - 2 g_0 + g_-1) - (g_2 - 2 g_0 + g_-2)] / 2 h

but for h^3 times its fourth derivative, g'(d) is the mean of both slopes, and g''(d,d) without the jump is

    [(g_2 - 2 g_0 + g_-2) - 2 (g_1 - 2 g_0 + g_-1)] / 2 h^2.

Where the function hardly varies on one side, as where it is clipped, its slope is that of the other.  Mixed second
derivatives come from g''(d + e, d + e) by polarization.  All steps are multiplied by `scale`, the typical size of each
variable: the length over which g varies is unknown otherwise.

A function may be less exact than double precision: it computes in single precision, or iterates to a tolerance.  Its
noise sigma shows in high differences of values at m + 1 points so close that the function itself is a straight line
between them [Hamming 1973; More and Wild 2011],

    sigma_k^2 = (k!)^2/(2k)! mean (Delta^k g)^2

and differences then take steps of sigma^(1/3) and sigma^(1/4), longer than without it: those of lower orders, of which
truncation leaves nothing in these, so that a `scale` which is too large does no harm.
"""

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numba.extending import is_jitted

from trajopt.callable_system.functions import FAILURES, Function, hessian_loop, is_arithmetic, jacobian_loop, plain

COMPLEX_STEP = 1e-30
JACOBIAN_STEP = 2.0**-10
"""Step of differences, in units of the scale; a power of two, so that z + h is exact for z of size one."""
COMPLEX_CURVATURE_STEP = 2.0**-11
CURVATURE_STEP = 2.0**-8
NOISE_STEP, NOISE_POINTS, NOISE_ORDERS = 2.0**-20, 8, (3, 4, 5)
"""Distance of the points, of the scale, between which noise is measured, their number, and the differences used."""
CORNER = 1e-2
"""Fraction of second differences of values, of which a corner leaves no more; and of the slope on one side of it, below
which the function hardly varies on the other."""
LEAST_NOISE = 1e-11
"""Relative noise below this is that of double precision, of a function that sums and cancels, and counts as none."""


def relative_noise(function: Function, scale: np.ndarray, X: np.ndarray, U: np.ndarray) -> np.ndarray | None:
    """Noise (ny,) of each number of g, as a part of its size: the median over the points X (K, nx), U (K, nu), so that
    a corner at one of them is none.  None where it is that of double precision."""
    direction = scale * np.random.default_rng(0).uniform(0.5, 1.0, len(scale))
    line = NOISE_STEP * np.arange(NOISE_POINTS)[:, None] * direction
    found = []
    for x, u in zip(X, U, strict=True):
        points = zip(x + line[:, : len(x)], u + line[:, len(x) :], strict=True)
        Y = np.concatenate([function.evaluate(a[None], b[None]) for a, b in points])  # compiled loops need not be
        if np.isfinite(Y).all():
            found.append(noise_between(Y) / np.maximum(np.abs(Y).max(axis=0), np.finfo(float).tiny))
    noise = np.median(found, axis=0) if found else np.zeros(function.ny)
    return noise if noise.max(initial=0.0) > LEAST_NOISE else None


def noise_between(Y: np.ndarray) -> np.ndarray:
    """sigma (...) of values Y (m + 1, ...) at points on a line, equally far from each other and close together."""
    of_order = [
        math.factorial(k) ** 2 / math.factorial(2 * k) * np.square(np.diff(Y, k, axis=0)).mean(axis=0)
        for k in NOISE_ORDERS
    ]
    return np.sqrt(np.min(of_order, axis=0))


class Differentiated(Protocol):
    """g and its derivatives at K points, numbers or symbols."""

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, ny)."""
        ...

    def jacobians(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """[g_x g_u] (K, ny, nz), a fresh array."""
        ...

    def hessian_products(self, X: np.ndarray, U: np.ndarray, mu: np.ndarray) -> np.ndarray:
        """Hessian (K, nz, nz) of mu'g, mu (K, ny), symmetric."""
        ...


class DerivativeSource(Differentiated, Protocol):
    """Derivatives of a user's function, and their source."""

    @property
    def name(self) -> str:
        """What `CallableSystem.derivative_source` says."""
        ...

    @property
    def compiled_jacobians(self) -> Any:
        """`CompiledPlant.jacobians` for compiled implicit steps; None if these derivatives cannot be compiled into
        them."""
        ...


class Perturbing:
    """Evaluation of g at points displaced along many directions, and Hessians by polarization."""

    name: str
    compiled_jacobians: Any
    noise: np.ndarray | None = None
    why_not_traced: str | None = None

    def __init__(self, function: Function, scale: np.ndarray) -> None:
        self.function, self.scale = function, scale
        nz = len(scale)
        self._pairs = np.triu_indices(nz, 1)
        axes = np.diag(scale)
        self._directions = np.concatenate([axes, axes[self._pairs[0]] + axes[self._pairs[1]]])

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, nx)."""
        return self.function.evaluate(X, U)

    def jacobians(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """[g_x g_u] (K, ny, nz)."""
        raise NotImplementedError

    def _curvature(self, X, U, mu):
        """mu'g''(d, d) (K, m) along the directions (m, nz)."""
        raise NotImplementedError

    def hessian_products(self, X: np.ndarray, U: np.ndarray, mu: np.ndarray) -> np.ndarray:
        """Hessian (K, nz, nz) of mu'g from g''(d, d) along all e_j and e_j + e_k, times their scales."""
        nz, (j, k) = len(self.scale), self._pairs
        c = self._curvature(X, U, mu)
        H = np.empty((len(X), nz, nz))
        H[:, range(nz), range(nz)] = c[:, :nz]
        H[:, j, k] = H[:, k, j] = 0.5 * (c[:, nz:] - c[:, j] - c[:, k])
        return H / np.outer(self.scale, self.scale)


class ComplexStep(Perturbing):
    """Derivatives of functions that are analytic and take complex arrays."""

    name = "complex_step"
    compiled_jacobians = "complex_step"

    def __init__(self, function: Function, scale: np.ndarray) -> None:
        super().__init__(function, scale)
        self._axes = 1j * COMPLEX_STEP * np.eye(len(scale))
        shift = COMPLEX_CURVATURE_STEP * np.exp(0.25j * np.pi) * self._directions
        self._shifts = np.concatenate([shift, -shift])

    def jacobians(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """[g_x g_u] (K, nx, nz), exact to rounding."""
        Y = self.function.displaced(X, U, self._axes)
        return np.ascontiguousarray(np.imag(Y).swapaxes(1, 2)) / COMPLEX_STEP

    def _curvature(self, X, U, mu):
        Y, m = np.imag(self.function.contracted(X, U, mu, self._shifts)), len(self._directions)
        return (Y[:, :m] + Y[:, m:]) / COMPLEX_CURVATURE_STEP**2


class FiniteDifferences(Perturbing):
    """Central differences of fourth order, for functions that take real numbers only; noise (ny,): what
    `relative_noise` found."""

    name = "finite_differences"

    def __init__(self, function: Function, scale: np.ndarray, noise: np.ndarray | None = None) -> None:
        super().__init__(function, scale)
        self.noise = noise
        self._step, self._curvature_step = difference_steps(noise)
        D = self._curvature_step * self._directions
        self._shifts = np.concatenate([D, -D, 2 * D, -2 * D, np.zeros((1, len(scale)))])

    @property
    def compiled_jacobians(self) -> tuple[float, ...]:
        """The steps that compiled differences take."""
        return tuple(self.scale.tolist())

    def jacobians(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """[g_x g_u] (K, nx, nz)."""
        if self.noise is not None:
            return slopes(self.function.displaced, X, U, self.scale, self._step)
        D = np.concatenate([stencil(self._step * self.scale), np.zeros((1, len(self.scale)))])
        Y = self.function.displaced(X, U, D)
        J = first_derivatives(Y[:, :-1], self._step * self.scale)
        near, far = second_differences(Y)
        jump = np.where(has_corner(near, far), 4.0 * near - far, 0.0).swapaxes(1, 2) / (2.0 * self._step * self.scale)
        flat = np.abs(np.abs(J) - 0.5 * np.abs(jump)) < CORNER * np.abs(jump)
        return np.where(flat, J + 0.5 * np.sign(J) * np.abs(jump), J)

    def _curvature(self, X, U, mu):
        near, far = second_differences(self.function.contracted(X, U, mu, self._shifts)[:, :, None])
        smooth = (16.0 * near - far) / 12.0
        if self.noise is None:
            smooth = np.where(has_corner(near, far), 0.5 * far - near, smooth)
        return smooth[:, :, 0] / self._curvature_step**2


def second_differences(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """g_1 - 2 g_0 + g_-1 and g_2 - 2 g_0 + g_-2 (K, m, n) of values Y (K, 4 m + 1, n) at points d, -d, 2 d, -2 d of m
    directions, and in the middle."""
    one, minus_one, two, minus_two = np.split(Y[:, :-1], 4, axis=1)
    middle = 2.0 * Y[:, -1:]
    return one + minus_one - middle, two + minus_two - middle


def has_corner(near: np.ndarray, far: np.ndarray) -> np.ndarray:
    """True where second differences are those of a corner in the middle: the farther twice the nearer, not four."""
    return np.abs(far - 2.0 * near) < CORNER * np.abs(far)


def difference_steps(noise: np.ndarray | None) -> tuple[float, float]:
    """Steps of first and second differences, powers of two, for a function with this relative noise (ny,)."""
    if noise is None:
        return JACOBIAN_STEP, CURVATURE_STEP
    first, second = (2.0 ** round(math.log2(float(noise.max())) / power) for power in (3, 4))
    return min(max(first, JACOBIAN_STEP), 0.125), min(max(second, CURVATURE_STEP), 0.25)


def slopes(
    displaced: Callable, X: np.ndarray, U: np.ndarray, scale: np.ndarray, step: float = JACOBIAN_STEP
) -> np.ndarray:
    """Jacobian (K, n, nz) of what displaced(X, U, D) evaluates, (K, m, n), by fourth-order differences."""
    return first_derivatives(displaced(X, U, stencil(step * scale)), step * scale)


def stencil(h: np.ndarray) -> np.ndarray:
    """Displacements (4 nz, nz) by h, -h, 2 h, -2 h along each axis."""
    D = np.diag(h)
    return np.concatenate([D, -D, 2 * D, -2 * D])


def first_derivatives(Y: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Jacobian (K, n, nz) from values Y (K, 4 nz, n) at a stencil."""
    one, minus_one, two, minus_two = np.split(Y, 4, axis=1)
    difference = 8.0 * (one - minus_one) - (two - minus_two)
    return np.ascontiguousarray(difference.swapaxes(1, 2)) / (12.0 * h)


# --------------------------------------------------------------------------------------------
# A user's own Jacobians and Hessian products of g, per point, on batches or compiled, as blocks in z = [x; u].


class UserDerivatives:
    """The user's Jacobians, and their Hessian products or else central differences of the Jacobians.

    Parameters
    ----------
    function : g itself
    jacobians(x, u) -> fx (nx, nx), fu (nx, nu)
    products(x, u, lam) -> Hxx (nx, nx), Hux (nu, nx), Huu (nu, nu), or None
    vectorized : all of them take and return batches
    scale : (nz,) typical size of each variable
    X, U : sample points; what the functions return at the first is checked, without compiling them
    """

    noise: np.ndarray | None = None

    def __init__(
        self,
        function: Function,
        jacobians: Callable,
        products: Callable | None,
        vectorized: bool,
        scale: np.ndarray,
        X: np.ndarray,
        U: np.ndarray,
    ) -> None:
        self.function, self.scale = function, scale
        self._jacobians = _batched("jacobians", jacobians, vectorized, jacobian_loop, self._jacobian_blocks)
        self._products = (
            None
            if products is None
            else _batched("hessian_products", products, vectorized, hessian_loop, self._hessian_blocks)
        )
        self.compiled_jacobians = jacobians if is_jitted(jacobians) and not vectorized else None
        self.name = "user_jacobians" if products is None else "user"
        plain_jacobians = getattr(jacobians, "py_func", jacobians)
        _batched("jacobians", plain_jacobians, vectorized, None, self._jacobian_blocks)(X[:1], U[:1])
        if products is not None:
            plain_products = getattr(products, "py_func", products)
            _batched("hessian_products", plain_products, vectorized, None, self._hessian_blocks)(X[:1], U[:1], X[:1])

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, nx)."""
        return self.function.evaluate(X, U)

    def jacobians(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """[g_x g_u] (K, nx, nz)."""
        return self._jacobians(X, U)

    def hessian_products(self, X: np.ndarray, U: np.ndarray, mu: np.ndarray) -> np.ndarray:
        """Hessian (K, nz, nz) of mu'g."""
        if self._products is None:
            H = self._differences(X, U, mu)
        else:
            H = self._products(X, U, mu)
        return 0.5 * (H + H.swapaxes(1, 2))

    def _differences(self, X, U, mu):
        """Fourth-order differences of mu'[g_x g_u]."""
        n = X.shape[1]

        def gradients(X, U, D):
            J = [self.jacobians(X + d[:n], U + d[n:]) for d in D]
            return np.stack([np.einsum("ki,kij->kj", mu, Jd) for Jd in J], axis=1)

        return slopes(gradients, X, U, self.scale)

    def _jacobian_blocks(self, J, blocks):
        n, m = self.function.nx, self.function.nu
        _place("jacobians", blocks, ("fx", J[..., :n], (n, n)), ("fu", J[..., n:], (n, m)))

    def _hessian_blocks(self, H, blocks):
        n, m = self.function.nx, self.function.nu
        _place(
            "hessian_products", blocks, ("Hxx", H[..., :n, :n], (n, n)), ("Hux", H[..., n:, :n], (m, n)),
            ("Huu", H[..., n:, n:], (m, m)),
        )  # fmt: skip
        H[..., :n, n:] = H[..., n:, :n].swapaxes(-1, -2)


def _place(name, blocks, *targets):
    """Copy what the user returned into the views (block name, view, its last axes), after a check of shapes."""
    expected = ", ".join(f"{block} {shape}" for block, _, shape in targets)
    if not isinstance(blocks, tuple) or len(blocks) != len(targets):
        raise TypeError(f"{name}: returned {type(blocks).__name__}, expected the tuple {expected}")
    for value, (block, view, _) in zip(blocks, targets, strict=True):
        if np.shape(value) != view.shape:
            raise ValueError(f"{name}, {block}: returned shape {np.shape(value)}, expected {view.shape}")
        view[...] = value


def _batched(name, function, vectorized, loop, place):
    """evaluate(X, U, ...) -> (K, ., .) from the user's function of one point or of many."""
    if is_jitted(function) and not vectorized:
        call = _compiled_call(loop(function))
    elif vectorized:
        call = _batch_call(function, place)
    else:
        call = _point_call(function, place)

    def evaluate(X, U, *mu):
        rows = X.shape[1] if name == "jacobians" else X.shape[1] + U.shape[1]
        out = np.full((len(X), rows, X.shape[1] + U.shape[1]), np.nan)
        with np.errstate(all="ignore"):
            call(out, X, U, *mu)
        return out

    return evaluate


def _point_call(function, place):
    def call(out, *points):
        for t in range(len(out)):
            try:
                blocks = function(*(p[t] for p in points))
            except FAILURES as error:
                if not is_arithmetic(error):
                    raise
                continue
            place(out[t], blocks)

    return call


def _by_point_if_it_fails(call):
    """Batches that raise as arithmetic does are evaluated again one point at a time: only the culprits stay NaN."""

    def guarded(out, *points):
        try:
            call(out, *points)
        except FAILURES as error:
            if not is_arithmetic(error):
                raise
            out[...] = np.nan
            if len(out) > 1:
                for t in range(len(out)):
                    guarded(out[t : t + 1], *(p[t : t + 1] for p in points))

    return guarded


def _batch_call(function, place):
    return _by_point_if_it_fails(lambda out, *points: place(out, function(*points)))


def _compiled_call(loop):
    return _by_point_if_it_fails(lambda out, *points: loop(*map(plain, points), out))
