"""The subject of a residual: a robot, a robot with its actuators, or a robot with actuators and contacts.

A residual stores its subject, a system has those that it can serve, and `trajopt.Problem` compares them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dynamics.content import ByContent

SHOWN = 4
"""Largest number of differences that are named in a message."""


class Subject(ByContent):
    """The robot that a residual belongs to; subjects with the same content are equal.

    Parameters
    ----------
    model : RigidBodyModel or RodModel
    B : (nv, nu), torques of unit controls, or None where these do not matter
    frames, contacts : names of the held frames and the arrays of their contacts, or None
    plant : the model with the friction of its joints as a system steps it, or None
    restitution : restitution of an impact at the contacts, None where they carry forces
    """

    def __init__(
        self,
        model: Any,
        B: np.ndarray | None = None,
        frames: Sequence[str] | None = None,
        contacts: Any = None,
        plant: Any = None,
        restitution: float | None = None,
    ) -> None:
        self.model, self.B, self.contacts, self.plant = model, B, contacts, plant
        self.restitution = restitution
        self.frames = None if frames is None else tuple(frames)

    def _parts(self) -> Mapping[str, Any]:
        return {
            "model": self.model, "actuation": self.B, "contacts": (self.frames, self.contacts), "plant": self.plant,
            "restitution": self.restitution,
        }  # fmt: skip

    def __repr__(self) -> str:
        return f"Subject({self})"

    def __str__(self) -> str:
        model = f"{type(self.model).__name__} {self.model.name!r} (nq {self.model.nq}, nv {self.model.nv})"
        if self.B is not None:
            model += f" with {self.B.shape[1]} controls"
        struck = "contacts" if self.restitution is None else f"an impact of restitution {self.restitution:g} at"
        return model if self.frames is None else f"{model} and {struck} {_list(self.frames)}"

    def unlike(self, other: Any) -> str:
        """Differences from another subject, that of a system, in words that follow "made for <this>, "."""
        if not isinstance(other, Subject) or type(self.model) is not type(other.model):
            return f"not for {other}"
        mine, theirs = self.model, other.model
        different = mine.differences(theirs)
        if different:
            if (mine.name, mine.nq, mine.nv) != (theirs.name, theirs.nq, theirs.nv):
                return f"not for {Subject(theirs)}"
            more = f" and {len(different) - SHOWN} more" if len(different) > SHOWN else ""
            return f"not for another {mine.name!r}, which differs in {_list(different[:SHOWN])}{more}"
        if self.B is not None and (other.B is None or not np.array_equal(self.B, other.B)):
            return "not for this robot with another actuation"
        if other.frames is None:
            return "not where contacts change"
        if self.restitution != other.restitution:
            return f"not for {'contacts' if other.restitution is None else 'an impact at'} {_list(other.frames)}"
        if self.frames != other.frames:
            return f"not for contacts {_list(other.frames)}"
        if "plant" in self.differences(other):
            return "not for this robot with other friction of its joints, or damping over another time step"
        return "not for the same frames with other gains, references, axes or damping"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
