"""What all residuals of a robot's state share: the three methods, and blocks of lanes into arrays of knots.

Hessians are those in exponential coordinates, so the qq block is the symmetric part of the Lie Hessian: of two degrees
of freedom on a path the one nearer the root counts as differentiated last; inside one joint both orders are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.model import RigidBodyModel
from dynamics.simd import LANES, helper, launch
from dynamics.subject import Subject
from dynamics.validation import as_floats

VALUE, JACOBIAN, HESSIAN = 0, 1, 2
"""What a driver is asked for; the derivatives are bits, for drivers that are asked for both."""
NO_ROWS, NO_BLOCKS = np.empty((0, 0)), np.empty((0, 0, 0))
"""In place of arguments that a driver does not touch for what it is asked."""


@helper
def scatter_block(ws, rows, columns, first, target, row, column):
    """Lanes of a row-major block (rows columns) into target[knot, row:, column:]."""
    for k in range(min(LANES, target.shape[0] - first)):
        for i in range(rows):
            for j in range(columns):
                target[first + k, row + i, column + j] = ws[i * columns + j, k]


NO_TARGET = NO_ROWS, NO_ROWS, NO_BLOCKS, NO_BLOCKS, NO_BLOCKS


def run(drive: Callable[..., Any], count: int, numbers: int, *args: Any) -> Any:
    """Run a driver on the caller's thread: a hundred knots take less time than waking another one."""
    return launch(drive, count, numbers, *args, most_threads=1)


Blocks = Sequence[np.ndarray]


class Run(NamedTuple):
    """What `weighted_squares` is asked for: knots start <= t < stop of a residual of nr numbers, which has derivatives
    in ndx directions of the state and in nu controls, None for a residual of the state alone."""

    nr: int
    ndx: int
    nu: int | None
    start: int
    stop: int

    def requested(
        self, xs: np.ndarray, us: np.ndarray, weights: np.ndarray, target: Blocks | None, curvature: Blocks | None
    ) -> tuple[int, Blocks, Blocks]:
        """By order what a driver is to do, and arrays for it in the place of arguments that are None.

        Drivers write where these sizes say, so all arrays are compared with them.  Raises ValueError.
        """
        start, stop, nr, ndx, nu = self.start, self.stop, self.nr, self.ndx, self.nu
        if not 0 <= start < stop <= len(xs):
            raise ValueError(f"start, stop: got {start}, {stop}, expected knots among those of {len(xs)} states")
        if weights.ndim != 2 or weights.shape[0] not in (1, stop - start) or weights.shape[1] not in (nr, 4 * nr):
            raise ValueError(f"weights: got shape {weights.shape}, expected (1 or {stop - start}, {nr} or {4 * nr})")
        for blocks in (target, None if curvature is target else curvature):
            if blocks is None:
                continue
            _fit("lx", blocks[0], stop, (ndx,))
            _fit("lxx", blocks[2], stop, (ndx, ndx))
            if nu is not None:
                rows = min(stop, len(us))
                _fit("lu", blocks[1], rows, (nu,))
                _fit("lux", blocks[3], rows, (nu, ndx))
                _fit("luu", blocks[4], rows, (nu, nu))
        order = (VALUE if target is None else JACOBIAN) | (VALUE if curvature is None else HESSIAN)
        return order, target or NO_TARGET, curvature or NO_TARGET


def _fit(name: str, array: np.ndarray, rows: int, row: tuple[int, ...]) -> None:
    if array.shape[1:] != row or array.shape[0] < rows:
        wanted = ", ".join(map(str, (f"at least {rows}", *row)))
        raise ValueError(f"{name}: got shape {array.shape}, expected ({wanted}) as for the residual's own robot")


def path_dofs(model: RigidBodyModel, body: int) -> np.ndarray:
    """Degrees of freedom that move a body, from the root on; none for the world, -1."""
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
        raise ValueError(
            f"{name}: got shape {array.shape}, expected ({'K' if count is None else count}, {columns})"
        )
    return array if array.flags.writeable else array.copy()  # a read-only array would compile the driver anew


class RobotResidual:
    """Base of the residuals r(x) of a robot's state x = [q; v]; controls do not enter.

    Arrays hold K knots, nx = nq + nv, ndx = 2 nv.  States are checked for their shape only: a non-finite state gives a
    non-finite residual.
    """

    nr: int
    model: RigidBodyModel
    nx: int
    ndx: int
    nu: int | None = None
    name: str

    def __init__(self, model: RigidBodyModel, name: str) -> None:
        self._set(model=model, nx=model.nq + model.nv, ndx=2 * model.nv, name=name)

    @property
    def made_for(self) -> Subject:
        """What it is about: systems that do not serve this are refused by `trajopt.Problem`."""
        return Subject(self.model)

    def _set(self, **attributes) -> None:
        for key, value in attributes.items():
            if isinstance(value, np.ndarray) and not key.startswith("_"):
                value.flags.writeable = False
            self.__dict__[key] = value

    def __setattr__(self, key: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one to change {key}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, nr={self.nr})"

    def evaluate(self, xs: ArrayLike, us: ArrayLike | None = None) -> np.ndarray:
        """Residuals.

        Parameters: xs (K, nx); us is not used.  Returns: r (K, nr).  Raises: ValueError for a wrong shape.
        """
        xs = knots("xs", xs, self.nx)
        r = np.empty((len(xs), self.nr))
        self._drive(VALUE, xs, NO_ROWS, r, NO_BLOCKS)
        return r

    def jacobians(self, xs: ArrayLike, us: ArrayLike | None = None) -> tuple[np.ndarray, None]:
        """Jacobians along the tangent [dq; dv].

        Parameters: xs (K, nx); us is not used.  Returns: rx (K, nr, ndx), None.  Raises: ValueError for a wrong shape.
        """
        xs = knots("xs", xs, self.nx)
        rx = np.zeros((len(xs), self.nr, self.ndx))
        self._drive(JACOBIAN, xs, NO_ROWS, NO_ROWS, rx)
        return rx, None

    def evaluate_with_jacobians(
        self, xs: ArrayLike, us: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Residuals and Jacobians in one pass: r (K, nr), rx (K, nr, ndx), None; as the two methods above."""
        xs = knots("xs", xs, self.nx)
        r, rx = np.empty((len(xs), self.nr)), np.zeros((len(xs), self.nr, self.ndx))
        self._drive(JACOBIAN, xs, NO_ROWS, r, rx)
        return r, rx, None

    def hessian_products(self, xs: ArrayLike, us: ArrayLike | None, mu: ArrayLike) -> tuple[np.ndarray, None, None]:
        """Hessians of mu'r in exponential coordinates, symmetric.

        Parameters: xs (K, nx); us is not used; mu (K, nr).  Returns: Hxx (K, ndx, ndx), None, None.
        Raises: ValueError for a wrong shape.
        """
        xs = knots("xs", xs, self.nx)
        mu = knots("mu", mu, self.nr, len(xs))
        Hxx = np.zeros((len(xs), self.ndx, self.ndx))
        self._drive(HESSIAN, xs, mu, NO_ROWS, Hxx)
        return Hxx, None, None

    @property
    def sums_squares(self) -> bool:
        """Whether `weighted_squares` is there, for this class and not only for one it derives from."""
        return "_drive_squares" in type(self).__dict__

    def weighted_squares(
        self,
        xs: np.ndarray,
        us: np.ndarray,
        weights: np.ndarray,
        start: int,
        stop: int,
        target: Blocks | None,
        curvature: Blocks | None,
    ) -> float:
        """1/2 sum_i w_i s_i^2 over the knots start <= t < stop, its expansion added to arrays over all knots.

        Parameters
        ----------
        xs (N+1, nx), us (N, nu) : a whole trajectory
        weights : (1 or stop - start, nr), the weights w with s = r; or (.., 4 nr), w, shift, lower and upper with
            s = z - clip(z, lower, upper), z = r + shift
        target : lx (N+1, ndx), lu (N, nu), lxx (N+1, ndx, ndx), lux (N, nu, ndx), luu (N, nu, nu), or None
            Receives gradient and Gauss-Newton Hessian.
        curvature : the same or other such arrays, or None
            The Hessians receive sum_i w_i s_i d2 r_i.

        Raises
        ------
        ValueError : xs, us where it is used, weights or an array of another shape than above, or other knots.
        """
        xs = knots("xs", xs, self.nx)
        asked = Run(self.nr, self.ndx, self.nu, start, stop)
        order, target, curvature = asked.requested(xs, us, weights, target, curvature)
        return self._drive_squares(weights, start, stop, order, xs, us, target, curvature)

    def _drive_squares(self, weights, start, stop, order, xs, us, target, curvature) -> float:
        """The sum of squares; by order its expansion."""
        raise NotImplementedError

    def _drive(self, order, xs, mu, r, derivative) -> None:
        """Fill r, if it has rows, and derivative with Jacobians or Hessians, zero on entry, by order."""
        raise NotImplementedError
