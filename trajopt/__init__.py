"""Trajectory optimization by iLQR and by DDP with exact second-order dynamics.

The package knows no robot: `trajopt.System` is a structural protocol, and anything that satisfies it can be optimized.
Names are loaded on first use, so that ``import trajopt`` compiles nothing and draws nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from trajopt.backward.expansions import Expansion, cost_curvature, expand, total_cost
    from trajopt.batch.many import load_many, solve_many
    from trajopt.batch.outcomes import ManySolutions, Outcome, SolveManyInterrupted
    from trajopt.callable_system import CallableSystem, SlowDynamicsWarning, residual
    from trajopt.costs import (
        Activation,
        ControlCost,
        Cost,
        LinearCost,
        LogBarrier,
        PseudoHuber,
        QuadraticBarrier,
        ResidualCost,
        SmoothAbs,
        SmoothNorm,
        StateCost,
        WeightedQuadratic,
    )
    from trajopt.costs.residuals import AccelerationResidual, ControlResidual, SquaredNorm, StateResidual
    from trajopt.families import Continuation, SingularPoint, continuation
    from trajopt.interfaces.residual import Residual
    from trajopt.interfaces.system import ManifoldSystem, System
    from trajopt.optimality.certificate import Certificate
    from trajopt.optimality.first_order import WeakLimit
    from trajopt.optimality.uncertainty import Covariance, Laplace
    from trajopt.plotting.animation import MovingPicture, animate
    from trajopt.plotting.continuation import plot_continuation
    from trajopt.plotting.convergence import plot_convergence
    from trajopt.plotting.trajectory import plot_trajectory
    from trajopt.plotting.viewer import Viewer, view
    from trajopt.problem.constraints import ControlBounds, ResidualConstraint, StateBounds
    from trajopt.problem.control_rate import ControlRateCost, ControlRateSystem
    from trajopt.problem.derivative_check import BlockCheck, DerivativeReport, check_derivatives
    from trajopt.problem.free_duration import FreeDurationSystem
    from trajopt.problem.jerk import JerkBounds, JerkResidual, JerkSystem
    from trajopt.problem.limits import AccelerationBounds, ControlRateBounds, TorqueSpeedBounds
    from trajopt.problem.parametric import ParametricProblem
    from trajopt.problem.periodic import Periodic
    from trajopt.problem.problem import Problem
    from trajopt.problem.scenery import Cylinder, Lines, Shape, Sphere, Target
    from trajopt.problem.waypoints import waypoints
    from trajopt.problem.with_free_durations import TimeCost, with_free_durations
    from trajopt.results.batch_solution import BatchSolution
    from trajopt.results.between_knots import BetweenKnots, ViolationBetweenKnots
    from trajopt.results.comparison import Comparison, compare
    from trajopt.results.discretization import DiscretizationError
    from trajopt.results.feedback import Feedback
    from trajopt.results.policy import Policy
    from trajopt.results.records import ConstraintReport, IterationRecord, Progress, Status, WarmStart
    from trajopt.results.resampled import ResampledPlan
    from trajopt.results.sensitivity import Directional, Sensitivity, sensitivity
    from trajopt.results.sensitivity_check import check_sensitivity
    from trajopt.results.simulation import Simulation, simulate
    from trajopt.results.solution import Solution
    from trajopt.solvers.options import LoopOptions
    from trajopt.solvers.prepared import PreparedSolver
    from trajopt.solvers.solver import DDP, ILQR

_HOME = {
    "backward.expansions": ("Expansion", "cost_curvature", "expand", "total_cost"),
    "batch.many": ("load_many", "solve_many"),
    "batch.outcomes": ("ManySolutions", "Outcome", "SolveManyInterrupted"),
    "callable_system": ("CallableSystem", "SlowDynamicsWarning", "residual"),
    "costs": (
        "Activation", "ControlCost", "Cost", "LinearCost", "LogBarrier", "PseudoHuber", "QuadraticBarrier",
        "ResidualCost", "SmoothAbs", "SmoothNorm", "StateCost", "WeightedQuadratic",
    ),
    "costs.residuals": ("AccelerationResidual", "ControlResidual", "SquaredNorm", "StateResidual"),
    "families": ("Continuation", "SingularPoint", "continuation"),
    "interfaces.residual": ("Residual",),
    "interfaces.system": ("ManifoldSystem", "System"),
    "optimality.certificate": ("Certificate",),
    "optimality.uncertainty": ("Covariance", "Laplace"),
    "optimality.first_order": ("WeakLimit",),
    "plotting": (
        "MovingPicture", "Viewer", "animate", "plot_continuation", "plot_convergence", "plot_trajectory", "view",
    ),
    "problem.constraints": ("ControlBounds", "ResidualConstraint", "StateBounds"),
    "problem.control_rate": ("ControlRateSystem", "ControlRateCost"),
    "problem.jerk": ("JerkBounds", "JerkResidual", "JerkSystem"),
    "problem.derivative_check": ("BlockCheck", "DerivativeReport", "check_derivatives"),
    "problem.limits": ("AccelerationBounds", "ControlRateBounds", "TorqueSpeedBounds"),
    "problem.free_duration": ("FreeDurationSystem",),
    "problem.with_free_durations": ("TimeCost", "with_free_durations"),
    "problem.parametric": ("ParametricProblem",),
    "problem.periodic": ("Periodic",),
    "problem.problem": ("Problem",),
    "problem.scenery": ("Cylinder", "Lines", "Shape", "Sphere", "Target"),
    "problem.waypoints": ("waypoints",),
    "results.between_knots": ("BetweenKnots", "ViolationBetweenKnots"),
    "results.comparison": ("Comparison", "compare"),
    "results.discretization": ("DiscretizationError",),
    "results.batch_solution": ("BatchSolution",),
    "results.feedback": ("Feedback",),
    "results.policy": ("Policy",),
    "results.records": ("ConstraintReport", "IterationRecord", "Progress", "WarmStart", "Status"),
    "results.resampled": ("ResampledPlan",),
    "results.sensitivity": ("Directional", "Sensitivity", "sensitivity"),
    "results.sensitivity_check": ("check_sensitivity",),
    "results.simulation": ("ContactReport", "Simulation", "simulate"),
    "results.solution": ("Solution",),
    "solvers.solver": ("DDP", "ILQR"),
    "solvers.options": ("LoopOptions",),
    "solvers.prepared": ("PreparedSolver",),
}  # fmt: skip
_MODULE = {name: module for module, names in _HOME.items() for name in names}
__all__ = sorted(_MODULE)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("dynamics.distribution").version()
    if name not in _MODULE:
        raise AttributeError(f"module 'trajopt' has no attribute {name!r}")
    value = getattr(import_module(f"trajopt.{_MODULE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
