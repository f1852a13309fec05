"""What costs, residuals and constraints have in common: what they were made for, values that may change, and where they
count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from dynamics.validation import as_choice, has_mask
from trajopt.capabilities import StateManifold, capability
from trajopt.interfaces.system import System

# --------------------------------------------------------------------------------------------
# Who owns a cost or a residual: what it was made for, and whether a system serves that.
#
# A term of the states alone is at home wherever the states are the same; one of contact forces needs the same contacts
# too.  So a term remembers one `Subject`, and a system serves several of them.


class Subject(Protocol):
    """What a cost or a residual is made for, compared by ``==``: the space of its states, a robot, a robot held at its
    feet.  ``str`` says it in a few words."""

    def unlike(self, other: Any) -> str:
        """In what another subject differs, in words that follow "made for <this>, ", as "not for <the other>"."""
        ...


class MadeFor:
    """Costs and residuals that say what they were made for; others are accepted for the shapes that they return."""

    @property
    def made_for(self) -> Subject | None:
        """What the system that it is used with must serve; None if that does not matter."""
        return None


class VectorSpace(NamedTuple):
    """States of plain numbers, the subject of systems that know no more of them."""

    size: int
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"states of {self.size} numbers" + (f" ({', '.join(self.names)})" if self.names else "")

    def unlike(self, other: Any) -> str:
        """See `Subject.unlike`."""
        return f"not for {other}"


def state_space(system: System) -> Subject | None:
    """The subject of terms of the state alone; None if the system names none."""
    return next(iter(capability(system, StateManifold).serves), None)


def subject_of(term: object) -> Subject | None:
    """What a cost or a residual was made for; None if it does not say."""
    return capability(term, MadeFor).made_for


def is_served(term: object, system: System) -> bool:
    """True if the system serves what the term was made for, or one of them does not say."""
    made_for, serving = subject_of(term), capability(system, StateManifold).serves
    return made_for is None or not serving or made_for in serving


def check_subject(where: str, term: object, system: System) -> None:
    """Raise ValueError, its first words `where`, if the term was made for what the system does not serve."""
    made_for, serving = subject_of(term), capability(system, StateManifold).serves
    if made_for is not None and serving and made_for not in serving:
        raise ValueError(f"{where} was made for {made_for}, {made_for.unlike(serving[-1])}")


# --------------------------------------------------------------------------------------------
# Attributes of costs, residuals and constraints that may change while a solver stays prepared; gradients by them.


class Adjustable:
    """What a term offers for `trajopt.solvers.prepared.PreparedSolver.update`.  Others stay as they are."""

    together: ClassVar = (("adjustable", "adjusted"),)

    @property
    def adjustable(self) -> tuple[str, ...]:
        """Names of the attributes that may change."""
        return ()

    def adjusted(self, **values: Any) -> Self:
        """A copy with other values of these attributes, of the shapes that they had; the rest is shared."""
        raise NotImplementedError


class Tangents(NamedTuple):
    """K points of a trajectory, xs (K, nx) and us (K, nu), and a tangent at each, dx (K, ndx) and du (K, nu); us and du
    are None at the last knot."""

    xs: np.ndarray
    us: np.ndarray | None
    dx: np.ndarray
    du: np.ndarray | None


class AttributeGradient:
    """What an adjustable term may offer besides: its derivative by an attribute, for `trajopt.Solution.vjp`."""

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """d/d(attribute) sum_t value_t'y_t + slope_t'dy_t, y the term at K points, dy its change along the way.

        Parameters
        ----------
        name : of the attribute, which may be one of what the term is made of
        at : the points and the direction
        value, slope : multipliers, (K,) of a cost, (K, nr) of a residual

        Returns
        -------
        An array of the attribute's shape, along its tangent where it lies on a manifold; None where the term does not
        know it: then the term alone is differenced.
        """
        return None


def gradient_by(term: object, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
    """What a term says as an `AttributeGradient`, None where it says nothing."""
    return capability(term, AttributeGradient).gradient_by(name, at, value, slope)


def summed_to(rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Derivatives by a row for each knot, (K, n), as those by an array of shape (), (n,), (1, n) or (K, n) that rows
    are broadcast from."""
    if len(shape) < 2:
        return np.asarray(rows.sum(axis=0 if shape else None))
    return rows if len(rows) == shape[0] else rows.sum(axis=0, keepdims=True)


# --------------------------------------------------------------------------------------------
# Where along a trajectory a cost or a constraint counts: the argument ``at``.
#
#     "path", "terminal", "all"     knots 0 ... N-1, knot N, both
#     3, -1, [10, 20, 30]           knots, those below zero counted from the end: -1 is knot N
#     0.5, [0.1, 0.2]               times in seconds: the knots nearest to them
#     slice(10, 20), slice(0.5, 1.0)   knots from the first on, up to and without the second; ends as above, or None
#
# Whole numbers are knots, floats are seconds.  Of several knots at one time, as before and after an impact, the first
# is meant.  Knots and times are *instants*: a running cost counts there as it is, whatever the time step.  "path" and
# slices are *spans*: a running cost is integrated over them, knot N, which takes no time, being no part of that.


At = str | int | float | Sequence[int] | Sequence[float] | np.ndarray | slice
"""What is given."""
Where = str | slice | tuple[float, ...]
"""What is made of it."""
WHERE = ("path", "terminal", "all")
SLACK = 1e-9
"""Fraction of the last time by which a time may lie beyond the horizon, by rounding."""


def checked_at(at: At | None) -> Where | None:
    """Words, a slice, or the knots or times of an array as a tuple; None stays None.

    Raises TypeError or ValueError, naming the argument, for anything else, and for knots or times that do not grow.
    """
    if at is None:
        return None
    if isinstance(at, str):
        return as_choice("at", at, WHERE)
    if isinstance(at, slice):
        return _checked_slice(at)
    array = np.atleast_1d(np.asarray(at))
    if array.ndim != 1 or array.dtype.kind not in "iuf" or not len(array) or has_mask(at):
        words = ", ".join(map(repr, WHERE))
        raise ValueError(f"at: got {at!r}, expected one of {words}, knots, times in seconds, or a slice")
    if not np.isfinite(array).all():
        raise ValueError(f"at: got {at!r}, expected finite times")
    _check_growth(array[array >= 0])
    _check_growth(array[array < 0])
    return tuple(array.tolist())


def _checked_slice(at: slice) -> slice:
    for edge in (at.start, at.stop):
        if edge is not None and (isinstance(edge, bool) or not isinstance(edge, (int, float, np.number))):
            raise TypeError(f"at: got {at!r}, expected a slice of knots or times")
        if edge is not None and not np.isfinite(edge):
            raise ValueError(f"at: got {at!r}, expected a slice of finite times")
    if at.step is not None and (not isinstance(at.step, (int, np.integer)) or at.step < 1):
        raise ValueError(f"at: got {at!r}, expected a step of at least one knot")
    return at


def _check_growth(knots: np.ndarray, what: str = "") -> None:
    wrong = np.flatnonzero(np.diff(knots) <= 0)
    if len(wrong):
        before, after = knots[wrong[0] : wrong[0] + 2]
        raise ValueError(f"at: {what}got {after} behind {before}, expected growing knots or times")


def is_span(at: Where | None) -> bool:
    """True if a running cost is integrated there."""
    return not isinstance(at, tuple) and at != "terminal"


def knots_at(at: Where, times: np.ndarray, owner: str = "") -> np.ndarray:
    """The growing knots, 0 ... N, that are meant, for knots at times (N+1,), s.

    Raises ValueError, naming the argument and its owner, for knots and times beyond the horizon and for none at all.
    """
    last, what = len(times) - 1, f"{owner} " * bool(owner)
    if isinstance(at, str):
        first, stop = {"path": (0, last), "terminal": (last, last + 1), "all": (0, last + 1)}[at]
        return np.arange(first, stop)
    if isinstance(at, slice):
        start, stop = (
            _nearest(edge, times, what) if isinstance(edge, (float, np.floating)) else edge
            for edge in (at.start, at.stop)
        )
        found = np.arange(last + 1)[slice(start, stop, at.step)]
        if not len(found):
            raise ValueError(f"at: {what}got {at!r}, which holds none of the knots 0 ... {last}")
        return found
    found = np.array([_nearest(each, times, what) if isinstance(each, float) else each for each in at], dtype=np.intp)
    beyond = found[(found > last) | (found < -last - 1)]
    if len(beyond):
        raise ValueError(f"at: {what}got knot {beyond[0]}, expected at most {last}, or -1 ... {-last - 1} from the end")
    found[found < 0] += last + 1
    _check_growth(found, f"{what}of the knots that {list(at)} are ")
    return found


def _nearest(time: Any, times: np.ndarray, what: str) -> int:
    """The first of the nearest knots."""
    slack = SLACK * times[-1]
    if not -slack <= time <= times[-1] + slack:
        raise ValueError(f"at: {what}got the time {time:g} s, expected 0 to {times[-1]:g} s")
    return int(np.argmin(np.abs(times - time)))
