"""Prepared calls of functions that may be traced anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls

S = TypeVar("S")


class TracedCalls(NamedTuple):
    """Calls of programs of a trace.

    first : the call after which the function can be compared with its trace
    rest : what follows it, with the result
    """

    first: Callable[[], Any]
    rest: PreparedCalls


class Renewed(Generic[S]):
    """A function without arguments that makes calls which are prepared with a source, and prepared anew where another
    one has taken its place.

    Parameters
    ----------
    source : source() is the source as it is now
    prepare : prepare(source) are calls, None where there are none with it
    compare : compare() puts another source in the place of one whose trace is not the function's any more, at what the
        first call has found; it does nothing where others compare
    otherwise : otherwise() does without prepared calls what these do
    """

    def __init__(
        self,
        source: Callable[[], S],
        prepare: Callable[[S], TracedCalls | None],
        compare: Callable[[], Any],
        otherwise: Callable[[], Any],
    ) -> None:
        self._now, self._prepare, self._compare, self._otherwise = source, prepare, compare, otherwise
        self._source = source()
        self._traced = prepare(self._source)

    def traced(self) -> TracedCalls | None:
        """The calls with the source as it is now, None where there are none."""
        source = self._now()
        if source is not self._source:
            self._source, self._traced = source, self._prepare(source)
        return self._traced

    def __call__(self) -> Any:
        """Make the calls, the first one of them until it is one of the function as it is now."""
        while (calls := self.traced()) is not None:
            calls.first()
            if self._is_current():
                return calls.rest()
        return self._otherwise()

    def _is_current(self) -> bool:
        """Compare the function with its trace; False if the calls made last are not those to be made any more."""
        if self._source is self._now():
            self._compare()
        return self._source is self._now()

    @property
    def calls(self) -> tuple[PreparedCall, ...] | None:
        """The calls with the source as it is now; see `dynamics.simd.prepared_calls.calls_of`."""
        calls = self.traced()
        return None if calls is None else PreparedCalls(*calls).calls

    @property
    def result(self) -> Callable[[], Any] | None:
        """Function that returns the result of the calls made last; see `PreparedCalls`."""
        calls = self.traced()
        return None if calls is None else calls.rest.result

    @property
    def checks(self) -> tuple[Callable[[], bool], ...]:
        """See `dynamics.simd.prepared_calls.checks_of`."""
        return (self._is_current,)
