"""Check of the derivatives of a system, a residual or a cost against differences, block by block.

All derivatives are compared with values of the function alone, so a wrong Jacobian does not hide behind a wrong
Hessian.  With y(z) the function in exponential coordinates of the state, z = [dx; du],

    y(z) = difference(f(x, u), f(integrate(x, dx), u + du))     for a system; the value itself for residuals and costs,

first derivatives and, contracted with random multipliers, second derivatives along d are central differences of sixth
order,

    y'(d)    = [45 (y_1 - y_-1) - 9 (y_2 - y_-2) + (y_3 - y_-3)] / 60 h,                    error ~ eps/h + h^6/140
    y''(d,d) = [270 (y_1 + y_-1) - 27 (y_2 + y_-2) + 2 (y_3 + y_-3) - 490 y_0] / 180 h^2,   error ~ eps/h^2 + h^6/560

and mixed second derivatives follow by polarization.  On a manifold these are the symmetric Hessians that
`System.hessian_products` returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.printed import in_brief
from dynamics.validation import as_positive, as_whole_number
from trajopt.callable_system.derivatives import LEAST_NOISE, NOISE_POINTS, NOISE_STEP, difference_steps, noise_between
from trajopt.capabilities import Knots, capability
from trajopt.costs import Quadratic
from trajopt.interfaces.system import System, check_states, semi_implicit_form
from trajopt.printed import PrintedAsTable, new_table

if TYPE_CHECKING:
    from rich.table import Table

FIRST = {1: 45 / 60, 2: -9 / 60, 3: 1 / 60}
SECOND = {0: -490 / 180, 1: 270 / 180, 2: -27 / 180, 3: 2 / 180}
ROUNDING = 100 * np.finfo(float).eps
"""Relative rounding of a value; errors of differences below ROUNDING times the value's size over h^order do not
count."""
NOISY = 30.0
"""Largest ratio of an error to the noise of differences for which the noise is held to be the cause."""
POINTS = 4
"""Number of random points, where none are given."""

Value = Callable[[np.ndarray], np.ndarray]
"""y (K, n) of displacements z (K, nz)."""


@dataclass(frozen=True)
class BlockCheck:
    """One block of derivatives, e.g. fx or Hux, over all points.

    error : largest deviation, relative to the largest entry of the block
    noisy : True if the deviation is above the tolerance, but within the noise of differences of the function
    point, index : the point, and the entry of the block, with the largest deviation
    got, expected : the derivative given and its difference quotient there
    ok : error <= tolerance, or noisy
    """

    name: str
    error: float
    point: int
    index: tuple[int, ...]
    got: float
    expected: float
    ok: bool
    noisy: bool = False


@dataclass(frozen=True)
class DerivativeReport(PrintedAsTable):
    """Result of `check_derivatives`; `print` shows it as a table.

    Attributes
    ----------
    ok
        True if no block is wrong, and nothing was left out.
    blocks
        One `BlockCheck` per block.
    notes
        Assumptions, e.g. that ru is None.
    not_compared
        For `check_sensitivity`, the parameters, or "multipliers", that could not be compared; the notes give the
        reasons.
    x, u
        The points, (K, nx) and (K, nu) or None; for `check_sensitivity` the parameters (1, P).
    axis
        Name of what `BlockCheck.point` counts.
    """

    subject: str
    tolerance: float
    blocks: tuple[BlockCheck, ...]
    notes: tuple[str, ...]
    x: np.ndarray
    u: np.ndarray | None
    axis: str = "point"
    not_compared: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return in_brief(self, ok=self.ok, largest_error=max((block.error for block in self.blocks), default=0.0))

    @property
    def ok(self) -> bool:
        """True if every block agrees with differences, and none could not be compared."""
        return not self.not_compared and not self.wrong

    @property
    def wrong(self) -> bool:
        """True if some block does not agree with differences."""
        return not all(block.ok for block in self.blocks)

    def __getitem__(self, name: str) -> BlockCheck:
        """The block of this name."""
        for block in self.blocks:
            if block.name == name:
                return block
        raise KeyError(f"{name!r}; blocks are {', '.join(block.name for block in self.blocks)}")

    def table(self) -> Table:
        """Table with a row for each block: its error, and its worst entry as given and by differences."""
        from rich.markup import escape

        noisy = any(block.noisy for block in self.blocks)
        verdict = "are WRONG" if self.wrong else "agree with differences" + " but for noise" * noisy
        if self.not_compared:
            verdict = "are WRONG" if self.wrong else f"{verdict} where they were compared"
            verdict += f"; not compared: {escape(', '.join(self.not_compared))}"
        points = f"{self.x.size} parameters" if self.axis == "row" else f"{len(self.x)} points"
        title = f"Derivatives of {self.subject} {verdict} (tolerance {self.tolerance:g}, {points})"
        table = new_table(title, "\n".join(f"note: {note}" for note in self.notes))
        table.add_column("block")
        table.add_column("error", justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        table.add_column("worst entry", no_wrap=True)
        for name in ("got", "expected"):
            table.add_column(name, justify="right", no_wrap=True)
        for b in self.blocks:
            mark = "noise" if b.noisy else "ok" if b.ok else "[red]WRONG"
            where = escape(f"{list(b.index)}, {self.axis} {b.point}")
            table.add_row(escape(b.name), f"{b.error:.1e}", mark, where, f"{b.got:.8g}", f"{b.expected:.8g}")
        return table


def check_derivatives(
    thing: Any,
    x: ArrayLike | None = None,
    u: ArrayLike | None = None,
    *,
    system: System | None = None,
    seed: int = 0,
    tolerance: float = 1e-6,
    step: float = 2.0**-6,
) -> DerivativeReport:
    """Compare the derivatives of a system, a residual or a cost with differences of sixth order.

    Parameters
    ----------
    thing : a `System` (fx, fu, Hessian products, tensors), a `Residual` (Jacobians, Hessian products) or a `Cost`
        (gradient and exact Hessian, Gauss-Newton part plus curvature)
    x : (nx,) or (K, nx), points to check at; random ones by default (on a manifold x is needed)
    u : (nu,) or (K, nu), controls; random by default
    system : the system of a residual or a cost; needed for costs, on manifolds, and where x is not given
    seed : seed of the random points and multipliers
    tolerance : largest error allowed, relative to the largest entry of each block
    step : h of the differences of second order, half of it for the first; well below the lengths over which f varies

    Raises
    ------
    TypeError, ValueError : naming the argument.  A wrong derivative raises nothing: see `DerivativeReport.ok`.

    Examples
    --------
    >>> def step(x, u):
    ...     return x[0] + 0.1 * x[1], x[1] + 0.1 * np.sin(x[0]) * u[0]
    >>> report = trajopt.check_derivatives(trajopt.CallableSystem(step, nx=2, nu=1, dt=0.1))
    >>> report.ok, [block.name for block in report.blocks][:3]  # print(report) names the worst entries
    (True, ['fx', 'fu', 'Hxx'])
    """
    as_positive("tolerance", tolerance)
    as_positive("step", step)
    rng = np.random.default_rng(as_whole_number("seed", seed, 0))
    if hasattr(thing, "linearize"):
        system, check = thing, _system_blocks
    elif hasattr(thing, "accumulate_curvature"):
        check = _cost_blocks
        if system is None:
            raise ValueError("system: got None, expected the system that the cost is used with")
    elif hasattr(thing, "evaluate") and hasattr(thing, "jacobians"):
        check = _residual_blocks
    else:
        raise TypeError(f"thing: got {type(thing).__name__}, expected a system, a residual or a cost")
    X, U = _points(system, x, u, rng)
    compare = _Comparison(system, X, U, rng, tolerance, step)
    with np.errstate(all="ignore"):
        notes = check(thing, compare)
    return DerivativeReport(type(thing).__name__, tolerance, tuple(compare.blocks), tuple(notes), X, U)


def _points(system: System | None, x: Any, u: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray | None]:
    """Points (K, nx) and controls (K, nu); random where not given; no controls for a residual without system and u."""
    if system is None and x is None:
        raise ValueError("x: got None, expected points, or the system of the residual in system=")
    nx = np.shape(x)[-1] if system is None else system.nx
    X = None if x is None else _batch("x", x, nx)
    U = None if u is None else _batch("u", u, np.shape(u)[-1] if system is None else system.nu)
    K = max([len(given) for given in (X, U) if given is not None], default=1)
    K = POINTS if X is None and K == 1 else K
    K = capability(system, Knots).horizon or K  # one point for each knot
    if X is None:
        X = rng.standard_normal((K, nx))
    if system is not None:
        try:
            check_states(system, X)
        except ValueError as error:
            raise ValueError(f"x: expected states on the manifold ({error})") from None
    if U is None and system is not None:
        U = rng.standard_normal((K, system.nu))
    for name, points in (("x", X), ("u", U)):
        if points is not None and len(points) not in (1, K):
            raise ValueError(f"{name}: got {len(points)} points, expected one or {K}")
    X = np.broadcast_to(X, (K, X.shape[1])).copy()
    return X, None if U is None else np.broadcast_to(U, (K, U.shape[1])).copy()


def _batch(name: str, value: Any, size: int) -> np.ndarray:
    array = np.atleast_2d(np.array(value, dtype=np.float64))
    if array.ndim != 2 or array.shape[1] != size:
        raise ValueError(f"{name}: got shape {np.shape(value)}, expected ({size},) or (K, {size})")
    return array


def compared(
    name: str, got: np.ndarray, expected: np.ndarray, rounding: float, tolerance: float, noise: float = 0.0
) -> BlockCheck:
    """Compare a block (points, ...) with its differences; errors below `rounding` do not count, and those below `noise`
    are called noisy."""
    scale = max(float(np.abs(expected).max()), rounding / tolerance, np.finfo(float).tiny)
    error = np.abs(got - expected) / scale
    place = np.unravel_index(int(np.argmax(np.where(np.isnan(error), np.inf, error))), error.shape)
    where, worst = tuple(int(i) for i in place), float(error[place])
    noisy = tolerance < worst <= noise / scale
    numbers = float(got[place]), float(expected[place])
    return BlockCheck(name, worst, where[0], where[1:], *numbers, worst <= tolerance or noisy, noisy)


class _Comparison:
    """The points, differences there, and the blocks compared so far."""

    def __init__(self, system, X, U, rng, tolerance, step):
        self.system, self.X, self.U, self.rng = system, X, U, rng
        self.tolerance, self.step, self.blocks, self.noise = tolerance, step, [], (0.0, 0.0, 0.0)
        self.ndx, self.nu = X.shape[1] if system is None else system.ndx, 0 if U is None else U.shape[1]
        self.nz = self.ndx + self.nu

    def moved(self, z):
        """The points displaced by z (K, nz)."""
        dx, du = z[:, : self.ndx], z[:, self.ndx :]
        X = self.X + dx if self.system is None else self.system.integrate(self.X, dx)
        return X, None if self.U is None else self.U + du

    def multipliers(self, n):
        """Random multipliers (K, n)."""
        return self.rng.standard_normal((len(self.X), n))

    def _along(self, y, d, order):
        """First or second derivative of y along d (nz,), times step^order."""
        weights, h = (FIRST, 0.5 * self.step) if order == 1 else (SECOND, self.step)
        sign, total = -1.0 if order == 1 else 1.0, 0.0
        for s, w in weights.items():
            z = np.tile(s * h * d, (len(self.X), 1))
            total = total + w * ((y(z) + sign * y(-z)) if s else y(z))
        return total / h**order

    def measure_noise(self, y: Value, size: float):
        """Set the noise of derivatives of order 0, 1 and 2 by differences of y, whose values are of this size: of the
        differences here, and of the checked derivatives, if they are differences."""
        axis = np.full(self.nz, NOISE_STEP / np.sqrt(max(self.nz, 1)))
        Y = np.stack([y(np.tile(j * axis, (len(self.X), 1))) for j in range(NOISE_POINTS)])
        sigma = float(np.median(noise_between(Y).max(axis=1, initial=0.0)))
        if LEAST_NOISE * size < sigma < np.inf:
            first, second = difference_steps(np.array([sigma / size]))
            here = 0.5 * self.step, self.step
            orders = ((1.0, 1.0), (first, here[0]), (second, here[1]))
            self.noise = tuple(NOISY * sigma * sum(h**-k for h in steps) for k, steps in enumerate(orders))

    def first(self, y: Value) -> np.ndarray:
        """Jacobian (K, n, nz) of y (K, n) by differences."""
        return np.stack([self._along(y, d, 1) for d in np.eye(self.nz)], axis=-1)

    def second(self, y: Value) -> np.ndarray:
        """Hessian (K, nz, nz) of y (K,) by differences."""
        axes, H = np.eye(self.nz), np.empty((len(self.X), self.nz, self.nz))
        for i in range(self.nz):
            H[:, i, i] = self._along(y, axes[i], 2)
        for i in range(self.nz):
            for j in range(i):
                H[:, i, j] = 0.5 * (self._along(y, axes[i] + axes[j], 2) - H[:, i, i] - H[:, j, j])
                H[:, j, i] = H[:, i, j]
        return H

    def parts(self, H):
        """The blocks xx, ux, uu of a Hessian (K, nz, nz)."""
        n = self.ndx
        return H[:, :n, :n], H[:, n:, :n], H[:, n:, n:]

    def add(self, name, got, expected, size, order):
        """Compare one block; `size` is that of the function's values, for the rounding of the differences."""
        got = np.asarray(got, dtype=np.float64)
        if got.shape != expected.shape:
            raise ValueError(f"{name}: got shape {got.shape}, expected {expected.shape}")
        if not got.size:
            return
        rounding = ROUNDING * size / self.step**order
        self.blocks.append(compared(name, got, expected, rounding, self.tolerance, self.noise[order]))


def _system_blocks(system, c):
    y0 = system.step(c.X, c.U)
    size, lam = float(np.abs(y0).max() + np.abs(c.X).max() + c.step), c.multipliers(c.ndx)

    def y(z):
        return system.difference(y0, system.step(*c.moved(z)))

    c.measure_noise(y, size)
    fx, fu = system.linearize(c.X, c.U)
    J = c.first(y)
    c.add("fx", fx, J[:, :, : c.ndx], size, 1)
    c.add("fu", fu, J[:, :, c.ndx :], size, 1)
    expected = c.parts(c.second(lambda z: np.sum(lam * y(z), axis=1)))
    for name, got, want in zip(("Hxx", "Hux", "Huu"), system.hessian_products(c.X, c.U, lam), expected, strict=True):
        c.add(name, got, want, size, 2)
    for name, tensor, want in zip(("fxx", "fux", "fuu"), system.hessians(c.X, c.U), expected, strict=True):
        c.add(f"lam'{name}", np.einsum("ki,kijl->kjl", lam, tensor), want, size, 2)
    dt, first = semi_implicit_form(system)
    if np.any(dt):
        n, dt = c.ndx // 2, np.reshape(dt, (-1, 1, 1))
        upper = np.eye(n, 2 * n) + dt * fx[:, n:]
        c.add("semi_implicit fx", fx[:, first:n], upper[:, first:], size, 0)
        c.add("semi_implicit fu", fu[:, first:n], dt * fu[:, n + first :], size, 0)
        return ["the system promises semi-implicit structure: upper halves against lower ones"]
    return []


def _residual_blocks(residual, c):
    notes = []
    if c.U is None:
        notes.append("no u and no system given: derivatives in u are not checked")
    r = np.asarray(residual.evaluate(c.X, c.U))
    size, mu = float(np.abs(r).max() + np.abs(c.X).max() + c.step), c.multipliers(residual.nr)

    def y(z):
        return np.asarray(residual.evaluate(*c.moved(z)))

    c.measure_noise(y, size)
    rx, ru = residual.jacobians(c.X, c.U)
    J = c.first(y)
    c.add("rx", rx, J[:, :, : c.ndx], size, 1)
    if ru is None and c.U is not None:
        notes.append("jacobians says that the residual does not depend on u (ru is None)")
    c.add("ru", np.zeros((len(c.X), residual.nr, c.nu)) if ru is None else ru, J[:, :, c.ndx :], size, 1)
    expected = c.parts(c.second(lambda z: np.sum(mu * y(z), axis=1)))
    products = residual.hessian_products(c.X, c.U, mu)
    for name, H, want in zip(("Hxx", "Hux", "Huu"), products, expected, strict=True):
        if H is None and c.U is not None:
            notes.append(f"hessian_products says that {name} is zero (None)")
        c.add(name, np.zeros_like(want) if H is None else H, want, size, 2)
    return notes


def _cost_blocks(cost, c):
    """Check a cost that accumulates into nonzero arrays, with a scale other than one: its interface includes both."""
    K, n, m, scale = len(c.X), c.ndx, c.nu, 0.7
    cost.check(c.system, False)
    lx, lu, lxx, lux, luu = (
        c.rng.standard_normal(shape) for shape in ((K, n), (K, m), (K, n, n), (K, m, n), (K, m, m))
    )
    start = lx, lu, lxx + lxx.swapaxes(1, 2), lux, luu + luu.swapaxes(1, 2)
    target = Quadratic(*(a.copy() for a in start))
    cost.accumulate(c.X, c.U, scale, target)
    cost.accumulate_curvature(c.X, c.U, scale, target)
    lx, lu, *hessians = ((after - before) / scale for after, before in zip(target, start, strict=True))

    def y(z):
        return np.asarray(cost.value(*c.moved(z)))

    size = float(np.abs(y(np.zeros((K, c.nz)))).max()) + 1.0
    c.measure_noise(lambda z: y(z)[:, None], size)
    gradient = c.first(lambda z: y(z)[:, None])[:, 0]
    c.add("lx", lx, gradient[:, :n], size, 1)
    c.add("lu", lu, gradient[:, n:], size, 1)
    for name, got, want in zip(("lxx", "lux", "luu"), hessians, c.parts(c.second(y)), strict=True):
        c.add(name, got, want, size, 2)
    return []
