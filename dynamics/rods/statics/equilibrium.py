"""Equilibria: Newton's method, descent in a trust region, and loads that grow in steps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.derivatives.implicit_function import changes_under_constraints
from dynamics.printed import in_brief
from dynamics.rods.algorithms.closed_chains import DEPENDENT, ROUNDING, close_chains, trust_region_step
from dynamics.rods.kinematics.center_lines import check_turns, skeleton, turned_far
from dynamics.rods.model.arrays import FORCES
from dynamics.rods.model.rod_model import coordinate_scales
from dynamics.rods.robot.pictures import contact_shapes, plot_poses
from dynamics.rods.robot.reactions import PrescribedMotion, by_variable, prescribed_values
from dynamics.rods.robot.soft_robot import SoftRobot, picklable
from dynamics.rods.statics.newton import CONVERGED, MESSAGES, NO_START, STALLED, Newton, NewtonResult
from dynamics.validation import as_array, as_choice, as_kind, as_positive, as_whole_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# --------------------------------------------------------------------------------------------
# The equations of statics as loads grow in proportion to a factor, and the stiffness along shapes that keep chains
# closed.
#
# Inputs (controls, external wrenches) and prescribed coordinates p go linearly from what they are at s = 0 to what they
# are at s = 1.  With f the free coordinates,
#
#     r_f(q, lambda, s) = 0,    e(q, s) = 0,    J = dr_f/dq_f,    A = de/dq_f,    dr_f/ds = r_f(u1) - r_f(u0) + r_p p'
#
# since r is linear in the inputs.  Coordinates are scaled by moderate changes of each (`coordinate_scales`), and
# stiffness is Z'JZ, with Z an orthonormal basis of the null space of A in these units.

SYMMETRIC = 1e-9
"""Largest difference of a symmetric stiffness from its transpose, relative to its largest entry."""


class Tangent(NamedTuple):
    """The linearized equations at a point; free coordinates in units of their scales, forces times these, that is,
    energies."""

    r: np.ndarray  # (F,)
    J: np.ndarray  # (F, F)
    r_s: np.ndarray  # (F,)
    e: np.ndarray  # (G,)
    A: np.ndarray  # (G, F)
    e_s: np.ndarray  # (G,)
    multipliers: np.ndarray  # (G,)

    def null_space(self) -> np.ndarray:
        """Z (F, F - rank A)."""
        if not len(self.A):
            return np.eye(len(self.r))
        _, values, rows = np.linalg.svd(self.A)
        return rows[int((values > DEPENDENT * values[0]).sum()) :].T

    def stiffness(self) -> np.ndarray:
        """Z'JZ."""
        if not len(self.A):
            return self.J
        Z = self.null_space()
        return Z.T @ self.J @ Z


def is_symmetric(K: np.ndarray) -> bool:
    """True if the stiffness is symmetric, so that forces are the gradient of an energy."""
    return bool(np.abs(K - K.T).max(initial=0.0) <= SYMMETRIC * np.abs(K).max(initial=0.0))


def stiffness_values(K: np.ndarray) -> np.ndarray:
    """Eigenvalues of a stiffness, ascending; the real ones if it is not symmetric."""
    if is_symmetric(K):
        return np.linalg.eigvalsh(0.5 * (K + K.T))
    values = np.linalg.eigvals(K)
    return np.sort(values[values.imag == 0.0].real)


def negative_directions(K: np.ndarray) -> tuple[int, bool]:
    """The number of negative eigenvalues of a stiffness, and whether all are positive."""
    if not K.size:
        return 0, True
    if not np.isfinite(K).all() or not K.any():
        return 0, False
    if is_symmetric(K):
        d = np.sqrt(np.abs(np.diag(K)) + ROUNDING * np.abs(K).max())
        try:
            np.linalg.cholesky(K / np.outer(d, d) - ROUNDING * np.eye(len(K)))
        except np.linalg.LinAlgError:
            pass
        else:
            return 0, True
    values = stiffness_values(K)
    floor = ROUNDING * np.abs(K).max()
    return int((values < -floor).sum()), bool((values > floor).all())


class LoadPath:
    """A robot, its prescribed motion, and its loads at s = 0 and at s = 1: inputs (nu + 6 W,), prescribed coordinates
    (P,)."""

    def __init__(
        self,
        robot: SoftRobot,
        held: PrescribedMotion,
        inputs: tuple[np.ndarray, np.ndarray],
        values: tuple[np.ndarray, np.ndarray],
    ) -> None:
        self.robot, self.held, self._inputs, self._values = robot, held, inputs, values
        self.scales = coordinate_scales(robot.model)
        self.newton = Newton(robot, held.free)
        self.largest = float((np.diag(robot.model.stiffness) * self.scales**2).max(initial=0.0))

    def inputs(self, s: float) -> np.ndarray:
        """Controls and external wrenches (nu + 6 W,)."""
        start, end = self._inputs
        return end if s == 1.0 else start + s * (end - start)

    def placed(self, q: np.ndarray, s: float) -> np.ndarray:
        """q (n,) with the prescribed coordinates at s."""
        start, end = self._values
        placed = q.copy()
        placed[self.held.coordinates] = end if s == 1.0 else start + s * (end - start)
        return placed

    def solve(
        self, q: np.ndarray, s: float, multipliers: np.ndarray | None, tolerance: float, max_iterations: int
    ) -> tuple[np.ndarray, NewtonResult]:
        """Newton's method from q (n,): the final shape and the result."""
        base = np.zeros((3, len(q)))
        base[0] = self.placed(base[0], s)
        arguments = base, (1.0, 0.0, 0.0), self.inputs(s), q, tolerance, max_iterations, multipliers
        result = self.newton.solve(*arguments, final=True)
        return base[0] + result.z, result

    def at_rest(self, result: NewtonResult, tolerance: float) -> bool:
        """True if Newton's method converged, or ended with a residual within rounding: at shapes that can rotate
        freely, such as a helix between clamps, steps stay as large as rounding makes them."""
        left = np.abs(result.forces * self.scales)[self.held.free].max(initial=0.0)
        return result.status == CONVERGED or (result.status == STALLED and bool(left <= tolerance * self.largest))

    def _states(self, qs: np.ndarray, inputs: np.ndarray, multipliers: np.ndarray | None = None) -> np.ndarray:
        """States (K, .) in the layout of `residual_kernel`, for q (K, n) and inputs (nu + 6 W,) or (K, .)."""
        n, robot = qs.shape[1], self.robot
        states = np.zeros((len(qs), 4 * n + robot.nu + int(robot.arrays.counts[1])))
        states[:, :n], states[:, 4 * n : 4 * n + inputs.shape[-1]] = qs, inputs
        if multipliers is not None:
            states[:, states.shape[1] - len(multipliers) :] = multipliers
        return states

    def forces(self, qs: np.ndarray, s: float) -> np.ndarray:
        """Scaled r_f (K, F) at q (K, n), without multipliers."""
        r = self.robot._residual(FORCES, self._states(qs, self.inputs(s)))[0]
        return (r * self.scales)[:, self.held.free]

    def tangent(self, q: np.ndarray, s: float, multipliers: np.ndarray | None = None) -> Tangent:
        """The linearized equations at q (n,), by default with the multipliers that minimize r."""
        free, p, D = self.held.free, self.held.coordinates, self.scales
        given = np.zeros(self.robot.model.constraint_count) if multipliers is None else multipliers
        r, J, e, A = self._linearized(q, s, given)
        if multipliers is None:
            given = np.linalg.lstsq(A[:, free].T, r[free], rcond=DEPENDENT)[0]
            if len(given):
                r, J, e, A = self._linearized(q, s, given)
        start, end = self._inputs
        r_s = np.zeros(len(q))
        if (end != start).any():
            ends = self.robot._residual(FORCES, self._states(np.array([q, q]), np.array([start, end])))[0]
            r_s = (ends[1] - ends[0]) * D
        rates = (self._values[1] - self._values[0]) / D[p]
        r_s, e_s = r_s + J[:, p] @ rates, A[:, p] @ rates
        return Tangent(r[free], J[np.ix_(free, free)], r_s[free], e, A[:, free], e_s, given)

    def stiffness(self, q: np.ndarray, s: float, multipliers: np.ndarray) -> np.ndarray:
        """Z'JZ at q (n,)."""
        free, none = self.held.free, np.zeros(0)
        r, J, e, A = self._linearized(q, s, multipliers)
        return Tangent(r[free], J[np.ix_(free, free)], none, e, A[:, free], none, multipliers).stiffness()

    def _linearized(self, q: np.ndarray, s: float, multipliers: np.ndarray) -> tuple[np.ndarray, ...]:
        """r (n,), its derivative (n, n), e (G,) and its derivative (G, n), for all coordinates."""
        r, J, e, A = self.newton.linearize(q, self.inputs(s), multipliers)
        return self.scales * r, J * np.outer(self.scales, self.scales), e, A * self.scales


# --------------------------------------------------------------------------------------------
# Shapes of least energy: steps in a trust region, downhill also where the stiffness is singular or indefinite.
#
# Along shapes that keep the chains closed, with g = Z'r and H = Z'JZ in units of moderate coordinates, the step p
# solves
#
#     min g'p + p'Hp/2,  |p| <= radius
#
# (`trust_region_step`); where g has no component along a direction of negative curvature, as for a rod that is straight
# above its buckling load, a small one is added.  The gain of a step is the work of r along it, so that energies need
# not be known; for loads without an energy, such as followers, it is that of this step alone.

REACHED, TOO_MANY, STUCK = 0, 1, 2
ENDS = ("reached", "too many iterations", "no way downhill, and no rest")
CLOSE = 1e-4
"""Size of a step, in moderate changes, below which Newton's method takes over."""
FIRST_RADIUS, LARGEST_RADIUS, LEAST_RADIUS = 1.0, 4.0, 1e-9
GAP = 1e-11
"""Largest gap of chains that count as closed."""
LEAST_GAIN = 1e-14
"""Least gain of a step, relative to the energy of a moderate change of the stiffest coordinate: smaller ones are
rounding."""
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(5)


def _work(path: LoadPath, s: float, q: np.ndarray, trial: np.ndarray) -> float:
    """Work of r along the straight line from q to trial; NaN where r is not finite at the trial."""
    step = ((trial - q) / path.scales)[path.held.free]
    places = q + (0.5 + 0.5 * POINTS)[:, None] * (trial - q)
    forces = path.forces(np.vstack([places, trial]), s)
    return 0.5 * float(WEIGHTS @ (forces[:-1] @ step)) if np.isfinite(forces[-1]).all() else np.nan


def _moved(path: LoadPath, q: np.ndarray, x: np.ndarray) -> np.ndarray:
    """q (n,) moved by x (F,) in units of scales, with chains closed again; NaN where they cannot be closed."""
    trial = q.copy()
    trial[path.held.free] += path.scales[path.held.free] * x
    return closed_shape(path, trial)


def closed_shape(path: LoadPath, q: np.ndarray) -> np.ndarray:
    """Coordinates near q (n,) that close the chains, with prescribed ones kept; NaN where there are none."""
    if not path.robot.model.constraint_count:
        return q
    found = close_chains(path.robot.model, q, tuple(path.held.links), GAP)
    return found.q if found.error <= GAP else np.full(len(q), np.nan)


def descend(path: LoadPath, s: float, q: np.ndarray, max_iterations: int) -> tuple[np.ndarray, Tangent, int, int]:
    """Minimize the energy from q (n,), where chains are closed: the shape, the equations there, the status and the
    number of steps."""
    radius, tangent = FIRST_RADIUS, path.tangent(q, s)
    for count in range(max_iterations):
        if not np.isfinite(tangent.r).all():
            return q, tangent, STUCK, count
        Z = tangent.null_space()
        H, g = Z.T @ tangent.J @ Z, Z.T @ tangent.r
        if not len(g):
            return q, tangent, REACHED, count
        while True:
            p, promised = trust_region_step(g, H, radius)
            size = float(np.linalg.norm(p))
            if (size <= CLOSE and size < 0.99 * radius) or -promised <= LEAST_GAIN * path.largest:
                return q, tangent, REACHED, count
            trial = _moved(path, q, Z @ p)
            gain = -_work(path, s, q, trial) if np.isfinite(trial).all() else -np.inf
            ratio = gain / -promised if np.isfinite(gain) and promised < 0.0 else -1.0
            if ratio > 0.75:
                radius = min(max(radius, 2.0 * size), LARGEST_RADIUS)
            elif ratio < 0.25:
                radius = 0.25 * size
            if ratio > 1e-3:
                break
            if radius < LEAST_RADIUS:
                return q, tangent, STUCK, count
        q, tangent = trial, path.tangent(trial, s)
    return q, tangent, TOO_MANY, max_iterations


# --------------------------------------------------------------------------------------------
# Equilibria under loads that grow from zero, step by step, as in slow loading.
#
# A step goes along the tangent dq/ds, [J -A'; A 0] [dq; dlambda] = -[dr/ds; de/ds] ds, and ends in Newton's method.  It
# is halved where that fails or ends far from the prediction; from unstable shapes, the energy is minimized (`descend`).

FIRST_STEP, LEAST_STEP = 0.25, 1e-6
"""First and least step of the load factor."""
SNAP = 0.02
"""Largest step of the load factor at which a shape may snap to another one, so that snapping starts near its critical
load."""
FARTHEST = 2.0
"""Largest change of a coordinate in a step, in moderate changes."""
FEW, MOST = 6, 20
"""Number of Newton steps up to which the next load step is doubled, and largest number before the load step is
halved."""

Found = tuple[np.ndarray, NewtonResult, str, int]
"""A shape (n,), the last result of Newton's method, the message on how the search ended, and the number of steps."""


def descended(path: LoadPath, s: float, q: np.ndarray, tolerance: float, max_iterations: int) -> Found:
    """The equilibrium found by descent from q (n,) under the loads at s."""
    start = closed_shape(path, path.placed(q, s))
    if not np.isfinite(start).all():
        q, result = path.solve(q, s, None, tolerance, max_iterations)
        return q, result, "chains that cannot be closed", result.iterations
    q, tangent, status, count = descend(path, s, start, max_iterations)
    steps = max_iterations if status != TOO_MANY else 1
    found, result = path.solve(q, s, tangent.multipliers, tolerance, steps)
    if path.at_rest(result, tolerance) and status != TOO_MANY:
        return found, result, MESSAGES[CONVERGED], count + result.iterations
    if status == REACHED:
        return found, result, MESSAGES[result.status], count + result.iterations
    return q, result, ENDS[status], count


def _predicted(path: LoadPath, q: np.ndarray, s: float, ds: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Shape and multipliers at s + ds by the tangent, and the largest change of a coordinate, in moderate changes."""
    t = path.tangent(q, s)
    F, G = len(t.r), len(t.e)
    K = np.block([[t.J, -t.A.T], [t.A, np.zeros((G, G))]])
    rates = np.linalg.lstsq(K, -np.concatenate([t.r_s, t.e_s]), rcond=1e-13)[0] if F + G else np.zeros(0)
    trial, free = path.placed(q, s + ds), path.held.free
    trial[free] += ds * rates[:F] * path.scales[free]
    return trial, t.multipliers + ds * rates[F:], float(np.abs((trial - q) / path.scales).max(initial=0.0))


def loaded(path: LoadPath, q: np.ndarray, tolerance: float, max_iterations: int) -> Found:
    """The equilibrium at s = 1, reached from q (n,), which first moves to an equilibrium at s = 0; max_iterations is
    that of each step."""
    q, result, message, count = descended(path, 0.0, q, tolerance, max_iterations)
    s, ds = 0.0, FIRST_STEP
    while s < 1.0 and message == MESSAGES[CONVERGED]:
        ds = min(ds, 1.0 - s)
        guess, multipliers, size = _predicted(path, q, s, ds)
        if size > FARTHEST and ds > LEAST_STEP:
            ds = max(0.9 * ds * FARTHEST / size, LEAST_STEP)
            continue
        target = 1.0 if s + ds >= 1.0 - LEAST_STEP else s + ds
        trial, result = path.solve(guess, target, multipliers, tolerance, MOST)
        count += result.iterations
        near = np.abs((trial - guess) / path.scales).max(initial=0.0) <= FARTHEST
        good = path.at_rest(result, tolerance) and bool(near)
        unstable = good and negative_directions(path.stiffness(trial, target, result.multipliers))[0] > 0
        if (unstable or not good) and ds > SNAP:
            ds *= 0.5
            continue
        if unstable or not good:
            arguments = (trial if good else q), tolerance, max_iterations
            trial, result, message, more = descended(path, target, *arguments)
            count += more
        q, s = trial, target
        ds = 2.0 * ds if result.iterations <= FEW and not unstable else ds
    return q, result, message, count


# --------------------------------------------------------------------------------------------
# Equilibria of a soft robot.

METHODS = {"newton": "Newton's method", "descent": "descent", "loading": "loading"}
"""Methods in the order in which "auto" tries them, with their names in messages."""


class StaticEquilibrium(NamedTuple):
    """An equilibrium of a soft robot.

    Attributes
    ----------
    q : (n,) coordinates
    converged : True if the method converged
    status : that, or the reason of failure: "a singular Jacobian" where a joint without stiffness is neither prescribed
        nor driven; with the rod or joint whose rotation is near 2 pi or more between nodes, where more points may help.
        For "auto" also which method converged in place of Newton's, and why others did not
    iterations : number of steps of the method, or of all methods that were tried
    residual : largest |r_i| at q, over coordinates that are not prescribed
    multipliers : (G,) of closed chains, N and N m
    prescribed_forces : mapping of each prescribed link to the forces of its joint, (dof,), N or N m
    stable : True if all eigenvalues of the stiffness dr/dq are positive, on coordinates that are not prescribed and
        along changes that keep the chains closed.  For loads with an energy (tensions, weight, forces of fixed
        direction, elasticity, contact) this is a minimum of the energy.  Others (followers, moments of fixed direction)
        make the stiffness unsymmetric: then its real eigenvalues count, which detect divergence but not flutter
    negative_directions : number of negative (real) eigenvalues, that is, of independent directions of decreasing energy
    q0 : (n,) coordinates where the search began
    robot : SoftRobot; None in a copy by `pickle`, if the robot has functions that cannot be pickled
    """

    q: np.ndarray
    converged: bool
    status: str
    iterations: int
    residual: float
    multipliers: np.ndarray
    prescribed_forces: Mapping[str, np.ndarray]
    stable: bool
    negative_directions: int
    q0: np.ndarray | None = None
    robot: SoftRobot | None = None

    def __repr__(self) -> str:
        return in_brief(self, status=self.status, residual=self.residual, stable=self.stable)

    def __reduce__(self) -> tuple[Any, ...]:
        return StaticEquilibrium, (*self[:-1], picklable(self.robot))

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw the center lines, m, at the start of the search and at rest, among the shapes that links may touch.

        Parameters: path, the file to write, by default none.  Returns a figure of matplotlib; ValueError where `robot`
        is None.
        """
        if self.robot is None or self.q0 is None:
            raise ValueError("robot: got None, as it was not pickled, expected rest._replace(robot=robot)")
        model = self.robot.model
        before, after = skeleton(model, np.stack([self.q0, self.q]))
        ended = "at rest" if self.converged else "where the search ended"
        title = f"{model.name}: {self.status}" + (", not stable" if self.converged and not self.stable else "")
        return plot_poses({"start": before, ended: after}, contact_shapes(model), title, path)


def static_equilibrium(
    robot: SoftRobot,
    u: ArrayLike,
    q0: ArrayLike | None = None,
    wrenches: ArrayLike | None = None,
    tolerance: float = 1e-10,
    max_iterations: int = 100,
    prescribed: Mapping[str, ArrayLike] | None = None,
    method: str = "auto",
) -> StaticEquilibrium:
    """Coordinates with r(q, 0, 0, u, lambda) = 0 and e(q) = 0.

    Parameters
    ----------
    robot : SoftRobot
    u : (nu,) controls
    q0 : (n,) start; by default zero
    wrenches : (W, 6), [moment; force] of the external loads that take one; by default zero
    tolerance : the method ends when a step changes every q_i by at most tolerance (1 + |q_i|), or, if steps shrink
        more than tenfold, as soon as the remaining error is within that bound
    max_iterations : number of steps of each method at most; of "loading": for each value of the loads
    prescribed : coordinates of prescribed joints, a number or (dof,), by name of link
    method : "auto" is Newton's method and, where that fails, as from a straight rope that is to sag, descent, and where
        that fails loading.  "newton", damped and with the exact Jacobian, finds an equilibrium near q0, stable or not;
        "descent" minimizes in a trust region, also from unstable equilibria, such as a straight rod above its buckling
        load, and ends at a stable one if loads have an energy; "loading" first finds an equilibrium near q0 without
        controls and wrenches, then increases these, and moves prescribed coordinates from their values in q0, in steps:
        for shapes that depend on the history of loading, such as those of rods twisted many times

    Returns
    -------
    StaticEquilibrium(q, converged, status, iterations, residual, multipliers, prescribed_forces, stable,
    negative_directions).  Where it did not converge, as for chains that cannot be closed, q is the best point so far;
        for "auto" that of Newton's method.

    Raises
    ------
    ValueError : a wrong shape, a number that is not finite, one out of range, an unknown method.

    Examples
    --------
    >>> builder = rods.RodModelBuilder()
    >>> silicone = rods.Elastic(young=1e6, poisson=0.5, density=1000.0)
    >>> builder.add_rod("arm", "world", 0.3, rods.Circular(0.02), silicone, rods.LegendreBasis(bending_y=2))
    >>> robot = rods.SoftRobot(builder.build())
    >>> rest = rods.static_equilibrium(robot, u=[])
    >>> rest.converged, rods.link_placement(robot.model, "arm", rest.q)[1][[0, 2]].round(2)  # x and z of its tip
    (True, array([ 0.28, -0.09]))
    """
    as_choice("method", method, ("auto", *METHODS))
    tolerance = as_positive("tolerance", tolerance)
    max_iterations = as_whole_number("max_iterations", max_iterations, 1)
    path, q0 = load_path(robot, u, wrenches, q0, prescribed)
    methods = tuple(METHODS) if method == "auto" else (method,)
    q, result, message, count = _found_by_first(methods, path, q0, tolerance, max_iterations)
    converged = message.startswith(MESSAGES[CONVERGED])
    residual = float(np.abs(result.forces[path.held.free]).max(initial=0.0))
    negative, stable = negative_directions(path.stiffness(q, 1.0, result.multipliers))
    forces = path.held.of_links(result.forces)
    message += "" if converged else turned_far(robot.model, q)
    about = q0, robot
    return StaticEquilibrium(
        q, converged, message, count, residual, result.multipliers, forces, stable, negative, *about
    )


def _found_by_first(
    methods: tuple[str, ...], path: LoadPath, q0: np.ndarray, tolerance: float, max_iterations: int
) -> Found:
    """Result of the first method that converges, else of the first method; with the steps of all methods, and with a
    message on each.  ValueError where a rotation of q0 is too large."""
    tried: dict[str, Found] = {}
    for method in methods:
        path.newton.forget()
        found = tried[method] = _found_by(method, path, q0, tolerance, max_iterations)
        if found[2] == MESSAGES[CONVERGED] or found[1].status == NO_START:
            break
    count, last = sum(found[3] for found in tried.values()), [*tried][-1]
    converged = tried[last][2] == MESSAGES[CONVERGED]
    q, result, message, _ = tried[last if converged else methods[0]]
    if len(tried) > 1:
        failed = [f"{METHODS[each]}: {found[2]}" for each, found in tried.items() if each != last or not converged]
        message = "; ".join([f"{message} by {METHODS[last]}", *failed] if converged else failed)
    return q, result, message, count


def _found_by(method: str, path: LoadPath, q0: np.ndarray, tolerance: float, max_iterations: int) -> Found:
    if method != "newton":
        check_turns(path.robot.model, q0, "q0")
        given = q0, tolerance, max_iterations
        return descended(path, 1.0, *given) if method == "descent" else loaded(path, *given)
    q, result = path.solve(q0, 1.0, None, tolerance, max_iterations)
    if result.status == NO_START:
        check_turns(path.robot.model, q0, "q0")
    return q, result, MESSAGES[result.status], result.iterations


def load_path(
    robot: SoftRobot,
    u: ArrayLike,
    wrenches: ArrayLike | None,
    q0: ArrayLike | None,
    prescribed: Mapping[str, ArrayLike] | None,
    u_start: ArrayLike | None = None,
    wrenches_start: ArrayLike | None = None,
) -> tuple[LoadPath, np.ndarray]:
    """Loads from the start values, by default zero, to the final ones, with prescribed coordinates from their values in
    q0, all checked; and q0 (n,)."""
    W = as_kind("robot", robot, SoftRobot).model.wrench_count
    u = as_array("u", u, (robot.nu,))
    inputs = []
    for suffix, controls, given in (("_start", u_start, wrenches_start), ("", u, wrenches)):
        controls = np.zeros(robot.nu) if controls is None else as_array(f"u{suffix}", controls, (robot.nu,))
        given = np.zeros((W, 6)) if given is None else as_array(f"wrenches{suffix}", given, (W, 6))
        robot.warn_of_slack(f"u{suffix}", controls)
        inputs.append(np.concatenate([controls, given.ravel()]))
    q0 = np.zeros(robot.nq) if q0 is None else as_array("q0", q0, (robot.nq,))
    held = prescribed_values(robot.model, prescribed)
    return LoadPath(robot, held, (inputs[0], inputs[1]), (q0[held.coordinates], held.values(0.0)[0])), q0


# --------------------------------------------------------------------------------------------
# Derivatives of an equilibrium and its constraint forces by controls, wrenches and prescribed coordinates.
#
# They are those of the implicit function (q_f, lambda), with prescribed coordinates p, J = dr/dq and
#
#     dr = J_p dq_p - B du + r_w dw        de = A_p dq_p


class EquilibriumChange(NamedTuple):
    """Derivatives of q (n, Z), multipliers (G, Z) and prescribed forces (dof, Z) by Z variables."""

    q: np.ndarray
    multipliers: np.ndarray
    prescribed_forces: Mapping[str, np.ndarray]

    def __repr__(self) -> str:
        return in_brief(self)


class EquilibriumDerivatives(NamedTuple):
    """First derivatives of an equilibrium, each an `EquilibriumChange`: by the controls (nu columns), the wrenches (6
    W), and the prescribed coordinates (P), in the order in which they were given."""

    du: EquilibriumChange
    dwrenches: EquilibriumChange
    dprescribed: EquilibriumChange

    def __repr__(self) -> str:
        return in_brief(self)


def equilibrium_derivatives(
    robot: SoftRobot, rest: StaticEquilibrium, u: ArrayLike, wrenches: ArrayLike | None = None
) -> EquilibriumDerivatives:
    """First derivatives of an equilibrium and of its constraint forces.

    Parameters
    ----------
    robot : SoftRobot
    rest : result of `static_equilibrium` for the robot, with its prescribed joints
    u, wrenches : (nu,), (W, 6), the arguments for which it was found

    Returns
    -------
    EquilibriumDerivatives(du, dwrenches, dprescribed)

    Raises
    ------
    TypeError : a robot that is not a SoftRobot, a rest that is not a StaticEquilibrium.
    ValueError : a wrong shape, a number that is not finite, an equilibrium that did not converge, one where the
        stiffness is singular, as at limit points.

    Examples
    --------
    >>> builder = rods.RodModelBuilder()
    >>> silicone = rods.Elastic(young=1e6, poisson=0.5, density=1000.0)
    >>> builder.add_rod("arm", "world", 0.3, rods.Circular(0.02), silicone, rods.LegendreBasis(bending_y=2))
    >>> robot = rods.SoftRobot(builder.build(), [rods.Tendon.straight("arm", 0.0, 0.015)])
    >>> rest = rods.static_equilibrium(robot, [1.0])
    >>> rods.equilibrium_derivatives(robot, rest, [1.0]).du.q.shape  # change of the shape per newton of tension
    (3, 1)
    """
    rest = as_kind("rest", rest, StaticEquilibrium)
    as_kind("robot", robot, SoftRobot)
    if not rest.converged:
        raise ValueError(f"rest: got an equilibrium that has not converged ({rest.status}), expected one that has")
    n, nu, G = robot.nq, robot.nu, robot.model.constraint_count
    if rest.q.shape != (n,) or rest.multipliers.shape != (G,):
        raise ValueError(f"rest: got {len(rest.q)} coordinates, expected an equilibrium of this robot, with {n}")
    held_at = {name: rest.q[robot.model.joint_coordinates[name]] for name in rest.prescribed_forces}
    path, _ = load_path(robot, u, wrenches, rest.q, held_at)
    p = path.held.coordinates
    _, J, _, A = path.newton.linearize(rest.q, path.inputs(1.0), rest.multipliers)
    zero = np.zeros(n)
    B = robot.residual_derivatives(rest.q, zero, zero, path.inputs(1.0)[:nu], path.inputs(1.0)[nu:].reshape(-1, 6)).B
    dr = np.hstack([-B, _along_wrenches(robot, rest.q), J[:, p]])
    de = np.hstack([np.zeros((G, dr.shape[1] - len(p))), A[:, p]])
    unknowns, forces = changes_under_constraints(path.held.free, p, J, A, dr, de)
    if not (np.isfinite(unknowns).all() and np.isfinite(forces).all()):
        raise ValueError("rest: got an equilibrium with a singular stiffness, expected one that determines its change")
    sizes = nu, dr.shape[1] - nu - len(p), len(p)
    return EquilibriumDerivatives(*by_variable(EquilibriumChange, sizes, unknowns, forces, path.held))


def _along_wrenches(robot: SoftRobot, q: np.ndarray) -> np.ndarray:
    """dr/dw (n, 6 W), which is constant since r is linear in the wrenches."""
    W, zero = robot.model.wrench_count, np.zeros(robot.nq)
    if not W:
        return np.empty((robot.nq, 0))
    units = np.vstack([np.zeros((1, W, 6)), np.eye(6 * W).reshape(-1, W, 6)])
    r = robot.residual(q, zero, zero, np.zeros(robot.nu), units)
    return (r[1:] - r[0]).T
