"""A user's function written with jax.numpy: evaluated and differentiated by jax, all knots in one call.

Everything runs in double precision inside `jax.enable_x64`, so the user's own setting stays what it is.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics.distribution import how_to_install
from trajopt.callable_system.functions import Function, wants_output


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
    """g(x, u) of one point, traced by jax."""

    def __init__(self, name: str, function: Callable, nx: int, nu: int, vectorized: bool) -> None:
        if vectorized:
            raise ValueError("vectorized: got True with derivatives='jax', wanted a function of one point")
        if wants_output(function):
            raise TypeError(f"{name}: writes to its argument out, wanted a function that returns its value for jax")
        super().__init__(name, function, nx, nu)
        jax, jnp = load_jax()
        self._batch = jax.jit(jax.vmap(lambda x, u: jnp.asarray(function(x, u), float)))

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, nx)."""
        with double_precision():
            Y = np.array(self._batch(X, U))
        if Y.shape != X.shape:
            raise ValueError(f"{self.name}: returned shape {Y.shape[1:]}, wanted ({self.nx},)")
        return Y


class JaxDerivatives:
    """Jacobians by forward differentiation, Hessians of mu'g by jax.hessian."""

    name = "jax"
    compiled_jacobians = None

    def __init__(self, function: Function) -> None:
        jax, jnp = load_jax()
        self.function, nx, g = function, function.nx, function.function

        def joint(z):
            return jnp.asarray(g(z[:nx], z[nx:]), float)

        self._jacobians = jax.jit(jax.vmap(jax.jacfwd(joint)))
        self._products = jax.jit(jax.vmap(jax.hessian(lambda z, mu: mu @ joint(z)), in_axes=(0, 0)))

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, nx)."""
        return self.function.evaluate(X, U)

    def jacobians(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """[g_x g_u] (K, nx, nz)."""
        with double_precision():
            return np.array(self._jacobians(np.concatenate([X, U], axis=1)))

    def hessian_products(self, X: np.ndarray, U: np.ndarray, mu: np.ndarray) -> np.ndarray:
        """Hessian (K, nz, nz) of mu'g."""
        with double_precision():
            H = np.array(self._products(np.concatenate([X, U], axis=1), mu))
        return 0.5 * (H + H.swapaxes(1, 2))
