"""Where along a trajectory a cost or a constraint counts: the argument ``at``.

    "path", "terminal", "all"     knots 0 ... N-1, knot N, both
    3, -1, [10, 20, 30]           knots, those below zero counted from the end: -1 is knot N
    0.5, [0.1, 0.2]               times in seconds: the knots nearest to them
    slice(10, 20), slice(0.5, 1.0)   knots from the first on, up to and without the second; ends as above, or None

Whole numbers are knots, floats are seconds.  Of several knots at one time, as before and after an impact, the first is
meant.  Knots and times are *instants*: a running cost counts there as it is, whatever the time step.  "path" and slices
are *spans*: a running cost is integrated over them, knot N, which takes no time, being no part of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynamics.validation import as_choice

At = str | int | float | Sequence[int] | Sequence[float] | np.ndarray | slice
"""What is given."""
Where = str | slice | tuple[float, ...]
"""What is made of it."""
WHERE = ("path", "terminal", "all")
SLACK = 1e-9
"""Of the last time: how far beyond the horizon a time may lie by rounding."""


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
    if array.ndim != 1 or array.dtype.kind not in "iuf" or not len(array):
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
    """Whether a running cost is integrated there."""
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
