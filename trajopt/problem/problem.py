"""The optimal control problem.

minimize  sum_t dt l(x_t, u_t) + l_N(x_N)  subject to  x_{t+1} = f(x_t, u_t), x_0 given, and constraints
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.validation import as_array, as_choice, as_positive, as_text, as_whole_number
from trajopt.capabilities import Expansions, Knots, Start, StateManifold, capability
from trajopt.costs import Cost
from trajopt.interfaces.owners import check_subject, is_served
from trajopt.interfaces.residual import at_times
from trajopt.interfaces.system import (
    System,
    as_manifold,
    check_states,
    check_system,
    control_names,
    knot_durations,
    knot_times,
    state_array,
    window,
)
from trajopt.printed import PrintedAsTable
from trajopt.problem.constraints import ControlBounds, ResidualConstraint, common_limits, with_own_names
from trajopt.problem.initial_state import components_of, free_initial_state
from trajopt.problem.objective import Objective, Term, runs
from trajopt.problem.overview import overview
from trajopt.problem.periodic import starting_at
from trajopt.problem.placement import Placer, WithResiduals
from trajopt.problem.scenery import check_scenery

if TYPE_CHECKING:
    from rich.table import Table

_SYSTEM_MEMBERS = (
    "nx", "ndx", "nu", "dt", "integrate", "difference", "step", "rollout", "closed_loop_rollout", "linearize",
    "hessian_products", "hessians",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Problem(PrintedAsTable):
    """An optimal control problem over a fixed horizon; prints as a table.

    Parameters
    ----------
    system : System
        Discrete dynamics with time step dt.
    x0 : (nx,) array
        Initial state.
    horizon : int
        Number N of controls, at least 1; equal to the system's horizon where it has one.
    running_costs : costs l of (x_t, u_t), t = 0 ... N-1
        Summed and multiplied by dt, or by the duration of the knot where the system gives durations.  A list of costs,
        or N lists of costs, one per knot.  At knots without duration those of a plain list do not count; a cost that
        is listed for such a knot counts once, unscaled.  In a plain list, costs with ``at`` count there alone, at knots
        and times unscaled; their values at the last knot are moved to the terminal costs, and functions of time are
        replaced by their values (`trajopt.problem.placement`).
    terminal_costs : costs l_N of x_N
    constraints : ControlBounds, StateBounds, ResidualConstraint
        If several have one name, "2" is appended to the second, "3" to the third.
    us_init : (N, nu) array or "quasi_static", optional
        Controls to start from; by default zeros.  "quasi_static": controls that hold the system still at x0, from a
        system that provides them.
    name : str
        Heading of tables and figures.
    xs_init : (N+1, nx) array, optional
        States to start from, which need not satisfy the dynamics; by default a rollout of us_init.
    scenery : list of Sphere, Cylinder, Lines, Target, or shapes of `dynamics` in their places, optional
        Targets and other shapes that pictures show beside the system, such as (dynamics.Box(half_extents), position);
        see `trajopt.problem.scenery`.  Obstacles of costs and constraints are shown without being listed.
    free_initial_state : optional
        Components of the initial state that are found together with the motion, x0 being the initial guess: True for
        all; names, integers or a mask (ndx,) of components of the tangent; limits (lower, upper), numbers or (ndx,)
        arrays or mappings of names to numbers, relative to the neutral state as those of `StateBounds`, where
        components with two equal limits are fixed; or a mapping of names to such pairs or None.  Other components are
        those of x0.  Constraints on the state then hold at knot 0 too.
    parameters : names or integers, optional
        Controls that have one value over the whole horizon, which is found together with the motion: dynamics, costs
        and constraints read a parameter there, such as the stiffness of a spring.  The initial guess is
        ``us_init[0]``, their `ControlBounds` limit them, and `Solution.parameters` contains the values found.

    Attributes
    ----------
    objective : Objective
        The costs as terms, each with the knots at which it is evaluated.
    control_limits : (lower, upper), (N, nu) each, or None
        Limits of all `ControlBounds` together.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, the value it got and the one expected; also for terms made for another robot or system.

    Examples
    --------
    >>> system = problems.make("cartpole").system  # x = (place, angle, their rates)
    >>> there = trajopt.StateCost(system, reference=[0.5, 0.0, 0.0, 0.0], weights=100.0)  # aside, the pole at rest
    >>> problem = trajopt.Problem(system, np.zeros(4), 100, [trajopt.ControlCost(0.01)], [there], name="aside")
    >>> trajopt.DDP().solve(problem).xs[-1, :1].round(1)
    array([0.5])
    """

    system: System
    x0: np.ndarray
    horizon: int
    running_costs: Sequence[Cost] | Sequence[Sequence[Cost]] = ()
    terminal_costs: Sequence[Cost] = ()
    constraints: Sequence[ControlBounds | ResidualConstraint] = ()
    us_init: Any = None
    name: str = "problem"
    xs_init: np.ndarray | None = None
    scenery: Sequence[Any] = ()  # of shapes, once it is checked
    free_initial_state: Any = None
    parameters: Any = ()
    objective: Objective = field(init=False, compare=False)
    control_limits: tuple[np.ndarray, np.ndarray] | None = field(init=False, compare=False)

    def __repr__(self) -> str:
        return f"Problem({self.name!r}, horizon={self.horizon}, system={self.system!r})"

    def __post_init__(self):
        _check_system(self.system)

        def put(name: str, value: Any):
            if isinstance(value, np.ndarray):
                value.flags.writeable = False  # a copy: a problem never changes
            object.__setattr__(self, name, value)  # the class is frozen; its fields are normalised here, once

        as_text("name", self.name)
        put("horizon", as_whole_number("horizon", self.horizon, 1))
        _check_horizon(self.system, self.horizon)
        put("x0", state_array(self.system, "x0", self.x0))
        capability(self.system, Start).check_start(self.x0)
        put("free_initial_state", free_initial_state(self.free_initial_state, self.system, self.x0))
        put("parameters", _parameters(self.parameters, self.system))
        _check_transcribed(self.system, self.free_initial_state is not None or bool(self.parameters))
        times = self.times
        along, bind = WithResiduals(lambda residual: at_times(residual, times)), Binding(self.system, self.x0)
        put("running_costs", _mapped(along, _running_costs(self.running_costs, self.system, self.horizon, bind)))
        terminal = _checked_costs("terminal_costs", self.terminal_costs, self.system, True, bind)
        put("terminal_costs", _mapped(along, terminal))
        placer = Placer(self.system, times, knot_durations(self.system, self.horizon))
        running, terminal, terms = placer.place(self.running_costs, self.terminal_costs)
        put("running_costs", running)
        put("terminal_costs", terminal)
        for term in terms:
            _check_knots(term, self.horizon)
        put("objective", Objective(terms))
        put("constraints", starting_at(_checked_constraints(self.constraints, times, along, bind), self.x0))
        _check_subjects(terms, self.residual_constraints, self.system, self.horizon)
        put("control_limits", common_limits(self.constraints, self.horizon, self.system.nu))
        resting = isinstance(self.us_init, str)
        put("us_init", self._quasi_static() if resting else self.controls("us_init", self.us_init))
        put("xs_init", None if self.xs_init is None else self.states("xs_init", self.xs_init))
        put("scenery", check_scenery(self.scenery))

    def controls(self, name: str, us: ArrayLike | None) -> np.ndarray:
        """A checked copy of the controls us (N, nu) passed as the argument `name`; zeros for None."""
        shape = (self.horizon, self.system.nu)
        return np.zeros(shape) if us is None else as_array(name, us, shape, copy=True)

    def states(self, name: str, xs: ArrayLike) -> np.ndarray:
        """A checked copy of the states xs (N+1, nx) passed as the argument `name`."""
        xs = as_array(name, xs, (self.horizon + 1, self.system.nx), copy=True)
        try:
            check_states(self.system, xs)
        except ValueError:
            for t, x in enumerate(xs):
                state_array(self.system, f"{name}[{t}]", x)  # names the knot
            raise
        return xs

    def _quasi_static(self) -> np.ndarray:
        as_choice("us_init", self.us_init, ("quasi_static",))
        quasi_static = capability(self.system, Start).quasi_static
        if quasi_static is None:
            raise TypeError(f'us_init: got "quasi_static", but {type(self.system).__name__} has no such method')
        us = np.broadcast_to(quasi_static(self.x0), (self.horizon, self.system.nu))
        return self.controls("us_init", us)

    def table(self) -> Table:
        """Table of the system, costs and constraints, and of the knots at which they count."""
        free = None if self.free_initial_state is None else self.free_initial_state.components
        parts = self.objective, self.constraints, free, self.parameters
        return overview(self.name, self.system, self.horizon, *parts)

    @property
    def residual_constraints(self) -> tuple[ResidualConstraint, ...]:
        """The constraints that are not limits of controls."""
        return tuple(c for c in self.constraints if isinstance(c, ResidualConstraint))

    @property
    def times(self) -> np.ndarray:
        """Times (N+1,) of the knots, seconds."""
        return knot_times(self.system, self.horizon)


def check_problem(problem: object) -> None:
    """Raise TypeError unless the argument is a Problem."""
    if not isinstance(problem, Problem):
        raise TypeError(f"problem: got {type(problem).__name__}, expected a trajopt.Problem")


def _check_system(system):
    check_system(system, *_SYSTEM_MEMBERS)
    as_positive("system.dt", system.dt, "seconds")
    if as_manifold(system) is not None and capability(system, StateManifold).difference_expansion is None:
        raise TypeError(f"system: {type(system).__name__} is not euclidean and lacks difference_expansion")


def _check_horizon(system, horizon):
    own = capability(system, Knots).horizon
    if own not in (None, horizon):
        raise ValueError(f"horizon: got {horizon}, expected {own}, which the phases fill")


def _parameters(value: Any, system: System) -> tuple[int, ...]:
    """Indices of the controls that have one value over the horizon."""
    if value is None or (isinstance(value, (list, tuple)) and not value):
        return ()
    return tuple(components_of("parameters", value, control_names(system), system.nu).tolist())


def _check_transcribed(system: System, free: bool) -> None:
    if free and capability(system, Expansions).acceleration_control is not None:
        raise ValueError(
            f"system: got a {type(system).__name__} that takes accelerations for controls, expected one with "
            'formulation="forward" for a free initial state or parameters'
        )


class Binding:
    """Binds functions in costs and constraints to the system of a problem; a term that is listed twice stays one
    object."""

    def __init__(self, system: System, x0: np.ndarray) -> None:
        self.system, self.x0 = system, x0
        self._known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, term: Any) -> Any:
        """The term, bound to the system; TypeError or ValueError for a function that is no residual of it."""
        if id(term) not in self._known:
            of_system = getattr(term, "for_system", None)
            self._known[id(term)] = term, term if of_system is None else of_system(self.system, self.x0)
        return self._known[id(term)][1]


def _running_costs(costs: Any, system: System, horizon: int, bind: Binding) -> tuple[Any, ...]:
    """A tuple of checked costs, or N tuples of them."""
    if isinstance(costs, Iterable):
        costs = tuple(costs)
        lists = [isinstance(cost, (list, tuple)) for cost in costs]
        if any(lists):
            if not all(lists) or len(costs) != horizon:
                raise ValueError(
                    f"running_costs: got {sum(lists)} lists of costs among {len(costs)} entries, expected a list of "
                    f"costs, or one list for each of the {horizon} knots"
                )
            return tuple(_checked_costs(f"running_costs[{t}]", c, system, False, bind) for t, c in enumerate(costs))
    return _checked_costs("running_costs", costs, system, False, bind)


def _check_knots(term: Term, horizon: int) -> None:
    """Raise ValueError unless a time-varying cost has as many rows as knots."""
    made_for = getattr(term.cost, "knots", None)
    used = 1 if term.terminal else (horizon if term.knots is None else len(term.knots))
    if made_for is not None and made_for != used:
        raise ValueError(f"cost '{term.name}': made for {made_for} knots, used at {used}")


def _check_subjects(
    terms: Iterable[Term], constraints: Iterable[ResidualConstraint], system: System, horizon: int
) -> None:
    """Raise ValueError for a term or a constraint made for a system that does not fit this one at its knots."""
    everywhere = np.arange(horizon)
    for term in terms:
        knots = everywhere[:0] if term.terminal else everywhere if term.knots is None else term.knots
        where = f"{'terminal' if term.terminal else 'running'}_costs: {term.name!r}"
        _check_subject(where, term.cost, system, knots)
    for constraint in constraints:
        knots = constraint.knots(horizon, state_only=False)
        _check_subject(f"constraints: {constraint.name!r}", constraint.residual, system, knots[knots < horizon])


def _check_subject(where: str, thing: object, system: System, knots: np.ndarray) -> None:
    """Raise ValueError unless the system fits; it may fit at the knots where the term counts, though not as a whole."""
    if is_served(thing, system):
        return
    parts = [(run, window(system, *run)) for run in runs(knots)]
    for (start, stop), part in parts:
        if part is not system:
            check_subject(f"{where}, at knots {start} to {stop - 1},", thing, part)
    if not parts or parts[0][1] is system:
        check_subject(where, thing, system)


def _mapped(along: WithResiduals, costs: Any) -> Any:
    """Costs, or lists of them, mapped one by one."""
    return tuple(_mapped(along, cost) if isinstance(cost, tuple) else along(cost) for cost in costs)


def _checked_constraints(
    constraints: Any, times: np.ndarray, along: WithResiduals, bind: Binding
) -> tuple[ControlBounds | ResidualConstraint, ...]:
    if not isinstance(constraints, Iterable):
        raise TypeError(f"constraints: got {type(constraints).__name__}, expected a list of constraints")
    constraints = tuple(constraints)
    for i, constraint in enumerate(constraints):
        if not isinstance(constraint, (ControlBounds, ResidualConstraint)):
            raise TypeError(
                f"constraints[{i}]: got {type(constraint).__name__}, expected ControlBounds, StateBounds or "
                "ResidualConstraint"
            )
    placed = (along(bind(each)).placed(times) if isinstance(each, ResidualConstraint) else each for each in constraints)
    return with_own_names(tuple(placed))


def _checked_costs(name: str, costs: Any, system: System, terminal: bool, bind: Binding) -> tuple[Cost, ...]:
    if not isinstance(costs, Iterable):
        raise TypeError(f"{name}: got {type(costs).__name__}, expected a list of costs")
    costs = tuple(map(bind, costs))
    for i, cost in enumerate(costs):
        if not all(hasattr(cost, method) for method in ("check", "value", "accumulate", "accumulate_curvature")):
            raise TypeError(f"{name}[{i}]: got {type(cost).__name__}, expected a cost")
        cost.check(system, terminal)
    return costs
