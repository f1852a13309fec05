"""How a system around another one has the optional members of the system inside (`trajopt.capabilities`).

Each member is written once, in the class of the wrapper, and inherited from there: lifted from that of the system
inside, or refused with a reason.  A wrapper has a member only where the system inside has it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any


class Lifted:
    """A method of a wrapper that is given the same method of the system inside as its first argument."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method, self.__doc__ = method, method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, wrapper: Any, owner: type | None = None) -> Any:
        if wrapper is None:
            return self
        offered = getattr(wrapper.__dict__.get("system"), self.name, None)
        if offered is None:
            raise AttributeError(f"{type(wrapper).__name__} has no {self.name!r}, nor has the system inside")
        return self.lifted(wrapper, offered)

    def lifted(self, wrapper: Any, offered: Any) -> Any:
        """The member of a wrapper, of what the system inside offers."""
        return partial(self.method, wrapper, offered)


class LiftedValue(Lifted):
    """A value of a wrapper, made from the same value of the system inside."""

    def lifted(self, wrapper: Any, offered: Any) -> Any:
        """The value of a wrapper, of that of the system inside."""
        return self.method(wrapper, offered)


def same() -> LiftedValue:
    """A member that a wrapper has as the system inside has it."""
    return LiftedValue(lambda wrapper, offered: offered)


def of_states() -> Lifted:
    """A function of states, and perhaps controls, that a wrapper has of the states inside its own."""
    return Lifted(lambda wrapper, inside, zs, *us: inside(wrapper.split(zs)[0], *us))


class Refused(LiftedValue):
    """A member of the system inside that a wrapper has not got, and why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def lifted(self, wrapper: Any, offered: Any) -> Any:
        """Raise AttributeError with the reason."""
        raise AttributeError(f"{type(wrapper).__name__} has no {self.name!r} of the system inside: {self.reason}")
