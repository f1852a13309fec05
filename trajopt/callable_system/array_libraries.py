"""User's functions of arrays of jax and torch: evaluated and differentiated by the library, all knots in one call."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from dynamics.distribution import how_to_install
from trajopt.callable_system.functions import Function, of_one_point

# --------------------------------------------------------------------------------------------
# jax.
#
# Everything runs in double precision inside `jax.enable_x64`, so the user's own setting stays what it is.


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


# --------------------------------------------------------------------------------------------
# PyTorch, in double precision.
#
# `torch.func` maps over points and differentiates backwards, twice for Hessians.  What it cannot map, as functions that
# branch on their arguments or write to tensors, goes through autograd one point at a time.


def load_torch() -> Any:
    """torch; ImportError naming the extra where it is not installed."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise ImportError(f"derivatives='torch' needs torch: {how_to_install('torch')}") from error


class TorchFunction(Function):
    """g(x, u) of tensors x (nx,) and u (nu,) of torch.float64, on the processor."""

    def __init__(
        self, name: str, function: Callable, nx: int, nu: int, vectorized: bool, ny: int | None = None
    ) -> None:
        super().__init__(name, of_one_point(name, function, vectorized, "torch"), nx, nu, ny)
        self.torch = load_torch()
        self._each = _Mapped(self.torch, self.point, self.point)

    def point(self, x: Any, u: Any) -> Any:
        """g at one point, a tensor (ny,) of torch.float64."""
        double, value = self.torch.float64, self.function(x, u)
        if isinstance(value, (tuple, list)):
            value = self.torch.stack([self.torch.as_tensor(v, dtype=double).reshape(()) for v in value])
        value = self.torch.as_tensor(value).to(device="cpu", dtype=double)
        if tuple(value.shape) != (self.ny,):
            raise ValueError(f"{self.name}: returned shape {tuple(value.shape)}, expected ({self.ny},)")
        return value

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, ny)."""
        with self.torch.no_grad():
            return self._each((self.ny,), X, U)


class TorchDerivatives:
    """Jacobians and Hessians of mu'g, backwards; noise (ny,): what `relative_noise` found."""

    name = "torch"
    compiled_jacobians = None

    def __init__(self, function: TorchFunction, noise: np.ndarray | None = None) -> None:
        torch, nx = function.torch, function.nx
        self.function, self.noise = function, noise
        jacrev, alone = torch.func.jacrev, torch.autograd.functional

        def joint(z: Any) -> Any:
            return function.point(z[:nx], z[nx:])

        def product(z: Any, mu: Any) -> Any:
            return mu @ joint(z)

        self._jacobians = _Mapped(torch, jacrev(joint), lambda z: alone.jacobian(joint, z))
        self._products = _Mapped(
            torch, jacrev(jacrev(product)), lambda z, mu: alone.hessian(lambda z: product(z, mu), z)
        )

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, ny)."""
        return self.function.evaluate(X, U)

    def jacobians(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """[g_x g_u] (K, ny, nz)."""
        Z = np.concatenate([X, U], axis=1)
        return self._jacobians((self.function.ny, Z.shape[1]), Z)

    def hessian_products(self, X: np.ndarray, U: np.ndarray, mu: np.ndarray) -> np.ndarray:
        """Hessian (K, nz, nz) of mu'g."""
        Z = np.concatenate([X, U], axis=1)
        H = self._products((Z.shape[1], Z.shape[1]), Z, mu)
        return 0.5 * (H + H.swapaxes(1, 2))


class _Mapped:
    """A function of tensors at K points: mapped over them by `torch.func.vmap`, or, once that has failed, another one
    for the same, point by point."""

    def __init__(self, torch: Any, mapped: Callable[..., Any], alone: Callable[..., Any]) -> None:
        self.torch, self.mapped, self.alone = torch, torch.func.vmap(mapped), alone
        self.maps = True

    def __call__(self, shape: tuple[int, ...], *arrays: np.ndarray) -> np.ndarray:
        """Numbers (K, *shape)."""
        if not len(arrays[0]):
            return np.empty((0, *shape))
        tensors = [self.torch.from_numpy(np.array(a, dtype=np.float64)) for a in arrays]
        if self.maps:
            try:
                return np.array(self.mapped(*tensors).detach().numpy())
            except RuntimeError:  # it asks tensors for numbers, writes to them, or is wrong, as is seen next
                self.maps = False
        return np.stack([self.alone(*point).detach().numpy() for point in zip(*tensors, strict=True)])
