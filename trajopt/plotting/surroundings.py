"""Fixed shapes in pictures: those of the system, of the problem's scenery, and of its costs and constraints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dynamics.validation import as_array
from trajopt.capabilities import Pictures, capability
from trajopt.interfaces.residual import SeenResidual
from trajopt.problem.lifted import LiftedCost, LiftedResidual
from trajopt.problem.problem import Problem
from trajopt.problem.scenery import Lines, Shape


def shapes_of(problem: Problem, xs: np.ndarray | None = None) -> tuple[Shape, ...]:
    """All fixed shapes: those of the system, the scenery of the problem, and those of its costs and constraints that
    the scenery does not list, for a motion through states xs (K, nx), by default the problem's initial state."""
    shapes = [*brought(problem.system), *problem.scenery]
    for term in (*problem.objective.terms, *problem.residual_constraints):
        for shape in _shapes_of_term(term, problem.x0[None] if xs is None or not len(xs) else xs):
            if not any(_same_place(shape, other) for other in shapes):
                shapes.append(shape)
    for shape in shapes:
        as_segments(f"lines of {type(shape).__name__}", shape.lines(), ())
    return tuple(shapes)


def brought(system: Any) -> tuple[Shape, ...]:
    """Fixed shapes of a system."""
    own = capability(system, Pictures).scenery
    return own if isinstance(own, tuple) else (Lines(as_segments("scenery", own, ())),)


def _shapes_of_term(term: Any, xs: np.ndarray, aims: bool = True) -> Iterator[Shape]:
    """Obstacles of a cost or constraint, and its targets if `aims`."""
    scenery = capability(term, SeenResidual).scenery
    if scenery is not None:
        yield from (shape for shape in scenery(xs) if aims or not shape.target)
        return
    wanted = [getattr(term, name, 0.0) for name in ("reference", "lower", "upper")]
    aims = aims and not any(callable(value) or np.any(value) for value in wanted)
    inside = getattr(term, "cost", None) or getattr(term, "residual", None)
    if inside is not None:
        lifted = isinstance(term, (LiftedCost, LiftedResidual))
        yield from _shapes_of_term(inside, term.system.split(xs)[0] if lifted else xs, aims)


def _same_place(one: Shape, other: Shape) -> bool:
    """True if shapes are of one kind and have the same middle."""
    middles = [0.5 * (lines.min(axis=(0, 1)) + lines.max(axis=(0, 1))) for lines in (one.lines(), other.lines())]
    return one.target == other.target and np.allclose(*middles, rtol=0.0, atol=1e-9 + 1e-6 * np.ptp(one.lines()))


def as_segments(what: str, value: Any, leading: tuple[int, ...]) -> np.ndarray:
    """Segments (*leading, S, 2, 3) from a system, checked."""
    return as_array(what, value, (*leading, None, 2, 3), finite=False)
