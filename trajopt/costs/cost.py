"""What a cost is, and the differences by which derivatives that it lacks are taken."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from dynamics.validation import as_array, as_number_or_vector, as_weights, has_mask
from trajopt.interfaces.system import System, state_array
from trajopt.interfaces.terms import Where

# Differences of fourth order: multiples of a step, and the weights, over the step, of values there.
FOURTH_ORDER = (1.0, 8.0 / 12.0), (-1.0, -8.0 / 12.0), (2.0, -1.0 / 12.0), (-2.0, 1.0 / 12.0)
"""To both sides."""
ONE_SIDED = (0.0, -25.0 / 12.0), (1.0, 4.0), (2.0, -3.0), (3.0, 4.0 / 3.0), (4.0, -0.25)
"""To one side."""


# --------------------------------------------------------------------------------------------
# What a cost is: something that adds its value, gradient and Hessians to the arrays it is given.


class Quadratic(NamedTuple):
    """Where costs add their derivatives, K knots: lx (K, ndx), lu (K, nu), lxx, lux (K, nu, ndx), luu.

    At the terminal knot there is no control: lu, lux and luu are None there.
    """

    lx: np.ndarray
    lu: np.ndarray | None
    lxx: np.ndarray
    lux: np.ndarray | None
    luu: np.ndarray | None


Into = Quadratic | None
"""Arrays that one order of an expansion is added to; None where that order is not asked for."""


class Cost(Protocol):
    """What `Problem` accepts as a cost; any object with these methods will do.

    Those of the library are a `trajopt.costs.cost.ExpandedCost`, which does what the last two methods do in one pass.

    Optional: ``knots`` is the number of knots a cost was made for, None for any; ``name`` is what messages call it;
    ``squares(nu)`` returns the residual and the weights that it is the sum of squares of (see
    `trajopt.costs.cost_of_residual`), None if it is something else; ``at`` says where it counts (see
    `trajopt.interfaces.terms`), None for all knots of a list; ``placed(system, knots, rows, times)`` returns the cost
    at some (rows) of the knots (K,) where it counts, among all at times (N+1,), s: what it has for other knots left out
    and functions of time evaluated, the cost itself where nothing differs; ``for_system(system, x0)`` returns the cost
    for this system, whose states are like x0, where it needs to know it, and else itself.
    """

    def check(self, system: System, terminal: bool) -> None:
        """Raise ValueError if this cost does not fit the system, or not the terminal knot."""
        ...

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at xs (K, nx) and us (K, nu); us is None at the terminal knot."""
        ...

    def accumulate(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times gradient and Gauss-Newton Hessian to the target."""
        ...

    def accumulate_curvature(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times the residual curvature to the Hessians of the target (its gradients are left alone)."""
        ...


class PreparedCost(Protocol):
    """A cost that can be evaluated and expanded at arrays that stay, whose numbers may change from call to call."""

    def prepared_value(self, xs: np.ndarray, us: np.ndarray | None, values: np.ndarray) -> Callable[[], Any] | None:
        """A function without arguments that writes what `value` returns into values (K,); None where there is none."""
        ...

    def prepared_accumulation(
        self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Into, curvature: Into
    ) -> Callable[[], Any] | None:
        """A function without arguments that does what `add_expansion` does; None where there is none."""
        ...


class ExpandedCost:
    """Base of costs with one method for their expansion, of which the two of a `Cost` are parts."""

    def add_expansion(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Into, curvature: Into) -> None:
        """Add scale times gradient and Gauss-Newton Hessian to the target, and scale times what that Hessian leaves out
        to the Hessians of the curvature: the same arrays, or others, or None for what is not wanted."""
        raise NotImplementedError

    def accumulate(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """See `Cost`."""
        self.add_expansion(xs, us, scale, target, None)

    def accumulate_curvature(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """See `Cost`."""
        self.add_expansion(xs, us, scale, None, target)


_PARTS = "accumulate", "accumulate_curvature"
"""The methods of a `Cost` that one call of `add_expansion` stands for."""


def add_expansion(
    cost: Cost, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Into, curvature: Into
) -> None:
    """Add the expansion of any cost, as `ExpandedCost.add_expansion` does: in one call, unless the cost has only the
    methods of a `Cost`, or a class derived from the library's has replaced one of them."""
    kind = type(cost)
    if isinstance(cost, ExpandedCost) and all(getattr(kind, name) is getattr(ExpandedCost, name) for name in _PARTS):
        cost.add_expansion(xs, us, scale, target, curvature)
        return
    if target is not None:
        cost.accumulate(xs, us, scale, target)
    if curvature is not None:
        cost.accumulate_curvature(xs, us, scale, curvature)


# --------------------------------------------------------------------------------------------
# Arguments that have a row for every knot, or one for all of them, or are functions of time.


OfTime = Callable[[float], ArrayLike]
"""A value for each time, s."""
UNPLACED = -1
"""The number of knots of a cost with functions, of time or for residuals, until a problem is made of it."""


def dimensions(value: Any) -> int:
    """Dimensions of an array-like; 0 for what is no array, which the checks that follow will say."""
    try:
        return 0 if has_mask(value) else np.ndim(value)
    except (TypeError, ValueError, RecursionError):
        return 0


def scalars_or_rows(name: str, value: Any, length: int | None) -> np.ndarray:
    """A finite array of shape (), (length,) or (K, length), K > 1; any length if it is None."""
    count = dimensions(value)
    if count < 2:
        return as_number_or_vector(name, value, length)
    if count > 2 or len(value) == 0:
        raise ValueError(f"{name}: got shape {np.shape(value)}, expected a number, a vector, or a row for each knot")
    K, width = np.shape(value)
    rows = as_array(name, value, (K, width if length is None else length), copy=True)
    return rows if K > 1 else rows.ravel()


def weight_rows(value: Any, length: int | None) -> np.ndarray:
    """Non-negative finite weights of shape (), (length,) or (K, length)."""
    weights = scalars_or_rows("weights", value, length)
    as_weights("weights", weights.ravel(), None)
    return weights


def state_rows(system: System, name: str, value: Any) -> np.ndarray:
    """States (nx,) or (K, nx), K > 1, that the system accepts."""
    if dimensions(value) < 2:
        return state_array(system, name, value)
    rows = scalars_or_rows(name, value, system.nx)
    if rows.ndim == 1:
        return state_array(system, name, rows)
    return np.stack([state_array(system, f"{name}[{t}]", row) for t, row in enumerate(rows)])


def as_rows(array: np.ndarray, n: int) -> np.ndarray:
    """The array as (1, n) or (K, n)."""
    return array if array.ndim == 2 else np.full((1, n), array)


def common_knots(cost: str, **arrays: Any) -> int | None:
    """Rows of the arrays that have one for every knot, None if none has; UNPLACED if one is a function of time."""
    if any(callable(array) for array in arrays.values()):
        return UNPLACED
    knots = {name: len(array) for name, array in arrays.items() if array.ndim == 2}
    if len(set(knots.values())) > 1:
        given = ", ".join(f"{count} rows of {name}" for name, count in knots.items())
        raise ValueError(f"{cost}: got {given}, expected as many of each")
    return next(iter(knots.values()), None)


def check_knots(cost: str, knots: int | None, points: np.ndarray) -> None:
    """Raise ValueError if a cost made for this many knots is evaluated at others."""
    if knots == UNPLACED:
        raise ValueError(
            f"{cost}: it has functions of time, which a trajopt.Problem evaluates, or of states, of which it makes "
            "residuals, expected the cost that it makes of it"
        )
    if knots is not None and len(points) != knots:
        raise ValueError(f"{cost}: made for {knots} knots, got {len(points)}")


def rows_of_times(name: str, function: OfTime, times: np.ndarray, width: int) -> np.ndarray:
    """Rows (K, width) of a function at times (K,), s.  Raises ValueError, naming argument and time, for others."""
    rows = [as_number_or_vector(f"{name}, at {t:g} s", function(float(t)), width) for t in times]
    return np.stack([np.broadcast_to(row, (width,)) for row in rows])


class PlacedCost:
    """Base of costs that count where their ``at`` says, with weights and references for every knot."""

    at: Where | None
    by_knot: tuple[str, ...] = ("weights", "reference")
    """Attributes that may have a row for every knot, or be a function of time."""

    def _width(self, name: str, system: System) -> int:
        """Numbers in a row."""
        raise NotImplementedError

    def _set(self, **values: Any) -> None:
        """Take these attributes as in the constructor."""
        raise NotImplementedError

    def placed(self, system: System, knots: np.ndarray, rows: np.ndarray, times: np.ndarray) -> Self:
        """See `trajopt.costs.Cost`."""
        count, times = len(knots), times[knots[rows]]
        found: dict[str, Any] = {name: getattr(self, name) for name in self.by_knot}
        differ = False
        for name, value in found.items():
            if not isinstance(value, np.ndarray):
                found[name] = rows_of_times(name, value, times, self._width(name, system))
            elif value.ndim == 2 and len(rows) < count:
                check_knots(type(self).__name__, len(value), np.empty(count))
                found[name] = value[rows]
            differ |= found[name] is not value
        if not differ:
            return self
        new = copy.copy(self)
        new._set(**found)
        return new
