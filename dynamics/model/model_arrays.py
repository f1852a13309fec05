"""The flat arrays that compiled kernels read, and their construction from the tree of moving bodies."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynamics.model.body_inertia import BodyInertia
from dynamics.model.joints import REVOLUTE, Joint


class ModelArrays(NamedTuple):
    """All arrays that kernels need, C-contiguous, int64 or float64; nb moving bodies, each carried by one joint.

    Bodies are numbered depth-first, so a parent comes before its children. A body's frame is its joint's moving frame.
    """

    parent: np.ndarray  # (nb,) body, -1 the world
    joint_type: np.ndarray  # (nb,) code of dynamics.model.joints
    q_index: np.ndarray  # (nb,) first entry in q
    v_index: np.ndarray  # (nb,) first entry in v
    dof_count: np.ndarray  # (nb,) entries in v
    dof_parent: np.ndarray  # (nv,) the dof before this one on the path to the root, -1 at the root
    dof_body: np.ndarray  # (nv,) the body that this dof moves
    subtree_end: np.ndarray  # (nv,) one past the last dof of this dof's subtree, itself included
    rotation: np.ndarray  # (nb, 27) row-major 3x3 blocks: revolute [0] + cos q [1] + sin q [2]; all others [0] alone
    translation: np.ndarray  # (nb, 3) origin of the joint placement in the parent body frame
    dof_axis: np.ndarray  # (nv, 3) axis in the body's own frame
    dof_angular: np.ndarray  # (nv,) 1 rotation about the axis, 0 translation along it
    joint_axis: np.ndarray  # (nb, 3) axis of a 1-dof joint in the parent body frame, else 0
    mass: np.ndarray  # (nb,)
    first_moment: np.ndarray  # (nb, 3) mass times centre of mass, body frame
    rotational_inertia: np.ndarray  # (nb, 6) xx xy xz yy yz zz about the origin of the body frame
    subtree_mass: np.ndarray  # (nb,) mass of the body and all its descendants
    armature: np.ndarray  # (nv,)
    gravity: np.ndarray  # (3,) world frame
    last_child: np.ndarray  # (nb,) 1 if no later body has the same parent
    joint_friction: np.ndarray  # (nv, 3) damping, Coulomb friction, square of its smoothing speed; (0, 3) for none
    spring_dof: np.ndarray  # (S, 2) dofs i, j: the position and velocity of j act on i
    spring: np.ndarray  # (S, 3) stiffness, damping and force at rest; no rows without springs


def model_arrays(
    joints: Sequence[Joint],
    parents: Sequence[int],
    placements: Sequence[tuple[np.ndarray, np.ndarray]],
    inertias: Sequence[BodyInertia],
    armature: np.ndarray,
    gravity: np.ndarray,
) -> ModelArrays:
    """Arrays of a depth-first tree.

    Parameters
    ----------
    joints, parents, placements, inertias : per moving body its joint, its parent (-1 the world), the joint placement
        (R, p) in the parent body frame at zero motion, and its inertia in the body frame
    armature : (nv,); gravity : (3,)
    """
    dof_count = np.array([joint.nv for joint in joints])
    v_index = np.cumsum(dof_count) - dof_count
    q_count = np.array([joint.nq for joint in joints])
    subspaces = [joint.motion_subspace() for joint in joints]
    upper_triangle = np.triu_indices(3)
    dof_parent = _dof_parents(parents, v_index, dof_count)
    return ModelArrays(
        parent=np.array(parents, dtype=np.int64),
        joint_type=np.array([joint.code for joint in joints], dtype=np.int64),
        q_index=(np.cumsum(q_count) - q_count).astype(np.int64),
        v_index=v_index.astype(np.int64),
        dof_count=dof_count.astype(np.int64),
        dof_parent=dof_parent,
        dof_body=np.repeat(np.arange(len(joints), dtype=np.int64), dof_count),
        subtree_end=_subtree_ends(dof_parent),
        rotation=np.array([_rotation_blocks(joint, R) for joint, (R, _) in zip(joints, placements, strict=True)]),
        translation=np.array([p for _, p in placements]),
        dof_axis=np.concatenate([axes for axes, _ in subspaces]),
        dof_angular=np.concatenate([angular for _, angular in subspaces]).astype(np.int64),
        joint_axis=np.array([_parent_axis(joint, R) for joint, (R, _) in zip(joints, placements, strict=True)]),
        mass=np.array([inertia.mass for inertia in inertias]),
        first_moment=np.array([inertia.first_moment for inertia in inertias]),
        rotational_inertia=np.array([inertia.about_origin[upper_triangle] for inertia in inertias]),
        subtree_mass=subtree_masses(parents, np.array([inertia.mass for inertia in inertias])),
        armature=armature.copy(),
        gravity=gravity.copy(),
        last_child=_last_children(parents),
        joint_friction=np.zeros((0, 3)),
        spring_dof=np.zeros((0, 2), dtype=np.int64),
        spring=np.zeros((0, 3)),
    )


def _dof_parents(parents: Sequence[int], v_index: np.ndarray, dof_count: np.ndarray) -> np.ndarray:
    before = np.arange(-1, dof_count.sum() - 1, dtype=np.int64)
    for body, parent in enumerate(parents):
        before[v_index[body]] = -1 if parent < 0 else v_index[parent] + dof_count[parent] - 1
    return before


def _subtree_ends(dof_parent: np.ndarray) -> np.ndarray:
    end = np.arange(1, len(dof_parent) + 1, dtype=np.int64)
    for k in reversed(range(len(dof_parent))):
        if dof_parent[k] >= 0:
            end[dof_parent[k]] = max(end[dof_parent[k]], end[k])
    return end


def _last_children(parents: Sequence[int]) -> np.ndarray:
    last = {parent: body for body, parent in enumerate(parents)}
    return np.array([last[parent] == body for body, parent in enumerate(parents)], dtype=np.int64)


def _rotation_blocks(joint: Joint, R: np.ndarray) -> np.ndarray:
    """Blocks (27,) R A, R B, R C of Rodrigues' formula A + cos q B + sin q C for a revolute joint, else R, 0, 0."""
    blocks = np.zeros((3, 3, 3))
    if joint.code == REVOLUTE:
        (axis,), _ = joint.motion_subspace()
        x, y, z = axis
        along = np.outer(axis, axis)
        blocks[0] = R @ along
        blocks[1] = R @ (np.eye(3) - along)
        blocks[2] = R @ np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    else:
        blocks[0] = R
    return blocks.ravel()


def _parent_axis(joint: Joint, R: np.ndarray) -> np.ndarray:
    return R @ joint.motion_subspace()[0][0] if joint.nv == 1 else np.zeros(3)


def subtree_masses(parents: Sequence[int] | np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Masses (nb,) of bodies with all their descendants."""
    total = masses.copy()
    for body in reversed(range(len(parents))):
        if parents[body] >= 0:
            total[parents[body]] += total[body]
    return total
