"""Trajectory optimization by iLQR and by DDP with exact second-order dynamics.

The package knows no robot: `trajopt.System` is a structural protocol, and anything that satisfies it can be optimized.
Names are loaded on first use, so that ``import trajopt`` compiles nothing and draws nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trajopt.comparison import Comparison, compare
    from trajopt.costs import ControlCost, Cost, ResidualCost, StateCost
    from trajopt.expansions import Expansion, cost_curvature, expand, total_cost
    from trajopt.plotting import plot_convergence, plot_trajectory
    from trajopt.problem import Problem
    from trajopt.residual import Residual
    from trajopt.solution import IterationRecord, Progress, Solution
    from trajopt.solvers.ddp import DDP
    from trajopt.solvers.ilqr import ILQR
    from trajopt.status import Status
    from trajopt.system import System

_HOME = {
    "Comparison": "comparison",
    "ControlCost": "costs",
    "Cost": "costs",
    "DDP": "solvers.ddp",
    "Expansion": "expansions",
    "ILQR": "solvers.ilqr",
    "IterationRecord": "solution",
    "Problem": "problem",
    "Progress": "solution",
    "Residual": "residual",
    "ResidualCost": "costs",
    "Solution": "solution",
    "StateCost": "costs",
    "Status": "status",
    "System": "system",
    "compare": "comparison",
    "cost_curvature": "expansions",
    "expand": "expansions",
    "plot_convergence": "plotting",
    "plot_trajectory": "plotting",
    "total_cost": "expansions",
}

__all__ = [
    "DDP", "ILQR", "Comparison", "ControlCost", "Cost", "Expansion", "IterationRecord", "Problem", "Progress",
    "Residual", "ResidualCost", "Solution", "StateCost", "Status", "System", "compare", "cost_curvature", "expand",
    "plot_convergence", "plot_trajectory", "total_cost",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'trajopt' has no attribute {name!r}")
    value = getattr(import_module(f"trajopt.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
