"""Costs of states, controls and residuals, constant or with a reference and weights for every knot.

A cost knows neither time step nor horizon: it evaluates the knots it is given, and adds scale times its derivatives to
the arrays it is given.
"""

from trajopt.costs.activations import (
    Activation,
    LogBarrier,
    PseudoHuber,
    QuadraticActivation,
    QuadraticBarrier,
    SmoothAbs,
    SmoothNorm,
    WeightedQuadratic,
)
from trajopt.costs.control_cost import ControlCost
from trajopt.costs.cost import Cost, Quadratic
from trajopt.costs.linear_cost import LinearCost
from trajopt.costs.residual_cost import ResidualCost
from trajopt.costs.state_cost import StateCost

__all__ = [
    "Activation", "ControlCost", "Cost", "LinearCost", "LogBarrier", "PseudoHuber", "Quadratic", "QuadraticActivation",
    "QuadraticBarrier", "ResidualCost", "SmoothAbs", "SmoothNorm", "StateCost", "WeightedQuadratic",
]  # fmt: skip
