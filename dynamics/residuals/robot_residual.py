"""What all residuals of a robot's state share: the three methods, and blocks of lanes into arrays of knots.

Hessians are those in exponential coordinates, so the qq block is the symmetric part of the Lie Hessian: of two degrees
of freedom on a path the one nearer the root counts as differentiated last; inside one joint both orders are averaged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from dynamics.model.mimic import IDENTITY, IdentityMap, Recorded
from dynamics.model.model import RigidBodyModel
from dynamics.model.subject import Subject
from dynamics.simd import LANES, helper
from dynamics.simd.array_loops import fill
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.simd.squares import NO_TARGET, Blocks, KnotSum, ResidualWeights, multipliers, without_controls
from dynamics.validation import as_floats, check_rows, writeable

# --------------------------------------------------------------------------------------------
# Derivatives of residuals by their targets, along the target's tangent.
#
# A residual r = g(x) - target falls as the target grows.  One of an orientation, r = log(T'R), has with T exp(d) in
# place of T the value log(exp(-d) exp(r)), hence
#
#     dr/dd = -J(r)      J(w) = 1 - [w]/2 + c(w'w) [w]^2      c(s) = (1 - (t/2) cot(t/2))/s,  s = t^2
#
# the inverse of the left Jacobian.  Of a pose, with r = (v, w) linear and angular, it is the same over dual numbers
# w + e v:
#
#     dr/dd = -[[J(w), J'(w) v], [0, J(w)]]      J'(w) v = -[v]/2 + 2 w'v c'(s) [w]^2 + c(s) ([w][v] + [v][w])

VECTOR, ROTATION, PLACEMENT = "vector", "rotation", "placement"
"""Kinds of targets: numbers that are subtracted, rotations, poses."""
STEP = 1e-3
FOURTH_ORDER = (1.0, 8.0 / 12.0), (-1.0, -8.0 / 12.0), (2.0, -1.0 / 12.0), (-2.0, 1.0 / 12.0)
"""Of a difference: steps relative to the size of the change, and the weights of values there."""


def _series(terms: int = 30) -> np.ndarray:
    """Coefficients 2 zeta(2k)/(2 pi)^2k of c, k = 1, 2, ..., which serve up to half a turn to rounding."""
    zeta = [np.pi**2 / 6.0]
    for k in range(2, terms + 1):
        zeta.append(sum(a * b for a, b in zip(zeta, reversed(zeta), strict=True)) / (k + 0.5))
    return 2.0 * np.array(zeta) / (2.0 * np.pi) ** (2.0 * np.arange(1, terms + 1))


_C = _series()
_DC = _C[1:] * np.arange(1, len(_C))


def target_gradients(r: np.ndarray, dr: np.ndarray, value: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """d/d(target) value_t'r_t + slope_t'dr_t (K, nr) of rotations or poses r that change along dr; all (K, nr)."""
    total, size = _transposed(r, value), float(np.abs(dr).max(initial=0.0))
    if size > 0.0:
        h = STEP / size
        total = total + sum(weight / h * _transposed(r + multiple * h * dr, slope) for multiple, weight in FOURTH_ORDER)
    return -total


def _transposed(r: np.ndarray, b: np.ndarray) -> np.ndarray:
    """b (K, nr) times the transposed -dr/dd above."""
    w, angular, cross = r[:, -3:], b[:, -3:], np.cross
    s = np.einsum("ti,ti->t", w, w)[:, None]
    c, dc = (np.polynomial.polynomial.polyval(s, of) for of in (_C, _DC))

    def turned(x: np.ndarray) -> np.ndarray:
        return x + 0.5 * cross(w, x) + c * cross(w, cross(w, x))

    if r.shape[1] == 3:
        return turned(angular)
    v, linear = r[:, :3], b[:, :3]
    inner = 2.0 * dc * np.einsum("ti,ti->t", w, v)[:, None]
    moved = 0.5 * cross(v, linear) + inner * cross(w, cross(w, linear))
    moved += c * (cross(w, cross(v, linear)) + cross(v, cross(w, linear)))
    return np.hstack([turned(linear), turned(angular) + moved])


VALUE, JACOBIAN, HESSIAN = 0, 1, 2
"""What a driver is asked for; the derivatives are bits."""
NO_ROWS, NO_BLOCKS = np.empty((0, 0)), np.empty((0, 0, 0))
"""In place of arguments that a driver does not touch for what it is asked."""
NO_WEIGHTS = ResidualWeights(NO_ROWS)
ROW_AXES, BLOCK_AXES = ("-", "-P", "--"), ("P", "-", "PP", "-P", "--")
"""Axes of r, rx and ru, and of lx, lu, lxx, lux and luu; see `dynamics.model.mimic`."""


class Rows(NamedTuple):
    """Where values and Jacobians of single knots go; without rows where they are not wanted."""

    r: np.ndarray = NO_ROWS
    rx: np.ndarray = NO_BLOCKS
    ru: np.ndarray = NO_BLOCKS


NO_KNOTS = Rows()


@helper
def scatter_block(ws, rows, columns, first, target, row, column):
    """Lanes of a row-major block (rows columns) into target[knot, row:, column:]."""
    for k in range(min(LANES, target.shape[0] - first)):
        for i in range(rows):
            for j in range(columns):
                target[first + k, row + i, column + j] = ws[i * columns + j, k]


def path_dofs(model: RigidBodyModel, body: int) -> np.ndarray:
    """Degrees of freedom of a full model that move a body, from the root on; none for the world, -1."""
    arrays, dofs = model.arrays, []
    k = -1 if body < 0 else arrays.v_index[body] + arrays.dof_count[body] - 1
    while k >= 0:
        dofs.append(k)
        k = arrays.dof_parent[k]
    return np.array(dofs[::-1], dtype=np.int64)


def knots(name: str, value: ArrayLike, columns: int, count: int | None = None) -> np.ndarray:
    """A batch (K, columns) for a driver; only the shape is checked, as solvers call this in their inner loops."""
    array = as_floats(name, value)
    if array.ndim != 2 or array.shape[1] != columns or (count is not None and len(array) != count):
        raise ValueError(f"{name}: got shape {array.shape}, expected ({'K' if count is None else count}, {columns})")
    return writeable(array)


class RobotResidual:
    """Base of the residuals r(x), or r(x, u), of a robot's state x = [q; v].

    Arrays hold K knots, nx = nq + nv, ndx = 2 nv.  States are checked for their shape only: a non-finite state gives a
    non-finite residual.
    """

    nr: int
    model: RigidBodyModel
    nx: int
    ndx: int
    nu: int | None = None
    name: str
    kernels: ClassVar[Any]
    """What is compiled for a class of residuals."""
    curved_in_controls: ClassVar[bool] = False

    _joint_map: IdentityMap = IDENTITY
    """From the states that it is evaluated at to those of the model that its kernels are given."""

    reads_dynamics: bool = False
    """Whether it depends on masses and inertias, as `trajopt.interfaces.residual.ReadsDynamics` has it."""

    target_kind: ClassVar[str] = ""
    """What its target is, VECTOR, ROTATION or PLACEMENT of `target_gradient`; "" where there is none, or another."""

    def __init__(self, model: RigidBodyModel, name: str) -> None:
        self._set(model=model, nx=model.nq + model.nv, ndx=2 * model.nv, name=name)

    @property
    def made_for(self) -> Subject:
        """What it is about: systems that do not serve this are refused by `trajopt.Problem`."""
        return Subject(self.model)

    def _set(self, **attributes) -> None:
        for key, value in attributes.items():
            if key[0] != "_" and isinstance(value, np.ndarray):
                value.flags.writeable = False
            self.__dict__[key] = value

    def __copy__(self) -> Self:
        """All attributes shared, for others to be set: in less time than `copy` takes to find out how."""
        new = object.__new__(type(self))
        vars(new).update(vars(self))
        return new

    def __setattr__(self, key: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one to change {key}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, nr={self.nr})"

    @property
    def adjustable(self) -> tuple[str, ...]:
        """Attributes that `adjusted` changes: the target, where there is one."""
        return ("target",) if "target" in self.__dict__ else ()

    def adjusted(self, **values: Any) -> Self:
        """A residual with another target; raises what its constructor does."""
        code = type(self).__init__.__code__
        names = code.co_varnames[1 : code.co_argcount]
        return type(self)(**{name: values.get(name, self.__dict__[name]) for name in names})

    def gradient_by(self, name: str, at: tuple[Any, ...], value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """d/d(target) sum_t value_t'r_t + slope_t'dr_t, dr the change of r along (dx, du).

        Parameters: name, "target"; at, xs (K, nx), us (K, nu) or None, dx (K, ndx), du (K, nu); value, slope (K, nr).
        Returns: along the target's tangent: an array of its shape, or of a rotation R exp(d) (3,), of a pose
        [linear; angular] (6,), in its own axes, (N+1, .) with one for each knot; None where a class does not say what
        its target is.
        """
        kind = self._kind_of_target()
        if not kind or name != "target":
            return None
        if kind == VECTOR:
            return self._summed(-value).reshape(np.shape(self.__dict__["target"]))
        xs, us, dx, du = at
        r, rx, ru = self.evaluate_with_jacobians(xs, us)
        dr = np.einsum("tij,tj->ti", rx, dx)
        if ru is not None and du is not None:
            dr += np.einsum("tij,tj->ti", ru, du)
        return self._summed(target_gradients(r, dr, value, slope))

    def _summed(self, gradients: np.ndarray) -> np.ndarray:
        """Derivatives (K, n) by the targets of points as those by the target, (n,), or by targets (N+1, n) of knots."""
        return gradients.sum(axis=0)

    def at_times(self, times: np.ndarray) -> Self:
        """See `trajopt.interfaces.residual.KnotByKnotResidual`: the residual itself, where all knots are alike."""
        return self

    def at_knots(self, knots: np.ndarray) -> Self:
        """See `trajopt.interfaces.residual.KnotByKnotResidual`: the residual itself, where all knots are alike."""
        return self

    def _kind_of_target(self) -> str:
        """That of this class, not of one that it derives from with other methods."""
        return type(self).__dict__.get("target_kind", "")

    # -------------------------------------------------------------------------------------------- knot by knot
    def evaluate(self, xs: ArrayLike, us: ArrayLike | None = None) -> np.ndarray:
        """Residuals.

        Parameters: xs (K, nx); us (K, nu), not used by residuals of the state alone.
        Returns: r (K, nr).  Raises: ValueError for a wrong shape; the methods below too.
        """
        xs, us = self._points(xs, us)
        r = np.empty((len(xs), self.nr))
        self._expanded(NO_WEIGHTS, 0, len(xs), VALUE, xs, us, Rows(r), NO_TARGET, NO_TARGET)
        return r

    def jacobians(self, xs: ArrayLike, us: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray | None]:
        """Jacobians along the tangent [dq; dv] and the controls.

        Parameters: xs (K, nx), us (K, nu).
        Returns: rx (K, nr, ndx), and ru (K, nr, nu), None for residuals of the state alone.
        """
        return self.evaluate_with_jacobians(xs, us)[1:]

    def evaluate_with_jacobians(
        self, xs: ArrayLike, us: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Residuals and Jacobians in one pass: r (K, nr), rx, ru as the two methods above."""
        points, given = self._points(xs, us)
        K = len(points)
        r, rx = np.empty((K, self.nr)), np.zeros((K, self.nr, self.ndx))
        ru = None if us is None or self.nu is None else self._control_jacobians(K, self.nu)
        rows = Rows(r, rx) if ru is None else Rows(r, rx, ru)
        self._expanded(NO_WEIGHTS, 0, K, JACOBIAN, points, given, rows, NO_TARGET, NO_TARGET)
        return r, rx, ru

    def hessian_products(
        self, xs: ArrayLike, us: ArrayLike | None, mu: ArrayLike
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Hessians of mu'r in exponential coordinates, symmetric.

        Parameters: xs (K, nx), us (K, nu), mu (K, nr).
        Returns: Hxx (K, ndx, ndx), Hux (K, nu, ndx), Huu (K, nu, nu); None for those of what controls enter linearly.
        """
        xs, us = self._points(xs, us)
        K, ndx, nu = len(xs), self.ndx, self.nu
        mu = knots("mu", mu, self.nr, K)
        H = [np.zeros((K, ndx, ndx)), NO_BLOCKS, NO_BLOCKS]
        if self.curved_in_controls and nu is not None:
            H[1:] = np.zeros((K, nu, ndx)), np.zeros((K, nu, nu))
        self._expanded(multipliers(mu), 0, K, HESSIAN, xs, us, NO_KNOTS, NO_TARGET, (NO_ROWS, NO_ROWS, *H))
        return (H[0], H[1], H[2]) if self.curved_in_controls else (H[0], None, None)

    def _points(self, xs: ArrayLike, us: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
        """Batches of K states, and of K controls or none."""
        xs = knots("xs", xs, self.nx)
        return xs, NO_ROWS if us is None or self.nu is None else knots("us", us, self.nu, len(xs))

    def _control_jacobians(self, K: int, nu: int) -> np.ndarray:
        """ru (K, nr, nu), of which a driver fills what is not constant."""
        return np.zeros((K, self.nr, nu))

    # -------------------------------------------------------------------------------------------- sums over knots
    @property
    def sums_squares(self) -> bool:
        """Whether `add_expansion` is that of this class, not of one that it derives from with other methods."""
        return "kernels" in type(self).__dict__

    def add_expansion(self, wanted: KnotSum) -> float:
        """The sum of a function of r over some knots (`dynamics.simd.squares.KnotSum`), its expansion added to arrays
        over all knots.

        Raises ValueError for xs, us where it is used, weights or arrays of other sizes, and for other knots.
        """
        return self._expanded(*self._along(wanted))

    def prepared_sum(self, wanted: KnotSum) -> Callable[[], float] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        return self._prepared_expanded(*self._along(wanted))

    def prepared_rows(
        self, xs: np.ndarray, us: np.ndarray | None, jacobians: bool
    ) -> Callable[[], tuple[Any, ...]] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        points, given = self._points(xs, us)
        K = len(points)
        r, rx = np.empty((K, self.nr)), np.zeros((K, self.nr, self.ndx)) if jacobians else None
        ru = None if not jacobians or us is None or self.nu is None else self._control_jacobians(K, self.nu)
        into = Rows(*[array for array in (r, rx, ru) if array is not None])
        order = JACOBIAN if jacobians else VALUE
        call = self._prepared_expanded(NO_WEIGHTS, 0, K, order, points, given, into, NO_TARGET, NO_TARGET)
        return PreparedCalls(call, result=lambda: (r, rx, ru))

    def _prepared(self, *arguments: Any) -> Callable[[], Any]:
        """`_expand` with these arguments, as a function without any."""
        raise NotImplementedError

    def _along(self, wanted: KnotSum) -> tuple:
        """Arguments of `_expanded` for a sum, checked."""
        (start, stop), xs, us, weights, target, curvature = wanted
        xs = knots("xs", xs, self.nx)
        self._check_sizes(wanted)
        if us is None:
            target, curvature = (None if blocks is None else without_controls(blocks) for blocks in (target, curvature))
        us = NO_ROWS if self.nu is None or us is None else knots("us", us, self.nu)
        order = (VALUE if target is None else JACOBIAN) | (VALUE if curvature is None else HESSIAN)
        return weights, start, stop, order, xs, us, NO_KNOTS, target or NO_TARGET, curvature or NO_TARGET

    def _check_sizes(self, wanted: KnotSum) -> None:
        """Drivers write where their sizes say, so all arrays are compared with them."""
        ((start, stop), xs, us, _, target, curvature), ndx, nu = wanted, self.ndx, self.nu
        if not 0 <= start < stop <= len(xs):
            raise ValueError(f"span: got {start}, {stop}, expected knots among those of {len(xs)} states")
        wanted.check_weights(self.nr)
        for blocks in (target, None if curvature is target else curvature):
            if blocks is None:
                continue
            check_rows("lx", blocks[0], stop, (ndx,))
            check_rows("lxx", blocks[2], stop, (ndx, ndx))
            if nu is not None and us is not None:
                controlled = min(stop, len(us))
                check_rows("lu", blocks[1], controlled, (nu,))
                check_rows("lux", blocks[3], controlled, (nu, ndx))
                check_rows("luu", blocks[4], controlled, (nu, nu))

    def _expanded(self, weights, start, stop, order, xs, us, rows, target, curvature) -> float:
        """`_expand` at states of the independent joints."""
        enter = self._joint_map
        if enter is IDENTITY:
            return self._expand(weights, start, stop, order, xs, us, rows, target, curvature)
        full_rows = Rows(*enter.receivers(ROW_AXES, rows))
        full = enter.receivers(BLOCK_AXES, target)
        bent = full if curvature is target else enter.receivers(BLOCK_AXES, curvature)
        value = self._expand(weights, start, stop, order, enter.full_x(xs), us, full_rows, full, bent)
        enter.deliver(ROW_AXES, full_rows, rows)
        enter.deliver(BLOCK_AXES, full, target, add=True)
        if curvature is not target:
            enter.deliver(BLOCK_AXES, bent, curvature, add=True)
        return value

    def _prepared_expanded(self, weights, start, stop, order, xs, us, rows, target, curvature) -> Callable[[], Any]:
        """`_expanded` with these arguments, as a function without any."""
        enter, calls = self._joint_map, Recorded()
        if enter is IDENTITY:
            return self._prepared(weights, start, stop, order, xs, us, rows, target, curvature)
        full_rows = Rows(*enter.receivers(ROW_AXES, rows))
        full = enter.receivers(BLOCK_AXES, target)
        bent = full if curvature is target else enter.receivers(BLOCK_AXES, curvature)
        for found, given in ((full, target), (bent, curvature)):
            calls += [PreparedCall(fill, a, 0.0) for a, b in zip(found, given, strict=True) if a is not b]
        points = enter.full_x(xs, calls.run), us
        calls.append(self._prepared(weights, start, stop, order, *points, full_rows, full, bent))
        enter.deliver(ROW_AXES, full_rows, rows, run=calls.run)
        enter.deliver(BLOCK_AXES, full, target, True, calls.run)
        if curvature is not target:
            enter.deliver(BLOCK_AXES, bent, curvature, True, calls.run)
        return PreparedCalls(*calls)

    def _expand(
        self,
        weights: ResidualWeights,
        start: int,
        stop: int,
        order: int,
        xs: np.ndarray,
        us: np.ndarray,
        rows: Rows,
        target: Blocks,
        curvature: Blocks,
    ) -> float:
        """All of the above for the knots start <= t < stop: values to rows, and of the sum, if there are weights,
        by order Jacobians to rows or gradient and Gauss-Newton Hessians to target, and Hessians to curvature."""
        raise NotImplementedError
