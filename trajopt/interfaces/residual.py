"""A residual r(x, u): one vector per knot, its Jacobians and its exact curvature.  Serves costs and constraints."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from dynamics.simd.squares import KnotSum
from trajopt.capabilities import NoDefault, capability, itself


class Residual(Protocol):
    """A function r(x, u) of nr numbers, evaluated at K knots in one call.

    Derivatives are taken along the tangent of the state.  A residual of the state alone returns None for what concerns
    u, and accepts ``us=None`` (the terminal knot has no control).

    Optional: ``evaluate_with_jacobians(xs, us)`` returns r, rx, ru in one pass; ``name`` is what messages call it, and
    ``component_names`` (nr,) its numbers; ``made_for`` is what it is about (see `trajopt.interfaces.terms`);
    ``at_times`` and ``at_knots`` are of those that differ from knot to knot (see
    `trajopt.interfaces.residual.KnotByKnotResidual`); if ``sums_squares`` is true,
    ``add_expansion(wanted)`` adds the expansion of a sum over knots to the arrays of all knots and returns the sum (see
    `trajopt.interfaces.residual.SummedResidual`).
    """

    @property
    def nr(self) -> int:
        """Numbers in the residual."""
        ...

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nr) at xs (K, nx) and us (K, nu)."""
        ...

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """rx (K, nr, ndx) and ru (K, nr, nu) or None."""
        ...

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
        """Second derivatives of mu_t'r, mu (K, nr): Hxx (K, ndx, ndx), Hux (K, nu, ndx), Huu (K, nu, nu), symmetric;
        None for a block that is zero."""
        ...


class SummedResidual(Protocol):
    """A residual that sums a function A(r) over knots, and expands the sum, by itself: in one call, with compiled loops
    over the knots.  The same call serves costs and the multipliers of constraints."""

    @property
    def sums_squares(self) -> bool:
        """True if it does; False for a class derived from such a one with methods of its own."""
        ...

    def add_expansion(self, wanted: KnotSum) -> float:
        """The value of a sum, with its expansion added to the arrays that it names."""
        ...


class PreparedResidual(Protocol):
    """A `SummedResidual` whose `add_expansion` can be prepared for arrays that stay."""

    def prepared_sum(self, wanted: KnotSum) -> Callable[[], float] | None:
        """A function without arguments that does what `add_expansion` does with these arrays, whose numbers may change
        from call to call; None where there is none.  Where something is expanded it need not return the sum."""
        ...

    def prepared_rows(
        self, xs: np.ndarray, us: np.ndarray | None, jacobians: bool
    ) -> Callable[[], tuple[Any, ...]] | None:
        """A function without arguments that returns r (K, nr) at the numbers that xs (K, nx), us (K, nu) hold then, and
        if asked for rx and ru as of `Residual`, in arrays that the next call overwrites; None where there is none.
        Prepared calls that it consists of (`dynamics.simd.prepared_calls.calls_of`) write the arrays that it returns
        first."""
        ...

    def with_own_numbers(self) -> Self:
        """The same residual with target or reference in arrays that nobody else has, which its prepared sums read."""
        ...

    def take_numbers(self, other: Any) -> bool:
        """Write the target or reference of another residual into these arrays; False if it differs in more."""
        ...


class ComponentNames:
    """Residuals with names for reports."""

    @property
    def component_names(self) -> tuple[str, ...]:
        """Names of the numbers (nr,), or none."""
        return ()


class OfControls:
    """Residuals that cannot be evaluated at the last knot, which has no controls."""

    @property
    def needs_controls(self) -> bool:
        """True for a residual that reads controls."""
        return False


class SeenResidual:
    """Residuals that are about places in the world, for pictures."""

    @NoDefault
    def scenery(self, xs: np.ndarray) -> tuple[Any, ...]:
        """Targets and obstacles, shapes as those of a problem's scenery, of a motion through states xs (K, nx).

        Targets are shown where the residual is to be zero.
        """
        ...


class KnotByKnotResidual:
    """Residuals that differ from knot to knot, as one with a target that moves; others are the same at all knots."""

    together: ClassVar = (("at_times", "at_knots"),)

    def at_times(self, times: np.ndarray) -> Any:
        """The residual along the knots 0 ... N of a problem at times (N+1,), s: functions of time are evaluated there.
        It serves the N+1 points of a trajectory, in `evaluate` and the like as in `add_expansion`.

        Raises ValueError if it was made for other knots.
        """
        return itself(self)

    def at_knots(self, knots: np.ndarray) -> Any:
        """The residual for K points at these knots (K,); at a single one, for any number of points there.  Its
        gradients by attributes are those by the attributes of all knots."""
        return itself(self)


class ReadsDynamics:
    """Costs and residuals that may depend on parameters of the dynamics, as masses, besides states and controls."""

    @property
    def reads_dynamics(self) -> bool | None:
        """True if the term does; None where it does not say, and only what it is made of is known."""
        return None


class Components(NamedTuple):
    """Components (nr,) of states (or controls) of this width, and the reference (nr,) that is taken from them."""

    of_controls: bool
    width: int
    indices: np.ndarray
    reference: np.ndarray


class SingleComponents:
    """Residuals whose numbers are components of the state or of the controls, less a reference."""

    def components_read(self) -> Components | None:
        """These components; None if r is something else."""
        return None


def at_times(residual: Any, times: np.ndarray) -> Any:
    """A residual along knots at times (N+1,), s, as `KnotByKnotResidual` says; the residual itself where all its knots
    are alike."""
    return capability(residual, KnotByKnotResidual).at_times(times)


def at_knots(residual: Any, knots: np.ndarray) -> Any:
    """A residual at knots (K,), as `KnotByKnotResidual` says; the residual itself where all its knots are alike."""
    return capability(residual, KnotByKnotResidual).at_knots(knots)


def differs_by_knot(residual: object) -> bool:
    """True for a residual that differs from knot to knot."""
    return hasattr(residual, "at_times")


def component_names(residual: object) -> tuple[str, ...]:
    """Names (nr,) of a residual's numbers; none if it has none."""
    return tuple(capability(residual, ComponentNames).component_names)


def check_residual(residual: object) -> None:
    """TypeError unless it is an object with the three methods."""
    for method in ("evaluate", "jacobians", "hessian_products"):
        if not callable(getattr(residual, method, None)):
            raise TypeError(f"residual: {type(residual).__name__} has no method {method!r}")
    if isinstance(residual, type):
        raise TypeError(f"residual: got the class {residual.__name__}, expected an object of it")


def is_function(residual: object) -> bool:
    """True for a plain function r(x) or r(x, u), of which a problem makes a residual for its system."""
    return callable(residual) and not isinstance(residual, type) and not hasattr(residual, "evaluate")


def function_name(function: object) -> str:
    """What messages call a residual of a function: as the function, or "residual" where it has no name."""
    name = getattr(function, "__name__", "")
    return name if name.isidentifier() else "residual"
