"""Systems from a user's function: the system, its rollouts, and its steps of any duration."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike

from dynamics.simd import array_loops
from dynamics.simd.caller import warn
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.validation import (
    as_array,
    as_choice,
    as_flag,
    as_floats,
    as_names,
    as_positive,
    as_sizes,
    as_text,
    as_whole_number,
)
from trajopt.callable_system.functions import (
    ARITHMETIC,
    KEPT,
    OPTIONS,
    CompiledFunction,
    SlowDynamicsWarning,
    finite,
    in_order,
    is_plain,
    plain,
    returning,
)
from trajopt.callable_system.integrators import (
    INTEGRATORS,
    ORDERS,
    CompiledPlant,
    TracedStep,
    make_integrator,
    step_kernel,
)
from trajopt.callable_system.renewed import Renewed, TracedCalls
from trajopt.callable_system.sources import (
    LIBRARIES,
    DerivativeRequest,
    TracedDerivatives,
    check_mechanical,
    check_values,
    make_function,
    make_source,
    may_have_kinks,
    sample_points,
    up_to_date,
    with_library,
    words_of_python,
)
from trajopt.interfaces.stepwise import ClosedLoop, ClosedLoopRollouts, closed_loop_by_steps
from trajopt.interfaces.terms import VectorSpace

# --------------------------------------------------------------------------------------------
# Arguments of systems from functions, checked.


def points(name: str, value: ArrayLike, size: int) -> np.ndarray:
    """One point (size,) or a batch (K, size) of floats."""
    array = as_floats(name, value, f"numbers of shape ({size},)")
    if array.ndim not in (1, 2) or array.shape[-1] != size:
        raise ValueError(f"{name}: got shape {array.shape}, expected ({size},) or (K, {size})")
    return array


def closed_loop_arrays(loop: ClosedLoop, nx: int, nu: int) -> list[np.ndarray | None]:
    """The arrays of a closed loop, x0 (A, nx)."""
    x0, xs, us, k, K, alphas, gaps, lower, upper, shift, pull, before = loop
    if (lower is None) != (upper is None):
        raise ValueError("lower, upper: got one of them, expected both or none")
    us = points("us", us, nu)
    N, A = len(us), len(alphas)
    x0 = as_array("x0", x0, (A, nx) if np.ndim(x0) == 2 else (nx,), finite=False)
    arrays = [
        None if value is None else as_array(name, value, shape, finite=False)
        for name, value, shape in (
            ("xs", xs, (N + 1, nx)), ("us", us, (N, nu)), ("k", k, (N, nu)), ("K", K, (N, nu, nx)),
            ("alphas", alphas, (A,)), ("gaps", gaps, (N + 1, nx)), ("lower", lower, (N, nu)),
            ("upper", upper, (N, nu)), ("shift", shift, (A,)), ("pull", pull, (N, nu)),
            ("before", before, () if before is None else before.shape),
        )
    ]  # fmt: skip
    return [np.broadcast_to(x0, (A, nx)), *arrays]


def integrator_name(step: Any, xdot: Any, integrator: Any) -> str | None:
    """The integrator of xdot, rk4 by default; None for discrete steps."""
    if (step is None) == (xdot is None):
        got = "neither" if step is None else "both"
        raise ValueError(f"step, xdot: got {got}, expected one of them, a discrete step or a differential equation")
    if step is None:
        return as_choice("integrator", "rk4" if integrator is None else integrator, INTEGRATORS)
    if integrator is not None:
        raise ValueError(f"integrator: got {integrator!r} with a discrete step, expected it only with xdot")
    return None


def slow_words(argument: str, function_compiled: bool, why_not_traced: str | None) -> str:
    """What a warning says of a plain function, and what to do."""
    if function_compiled:
        return "jacobians: plain Python, which the implicit rule calls in every step; decorate it with numba.njit"
    reason = "" if why_not_traced is None else f" (it is not traced: {why_not_traced})"
    return (
        f"{argument}: plain Python, called once per knot, which makes solvers slow{reason}; decorate it with "
        "numba.njit, or write it for batches and pass vectorized=True"
    )


# --------------------------------------------------------------------------------------------
# Compiled loops over steps: batches of single steps, and closed loops for every step length.


@lru_cache(KEPT)
def steps(plant: CompiledPlant) -> Callable:
    """advance(h, X, U, X_next): one step from every point; NaN from points that are not finite."""
    step, numbers = step_kernel(plant)

    @njit(**OPTIONS)
    def advance(h, X, U, X_next):
        work = np.empty(numbers(X.shape[1], U.shape[1]))
        for t in range(X.shape[0]):
            if finite(X[t]) and finite(U[t]):
                step(h, X[t], U[t], work, X_next[t])
            else:
                X_next[t, :] = np.nan

    return advance


@lru_cache(KEPT)
def closed_loops(plant: CompiledPlant) -> Callable:
    """roll_out(h, x0, xs, us, k, K, alphas, gaps, lower, upper, shift, pull, before, X, U), as
    `System.closed_loop_rollout`.

    x0 (A, nx).  K with no rows: open loop; gaps, lower, pull or before with no rows: none.
    """
    step, numbers = step_kernel(plant)

    @njit(**OPTIONS)
    def roll_out(h, x0, xs, us, k, K, alphas, gaps, lower, upper, shift, pull, before, X, U):
        nx, N, nu = x0.shape[1], us.shape[0], us.shape[1]
        feedback, gapped, limited = K.shape[0] > 0, gaps.shape[0] > 0, lower.shape[0] > 0
        shifted, n = pull.shape[0] > 0, before.shape[2] - nu
        work = np.empty(numbers(nx, nu))
        for a in range(alphas.shape[0]):
            left = 1.0 - alphas[a]
            for i in range(nx):
                X[a, 0, i] = x0[a, i] - left * gaps[0, i] if gapped else x0[a, i]
            for t in range(N):
                x, u, x_next = X[a, t], U[a, t], X[a, t + 1]
                for i in range(nu):
                    value = us[t, i]
                    if feedback:
                        value += alphas[a] * k[t, i]
                        if shifted:
                            value += shift[a] * pull[t, i]
                        for j in range(nx):
                            value += K[t, i, j] * (x[j] - xs[t, j])
                        if t > 0 and before.shape[0] > 0:
                            for j in range(n):
                                value += before[t, i, j] * (X[a, t - 1, nx - n + j] - xs[t - 1, nx - n + j])
                            for j in range(nu):
                                value += before[t, i, n + j] * (U[a, t - 1, j] - us[t - 1, j])
                    if limited:  # by comparison, so that NaN stays NaN
                        if value < lower[t, i]:
                            value = lower[t, i]
                        elif value > upper[t, i]:
                            value = upper[t, i]
                    u[i] = value
                if finite(x) and finite(u):
                    step(h, x, u, work, x_next)
                else:
                    x_next[:] = np.nan
                if gapped:
                    for i in range(nx):
                        x_next[i] -= left * gaps[t + 1, i]

    return roll_out


# --------------------------------------------------------------------------------------------
# A user's differential equation in steps of any duration, which is one more control behind the others.
#
# A step of h seconds of dx/dt = f(x, u) is a step of one unit of dx/dt = h f(x, u), for rules that treat all states
# alike; semi-implicit Euler, which does not, is written out.


def timed_function(function: Callable, nx: int, nu: int, vectorized: bool, semi_implicit: bool) -> Callable:
    """h f(x, u) as a function of x (nx,) and w = (u, h), or the semi-implicit step of h seconds."""
    call = returning(getattr(function, "py_func", function), nx)
    n = nx // 2

    def rate(x, w):
        f = call(x[None], w[None, :nu])[0] if vectorized else call(x, w[:nu])
        return tuple(w[nu] * f[i] for i in range(nx))

    def step(x, w):
        f = rate(x, w)
        v = [x[n + i] + f[n + i] for i in range(n)]
        return (*(x[i] + w[nu] * v[i] for i in range(n)), *v)

    return step if semi_implicit else rate


# --------------------------------------------------------------------------------------------
# A system from a user's function: discrete steps, or an ordinary differential equation under an integrator.


class CallableSystem(ClosedLoopRollouts):
    """x_{t+1} = f(x_t, u_t) from a function of yours, with first and second derivatives.

    Parameters
    ----------
    step : step(x, u) -> x_next, the discrete system itself; or
    xdot : xdot(x, u) -> dx/dt, integrated over dt with the control held.  One of the two.
        A function that can be traced (see `derivatives`) is not called any more but for comparison.  Of others, those
        decorated with `numba.njit` are compiled into the loops over knots; plain Python works, slowly, and says so with
        a `SlowDynamicsWarning`.  x (nx,) and u (nu,) are read only; they may be keywords, and (u, x) if these are their
        names.  The value is an array (nx,), or a tuple, or written in place by f(x, u, out).
    nx, nu : numbers in a state and in a control
    dt : time step [s], positive
    integrator : "rk4" (default), "rk2", "explicit_euler", "semi_implicit_euler" or "implicit_midpoint"; only with xdot
        "semi_implicit_euler" wants x = [q; v] and xdot = [v; a]; it promises `semi_implicit` structure to the solvers.
    jacobians : jacobians(x, u) -> fx (nx, nx), fu (nx, nu) of the function given (of xdot, not of its integrated step)
    hessian_products : hessian_products(x, u, lam) -> Hxx (nx, nx), Hux (nu, nx), Huu (nu, nu), Hessians of lam'f
    derivatives : "auto" (default), "user", "traced", "complex_step", "finite_differences", "jax" or "torch"
        "auto" takes yours if given, jax or torch in double precision if the function returns their arrays,
        else the trace of the function if it has one: it is called with symbols, once for each of at most 16 ways
        through its branches, so it may call nothing but arithmetic, `math` and numpy's functions of numbers, nor look
        up tables.
        Else complex steps if the function accepts complex arrays and is analytic there (it is compared with differences
        at sample points), else differences.  `derivative_source` says which; see Notes.
    vectorized : True if the functions take and return batches, x (K, nx), u (K, nu), lam (K, nx)
    scale : number or (nx + nu,) array, the size over which the function varies in each of [x; u], for finite steps
    x_example, u_example : a point at which the function is defined, zeros by default; tried when the system is made
    name : shown by repr
    skeleton : skeleton(xs) -> (K, segments, 2, 3), the lines [m] to draw the system with at states xs (K, nx)
    scenery : (segments, 2, 3) array, lines [m] of the system that stay where they are, for pictures of systems with a
        skeleton; obstacles and targets are the problem's, `Problem(..., scenery=)`
    state_names, control_names : nx and nu names for legends, with units, as "speed [m/s]"

    Raises
    ------
    TypeError, ValueError : names the argument, what it got and what was expected; float32 is refused, unless
        differences are asked for.
    ImportError : derivatives="jax" or "torch" without it, an extra of the installation.

    Notes
    -----
    Traces are differentiated exactly, and are tens of times as fast as the rest.  Where a condition selects,
    derivatives are those of the side that it selects; a clip counts as none for what is at its limit, where a box may
    hold it, and of two numbers equal under a maximum each counts one half.  Traces are compared with the function at
    one knot of each call, and taken anew where it has changed.  Relative errors of the others, for a function that
    varies over lengths of `scale`: complex steps give Jacobians to rounding and Hessians to about 1e-12; differences
    1e-12 and 1e-10; Hessians by differences of your Jacobians 1e-12.  jax and torch differentiate exactly.  Integrators
    are differentiated exactly in every case.  Where the function raises an ArithmeticError or LinAlgError, or the
    ValueError of a function of `math` out of its domain, the next state is NaN.

    Examples
    --------
    >>> def car(x, u):  # x = (px, py, heading), u = (speed, turn rate)
    ...     return u[0] * np.cos(x[2]), u[0] * np.sin(x[2]), u[1]
    >>> system = trajopt.CallableSystem(xdot=car, nx=3, nu=2, dt=0.1)
    >>> system.step(np.zeros((1, 3)), np.array([[1.0, 0.5]])).round(4)
    array([[0.1   , 0.0025, 0.05  ]])
    >>> fx, fu = system.linearize(np.zeros((2, 3)), np.ones((1, 2)))  # exact
    """

    euclidean = True

    def __init__(
        self,
        step: Callable | None = None,
        *,
        xdot: Callable | None = None,
        nx: int,
        nu: int,
        dt: float,
        integrator: str | None = None,
        jacobians: Callable | None = None,
        hessian_products: Callable | None = None,
        derivatives: str = "auto",
        vectorized: bool = False,
        scale: ArrayLike = 1.0,
        x_example: ArrayLike | None = None,
        u_example: ArrayLike | None = None,
        name: str | None = None,
        skeleton: Callable | None = None,
        scenery: ArrayLike | None = None,
        state_names: Sequence[str] | None = None,
        control_names: Sequence[str] | None = None,
    ) -> None:
        self.nx, self.nu = as_whole_number("nx", nx, 1), as_whole_number("nu", nu, 1)
        self.ndx = self.nx
        self.dt = as_positive("dt", dt, "seconds")
        self.integrator = integrator_name(step, xdot, integrator)
        self.name = None if name is None else as_text("name", name)
        as_flag("vectorized", vectorized)
        self._describe(skeleton, scenery, state_names, control_names)
        argument, function = ("step", step) if xdot is None else ("xdot", xdot)
        function, jacobians = in_order(argument, function), in_order("jacobians", jacobians)
        scale = as_sizes("scale", scale, self.nx + self.nu)
        request = DerivativeRequest(derivatives, jacobians, hessian_products, vectorized, scale)
        X, U = sample_points(x_example, u_example, request.scale, self.nx, self.nu)
        request = with_library(request, function, X, U, self.nx)
        self._scale, self._vectorized, self._examples = scale, vectorized, (X, U)
        self._argument, self._function = argument, make_function(argument, function, self.nx, self.nu, request)
        check_values(argument, self._function, X, U)
        self.semi_implicit = self.integrator == "semi_implicit_euler"
        if self.semi_implicit:
            check_mechanical(self._function, X, U)
        self._source = make_source(self._function, request, X, U)
        self._integrator = self._make_integrator()
        self._plant = self._compiled_plant()
        if not (self.compiled or vectorized or request.kind in LIBRARIES):
            reason = getattr(self._source, "why_not_traced", None)
            warn(slow_words(argument, self._function.compiled, reason), SlowDynamicsWarning)

    def __repr__(self) -> str:
        kind = "discrete" if self.integrator is None else f"integrator={self.integrator!r}"
        name = "" if self.name is None else f"{self.name!r}, "
        return (
            f"CallableSystem({name}nx={self.nx}, nu={self.nu}, dt={self.dt:g}, {kind}, "
            f"derivative_source={self.derivative_source!r}, compiled={self.compiled})"
        )

    @property
    def derivative_source(self) -> str:
        """Where derivatives come from: "user", "user_jacobians" (Hessians by differences of them), "traced",
        "complex_step", "finite_differences", "jax" or "torch"."""
        return self._source.name

    @property
    def u_example(self) -> np.ndarray:
        """The example (nu,) given for the controls; zeros by default."""
        return self._examples[1][0].copy()

    @property
    def may_have_kinks(self) -> bool:
        """False if the function was traced, and has no condition and no abs, min, max or the like on its way."""
        return may_have_kinks(self._source)

    @property
    def why_in_python(self) -> str:
        """For messages where all of a problem has to be compiled: which function of the user is not, and why."""
        otherwise = "takes, or its derivatives take, too many operations to be compiled"
        if self.integrator == "implicit_midpoint":
            otherwise = "is solved for the next state, integrator='implicit_midpoint'"
        return words_of_python(self._argument, self._function, self._source, otherwise)

    @property
    def step_noise(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """step_noise(xs) is the standard deviation (N, nx) of the steps along a trajectory xs (N+1, nx), where the
        function is less exact than double precision, as one in float32 is; None where it is as exact.  It is measured
        when the system is made, of functions that are not traced."""
        return None if getattr(self._source, "noise", None) is None else self._step_noise

    def _step_noise(self, xs: np.ndarray) -> np.ndarray:
        noise: Any = getattr(self._source, "noise", None)
        return noise * np.abs(xs[1:] if self.integrator is None else np.diff(xs, axis=0))

    @property
    def integrator_order(self) -> int | None:
        """How fast the integrator's error falls with dt: with this power of it; None for discrete steps."""
        return ORDERS.get(self.integrator)

    @property
    def refined(self) -> Callable[[int], CallableSystem] | None:
        """refined(substeps) is the same differential equation in steps of dt/substeps, by "rk4", or "implicit_midpoint"
        where that is the integrator; None for discrete steps."""
        return None if self.integrator is None else self._refined

    def _refined(self, substeps: int) -> CallableSystem:
        fine = copy.copy(self)
        fine.dt = self.dt / as_whole_number("substeps", substeps, 1)
        fine.integrator = self.integrator if self.integrator == "implicit_midpoint" else "rk4"
        fine.semi_implicit = False
        fine._integrator, fine._plant = fine._make_integrator(), fine._compiled_plant()
        return fine

    @property
    def timed(self) -> Callable[[], CallableSystem] | None:
        """timed() is the same differential equation with one more control, how long the step takes, s; None for
        discrete steps."""
        return None if self.integrator is None else self._timed

    def _timed(self) -> CallableSystem:
        library = self.derivative_source in LIBRARIES
        batches = self._vectorized and not library
        f = timed_function(self._function.function, self.nx, self.nu, batches, self.semi_implicit)
        example = np.append(self._examples[1][0], self.dt)
        step, xdot, rule = (f, None, None) if self.semi_implicit else (None, f, self.integrator)
        return CallableSystem(
            step, xdot=xdot, nx=self.nx, nu=self.nu + 1, dt=1.0, integrator=rule, x_example=self._examples[0][0],
            u_example=example, scale=np.append(self._scale, self.dt),
            derivatives=self.derivative_source if library else "auto",
        )  # fmt: skip

    @property
    def compiled(self) -> bool:
        """True if rollouts run in compiled loops, of the function or of its trace."""
        return self._plant is not None or self._traced_step is not None

    def _describe(self, skeleton, scenery, state_names, control_names):
        """Attributes for pictures, of what is given: a system has them or not (see `trajopt.System`)."""
        if skeleton is not None:
            if not callable(skeleton):
                raise TypeError(f"skeleton: got {type(skeleton).__name__}, expected a function of states")
            self.skeleton = skeleton
        if scenery is not None:
            lines = as_floats("scenery", scenery)
            self.scenery = as_array("scenery", lines, (*lines.shape[:1], 2, 3), copy=True)
        names = ()
        if state_names is not None:
            self.state_names = self.tangent_names = names = as_names("state_names", state_names, self.nx)
        self.serves = (VectorSpace(self.nx, names),)
        if control_names is not None:
            self.control_names = as_names("control_names", control_names, self.nu)

    def _make_integrator(self):
        integrator = make_integrator(self.integrator, self.dt)
        explicit = self.integrator != "implicit_midpoint"
        if explicit and isinstance(self._source, TracedDerivatives):
            return TracedStep(integrator, self._source)
        return integrator

    def _keep_up(self, X, U):
        """Trace the function anew if it is not what it was, at a knot in the middle."""
        source = up_to_date(self._source, X, U)
        if source is not self._source:
            self._source = source
            self._integrator = self._make_integrator()

    def _compiled_plant(self):
        if not isinstance(self._function, CompiledFunction):
            return None
        function = self._function.function, self._function.in_place, self.integrator
        if self.integrator != "implicit_midpoint":
            return CompiledPlant(*function)
        newton = self._source.compiled_jacobians
        return None if newton is None else CompiledPlant(*function, newton)

    # -------------------------------------------------------------------------------------------- states
    def integrate(self, x: ArrayLike, dx: ArrayLike) -> np.ndarray:
        """x + dx;  x (nx,) or (K, nx), dx (nx,) or (K, nx)."""
        return points("x", x, self.nx) + points("dx", dx, self.nx)

    def difference(self, x0: ArrayLike, x1: ArrayLike) -> np.ndarray:
        """x1 - x0, one state each or batches."""
        return points("x1", x1, self.nx) - points("x0", x0, self.nx)

    # -------------------------------------------------------------------------------------------- motion
    def step(self, x: ArrayLike, u: ArrayLike) -> np.ndarray:
        """Next state (nx,) of x (nx,) and u (nu,), or a batch (K, nx); NaN where the function is not defined."""
        x, u = points("x", x, self.nx), points("u", u, self.nu)
        X, U = np.atleast_2d(x), np.atleast_2d(u)
        if len(X) != len(U) and 1 not in (len(X), len(U)):
            raise ValueError(f"x: got {len(X)} points for {len(U)} of u, expected as many")
        K = max(len(X), len(U))
        X, U = np.broadcast_to(X, (K, self.nx)), np.broadcast_to(U, (K, self.nu))
        out = self._advance(plain(X), plain(U))
        return out[0] if x.ndim == u.ndim == 1 else out

    @property
    def _traced_step(self):
        """Whole steps as a program, if that is how the system moves."""
        step = self._integrator
        return step if isinstance(step, TracedStep) and step.rolls else None

    def _advance(self, X, U):
        with np.errstate(all="ignore"):
            self._keep_up(X, U)
            if self._traced_step is not None:
                return self._traced_step.step(self._source, X, U)
        if self._plant is not None:
            try:
                out = np.empty_like(X)
                steps(self._plant)(self.dt, plain(X), plain(U), out)
                return out
            except ARITHMETIC:  # from a compiled function called by the user's: which row it was, only Python can tell
                pass
        with np.errstate(all="ignore"):
            return self._integrator.step(self._source, X, U)

    def rollout(self, x0: ArrayLike, us: ArrayLike) -> np.ndarray:
        """States (N+1, nx) from x0 (nx,) under the controls us (N, nu); NaN from where they diverge."""
        us = points("us", us, self.nu)
        if us.ndim != 2:
            raise ValueError(f"us: got shape {us.shape}, expected (N, {self.nu})")
        N, open_loop = len(us), np.empty((0, self.nu, self.nx))
        zeros = np.zeros((N + 1, self.nx)), us, np.zeros((N, self.nu)), open_loop
        x0 = as_array("x0", x0, (self.nx,), finite=False)
        xs = self._compiled_rollout(x0[None], *zeros, np.zeros(1), None, None, None, None, None, None)
        if xs is not None:
            return xs[0][0]
        xs = np.empty((N + 1, self.nx))
        xs[0] = x0
        for t in range(N):
            xs[t + 1] = self._advance(xs[t : t + 1], us[t : t + 1])[0]
        return xs

    def _roll_out(self, loop: ClosedLoop) -> tuple[np.ndarray, np.ndarray]:
        arrays = closed_loop_arrays(loop, self.nx, self.nu)
        done = self._compiled_rollout(*arrays)
        if done is None:
            with np.errstate(all="ignore"):
                done = closed_loop_by_steps(self, *arrays)
        return done

    def _compiled_rollout(self, x0, xs, us, k, K, alphas, *given):
        """The trajectories from x0 (A, nx), or None if the function is neither traced nor compiled, or fails inside."""
        A, N = len(alphas), len(us)
        shapes = (0, self.nx), (0, self.nu), (0, self.nu), (0,), (0, self.nu), (0, self.nu, self.nu)
        optional = [np.empty(shape) if value is None else value for value, shape in zip(given, shapes, strict=True)]
        inputs = tuple(map(plain, (x0, xs, us, k, K, alphas, *optional)))
        while (step := self._traced_step) is not None:
            X, U = step.roll_out(inputs)
            self._keep_up(*(Z.reshape(-1, Z.shape[-1]) for Z in (X[:1, :N], U[:1])))
            if self._traced_step is step:
                return X, U
        if self._plant is None:
            return None
        X, U = np.empty((A, N + 1, self.nx)), np.empty((A, N, self.nu))
        try:
            closed_loops(self._plant)(self.dt, *inputs, X, U)
        except ARITHMETIC:
            return None
        return X, U

    def prepared_rollouts(
        self,
        x0: np.ndarray,
        xs: np.ndarray,
        us: np.ndarray,
        k: np.ndarray,
        K: np.ndarray,
        alphas: np.ndarray,
        gaps: np.ndarray | None = None,
        lower: np.ndarray | None = None,
        upper: np.ndarray | None = None,
        shift: np.ndarray | None = None,
        pull: np.ndarray | None = None,
        before: np.ndarray | None = None,
    ) -> Callable[[], tuple[np.ndarray, np.ndarray]] | None:
        """See `trajopt.capabilities.Expansions`; None where steps are not traced."""
        given, optional = (xs, us, k, K, alphas), (gaps, lower, upper, shift, pull, before)
        if not is_plain(x0, *given, *[array for array in optional if array is not None]):
            return None
        A, N = len(alphas), len(us)
        shapes = (0, self.nx), (0, self.nu), (0, self.nu), (0,), (0, self.nu), (0, self.nu, self.nu)
        kept = [np.empty(shape) if array is None else array for array, shape in zip(optional, shapes, strict=True)]
        starts, X, U = np.zeros((A, self.nx)), np.zeros((A, N + 1, self.nx)), np.zeros((A, N, self.nu))
        loop = (starts, *given, *kept)
        start = PreparedCall(array_loops.repeat if x0.ndim == 1 else array_loops.copy, x0, starts)

        def prepare(step: Any) -> TracedCalls | None:
            if not (isinstance(step, TracedStep) and step.rolls):
                return None
            return TracedCalls(PreparedCalls(start, step.prepared_rollouts(loop, X, U)), PreparedCalls(result=found))

        def found() -> tuple[np.ndarray, np.ndarray]:
            return X, U

        def otherwise() -> tuple[np.ndarray, np.ndarray]:
            return self.closed_loop_rollout(x0, *given, *optional)

        return self._renewed(prepare, lambda: self._keep_up(X[0, :-1], U[0]), otherwise)

    def prepared_steps(self, xs: np.ndarray, us: np.ndarray, following: np.ndarray) -> Callable[[], Any] | None:
        """See `trajopt.capabilities.Expansions`; None where steps are not traced."""
        if not is_plain(xs, us, following):
            return None
        X = xs[: len(us)]

        def prepare(step: Any) -> TracedCalls | None:
            if not (isinstance(step, TracedStep) and step.rolls):
                return None
            return TracedCalls(step.prepared_steps(X, us, following), PreparedCalls())

        def otherwise() -> None:
            following[...] = self.step(X, us)

        return self._renewed(prepare, lambda: self._keep_up(X, us), otherwise)

    def _renewed(
        self,
        prepare: Callable[[Any], TracedCalls | None],
        compare: Callable[[], None],
        otherwise: Callable[[], Any],
    ) -> Renewed[Any] | None:
        """Calls prepared with the integrator as it is, None where there are none."""
        made = Renewed(lambda: self._integrator, prepare, compare, otherwise)
        return None if made.traced() is None else made

    # -------------------------------------------------------------------------------------------- derivatives
    def prepared_expansion(
        self,
        xs: np.ndarray,
        us: np.ndarray,
        fx: np.ndarray,
        fu: np.ndarray,
        lam: np.ndarray | None = None,
        *H: np.ndarray,
    ) -> Callable[[], Any] | None:
        """See `trajopt.capabilities.Expansions`; None where derivatives of steps are not traced.

        The trace is that of the trajectory's rollout: whoever has rolled it out, or made its steps, has compared the
        function with it."""
        X, into = xs[: len(us)], (fx, fu, *H)
        if not is_plain(xs, us, *into, *(() if lam is None else (lam,))):
            return None

        def prepare(step: Any) -> TracedCalls | None:
            calls = step.prepared_derivatives(X, us, (fx, fu), lam, H) if isinstance(step, TracedStep) else None
            return None if calls is None else TracedCalls(calls, PreparedCalls())

        def otherwise() -> None:
            blocks = self.linearize(X, us)
            if lam is not None:
                blocks = *blocks, *self.hessian_products(X, us, lam)
            for block, found in zip(into, blocks, strict=True):
                block[...] = found

        return self._renewed(prepare, lambda: None, otherwise)

    def linearize(self, xs: ArrayLike, us: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """fx (N, nx, nx) and fu (N, nx, nu) at the knots xs (N or N+1, nx), us (N, nu)."""
        X, U = self._knots(xs, us)
        with np.errstate(all="ignore"):
            self._keep_up(X, U)
            J = self._integrator.jacobians(self._source, X, U)
        return np.ascontiguousarray(J[:, :, : self.nx]), np.ascontiguousarray(J[:, :, self.nx :])

    def hessian_products(
        self, xs: ArrayLike, us: ArrayLike, lam: ArrayLike
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hessians of lam_t'f, lam (N, nx): Hxx (N, nx, nx), Hux (N, nu, nx), Huu (N, nu, nu), symmetric."""
        X, U = self._knots(xs, us)
        lam = as_array("lam", lam, X.shape, finite=False)
        with np.errstate(all="ignore"):
            self._keep_up(X, U)
            H = self._integrator.hessian_products(self._source, X, U, lam)
        n = self.nx
        Hxx, Hux, Huu = (np.ascontiguousarray(B) for B in (H[:, :n, :n], H[:, n:, :n], H[:, n:, n:]))
        return Hxx, Hux, Huu

    def hessians(self, xs: ArrayLike, us: ArrayLike) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tensors fxx (N, nx, nx, nx), fux (N, nx, nu, nx), fuu (N, nx, nu, nu): row i is the product with e_i."""
        X, U = self._knots(xs, us)
        N, n = X.shape
        blocks = self.hessian_products(np.repeat(X, n, 0), np.repeat(U, n, 0), np.tile(np.eye(n), (N, 1)))
        fxx, fux, fuu = (B.reshape(N, n, *B.shape[1:]) for B in blocks)
        return fxx, fux, fuu

    def _knots(self, xs, us):
        xs, us = points("xs", xs, self.nx), points("us", us, self.nu)
        if us.ndim != 2 or xs.ndim != 2 or len(xs) not in (len(us), len(us) + 1):
            raise ValueError(
                f"xs, us: got shapes {xs.shape} and {us.shape}, expected (N or N+1, {self.nx}) and (N, {self.nu})"
            )
        return plain(xs[: len(us)]), plain(us)
