"""Conversion of a robot's states to MuJoCo's and back.

Both have one row of positions and one of velocities.  They differ in two points: quaternions have w first in MuJoCo and
last here; the velocity of a free body is, with R its rotation,

    here     [v, w]      linear velocity of its origin and angular velocity, both in the body's axes
    MuJoCo   [R v, w]    linear velocity in the axes of the world

Velocities of ball joints are in the axes of the body in both.  Generalized forces have the axes of the velocities:
`qfrc_applied` has the force on a free body's origin in world axes, then its moment in the body's, then the forces of
joints; those of joints alone are called tau in `dynamics`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.model.joints import FREE_FLYER, PRISMATIC, REVOLUTE, SPHERICAL
from dynamics.model.model import RigidBodyModel, check_configuration, check_model
from dynamics.validation import as_array, as_batch, as_items, as_name, unknown_name

if TYPE_CHECKING:
    import mujoco  # pyright: ignore[reportMissingImports]
from collections.abc import Callable

# --------------------------------------------------------------------------------------------
# Names of the parts of MuJoCo's models, unnamed ones included: one rule for robots and their states.


def body_names(m: Any) -> list[str]:
    """Names of the bodies of a compiled model, "body3" for an unnamed one."""
    own = ["world"] + [m.body(i).name for i in range(1, m.nbody)]
    return named(own, lambda i: [f"body{i}"])


def joint_names(m: Any) -> list[str]:
    """Names of the joints of a compiled model; an unnamed one is called "joint3", or after its body."""
    bodies = body_names(m)
    return named([m.joint(j).name for j in range(m.njnt)], lambda j: [f"joint{j}", f"{bodies[m.jnt_bodyid[j]]}_joint"])


def named(own: Sequence[str | None], proposals: Callable[[int], list[str]]) -> list[str]:
    """The given names, and for each missing one the first proposal that is not taken."""
    taken, names = {*own}, []
    for i, name in enumerate(own):
        if not name:
            proposed = proposals(i)
            name = next((each for each in proposed if each not in taken), proposed[-1])
            while name in taken:
                name += "_"
            taken.add(name)
        names.append(name)
    return names


NAMES = {FREE_FLYER: "free", SPHERICAL: "ball", PRISMATIC: "slide", REVOLUTE: "hinge"}
"""Names of MuJoCo's joint types by the codes of ours."""


class _JointSlots(NamedTuple):
    """Offsets of a joint's coordinates in q and v and in MuJoCo's qpos and qvel, their sizes, and the joint's code."""

    q: int
    v: int
    qpos: int
    qvel: int
    nq: int
    nv: int
    code: int


def to_mujoco_state(
    model: RigidBodyModel, x: ArrayLike, joints: mujoco.MjModel | Sequence[str] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The state x = (q, v) as MuJoCo's qpos and qvel.

    Parameters
    ----------
    model : RigidBodyModel
        Its joints are free, ball, slide and hinge joints, the free ones at the world's origin, as in MuJoCo.
    x : (nq + nv,) or (K, nq + nv) array
        One state, or several.
    joints : mujoco.MjModel, or names of joints, optional
        MuJoCo's joints in their order, with the same names as the model's.  By default the model's order.

    Returns
    -------
    qpos, qvel : (nq,) and (nv,), or (K, nq) and (K, nv) arrays

    Raises
    ------
    TypeError, ValueError
        Naming the argument: a state of a wrong shape, with numbers that are not finite or quaternions that are not of
        length one; joints of a type that MuJoCo lacks; names that are missing, unknown or given twice.

    Examples
    --------
    >>> from problems.quadruped_model import quadruped, standing
    >>> model = quadruped()
    >>> qpos, qvel = dynamics.to_mujoco_state(model, np.r_[standing(), np.zeros(model.nv)])
    >>> print(standing()[3:7], qpos[3:7])  # quaternions
    [0. 0. 0. 1.] [1. 0. 0. 0.]
    """
    places = list(_places(model, joints))
    states, single = as_batch("x", x, model.nq + model.nv)
    q, v = states[:, : model.nq], states[:, model.nq :]
    check_configuration(model, q[0] if single else q, "x")
    qpos, qvel = np.empty_like(q), np.empty_like(v)
    for place in places:
        here, there = _columns(place)
        qpos[:, there[0]], qvel[:, there[1]] = q[:, here[0]], v[:, here[1]]
        if place.code in (FREE_FLYER, SPHERICAL):
            w = there[0].stop - 4
            qpos[:, w : w + 4] = q[:, here[0]][:, -4:][:, [3, 0, 1, 2]]
        if place.code == FREE_FLYER:
            R, k = _rotations(q[:, place.q + 3 : place.q + 7]), place.qvel
            qvel[:, k : k + 3] = np.einsum("kij,kj->ki", R, v[:, place.v : place.v + 3])
    return (qpos[0], qvel[0]) if single else (qpos, qvel)


def from_mujoco_state(
    model: RigidBodyModel, qpos: ArrayLike, qvel: ArrayLike, joints: mujoco.MjModel | Sequence[str] | None = None
) -> np.ndarray:
    """The state x = (q, v), (nq + nv,) or (K, nq + nv), of MuJoCo's qpos (nq,) or (K, nq) and qvel (nv,) or (K, nv).

    The inverse of `to_mujoco_state`; quaternions are normalised, since MuJoCo lets their length drift.

    Raises
    ------
    TypeError, ValueError
        As `to_mujoco_state`; also for a quaternion of zeros.
    """
    places = list(_places(model, joints))
    positions, single = as_batch("qpos", qpos, model.nq)
    velocities = as_array("qvel", qvel, (model.nv,) if single else (len(positions), model.nv)).reshape(-1, model.nv)
    x = np.empty((len(positions), model.nq + model.nv))
    q, v = x[:, : model.nq], x[:, model.nq :]
    for place in places:
        here, there = _columns(place)
        q[:, here[0]], v[:, here[1]] = positions[:, there[0]], velocities[:, there[1]]
        if place.code in (FREE_FLYER, SPHERICAL):
            turned, w = positions[:, there[0]][:, -4:][:, [1, 2, 3, 0]], here[0].stop - 4
            size = np.linalg.norm(turned, axis=1, keepdims=True)
            if not size.all():
                raise ValueError(f"qpos: got zeros as a quaternion, expected a rotation in qpos[{there[0].stop - 4}:]")
            q[:, w : w + 4] = turned / size
        if place.code == FREE_FLYER:
            R, k = _rotations(q[:, place.q + 3 : place.q + 7]), place.qvel
            v[:, place.v : place.v + 3] = np.einsum("kji,kj->ki", R, velocities[:, k : k + 3])
    return x[0] if single else x


def _places(model: RigidBodyModel, joints: Any) -> Iterator[_JointSlots]:
    """Offsets, sizes and codes of all joints, in MuJoCo's order."""
    check_model(model)
    qpos = qvel = 0
    for name in _names(model, joints):
        i = model.joint_index(name)
        joint = model.joints[i]
        if joint.code not in NAMES:
            expected = ", ".join(NAMES.values())
            raise ValueError(f"model: joint {name!r} is a {joint.type_name}, expected one that MuJoCo has: {expected}")
        if joint.code == FREE_FLYER and not _at_origin(model, i):
            raise ValueError(f"model: the free joint {name!r} is not at the origin of the world, expected as in MuJoCo")
        yield _JointSlots(model.q_index[i], model.v_index[i], qpos, qvel, joint.nq, joint.nv, joint.code)
        qpos, qvel = qpos + joint.nq, qvel + joint.nv


def _names(model: RigidBodyModel, joints: Any) -> tuple[str, ...]:
    """Names of the model's joints in MuJoCo's order."""
    if joints is None:
        return model.joint_names
    if hasattr(joints, "njnt"):
        names = tuple(joint_names(joints))
    else:
        names = tuple(as_name("joints", name) for name in as_items("joints", joints, "names of joints"))
    for name in names:
        if name not in model.joint_names:
            raise unknown_name("joints", name, model.joint_names)
    missing = [name for name in model.joint_names if name not in names]
    if missing or len(set(names)) < len(names):
        got = f"none for {missing[0]!r}" if missing else "a name twice"
        raise ValueError(f"joints: got {got}, expected each joint of the model once")
    return names


def _at_origin(model: RigidBodyModel, i: int) -> bool:
    arrays = model.arrays
    turned = arrays.rotation[i].reshape(3, 3, 3)[0]
    return arrays.parent[i] < 0 and not arrays.translation[i].any() and bool(np.allclose(turned, np.eye(3)))


def _columns(place: _JointSlots) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Slices of q and v, and of MuJoCo's qpos and qvel."""
    starts = (place.q, place.v), (place.qpos, place.qvel)
    here, there = ((slice(q, q + place.nq), slice(v, v + place.nv)) for q, v in starts)
    return here, there


def _rotations(quaternions: np.ndarray) -> np.ndarray:
    """Rotation matrices (K, 3, 3) of unit quaternions x y z w (K, 4)."""
    from scipy.spatial.transform import Rotation  # slow to import

    return Rotation.from_quat(quaternions).as_matrix()
