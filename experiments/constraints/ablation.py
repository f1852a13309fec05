"""What parts of the solver are worth: solves of all starts with each part left out, or a constant changed.

A part is left out by putting something that does nothing in its place, for the time of the solves.  A solve counts if
it converges and is feasible.  Constants of compiled functions cannot be changed like that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import trajopt
from experiments.constraints.catalogue import statement
from experiments.constraints.residuals import problem_of
from experiments.constraints.starts import controls
from experiments.constraints.study import FEASIBLE

NEVER = 10**9


class Variant(NamedTuple):
    """A solver with a part left out: what is put where, an attribute of a module or of its class."""

    what: str
    module: str
    attribute: str
    instead: Any


def _unchanged(method: Callable[..., Any]) -> Callable[..., Any]:
    """What is put in the place of a method: one that returns its first argument."""
    return lambda self, found, *arguments: found


CONSTRAINED = "trajopt.solvers.constrained"
VARIANTS = (
    Variant("no second solve", "trajopt.solvers.solve", "TURN", NEVER),
    Variant("no barrier", CONSTRAINED, "KINKED", NEVER),
    Variant("no penalty for curvature", CONSTRAINED, "AugmentedLagrangian._with_positive_curvature", _unchanged),
    Variant("no bound of violations", CONSTRAINED, "WORSE", np.inf),
    Variant("multipliers move with all steps", CONSTRAINED, "LONG_STEP", 0.0),
    Variant("penalty not relaxed", CONSTRAINED, "relaxed", lambda part: lambda rows, c, m: m),
    Variant("no search for feasibility", CONSTRAINED, "checked", lambda part: lambda f, state, *_: state),
    Variant("penalty not updated by the model", CONSTRAINED, "AugmentedLagrangian._raised", _unchanged),
    Variant("no bold penalty", CONSTRAINED, "AugmentedLagrangian._searched", lambda part: lambda *_: None),
    Variant("no convexified sweeps", "trajopt.solvers.iteration", "_convexified", lambda part: lambda *_: None),
    Variant("centre moves at minima alone", CONSTRAINED, "advanced", lambda part: lambda r, model, m: m),
    Variant("no other direction in the model", CONSTRAINED, "ATTEMPTS", 0),
    Variant("two minima an iteration", CONSTRAINED, "TRIES", 2),
    Variant("one sweep in the model", "trajopt.solvers.active_set", "ATTEMPTS", 0),
)


def changed(variant: Variant) -> Any:
    """Context in which the solver is this variant."""
    place: Any = import_module(variant.module)
    *outer, name = variant.attribute.split(".")
    for part in outer:
        place = getattr(place, part)
    instead = variant.instead(getattr(place, name)) if callable(variant.instead) else variant.instead
    return patch.object(place, name, instead)


def ablation_record(
    names: Sequence[str], starts: int, seed: int, limit: float, advance: Callable[..., None]
) -> dict[str, Any]:
    """Of the solver as it is, "all parts", and of each variant: starts that converge, of each problem, and steps."""
    records = {"all parts": solves(names, starts, seed, limit, advance)}
    for variant in VARIANTS:
        with changed(variant):
            records[variant.what] = solves(names, starts, seed, limit, advance)
    return records


def solves(names: Sequence[str], starts: int, seed: int, limit: float, advance: Callable[..., None]) -> dict[str, Any]:
    """Starts of feasible problems that converge, in all and of each problem, and the steps of all solves."""
    solved: dict[str, int] = {}
    steps = 0
    for name in names:
        each = statement(name)
        if not each.feasible:
            continue
        problem, solved[name] = problem_of(each), 0
        for number in range(starts):
            found = trajopt.DDP().solve(problem, us=controls(each, number, seed), time_limit=limit)
            converged = found.converged and each.violation(found.xs, found.us) <= FEASIBLE
            solved[name], steps = solved[name] + converged, steps + found.iterations
            advance()
    return {"converged": sum(solved.values()), "steps": steps, "problems": solved}
