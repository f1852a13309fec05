"""A user's own Jacobians and Hessian products of g, per point, on batches or compiled, as blocks in z = [x; u]."""

from collections.abc import Callable

import numpy as np
from numba.extending import is_jitted

from trajopt.callable_system.compiled_functions import hessian_loop, jacobian_loop
from trajopt.callable_system.derivatives import slopes
from trajopt.callable_system.functions import ARITHMETIC, Function, plain


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
    wanted = ", ".join(f"{block} {shape}" for block, _, shape in targets)
    if not isinstance(blocks, tuple) or len(blocks) != len(targets):
        raise TypeError(f"{name}: returned {type(blocks).__name__}, expected the tuple {wanted}")
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
            except ARITHMETIC:
                continue
            place(out[t], blocks)

    return call


def _by_point_if_it_fails(call):
    """Batches that raise as arithmetic does are evaluated again one point at a time: only the culprits stay NaN."""

    def guarded(out, *points):
        try:
            call(out, *points)
        except ARITHMETIC:
            out[...] = np.nan
            if len(out) > 1:
                for t in range(len(out)):
                    guarded(out[t : t + 1], *(p[t : t + 1] for p in points))

    return guarded


def _batch_call(function, place):
    return _by_point_if_it_fails(lambda out, *points: place(out, function(*points)))


def _compiled_call(loop):
    return _by_point_if_it_fails(lambda out, *points: loop(*map(plain, points), out))
