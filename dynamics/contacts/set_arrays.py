"""From contacts to the arrays that kernels take.

Blocks of rows come in this order: the first of every contact, the moments of rigid feet, the further pairs of points of
loops, and joints that are coupled, three to a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynamics.algorithms.frames import FRAME, frame_numbers
from dynamics.contacts.contact_arrays import ContactArrays
from dynamics.contacts.frame_contact import FrameContact
from dynamics.contacts.loop_arrays import LoopArrays, with_loops
from dynamics.contacts.loop_constraint import JointCoupling, LoopConstraint
from dynamics.contacts.pair_rows import pair_rows
from dynamics.model import RigidBodyModel


def set_arrays(model: RigidBodyModel, contacts: Sequence[Any]) -> ContactArrays | LoopArrays:
    """Arrays of contacts, loops and couplings of a model."""
    held = [i for i, contact in enumerate(contacts) if isinstance(contact, FrameContact)]
    rigid = [i for i in held if not contacts[i].turns]
    plain = _plain_arrays(model, [contacts[i] for i in held], [contacts[i] for i in rigid])
    if len(held) == len(contacts):
        return plain
    C = len(contacts)
    rows = np.array([*held, *range(C, C + len(rigid))], dtype=np.int64)
    halves: list[dict[str, Any]] = []
    for i, blocks in loop_blocks(contacts).items():
        halves += contacts[i].halves(blocks, len(rows) + len(halves))
    coupled = {i: contact for i, contact in enumerate(contacts) if isinstance(contact, JointCoupling)}
    couplings = [entry for i, contact in coupled.items() for entry in contact.entries(3 * i)]
    blocks = C + len(rigid) + sum(len(found) - 1 for found in loop_blocks(contacts).values())
    return with_loops(plain, rows, halves, blocks, couplings, model.arrays)


def loop_blocks(contacts: Sequence[Any]) -> dict[int, list[int]]:
    """Of every loop, by its place, the numbers of its blocks."""
    free = len(contacts) + sum(not contact.turns for contact in contacts)
    found = {}
    for i, contact in enumerate(contacts):
        if isinstance(contact, LoopConstraint):
            more = len(contact.pairs) - 1
            found[i] = [i, *range(free, free + more)]
            free += more
    return found


def _plain_arrays(model, contacts, rigid) -> ContactArrays:
    held = [*contacts, *rigid]
    B = len(held)
    frames = [frame_numbers(model, contact.frame) for contact in held]
    body = np.array([body for body, _ in frames], dtype=np.int64)
    frame = np.array([frame for _, frame in frames]).reshape(B, FRAME)
    poses = [contact.pose for contact in held]
    return ContactArrays(
        body,
        frame,
        np.ascontiguousarray(frame[:, 9:]),
        np.repeat([0, 1], [len(contacts), len(rigid)]),
        np.array([contact.gains for contact in held]).reshape(B, 2),
        np.array([p for _, p in poses]).reshape(B, 3),
        np.array([R for R, _ in poses]).reshape(B, 9),
        np.array([contact.local for contact in held], dtype=np.int64),
        0.0,
        B,
        *pair_rows(model.arrays, body),
    )
