"""The phases of a motion: which frames are held, and for how many knots."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dynamics.contacts.contact_set import Contact, ContactSet, of_system
from dynamics.contacts.frame_contact import as_gains
from dynamics.contacts.point_contact import PointContact
from dynamics.model import RigidBodyModel


class Phase(NamedTuple):
    """A checked entry of `phases`."""

    name: str
    contacts: ContactSet
    knots: int  # none at an impact


def checked_phases(model: RigidBodyModel, phases: Any, gains: Any) -> list[Phase]:
    """Phases whose sets of contacts are one object where they hold the same contacts.

    phases: sequence of (name, frames, knots); a frame's name stands for a `PointContact` with these gains.
    Raises ValueError or TypeError naming the phase, what came and what was expected.
    """
    if isinstance(phases, str) or not isinstance(phases, Sequence) or not len(phases):
        raise ValueError(f"phases: got {phases!r}, expected a list of at least one (name, frames, knots)")
    named: dict[str, PointContact] = {}
    sets: dict[frozenset[Contact], ContactSet] = {}
    checked = [_checked_phase(model, i, phase, gains, named, sets) for i, phase in enumerate(phases)]
    if not any(phase.knots for phase in checked):
        raise ValueError("phases: got impacts alone, expected a phase that takes time")
    return checked


def _checked_phase(model, i, phase, gains, named, sets) -> Phase:
    if not isinstance(phase, (tuple, list)) or len(phase) != 3:
        raise ValueError(f"phases[{i}]: got {phase!r}, expected (name, frames, knots)")
    name, frames, knots = phase
    if not isinstance(name, str) or not name:
        raise ValueError(f"phases[{i}]: got {name!r} for a name, expected a nonempty string")
    where = f"phases[{i}], {name!r}"
    if isinstance(frames, str) or not isinstance(frames, Sequence):
        raise TypeError(f"{where}: got frames {frames!r}, expected a list of frame names or contacts")
    if isinstance(knots, bool) or not isinstance(knots, (int, np.integer)) or knots < 0:
        raise ValueError(f"{where}: got {knots!r} knots, expected an integer of at least zero")
    if knots == 0 and not frames:
        raise ValueError(f"{where}: got neither knots nor frames, expected frames that an impact stops")
    try:
        contacts = [_contact(model, entry, gains, named) for entry in frames]
        found = of_system(model, contacts)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {error}") from None
    return Phase(name, sets.setdefault(frozenset(contacts), found), int(knots))


def _contact(model, entry, gains, named) -> Contact:
    if not isinstance(entry, str):
        return entry  # what is no contact is refused by the set
    if entry not in named:
        named[entry] = PointContact(model, entry, as_gains(gains))
    return named[entry]
