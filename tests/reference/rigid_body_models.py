"""The nine reference robots of tests/reference/rigid_body, rebuilt with `ModelBuilder` from the stored arrays."""

from pathlib import Path

import numpy as np

from dynamics.model import joints
from dynamics.model.builder import ModelBuilder
from dynamics.model.model import RigidBodyModel

FOLDER = Path(__file__).parent / "rigid_body"
NAMES = (
    "ur5",
    "panda",
    "double_pendulum_continuous",
    "hyq",
    "solo12",
    "chain_n6_bf1",
    "chain_n12_bf2",
    "spherical_tree",
    "joint_zoo",
)


def load_reference(name: str) -> tuple[RigidBodyModel, dict[str, np.ndarray]]:
    """Model and stored data; `q` (ns, nq), its limits, nq, idx_q and nqs follow this project's conventions.

    Row 0 of the arrays over joints is the universe, as stored: joint i of the model is row i + 1.
    """
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as archive:
        data = {key: archive[key] for key in archive.files}
    convert_configurations(data)
    model = build_model(data)
    assert model.joint_names == tuple(data["joint_names"][1:]), "joints are numbered as in the reference"
    assert np.array_equal(model.arrays.parent, data["parents"][1:] - 1)
    assert np.array_equal(model.q_index, data["idx_q"][1:]) and np.array_equal(model.v_index, data["idx_v"][1:])
    return model, data


def build_model(data: dict[str, np.ndarray]) -> RigidBodyModel:
    """Model from the arrays; body i is named after its joint, and the links of the URDF are frames."""
    builder = ModelBuilder(gravity=data["gravity"], name=str(data["name"]))
    bodies = ["world", *(f"body of {name}" for name in data["joint_names"][1:])]
    for i in range(1, int(data["njoints"])):
        at_q = slice(data["idx_q"][i], data["idx_q"][i] + data["nqs"][i])
        at_v = slice(data["idx_v"][i], data["idx_v"][i] + data["nvs"][i])
        joint = joint_of(str(data["joint_types"][i]), data["S"][:, at_v])
        limits = {"lower": data["q_lower"][at_q], "upper": data["q_upper"][at_q]}
        builder.add_body(
            bodies[i],
            bodies[data["parents"][i]],
            joint,
            joint_name=str(data["joint_names"][i]),
            placement=(data["joint_R"][i], data["joint_t"][i]),
            mass=data["body_mass"][i],
            com=data["body_com"][i],
            inertia=data["body_inertia"][i],
            armature=data["armature"][at_v],
            **({} if isinstance(joint, joints.Continuous) else limits),
        )
    for f, name in enumerate(data["frame_names"]):
        parent = data["frame_parents"][f]
        R, p = data["oMi_R"][0, parent], data["oMi_t"][0, parent]
        placement = (R.T @ data["oMf_R"][0, f], R.T @ (data["oMf_t"][0, f] - p))
        builder.add_frame(str(name), bodies[parent], placement)
    return builder.build()


def joint_of(kind: str, S: np.ndarray) -> joints.Joint:
    """Joint of a stored type name and motion subspace (6, nv), rows linear then angular."""
    several = {
        "FreeFlyer": joints.FreeFlyer(),
        "Spherical": joints.Spherical(),
        "Planar": joints.Planar(),
        "Translation": joints.Translation(),
    }
    if kind in several:
        return several[kind]
    if kind.startswith("RUB"):
        return joints.Continuous(S[3:, 0])
    return joints.Prismatic(S[:3, 0]) if kind.startswith("P") else joints.Revolute(S[3:, 0])


def convert_configurations(data: dict[str, np.ndarray]) -> None:
    """Replace cos and sin of continuous and planar joints by the angle, in place."""
    parts, lower, upper, sizes = [], [], [], []
    unlimited = np.finfo(np.float64).max
    for i in range(int(data["njoints"])):
        at = slice(data["idx_q"][i], data["idx_q"][i] + data["nqs"][i])
        q, low, high = data["q"][:, at], data["q_lower"][at], data["q_upper"][at]
        kind = str(data["joint_types"][i])
        if kind.startswith("RUB") or kind == "Planar":
            angle = np.arctan2(q[:, -1], q[:, -2])
            q = np.column_stack([q[:, :-2], angle])
            low, high = np.append(low[:-2], -np.inf), np.append(high[:-2], np.inf)
        parts.append(q)
        lower.append(np.where(low <= -unlimited, -np.inf, low))
        upper.append(np.where(high >= unlimited, np.inf, high))
        sizes.append(q.shape[1])
    data["q"] = np.column_stack(parts)
    data["q_lower"], data["q_upper"] = np.concatenate(lower), np.concatenate(upper)
    data["nqs"] = np.array(sizes)
    data["idx_q"] = np.cumsum(sizes) - sizes
    data["nq"] = np.array(sum(sizes))
