"""Optimal control as a layer of JAX: trajectories of parameters, differentiated in reverse at what a solve costs less.

Solves run on the host, by `jax.pure_callback`; a `jax.custom_vjp` multiplies by the exact derivatives of solutions
(`trajopt.sensitivity`).  The host keeps the last points by the bytes of p, so that the way back solves nothing again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trajopt.callable_system.jax_functions import load_jax
from trajopt.layers import Covectors, LayerHost
from trajopt.problem.problem import Problem

jax, jnp = load_jax("trajopt.jax")


SECOND = (
    "optimal_control: got second derivatives asked for, expected first ones in reverse (jax.grad, jax.jacrev); "
    "second ones are differences of these, or Gauss-Newton's J'J of residuals with J by jax.jacrev"
)
"""What is said of derivatives of derivatives."""


class OptimalControl:
    """A layer; see `optimal_control`."""

    def __init__(self, make_problem: Callable[[Any], Problem], solver: Any, example: Any, memory: int) -> None:
        self._make_problem, self._solver, self._memory, self._example = make_problem, solver, memory, example
        self._of_forms: dict[Any, tuple[LayerHost, Any]] = {}
        LayerHost(make_problem, solver, None, memory)  # says what is wrong with them

    def __call__(self, p: Any) -> tuple[Any, Any, Any]:
        """Optimal xs (N+1, nx), us (N, nu) and cost () at p.

        Raises: TypeError without jax_enable_x64, for numbers that are not float64, and where sizes cannot be told.
        """
        flat, host, layer = self._form(p)
        if host.sizes() is None and host.sizes(self._seen(flat)) is None:
            raise TypeError("example: got None, wanted a p, whose problem tells under jit and vmap how long arrays are")
        return layer(flat)

    def clear(self) -> None:
        """Forget all points, as where what make_problem reads besides p has changed."""
        for host, _ in self._of_forms.values():
            host.clear()

    def failed(self, p: Any) -> Any:
        """Whether () there is no solution at p, without derivatives; from memory, right after a call."""
        flat, host, _ = self._form(p)
        wanted = jax.ShapeDtypeStruct((), bool)

        def on_host(flat):
            return np.array(host.points(np.asarray(flat)[None])[0].solution is None)

        return jax.pure_callback(on_host, wanted, jax.lax.stop_gradient(flat), vmap_method="sequential")

    def _form(self, p: Any) -> tuple[Any, LayerHost, Any]:
        """p as a vector, and the host and the layer of vectors of this form."""
        if not jax.config.jax_enable_x64:
            raise TypeError("jax: got 32-bit numbers, wanted jax.config.update('jax_enable_x64', True)")
        leaves, tree = jax.tree.flatten(p)
        leaves = [jnp.asarray(leaf) for leaf in leaves]
        for leaf in leaves:
            if leaf.dtype != jnp.float64:
                raise TypeError(f"p: got {leaf.dtype}, wanted float64")
        form = tree, tuple(leaf.shape for leaf in leaves)
        self._check_form(form)
        if form not in self._of_forms:
            host = LayerHost(_Formed(self._make_problem, *form), self._solver, None, self._memory)
            self._of_forms[form] = host, _layer(host)
        return jnp.concatenate([leaf.ravel() for leaf in leaves]), *self._of_forms[form]

    def _check_form(self, form: tuple[Any, tuple[tuple[int, ...], ...]]) -> None:
        """ValueError for a p unlike the example, above all for a batch, of which the layer knows nothing."""
        if self._example is None:
            return
        leaves, tree = jax.tree.flatten(self._example)
        expected = tree, tuple(np.shape(leaf) for leaf in leaves)
        if form != expected:
            raise ValueError(
                f"p: got arrays of shape {form[1]}, expected {expected[1]} as the example has them; of a batch take "
                "jax.vmap(layer)"
            )

    def _seen(self, flat: Any) -> np.ndarray | None:
        """The vector's numbers, or those of the example, if either can be seen."""
        if self._example is not None:
            leaves = [np.asarray(leaf, float) for leaf in jax.tree.leaves(self._example)]
            return np.concatenate([leaf.ravel() for leaf in leaves])
        if isinstance(flat, jax.core.Tracer):
            flat = flat.to_concrete_value()
        return None if flat is None else np.asarray(flat)


class _Formed:
    """make_problem of a vector: what it wants is a tree of arrays and numbers."""

    def __init__(self, make_problem: Callable[[Any], Problem], tree: Any, shapes: tuple[tuple[int, ...], ...]) -> None:
        self.make_problem, self.tree, self.shapes = make_problem, tree, shapes

    def __call__(self, p: np.ndarray) -> Problem:
        return self.make_problem(self._formed(p))

    def _formed(self, p: np.ndarray) -> Any:
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        parts = [part.reshape(shape) for part, shape in zip(np.split(p, ends[:-1]), self.shapes, strict=True)]
        return self.tree.unflatten([part if part.ndim else float(part) for part in parts])

    @property
    def wanted(self) -> tuple[str, ...] | None:
        """See `trajopt.problem.parametric.DeclaredParameters`: what make_problem says."""
        return getattr(self.make_problem, "wanted", None)

    @property
    def chained(self) -> Callable[[Any, Any], Any] | None:
        """The same of the vector."""
        chained = getattr(self.make_problem, "chained", None)
        if chained is None:
            return None
        return lambda p, found: np.concatenate([np.ravel(x) for x in jax.tree.leaves(chained(self._formed(p), found))])


def _layer(host: LayerHost) -> Any:
    """xs, us and cost as a function of a vector."""

    def solved(flat):
        return tuple(part[0] for part in host.numbers(host.points(np.asarray(flat)[None])))

    def multiplied(flat, xs, us, cost):
        bars = Covectors(np.asarray(xs), np.asarray(us), float(cost))
        return host.vjp([host.again(np.asarray(flat))], [bars])[0]

    def call(flat):
        N, nx, nu = host.sizes() or (0, 0, 0)
        wanted = [jax.ShapeDtypeStruct(shape, jnp.float64) for shape in ((N + 1, nx), (N, nu), ())]
        return jax.pure_callback(solved, tuple(wanted), flat, vmap_method="sequential")

    def back(flat, bars):
        wanted = jax.ShapeDtypeStruct(flat.shape, jnp.float64)
        return jax.pure_callback(multiplied, wanted, flat, *bars, vmap_method="sequential")

    layer, forth, product = jax.custom_vjp(call), _once(call), _once(back)
    layer.defvjp(lambda flat: (forth(flat), flat), lambda flat, bars: (product(flat, bars),))
    return layer


def _once(function: Any) -> Any:
    """A function whose derivative is refused in words."""

    def refused(*_: Any) -> Any:
        raise NotImplementedError(SECOND)

    guarded = jax.custom_jvp(function)
    guarded.defjvp(refused)
    return guarded


def optimal_control(
    make_problem: Callable[[Any], Problem], solver: Any, *, example: Any = None, memory: int = 64
) -> OptimalControl:
    """A differentiable function of parameters: ``xs, us, cost = layer(p)``, the optimal trajectory and its cost.

    Parameters
    ----------
    make_problem : function of p that returns a Problem, as for `trajopt.sensitivity`: horizon and sizes stay the same;
        of p alone, for solutions are remembered by p; ``layer.clear()`` forgets them
    solver : `ILQR`, `DDP`, or what has their ``solve(problem, warm_start=)``
    example : a p from whose problem sizes are taken; without one, from the first p that is not traced
    memory : how many of the last points are kept; more than are in a batch, else the way back solves again; with 0,
        as it then always does, each solve begins from nothing: equal p have equal answers whatever came before

    Returns
    -------
    OptimalControl, a function of p, an array or any pytree of float64, which make_problem gets as it is, with numpy's
    arrays, and floats for those of no dimension.  `jax.grad`, `jax.jit` and `jax.vmap` take it; a batch is solved one
    after the other.  ``layer.failed(p)`` says whether there is a solution.

    Raises
    ------
    TypeError : for what is no function, no solver; when called, without jax_enable_x64.
    ValueError : when called with a p that is not of the form of the example; batches go through `jax.vmap`.
    NotImplementedError : where second derivatives are asked for.

    Notes
    -----
    Each solve begins from the nearest point known, so that trajectories follow one branch of minima as p moves, and is
    polished by Newton steps.  Where make_problem or the solve raises ValueError, does not converge, or ends at no
    strict minimum, all numbers are NaN, and so are gradients of losses that depend on them, with a warning.
    Select before anything is computed from such numbers, ``jnp.where(layer.failed(p), 0.0, xs)``: then nothing depends
    on them, and gradients are zero.  Where limits are just touched, gradients are those of one side; a warning says so.
    """
    return OptimalControl(make_problem, solver, example, memory)
