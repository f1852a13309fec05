"""What a cost is, and the differences by which derivatives that it lacks are taken."""

from typing import NamedTuple, Protocol

import numpy as np

from trajopt.interfaces.system import System

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
    `trajopt.interfaces.knots`), None for all knots of a list; ``placed(system, knots, rows, times)`` returns the cost
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
