"""Trajectory optimization by iLQR and by DDP with exact second-order dynamics.

The package knows no robot: `trajopt.System` is a structural protocol, and anything that satisfies it can be optimized.
Names are loaded on first use, so that ``import trajopt`` compiles nothing and draws nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from trajopt.batch.many import solve_many
    from trajopt.batch.outcomes import ManySolutions, Outcome, SolveManyInterrupted
    from trajopt.callable_system import CallableSystem, SlowDynamicsWarning
    from trajopt.comparison import Comparison, compare
    from trajopt.constraints import ControlBounds, ResidualConstraint, StateBounds
    from trajopt.control_rate import ControlRateCost, ControlRateSystem
    from trajopt.costs import (
        Activation,
        ControlCost,
        Cost,
        LogBarrier,
        PseudoHuber,
        QuadraticBarrier,
        ResidualCost,
        SmoothAbs,
        SmoothNorm,
        StateCost,
        WeightedQuadratic,
    )
    from trajopt.derivative_check import BlockCheck, DerivativeReport, check_derivatives
    from trajopt.expansions import Expansion, cost_curvature, expand, total_cost
    from trajopt.plotting import Viewer, animate, plot_convergence, plot_trajectory, view
    from trajopt.policy import Policy
    from trajopt.prepared import PreparedSolver
    from trajopt.problem import Problem
    from trajopt.residual import Residual
    from trajopt.residuals import ControlResidual, SquaredNorm, StateResidual
    from trajopt.scenery import Cylinder, Lines, Shape, Sphere, Target
    from trajopt.solution import ConstraintReport, IterationRecord, Progress, Solution, WarmStart
    from trajopt.solvers.ddp import DDP
    from trajopt.solvers.ilqr import ILQR
    from trajopt.solvers.options import LoopOptions
    from trajopt.status import Status
    from trajopt.system import ManifoldSystem, System

_HOME = {
    "Activation": "costs",
    "BlockCheck": "derivative_check",
    "CallableSystem": "callable_system",
    "Comparison": "comparison",
    "ConstraintReport": "solution",
    "ControlBounds": "constraints",
    "ControlCost": "costs",
    "ControlRateCost": "control_rate",
    "ControlRateSystem": "control_rate",
    "ControlResidual": "residuals",
    "Cost": "costs",
    "Cylinder": "scenery",
    "DDP": "solvers.ddp",
    "DerivativeReport": "derivative_check",
    "Expansion": "expansions",
    "ILQR": "solvers.ilqr",
    "IterationRecord": "solution",
    "Lines": "scenery",
    "LogBarrier": "costs",
    "LoopOptions": "solvers.options",
    "ManifoldSystem": "system",
    "ManySolutions": "batch.outcomes",
    "Outcome": "batch.outcomes",
    "Policy": "policy",
    "PreparedSolver": "prepared",
    "Problem": "problem",
    "Progress": "solution",
    "PseudoHuber": "costs",
    "QuadraticBarrier": "costs",
    "Residual": "residual",
    "ResidualConstraint": "constraints",
    "ResidualCost": "costs",
    "Shape": "scenery",
    "SlowDynamicsWarning": "callable_system",
    "SmoothAbs": "costs",
    "SmoothNorm": "costs",
    "Solution": "solution",
    "SolveManyInterrupted": "batch.outcomes",
    "Sphere": "scenery",
    "SquaredNorm": "residuals",
    "StateBounds": "constraints",
    "StateCost": "costs",
    "StateResidual": "residuals",
    "Status": "status",
    "System": "system",
    "Target": "scenery",
    "Viewer": "plotting",
    "WarmStart": "solution",
    "WeightedQuadratic": "costs",
    "animate": "plotting",
    "check_derivatives": "derivative_check",
    "compare": "comparison",
    "cost_curvature": "expansions",
    "expand": "expansions",
    "plot_convergence": "plotting",
    "plot_trajectory": "plotting",
    "solve_many": "batch.many",
    "total_cost": "expansions",
    "view": "plotting",
}

__all__ = [
    "Activation", "BlockCheck", "CallableSystem", "Comparison", "ConstraintReport", "ControlBounds", "ControlCost",
    "ControlRateCost", "ControlRateSystem", "ControlResidual", "Cost", "Cylinder", "DDP", "DerivativeReport",
    "Expansion", "ILQR", "IterationRecord", "Lines", "LogBarrier", "LoopOptions", "ManifoldSystem", "ManySolutions",
    "Outcome", "Policy", "PreparedSolver", "Problem", "Progress", "PseudoHuber", "QuadraticBarrier", "Residual",
    "ResidualConstraint", "ResidualCost", "Shape", "SlowDynamicsWarning", "SmoothAbs", "SmoothNorm", "Solution",
    "SolveManyInterrupted", "Sphere", "SquaredNorm", "StateBounds", "StateCost", "StateResidual", "Status", "System",
    "Target", "Viewer", "WarmStart", "WeightedQuadratic", "animate", "check_derivatives", "compare", "cost_curvature",
    "expand", "plot_convergence", "plot_trajectory", "solve_many", "total_cost", "view",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("dynamics.distribution").version()
    if name not in _HOME:
        raise AttributeError(f"module 'trajopt' has no attribute {name!r}")
    value = getattr(import_module(f"trajopt.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
