"""Optimal control as a layer of JAX: trajectories as functions of parameters, with derivatives that cost less than a
solve.

Solves run on the host, by `jax.pure_callback`, a batch in one call.  The derivative is a product with the exact
derivatives of solutions (`trajopt.sensitivity`), also on the host: two primitives, each the transpose of the other,
give both modes.  The host keeps the last points by p and warm start, so that the backward pass solves nothing again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from trajopt.callable_system.array_libraries import load_jax
from trajopt.layers import Covectors, LayerHost, check_widths, warm_start_of
from trajopt.problem.problem import Problem
from trajopt.results.records import ConstraintReport, WarmStart

jax, jnp = load_jax("trajopt.jax")
ad, batching, core, mlir = (
    import_module(f"jax.{name}")
    for name in ("interpreters.ad", "interpreters.batching", "extend.core", "interpreters.mlir")
)


SECOND = (
    "optimal_control: got second derivatives asked for, expected first ones (jax.grad, jax.jacrev, jax.jacfwd); "
    "second ones are differences of these, or Gauss-Newton's J'J of residuals with J by jax.jacrev"
)
"""Message for second derivatives."""
NUMBERS = "values", "lower", "upper", "multipliers", "penalty", "factors", "weights", "rounding"
"""Fields of a report of constraints that are traced; its name, knots and components are the same for all of a batch."""


def _numbers(report: ConstraintReport) -> tuple[Any, Any]:
    return [getattr(report, name) for name in NUMBERS], (report.name, tuple(report.knots), report.components)


def _report(of: Any, numbers: Any) -> ConstraintReport:
    name, knots, components = of
    given = dict(zip(NUMBERS, numbers, strict=True))
    return ConstraintReport(name, np.array(knots, dtype=int), components=components, **given)


jax.tree_util.register_pytree_node(ConstraintReport, _numbers, _report)


class OptimalControl:
    """The layer that `optimal_control` makes."""

    def __init__(self, make_problem: Callable[[Any], Problem], solver: Any, example: Any, memory: int) -> None:
        self._make_problem, self._solver, self._memory, self._example = make_problem, solver, memory, example
        self._hosts: dict[_Form, LayerHost] = {}
        self._layers: dict[tuple[_Form, _Form], _Layer] = {}
        LayerHost(make_problem, solver, None, memory)  # raises for invalid arguments

    def __call__(self, p: Any, warm_start: Any = None) -> tuple[Any, Any, Any]:
        """Optimal xs (N+1, nx), us (N, nu) and cost () at p, from a solve that begins at the warm start: a `Solution`,
        or a `WarmStart`, which is a pytree of numbers that may be traced and mapped; None for the nearest known point.

        Raises: TypeError without jax_enable_x64, for numbers that are not float64, for an invalid warm start, and where
        sizes are not known; ValueError for a p unlike the example and a warm start of another system.
        """
        layer, flat, start = self._layer(p, warm_start)
        return layer.call(flat, start)

    def clear(self) -> None:
        """Forget all points, as when data that make_problem reads besides p have changed."""
        for host in self._hosts.values():
            host.clear()

    def failed(self, p: Any, warm_start: Any = None) -> Any:
        """True () if there is no solution at p, without derivatives; from memory, right after a call."""
        layer, flat, start = self._layer(p, warm_start)
        return layer.failed(jax.lax.stop_gradient(flat), start)

    def _layer(self, p: Any, warm_start: Any) -> tuple[_Layer, Any, Any]:
        """The layer for this form of p and of the warm start, and both as vectors."""
        if not jax.config.jax_enable_x64:
            raise TypeError("jax: got 32-bit numbers, expected jax.config.update('jax_enable_x64', True)")
        for leaf in jax.tree.leaves(p):
            if jnp.asarray(leaf).dtype != jnp.float64:
                raise TypeError(f"p: got {jnp.asarray(leaf).dtype}, expected float64")
        form = _Form.of(p)
        self._check_form(form)
        if form not in self._hosts:
            self._hosts[form] = LayerHost(_Formed(self._make_problem, form), self._solver, None, self._memory)
        host, flat = self._hosts[form], form.flat(p)
        with jax.ensure_compile_time_eval():  # make_problem may call jax itself, on numbers
            sizes = host.sizes() or host.sizes(self._seen(flat))
        if sizes is None:
            raise TypeError(
                "example: got None, expected a p, whose problem tells under jit and vmap how long arrays are"
            )
        start = _given(warm_start, *sizes[1:])
        key = form, _Form.of(start)
        if key not in self._layers:
            self._layers[key] = _Layer(host, key[1])
        return self._layers[key], flat, jax.lax.stop_gradient(key[1].flat(start))

    def _check_form(self, form: _Form) -> None:
        """Raise ValueError for a p unlike the example, above all for a batch, which the layer cannot recognize."""
        if self._example is None:
            return
        expected = _Form.of(self._example)
        if form != expected:
            raise ValueError(
                f"p: got arrays of shape {form.shapes}, expected {expected.shapes} as the example has them; of a batch "
                "take jax.vmap(layer)"
            )

    def _seen(self, flat: Any) -> np.ndarray | None:
        """The vector's numbers, or those of the example, if either is not traced."""
        if self._example is not None:
            return np.asarray(_Form.of(self._example).flat(jax.tree.map(np.asarray, self._example), np), float)
        if isinstance(flat, jax.core.Tracer):
            flat = flat.to_concrete_value()
        return None if flat is None else np.asarray(flat)


def _given(warm_start: Any, nx: int, nu: int) -> WarmStart | None:
    """The warm start, which has no batch axis; TypeError or ValueError where it is invalid for this system."""
    try:
        start = warm_start_of(warm_start)
        if start is not None:
            check_widths(start, nx, nu)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error}; of a batch take jax.vmap(layer), which maps p and warm starts alike") from None
    return start


class _Form(NamedTuple):
    """Layout of a tree of float64 in a vector."""

    tree: Any
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, tree: Any) -> _Form:
        leaves, form = jax.tree.flatten(tree)
        return cls(form, tuple(np.shape(leaf) for leaf in leaves))

    def flat(self, tree: Any, library: Any = jnp) -> Any:
        """The vector, an array of numpy if library is numpy, else of JAX."""
        leaves = [library.asarray(leaf, dtype=float).ravel() for leaf in jax.tree.leaves(tree)]
        return library.concatenate(leaves) if leaves else np.zeros(0)

    def formed(self, vector: np.ndarray) -> Any:
        """The tree of arrays, and of floats for arrays without dimensions."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        split = np.split(vector, ends[:-1]) if self.shapes else []
        parts = [part.reshape(shape) for part, shape in zip(split, self.shapes, strict=True)]
        return self.tree.unflatten([part if part.ndim else float(part) for part in parts])


class _Formed:
    """make_problem as a function of a vector, which it converts to the tree of arrays and numbers."""

    def __init__(self, make_problem: Callable[[Any], Problem], form: _Form) -> None:
        self.make_problem, self.form = make_problem, form

    def __call__(self, p: np.ndarray) -> Problem:
        return self.make_problem(self.form.formed(p))

    @property
    def wanted(self) -> tuple[str, ...] | None:
        """See `trajopt.problem.parametric.DeclaredParameters`: the names that make_problem declares."""
        return getattr(self.make_problem, "wanted", None)

    @property
    def chained(self) -> Callable[[Any, Any], Any] | None:
        """Gradient with respect to the vector from that with respect to the tree."""
        chained = getattr(self.make_problem, "chained", None)
        if chained is None:
            return None
        return lambda p, found: self.form.flat(chained(self.form.formed(p), found), np)


def _of_batches(method: Any) -> Any:
    """Decorator: a method for arrays with one batch axis in front applies to arrays with as many axes as the first one
    has before its last."""

    @wraps(method)
    def batched(self: _Layer, flat: Any, *given: Any) -> list[np.ndarray]:
        arrays, axes = [np.asarray(each) for each in (flat, *given)], flat.ndim - 1
        lead = np.broadcast_shapes(*(array.shape[:axes] for array in arrays))
        if arrays[0].dtype != np.float64:  # jax.enable_x64 as a context is local to a thread, and jax rounds numbers
            raise TypeError("jax: got 32-bit numbers on the host, expected jax.config.update('jax_enable_x64', True)")
        full = [np.broadcast_to(a, lead + a.shape[axes:]) for a in arrays]
        found = method(self, *(a.reshape((math.prod(lead), *a.shape[axes:])) for a in full))
        return [part.reshape(lead + part.shape[1:]) for part in found]

    return batched


class _Layer:
    """Solutions, and products with their derivatives, as functions of vectors p and of a warm start, each of one form.

    The functions of JAX may have axes of batches in front of all their arguments, each as long as the batch or one.
    """

    def __init__(self, host: LayerHost, form: _Form) -> None:
        self.host, self.form = host, form
        self.call = jax.custom_jvp(self._solutions)
        self.call.defjvp(self._linearized)

    def _linearized(self, at: Any, along: Any) -> tuple[Any, Any]:
        return self.call(*at), tuple(PUSH.bind(*at, along[0], layer=self))

    def _solutions(self, flat: Any, start: Any) -> Any:
        return tuple(self._on_host(self._solve, self.results(), flat, start))

    def failed(self, flat: Any, start: Any) -> Any:
        """True if there is no solution."""
        return self._on_host(self._failed, [((), bool)], flat, start)[0]

    def push(self, flat: Any, start: Any, dp: Any) -> list[Any]:
        """Changes of xs, us and cost with p along dp."""
        return self._on_host(self._push, self.results(), flat, start, dp)

    def pull(self, flat: Any, start: Any, *bars: Any) -> list[Any]:
        """The derivative of a loss with respect to p, from those with respect to xs, us and cost."""
        return self._on_host(self._pull, [(flat.shape[-1:], float)], flat, start, *bars)

    def results(self) -> list[tuple[tuple[int, ...], type]]:
        """Shapes and types of xs, us and cost."""
        N, nx, nu = self.host.sizes() or (0, 0, 0)
        return [((N + 1, nx), float), ((N, nu), float), ((), float)]

    @staticmethod
    def _on_host(function: Any, results: Any, flat: Any, *given: Any) -> list[Any]:
        lead = np.broadcast_shapes(*(each.shape[: flat.ndim - 1] for each in (flat, *given)))
        wanted = [jax.ShapeDtypeStruct((*lead, *shape), kind) for shape, kind in results]
        return list(jax.pure_callback(function, wanted, flat, *given, vmap_method="expand_dims"))

    # -------------------------------------------------------------------------------------------- on the host
    def _starts(self, starts: np.ndarray) -> list[WarmStart | None]:
        return [self.form.formed(start) for start in starts]

    @_of_batches
    def _solve(self, ps: np.ndarray, starts: np.ndarray) -> Any:
        return self.host.numbers(self.host.points(ps, self._starts(starts)))

    @_of_batches
    def _failed(self, ps: np.ndarray, starts: np.ndarray) -> Any:
        return (np.array([point.solution is None for point in self.host.points(ps, self._starts(starts))]),)

    @_of_batches
    def _push(self, ps: np.ndarray, starts: np.ndarray, dps: np.ndarray) -> Any:
        return self.host.jvp(self.host.again(ps, self._starts(starts)), dps)

    @_of_batches
    def _pull(self, ps: np.ndarray, starts: np.ndarray, *bars: np.ndarray) -> Any:
        each = [Covectors(xs, us, float(cost)) for xs, us, cost in zip(*bars, strict=True)]
        return (self.host.vjp(self.host.again(ps, self._starts(starts)), each),)


# ------------------------------------------------------------------------------------------------ primitives
def _linear(name: str) -> Any:
    """A primitive of p, a warm start, and the arguments in which it is linear: `push` or `pull` of a layer, its
    parameter."""
    primitive = core.Primitive(f"optimal_control_{name}")
    primitive.multiple_results = True

    def function(*given: Any, layer: _Layer) -> list[Any]:
        return getattr(layer, name)(*given)

    def shapes(flat: Any, *given: Any, layer: _Layer) -> list[Any]:
        results = layer.results() if name == "push" else [(flat.shape[-1:], float)]
        lead = np.broadcast_shapes(*(each.shape[: flat.ndim - 1] for each in (flat, *given)))
        return [jax.core.ShapedArray((*lead, *shape), np.dtype(kind)) for shape, kind in results]

    def along(at: Any, tangents: Any, layer: _Layer) -> tuple[Any, Any]:
        if type(tangents[0]) is not ad.Zero:
            raise NotImplementedError(SECOND)
        moved = map(ad.instantiate_zeros, tangents[2:])
        return primitive.bind(*at, layer=layer), primitive.bind(*at[:2], *moved, layer=layer)

    def mapped(given: Any, axes: Any, layer: _Layer) -> tuple[Any, Any]:
        size = next(a.shape[axis] for a, axis in zip(given, axes, strict=True) if axis is not None)
        # linear arguments have the batch's length, which the transpose must have
        sizes = [1, 1, *[size] * (len(given) - 2)]
        moved = [batching.bdim_at_front(a, axis, n) for a, axis, n in zip(given, axes, sizes, strict=True)]
        found = primitive.bind(*moved, layer=layer)
        return found, [0] * len(found)

    primitive.def_impl(function)
    primitive.def_abstract_eval(shapes)
    mlir.register_lowering(primitive, mlir.lower_fun(function, multiple_results=True))
    ad.primitive_jvps[primitive], batching.primitive_batchers[primitive] = along, mapped
    return primitive


PUSH, PULL = _linear("push"), _linear("pull")


def _transposes(one: Any, other: Any) -> None:
    def transposed(bars: Any, flat: Any, start: Any, *linear: Any, layer: _Layer) -> list[Any]:
        found = other.bind(flat, start, *map(ad.instantiate_zeros, bars), layer=layer)
        wanted = [x if ad.is_undefined_primal(y) else None for x, y in zip(found, linear, strict=True)]
        return [None, None, *wanted]

    ad.primitive_transposes[one] = transposed


_transposes(PUSH, PULL)
_transposes(PULL, PUSH)


def optimal_control(
    make_problem: Callable[[Any], Problem], solver: Any, *, example: Any = None, memory: int = 64
) -> OptimalControl:
    """A differentiable function of parameters: ``xs, us, cost = layer(p)``, the optimal trajectory and its cost.

    Parameters
    ----------
    make_problem : function of p that returns a Problem, as for `trajopt.sensitivity`: horizon and sizes stay the same;
        of p alone, since solutions are kept by p; ``layer.clear()`` forgets them
    solver : `ILQR`, `DDP`, or an object with their ``solve(problem, warm_start=)``
    example : a p whose problem gives the sizes; without one, the first p that is not traced does
    memory : number of last points that are kept; more than are in a batch, else the backward pass solves again; with 0,
        where it always does, a solve without a warm start begins without a start: equal p and warm starts have equal
        results whatever came before

    Returns
    -------
    OptimalControl, a function of p, an array or any pytree of float64, which make_problem receives with numpy's arrays,
    and floats for those without dimensions; it may call jax itself, under `jax.jit`, too.  `jax.grad`, `jax.jacrev`,
    `jax.jacfwd`, `jax.jvp`, `jax.jit` and `jax.vmap` apply to the layer; the problems of a batch are solved one after
    another.  ``layer.failed(p)`` is True where there is no solution.

    Raises
    ------
    TypeError : if an argument is no function or no solver; when called, without jax_enable_x64.
    ValueError : when called with a p that is not of the form of the example; batches go through `jax.vmap`.
    NotImplementedError : where second derivatives are asked for.

    Notes
    -----
    Each solve begins at the nearest point known, so that trajectories follow one branch of minima as p moves, or at the
    start of ``layer(p, warm_start=solution)``, and is polished by Newton steps.  For a batch use ``jax.vmap(lambda p,
    start: layer(p, warm_start=start))`` and warm starts (`Solution.warm_start`) whose arrays are stacked.  The solution
    from a warm start is kept by p and the start's numbers; a solve that fails from there has no solution, and results
    have no derivative with respect to starts.

    Where make_problem or the solve raises ValueError, does not converge, or ends at no strict minimum, all numbers are
    NaN, and so are gradients of losses that depend on them, with a warning.  Select before anything is computed from
    such numbers, ``jnp.where(layer.failed(p), 0.0, xs)``: then nothing depends on them, and gradients are zero.  Where
    limits are weakly active, gradients are those of one side, with a warning.
    """
    return OptimalControl(make_problem, solver, example, memory)
