"""The result of a solve, and its export to other programs."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dynamics.printed import in_brief
from dynamics.simd import lean_routine, routine
from dynamics.validation import as_array, as_flag, as_positive, as_whole_number, unknown_name
from trajopt.capabilities import Joints, Names, capability
from trajopt.interfaces.system import System, along_tangents, control_names, tangent_names, window
from trajopt.optimality.certificate import Certificate, certificate
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.optimality.uncertainty import Covariance, Laplace, as_covariances, laplace_of, spread
from trajopt.printed import PrintedAsTable
from trajopt.problem.objective import all_finite
from trajopt.problem.parametric import INITIAL, with_x0
from trajopt.problem.problem import Problem
from trajopt.problem.transcription import counts_besides, transcription_of
from trajopt.results.between_knots import ViolationBetweenKnots, violation_between_knots
from trajopt.results.discretization import DiscretizationError, discretization_error
from trajopt.results.explanation import explain
from trajopt.results.overview import Reported, overview
from trajopt.results.policy import Policy, planned_problem, policy_of
from trajopt.results.records import ConstraintReport, SolutionData, WarmStart
from trajopt.results.resampled import ResampledPlan, resample
from trajopt.results.results_files import load_solution, save_bytes, save_solution
from trajopt.results.reverse import check_parameters, names_of, parameter_vjp, problem_vjp
from trajopt.results.sensitivity import Sensitivity, sensitivity
from trajopt.results.stationary import factored, solution_inside, stationary_point

if TYPE_CHECKING:
    from rich.table import Table


# --------------------------------------------------------------------------------------------
# Export of a plan: comma-separated values, and the message that ROS 2 takes for joint trajectories.
#
# The message is a plain dict in the form of trajectory_msgs/msg/JointTrajectory; nothing of ROS is needed.

NANO = 1_000_000_000


def write_csv(solution: Solution, path: str | os.PathLike, dt: float | None = None) -> Path:
    """Write a plan as comma-separated values: a line of names, then time, state and control of each time.

    Parameters
    ----------
    solution : Solution
        With its problem, and with a trajectory.
    path : where to; folders are made as needed
        The file appears complete or not at all.
    dt : float, optional
        Seconds between the lines, as in `Solution.resample`; by default one line for each knot, with the states before
        and after an impact at the same time.

    Returns
    -------
    path : Path

    Raises
    ------
    TypeError, ValueError
        Naming the argument.
    """
    system = planned_problem(solution).system
    if dt is None:
        times = solution.times
        states, controls = solution.xs, np.concatenate([solution.us, solution.us[-1:]])
    else:
        plan = resample(solution, dt)
        times, states, controls = plan.times, plan.xs, plan.us
    driven = control_names(system) or [f"u[{i}]" for i in range(system.nu)]
    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["time", *_names_of_states(system), *(f"{name} control" for name in driven)])
    lines.writerows(np.column_stack([times, states, controls]).tolist())
    return save_bytes(text.getvalue().encode("utf-8", "replace"), path)  # halves of surrogate pairs are question marks


def _names_of_states(system: System) -> list[str]:
    """Names of the entries of a state where the system knows them, else their indices, "x[0]"."""
    tangent = list(tangent_names(system))
    if tangent and system.nx == system.ndx:
        return tangent
    return list(capability(system, Names).state_names) or [f"x[{i}]" for i in range(system.nx)]


def trajectory_message(
    solution: Solution, dt: float | None = None, joints: Sequence[str] | None = None
) -> dict[str, Any]:
    """A plan as a dict in the form of ROS 2's trajectory_msgs/msg/JointTrajectory.

    Parameters
    ----------
    solution : Solution
        With its problem, and with a trajectory.
    dt : float, optional
        Seconds between the points, as in `Solution.resample`; by default those of the plan's knots.
    joints : sequence of str, optional
        Names of joints, in this order; by default all that have one degree of freedom.

    Returns
    -------
    message : dict
        header (stamp of zero, no frame), joint_names, and points: positions, velocities, accelerations (empty if the
        system has none), effort, the joints' own part of the planned control, and time_from_start.  Numbers are Python
        floats and ints.

    Raises
    ------
    TypeError
        If the system has no joints, or joints is no sequence of names.
    ValueError
        If there is no joint of one degree of freedom, or none of a given name; as `Solution.resample`.
    """
    system = planned_problem(solution).system
    known = capability(system, Joints)
    if known.joint_efforts is None:
        raise TypeError(f"system: {type(system).__name__} has no joints, expected a robot")
    every = known.single_joints
    names = _chosen(every, joints)
    plan = resample(solution, system.dt if dt is None else dt)
    q, v = (np.array([every[name][i] for name in names]) for i in (0, 1))
    columns = {
        "positions": plan.xs[:, q].tolist(),
        "velocities": plan.xs[:, v].tolist(),
        "accelerations": [[]] * len(plan.times),
        "effort": known.joint_efforts(plan.us)[:, [list(every).index(name) for name in names]].tolist(),
        "time_from_start": [_stamp(t) for t in plan.times],
    }
    if known.nq is not None and plan.accelerations is not None:
        columns["accelerations"] = plan.accelerations[:, v - known.nq].tolist()
    points = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return {"header": {"stamp": _stamp(0.0), "frame_id": ""}, "joint_names": names, "points": points}


def _chosen(every: dict[str, tuple[int, int]], joints: Sequence[str] | None) -> list[str]:
    if not every:
        raise ValueError("system: got a robot without a joint of one degree of freedom, expected at least one")
    if joints is None:
        return list(every)
    if not isinstance(joints, (list, tuple)) or not all(isinstance(name, str) for name in joints):
        raise TypeError(f"joints: got {joints!r}, expected a list of names")
    if not joints or len(set(joints)) < len(joints):
        raise ValueError(f"joints: got {list(joints)}, expected at least one, each once")
    for name in joints:
        if name not in every:
            raise unknown_name("joints", name, every)
    return list(joints)


def _stamp(seconds: float) -> dict[str, int]:
    whole, nano = divmod(round(seconds * NANO), NANO)
    return {"sec": whole, "nanosec": nano}


# --------------------------------------------------------------------------------------------
# The result of a solve, complete and frozen.


@routine
def _move_up(knots, steps, N, rows, moved):
    """`_moved_up`, for compiled code."""
    end, later = 0, 0
    while end < knots.size and knots[end] < N:
        end += 1
    for i in range(knots.size):
        while later < end - 1 and knots[later] < knots[i] + steps:
            later += 1
        for j in range(rows.shape[1]):
            moved[i, j] = rows[later if i < end else i, j]


@lean_routine
def last_control(us, K, dx, lower, upper, u):
    """Write the control (1, nu) of the last knot's policy at a state that differs by dx (1, ndx) from that knot's,
    within limits, if there are any."""
    N = us.shape[0]
    for i in range(us.shape[1]):
        x = us[N - 1, i]
        for j in range(dx.shape[1]):
            x += K[N - 1, i, j] * dx[0, j]
        if lower.shape[0] > 0:
            x = min(max(x, lower[N - 1, i]), upper[N - 1, i])
        u[0, i] = x


def moved_up(knots: np.ndarray, steps: int, N: int, rows: np.ndarray) -> np.ndarray:
    """Rows (K, n) of growing knots; those of knots before N are the ones of the first knot that is so many steps later
    or more, or of the last one before N."""
    moved = np.empty(rows.shape)
    _move_up(knots, steps, N, rows, moved)
    return moved


@dataclass(frozen=True)
class Solution(PrintedAsTable, Reported, SolutionData):
    """Trajectory, policy, value function and history of a solve; prints as a table.

    Attributes
    ----------
    problem : Problem
    xs : (N+1, nx) array
        States of the last good iterate.
    us : (N, nu) array
        Its controls.
    cost : float
        Its cost; inf only if the initial rollout diverged.
    status, message : str
        How the solve ended, as a name (`trajopt.Status`) and as a sentence.
    iterations : int
        Steps tried, those of feasibility searches and escapes included; each has a record in the log.
    k, K : (N, nu), (N, nu, ndx) arrays
        Policy u = us + k + K (x - xs) of the last sweep, about xs.  After ``max_iterations=1`` that is the sweep of the
        step taken, and k the part of it that remains after a step shorter than 1.  After convergence under constraints
        it is one with a penalty of at most 1e4 times the cost's largest derivative at the start, even if the solve
        raised it further: so gains that are deployed stay moderate just before an equality, and leave a small part of a
        disturbance of a constraint.  Rows of K are zero where a control limit is kept by a box.
    Vx, Vxx : (N+1, ndx), (N+1, ndx, ndx) arrays
        Gradient and Hessian of its cost-to-go.
    gradient_norm : float
        max |dJ/du| at us, of the Lagrangian under constraints, without entries that a control limit balances; 0 if the
        initial rollout diverged.  It is computed without feedback, so rounding grows in it where the system is
        unstable; `explain` gives it in closed loop too.  After a single step from a warm start, as in predictive
        control, it is the gradient where the step began, and so are multipliers of limits of controls.
    gaps : (N+1, ndx) array
        Tangent vectors from the states to x0 and to the states that the dynamics give for the state and control before;
        zero unless the solve started from states `xs` and ended before the gaps were closed.
    constraints : tuple of ConstraintReport
        The problem's constraints, in their order, with multipliers.
    cause : str
        Place of a number that is not finite, if the solve met one at its end: the term or the array, and the knot.
    start : str
        "given": from the arguments or the problem; "warm": from a warm start; "held": from the initial state at every
        knot, since a rollout of the first controls was worse.  Where zeros for controls, the default, led nowhere:
        "middle": from the middle of limits; "example": from the controls of a function's example; "quasi_static": from
        controls that hold the initial state.
    not_taken_over : tuple of str
        Messages on the parts of a warm start that do not fit the problem.
    log : tuple of IterationRecord
    timings : dict
        Wall-clock seconds: total, derivatives, backward_pass, rollouts, other.

    Examples
    --------
    >>> solution = trajopt.DDP().solve(problems.make("pendulum"))
    >>> solution.xs.shape, solution.us.shape, solution.K.shape
    ((51, 2), (50, 1), (50, 1, 2))
    >>> solution.history("cost")[[0, -1]].round(2)  # at the start and at the end
    array([495.33,   1.59])
    >>> solution.certificate().minimum  # strict, to second order
    True
    """

    def __repr__(self) -> str:
        said = {"status": str(self.status), "cost": self.cost, "iterations": self.iterations}
        return in_brief(self, "gradient_norm", "xs", "us", **said, violation=self.violation)

    def warm_start(self) -> WarmStart:
        """The warm start for another solve: states, controls, multipliers and penalties, gains.

        Where the next problem has another initial state, a rollout with the gains replaces the states; where that is
        worse than the states with their gaps, the difference is a gap at the first knot, which a full step closes."""
        xs = self.xs if math.isfinite(self.cost) else None
        start = self._start(self.us, xs, self.constraints, self.Vx, self.K)
        return start._replace(gradient_norm=self.log[-1].gradient_norm) if self.converged and self.log else start

    def _start(
        self,
        us: np.ndarray,
        xs: np.ndarray | None,
        constraints: tuple[ConstraintReport, ...],
        costate: np.ndarray,
        K: np.ndarray,
    ) -> WarmStart:
        if not self.log:
            return WarmStart(us, xs, constraints)
        return WarmStart(us, xs, constraints, self.log[-1].predicted_decrease, costate, K)

    def shifted(self, steps: int = 1) -> WarmStart:
        """The warm start for the same problem some steps later.

        All arrays move up by these steps: states xs (N+1, nx) and controls us (N, nu) end with those of the last knot's
        policy u = us + K (x - xs), which knows what the last state costs; of multipliers and the costate the last row
        is repeated.  A constraint at some knots takes the multipliers of the first of them at or after the later time.

        Where the new initial state differs from the plan, a rollout with the gains, or a gap at the first knot, keeps
        the plan (see `warm_start`); a rollout of old controls from it (a warm start with xs None) would run away from
        the plan where the system is unstable.  For a solution without its problem, or with states that are not finite,
        xs is None.
        """
        steps = as_whole_number("steps", steps, 0)
        xs, N = None, len(self.us)
        us = np.concatenate([self.us, np.repeat(self.us[-1:], steps, axis=0)])
        if self.problem is not None and math.isfinite(self.cost):
            states = np.empty((N + 1 + steps, self.xs.shape[1]))
            states[: N + 1] = self.xs
            if not self._go_on(states, us, fed_back=True):
                us[N:] = self.us[-1]
                self._go_on(states, us, fed_back=False)
            xs = states[steps:] if all_finite(states[steps:]) else None
        knots = np.arange(N + 1)
        knots.flags.writeable = False  # as those of reports are
        K = moved_up(knots[:N], steps, N, self.K.reshape(N, -1))
        reports = [
            report._replace(multipliers=moved_up(report.knots, steps, N, report.multipliers))
            for report in self.constraints
        ]
        costate = moved_up(knots, steps, N + 1, self.Vx)
        return self._start(us[steps:], xs, tuple(reports), costate, K.reshape(self.K.shape))

    def _go_on(self, xs: np.ndarray, us: np.ndarray, fed_back: bool) -> bool:
        """Write the states after the plan's last one to where controls lead, these from the policy of the last knot if
        fed back; True if all of them are finite."""
        assert self.problem is not None
        system, N = self.problem.system, len(self.us)
        last, (lower, upper) = window(system, N - 1, N), self.problem.control_limits or np.empty((2, 0, system.nu))
        with np.errstate(all="ignore"):
            for t in range(N, len(us)):
                x, u = xs[t : t + 1], us[t : t + 1]
                if fed_back:
                    dx = np.ascontiguousarray(system.difference(self.xs[-2:-1], x))
                    last_control(self.us, self.K, dx, lower, upper, u)
                xs[t + 1] = np.asarray(last.step(x, u))[0]
        return all_finite(xs[N + 1 :]) and all_finite(us[N:])

    def policy(
        self,
        feedback: bool = True,
        control: str = "held",
        joint_stiffness: ArrayLike | str | None = None,
        joint_damping: ArrayLike | str | None = None,
        hold: bool | None = None,
        delay: float | None = None,
    ) -> Policy:
        """The trajectory as a controller u = policy(t, x) at any time; see `trajopt.Policy`.

        Parameters
        ----------
        feedback : bool
            False: the planned controls alone.
        control : "held" (default) or "linear"
            The planned control between knots: held as planned, or interpolated linearly between the middles of the
            steps, so that motors need not jump at every knot.  The planned motion, which is the reference of the
            feedback, is that of these controls.
        joint_stiffness, joint_damping : number or (J,) array or "auto", optional
            Torques -kp dq - kd dv that pull each driven joint towards its planned angle and velocity in addition to the
            gains, in N m/rad and N m s/rad, of sliding joints N/m and N s/m: one number for all of them, or one for
            each driven degree of freedom.  They become part of the gains.  "auto": what makes the joints' stiffness
            positive definite in all directions at all knots in contact, since contacts may slip, as far as the delay
            tau allows: a joint of inertia m is given kp = 0.137 m/tau^2 at most.  A joint alone is stable up to
            kp = y^2 cos y m/tau^2 with kd = y sin y m/tau, where tan y = 2/y; the bound is that for 2 tau
            (`trajopt.results.joint_feedback` derives it).  Damping that is not given has a damping ratio of 0.64 for
            each joint alone, less where a late controller cannot apply more; zero for none.
        hold : bool, optional
            True: after the end the last posture is held, with zero velocity, by a stationary gain, and gains of the
            plan are those of a plan that continues like that for ever (`trajopt.results.policy`).  False: the last
            knot's control and gains are kept, which are those of a plan that ends.  By default True wherever the end is
            at rest and can be held, unless feedback is False; `Policy.hold` says if it is, `explain` why it is not.
        delay : float, optional
            Seconds after the measurement of a state at which the control made of it begins to act; by default 3 ms, the
            time between two controls at 1 kHz and 2 ms more.  "auto" is made for it, and a law with joint feedback is
            checked in the closed loop with this delay, at rest and over the last second, before it is returned; if the
            delay is given, any law is.  64 steps of the plan at most.

        Raises
        ------
        TypeError, ValueError
            Naming the argument; TypeError for joint_stiffness of a system without driven joints; ValueError for
            hold=True of a plan whose end is not at rest, and for a solution without its problem or without a
            trajectory.

        Warns
        -----
        RuntimeWarning
            If "auto" adds nothing, since stiffness would make standing or the last second unstable, as where a body is
            balanced by the joints' motion; and if given numbers, or the gains with a given delay, do.
        """
        return policy_of(self, feedback, control, joint_stiffness, joint_damping, hold, delay)

    def discretization_error(self, substeps: int | None = None) -> DiscretizationError:
        """Error of the plan against the motion of its controls in continuous time; see `trajopt.DiscretizationError`.

        The reference is the system's own dynamics in this number (at least 2) of finer steps for each of the plan's; by
        default a solver's at tight tolerances where a system has one (soft robots, within seconds), elsewhere two finer
        steps. Raises TypeError for a system without finer steps, ValueError for substeps that are too few, or without a
        plan.
        """
        return discretization_error(self, substeps)

    def violation_between_knots(self) -> ViolationBetweenKnots:
        """Violation of constraints between knots, a solve imposing them at knots alone; see
        `trajopt.ViolationBetweenKnots`.

        Raises TypeError for a system without finer steps, ValueError without a plan or where the motion between knots
        is not finite.

        Examples
        --------
        >>> solution = trajopt.DDP().solve(problems.make("unicycle_obstacles"))
        >>> solution.violation_between_knots().violation < 1e-2  # print(...) says which, when and by how much
        True
        """
        return violation_between_knots(self)

    # -------------------------------------------------------------------------------------------- second order
    def certificate(self) -> Certificate:
        """Test, with the exact Hessian of the Lagrangian, if this is a strict local minimum, a saddle, or singular; see
        `trajopt.Certificate`.  Raises ValueError for a solution that has not converged, has gaps, soft constraints that
        are violated, or no problem."""
        found = certificate(self._point())
        by = transcription_of(self._own_problem())
        if by is None:
            return found
        direction = None if found.direction is None else by.direction_outside(found.direction)
        return replace(found, knot=by.knot_outside(found.knot), direction=direction)

    @property
    def parameters(self) -> dict[str, float]:
        """Values of the problem's parameters, by the names of their controls ("u_1" for one without a name); empty if
        it has none."""
        problem = self._own_problem()
        names = control_names(problem.system)
        return {names[i] if names else f"u_{i + 1}": float(self.us[0, i]) for i in problem.parameters}

    def dx0(self) -> tuple[np.ndarray, np.ndarray]:
        """d xs / d x0 (N+1, ndx, ndx) and d us / d x0 (N, nu, ndx) of the optimal trajectory, exact, with constraints,
        along tangents; raises ValueError where `certificate` finds no strict minimum.  Zero for components of x0 that
        are free."""
        if counts_besides(self._own_problem()):
            found = self._by_initial_state()
            return found.xs, found.us
        system = factored(self._point())
        n = self.problem.system.ndx
        rhs = system.zeros(n)
        rhs.F[0] = np.eye(n)
        step = system.solve(rhs)
        return step.dx, step.du

    def _by_initial_state(self) -> Sensitivity:
        """Derivatives by changes (ndx,) of x0 along its tangent, for problems that depend on x0 by more than the
        dynamics."""
        problem = self.problem

        def moved(dx: np.ndarray) -> Problem:
            return with_x0(problem, problem.system.integrate(problem.x0, dx))

        return sensitivity(moved, np.zeros(problem.system.ndx), self)

    def inertial_vjp(
        self, xs_bar: ArrayLike | None = None, us_bar: ArrayLike | None = None, cost_bar: float = 0.0
    ) -> np.ndarray:
        """d phi / d pi of a function phi of this solution with respect to all inertial parameters of its robot,
        exactly, at the cost of a few iterations, however many parameters there are.

        Controls, states, costs and constraints are functions of the optimum, which moves with the dynamics; armature,
        friction, the initial state and references of costs and constraints stay fixed; user-defined functions among
        these are assumed to read states and controls alone.

        Parameters
        ----------
        xs_bar : (N+1, ndx), d phi / d xs along tangents
        us_bar : (N, nu), d phi / d us
        cost_bar : d phi / d J

        Returns
        -------
        (nb, 10), in the order of `dynamics.inertial_parameters`.  The derivative with respect to a number p that
        changes these is the sum of the products with d pi / d p.

        Raises
        ------
        TypeError : for a system without `parameter_gradient` (`trajopt.capabilities.Expansions`).
        ValueError : for wrong shapes, RK4 steps of joints that move on groups, a cost or constraint that declares that
            it depends on masses itself, as of contact forces or the centre of mass; and as `trajopt.sensitivity`, which
            supports all of these.
        """
        point = self._point()
        check_parameters(point)
        return parameter_vjp(factored(point), *self._covectors(xs_bar, us_bar), cost_bar)

    def vjp(
        self,
        xs_bar: ArrayLike | None = None,
        us_bar: ArrayLike | None = None,
        cost_bar: float = 0.0,
        ambient: bool = False,
        *,
        wrt: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """d phi of a function phi of this solution with respect to all data of its problem, exactly, from one solution
        of the KKT system: no problem is made, so that it takes the time of an iteration or two, however many numbers
        there are.

        Parameters
        ----------
        xs_bar : (N+1, ndx), d phi / d xs along tangents; if ambient (N+1, nx), by the numbers of the states
        us_bar : (N, nu), d phi / d us
        cost_bar : d phi / d J
        wrt : names of data, as `trajopt.ParametricProblem` takes them, and "inertial"; by default all

        Returns
        -------
        dict, of the form that `PreparedSolver.update` takes:

        - "x0" : (ndx,), along the tangent at the initial state; zero where it is free
        - for each term, by its name, a dict of its attributes' names to arrays of their shapes: targets, references,
          weights, limits.  The derivative by a state on a manifold is along its tangent, (ndx,) or (K, ndx); by a
          rotation (3,), by a pose [linear; angular] (6,), of R exp(d).  Of two equal limits the upper one has the
          whole. Where limits are weakly active these are derivatives without them.
        - "inertial" : as `inertial_vjp`, where the system has it and no cost or constraint depends on masses

        Attributes of user-defined classes are differenced, with that term alone, unless it has a
        `trajopt.interfaces.terms.AttributeGradient`; attributes that cannot be moved number by number are left
        out.

        Raises
        ------
        TypeError, ValueError : naming the argument; as `trajopt.sensitivity`, and for "inertial" as `inertial_vjp`.

        Examples
        --------
        >>> solution = trajopt.DDP().solve(problems.make("pendulum"))
        >>> found = solution.vjp(cost_bar=1.0)  # of the cost
        >>> list(found), list(found["terminal StateCost"])
        (['x0', 'StateCost', 'ControlCost', 'terminal StateCost', 'inertial'], ['reference', 'weights'])
        >>> bool(abs(found["x0"] - solution.Vx[0]).max() < 1e-4)
        True
        """
        if as_flag("ambient", ambient) and xs_bar is not None:
            xs_bar = as_array("xs_bar", xs_bar, self.xs.shape)
            xs_bar = along_tangents(self._own_problem().system, self.xs, xs_bar)
        point, by = self._point(), transcription_of(self._own_problem())
        found = problem_vjp(factored(point), *self._covectors(xs_bar, us_bar), cost_bar, names_of("wrt", wrt))
        found = found if by is None else by.gradients_outside(found)
        if INITIAL in found and counts_besides(self.problem):
            found[INITIAL] = self._by_initial_state().vjp(xs_bar, us_bar, cost_bar)
        return found

    def covariance(self, process_noise: ArrayLike, initial: ArrayLike | None = None) -> Covariance:
        """Covariances of states and controls when noise acts on the plan and its gains are deployed.

        Parameters
        ----------
        process_noise : W (ndx, ndx), or (N, ndx, ndx): covariance of the noise added to each next state, along tangents
        initial : (ndx, ndx), covariance of the initial state; by default zero

        Returns
        -------
        Covariance; its `cost_increase` is the expected cost less `cost`, NaN unless this is a strict minimum.

        Raises: ValueError for matrices that are no covariances, or a solution without its problem.
        """
        N, n = len(self.us), self._own_problem().system.ndx
        W = as_covariances("process_noise", process_noise, n, N)
        P0 = np.zeros((n, n)) if initial is None else as_covariances("initial", initial, n, None)
        xs, us = spread(*self.problem.system.linearize(self.xs, self.us), self.K, W, P0)
        try:
            V = factored(self._point()).factor.Vxx
        except ValueError:
            return Covariance(xs, us)
        V = V[len(V) - len(xs) :, :n, :n]
        return Covariance(xs, us, 0.5 * float((V[0] * P0).sum() + (V[1:] * W).sum()))

    def laplace(self, temperature: float = 1.0) -> Laplace:
        """The Gaussian approximation of p(us) ~ exp(- J(us) / temperature) about this minimum; see `trajopt.Laplace`.

        Raises ValueError unless this is a strict minimum, or for a temperature that is not positive.
        TypeError if it is no number.
        """
        temperature = as_positive("temperature", temperature)
        if transcription_of(self._own_problem()) is not None:
            raise ValueError("solution: got one of a free initial state or parameters, expected given ones")
        return laplace_of(factored(self._point()), temperature)

    def _point(self) -> KKTPoint:
        """The KKT point; if the initial state is free, that of the problem solved in place of this one."""
        inside = solution_inside(self._own_problem(), self)
        return stationary_point(inside.problem, inside)

    def _covectors(self, xs_bar: Any, us_bar: Any) -> tuple[Any, Any]:
        """Covectors of states and controls at the KKT point."""
        by = transcription_of(self._own_problem())
        if by is None:
            return xs_bar, us_bar
        given = (xs_bar, (len(self.xs), self.problem.system.ndx)), (us_bar, self.us.shape)
        names = "xs_bar", "us_bar"
        checked = (
            None if bar is None else as_array(name, bar, shape, copy=True)
            for name, (bar, shape) in zip(names, given, strict=True)
        )
        return by.covectors_inside(*checked)

    def _own_problem(self) -> Problem:
        if self.problem is None:
            raise ValueError("solution: got one without its problem, expected Solution.load(path, problem)")
        return self.problem

    # -------------------------------------------------------------------------------------------- out
    def resample(
        self,
        dt: float,
        joint_stiffness: ArrayLike | str | None = None,
        joint_damping: ArrayLike | str | None = None,
        hold: bool | None = False,
        delay: float | None = None,
    ) -> ResampledPlan:
        """The plan at times dt (s) apart, with gains; see `trajopt.ResampledPlan`.

        Between knots states follow the dynamics in finer steps with the controls held, and their error at the next knot
        is removed smoothly (`trajopt.results.dense_output`); knots are met exactly.  Stiffness and damping of joints,
        and holding the last posture, are as in `policy`, but that nothing is held by default and that the delay is dt
        and 2 ms more.
        """
        return resample(self, dt, joint_stiffness, joint_damping, hold, delay)

    def to_csv(self, path: str | Path, dt: float | None = None) -> Path:
        """Write times, states and controls as comma-separated values under their names, one line for each knot, or for
        each time of `resample(dt)`; the file appears complete or not at all."""
        return write_csv(self, path, dt)

    def to_trajectory_msg(self, dt: float | None = None, joints: Sequence[str] | None = None) -> dict[str, Any]:
        """The plan as a dict in the form of ROS 2's joint trajectories (trajectory_msgs), for the joints with one
        degree of freedom, or for those named, dt (s) apart, by default at the plan's knots."""
        return trajectory_message(self, dt, joints)

    def table(self) -> Table:
        """Status, iterations, cost, gradient norm, constraints and times."""
        return overview(self)

    def explain(self, solver: Any = None) -> str:
        """Explain what happened and what to try next, in words; a solver's options make the advice more precise."""
        return explain(self, solver)

    def save(self, path: str | Path) -> Path:
        """Write everything but the problem to exactly this path, as .npz without pickle, for `Solution.load`."""
        return save_solution(self, path)

    @classmethod
    def load(cls, path: str | Path, problem: Problem | None = None) -> Self:
        """Read what `save` wrote.  The solution has this problem, checked against it, or None.

        Raises ValueError for a file that is damaged, not of this kind, or of another problem.
        """
        return load_solution(cls, path, problem)
