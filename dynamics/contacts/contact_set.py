"""The contacts and loops of a system as one set, and the arrays that kernels read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import FRAME, frame_numbers
from dynamics.contacts.frame_contact import AXES, FrameContact, PointContact, RigidContact, feedback
from dynamics.contacts.loop_constraint import JointCoupling, LoopConstraint
from dynamics.model.model import RigidBodyModel
from dynamics.model.model_arrays import ModelArrays
from dynamics.simd.sizes import Size
from dynamics.validation import as_array, as_items, as_kind

# --------------------------------------------------------------------------------------------
# Arrays of contacts for kernels.


class ContactArrays(NamedTuple):
    """Arrays of a set of contacts for kernels: B blocks, b with the rows 3 b ... 3 b + 2 of forces and constraints."""

    body: np.ndarray  # (B,)
    frame: np.ndarray  # (B, FRAME) placements in the bodies
    point: np.ndarray  # (B, 3) origins in the bodies
    angular: np.ndarray  # (B,) 1 where the block is that of a moment
    gains: np.ndarray  # (B, 2)
    reference: np.ndarray  # (B, 3) positions to be kept
    turn: np.ndarray  # (B, 9) rotations to be kept
    local: np.ndarray  # (B,) 1 where the force is given in the frame's axes
    damping: float  # compliance of the constraint rows, 1/kg
    blocks: int  # B
    pair_start: np.ndarray  # (ceil(nv / 2) + 1,) where the rows of each pair of dofs begin in pair_row
    pair_row: np.ndarray  # rows of [tau; constraints] on which dofs 2 p, 2 p + 1 act


blocks = Size("blocks", "contacts.blocks")
"""Number of blocks of three rows, where `contacts` are ContactArrays or LoopArrays."""
endpoints = Size("endpoints", "contacts.body.size")
"""Number of contacts, moments of feet counted separately, and of endpoints of loops."""


# --------------------------------------------------------------------------------------------
# Sparsity of the columns of derivatives of inverse dynamics and of constraints.


def paths(arrays: ModelArrays) -> np.ndarray:
    """Boolean matrix (nv, nv), True at [k, j] if dof j is on the path from k to the root."""
    n = len(arrays.dof_body)
    above = np.eye(n, dtype=bool)
    for k, before in enumerate(arrays.dof_parent):
        if before >= 0:
            above[k] |= above[before]
    return above


def moved_by(arrays: ModelArrays, bodies: np.ndarray) -> np.ndarray:
    """Boolean matrix (bodies, nv), True where a dof moves a body."""
    last = arrays.v_index[bodies] + arrays.dof_count[bodies] - 1
    return paths(arrays)[last]


def pair_rows(
    arrays: ModelArrays, bodies: np.ndarray, blocks: np.ndarray | None = None, rotating: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of torques and constraints that depend on the position or velocity of each pair of dofs 2 p, 2 p + 1:
    torques of dofs on one path with them, contacts below them.

    bodies : bodies of the contacts, each with three rows; with `blocks` (B, nv) instead, True where a dof moves a block
    rotating : (t, 2, nv), for loops with rotating axes, True where a dof moves either body, and where it moves the
        second one: the latter dofs reach the torques of all the former
    """
    n = len(arrays.dof_body)
    above = paths(arrays)
    reaches = above | above.T
    for either, second in () if rotating is None else rotating:
        reaches |= np.outer(either, second)
    acts = np.vstack([reaches, np.repeat(moved_by(arrays, bodies) if blocks is None else blocks, 3, axis=0)])
    rows = [np.flatnonzero(acts[:, j : j + 2].any(axis=1)) for j in range(0, n, 2)]
    start = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    return start.astype(np.int64), np.concatenate(rows).astype(np.int64)


# --------------------------------------------------------------------------------------------
# Arrays of contacts and closed loops that are active at the same time, for kernels.
#
# A loop joins pairs of points, one on each of two bodies, and each pair has a block of three rows T'(X_1 - X_2), X the
# motion of a point and T its axes: those of the world for a ball, those of the second frame otherwise.  Each moving
# body of a pair is an endpoint of the block, which adds its part to the rows; contacts are blocks of one endpoint.
# Rows that a pair does not constrain are masked: they are zero, and so left out like redundant ones, but not counted.
#
# Each joint coupling has a row sum_j r_j (a_j + kd v_j + kp q_j) = kp offset, with a constant Jacobian.

PLAIN = "body", "frame", "point", "angular", "gains", "reference", "turn", "local"
"""Fields of endpoints that contacts have as well."""
COUPLED = "row", "dof", "ratio", "gains", "offset"
"""Fields of each joint of a coupling."""


class LoopArrays(NamedTuple):
    """`ContactArrays` extended to loops: H endpoints that add to B blocks, and joint couplings."""

    body: np.ndarray  # (H,)
    frame: np.ndarray  # (H, FRAME)
    point: np.ndarray  # (H, 3)
    angular: np.ndarray  # (H,)
    gains: np.ndarray  # (H, 2)
    reference: np.ndarray  # (H, 3) positions to be kept; zero for endpoints that have a partner
    turn: np.ndarray  # (H, 9)
    local: np.ndarray  # (H,)
    damping: float
    blocks: int
    pair_start: np.ndarray
    pair_row: np.ndarray
    row: np.ndarray  # (H,) block of each endpoint
    sign: np.ndarray  # (H,) 1 of the first frame, -1 of the second
    axes: np.ndarray  # (H,) endpoint along whose frame's axes the rows lie, -1 for the next ones
    fixed_axes: np.ndarray  # (H, 9) T where it does not rotate
    kept: np.ndarray  # (H, 3) 0 for masked rows, else 1
    rotating: np.ndarray  # (t, 3) blocks with rotating axes, first endpoint (-1: fixed in the world), second
    idle: np.ndarray  # (.,) rows without a constraint
    coupled_row: np.ndarray  # (E,) row of each entry r_j of a coupling
    coupled_dof: np.ndarray  # (E,)
    coupled_ratio: np.ndarray  # (E,)
    coupled_gains: np.ndarray  # (E, 2)
    coupled_offset: np.ndarray  # (E,) of the row, on its first entry, else zero


def free_or_held(free: Any, held: Any) -> dict[type | None, Any]:
    """Cases of the argument `contacts` for `dynamics.simd.by_type`: None for a robot that touches nothing."""
    return {None: free, ContactArrays: held, LoopArrays: held}


def with_loops(
    plain: ContactArrays,
    rows: np.ndarray,
    endpoints: list[dict[str, Any]],
    blocks: int,
    couplings: list[dict[str, Any]],
    model: ModelArrays,
) -> LoopArrays:
    """The arrays of contacts with those of loops and couplings.

    rows : (C,) blocks of the contacts;  endpoints : fields of each;  blocks : B;  couplings : fields of entries
    """
    C = len(plain.body)
    own = {
        "row": rows, "sign": np.ones(C), "axes": np.full(C, -1), "fixed_axes": np.tile(np.eye(3).ravel(), (C, 1)),
        "kept": np.ones((C, 3)),
    }  # fmt: skip
    fields = {name: getattr(plain, name) for name in PLAIN} | own
    for name, values in fields.items():
        added = np.array([endpoint[name] for endpoint in endpoints], dtype=values.dtype)
        fields[name] = np.concatenate([values, added.reshape(-1, *values.shape[1:])])
    sides = [(fields["row"] == row) & (np.arange(C + len(endpoints)) >= C) for row in range(blocks)]
    rotating = []
    for row, side in enumerate(sides):
        for c in np.flatnonzero(side & (fields["axes"] == np.arange(len(side)))):
            first = np.flatnonzero(side & (fields["sign"] > 0.0))
            rotating.append((row, first[0] if len(first) else -1, c))
    moved, by_block = moved_by(model, fields["body"]), np.zeros((blocks, len(model.dof_body)), dtype=bool)
    np.logical_or.at(by_block, fields["row"], moved)
    coupled = {name: np.array([each[name] for each in couplings]) for name in COUPLED}
    for each in couplings:
        by_block[each["row"] // 3, each["dof"]] = True
    reach = np.array([(by_block[row], moved[second]) for row, _, second in rotating])
    start, row = pair_rows(model, fields["body"], by_block, reach)
    return LoopArrays(
        **fields,
        damping=plain.damping,
        blocks=blocks,
        pair_start=start,
        pair_row=row,
        rotating=np.array(rotating, dtype=np.int64).reshape(-1, 3),
        idle=_idle_rows(blocks, fields, coupled["row"]),
        coupled_row=coupled["row"].astype(np.int64),
        coupled_dof=coupled["dof"].astype(np.int64),
        coupled_ratio=coupled["ratio"].astype(np.float64),
        coupled_gains=coupled["gains"].astype(np.float64).reshape(-1, 2),
        coupled_offset=coupled["offset"].astype(np.float64),
    )


def without_feedback(arrays: ContactArrays | LoopArrays) -> ContactArrays | LoopArrays:
    """The same arrays with gains of zero."""
    if isinstance(arrays, LoopArrays):
        arrays = arrays._replace(coupled_gains=np.zeros_like(arrays.coupled_gains))
    return arrays._replace(gains=np.zeros_like(arrays.gains))


def _idle_rows(blocks: int, fields: dict[str, np.ndarray], coupled: np.ndarray) -> np.ndarray:
    """Indices of rows that are masked or belong to no contact, loop or coupling."""
    used = np.zeros(3 * blocks, dtype=bool)
    for row, kept in zip(fields["row"], fields["kept"], strict=True):
        used[3 * row : 3 * row + 3] |= kept != 0.0
    used[coupled.astype(np.int64)] = True
    return np.flatnonzero(~used).astype(np.int64)


# --------------------------------------------------------------------------------------------
# Conversion of contacts to the arrays that kernels read.
#
# Blocks of rows come in this order: the first of every contact, the moments of rigid feet, the further pairs of points
# of loops, and joints that are coupled, three to a block.


def set_arrays(model: RigidBodyModel, contacts: Sequence[Any]) -> ContactArrays | LoopArrays:
    """Arrays of contacts, loops and couplings of a model."""
    held = [i for i, contact in enumerate(contacts) if isinstance(contact, FrameContact)]
    rigid = [i for i in held if not contacts[i].turns]
    plain = _plain_arrays(model, [contacts[i] for i in held], [contacts[i] for i in rigid])
    if len(held) == len(contacts):
        return plain
    C = len(contacts)
    rows = np.array([*held, *range(C, C + len(rigid))], dtype=np.int64)
    endpoints: list[dict[str, Any]] = []
    for i, blocks in loop_blocks(contacts).items():
        endpoints += contacts[i].endpoints(blocks, len(rows) + len(endpoints))
    coupled = {i: contact for i, contact in enumerate(contacts) if isinstance(contact, JointCoupling)}
    couplings = [entry for i, contact in coupled.items() for entry in contact.entries(3 * i)]
    blocks = C + len(rigid) + sum(len(found) - 1 for found in loop_blocks(contacts).values())
    return with_loops(plain, rows, endpoints, blocks, couplings, model.arrays)


def loop_blocks(contacts: Sequence[Any]) -> dict[int, list[int]]:
    """Block numbers of every loop, by its index in the sequence of contacts."""
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


# --------------------------------------------------------------------------------------------
# Contacts that are active at the same time: points, feet, closed loops, joint couplings.
#
# Kernels know contacts as blocks of three rows of forces and constraints.  A point has one: its force and its
# acceleration.  A rigid foot has a second one: its moment and its angular acceleration; a loop one for each pair of its
# points.

Contact = PointContact | RigidContact | LoopConstraint | JointCoupling

_ZERO = np.zeros(1)
_ZERO.flags.writeable = False


class ContactSet:
    """Contacts that are active at the same time, checked and ready for kernels; reusing a set saves time.

    Parameters
    ----------
    model : RigidBodyModel
    contacts : sequence of `PointContact` and `RigidContact` on frames of the model, each frame at most once, and of
        `LoopConstraint` and `JointCoupling`; may be empty

    Raises
    ------
    TypeError : an entry that is no contact.
    ValueError : a contact of another model, or the same frame twice.
    """

    ties = 0
    """Number of couplings at the end that tie mimic joints to their sources; their forces are left out."""

    def __init__(self, model: RigidBodyModel, contacts: Sequence[Contact]) -> None:
        as_kind("model", model, RigidBodyModel)
        contacts = as_items("contacts", contacts, "PointContacts and RigidContacts")
        for i, contact in enumerate(contacts):
            if not isinstance(contact, Contact):
                wanted = "a PointContact, RigidContact, LoopConstraint or JointCoupling"
                raise TypeError(f"contacts[{i}]: got {type(contact).__name__}, expected {wanted}")
            if contact.model != model:
                raise ValueError(f"contacts[{i}]: the contact of {contact.frame!r} belongs to another model")
        frames = tuple(contact.frame for contact in contacts)
        for i, frame in enumerate(frames):
            if frame in frames[:i]:
                raise ValueError(
                    f"contacts[{i}]: frame {frame!r} is already in contact, by contacts[{frames.index(frame)}]"
                )
        self.model, self.contacts, self.frames = model, contacts, frames
        self.rigid = [i for i, contact in enumerate(contacts) if not contact.turns]
        self.loops = [i for i, contact in enumerate(contacts) if isinstance(contact, LoopConstraint)]

    @cached_property
    def arrays(self) -> ContactArrays | LoopArrays:
        """Arrays of the set for kernels."""
        return set_arrays(self.model, self.contacts)

    @property
    def rows(self) -> int:
        """Number of rows of constraints: three for every contact, three more for every rigid one and for every further
        pair of points of a loop."""
        return 3 * self.arrays.blocks

    @property
    def places(self) -> dict[str, str]:
        """Of every contact but ties, by the name of its frame, a frame where pictures show it."""
        return {contact.frame: contact.place for contact in self.contacts[: len(self) - self.ties]}

    def damped(self, damping: float, name: str = "damping") -> ContactArrays | LoopArrays:
        """Arrays of the contacts with this damping; ValueError, naming the argument, unless it is a number >= 0."""
        value = as_damping(damping, name)
        return self.arrays if value == 0.0 else self.arrays._replace(damping=value)

    @cached_property
    def at_rest(self) -> tuple[RigidBodyModel, ContactArrays | LoopArrays]:
        """The model without gravity and the set without gains, from which impulses are computed."""
        weightless = replace(self.model, arrays=self.model.arrays._replace(gravity=np.zeros(3)))
        return weightless, without_feedback(self.arrays)

    def impulsive(self, damping: float, name: str = "damping") -> tuple[RigidBodyModel, ContactArrays | LoopArrays]:
        """`at_rest` for contacts with this damping; errors as `damped`."""
        weightless, arrays = self.at_rest
        value = as_damping(damping, name)
        return weightless, arrays if value == 0.0 else arrays._replace(damping=value)

    @cached_property
    def world_aligned(self) -> ContactSet:
        """The same contacts, all forces and moments in world axes."""
        turned: list[Contact] = [
            replace(held, axes=AXES[0]) if isinstance(held, (PointContact, RigidContact)) else held
            for held in self.contacts
        ]
        found = ContactSet(self.model, turned)
        found.ties = self.ties
        return found

    def forces_and_moments(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows (K, self.rows, ...) as the forces and the moments of the C contacts that are no ties, each
        (K, C, 3, ...); without feet the moments are a read-only zero, which costs no memory."""
        K, C, rest = len(rows), len(self), rows.shape[2:]
        forces = rows[:, : 3 * (C - self.ties)].reshape(K, C - self.ties, 3, *rest)
        if not (self.rigid or self.loops):
            return forces, np.ndarray(forces.shape, np.float64, _ZERO, 0, (0,) * forces.ndim)
        moments = np.zeros(forces.shape)
        moments[:, self.rigid] = rows[:, 3 * C : 3 * (C + len(self.rigid))].reshape(K, len(self.rigid), 3, *rest)
        if self.loops:
            forces = forces.copy()
        for i, held, W in self._wrench_maps:
            wrench = np.einsum("ij,kj...->ki...", W, rows[:, held])
            forces[:, i], moments[:, i] = wrench[:, :3], wrench[:, 3:]
        return forces, moments

    @cached_property
    def _wrench_maps(self) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Index, rows, and map from the rows to force and moment, of every loop."""
        found = []
        for i in self.loops:
            blocks = np.array(loop_blocks(self.contacts)[i])
            found.append((i, (3 * blocks[:, None] + np.arange(3)).ravel(), self.contacts[i].wrench_map()))
        return found

    def multiplier_rows(self, w_f: ArrayLike, w_m: ArrayLike | None, K: int) -> np.ndarray:
        """Multipliers of forces and moments, (C, 3) or (K, C, 3), as (K, self.rows), zero for ties; w_m may be None,
        zero.

        Raises ValueError for another shape or a non-finite entry."""
        C = len(self)
        forces = self._multipliers("w_f", w_f, K).reshape(K, 3 * C)
        moments = np.zeros((K, C, 3)) if w_m is None else self._multipliers("w_m", w_m, K)
        if not (self.rigid or self.loops):
            return forces
        rows = np.zeros((K, self.rows))
        rows[:, : 3 * C] = forces
        rows[:, 3 * C : 3 * (C + len(self.rigid))] = moments[:, self.rigid].reshape(K, 3 * len(self.rigid))
        for i, held, W in self._wrench_maps:
            rows[:, held] = np.hstack([forces[:, 3 * i : 3 * i + 3], moments[:, i]]) @ W
        return rows

    def _multipliers(self, name, value, K):
        array, C = as_array(name, value), len(self) - self.ties
        if array.shape not in ((C, 3), (K, C, 3)):
            raise ValueError(f"{name}: got shape {array.shape}, expected ({C}, 3) or ({K}, {C}, 3)")
        every = np.broadcast_to(array, (K, C, 3))
        return np.concatenate([every, np.zeros((K, self.ties, 3))], axis=1) if self.ties else every

    def __len__(self) -> int:
        return len(self.contacts)

    def __repr__(self) -> str:
        return f"ContactSet({', '.join(repr(contact.frame) for contact in self.contacts)})"


Contacts = ContactSet | Sequence[Contact]


def as_contact_set(model: RigidBodyModel, contacts: Contacts) -> ContactSet:
    """The set itself, or one made of the contacts; errors as `ContactSet`."""
    if isinstance(contacts, ContactSet):
        if contacts.model != model:
            raise ValueError("contacts: the set belongs to another model")
        return contacts
    return ContactSet(model, contacts)


def of_system(model: RigidBodyModel, contacts: Contacts, dt: float = 0.0) -> ContactSet:
    """The set extended by those loops and couplings of the model that it lacks, with gains for steps of dt, s, as
    `feedback` gives them; errors as `ContactSet`."""
    given, gains = as_contact_set(model, contacts), feedback(dt)
    own: list[Contact] = [
        LoopConstraint(model, loop.frame1, loop.frame2, loop.kind, gains, loop.axis) for loop in model.loops
    ]
    own += [JointCoupling(model, dict(each.joints), each.offset, gains) for each in model.couplings]
    added = [closure for closure in own if closure.frame not in given.frames]
    return ContactSet(model, [*given.contacts, *added]) if added else given


def on_full_model(
    model: RigidBodyModel, contacts: Contacts, damping: float = 0.0, name: str = "damping", dt: float | None = None
) -> ContactSet:
    """The contacts on the full model; with dt, s, those that `of_system` adds; and last a coupling per mimic joint.

    These couplings admit no damping: raises ValueError for other than zero, with the argument's name, and for a
    JointCoupling among the contacts of a model with mimic joints; otherwise as `ContactSet`.
    """
    given = as_contact_set(model, contacts)
    if not model.mimics:
        return given if dt is None else of_system(model, given, dt)
    if damping != 0.0:
        raise ValueError(f"{name}: got {damping}, expected zero for a model with mimic joints")
    if any(isinstance(held, JointCoupling) for held in given.contacts):
        raise ValueError("contacts: got a JointCoupling, expected none beside mimic joints; see add_mimic")
    given = ContactSet(model.full, [replace(held, model=model.full) for held in given.contacts])
    given = given if dt is None else of_system(model.full, given, dt)
    ties = [
        JointCoupling(model.full, {mimic.joint: 1.0, mimic.source: -mimic.multiplier}, mimic.offset, (0.0, 0.0))
        for mimic in model.mimics
    ]
    found = ContactSet(model.full, [*given.contacts, *ties])
    found.ties = len(ties)
    return found


def as_damping(damping: float, name: str = "damping") -> float:
    """A number of at least zero; ValueError otherwise."""
    value = float(as_array(name, damping, ()))
    if value < 0.0:
        raise ValueError(f"{name}: got {value}, expected a number of at least zero")
    return value
