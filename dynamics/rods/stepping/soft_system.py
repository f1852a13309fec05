"""Soft robots in discrete time: the drivers of their steps, differences of their states, and the system."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import Radau

from dynamics.geometry.world_shape import WorldShape
from dynamics.model.subject import Subject
from dynamics.rods.algorithms.closed_chains import check_closed
from dynamics.rods.algorithms.equation_of_motion import nu
from dynamics.rods.kinematics.center_lines import check_turns, skeleton
from dynamics.rods.kinematics.charts import beyond, change, change_charts, change_derivatives, farther, move_near
from dynamics.rods.model.arrays import FIRST, SECOND, n
from dynamics.rods.model.rod_model import RodModel, turning_joints
from dynamics.rods.robot.pictures import (
    Panel,
    body_placements,
    contact_shapes,
    control_units,
    coordinate_units,
    quantities,
    solids,
)
from dynamics.rods.robot.reactions import prescribed_motion
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.stepping.plant import RodPlant
from dynamics.rods.stepping.soft_expansions import SoftExpansion, expand_kernel, nz
from dynamics.rods.stepping.soft_steps import IMPLICIT, INTEGRATORS, StepScratch, slice_stage, step_kernel
from dynamics.rods.stepping.stiff_solvers import stiff_motion
from dynamics.simd import (
    LANES,
    by_reference,
    driver,
    gather,
    kernel,
    launch,
    load,
    scatter,
    scatter_blocks,
    span,
    store,
)
from dynamics.simd.lane_blocks import lanes, part, size_of, slicing
from dynamics.simd.prepared_calls import PreparedLaunch
from dynamics.simd.squares import MULTIPLIERS, KnotSum, add_squares
from dynamics.systems.discrete_system import ClosedLoops, DiscreteSystem
from dynamics.systems.pictures import Solid
from dynamics.systems.rollouts import close_gap, feedback, place_lanes
from dynamics.validation import as_array, as_batch, as_choice, as_floats, as_kind, as_positive, as_whole_number

# --------------------------------------------------------------------------------------------
# Differences of states of soft robots with joints that may change their chart, and what these changes do to steps.
#
#     difference    r = c(x) - x_ref, each joint of x in that of its charts which is nearer to x_ref
#     expansion     J = c',  H = Hessian of mu'c: 1 and 0 in the chart of x_ref
#
# A step ends in the chart of the knot that follows, if there is one, else in that in which steps end.  With f the step
# in the chart of its start, F = df/d(x, u), and c the change of chart,
#
#     d(c f) = c'F      Hessian of lam'(c f) = that of (c'lam)'f + F' Hess(lam'c) F

_NO_ROWS, _NO_BLOCKS = np.empty((0, 0)), np.empty((0, 0, 0))


class ChartDifference:
    """r = x (-) x_ref (nx,), x_ref (nx,), of joints with the coordinates `turns` (J, 6); a residual."""

    sums_squares = True

    def __init__(self, turns: np.ndarray, x_ref: np.ndarray) -> None:
        self._turns, self._reference, self.nr = turns, np.array(x_ref, dtype=np.float64), len(x_ref)
        self._key = turns.tobytes(), self._reference.tobytes()
        own = turns[turns >= 0]
        self._turned = np.concatenate([own, own + self.nr // 2])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChartDifference) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nx)."""
        return moved_near(self._turns, self._reference, xs)[0] - self._reference

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, None]:
        """rx (K, nx, nx), None."""
        return difference_expansion(self._turns, self._reference, xs, None)[0], None

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray | None, None, None]:
        """Hessian of mu'r (K, nx, nx)."""
        return difference_expansion(self._turns, self._reference, xs, mu)[1], None, None

    def add_expansion(self, wanted: KnotSum) -> float:
        """As `trajopt.interfaces.residual` has it."""
        (start, stop), xs, _, (given, layout), target, curvature = wanted
        moved, rows = xs, np.zeros(0, np.int64)
        wanted.check_weights(self.nr)
        turned = given.reshape(len(given), -1, self.nr)[:, : 2 if layout == MULTIPLIERS else 1, self._turned]
        if turned.any():  # else whatever charts they are in
            moved, rows = moved_near(self._turns, self._reference, xs[:stop], start)
        gradient, hessian = (_NO_ROWS, _NO_BLOCKS) if target is None else (target[0], target[2])
        if not len(rows) or (target is None and curvature is None):
            return add_squares(layout, given, start, stop, moved, self._reference, gradient, hessian)
        g, h = np.zeros(moved.shape), np.zeros((*moved.shape, self.nr))
        total = add_squares(layout, given, start, stop, moved, self._reference, g, h)
        J, H = difference_expansion(self._turns, self._reference, xs[rows], g[rows])
        g[rows] = np.einsum("kij,ki->kj", J, g[rows])
        h[rows] = J.swapaxes(1, 2) @ h[rows] @ J
        if target is not None:
            gradient[start:stop] += g[start:stop]
            hessian[start:stop] += h[start:stop]
        if curvature is not None:
            curvature[2][rows] += H
        return total


def moved_near(
    turns: np.ndarray, reference: np.ndarray, xs: np.ndarray, start: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """xs (K, nx) in the charts nearer to the reference (nx,) or (K, nx), from row `start` on, and the rows of which
    some joint has changed its chart; xs itself if there are none."""
    n = xs.shape[1] // 2
    which = np.zeros((len(xs), len(turns)), bool)
    which[start:] = farther(turns, reference if reference.ndim == 1 else reference[start:], xs[start:])
    rows = np.flatnonzero(which.any(axis=1))
    return (change(turns, n, xs, which) if len(rows) else xs), rows


def difference_expansion(
    turns: np.ndarray, reference: np.ndarray, xs: np.ndarray, mu: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Jacobian (K, nx, nx) of the difference from x_ref (nx,) or (K, nx) in xs (K, nx), and the Hessian of mu'r."""
    n = xs.shape[1] // 2
    return change_derivatives(turns, n, xs, farther(turns, reference, xs), mu)


def end_in_charts(
    turns: np.ndarray,
    ends: np.ndarray,
    xs: np.ndarray,
    lam: np.ndarray,
    F: tuple[np.ndarray, np.ndarray],
    H: tuple[np.ndarray, ...],
    again: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]],
) -> None:
    """Let steps end, and F = (fx, fu) (N or 0, nx, .) and H = (Hxx, Hux, Huu), in the charts that follow.

    ends (N, nx), of steps in the charts of their starts; xs (N or N+1, nx); lam (N or 0, nx); again : function of knots
    and their multipliers that returns fx, fu, Hxx, Hux, Huu in the charts of their starts"""
    N, n = ends.shape[0], ends.shape[1] // 2
    which = farther(turns, xs[1:], ends) if len(xs) > N else beyond(turns, ends)
    rows = np.flatnonzero(which.any(axis=1))
    if not len(rows):
        return
    lam = lam[rows] if len(lam) else np.zeros((len(rows), 2 * n))
    J, curved = change_derivatives(turns, n, ends[rows], which[rows], lam)
    fx, fu, *products = again(rows, np.einsum("kij,ki->kj", J, lam))
    for into, own in zip(F, (fx, fu), strict=True):
        if len(into):
            into[rows] = J @ own
    if len(H[0]):
        xx, uu = (X.swapaxes(1, 2) @ curved for X in (fx, fu))
        for into, own, more in zip(H, products, (xx @ fx, uu @ fx, uu @ fu), strict=True):
            into[rows] = own + more


# --------------------------------------------------------------------------------------------
# Trajectories of soft robots and their expansions: knots in lanes, or candidates of a line search.


_STEP = size_of(StepScratch)


class _Steps(NamedTuple):
    """Scratch of `drive_soft_steps`."""

    x: np.ndarray = lanes(2 * n)
    u: np.ndarray = lanes(nu)
    x_next: np.ndarray = lanes(2 * n)
    step: np.ndarray = lanes(_STEP)


class _ClosedLoops(NamedTuple):
    """Scratch of `drive_soft_closed_loops`."""

    gap: np.ndarray = lanes(4 * n)
    near: np.ndarray = lanes(2 * n)
    step: np.ndarray = lanes(_STEP)


class _Expansions(NamedTuple):
    """Scratch of `drive_soft_expansion`, from its inputs to the step."""

    x: np.ndarray = lanes(2 * n)
    u: np.ndarray = lanes(nu)
    lam: np.ndarray = lanes(2 * n)
    F: np.ndarray = lanes(2 * n * nz)
    H: np.ndarray = lanes(nz * nz)
    expansion: SoftExpansion = part(SoftExpansion)
    step: np.ndarray = lanes(_STEP)


_slice_steps, _steps_size = slicing(_Steps)
_slice_closed_loops, _closed_loops_size = slicing(_ClosedLoops)
_slice_expansions, _expansions_size = slicing(_Expansions)


@driver
def drive_soft_steps(first, last, work, m, e, integrator, h, turns, x, u, x_next):
    """x_next[t] = f(x[t], u[t]), knots in lanes."""
    m, e = by_reference(m), by_reference(e)
    w, _ = _slice_steps(m, e, work)
    s = slice_stage(m, e, w.step)
    for c in range(first, last):
        gather(x, c * LANES, w.x)
        gather(u, c * LANES, w.u)
        step_kernel(m, e, integrator, h, w.x, w.u, s, w.x_next)
        change_charts(turns, m.counts[0], w.x_next)
        scatter(w.x_next, c * LANES, x_next)


@kernel
def _close_gap(e, turns, xs, gaps, t, alpha, x, work):
    """`close_gap` of knot t in the chart of xs[t]."""
    if gaps.shape[0] > 0:
        n = x.shape[0] // 2
        if t < xs.shape[0]:
            move_near(turns, n, xs[t], x)
        close_gap(e, None, gaps, t, alpha, x, work)
        change_charts(turns, n, x)


@driver
def drive_soft_closed_loops(first, last, work, m, e, integrator, h, turns, loops, start, stop, X, U):
    """Closed loops over the knots start <= t < stop, one step length per lane, as
    `dynamics.systems.rollouts.drive_closed_loops`."""
    m, e, loops = by_reference(m), by_reference(e), by_reference(loops)
    n, nx = m.counts[0], X.shape[2]
    (own, near, step), _ = _slice_closed_loops(m, e, work)
    s = slice_stage(m, e, step)
    for c in range(first, last):
        alpha = load(loops.alphas, c)
        if start == 0:
            place_lanes(loops.x0, span(X[c, 0]))
            _close_gap(e, turns, loops.xs, loops.gaps, 0, alpha, span(X[c, 0]), own)
        for t in range(start, stop):
            x, u, x_next = span(X[c, t]), span(U[c, t]), span(X[c, t + 1])
            for i in range(nx):
                store(near, i, load(x, i))
            move_near(turns, n, loops.xs[t], near)
            feedback(e, None, loops, t, c, own, near, u, X, U)
            step_kernel(m, e, integrator, h, x, u, s, x_next)
            change_charts(turns, n, x_next)
            _close_gap(e, turns, loops.xs, loops.gaps, t + 1, alpha, x_next, own)


@driver
def drive_soft_expansion(first, last, work, m, e, integrator, h, x, u, lam, ends, fx, fu, Hxx, Hux, Huu):
    """fx[t], fu[t], unless these are arrays of no knots, and, if lam has rows, the Hessian of lam[t]'f at (x[t], u[t])
    in Hxx[t], Hux[t], Huu[t]; the step's end in ends[t], if these have rows; in the chart of x[t].  Knots in lanes."""
    m, e = by_reference(m), by_reference(e)
    n, nu = m.counts[0], e.counts[0]
    nz, knots = 2 * n + nu, u.shape[0]
    level = np.int64(SECOND if lam.shape[0] > 0 else FIRST)
    w, _ = _slice_expansions(m, e, work)
    F, H, p, s = w.F, w.H, w.expansion, slice_stage(m, e, w.step)
    for c in range(first, last):
        t = c * LANES
        gather(x[:knots], t, w.x)
        gather(u, t, w.u)
        if level >= SECOND:
            gather(lam, t, w.lam)
        expand_kernel(m, e, integrator, h, level, w.x, w.u, w.lam, s, p, F, H)
        if ends.shape[0] > 0:
            scatter(p.end, t, ends)
        if fx.shape[0] > 0:
            scatter_blocks(F, t, 2 * n, nz, 0, fx)
            scatter_blocks(F, t, 2 * n, nz, 2 * n, fu)
        if level >= SECOND:
            scatter_blocks(H, t, 2 * n, nz, 0, Hxx)
            scatter_blocks(H[2 * n * nz :], t, nu, nz, 0, Hux)
            scatter_blocks(H[2 * n * nz :], t, nu, nz, 2 * n, Huu)


# --------------------------------------------------------------------------------------------
# A soft robot in continuous time, its controls held: what the steps of a `SoftRobotSystem` approximate.

BAUMGARTE = 0.01
"""Time, s, in which closed chains that are open a little close, as in `simulate`."""


class ResimulatedSystem:
    """The motion of a soft robot by Radau's method at tight tolerances, in steps of a system's dt.

    It moves, and has no derivatives.  Closed chains are held by Baumgarte's method, which draws those together that are
    a little open.  Made by `SoftRobotSystem.resimulated`.

    Parameters
    ----------
    system : SoftRobotSystem
    rtol, atol : of the local error |e_i| <= atol + rtol |x_i|

    Raises
    ------
    ValueError : a tolerance that is no positive number.
    """

    def __init__(self, system: SoftRobotSystem, rtol: float = 1e-6, atol: float = 1e-8) -> None:
        self.system = system
        self.nx, self.ndx, self.nu, self.dt = system.nx, system.ndx, system.nu, system.dt
        self.euclidean = system.euclidean
        self.integrate, self.difference, self.check_state = system.integrate, system.difference, system.check_state
        self._options = {"rtol": as_positive("rtol", rtol), "atol": as_positive("atol", atol)}
        self._free = prescribed_motion(system.model, None)
        self._turns = turning_joints(system.model, self._free.coordinates)

    def step(self, x: ArrayLike, u: ArrayLike) -> np.ndarray:
        """The state after dt from x (nx,) with the control u (nu,), or (K, .) of both; NaN where the motion ends
        before.  ValueError for other shapes."""
        (xs, single), (us, _) = as_batch("x", x, self.nx), as_batch("u", u, self.nu)
        if len(xs) != len(us):
            raise ValueError(f"x: got {len(xs)} points, expected {len(us)} as of u")
        ends = np.array([self._flow(*point) for point in zip(xs, us, strict=True)]).reshape(xs.shape)
        return ends[0] if single else ends

    def rollout(self, x0: ArrayLike, us: ArrayLike) -> np.ndarray:
        """States (N+1, nx) from x0 under the controls us (N, nu); NaN from where the motion ends."""
        xs = [as_array("x0", x0, (self.nx,))]
        for u in as_array("us", us, (None, self.nu)):
            xs.append(self._flow(xs[-1], u) if np.isfinite(xs[-1]).all() else xs[-1])
        return np.array(xs)

    def _flow(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        robot, n = self.system.robot, self.system.nv
        inputs = np.concatenate([u, np.zeros(6 * robot.model.wrench_count)])
        plant = RodPlant(robot, lambda t: inputs, self._free, 1.0 / BAUMGARTE, self._turns)
        try:
            run = stiff_motion(plant, self.dt, (x[:n], x[n:]), Radau, None, self._options, True, lambda t: None)
        except (RuntimeError, ValueError):  # it fails on the way, or begins where rods turn too far
            return np.full(self.nx, np.nan)
        return np.concatenate([run[1][-1], run[2][-1]])


# --------------------------------------------------------------------------------------------
# A soft robot under an integrator: the discrete-time system that trajectory optimization works on.


class SoftRobotSystem(DiscreteSystem):
    """x+ = f(x, u) for a soft robot with state x = [q; v] and controls u: tensions, pressures, joint torques.

    Parameters
    ----------
    robot : SoftRobot
        The external wrenches that its model may take are zero.
    dt : float, time step h [s], positive
    integrator : "extrapolated_euler", "semi_implicit_euler", "sdirk2", "implicit_midpoint" or "newmark"; by default the
        first, for closed chains "sdirk2"
        "semi_implicit_euler" is v+ = v + h a, q+ = q + h v+, where a is linear in elasticity and damping at the end of
        the step: stable for stiff rods, one linear solve a step, of first order.  "extrapolated_euler" makes such steps
        of h/2, h/2 and h and combines them: of second order, L-stable, thrice the work, and nothing to iterate.  Both
        take drag, contact and friction as they are at the start of a step, which has to resolve these.
        "sdirk2", Alexander's method of two stages, is implicit in drag, contact and actuators too, of second order and
        L-stable; five to ten times the work, by Newton's method.  It alone takes closed chains: A v + e/h = 0 at its
        stages holds them closed, to third order of h, and closes open ones.  The implicit midpoint rule and Newmark's
        method of average acceleration keep energy, but let stiff motion swing that a step does not resolve, of which
        optimizers make use; and Newmark's first acceleration is that of the state, which should be smooth.

    Attributes
    ----------
    model : RodModel
    state_names, tangent_names, control_names : tuples of str, as long as states, tangents and controls
    control_units : tuple of str, "N", "Pa" or "N m"
    tangent_units : tuple of str, "rad", "m", "rad/s" or "m/s" of joints, "" of strains
    implicit_step : str, the integrator and dt, as messages on steps without a solution say it; "" of the first two
    serves : tuple of what terms may be made for, the model alone
    euclidean : whether the state space is a vector space: of models without joints that turn without limit
    plain_tangent : True, for all numbers of a state are free

    Raises
    ------
    TypeError : no SoftRobot.
    ValueError : names the argument, what came and what was expected; of closed joints with coordinates, which move no
        mass, those need stiffness or damping.

    Notes
    -----
    States are coordinates and velocities, tangents what is added to them.  Free, spherical and planar joints without
    stiffness and damping turn without limit: one whose rotation vector is longer than 4.2 rad at the end of a step goes
    on in its other chart, by 2 pi the other way round, so that trajectories may jump between coordinates of the same
    pose, whose velocities are others too; `difference` takes the nearer ones, and derivatives are those of what it
    gives.  Other joints of these kinds turn by less than 2 pi, beyond which motion is NaN; so do rods from one of their
    points to the next.

    All knots are evaluated in one call, LANES at a time, over all threads.  First derivatives and Hessians are exact,
    those of the implicit methods by the implicit function theorem at the solution.  Where Newton's method gets stuck, a
    stage is reached from its explicit one along a path; where that does not arrive either, the step is NaN: deep in
    stiff contact, or at high speeds, steps that are too long have no solution that continues the motion, those of
    "newmark" from 10 ms on where others take 100.  Shorter steps have one.
    """

    plain_tangent = True

    def __init__(self, robot: SoftRobot, dt: float, integrator: str | None = None) -> None:
        as_kind("robot", robot, SoftRobot)
        as_positive("dt", dt, "seconds")
        if integrator is None:
            integrator = "sdirk2" if robot.model.constraint_count else "extrapolated_euler"
        as_choice("integrator", integrator, INTEGRATORS)
        if robot.model.constraint_count and integrator != "sdirk2":
            names = ", ".join(robot.model.closure_names)
            raise ValueError(f"integrator: got {integrator!r} for closed chains ({names}), expected 'sdirk2'")
        _check_closed_joints(robot.model)
        super().__init__(robot.nq, robot.nv, robot.nu, dt)
        self.robot, self.model, self.integrator = robot, robot.model, integrator
        self.semi_implicit = integrator == "semi_implicit_euler"
        self.implicit_step = f"{integrator}, dt = {dt:g} s" if integrator in IMPLICIT else ""
        coordinates = robot.model.coordinate_names
        self.state_names = (*coordinates, *(f"d({name})/dt" for name in coordinates))
        self.control_names, self.control_units = robot.control_names, control_units(robot)
        self.tangent_names = (*coordinates, *(f"{name} velocity" for name in coordinates))
        units = coordinate_units(robot.model)
        self.tangent_units = (*units, *(f"{unit}/s" if unit else "" for unit in units))
        self.serves = (Subject(self.model),)
        self._turns = turning_joints(robot.model)
        self.euclidean = not len(self._turns)
        self._plant = robot.model.arrays, robot.arrays, INTEGRATORS.index(integrator), self.dt
        self._no_ends = np.empty((0, self.nx))
        arrays = robot.model.arrays, robot.arrays
        self._steps_size, self._loops_size = _steps_size(*arrays), _closed_loops_size(*arrays)
        self._expansion_size = _expansions_size(*arrays)

    def __repr__(self) -> str:
        return f"SoftRobotSystem({self.model!r}, dt={self.dt:g}, integrator={self.integrator!r}, nu={self.nu})"

    @property
    def integrator_order(self) -> int:
        """How fast the integrator's error falls with dt: with this power of it."""
        return 1 if self.semi_implicit else 2

    def refined(self, substeps: int) -> SoftRobotSystem:
        """The same robot in steps of dt/substeps by "sdirk2", the most faithful of the methods.

        Raises ValueError for what is no whole number of at least 1.
        """
        return SoftRobotSystem(self.robot, self.dt / as_whole_number("substeps", substeps, 1), "sdirk2")

    def resimulated(self, rtol: float = 1e-6, atol: float = 1e-8) -> ResimulatedSystem:
        """The same robot in continuous time, by Radau's method: the truth of `solution.discretization_error()`.

        Raises ValueError for tolerances that are no positive numbers.
        """
        return ResimulatedSystem(self, rtol, atol)

    # -------------------------------------------------------------------------------------------- the state space
    @property
    def state_space(self) -> tuple[tuple[Any, ...], ...]:
        """Vectors, or with joints that turn without limit charts; see `trajopt.capabilities.StateManifold`."""
        return (("euclidean", self.nx),) if self.euclidean else (("charts", self.nv, self._turns.tolist()),)

    def check_state(self, x: np.ndarray) -> None:
        """Accept all states: those beyond what kernels can tell move on as NaN."""

    def check_start(self, x0: ArrayLike) -> None:
        """Raise ValueError if at x0 (nx,) closed chains are open, about to open, or singular, if a rod turns by more
        than 2 pi from one of its points to the next, or a joint that turns about any axis by more than that."""
        q, v = np.split(as_array("x0", x0, (self.nx,)), 2)
        check_turns(self.model, q, "x0")
        check_closed(self.model, q, v, ("x0", "x0"))

    def integrate(self, x: ArrayLike, dx: ArrayLike) -> np.ndarray:
        """x + dx, in the chart of x;  x (nx,) or (K, nx), dx (ndx,) or (K, ndx)."""
        xs, ys = self._pair("x", x, "dx", dx)
        return xs + ys

    def difference(self, x0: ArrayLike, x1: ArrayLike) -> np.ndarray:
        """x1 - x0, joints of x1 in the chart that is nearer to x0;  x0, x1 (nx,) or (K, nx)."""
        xs, ys = self._pair("x1", x1, "x0", x0)
        if not self.euclidean:
            shape = np.broadcast_shapes(xs.shape, ys.shape)
            flat, near = (np.broadcast_to(z, shape).reshape(-1, self.nx) for z in (xs, ys))
            xs = moved_near(self._turns, near, flat)[0].reshape(shape)
        return xs - ys

    def difference_expansion(self, x_ref: np.ndarray, xs: np.ndarray, mu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Jacobian (K, ndx, ndx) of difference(x_ref, xs) in xs, and the Hessian (K, ndx, ndx) of mu' of it."""
        J, H = difference_expansion(self._turns, x_ref, xs, mu)
        return J, cast(np.ndarray, H)

    def difference_with_jacobian(self, x_ref: np.ndarray, xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """difference(x_ref, xs) (K, ndx) and its Jacobian (K, ndx, ndx) in xs; x_ref (nx,) or (K, nx)."""
        return moved_near(self._turns, x_ref, xs)[0] - x_ref, difference_expansion(self._turns, x_ref, xs, None)[0]

    def integrate_jacobian(self, xs: np.ndarray) -> np.ndarray:
        """Jacobian (K, nx, ndx) of integrate(xs, dx) in dx: the identity, whatever the charts."""
        return np.tile(np.eye(self.nx), (len(as_array("xs", xs, (None, self.nx))), 1, 1))

    def difference_residual(self, x_ref: np.ndarray) -> ChartDifference:
        """r = difference(x_ref, x) as a residual that sums its weighted squares by itself."""
        return ChartDifference(self._turns, x_ref)

    def _pair(self, first: str, x: ArrayLike, second: str, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        xs, ys = as_floats(first, x), as_floats(second, y)
        for name, array in ((first, xs), (second, ys)):
            if array.ndim not in (1, 2) or array.shape[-1] != self.nx:
                raise ValueError(f"{name}: got shape {array.shape}, expected ({self.nx},) or (K, {self.nx})")
        return xs, ys

    def skeleton(self, xs: np.ndarray) -> np.ndarray:
        """Line segments (K, segments, 2, 3) that draw the robot at states xs (K, nx)."""
        return skeleton(self.model, self._configurations(xs))

    @property
    def scenery(self) -> tuple[WorldShape, ...]:
        """What links may touch."""
        return contact_shapes(self.model)

    def solids(self, fine: bool = True) -> tuple[Solid, ...]:
        """Surfaces of rods, tendons, chambers and bodies, few triangles unless `fine`; see
        `trajopt.capabilities.Pictures`."""
        return solids(self.robot, fine)

    def body_placements(self, xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rotations (K, B, 3, 3) and positions (K, B, 3), m, of links and of sections of rods at states xs (K, nx)."""
        return body_placements(self.model, self._configurations(xs))

    def quantities(self, xs: np.ndarray) -> tuple[Panel, ...]:
        """Tips of rods, joints and energies at states xs (K, nx); see `trajopt.capabilities.Pictures`."""
        q, v = np.split(as_array("xs", xs, (None, self.nx)), [self.nq], axis=1)
        return quantities(self.model, q, v)

    def _configurations(self, xs: np.ndarray) -> np.ndarray:
        return as_array("xs", xs, (None, self.nx))[:, : self.nq]

    # -------------------------------------------------------------------------------------------- motion
    def rollout(self, x0: ArrayLike, us: ArrayLike) -> np.ndarray:
        """See `DiscreteSystem.rollout`; ValueError where no motion begins because x0 turns too far."""
        xs = super().rollout(x0, us)
        if not np.isfinite(xs[:2]).all():
            check_turns(self.model, xs[0, : self.nq], "x0")
        return xs

    def write_steps(self, xs: np.ndarray, us: np.ndarray, out: np.ndarray) -> None:
        """out[t] = f(xs[t], us[t])."""
        launch(drive_soft_steps, len(us), self._steps_size, *self._plant, self._turns, xs, us, out)

    def prepared_steps(self, xs: np.ndarray, us: np.ndarray, following: np.ndarray) -> PreparedLaunch:
        """See `trajopt.capabilities.Expansions`."""
        given = *self._plant, self._turns, xs, us, following
        return PreparedLaunch(drive_soft_steps, len(us), self._steps_size, *given)

    def roll(self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray) -> None:
        """Closed loops over the knots start <= t < stop; see `DiscreteSystem.roll`."""
        plant = *self._plant, self._turns
        launch(drive_soft_closed_loops, loops.alphas.size, self._loops_size, *plant, loops, start, stop, X, U)

    def prepared_roll(
        self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray
    ) -> Callable[[], Any] | None:
        """See `DiscreteSystem.prepared_roll`."""
        given = *self._plant, self._turns, loops, start, stop, X, U
        return PreparedLaunch(drive_soft_closed_loops, loops.alphas.size, self._loops_size, *given)

    # -------------------------------------------------------------------------------------------- expansions
    def write_linearization(self, xs: np.ndarray, us: np.ndarray, fx: np.ndarray, fu: np.ndarray) -> None:
        """What `linearize` returns."""
        self.write_expansion(xs, us, np.empty((0, self.ndx)), fx, fu, *self._no_blocks(self.ndx, self.nu, self.nu))

    def write_hessian_products(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, *H: np.ndarray) -> None:
        """What `hessian_products` returns."""
        fx, fu = self._no_blocks(self.ndx, self.ndx)
        self.write_expansion(xs, us, lam, fx, fu, *H)

    def _no_blocks(self, *rows: int) -> list[np.ndarray]:
        return [np.empty((0, count, self.ndx)) for count in rows]

    def write_expansion(
        self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, fx: np.ndarray, fu: np.ndarray, *H: np.ndarray
    ) -> None:
        """What `linearize` and `hessian_products` return, from one evaluation of the dynamics."""
        ends = self._no_ends if self.euclidean else np.empty((len(us), self.nx))
        launch(drive_soft_expansion, len(us), self._expansion_size, *self._plant, xs, us, lam, ends, fx, fu, *H)
        if len(ends):
            end_in_charts(self._turns, ends, xs, lam, (fx, fu), H, lambda rows, y: self._expand(xs[rows], us[rows], y))

    def prepared_expansion(
        self,
        xs: np.ndarray,
        us: np.ndarray,
        fx: np.ndarray,
        fu: np.ndarray,
        lam: np.ndarray | None = None,
        *H: np.ndarray,
    ) -> Callable[[], Any] | None:
        """See `trajopt.capabilities.Expansions`; of vectors these are prepared calls."""
        if not self.euclidean:
            return super().prepared_expansion(xs, us, fx, fu, lam, *H)
        second = (lam, *H)
        if lam is None:
            second = np.empty((0, self.ndx)), *self._no_blocks(self.ndx, self.nu, self.nu)
        given = xs, us, second[0], self._no_ends, fx, fu, *second[1:]
        return PreparedLaunch(drive_soft_expansion, len(us), self._expansion_size, *self._plant, *given)

    def _expand(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, ...]:
        """fx, fu, Hxx, Hux, Huu in the charts of xs."""
        n, nu, K = self.ndx, self.nu, len(us)
        out = tuple(np.empty((K, *shape)) for shape in ((n, n), (n, nu), (n, n), (nu, n), (nu, nu)))
        launch(drive_soft_expansion, K, self._expansion_size, *self._plant, xs, us, lam, self._no_ends, *out)
        return out


def _check_closed_joints(model: RodModel) -> None:
    """ValueError for coordinates of closed joints without stiffness and damping: the step's equations are eliminated
    without pivoting, and have nothing but these on their diagonal."""
    for name in model.closure_names:
        own = model.joint_coordinates.get(name, slice(0, 0))
        for k in range(own.start, own.stop):
            if model.stiffness[k, k] == 0.0 and model.damping[k, k] == 0.0:
                raise ValueError(
                    f"robot: got no stiffness and no damping of {model.coordinate_names[k]!r} in closure {name!r}, "
                    "expected one of them above zero, for it moves no mass"
                )
