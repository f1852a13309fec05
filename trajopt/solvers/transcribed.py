"""Transcription of a problem, whatever its initial state: limits for the box, rows of the other constraints."""

from __future__ import annotations

from typing import NamedTuple

from trajopt.capabilities import Expansions, capability
from trajopt.costs.residuals import ControlResidual
from trajopt.interfaces.system import System, control_names
from trajopt.problem.constraints import ControlBounds, ResidualConstraint
from trajopt.problem.problem import Problem
from trajopt.rows.packing import pack
from trajopt.rows.rows import Rows
from trajopt.solvers.iterate import Limits
from trajopt.solvers.options import LoopOptions


class TranscribedProblem(NamedTuple):
    """Limits (N, nu) that sweeps and rollouts keep, None if there are none; unscaled rows, None if there are none; for
    each of the problem's constraints True if it has rows; names and limits (N, nu) of those that have none; names (nu,)
    of the controls, empty without limits."""

    limits: Limits | None
    rows: Rows | None
    smooth: tuple[bool, ...]
    boxed: tuple[str, ...]
    bounds: tuple[Limits, ...]
    control_names: tuple[str, ...]


def takes_accelerations(system: System) -> bool:
    """True if the sweep's controls are accelerations for this system."""
    return capability(system, Expansions).acceleration_control is not None


def transcribe(problem: Problem, options: LoopOptions) -> TranscribedProblem:
    """Transcribe the problem for these options."""
    boxed = options.control_limits == "box" and not takes_accelerations(problem.system)
    limits = problem.control_limits if boxed else None
    constraints = _smooth_constraints(problem, boxed=limits is not None)
    rows = pack(problem, constraints) if constraints else None
    smooth = tuple(limits is None or isinstance(constraint, ResidualConstraint) for constraint in problem.constraints)
    if limits is None:
        return TranscribedProblem(None, rows, smooth, (), (), ())
    boxes = [constraint for constraint in problem.constraints if isinstance(constraint, ControlBounds)]
    names, bounds = (one.name for one in boxes), (one.limits(problem.horizon, problem.system.nu) for one in boxes)
    return TranscribedProblem(limits, rows, smooth, tuple(names), tuple(bounds), control_names(problem.system))


def _smooth_constraints(problem: Problem, boxed: bool) -> tuple[ResidualConstraint, ...]:
    """The constraints for the augmented Lagrangian, in the problem's order; limits of controls unless boxed."""
    constraints = []
    for constraint in problem.constraints:
        if isinstance(constraint, ResidualConstraint):
            constraints.append(constraint)
        elif not boxed:
            lower, upper = constraint.limits(problem.horizon, problem.system.nu)
            constraints.append(ResidualConstraint(ControlResidual(problem.system), lower, upper, name=constraint.name))
    return tuple(constraints)
