"""Waypoints: states and poses to pass through at given times, as costs or as constraints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from dynamics.validation import as_flag, as_number, as_text, as_weights
from trajopt.costs.residual_cost import ResidualCost
from trajopt.costs.residuals import StateResidual
from trajopt.costs.state_cost import StateCost
from trajopt.interfaces.residual import Residual, check_residual
from trajopt.interfaces.system import System
from trajopt.problem.constraints import ResidualConstraint

Waypoint = (
    tuple[float | str, Residual]
    | tuple[float | str, ArrayLike]
    | tuple[float | str, Residual, ArrayLike]
    | tuple[float | str, ArrayLike, ArrayLike]
)


@overload
def waypoints(
    points: Sequence[Waypoint],
    system: System | None = ...,
    weights: ArrayLike | None = ...,
    hard: Literal[False] = ...,
    name: str = ...,
) -> list[StateCost | ResidualCost]: ...
@overload
def waypoints(
    points: Sequence[Waypoint],
    system: System | None = ...,
    weights: ArrayLike | None = ...,
    *,
    hard: Literal[True],
    name: str = ...,
) -> list[ResidualConstraint]: ...


def waypoints(
    points: Sequence[Waypoint],
    system: System | None = None,
    weights: ArrayLike | None = None,
    hard: bool = False,
    name: str = "waypoint",
) -> Any:
    """Terms that lead a trajectory through states and poses at given times, one for each of them.

        running_costs=[*others, *trajopt.waypoints([(0.3, above), (0.7, x, [1e3, 0.0])], system, 1e4)]
        constraints=[*limits, *trajopt.waypoints([("terminal", x)], system, hard=True)]

    Parameters
    ----------
    points : sequence of (time, where) or (time, where, weights)
        time in seconds, for the nearest knot, or "terminal" for the last knot; where is a residual that is to vanish,
        such as a `dynamics.FramePlacement`, or a state (nx,); weights as below, for this point.
    system : System, of the states; not needed for residuals
    weights : number or array (ndx,) of states, (nr,) of residuals, at least zero
        Weights in 1/2 sum_i w_i r_i^2, with r the residual, or the tangent vector from the given state.  The cost
        counts once, whatever the time step.
    hard : bool
        True for equality constraints.  Entries with weight zero stay free; the size of other weights does not matter,
        and without weights all entries are held.
    name : name in reports, with the time appended

    Returns
    -------
    costs for ``running_costs``, or, if hard, constraints

    Raises
    ------
    TypeError, ValueError
        Naming the argument, the value it got and the one expected; for times beyond the horizon when a problem is made.

    Examples
    --------
    >>> system = problems.make("cartpole").system
    >>> left, right = [-0.3, 0.0, 0.0, 0.0], [0.3, 0.0, 0.0, 0.0]
    >>> costs = trajopt.waypoints([(1.0, left), ("terminal", right)], system, weights=1e4)
    >>> problem = trajopt.Problem(system, np.zeros(4), 100, [trajopt.ControlCost(1e-3), *costs])
    >>> trajopt.DDP().solve(problem).xs[[50, 100], 0].round(2)
    array([-0.3,  0.3])
    """
    as_flag("hard", hard)
    as_text("name", name)
    if isinstance(points, str) or not isinstance(points, Iterable):
        raise TypeError(f"points: got {type(points).__name__}, expected a list of (time, state or residual)")
    return [_term(f"points[{i}]", point, system, weights, hard, name) for i, point in enumerate(points)]


def _term(label: str, point: Any, system: System | None, weights: Any, hard: bool, name: str) -> Any:
    if not isinstance(point, (tuple, list)) or len(point) not in (2, 3):
        raise ValueError(f"{label}: got {point!r}, expected (time, where) or (time, where, weights)")
    time, where, *own = point
    at, called = "terminal", f"{name} at the end"
    if not (isinstance(time, str) and time == "terminal"):
        at = as_number(f"{label}, time", time)
        called = f"{name} at {at:g} s"
    weights = own[0] if own else weights
    if weights is None and not hard:
        raise ValueError(f"weights: got none for {label}, expected some for all of a cost's waypoints")
    is_residual = hasattr(where, "evaluate")
    if is_residual:
        check_residual(where)
    elif system is None:
        raise ValueError(f"system: got None, expected the system of the state in {label}")
    if hard:
        return _constraint(where if is_residual else StateResidual(system, where), weights, at, called)  # pyright: ignore
    cost = ResidualCost(where, weights, at=at) if is_residual else StateCost(system, where, weights, at=at)  # pyright: ignore
    cost.name = called  # pyright: ignore[reportAttributeAccessIssue]
    return cost


def _constraint(residual: Any, weights: Any, at: float | str, name: str) -> ResidualConstraint:
    """The constraint r = 0 in the entries whose weights are not zero."""
    held = np.full(residual.nr, True if weights is None else as_weights("weights", weights, residual.nr) > 0.0)
    if not held.any():
        raise ValueError(f"weights: got {weights!r} for {name}, expected one that is not zero")
    free = np.where(held, 0.0, np.inf)
    if isinstance(residual, StateResidual):
        residual, free = StateResidual(residual.system, residual.reference, residual.components[held]), 0.0
    return ResidualConstraint(residual, -free, free, at, name)
