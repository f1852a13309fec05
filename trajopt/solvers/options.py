"""Solver options: frozen keyword-only dataclasses whose errors name the option nearest to a misspelt one."""

from dataclasses import dataclass, fields
from typing import TypeVar, dataclass_transform

import numpy as np

from dynamics.validation import as_choice, as_flag, as_not_negative, as_whole_number, did_you_mean

T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def solver_options(cls: type[T]) -> type[T]:
    """Make cls a frozen keyword-only dataclass whose constructor names the nearest option if one is unknown."""
    cls = dataclass(frozen=True, kw_only=True)(cls)
    names = [f.name for f in fields(cls)]  # pyright: ignore[reportArgumentType]
    plain_init = cls.__init__

    def checked_init(self, *unnamed, **options):
        if unnamed:
            raise TypeError(f"{cls.__name__}: options are given by name, e.g. {cls.__name__}({names[0]}=...)")
        for name in options:
            if name not in names:
                expected = f"one of {', '.join(names)}{did_you_mean(name, names)}"
                raise TypeError(f"{cls.__name__}: got the option {name!r}, expected {expected}")
        plain_init(self, **options)

    checked_init.__wrapped__ = plain_init  # so that help() and signature() show the options
    cls.__init__ = checked_init
    return cls


CONTROL_LIMITS = ("box", "augmented_lagrangian")


@solver_options
class LoopOptions:
    """Options of every solver.

    Parameters
    ----------
    max_iterations : int
        Largest number of steps tried, those of searches for feasibility and of a second solve from the same start
        (`trajopt.solvers.solve`) among them.  After the last one another sweep tells whether the solve has converged,
        except where the limit is 1, as in predictive control: that solve ends with "max_iterations" unless it had
        converged where it began, or with "line_search_failed" if it keeps its start.  With the constraints' multipliers
        from a warm start its step leads to the minimum of the piecewise quadratic model, by sweeps on the same
        derivatives, the first with those rows active that have multipliers (`max_sweeps`); the penalty is at least 100
        and at most 1000 times the cost's largest derivative and is not updated.
    max_sweeps : int or None
        Largest number of backward sweeps after the first one with which a single iteration (``max_iterations=1``) finds
        which constraints are active.  None (default): up to 33, and where the step that they lead to is not accepted
        those of an ordinary iteration; most samples need none or one.  With a number, for hard deadlines, no ordinary
        iteration follows: more cycles end without a step, which their status says.
    tolerance : float
        Converged where the predicted decrease of a full step is at most tolerance |J| (and mu is small); or the noise
        of J, where the dynamics are less exact than double precision.
    absolute_tolerance : float
        The same in units of the cost, for problems whose optimal cost is zero.
    initial_regularization : float
        The first mu, in the units of Quu; where the second derivatives of the costs in the controls are below 1e-6 or
        above 1e6, in units of these.  It is added to the diagonal of Quu; while the states have gaps, to the diagonals
        of the Hessians in the states, so that the step stays near the trajectory.
    max_regularization : float
        The mu beyond which the solve gives up.
    control_limits : str
        How `ControlBounds` are kept: "box" (default), by a box QP at every knot and clipped rollouts; or
        "augmented_lagrangian", as all other constraints, to the tolerance (the inverse-dynamics formulation and second
        solves always do).  What a second solve has not met when it ends is clipped and rolled out; otherwise the
        message of a solve that ends before the limits are met says by how much controls exceed them.
    feasibility_tolerance : float
        Largest violation of a constraint, in its own units; or 100 eps times the size of the terms it is computed
        from, where that is more: 1.6e-7 m for a position near 7e6 m.
    complementarity_tolerance : float
        Largest product of a multiplier and its constraint's slack; relative to a thousandth of the cost where that
        exceeds 1.
    soft_penalty : float
        0 (default): constraints hold.  Otherwise the violation of constraints costs soft_penalty / 2 times its square
        instead, as for sets that plans of predictive control may miss; limits of controls in a box always hold.
    verbose : bool
        If True, solves print a line for each iteration: cost, largest violation and gap, gradient, predicted decrease,
        kind and length of the step, mu and seconds, as `trajopt.results.records.IterationRecord` has them; and at the
        end how they ended.  Steps of a search for feasibility are among those of the solution's log alone.
    """

    max_iterations: int = 500
    tolerance: float = 1e-13
    absolute_tolerance: float = 1e-24
    initial_regularization: float = 0.0
    max_regularization: float = 1e10
    control_limits: str = "box"
    feasibility_tolerance: float = 1e-7
    complementarity_tolerance: float = 1e-7
    soft_penalty: float = 0.0
    max_sweeps: int | None = None
    verbose: bool = False

    def __post_init__(self):
        as_whole_number("max_iterations", self.max_iterations, 0)
        if self.max_sweeps is not None:
            as_whole_number("max_sweeps", self.max_sweeps, 0)
        for name in (
            "tolerance", "absolute_tolerance", "initial_regularization", "max_regularization", "feasibility_tolerance",
            "complementarity_tolerance", "soft_penalty",
        ):  # fmt: skip
            as_not_negative(name, getattr(self, name))
        as_flag("verbose", self.verbose)
        as_choice("control_limits", self.control_limits, CONTROL_LIMITS)

    @property
    def most_sweeps(self) -> float:
        """`max_sweeps`, inf for None."""
        return np.inf if self.max_sweeps is None else self.max_sweeps
