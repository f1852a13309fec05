"""A soft robot under an integrator: the discrete-time system that trajectory optimization works on."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from dynamics.geometry.world_shape import WorldShape
from dynamics.rods.chains.closures import check_closed
from dynamics.rods.kinematics.center_lines import skeleton
from dynamics.rods.kinematics.rotations import check_turns
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.model.turning_joints import turning_joints
from dynamics.rods.robot.quantities import Panel, control_units, coordinate_units, quantities
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.robot.surfaces import body_placements, solids
from dynamics.rods.robot.surroundings import contact_shapes
from dynamics.rods.stepping.chart_difference import ChartDifference, difference_expansion, end_in_charts, moved_near
from dynamics.rods.stepping.resimulated import ResimulatedSystem
from dynamics.rods.stepping.soft_drivers import drive_soft_closed_loops, drive_soft_expansion, drive_soft_steps
from dynamics.rods.stepping.soft_expansions import expansion_numbers
from dynamics.rods.stepping.soft_steps import INTEGRATORS, motion_numbers
from dynamics.simd import launch
from dynamics.subject import Subject
from dynamics.systems.discrete_system import ClosedLoops, DiscreteSystem
from dynamics.systems.solids import Solid
from dynamics.validation import as_array, as_floats, as_kind, as_whole_number, check_choice, check_time_step


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
    those of the implicit methods by the implicit function theorem at the solution.  A knot whose Newton's method does
    not converge gives NaN.
    """

    plain_tangent = True

    def __init__(self, robot: SoftRobot, dt: float, integrator: str | None = None) -> None:
        as_kind("robot", robot, SoftRobot)
        check_time_step(dt)
        if integrator is None:
            integrator = "sdirk2" if robot.model.constraint_count else "extrapolated_euler"
        check_choice("integrator", integrator, INTEGRATORS)
        if robot.model.constraint_count and integrator != "sdirk2":
            names = ", ".join(robot.model.closure_names)
            raise ValueError(f"integrator: got {integrator!r} for closed chains ({names}), expected 'sdirk2'")
        _check_closed_joints(robot.model)
        super().__init__(robot.nq, robot.nv, robot.nu, dt)
        self.robot, self.model, self.integrator = robot, robot.model, integrator
        self.semi_implicit = integrator == "semi_implicit_euler"
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
        self._motion_numbers = 2 * self.nx + self.nu + motion_numbers(robot.model, robot.arrays)
        nz = self.ndx + self.nu
        self._expansion_numbers = self._motion_numbers + nz * (self.ndx + nz) + expansion_numbers(self.model, self.nu)

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
        """Vectors, or with joints that turn without limit charts; see `trajopt.capabilities.DescribedStates`."""
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
                raise ValueError(f"{name} has shape {array.shape}; expected ({self.nx},) or (K, {self.nx})")
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
        `trajopt.capabilities.Solids`."""
        return solids(self.robot, fine)

    def body_placements(self, xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rotations (K, B, 3, 3) and positions (K, B, 3), m, of links and of sections of rods at states xs (K, nx)."""
        return body_placements(self.model, self._configurations(xs))

    def quantities(self, xs: np.ndarray) -> tuple[Panel, ...]:
        """Tips of rods, joints and energies at states xs (K, nx); see `trajopt.capabilities.Quantities`."""
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
        launch(drive_soft_steps, len(us), self._motion_numbers, *self._plant, self._turns, xs, us, out)

    def roll(self, loops: ClosedLoops, start: int, stop: int, X: np.ndarray, U: np.ndarray) -> None:
        """Closed loops over the knots start <= t < stop; see `DiscreteSystem.roll`."""
        plant, numbers = (*self._plant, self._turns), self._motion_numbers + self.nx
        launch(drive_soft_closed_loops, loops.alphas.size, numbers, *plant, loops, start, stop, X, U)

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
        launch(drive_soft_expansion, len(us), self._expansion_numbers, *self._plant, xs, us, lam, ends, fx, fu, *H)
        if len(ends):
            end_in_charts(self._turns, ends, xs, lam, (fx, fu), H, lambda rows, y: self._expand(xs[rows], us[rows], y))

    def _expand(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray) -> tuple[np.ndarray, ...]:
        """fx, fu, Hxx, Hux, Huu in the charts of xs."""
        n, nu, K = self.ndx, self.nu, len(us)
        out = tuple(np.empty((K, *shape)) for shape in ((n, n), (n, nu), (n, n), (nu, n), (nu, nu)))
        launch(drive_soft_expansion, K, self._expansion_numbers, *self._plant, xs, us, lam, self._no_ends, *out)
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
