"""Residuals from a user's function, differentiated as the functions of systems are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numba.extending import is_jitted
from numpy.typing import ArrayLike

from dynamics.simd.array_loops import split_columns
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.simd.squares import MULTIPLIERS, KnotSum, add_hessians, without_controls
from dynamics.validation import (
    as_choice,
    as_flag,
    as_names,
    as_sizes,
    as_text,
    as_whole_number,
    check_blocks,
    check_rows,
)
from trajopt.callable_system.functions import (
    FAILURES,
    CompiledFunction,
    Function,
    PointFunction,
    in_order,
    is_arithmetic,
    is_plain,
    plain,
    wants_output,
)
from trajopt.callable_system.renewed import Renewed, TracedCalls
from trajopt.callable_system.sources import (
    LIBRARIES,
    DerivativeRequest,
    TracedDerivatives,
    check_values,
    make_function,
    make_source,
    may_have_kinks,
    sample_points,
    up_to_date,
    with_library,
    words_of_python,
)
from trajopt.capabilities import StateManifold, capability
from trajopt.interfaces.residual import function_name
from trajopt.interfaces.system import System, as_manifold, check_system
from trajopt.interfaces.terms import state_space

_NO_JACOBIANS = np.empty((0, 0, 0))
DERIVATIVES = ("auto", "traced", "complex_step", "finite_differences", "jax", "torch")


def residual(
    function: Callable,
    nr: int | None,
    system: System,
    *,
    derivatives: str = "auto",
    vectorized: bool = False,
    scale: ArrayLike = 1.0,
    x_example: ArrayLike | None = None,
    u_example: ArrayLike | None = None,
    name: str = "residual",
    component_names: Sequence[str] = (),
) -> FunctionResidual:
    """A residual from a function of yours, for costs and constraints.

    Parameters
    ----------
    function : r(x) or r(x, u) -> nr numbers, an array or a tuple, of x (nx,) and u (nu,), which it leaves alone
        In plain Python or compiled by numba; r(x, u, out) may write in place.
    nr : numbers in the residual; None: as many as the function returns at the example, of which one may be a scalar
    system : whose states and controls they are; its states are plain numbers, and tangents what is added to them.
        Where these have equivalents, as of a `SoftRobotSystem` that turns, r ought to be the same for all
    derivatives : "auto" (default), "traced", "complex_step", "finite_differences", "jax" or "torch", as for
        `CallableSystem`
    vectorized : True if the function takes and returns batches, x (K, nx), u (K, nu), r (K, nr)
    scale : number or array (nx,), or (nx + nu,) for r(x, u): the size over which r varies, for finite steps
    x_example, u_example : a point at which the function is defined, zeros by default
    name, component_names : what messages call it, and its numbers (nr,)

    Raises
    ------
    TypeError, ValueError : names the argument, what it got and what was expected.
    """
    check_system(system, "nx", "ndx", "nu")
    if as_manifold(system) is not None and not capability(system, StateManifold).plain_tangent:
        raise ValueError(
            f"system: got {type(system).__name__}, whose states live on a manifold, expected plain numbers"
        )
    nr, vectorized = None if nr is None else as_whole_number("nr", nr, 1), as_flag("vectorized", vectorized)
    as_choice("derivatives", derivatives, DERIVATIVES)
    if not callable(function):
        raise TypeError(f"function: got {type(function).__name__}, expected a function")
    function = in_order("function", function)
    nx, nu = system.nx, 0 if _takes_states_alone(function) else system.nu
    request = DerivativeRequest(derivatives, None, None, vectorized, as_sizes("scale", scale, nx + nu))
    X, U = sample_points(x_example, u_example if nu else None, request.scale, nx, nu)
    if nr is None:
        function, nr = _with_count(function, X[:1], U[:1] if nu else None, vectorized)
    request = with_library(request, function if nu else partial(_of_state, function), X, U, nr)
    g = _function(function, nx, nu, nr, request)
    check_values("function", g, X, U, "give trajopt.residual")
    names = () if component_names == () else as_names("component_names", component_names, nr)
    made = FunctionResidual(g, request, (X, U), as_text("name", name), names)
    made.made_for = state_space(system)
    return made


def residual_of(function: Callable, system: System, x_example: np.ndarray | None) -> FunctionResidual:
    """What a term makes of a function for the system of its problem: named as the function is."""
    return residual(function, None, system, x_example=x_example, name=function_name(function))


def _with_count(function: Callable, x: np.ndarray, u: np.ndarray | None, vectorized: bool) -> tuple[Callable, int]:
    """The function, a scalar as one of one number, and how many numbers it has at x (1, nx), u (1, nu)."""
    if u is not None and wants_output(function):
        raise ValueError("nr: got None for a function that writes in place, expected how many numbers it writes")
    call, arguments = getattr(function, "py_func", function), (x,) if u is None else (x, u)
    try:
        with np.errstate(all="ignore"):
            y = np.asarray(call(*(a.copy() if vectorized else a[0].copy() for a in arguments)))
    except FAILURES as error:
        if not is_arithmetic(error):
            raise
        at = ", ".join(f"{name} = {a[0]}" for name, a in zip("xu", arguments, strict=False))
        raised = type(error).__name__
        raise ValueError(
            f"function: raises {raised} at {at}, expected x_example=, u_example= of trajopt.residual where it does not"
        ) from None
    except (LookupError, AttributeError) as error:
        expected = " and ".join(f"{name} of {a.shape[1]} numbers" for name, a in zip("xu", arguments, strict=False))
        raise ValueError(
            f"function: raises {type(error).__name__} ({error}), expected a function of {expected}"
        ) from error
    if y.dtype == object:
        raise TypeError(f"function: returned {y.tolist()!r:.80}, expected a number or a vector")
    if vectorized:
        if y.ndim != 2 or len(y) != 1 or not y.size:
            raise ValueError(f"function: returned shape {y.shape} for one point, expected (1, nr)")
        return function, y.shape[1]
    if y.ndim > 1 or not y.size:
        raise ValueError(f"function: returned shape {y.shape}, expected a number or a vector")
    if y.ndim == 1:
        return function, len(y)
    return (njit(lambda *z: (function(*z),)) if is_jitted(function) else partial(_as_vector, function)), 1


def _as_vector(function, *z):
    return (function(*z),)


def _takes_states_alone(function):
    try:
        parameters = inspect.signature(getattr(function, "py_func", function)).parameters.values()
    except (TypeError, ValueError):
        return False
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) == 1


def _function(function: Any, nx: int, nu: int, nr: int, request: DerivativeRequest) -> Function:
    if nu:
        return make_function("function", function, nx, nu, request, nr)
    adapted = partial(_of_state, function)
    if not is_jitted(function) or request.vectorized or request.kind in LIBRARIES:
        return make_function("function", adapted, nx, nu, request, nr)
    compiled = njit(lambda x, u: function(x))
    return CompiledFunction("function", compiled, nx, nu, nr, PointFunction("function", adapted, nx, nu, nr))


def _of_state(function, x, u):
    return function(x)


class FunctionResidual:
    """What `residual` makes: see there.

    Attributes
    ----------
    nr, name, component_names, made_for : as `trajopt.Residual` has them
    derivative_source : "traced", "complex_step", "finite_differences", "jax" or "torch"
    """

    made_for: Any = None

    def __init__(
        self,
        function: Function,
        request: DerivativeRequest,
        samples: tuple[np.ndarray, np.ndarray],
        name: str,
        component_names: tuple[str, ...],
    ) -> None:
        self.nr, self.name, self.component_names = function.ny, name, component_names
        self._nx, self._nu, self._u_example = function.nx, function.nu, samples[1][0].copy()
        self._function, self._source = function, make_source(function, request, *samples)

    @property
    def derivative_source(self) -> str:
        """Where derivatives come from."""
        return self._source.name

    @property
    def u_example(self) -> np.ndarray:
        """The example (nu,) given for the controls; zeros by default, of no length for a function r(x)."""
        return self._u_example.copy()

    @property
    def may_have_kinks(self) -> bool:
        """False if the function was traced, and has no condition and no abs, min, max or the like on its way."""
        return may_have_kinks(self._source)

    @property
    def why_in_python(self) -> str:
        """For messages where all of a problem has to be compiled: which function of the user is not, and why."""
        long = "takes, or its derivatives take, too many operations to be compiled"
        return words_of_python("function", self._function, self._source, long)

    @property
    def needs_controls(self) -> bool:
        """True for a function r(x, u)."""
        return self._nu > 0

    def __repr__(self) -> str:
        of = "x, u" if self._nu else "x"
        return f"FunctionResidual({self.name!r}, nr={self.nr}, of=({of}), derivative_source={self.derivative_source!r})"

    def _points(self, xs, us):
        if not self._nu:
            us = np.empty((len(xs), 0))
        elif us is None:
            raise ValueError(f"{self.name}: a function of controls at the terminal knot, which has none")
        return plain(xs), plain(us)

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nr)."""
        X, U = self._points(xs, us)
        with np.errstate(all="ignore"):
            r = self._source.evaluate(X, U)
            current = up_to_date(self._source, X, U, r)
            if current is not self._source:
                self._source = current
                r = current.evaluate(X, U)
        return r

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """rx (K, nr, nx), and ru (K, nr, nu) or None."""
        X, U = self._points(xs, us)
        with np.errstate(all="ignore"):
            self._source = up_to_date(self._source, X, U)
            return self._split(self._source.jacobians(X, U))

    def _split(self, J) -> tuple[np.ndarray, np.ndarray | None]:
        """rx and ru."""
        if not self._nu:
            return J, None
        return np.ascontiguousarray(J[:, :, : self._nx]), np.ascontiguousarray(J[:, :, self._nx :])

    def evaluate_with_jacobians(
        self, xs: np.ndarray, us: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """r (K, nr), rx (K, nr, nx), and ru (K, nr, nu) or None."""
        r = self.evaluate(xs, us)
        with np.errstate(all="ignore"):
            rx, ru = self._split(self._source.jacobians(*self._points(xs, us)))
        return r, rx, ru

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
        """Hessians of mu'r; None where they are zero everywhere."""
        X, U = self._points(xs, us)
        with np.errstate(all="ignore"):
            self._source = up_to_date(self._source, X, U)
            if isinstance(self._source, TracedDerivatives) and self._source.linear:
                return None, None, None
            H = self._source.hessian_products(X, U, plain(mu))
        n = self._nx
        if not self._nu:
            return H, None, None
        Hxx, Hux, Huu = (np.ascontiguousarray(B) for B in (H[:, :n, :n], H[:, n:, :n], H[:, n:, n:]))
        return Hxx, Hux, Huu

    # ------------------------------------------------------------------------------------------- sums over knots
    @property
    def sums_squares(self) -> bool:
        """True where derivatives are traced: others may call the function at knots where it does not count."""
        return isinstance(self._source, TracedDerivatives)

    def add_expansion(self, wanted: KnotSum) -> float:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        wanted, X, U = self._checked(wanted)
        wanted = wanted._replace(weights=wanted.weights._replace(rows=plain(wanted.weights.rows)))
        with np.errstate(all="ignore"):
            if wanted.weights.layout == MULTIPLIERS:
                r = np.zeros((len(X), self.nr))
                self._source = up_to_date(self._source, X, U)
            else:
                r = self.evaluate(X, U)
            J = _NO_JACOBIANS if wanted.target is None else self._source.jacobians(X, U)
            add, *given = wanted.of_rows(r, J, mu := np.empty(r.shape))
            total = add(*given)
            if wanted.curvature is not None and not self._linear:
                add_hessians(wanted.span[0], self._source.hessian_products(X, U, mu), mu, *wanted.curvature[2:])
        return total

    def prepared_sum(self, wanted: KnotSum) -> Callable[[], float] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`; None where derivatives are not traced."""
        inside, X, U = self._checked(wanted)
        if not is_plain(wanted.xs, wanted.weights.rows, *(() if wanted.us is None else (wanted.us,))):
            return None
        r, y, mu = (np.zeros((len(X), self.nr)) for _ in range(3))
        values = r if wanted.weights.layout == MULTIPLIERS else y

        def prepare(source: Any) -> TracedCalls | None:
            if not isinstance(source, TracedDerivatives):
                return None
            calls: list[Callable[[], Any]] = []
            J = _NO_JACOBIANS
            if inside.target is not None:
                jacobians, J = source.tapes.prepared(1, X, U)
                calls.append(jacobians)
            calls.append(total := PreparedCall(*inside.of_rows(values, J, mu)))
            if inside.curvature is not None and not source.linear:
                hessians, H = source.tapes.prepared(2, X, U, mu)
                add = PreparedCall(add_hessians, inside.span[0], H, mu, *inside.curvature[2:])
                calls += [hessians, add, total.again()]
            return TracedCalls(source.tapes.prepared(0, X, U, into=y)[0], PreparedCalls(*calls))

        return self._renewed(prepare, X, U, y, lambda: self.add_expansion(wanted))

    def prepared_rows(
        self, xs: np.ndarray, us: np.ndarray | None, jacobians: bool
    ) -> Callable[[], tuple[Any, ...]] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`; None where derivatives are not traced."""
        X, U = self._points(xs, us)
        if not is_plain(xs, *(() if us is None else (us,))):
            return None
        K, nr, n, m = len(X), self.nr, self._nx, self._nu
        r, J, ru = np.zeros((K, nr)), np.zeros((K, nr, n + m)), np.zeros((K, nr, m)) if m else None
        rx = J if ru is None else np.zeros((K, nr, n))
        found = (r, rx, ru) if jacobians else (r, None, None)

        def prepare(source: Any) -> TracedCalls | None:
            if not isinstance(source, TracedDerivatives):
                return None
            calls: list[Callable[[], Any]] = []
            if jacobians:
                calls.append(source.tapes.prepared(1, X, U, into=J)[0])
            if jacobians and ru is not None:
                calls.append(PreparedCall(split_columns, J, rx, ru))
            return TracedCalls(source.tapes.prepared(0, X, U, into=r)[0], PreparedCalls(*calls, result=lambda: found))

        def otherwise() -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
            return self.evaluate_with_jacobians(xs, us) if jacobians else (self.evaluate(xs, us), None, None)

        return self._renewed(prepare, X, U, r, otherwise)

    def _renewed(
        self,
        prepare: Callable[[Any], TracedCalls | None],
        X: np.ndarray,
        U: np.ndarray,
        values: np.ndarray,
        otherwise: Callable[[], Any],
    ) -> Renewed[Any] | None:
        """Calls prepared with the source as it is, the first of which writes values at X, U; None where there are
        none."""

        def compare() -> None:
            self._source = up_to_date(self._source, X, U, values)

        made = Renewed(lambda: self._source, prepare, compare, otherwise)
        return None if made.traced() is None else made

    @property
    def _linear(self) -> bool:
        return isinstance(self._source, TracedDerivatives) and self._source.linear

    def _checked(self, wanted: KnotSum) -> tuple[KnotSum, np.ndarray, np.ndarray]:
        """A sum without blocks of controls where the function has none; the points of its knots, K states and controls.

        Raises ValueError for arrays of other sizes."""
        ((start, stop), xs, us, _, target, curvature), n, m = wanted, self._nx, self._nu
        wanted.check_weights(self.nr)
        check_rows("xs", xs, stop, (n,))
        for blocks in (target, curvature):
            if blocks is not None:
                check_blocks(blocks, stop, n, m)
        if not m:
            target, curvature = (None if blocks is None else without_controls(blocks) for blocks in (target, curvature))
            wanted = wanted._replace(target=target, curvature=curvature)
            return wanted, plain(xs[start:stop]), np.empty((stop - start, 0))
        if us is None or stop > len(us):
            raise ValueError(f"{self.name}: a function of controls at the terminal knot, which has none")
        check_rows("us", us, stop, (m,))
        return wanted, plain(xs[start:stop]), plain(us[start:stop])
