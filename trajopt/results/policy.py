"""Feedback policies of a plan at any time, and holding its last posture."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import IO, Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from dynamics.printed import in_brief
from dynamics.simd.caller import warn
from dynamics.simd.kernel_cache import loading_alone
from dynamics.validation import as_array, as_choice, as_flag, as_number
from trajopt.backward.backward_pass import SweepResult, sweep
from trajopt.backward.expansions import Expansion, convexified, expand
from trajopt.capabilities import Joints, Start, capability
from trajopt.interfaces.state_space import StateSpace, space_of
from trajopt.interfaces.system import System, knot_durations, state_array, tangent_names, window
from trajopt.optimality.active_limits import kkt_point
from trajopt.optimality.kkt_point import ActiveRows, active_rows
from trajopt.optimality.kkt_system import without_clamped
from trajopt.problem.extended_system import innermost, remembered_numbers
from trajopt.problem.problem import Problem
from trajopt.results.advice import called
from trajopt.results.archives import archive_of
from trajopt.results.dense_output import CONTROLS, HELD, DenseOutput, dense_output
from trajopt.results.joint_feedback import LATE, PERIOD, with_joint_feedback
from trajopt.results.late_feedback import LateLoop, as_delay
from trajopt.results.records import AnySolution, ConstraintReport, Hold, SolutionData
from trajopt.results.results_files import checked_file, save_bytes
from trajopt.results.stationary import after_the_start

# --------------------------------------------------------------------------------------------
# Gains of a plan that ends by standing still for ever.
#
# The terminal cost of a plan that ends has a large weight, which makes the last gains stiff, and does not describe what
# comes after.  Here the plan's cost continues for ever: at the last posture x_h, at rest, with the controls u_h that
# keep it there, and the running costs of the plan's last knot.  Its value function is the fixed point of
#
#     V <- lxx + fx'V fx - Qux'Quu^-1 Qux,      Quu = luu + fu'V fu,   Qux = lux + fu'V fx,      K_h = - Quu^-1 Qux
#
# It replaces the terminal cost and constraints at the end, and a sweep over the plan starts from it, with the Hessians
# that the plan's gains were made with: exact ones after `trajopt.DDP`, active constraints penalized but for those of
# knots that take no time, controls on their limits held.  With the terminal cost it would give the plan's gains again.
# The gains of standing are Gauss-Newton ones, since multipliers at the plan's end do not apply after it.
#
# Directions that no control moves, such as those that held contacts forbid, may stay where they are: V then grows along
# them from sweep to sweep, K_h does not.

STILL = 0.5
"""Rate of change, rad/s, m/s or those per second, below which the end of a plan is at rest: the library's plans that
end at rest have 0.12 at most, one that falls has 9.81."""
BLOCK, BLOCKS, SETTLED = 64, 500, 1e-9
"""Knots of one sweep towards the fixed point, largest number of sweeps, and relative change of the gains at which they
have converged."""
GAUSS_NEWTON = "gauss_newton"
"""Kind of steps whose gains have no exact Hessians."""
NEUTRAL = 1e-7
"""Decay per step below which a mode that controls move counts as not held."""
PENALTY = 1e4
"""Largest penalty of active constraints, in units of the costs' Hessians, as for the gains of a solution."""


def followed_by_standing(solution: AnySolution) -> tuple[AnySolution, Hold]:
    """The solution with the gains of a plan that ends by standing still, and the control after its end.

    Raises ValueError for a plan whose end is not at rest, or where no gain holds it, and for one with parameters.
    """
    problem, xs, us = solution.problem, solution.xs, solution.us
    if problem.parameters:
        raise ValueError("hold: got a plan with parameters of the whole horizon, expected one without")
    lasting = knot_durations(problem.system, len(us), xs) > 0.0
    if not lasting.any():
        raise ValueError("hold: got a plan that takes no time, expected one that does")
    last = int(np.flatnonzero(lasting)[-1])
    at_end = window(problem.system, last, last + 1)
    x, u = _still(at_end, xs[-1], us[last])
    V, K = _stationary(_standing(problem, xs, us, last, x, u))
    result = _swept(solution, V)
    if not result.ok:
        raise ValueError(f"hold: got a plan whose costs have no minimum in the controls at knot {result.failed_knot}")
    return _with_gains(solution, result.K), Hold(x, u, K)


def without_cones_of_impulses(solution: AnySolution) -> AnySolution:
    """The solution with gains that keep active limits at knots that take time alone.  Feedback that also kept those of
    impulses at touch-downs would have to undo every deviation within the last knot before."""
    problem, N = solution.problem, len(solution.us)
    sudden = np.append(knot_durations(problem.system, N, solution.xs) == 0.0, False)
    if not any((report.multipliers[sudden[report.knots]] != 0.0).any() for report in solution.constraints):
        return solution
    result = _swept(solution, None)
    return _with_gains(solution, result.K) if result.ok and np.isfinite(result.K).all() else solution


def _swept(solution: SolutionData, V: np.ndarray | None) -> SweepResult:
    """The sweep over the plan from this value function (ndx, ndx) at its end, or from the terminal cost."""
    e = _along(solution)
    if V is not None:
        lxx = e.lxx.copy()
        lxx[-1] = V
        e = e._replace(lxx=lxx)
    return _gains(e)


def _with_gains(solution: AnySolution, K: np.ndarray) -> AnySolution:
    """The solution with these gains at knots that take time."""
    lasting = knot_durations(solution.problem.system, len(solution.us), solution.xs) > 0.0
    return replace(solution, K=np.where(lasting[:, None, None], K, solution.K))


def _still(system: System, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The last state with zero velocities, and controls that hold it; ValueError where it moves."""
    inside = innermost(system)
    nq, quasi_static, at_rest = capability(inside, Joints).nq, capability(system, Start).quasi_static, x.copy()
    if nq is not None:
        at_rest[nq : inside.nx] = 0.0
    if quasi_static is not None:
        u = np.asarray(quasi_static(at_rest), dtype=np.float64).reshape(-1, system.nu)[0]
    memory = remembered_numbers(system)
    if memory:
        at_rest[-memory:] = system.step(at_rest, u)[-memory:]
    rates = np.abs([system.difference(y, np.asarray(system.step(y, u))) for y in (x, at_rest)]).max(axis=0) / system.dt
    fastest = int(np.argmax(rates[: system.ndx - memory]))
    if not rates[fastest] <= STILL:
        name = called(tangent_names(system), fastest, "component")
        raise ValueError(
            f"hold: got a plan that is not at rest at its end, where {name} changes by {rates[fastest]:.2g} in a "
            f"second; expected at most {STILL:g}"
        )
    return at_rest, u.copy()


def _standing(problem: Problem, xs: np.ndarray, us: np.ndarray, last: int, x: np.ndarray, u: np.ndarray) -> Expansion:
    """The expansion of standing at x with the controls u, in one knot, and of the terminal cost."""
    xs, us = xs.copy(), us.copy()
    xs[last], us[last], xs[-1] = x, u, x
    e = expand(problem, xs, us)
    rows = [last, len(us)]
    return Expansion(*(part[rows] if len(part) > len(us) else part[[last]] for part in e))


def _stationary(e: Expansion) -> tuple[np.ndarray, np.ndarray]:
    """Value function (ndx, ndx) and gain (nu, ndx) of standing for ever; ValueError where there is none.

    If running costs leave directions free that controls move, a hundredth of the terminal cost is added to every knot.
    """
    for share in (0.0, 1e-2):
        lxx = e.lxx[:1] + share * e.lxx[1:]
        found = _fixed_point(e._replace(lxx=np.concatenate([lxx, lxx])))
        if found is not None:
            return found
    raise ValueError(
        "hold: got a plan whose costs leave the state at its end free, or a system that cannot be held there; expected "
        "running costs of all that controls move"
    )


def _fixed_point(e: Expansion) -> tuple[np.ndarray, np.ndarray] | None:
    """Value function and gain at the fixed point for an expansion of one knot; None where the gains do not converge or
    do not hold the state."""
    many = Expansion(*(np.repeat(part[:1], BLOCK + (len(part) > 1), axis=0) for part in e))
    many = many._replace(lx=np.zeros_like(many.lx), lu=np.zeros_like(many.lu))
    for _ in range(BLOCKS):
        result = _gains(many)
        K, V = result.K[0], result.Vxx[0]
        if not (result.ok and np.isfinite(V).all()):
            return None
        if np.abs(K - result.K[1]).max() <= SETTLED * np.abs(K).max():
            return (V.copy(), K.copy()) if _holds(e.fx[0], e.fu[0], K) else None
        many.lxx[-1] = V
    return None


def _holds(fx: np.ndarray, fu: np.ndarray, K: np.ndarray) -> bool:
    """True if every mode that controls move decays, and none grows."""
    values, left = np.linalg.eig((fx + fu @ K).T)
    moved = np.abs(fu.T @ left).max(axis=0) > 1e-6 * max(float(np.abs(fu).max()), 1e-300)
    sizes = np.abs(values)
    return bool((sizes < 1.0 + 1e-6).all() and (sizes[moved] < 1.0 - NEUTRAL).all())


def _along(solution: SolutionData) -> Expansion:
    """The expansion along the plan, with active constraints penalized and controls on limits held."""
    problem, xs, us = solution.problem, solution.xs, solution.us
    durations = knot_durations(problem.system, len(us), xs)
    reports = after_the_start(problem, solution.constraints)
    constraints = [_that_last(report, durations) for report in reports]
    point = kkt_point(problem, xs, us, tuple(constraints), K=solution.K)
    exact = not solution.log or solution.log[-1].step != GAUSS_NEWTON
    e = point.e if exact else expand(problem, xs, us)
    rows = active_rows(point, point.held.rows, point.held.controls)
    rows = ActiveRows(*(part[np.append(durations, np.inf)[rows.knots] > 0.0] for part in rows))
    unit = max(float(np.abs(H).max(initial=0.0)) for H in (e.lxx, e.lux, e.luu))
    e = rows.with_terms_in(without_clamped(e, point.held.controls), min(point.penalty, PENALTY * unit))
    return e._replace(lx=np.zeros_like(e.lx), lu=np.zeros_like(e.lu))


def _that_last(report: ConstraintReport, durations: np.ndarray) -> ConstraintReport:
    """The report without multipliers at knots that take no time, as of impulses at touch-downs: such limits shape the
    plan, but a feedback that kept them would have to undo all deviations in the last knots before."""
    lasting = np.append(durations, np.inf)[report.knots] > 0.0
    return report._replace(multipliers=np.where(lasting[:, None], report.multipliers, 0.0))


def _gains(e: Expansion) -> SweepResult:
    """The sweep of an expansion, of its positive part if it is indefinite."""
    result = sweep(e, 0.0)
    return result if result.ok else sweep(convexified(e), 0.0)


# --------------------------------------------------------------------------------------------
# A solution as a controller: the planned controls and the gains around the planned motion, at any time.
#
#     u(t, x) = u_ref(t) + K_k difference(x_ref(t), x),    k the knot that t belongs to, t_k <= t < t_k + dt
#
# x_ref is the motion of the plan between its knots (`trajopt.results.dense_output`), so that on it nothing is fed back,
# however often the policy is asked.  The planned control is held between knots or interpolated; gains are held, as in
# the rollouts that they were made for (`python -m experiments.execution` compares).
#
# A policy that is saved contains all of that: the motion as a table, the space of the states as plain data.  It can be
# loaded without the problem, the robot's file or an integrator.

FORMAT, VERSION = "trajopt.Policy", 2
FLOAT64 = np.dtype(np.float64)


@dataclass(frozen=True, eq=False)
class Policy:
    """u = policy(t, x) along a planned trajectory; made by `Solution.policy` or `Policy.load`.

    Attributes
    ----------
    motion
        The plan at any time (`trajopt.results.dense_output`).
    K : (N, nu, ndx) array
        Feedback gains.
    limits : (lower, upper) or None
        Limits that the controls are clipped to, (N, nu) each.
    feedback : bool
        False: the planned controls alone, independent of the state.
    hold : (x, u, K) or None
        Control after the end: u + K difference(x, state).  None: the last knot's control and gains are kept.

    Notes
    -----
    A call takes some ten microseconds, the first one in every stretch of 16 knots longer, since the motion between
    knots is computed when it is first asked for; `warm_up` computes all of it, and `Solution.policy` calls it where no
    function has to be compiled for it.

    States are those of the problem's system, with what it adds to those of a robot: for a `ControlRateSystem` the last
    control that acted, so that the policy must be called at the plan's knots too; for a `JerkSystem` the velocities one
    step of the plan before; for a `FreeDurationSystem` the duration of the phase, the last number of
    ``policy.reference(t)``.

    Examples
    --------
    >>> solution = trajopt.DDP().solve(problems.make("pendulum"))
    >>> policy, x = solution.policy(), solution.xs[20]
    >>> bool((policy(0.8, x) == solution.us[20]).all())  # on the plan the planned control
    True
    >>> bool(np.abs(policy(0.807, policy.reference(0.807)) - solution.us[20]).max() < 1e-9)  # also between knots
    True
    """

    motion: DenseOutput = field(repr=False)
    K: np.ndarray = field(repr=False)
    limits: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)
    feedback: bool = True
    hold: Hold | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return in_brief(self, horizon=self.horizon)

    @property
    def system(self) -> System | None:
        """The system of the plan; None for a policy that was loaded."""
        return self.motion.system

    @property
    def xs(self) -> np.ndarray:
        """States (N+1, nx) at the knots of the plan."""
        return self.motion.xs

    @property
    def us(self) -> np.ndarray:
        """Controls (N, nu) of the plan."""
        return self.motion.us

    @property
    def times(self) -> np.ndarray:
        """Times (N+1,) of the knots, s."""
        return self.motion.times

    @property
    def horizon(self) -> float:
        """Duration of the plan, s."""
        return float(self.motion.times[-1])

    @property
    def space(self) -> StateSpace:
        """The space of the states."""
        return self.motion.space

    def knot(self, t: float) -> int:
        """The knot 0 ... N-1 that the time t belongs to; before the start the first, after the end the last one that
        takes time.

        Raises TypeError or ValueError if t is not a finite number.
        """
        return self.motion.locate(_seconds(t))[0]

    def reference(self, t: float) -> np.ndarray:
        """The planned state (nx,) at t seconds from the start; before it the first, after the end the last one.

        Raises TypeError or ValueError if t is not a finite number.
        """
        k, s = self.motion.locate(_seconds(t))
        return self.hold.x.copy() if self.hold is not None and s == 1.0 else self.motion.state(k, s)

    def __call__(self, t: float, x: ArrayLike | None = None) -> np.ndarray:
        """The control (nu,) at t seconds from the start, in the state x (nx,), which an open loop does not need.

        Raises TypeError or ValueError naming t or x.
        """
        motion = self.motion
        k, s = motion.locate(t if type(t) is float and isfinite(t) else _seconds(t))
        hold = self.hold if s == 1.0 else None  # the whole of a step is over after the last one alone
        u = motion.control(k, s) if hold is None else hold.u
        if self.feedback:
            space = motion.space
            if not (_plain(x) and x.shape == (space.nx,) and space.contains(x)):
                x = self._state(x)
            if hold is not None:
                K, reference = hold.K, hold.x
            else:
                K, reference = self.K[k], motion.state(k, s) if s else motion.xs[k]
            u = fed_back(u, K, space.compare(reference, x))
        if self.limits is None:
            return u if self.feedback else u.copy()
        return np.minimum(np.maximum(u, self.limits[0][k]), self.limits[1][k])

    def warm_up(self) -> None:
        """Load or compile what calls run, and compute the motion between all knots, so that no call takes longer than
        others.  Where it is not finite, it is left to the calls.

        `Solution.policy` does this, unless a function would have to be compiled, which takes seconds.
        """
        motion = self.motion
        with suppress(ValueError):
            motion.whole_table()
        x, times = motion.xs[0], motion.times
        middle = 0.5 * float(times[1:][np.diff(times) > 0.0][0])
        for t in (0.0, middle, self.horizon):
            with suppress(ValueError):
                self(t, x if self.feedback else None)

    def _state(self, x: Any) -> np.ndarray:
        """x as a state (nx,), or an error that names it."""
        if x is None:
            raise TypeError(f"x: got None, expected a state of shape ({self.space.nx},) to feed back")
        if self.system is not None:
            return state_array(self.system, "x", x)
        x = as_array("x", x, (self.space.nx,), copy=True)
        self.space.check("x", x)
        return x

    # -------------------------------------------------------------------------------------------- files
    def save(self, path: str | os.PathLike) -> Path:
        """Write the policy to exactly this path, as .npz without pickle, for `Policy.load`; folders are made as needed.

        The file appears complete or not at all.

        Raises
        ------
        TypeError
            For states on a manifold that the system does not describe (`trajopt.capabilities.StateManifold`).
        ValueError
            Where the motion between two knots is not finite.
        """
        motion = self.motion
        if motion.space.factors is None:
            raise TypeError(
                f"system: {type(motion.system).__name__} has a manifold of states of its own, which no file holds; "
                "expected vectors or a state_space, as trajopt.capabilities.StateManifold has it"
            )
        arrays = {
            "format": np.array(FORMAT),
            "format_version": np.array(VERSION),
            "space": np.array(json.dumps(motion.space.factors)),
            "early": np.array(motion.early),
            "feedback": np.array(self.feedback),
            **{name: getattr(motion, name) for name in ("times", "xs", "us", "slopes")},
            "table": motion.whole_table(),
            "K": self.K,
        }
        if self.limits is not None:
            arrays |= {"lower": self.limits[0], "upper": self.limits[1]}
        if self.hold is not None:
            arrays |= {f"hold_{name}": value for name, value in self.hold._asdict().items()}
        return save_bytes(archive_of(arrays), path)

    def export(self, folder: str | os.PathLike[str], name: str = "policy", target: str = "native") -> Path:
        """Write the policy as a C library, static and shared, for programs without Python; it contains no solver.

        In the folder are both libraries, a header, a file for CMake, a README, and an example of a control loop at
        1 kHz.  The library's function ``control`` writes ``u`` for ``time`` and ``x``, with the bits of
        ``policy(t, x)``, in about a microsecond.

        Parameters
        ----------
        folder : new, or empty
        name : str
            What all names of the library begin with.
        target : str
            The processor, as in `PreparedSolver.export`: "native", "x86-64-v3" or "aarch64".

        Returns
        -------
        The folder.

        Raises
        ------
        ValueError
            For states that are compared in Python, as those of a user's manifold, or of soft robots with joints that
            turn without limit; and for arguments other than these.
        FileExistsError, FileNotFoundError
            If the folder is not empty; without a C compiler, "cc".
        OSError
            On other systems than Linux.
        """
        from trajopt.results.control_library import export_policy, law_of_policy

        K, hold = self.K[: len(self.K) if self.feedback else 0], {} if self.hold is None else self.hold._asdict()
        return export_policy(law_of_policy(self.motion, K, self.limits, hold), folder, name, target)

    @classmethod
    def load(cls, source: str | os.PathLike | IO[bytes]) -> Policy:
        """Read what `save` wrote: the same controls, to the last bit, without the problem, its system or its robot.

        Raises
        ------
        FileNotFoundError
        ValueError
            The file is not one of `save`, is cut short or damaged, or was made by a newer version.
        """
        name, arrays = checked_file(source, FORMAT, VERSION, "policy")
        try:
            return cls._of_arrays(arrays)
        except (LookupError, ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{name}: got a policy file that is damaged ({error})") from error

    @classmethod
    def _of_arrays(cls, arrays: dict[str, np.ndarray]) -> Policy:
        space = space_of(json.loads(str(arrays["space"])))
        (N, nu), nx, ndx = arrays["us"].shape, space.nx, space.ndx
        m = arrays["table"].shape[1] - 1
        shapes = {
            "times": (N + 1,), "xs": (N + 1, nx), "us": (N, nu), "K": (N, nu, ndx), "table": (N, m + 1, ndx),
            "slopes": (N if len(arrays["slopes"]) else 0, 2, nu), "early": (),
        }  # fmt: skip
        values = {key: as_array(key, arrays[key], shape, copy=True) for key, shape in shapes.items()}
        if N < 1 or m < 1 or (np.diff(values["times"]) < 0.0).any() or not values["times"][-1] > 0.0:
            raise ValueError("times: got some that do not grow, expected one more than controls, growing")
        limits = None
        if "lower" in arrays or "upper" in arrays:
            lower, upper = (
                as_array(side, arrays[side], (N, nu), allow_infinite=True, copy=True) for side in ("lower", "upper")
            )
            limits = lower, upper
        if arrays["feedback"].dtype != bool or arrays["feedback"].ndim:
            raise ValueError(f"feedback: got {arrays['feedback'].dtype}, expected True or False")
        hold = None
        if any(f"hold_{name}" in arrays for name in Hold._fields):
            parts = zip(Hold._fields, ((nx,), (nu,), (nu, ndx)), strict=True)
            hold = Hold(*(as_array(f"hold_{name}", arrays[f"hold_{name}"], shape, copy=True) for name, shape in parts))
        times, xs, us, K, table, slopes, early = values.values()
        motion = DenseOutput(space, times, xs, us, slopes, float(early), table)
        return cls(motion, K, limits, bool(arrays["feedback"]), hold)


def fed_back(u: np.ndarray, K: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """u + K deviation (nu,), with the bits of C libraries: products are added one after another."""
    return u + np.add.accumulate(K * deviation, axis=1)[:, -1]


def _plain(x: Any) -> TypeGuard[np.ndarray]:
    """True for an array that compiled functions take as it is, of any shape."""
    return type(x) is np.ndarray and x.dtype == FLOAT64 and x.flags.c_contiguous and x.flags.writeable


def _seconds(t: Any) -> float:
    """A time as a finite number; TypeError or ValueError otherwise."""
    if isinstance(t, bool) or not isinstance(t, (int, float, np.number, np.ndarray)) or np.ndim(t):
        raise TypeError(f"t: got {t!r}, expected one number, the seconds from the start")
    return as_number("t", t)


def planned_problem(solution: SolutionData) -> Problem:
    """The problem of a solution that is a plan; ValueError for one without its problem or without a trajectory."""
    if solution.problem is None:
        raise ValueError("solution: got one without its problem, expected one read by Solution.load(path, problem)")
    if not np.isfinite(solution.cost):
        raise ValueError("solution: got one that diverged, expected a trajectory to follow")
    return solution.problem


def policy_of(
    solution: SolutionData,
    feedback: bool = True,
    control: str = HELD,
    joint_stiffness: Any = None,
    joint_damping: Any = None,
    hold: bool | None = None,
    delay: float | None = None,
) -> Policy:
    """The policy of a solution; see `Solution.policy`."""
    problem, feedback = planned_problem(solution), as_flag("feedback", feedback)
    motion = dense_output(problem.system, solution.xs, solution.us, as_choice("control", control, CONTROLS))
    limits = problem.control_limits
    if limits is not None:
        limits = limits[0].copy(), limits[1].copy()
    solution, feedback, end = deployed(solution, feedback, joint_stiffness, joint_damping, hold, delay)
    policy = Policy(motion, solution.K.copy(), limits, feedback, end)
    with suppress(Exception), loading_alone():  # what fails here, fails in the call that needs it
        policy.warm_up()
    return policy


def deployed(
    solution: AnySolution,
    feedback: bool,
    joint_stiffness: Any = None,
    joint_damping: Any = None,
    hold: bool | None = None,
    delay: float | None = None,
    period: float = PERIOD,
) -> tuple[AnySolution, bool, Hold | None]:
    """The solution with the gains to deploy (its own, if they are fed back, and those of joints), True if there are
    any, and the control after its end, None if that of the last knot goes on.

    hold: None to hold the last posture wherever that can be done.  Controls are made every `period` seconds and act
    `delay` seconds after their measurement, by default one period and `LATE`; a law for joints is made for that, and
    any law is checked if the delay is given.
    """
    stiff = joint_stiffness is not None or joint_damping is not None
    late = period + LATE if delay is None else delay
    late = as_delay(late, planned_problem(solution).system) if stiff or delay is not None else 0.0
    wanted = hold if hold is None else as_flag("hold", hold)
    if wanted is None and (feedback or stiff):
        solution, end, _ = standing_if_possible(solution)
    else:
        solution, end = followed_by_standing(solution) if wanted else (without_cones_of_impulses(solution), None)
    if stiff:
        if not feedback:
            solution = replace(solution, K=np.zeros_like(solution.K))
            end = None if end is None else end._replace(K=np.zeros_like(end.K))
        solution, end = with_joint_feedback(solution, joint_stiffness, joint_damping, end, late, period)
        return solution, True, end
    if feedback and delay is not None:
        found = LateLoop(solution, end, late, period).growth(solution.K, None if end is None else end.K)
        if not found.stable:
            warn(
                f"delay: got {late:.3g} s, with which {found.in_words()}; expected less, or a plan whose costs of "
                "controls and velocities are larger",
                RuntimeWarning,
            )
    return solution, feedback, end


def standing_if_possible(solution: AnySolution) -> tuple[AnySolution, Hold | None, str]:
    """The solution with the gains of a plan that ends by standing still, the control after its end, and no text; where
    it cannot stand, its own gains, None and the reason."""
    try:
        with np.errstate(all="ignore"):
            return *followed_by_standing(solution), ""
    except ValueError as error:
        why = str(error).removeprefix("hold: got ").partition(";")[0].partition(", expected")[0]
        return without_cones_of_impulses(solution), None, why


def why_not_held(solution: SolutionData) -> str:
    """Why policies do not hold the end of a plan by default, as a noun; empty if they do."""
    return standing_if_possible(solution)[2]
