"""A user's function written with jax.numpy: evaluated and differentiated by jax, all knots in one call.

Everything runs in double precision inside `jax.enable_x64`, so the user's own setting stays what it is.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics.distribution import how_to_install
from trajopt.callable_system.functions import Function, of_one_point


def load_jax(who: str = "derivatives='jax'") -> tuple[Any, Any]:
    """jax and jax.numpy; ImportError naming the extra where they are not installed."""
    try:
        import jax  # pyright: ignore[reportMissingImports]
        import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError(f"{who} needs jax: {how_to_install('jax')}") from error
    return jax, jnp


def double_precision() -> Any:
    """A context in which jax computes in float64."""
    return load_jax()[0].enable_x64(True)


class JaxFunction(Function):
    """g(x, u), traced by jax."""

    def __init__(
        self, name: str, function: Callable, nx: int, nu: int, vectorized: bool, ny: int | None = None
    ) -> None:
        super().__init__(name, of_one_point(name, function, vectorized, "jax"), nx, nu, ny)
        jax, jnp = load_jax()
        g = self.function
        self._batch = _padded(jax.jit(jax.vmap(lambda x, u: jnp.asarray(g(x, u), float))))

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, ny)."""
        Y = self._batch(X, U)
        if Y.shape != (len(X), self.ny):
            raise ValueError(f"{self.name}: returned shape {Y.shape[1:]}, expected ({self.ny},)")
        return Y


class JaxDerivatives:
    """Jacobians by forward differentiation, Hessians of mu'g by jax.hessian; noise (ny,) by `relative_noise`."""

    name = "jax"
    compiled_jacobians = None

    def __init__(self, function: Function, noise: np.ndarray | None = None) -> None:
        jax, jnp = load_jax()
        self.function, self.noise, nx, g = function, noise, function.nx, function.function

        def joint(z):
            return jnp.asarray(g(z[:nx], z[nx:]), float)

        self._jacobians = _padded(jax.jit(jax.vmap(jax.jacfwd(joint))))
        self._products = _padded(jax.jit(jax.vmap(jax.hessian(lambda z, mu: mu @ joint(z)), in_axes=(0, 0))))

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, ny)."""
        return self.function.evaluate(X, U)

    def jacobians(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """[g_x g_u] (K, ny, nz)."""
        return self._jacobians(np.concatenate([X, U], axis=1))

    def hessian_products(self, X: np.ndarray, U: np.ndarray, mu: np.ndarray) -> np.ndarray:
        """Hessian (K, nz, nz) of mu'g."""
        H = self._products(np.concatenate([X, U], axis=1), mu)
        return 0.5 * (H + H.swapaxes(1, 2))


def _padded(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """A function of K points in double precision, to which jax gives the next power of two of them: it compiles a
    function anew for every number of points."""

    def call(*arrays: np.ndarray) -> np.ndarray:
        K = len(arrays[0])
        rows = np.minimum(np.arange(1 << max(K - 1, 0).bit_length()), max(K - 1, 0))
        if not K:
            arrays = tuple(np.zeros((1, *a.shape[1:])) for a in arrays)
        with double_precision():
            return np.array(function(*(a[rows] for a in arrays)))[:K]

    return call
