"""The optimal control problem.

minimize  sum_t dt l(x_t, u_t) + l_N(x_N)  subject to  x_{t+1} = f(x_t, u_t), x_0 given, and constraints
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.simd import PROGRESS
from dynamics.validation import as_array, as_choice, as_positive, as_text, as_whole_number
from trajopt.capabilities import Expansions, Knots, Start, StateManifold, capability
from trajopt.costs import Cost
from trajopt.interfaces.residual import OfControls, at_times
from trajopt.interfaces.system import (
    System,
    as_manifold,
    check_states,
    check_system,
    control_names,
    knot_durations,
    knot_times,
    state_array,
    tangent_names,
    window,
)
from trajopt.interfaces.terms import Where, check_subject, is_served, is_span, knots_at
from trajopt.printed import PrintedAsTable, new_table
from trajopt.problem.constraints import ControlBounds, ResidualConstraint, common_limits, with_own_names
from trajopt.problem.initial_state import components_of, free_initial_state
from trajopt.problem.objective import Objective, Term, runs
from trajopt.problem.periodic import starting_at
from trajopt.problem.scenery import check_scenery

if TYPE_CHECKING:
    from rich.table import Table

# --------------------------------------------------------------------------------------------
# Overview of a problem: its system, costs and constraints.


FIRST_RUNS = 3
"""Number of runs of knots that are listed."""


def heading(name: str, horizon: int, dt: float) -> str:
    """Name of the problem, number and length of its steps."""
    return f"{name}: {horizon} steps of {dt:g} s"


def overview(
    name: str, system: System, horizon: int, objective: Objective, constraints: Sequence[Any],
    free: tuple[int, ...] | None, parameters: tuple[int, ...],
) -> Table:  # fmt: skip
    """Table of the system, the costs and the constraints, with the knots at which they count.

    free: components of the initial state that are free, None for a given one; parameters: controls that are one number
    over the whole horizon.
    """
    from rich.markup import escape

    table = new_table(heading(name, horizon, system.dt))
    for column in ("part", "what", "knots"):
        table.add_column(column, overflow="fold")
    table.add_row("system", type(system).__name__, f"nx {system.nx}, nu {system.nu}")
    if free is not None:
        names = tangent_names(system)
        which = "all" if len(free) == system.ndx else ", ".join(names[i] if names else str(i) for i in free)
        table.add_row("free initial state", escape(which), "0")
    if parameters:
        names = control_names(system)
        which = ", ".join(names[i] if names else f"control {i}" for i in parameters)
        table.add_row("parameters", escape(which), _in_words(np.arange(horizon)))
    for part, label, knots in _parts(horizon, objective, constraints):
        table.add_row(part, escape(label), _in_words(knots))
    return table


def _parts(N: int, objective: Objective, constraints: Sequence[Any]) -> Iterator[tuple[str, str, np.ndarray]]:
    """Kind, name and knots of costs, those of one name together, and of constraints."""
    costs: dict[tuple[str, str], set[int]] = {}
    for term in objective.terms:
        part = "terminal cost" if term.terminal else "running cost"
        knots = [N] if term.terminal else range(N) if term.knots is None else term.knots.tolist()
        costs.setdefault((part, term.name), set()).update(knots)
    for (part, name), knots in costs.items():
        yield part, name, np.array(sorted(knots))
    for constraint in constraints:
        if isinstance(constraint, ControlBounds):
            yield "constraint", constraint.name, np.arange(N)
        else:
            yield "constraint", constraint.name, constraint.knots(N, state_only=False)


def _in_words(knots: np.ndarray) -> str:
    parts = [str(start) if stop == start + 1 else f"{start} to {stop - 1}" for start, stop in runs(knots)]
    more = f" and {len(parts) - FIRST_RUNS} more" if len(parts) > FIRST_RUNS else ""
    return ", ".join(parts[:FIRST_RUNS]) + more


# --------------------------------------------------------------------------------------------
# Residuals inside costs and constraints, and terms of the objective from lists of costs.


SLOTS = "cost", "residual"
"""Attributes in which costs and constraints hold what they are built from."""


class WithResiduals:
    """Function that returns costs, constraints and residuals with their residuals replaced.

    Objects that several of them share stay shared; one in which nothing changes is returned itself.

    Parameters
    ----------
    change : function of a residual that returns another one, or the residual itself
    """

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change = change
        self._known: dict[int, tuple[Any, Any]] = {}

    def __call__(self, term: Any) -> Any:
        """The term with its residuals replaced."""
        if id(term) not in self._known:
            self._known[id(term)] = term, self._changed(term)
        return self._known[id(term)][1]

    def _changed(self, term: Any) -> Any:
        slot = next((slot for slot in SLOTS if getattr(term, slot, None) is not None), None)
        if slot is None:
            return self._change(term)
        before = getattr(term, slot)
        after = self(before)
        if after is before:
            return term
        new = copy.copy(term)
        setattr(new, slot, after)
        return new


# --------------------------------------------------------------------------------------------
# From lists of costs to terms: the knots at which each counts, its factor, and its references.
#
# A running cost in a plain list is integrated: a knot counts by its duration, and not at all without one.  A cost with
# instants for ``at`` (`trajopt.interfaces.terms`) counts at each of them unscaled, so that it means the same at any
# time step; so does one that is listed for a knot without duration in N lists, one per knot.  Costs at the last knot
# become terminal costs.  References that are functions of time are evaluated here.


class Placement(NamedTuple):
    """Costs without functions of time, listed as in `Problem`, each with its knots; and their terms."""

    running: tuple[Any, ...]
    terminal: tuple[Cost, ...]
    terms: tuple[Term, ...]


def where_of(cost: Cost) -> Where | None:
    """The `at` of a cost; None if it has none."""
    return getattr(cost, "at", None)


class Placer:
    """Assigns costs of a system to knots at times (N+1,) with durations (N,), both in seconds."""

    def __init__(self, system: System, times: np.ndarray, durations: np.ndarray) -> None:
        self.system, self.times, self.durations = system, times, durations
        self.last = len(durations)

    def place(self, running: Sequence[Any], terminal: Sequence[Cost]) -> Placement:
        """All costs of a problem, checked for the system.  Raises ValueError, naming the argument or the cost."""
        if running and isinstance(running[0], tuple):
            lists, terms, late = *self._lists(running), []
        else:
            lists, terms, late = self._plain(running)
        ends = [self._at_the_end(cost) for cost in terminal]
        for cost in late:
            cost.check(self.system, True)
        ends += late
        return Placement(tuple(lists), tuple(ends), (*terms, *(Term(cost, None, 1.0, True) for cost in ends)))

    def _plain(self, costs: Sequence[Cost]) -> tuple[list[Cost], list[Term], list[Cost]]:
        """The costs of a plain list, their terms, and their parts at the last knot."""
        placed, terms, late = [], [], []
        for cost in costs:
            at = where_of(cost)
            knots = knots_at("path" if at is None else at, self.times, self._owner(cost))
            if is_span(at):
                timed = self.durations[knots[knots < self.last]] > 0.0
                knots = knots[np.append(timed, np.full(len(knots) - len(timed), at == "all"))]
                if not len(knots) and at is not None:
                    raise ValueError(f"at: {self._owner(cost)} got {at!r}, where no knot takes time")
            before = knots < self.last
            if before.any() or at is None:
                part = self._part(cost, knots, before, "path" if at == "all" else at)
                placed.append(part)
                terms += self._term(part, knots[before], is_span(at))
            if not before.all():
                late.append(self._part(cost, knots, ~before, "terminal"))
        return placed, terms, late

    def _lists(self, lists: Sequence[tuple[Cost, ...]]) -> tuple[list[tuple[Cost, ...]], list[Term]]:
        """N lists of costs, one per knot; a cost in several lists is one term, and another where it is listed again."""
        members: dict[tuple[int, int], tuple[Cost, list[int]]] = {}
        keys: list[list[tuple[int, int]]] = []
        for t, of_knot in enumerate(lists):
            times: Counter[int] = Counter()
            keys.append([])
            for cost in of_knot:
                if where_of(cost) is not None:
                    raise ValueError(
                        f"running_costs[{t}]: {self._owner(cost)} has at={where_of(cost)!r}, expected a plain list of "
                        "costs, or a cost without at="
                    )
                key = id(cost), times[id(cost)]
                times[id(cost)] += 1
                members.setdefault(key, (cost, []))[1].append(t)
                keys[-1].append(key)
        placed, terms = {}, []
        for key, (cost, at) in members.items():
            knots = np.array(at)
            placed[key] = self._part(cost, knots, np.full(len(knots), True), None)
            terms += self._term(placed[key], knots, True)
        return [tuple(placed[key] for key in of_knot) for of_knot in keys], terms

    def _at_the_end(self, cost: Cost) -> Cost:
        at = where_of(cost)
        if at is not None and (at == "all" or is_span(at) or list(knots_at(at, self.times)) != [self.last]):
            raise ValueError(f"terminal_costs: {self._owner(cost)} has at={at!r}, expected it among the running_costs")
        return self._part(cost, np.array([self.last]), np.array([True]), at)

    def _part(self, cost: Cost, knots: np.ndarray, chosen: np.ndarray, at: Where | None) -> Cost:
        """The part of a cost at the chosen ones of its knots."""
        rows, part = np.flatnonzero(chosen), cost
        placed = getattr(cost, "placed", None)
        if placed is not None and len(rows):
            part = placed(self.system, knots, rows, self.times)
        if not chosen.all():
            part = copy.copy(cost) if part is cost else part
            part.at = tuple(knots[rows].tolist()) if isinstance(at, tuple) else at  # pyright: ignore
        return part

    def _term(self, cost: Cost, knots: np.ndarray, weighed: bool) -> list[Term]:
        """The cost as at most one term; a knot counts by its duration if `weighed` and it has one."""
        scales = np.ones(len(knots))
        if weighed:
            scales = np.where(self.durations[knots] > 0.0, self.durations[knots], 1.0)
        if not len(knots):
            return []
        if (scales != scales[0]).any():
            return [Term(cost, knots, scales, False)]
        return [Term(cost, None if len(knots) == self.last else knots, float(scales[0]), False)]

    def _owner(self, cost: Cost) -> str:
        return repr(Term(cost, None, 1.0, False).name)


# --------------------------------------------------------------------------------------------
# The problem.


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
        replaced by their values (`trajopt.problem.problem`).
    terminal_costs : costs l_N of x_N
    constraints : ControlBounds, StateBounds, ResidualConstraint
        If several have one name, "2" is appended to the second, "3" to the third.
    us_init : (N, nu) array or "quasi_static", optional
        Controls to start from; by default zeros.  "quasi_static": controls that hold the system still at x0, from a
        system that provides them.  Where zeros lead nowhere, as out of the domain of a logarithm, the middle of the
        limits of controls and states is tried, and the `u_example` of a function; and where a solve under constraints
        comes to no end, controls that hold the initial state (`trajopt.solvers.start`).
    name : str
        Heading of tables and pictures.
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
        PROGRESS.subject(self)
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
        _check_last_knot(terms, self.residual_constraints, self.horizon)
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
        self.check_states(name, xs)
        return xs

    def check_states(self, name: str, xs: np.ndarray) -> None:
        """Raise ValueError, naming the knot, if the system knows that one of the states xs (N+1, nx) passed as the
        argument `name` is none."""
        try:
            check_states(self.system, xs)
        except ValueError:
            for t, x in enumerate(xs):
                state_array(self.system, f"{name}[{t}]", x)  # names the knot
            raise

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

    def __call__(self, term: Any, where: str) -> Any:
        """The term, bound to the system; TypeError or ValueError, which begins with where the term was given, for a
        function that is no residual of it."""
        if id(term) not in self._known:
            of_system = getattr(term, "for_system", None)
            try:
                bound = term if of_system is None else of_system(self.system, self.x0)
            except (TypeError, ValueError) as error:
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"{where}: {error}") from error
            self._known[id(term)] = term, bound
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


def _check_last_knot(terms: Iterable[Term], constraints: Iterable[ResidualConstraint], horizon: int) -> None:
    """Raise ValueError for a term or a constraint at the last knot that is known to read controls."""
    there = [("terminal_costs", term.name, getattr(term.cost, "residual", None)) for term in terms if term.terminal]
    at_the_end = (one for one in constraints if horizon in one.knots(horizon, state_only=False))
    there += [("constraints", one.name, one.residual) for one in at_the_end]
    for argument, name, residual in there:
        if capability(residual, OfControls).needs_controls:
            raise ValueError(
                f"{argument}: {name!r} got a function of controls, but the terminal knot has no control, expected one "
                "of states alone, or at='path'"
            )


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
    placed = (
        along(bind(each, f"constraints[{i}], {each.name!r}")).placed(times)
        if isinstance(each, ResidualConstraint) else each
        for i, each in enumerate(constraints)
    )  # fmt: skip
    return with_own_names(tuple(placed))


def _checked_costs(name: str, costs: Any, system: System, terminal: bool, bind: Binding) -> tuple[Cost, ...]:
    if not isinstance(costs, Iterable):
        raise TypeError(f"{name}: got {type(costs).__name__}, expected a list of costs")
    costs = tuple(bind(cost, f"{name}[{i}]") for i, cost in enumerate(costs))
    for i, cost in enumerate(costs):
        if not all(hasattr(cost, method) for method in ("check", "value", "accumulate", "accumulate_curvature")):
            raise TypeError(f"{name}[{i}]: got {type(cost).__name__}, expected a cost")
        cost.check(system, terminal)
    return costs
