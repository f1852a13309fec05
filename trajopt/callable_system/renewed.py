"""Prepared calls of functions that may be traced anew."""

from collections.abc import Callable
from typing import Generic, TypeVar

S = TypeVar("S")
C = TypeVar("C")


class Renewed(Generic[S, C]):
    """Calls that are prepared with a source, and prepared anew where another one has taken its place.

    Parameters
    ----------
    source : source() is the source as it is now
    prepare : prepare(source) are calls, None where there are none with it
    """

    def __init__(self, source: Callable[[], S], prepare: Callable[[S], C | None]) -> None:
        self._now, self._prepare = source, prepare
        self._source = source()
        self._calls = prepare(self._source)

    def calls(self) -> C | None:
        """The calls with the source as it is now, None where there are none."""
        source = self._now()
        if source is not self._source:
            self._source, self._calls = source, self._prepare(source)
        return self._calls
