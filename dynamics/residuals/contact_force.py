"""Forces at contacts:  r = f - target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dynamics.residuals.contact_residual import FORCES, ContactResidual, ForceMap, Frames, contacts_of
from dynamics.residuals.target_gradient import VECTOR
from dynamics.validation import as_array

if TYPE_CHECKING:
    from dynamics.residuals.contact_residual import InContact


class ContactForce(ContactResidual):
    """Forces on the robot at its contacts less a target, N, in the axes that each contact asks for.

    Parameters
    ----------
    system : RigidBodySystem with contacts, or Impact, of whose impulses it then is, N s
    frames : None (all contacts, in the system's order), the name of a frame in contact, or a list of them
    target : number, (3,) for each of the S contacts, or (S, 3), N

    Raises
    ------
    ValueError : a system without contacts, a frame unknown (with the nearest matches), not in contact or named twice,
        or a target of wrong shape or with non-finite entries.
    TypeError : a system of another kind.

    Notes
    -----
    nr = 3 S.  Of forces it depends on the controls, so it has no value at the terminal knot.
    """

    target_kind = VECTOR
    kernels = FORCES
    target: np.ndarray

    def __init__(self, system: InContact, frames: Frames = None, target: ArrayLike = 0.0) -> None:
        contact = contacts_of(system, frames)
        S = len(contact)
        target = as_array("target", target)
        if target.shape not in ((), (3,), (S, 3)):
            raise ValueError(f"target: got shape {target.shape}, expected a number, (3,) or ({S}, 3)")
        target = np.array(np.broadcast_to(target, (S, 3)), order="C")
        super().__init__(system.model, "contact forces")
        self._set(target=target, system=system)
        A = np.tile(np.eye(3), (S, 1, 1))
        self._prepare(system, contact, system.contact_arrays, ForceMap(contact[:, None], A, -target, np.zeros(3), 0.0))
