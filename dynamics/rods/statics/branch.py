"""Branches of equilibria as loads change in proportion to a factor, past limit points, by pseudo-arc length.

With x the free coordinates in units of moderate changes, and a factor s in units of its range, points
y = (x, lambda, s) satisfy r = 0 and e = 0; the next lies on the plane t.(y - y0 - h t) = 0 in x and s, t the tangent:

    [J -A' r_s; A 0 e_s; t_x' 0 t_s] dy = - [r; e; t.(y - y0 - h t)]                                [Keller 1977]

Where the number of negative eigenvalues of the stiffness changes there is a critical point: a limit point if s turns
back there, else a bifurcation.  It is found as the root of that eigenvalue, or of t_s, over h.  The branch that leaves
a bifurcation starts along the null vector of the stiffness, x = Z v with Z'JZ v = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from dynamics.printed import in_brief
from dynamics.rods.kinematics.center_lines import check_turns, turned_far
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import LoadPath, Tangent, load_path, negative_directions, stiffness_values
from dynamics.rods.statics.newton import CONVERGED, MESSAGES
from dynamics.validation import as_array, as_positive, as_whole_number

MOST, FEW = 8, 3
"""Number of Newton steps above which a point is given up, and up to which the next step along the branch is longer."""
SHORTEST, LONGEST = 1e-4, 5.0
"""Shortest and longest step along the branch, relative to the first."""
STRAIGHT = 0.9
"""Least cosine between the tangents of neighbouring points."""
SAME = 1e-4
"""Distance, relative to the step, below which two critical points count as one."""
AT_REST = 1e-6
"""Largest scaled residual of the equations at a start with a given direction."""


class EquilibriumBranch(NamedTuple):
    """Points along a branch of equilibria, in order.

    Attributes
    ----------
    factors : (P,) load factors
    q : (P, n) coordinates
    multipliers : (P, G) of closed chains, N and N m
    stable : (P,) True if all eigenvalues of the stiffness are positive, as for a `StaticEquilibrium`
    negative_directions : (P,) number of negative eigenvalues
    critical_factors, critical_q : (C,), (C, n) points between where that number changes or the factor turns back
    critical_directions : (C, n) changes of q there with zero stiffness, of moderate size: along them, with either sign,
        another branch leaves a bifurcation
    critical_kinds : (C,) "limit" or "bifurcation"
    status : "converged" where the branch reached the end of its factors, else the reason: "too many points", or that
        the next point was not found
    """

    factors: np.ndarray
    q: np.ndarray
    multipliers: np.ndarray
    stable: np.ndarray
    negative_directions: np.ndarray
    critical_factors: np.ndarray
    critical_q: np.ndarray
    critical_directions: np.ndarray
    critical_kinds: tuple[str, ...]
    status: str

    def __repr__(self) -> str:
        return in_brief(
            self,
            status=self.status,
            factors=self.factors[[0, -1]],
            points=len(self.factors),
            critical_factors=self.critical_factors,
        )


class _Point(NamedTuple):
    """A point of a branch: y = (x, lambda / unit, s), the equations there, and the tangent direction."""

    y: np.ndarray
    q: np.ndarray
    tangent: Tangent
    direction: np.ndarray  # as y, of length 1 in x and s
    steps: int


class _Branch:
    """The equations of a branch in the unknowns y."""

    def __init__(self, path: LoadPath, factors: np.ndarray, unit: float) -> None:
        self.path, self.unit, self.start, self.range = path, unit, float(factors[0]), float(factors[1] - factors[0])
        self.F, self.G = len(path.held.free), path.robot.model.constraint_count
        self.weights = np.concatenate([np.ones(self.F), np.zeros(self.G), [1.0]])

    def factor(self, y: np.ndarray) -> float:
        return self.start + self.range * float(y[-1])

    def at(self, y: np.ndarray) -> tuple[np.ndarray, Tangent]:
        """Shape (n,) and linearized equations at y."""
        path, free, s = self.path, self.path.held.free, self.factor(y)
        q = path.placed(np.zeros(path.robot.nq), s)
        q[free] = y[: self.F] * path.scales[free]
        return q, path.tangent(q, s, y[self.F : -1] * self.unit)

    def softest(self, t: Tangent) -> np.ndarray:
        """Change of q (n,), of moderate size, with the least stiffness."""
        Z = t.null_space()
        x, free = Z @ np.linalg.svd(Z.T @ t.J @ Z)[2][-1], self.path.held.free
        dq = np.zeros(self.path.robot.nq)
        dq[free] = self.path.scales[free] * x * np.sign(x[np.abs(x).argmax()])
        return dq

    def _matrix(self, t: Tangent, last: np.ndarray) -> np.ndarray:
        """Matrix of the equations and of a last row, with forces and multipliers in units."""
        F, G, c = self.F, self.G, self.unit
        K = np.zeros((F + G + 1, F + G + 1))
        K[:F, :F], K[:F, F:-1], K[:F, -1] = t.J / c, -t.A.T, self.range * t.r_s / c
        K[F:-1, :F], K[F:-1, -1], K[-1] = t.A, self.range * t.e_s, last * self.weights
        return K

    def point(self, y: np.ndarray, before: np.ndarray, steps: int = 0) -> _Point | None:
        """The point y, with the tangent direction nearest to the direction before."""
        q, t = self.at(y)
        right = np.zeros(len(y))
        right[-1] = 1.0
        try:
            direction = np.linalg.solve(self._matrix(t, before), right)
        except np.linalg.LinAlgError:
            return None
        size = np.sqrt(self.weights @ direction**2)
        return _Point(y, q, t, direction / size, steps) if np.isfinite(size) and size > 0.0 else None

    def along(self, point: _Point, h: float, tolerance: float) -> _Point | None:
        """The point of the branch a step h from this one; None if it was not found."""
        y, t = point.y + h * point.direction, point.direction
        for count in range(MOST):
            _, equations = self.at(y)
            gap = self.weights * t @ (y - point.y) - h
            right = -np.concatenate([equations.r / self.unit, equations.e, [gap]])
            try:
                step = np.linalg.solve(self._matrix(equations, t), right)
            except np.linalg.LinAlgError:
                return None
            y = y + step
            if not np.isfinite(y).all():
                return None
            if np.abs(step).max() <= tolerance * (1.0 + np.abs(y).max()):
                return self.point(y, t, count + 1)
        return None


def _root(f: Callable[[float], float], h: float, xtol: float) -> float:
    """Root of f between 0 and h, where its signs differ; NaN if they are the same, or f is NaN on the way."""
    try:
        return brentq(f, 0.0, h, xtol=xtol) if f(0.0) * f(h) < 0.0 else np.nan
    except ValueError:
        return np.nan


def _critical(branch: _Branch, a: _Point, b: _Point, h: float, tolerance: float) -> list[tuple[_Point, str]]:
    """Critical points between neighbours a and b, a step h apart."""
    low, high = sorted(negative_directions(point.tangent.stiffness())[0] for point in (a, b))
    turns = a.direction[-1] * b.direction[-1] < 0.0
    if low == high and not turns:
        return []

    def root(value: Callable[[_Point], float]) -> float:
        def of_step(step: float) -> float:
            point = a if step == 0.0 else b if step == h else branch.along(a, step, tolerance)
            return np.nan if point is None else value(point)

        found = _root(of_step, h, 1e-9 * h)
        return found if np.isfinite(found) else 0.5 * h

    def eigenvalue(k: int) -> Callable[[_Point], float]:
        return lambda point: float([*stiffness_values(point.tangent.stiffness()), *[np.inf] * (k + 1)][k])

    steps = [(root(lambda point: float(point.direction[-1])), "limit")] if turns else []
    for k in range(low, high):
        step = root(eigenvalue(k))
        if all(abs(step - other) > SAME * h for other, _ in steps):
            steps.append((step, "bifurcation"))
    points = [(branch.along(a, step, tolerance), kind) for step, kind in sorted(steps)]
    return [(a if point is None else point, kind) for point, kind in points]


def equilibrium_branch(
    robot: SoftRobot,
    u: ArrayLike,
    q0: ArrayLike | None = None,
    wrenches: ArrayLike | None = None,
    prescribed: Mapping[str, ArrayLike] | None = None,
    u_start: ArrayLike | None = None,
    wrenches_start: ArrayLike | None = None,
    factors: ArrayLike = (0.0, 1.0),
    step: float = 0.1,
    max_points: int = 1000,
    tolerance: float = 1e-9,
    direction: ArrayLike | None = None,
) -> EquilibriumBranch:
    """Follow an equilibrium as its loads change with a factor s: u_start + s (u - u_start), and so wrenches, and
    coordinates of prescribed joints, which at s = 0 are those of q0.

    Parameters
    ----------
    robot : SoftRobot
    u, wrenches, prescribed : (nu,), (W, 6) and by name of link, at s = 1; as `static_equilibrium`
    q0 : (n,) start, near an equilibrium at factors[0]; by default zero
    u_start, wrenches_start : (nu,), (W, 6) at s = 0; by default zero
    factors : (2,) where the branch starts and ends; they may exceed 1, or decrease.  On the way it may turn back any
        number of times
    step : first step along the branch: 1 is a moderate change of all coordinates together (0.3 rad, along a rod, 0.3 m
        of joints, stretch of 0.1), or the whole range of factors; later ones are up to 5 times as long where the
        branch is straight, and shorter where it is curved
    max_points : number of points at most
    tolerance : error of the points, in the units of `step`
    direction : (n,) change of q with which the branch begins; q0 is then the equilibrium at factors[0].  At a
        bifurcation plus or minus the critical direction follows the branch that leaves there

    Returns
    -------
    EquilibriumBranch(factors, q, multipliers, stable, negative_directions, critical_factors, critical_q,
    critical_directions, critical_kinds, status).  At a bifurcation the branch continues straight on.

    Raises
    ------
    ValueError : a wrong shape, a number that is not finite, one out of range, two equal factors, no equilibrium at the
        first; a direction that is zero where coordinates are free.
    """
    path, q0 = load_path(robot, u, wrenches, q0, prescribed, u_start, wrenches_start)
    ends, step = as_array("factors", factors, (2,)), as_positive("step", step)
    max_points, tolerance = as_whole_number("max_points", max_points, 2), as_positive("tolerance", tolerance)
    if ends[0] == ends[1]:
        raise ValueError(f"factors: got {ends[0]} twice, expected where the branch starts and where it ends")
    if direction is None:
        branch, point = _start(path, q0, ends, tolerance)
    else:
        branch, point = _start_along(path, q0, ends, as_array("direction", direction, (robot.nq,)))
    return _of_points(branch, *_followed(branch, point, step, max_points, tolerance))


def _branch_from(path: LoadPath, q: np.ndarray, ends: np.ndarray, multipliers: np.ndarray) -> tuple[_Branch, _Point]:
    """The branch through an equilibrium at its first factor, and that point, without a direction yet."""
    t, free = path.tangent(q, float(ends[0]), multipliers), path.held.free
    branch = _Branch(path, ends, float(np.abs(np.diag(t.J)).max(initial=0.0)) or 1.0)
    y = np.concatenate([q[free] / path.scales[free], multipliers / branch.unit, [0.0]])
    return branch, _Point(y, q, t, np.zeros(len(y)), 0)


def _start(path: LoadPath, q0: np.ndarray, ends: np.ndarray, tolerance: float) -> tuple[_Branch, _Point]:
    """The branch, and its first point, with the direction towards the other end."""
    q, result = path.solve(q0, float(ends[0]), None, tolerance, 100)
    if result.status != CONVERGED:
        check_turns(path.robot.model, q0, "q0")
        raise ValueError(f"q0: no equilibrium at the factor {ends[0]:.6g} was found from it: {MESSAGES[result.status]}")
    branch, first = _branch_from(path, q, ends, result.multipliers)
    before = np.zeros(len(first.y))
    before[-1] = 1.0
    point = branch.point(first.y, before)
    if point is None:
        raise ValueError(f"q0: at the factor {ends[0]:.6g} is a critical point, expected a branch with one direction")
    return branch, point


def _start_along(path: LoadPath, q0: np.ndarray, ends: np.ndarray, change: np.ndarray) -> tuple[_Branch, _Point]:
    """The branch, and its first point, with a direction along a change (n,) of q: a critical point, from which Newton's
    method may move away."""
    free, s = path.held.free, float(ends[0])
    if not change[free].any():
        raise ValueError("direction: got zeros in all coordinates that are free, expected one that is not")
    q = path.placed(q0, s)
    t = path.tangent(q, s, np.zeros(path.robot.model.constraint_count))
    branch, first = _branch_from(path, q, ends, np.linalg.lstsq(t.A.T, t.r, rcond=None)[0])
    t, direction = first.tangent, first.direction
    if max(np.abs(t.r).max(initial=0.0) / branch.unit, np.abs(t.e).max(initial=0.0)) > AT_REST:
        raise ValueError(f"q0: is no equilibrium at the factor {s:.6g}, expected one, with a direction")
    direction[: branch.F] = change[free] / path.scales[free]
    return branch, first._replace(direction=direction / np.linalg.norm(direction))


def _followed(
    branch: _Branch, start: _Point, step: float, max_points: int, tolerance: float
) -> tuple[list[_Point], list[tuple[_Point, str]], str]:
    """Points from a first one on, critical ones between them, and the reason why the branch ended."""
    point, points, critical, h, status = start, [start], [], step, "too many points"
    while len(points) < max_points:
        after = branch.along(point, h, tolerance)
        bent = after is not None and branch.weights * after.direction @ point.direction < STRAIGHT
        if (after is None or bent) and h > SHORTEST * step:
            h = max(0.5 * h, SHORTEST * step)
            continue
        if after is None:
            status = "the next point was not found" + turned_far(branch.path.robot.model, point.q)
            break
        if after.y[-1] >= 1.0:
            after, h = _end(branch, point, h, tolerance, after)
        if len(points) > 1 or start.direction[-1] != 0.0:  # without these, the start is a critical point
            critical += _critical(branch, point, after, h, tolerance)
        points.append(after)
        if after.y[-1] >= 1.0 - tolerance:
            status = MESSAGES[CONVERGED]
            break
        h = min(1.5 * h, LONGEST * step) if after.steps <= FEW else h
        point = after
    return points, critical, status


def _end(branch: _Branch, a: _Point, h: float, tolerance: float, beyond: _Point) -> tuple[_Point, float]:
    """The point where the factor reaches its end, on the way to a point beyond, and the step to it."""

    def excess(length: float) -> float:
        point = a if length == 0.0 else beyond if length == h else branch.along(a, length, tolerance)
        return np.nan if point is None else float(point.y[-1]) - 1.0

    length = _root(excess, h, 1e-2 * tolerance) if beyond.y[-1] > 1.0 else h
    point = branch.along(a, length, tolerance) if np.isfinite(length) else None
    return (beyond, h) if point is None else (point, length)


def _of_points(branch: _Branch, points: list[_Point], critical: list[tuple[_Point, str]], status: str):
    signs = [negative_directions(point.tangent.stiffness()) for point in points]
    n = branch.path.robot.nq
    return EquilibriumBranch(
        np.array([branch.factor(point.y) for point in points]), np.array([point.q for point in points]),
        np.array([point.tangent.multipliers for point in points]), np.array([stable for _, stable in signs]),
        np.array([count for count, _ in signs]), np.array([branch.factor(point.y) for point, _ in critical]),
        np.array([point.q for point, _ in critical]).reshape(-1, n),
        np.array([branch.softest(point.tangent) for point, _ in critical]).reshape(-1, n),
        tuple(kind for _, kind in critical), status,
    )  # fmt: skip
