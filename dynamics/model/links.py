"""Links of a robot under construction, before fixed ones are merged into others."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

import numpy as np

from dynamics.model.body_inertia import BodyInertia, inertia_defect, leaf_defect, nearest_physical
from dynamics.model.joints import REVOLUTE, Fixed, Joint
from dynamics.model.model import Frame, RigidBodyModel
from dynamics.model.model_arrays import ModelArrays
from dynamics.simd.caller import warn
from dynamics.validation import as_name

WORLD = -1

Pose = tuple[np.ndarray, np.ndarray]
"""R and p of x_parent = R x + p."""

IDENTITY: Pose = np.eye(3), np.zeros(3)


@dataclass(frozen=True)
class Link:
    """A link, and the joint that carries it."""

    name: str
    parent: int  # index of the parent link, or WORLD
    joint: Joint
    joint_name: str | None
    placement: Pose  # joint frame in the parent link
    mass: float
    com: np.ndarray  # in the link's frame; the inertia is about it
    inertia: np.ndarray
    per_position: dict[str, np.ndarray]  # lower, upper (nq,)
    per_dof: dict[str, np.ndarray]  # velocity, effort, armature, damping, friction (nv,)
    defect: str | None  # reason why the inertia is not physical

    def fixed_at(self, q: np.ndarray) -> Link:
        """The same link, fixed to its parent where its joint at the configuration q (nq,) places it."""
        none = {figure: np.zeros(0) for figure in (*self.per_position, *self.per_dof)}
        return replace(
            self,
            joint=Fixed(),
            placement=compose(self.placement, self.joint.placement(q)),
            per_position={figure: none[figure] for figure in self.per_position},
            per_dof={figure: none[figure] for figure in self.per_dof},
        )

    def resting(self) -> np.ndarray:
        """The neutral configuration (nq,) of its joint, moved into the limits."""
        return np.clip(self.joint.neutral(), self.per_position["lower"], self.per_position["upper"])

    def body_inertia(self, R: np.ndarray, p: np.ndarray) -> BodyInertia:
        """The inertia in a frame in which the link's frame is placed at (R, p)."""
        return BodyInertia.of_link(self.mass, R @ self.com + p, R @ self.inertia @ R.T)


def compose(first: Pose, then: Pose) -> Pose:
    """The placement `then` in the frame placed by `first`."""
    return first[0] @ then[0], first[0] @ then[1] + first[1]


def relative(frame: Pose, other: Pose) -> Pose:
    """The placement of `other` relative to `frame`: compose(frame, relative(frame, other)) is other."""
    return frame[0].T @ other[0], frame[0].T @ (other[1] - frame[1])


def frame_at(frame: Frame, placement: Pose) -> Frame:
    """The frame at a placement in another frame, on the same body."""
    return Frame(frame.body, *compose(frame[1:], placement))


def require_new(argument: str, name: str, **taken: Container[str]) -> None:
    """The name; ValueError unless it is a nonempty name that is not taken in any of `taken`."""
    as_name(argument, name)
    for kind, names in taken.items():
        if name in names:
            raise ValueError(f"{argument}: there already is a {kind} {name!r}, expected a new name")


def check_overflow(frames: dict[str, Frame], arrays: ModelArrays, links: list[Link]) -> None:
    """ValueError for numbers that overflow when they are multiplied and summed."""
    too_large = [f"the placement of frame {name!r}" for name, frame in frames.items() if not np.isfinite(frame.p).all()]
    for field in ("translation", "first_moment", "rotational_inertia", "subtree_mass"):
        finite = np.isfinite(getattr(arrays, field)).reshape(len(links), -1).all(axis=1)
        too_large += [f"the {field} of body {links[body].name!r}" for body in np.flatnonzero(~finite)]
    if not np.isfinite(arrays.mass.sum()):
        too_large.append("the total mass")
    if too_large:
        raise ValueError(f"{too_large[0]}: got an overflow, expected numbers in SI units")


def joined(links: list[Link], figure: str) -> np.ndarray:
    """A parameter of all degrees of freedom."""
    return np.concatenate([link.per_dof[figure] for link in links])


# ------------------------------------------------------------------------------------------------ from models
def link_pose(model: RigidBodyModel, body: int) -> Pose:
    """The link's frame in its moving body, whose frame may be rotated relative to it."""
    return model.joints[body].alignment().T, np.zeros(3)


def link_of(model: RigidBodyModel, body: int, prefix: str, parent: int, parent_pose: Pose) -> Link:
    """A moving body of a model as a link, on a parent whose frame is placed in the parent body's as given."""
    arrays, joint = model.arrays, model.joints[body]
    turned = arrays.rotation[body].reshape(3, 3, 3)
    R = turned[0] + turned[1] if joint.code == REVOLUTE else turned[0]
    pose = link_pose(model, body)
    placement = (R @ pose[0], arrays.translation[body])
    at_root = arrays.parent[body] < 0
    q = slice(model.q_index[body], model.q_index[body] + joint.nq)
    v = slice(model.v_index[body], model.v_index[body] + joint.nv)
    upper = np.zeros((3, 3))
    upper[np.triu_indices(3)] = arrays.rotational_inertia[body]
    about_origin = upper + np.triu(upper, 1).T
    inertia = BodyInertia(float(arrays.mass[body]), arrays.first_moment[body], about_origin).placed(
        *relative(pose, IDENTITY)
    )
    return Link(
        name=prefix + model.body_names[body],
        parent=parent,
        joint=joint,
        joint_name=prefix + model.joint_names[body],
        placement=compose(parent_pose, placement) if at_root else relative(parent_pose, placement),
        mass=inertia.mass,
        com=inertia.com(),
        inertia=inertia.about_com(),
        per_position={"lower": model.lower_position[q].copy(), "upper": model.upper_position[q].copy()},
        per_dof={
            "velocity": model.velocity_limit[v].copy(),
            "effort": model.effort_limit[v].copy(),
            "armature": arrays.armature[v].copy(),
            "damping": model.damping[v].copy(),
            "friction": model.friction[v].copy(),
        },
        defect=None,
    )


# ------------------------------------------------------------------------------------------------ the tree
class Tree:
    """The moving bodies made of the links, in depth-first order, with children in the order in which they were
    added."""

    def __init__(self, links: list[Link]) -> None:
        self.links = links
        self.order = _depth_first(links)
        self.moving = [links[number] for number in self.order if links[number].joint.nv > 0]
        self.anchors, self.parents, self.placements = _anchors(links, self.order)

    def inertias(self, ballast: list[tuple[int, BodyInertia]]) -> list[BodyInertia]:
        """Sums over all links of each moving body and the other inertias fixed to them; the last is that of the
        world."""
        parts = [(number, self.links[number].body_inertia) for number in self.order]
        parts += [(number, inertia.placed) for number, inertia in ballast]
        sums = [BodyInertia.zero()] * (len(self.moving) + 1)
        for number, placed in parts:
            frame = self.anchors[number]
            sums[frame.body] = sums[frame.body].plus(placed(frame.R, frame.p))
        return sums

    def physical(self, inertias: list[BodyInertia], mode: str) -> list[BodyInertia]:
        """The inertias of moving bodies; unphysical ones raise an error, are repaired or kept, depending on `mode`
        (`INERTIAS`).

        Warns of those repaired or kept, and of links that are unphysical on their own.
        """
        suspicious = [number for number, link in enumerate(self.links) if link.defect]
        wrong: dict[int, str] = {}
        for body in sorted({self.anchors[number].body for number in suspicious} - {WORLD}):
            inertia = inertias[body]
            defect = inertia_defect(inertia.mass, inertia.about_com()) if inertia.is_finite() else None
            if defect and mode == "strict":
                raise ValueError(
                    f"body {self.moving[body].name!r}: inertia, with what is fixed to the body: {defect}; "
                    'load_robot(..., inertias="repaired") takes the nearest that a body can have, "as_given" this one'
                )
            if defect:
                wrong[body] = defect
        if wrong:
            names = ", ".join(repr(self.moving[body].name) for body in wrong)
            taken = "used as given" if mode == "as_given" else "the nearest that one can have is used"
            warn(
                f"no body can have the inertia given for {names}, with what is fixed to it; {taken} "
                f"(the first: {next(iter(wrong.values()))})"
            )
        alone = [self.links[number] for number in suspicious if self.anchors[number].body not in wrong]
        if alone:
            names = ", ".join(repr(link.name) for link in alone)
            warn(
                f"no body can have the inertia given for {names}; used as given, because the moving bodies they are "
                f"fixed to are physical (the first: {alone[0].defect})"
            )
        if mode == "as_given":
            return inertias
        return [nearest_physical(inertia) if body in wrong else inertia for body, inertia in enumerate(inertias)]

    def check_leaves(self, inertias: list[BodyInertia]) -> None:
        """ValueError, with a suggested `lock`, for bodies without children that their joints cannot move; a robot
        without any inertia has no dynamics (`RigidBodyModel.is_kinematic`), but needs none for its kinematics."""
        if not any(inertia.mass or inertia.about_origin.any() for inertia in inertias):
            return
        children: list[list[int]] = [[] for _ in self.moving]
        for body, parent in enumerate(self.parents):
            if parent != WORLD:
                children[parent].append(body)
        still, first = set(), ""
        for body in reversed(range(len(self.moving))):  # without the joints of massless leaves others become leaves
            if any(child not in still or inertias[child].mass > 0.0 for child in children[body]):
                continue
            link = self.moving[body]
            defect = leaf_defect(link.joint, inertias[body], link.per_dof["armature"])
            if defect:
                still.add(body)
                first = f"body {link.name!r}: {defect}" if not children[body] else first
        if still:
            lock = {str(self.moving[body].joint_name): self.moving[body].resting().tolist() for body in sorted(still)}
            lock = {name: q[0] if len(q) == 1 else q for name, q in lock.items()}
            raise ValueError(f"{first}; load_robot(..., lock={lock}) fixes all joints that carry no inertia")


def _depth_first(links: list[Link]) -> list[int]:
    """Indices of all links, each after its parent, a whole subtree before the next one."""
    children: dict[int, list[int]] = {}
    for number, link in enumerate(links):
        children.setdefault(link.parent, []).append(number)
    order, pending = [], [WORLD]
    while pending:
        number = pending.pop()
        order.append(number)
        pending.extend(reversed(children.get(number, ())))
    return order[1:]


def _anchors(links: list[Link], order: list[int]) -> tuple[dict[int, Frame], list[int], list[Pose]]:
    """Each link's frame in its moving body, and each moving body's parent and joint placement in that parent."""
    anchors = {WORLD: Frame(-1, np.eye(3), np.zeros(3))}
    parents, placements = [], []
    for number in order:
        link = links[number]
        joint_frame = frame_at(anchors[link.parent], link.placement)
        if link.joint.nv == 0:
            anchors[number] = joint_frame
            continue
        alignment = link.joint.alignment()
        parents.append(joint_frame.body)
        placements.append((joint_frame.R @ alignment, joint_frame.p))
        anchors[number] = Frame(len(parents) - 1, alignment.T, np.zeros(3))
    return anchors, parents, placements
