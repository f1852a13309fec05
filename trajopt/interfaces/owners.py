"""Who owns a cost or a residual: what it was made for, and whether a system serves that.

A term of the states alone is at home wherever the states are the same; one of contact forces needs the same contacts
too.  So a term remembers one `Subject`, and a system serves several of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from trajopt.capabilities import StateManifold, capability
from trajopt.interfaces.system import System


class Subject(Protocol):
    """What a cost or a residual is made for, compared by ``==``: the space of its states, a robot, a robot held at its
    feet.  ``str`` says it in a few words."""

    def unlike(self, other: Any) -> str:
        """In what another subject differs, in words that follow "made for <this>, ", as "not for <the other>"."""
        ...


class MadeFor:
    """Of costs and residuals: remembers what it was made for.  Others are accepted for the shapes that they return."""

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
    """Whether the system serves what the term was made for, or one of them does not say."""
    made_for, serving = subject_of(term), capability(system, StateManifold).serves
    return made_for is None or not serving or made_for in serving


def check_subject(where: str, term: object, system: System) -> None:
    """Raise ValueError, its first words `where`, if the term was made for what the system does not serve."""
    made_for, serving = subject_of(term), capability(system, StateManifold).serves
    if made_for is not None and serving and made_for not in serving:
        raise ValueError(f"{where} was made for {made_for}, {made_for.unlike(serving[-1])}")
