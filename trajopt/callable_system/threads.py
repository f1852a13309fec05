"""Knots over threads, as the rigid-body kernels do it: disjoint outputs, so results do not depend on their number."""

from collections.abc import Callable
from typing import Any

from dynamics.simd import LANES, launch

POINT_NUMBERS = 10
"""Work of one evaluation of a user's function in the measure of `launch`: 100 ns would be 30 or more, but how cheap the
function is nobody knows, and a hand-over that does not pay costs more than one that is missed."""


def over_threads(loop: Callable[..., Any], knots: int, points: int, *args: Any) -> None:
    """loop(first, last, *args) over all knots, each of so many evaluations, in parallel where that pays."""

    def drive(first, last, work, *args):
        loop(first * LANES, min(last * LANES, knots), *args)

    launch(drive, knots, 0, *args, effort=POINT_NUMBERS * points * LANES)
