"""What of a soft robot's motion is worth seeing against time: tips of rods, joints, energies; units of its controls."""

from __future__ import annotations

import numpy as np

from dynamics.rods.kinematics.center_lines import link_placements
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.recursion.momenta import energies
from dynamics.rods.robot.soft_robot import SoftRobot

FEW = 3
"""Of more rods only those that carry no link are followed."""
Panel = tuple[str, tuple[str, ...], np.ndarray]
"""A label with a unit, names of curves, values (K, n)."""


def quantities(model: RodModel, q: np.ndarray, v: np.ndarray) -> tuple[Panel, ...]:
    """Panels of a motion q, v (K, n); see `trajopt.capabilities.Pictures`."""
    tips = _tips(model)
    _, p = link_placements(model, q)
    places = p[:, [model.link_names.index(name) for name in tips]].reshape(len(q), -1)
    what = "tips" if model.rods else "links"
    panels = [(f"{what} [m]", tuple(f"{name} {axis}" for name in tips for axis in "xyz"), places)]
    joints = [k for own in model.joint_coordinates.values() for k in range(own.start, own.stop)]
    if joints:
        units = ", ".join(dict.fromkeys("rad" if _turns(model, k) else "m" for k in joints))
        panels.append((f"joints [{units}]", tuple(model.coordinate_names[k] for k in joints), q[:, joints]))
    parts = energies(model, q, v)
    panels.append(("energy [J]", (*parts._fields, "total"), np.stack([*parts, sum(parts)], axis=1)))
    return tuple(panels)


def control_units(robot: SoftRobot) -> tuple[str, ...]:
    """N of tendons, Pa of chambers, N m or N of joints, nothing of other controls."""
    joints = [robot.model.joint_coordinates[name] for name in robot.torques]
    driven = [k for own in joints for k in range(own.start, own.stop)]
    of_joints = ["N m" if _turns(robot.model, k) else "N" for k in driven]
    units = *(line.unit for line in (*robot.tendons, *robot.chambers)), *of_joints
    return (*units, *("",) * (robot.nu - len(units)))


def coordinate_units(model: RodModel) -> tuple[str, ...]:
    """rad or m of the coordinates of joints, nothing of those of strains."""
    joints = {k for own in model.joint_coordinates.values() for k in range(own.start, own.stop)}
    return tuple("" if k not in joints else "rad" if _turns(model, k) else "m" for k in range(model.nv))


def _tips(model: RodModel) -> tuple[str, ...]:
    """Rods, of many those at the ends of branches; links where there are none."""
    if not model.rods:
        return model.link_names
    carrying = set(model.arrays.parent.tolist())
    ends = tuple(name for name in model.rods if model.link_segments[name] not in carrying)
    return tuple(model.rods) if len(model.rods) <= FEW or not ends else ends


def _turns(model: RodModel, k: int) -> bool:
    """Whether the coordinate of a joint is an angle: it acts on one of the first three components."""
    rows = model.arrays.rows
    s = int(np.flatnonzero((rows[:, 0] <= k) & (k < rows[:, 6]))[0])
    return bool(k < rows[s, 3])
