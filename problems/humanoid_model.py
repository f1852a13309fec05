"""A humanoid of the size of Talos: 95 kg, 1.75 m, a floating base, legs of six motors, a waist of two, arms of four.

Sources, SI units: O. Stasse et al., "TALOS: A new humanoid research platform targeted for industrial applications",
IEEE-RAS International Conference on Humanoid Robots 2017, for size and weight, and the robot's public description for
their distribution: lengths of limbs, order of axes and torque limits are rounded from it, masses are rounded and
mirrored so that both sides are equal, head, wrists and hands are one body with the link that carries them, and the
inertias are those of boxes around the bodies' centres of mass, which pictures show.  Rotor inertias, damping and
friction are omitted.

Layout.  x forwards, y to the left, z upwards.  Legs: yaw, roll and pitch of the hip, the knee, pitch and roll of the
ankle, soles of 20 cm by 12 cm under the ankles.  Waist: yaw, pitch.  Arms: yaw, roll and turn of the upper arm, the
elbow.  At zero angles it stands straight and arms hang down.
"""

import numpy as np
from numpy.typing import ArrayLike

import dynamics
from problems.walker import Walker

SIDES = {"left": 1.0, "right": -1.0}
"""Sides in the order of their joints, each with the sign of y."""
FEET, HANDS = tuple(f"{side}_foot" for side in SIDES), tuple(f"{side}_hand" for side in SIDES)
SOLE = (0.10, 0.06)
"""Half lengths of the soles along x and y, m."""
THIGH, SHIN, ANKLE = 0.38, 0.325, 0.105
"""Lengths from hip to knee, from knee to ankle, and from there to the ground, m."""
_HIP, _SHOULDER = (-0.02, 0.085, -0.27), (0.0, 0.16, 0.23)
_FOOT, _HEAD, _DARK = 0.05, ((0.0, 0.0, 0.52), (0.17, 0.14, 0.2)), (0.38, 0.44, 0.54)

_LEG = (
    # body, parent, axis, at, mass, com, box, torque
    ("hip_yaw", "pelvis", "z", _HIP, 2.0, (0.02, 0.0, 0.05), (0.12, 0.10, 0.14), 100.0),
    ("hip_roll", "hip_yaw", "x", (0.0, 0.0, 0.0), 2.5, (0.015, 0.0, 0.0), (0.12, 0.10, 0.10), 160.0),
    ("thigh", "hip_roll", "y", (0.0, 0.0, 0.0), 7.0, (0.005, 0.06, -0.17), (0.13, 0.18, 0.42), 160.0),
    ("shin", "thigh", "y", (0.0, 0.0, -THIGH), 3.5, (0.015, 0.025, -0.12), (0.11, 0.16, 0.31), 300.0),
    ("ankle", "shin", "y", (0.0, 0.0, -SHIN), 1.0, (-0.01, 0.045, 0.05), (0.10, 0.10, 0.25), 160.0),
    ("sole", "ankle", "x", (0.0, 0.0, 0.0), 1.5, (-0.02, 0.0, -0.06), (0.20, 0.12, 0.06), 100.0),
)
_WAIST = (
    ("waist", "pelvis", "z", (0.0, 0.0, 0.07), 3.0, (0.0, 0.0, -0.01), (0.10, 0.15, 0.12), 80.0),
    ("chest", "waist", "y", (0.0, 0.0, 0.0), 23.0, (-0.03, 0.0, 0.19), (0.26, 0.32, 0.50), 80.0),
)
_ARM = (
    ("shoulder", "chest", "z", _SHOULDER, 1.5, (-0.01, 0.09, 0.05), (0.12, 0.16, 0.12), 45.0),
    ("upper_arm", "shoulder", "x", (0.005, 0.135, 0.045), 1.5, (0.025, 0.0, -0.05), (0.10, 0.10, 0.20), 22.0),
    ("lower_arm", "upper_arm", "z", (0.0, 0.0, 0.0), 2.5, (0.005, 0.0, -0.22), (0.09, 0.09, 0.14), 18.0),
    ("forearm", "lower_arm", "y", (0.02, 0.0, -0.27), 4.0, (-0.02, 0.0, -0.22), (0.10, 0.10, 0.40), 18.0),
)


def humanoid() -> dynamics.RigidBodyModel:
    """The model: q = [base position, quaternion x y z w, 22 angles] (29,), v (28,), frames `FEET` in the middle of the
    soles and `HANDS` in the palms."""
    builder = dynamics.ModelBuilder(name="humanoid")
    com, box = (-0.06, 0.0, -0.07), (0.18, 0.24, 0.22)
    builder.add_body(
        "pelvis", "world", dynamics.FreeFlyer(), joint_name="floating_base", mass=15.0, com=com,
        inertia=_of_box(15.0, box),
    )  # fmt: skip
    _show(builder, "pelvis", com, box)
    for side, left in SIDES.items():
        _add(builder, _LEG, left, f"{side}_")
        builder.add_frame(f"{side}_foot", f"{side}_sole", (np.eye(3), (0.0, 0.0, -ANKLE)))
        _show(builder, f"{side}_sole", (0.0, 0.0, 0.5 * _FOOT - ANKLE), (2.0 * SOLE[0], 2.0 * SOLE[1], _FOOT))
    _add(builder, _WAIST, 1.0, "")
    _show(builder, "chest", _HEAD[0], _HEAD[1])
    for side, left in SIDES.items():
        _add(builder, _ARM, left, f"{side}_")
        builder.add_frame(f"{side}_hand", f"{side}_forearm", (np.eye(3), (-0.02, 0.0, -0.38)))
    return builder.build()


def standing(knee: float = 0.5) -> np.ndarray:
    """The configuration (29,) that stands on z = 0 with level soles, knees bent by an angle (rad) and elbows by 0.6.

    The hips are above the ankles.  Raises ValueError unless 0 < knee < 2.
    """
    if not 0.0 < knee < 2.0:
        raise ValueError(f"knee: got {knee!r}, expected more than 0 and less than 2 rad")
    hip = np.arctan2(SHIN * np.sin(knee), THIGH + SHIN * np.cos(knee))
    height = THIGH * np.cos(hip) + SHIN * np.cos(knee - hip) + ANKLE - _HIP[2]
    leg = 0.0, 0.0, -hip, knee, hip - knee, 0.0
    arms = [(0.0, 0.15 * left, 0.0, -0.6) for left in SIDES.values()]
    return np.r_[0.0, 0.0, height, 0.0, 0.0, 0.0, 1.0, leg, leg, 0.0, 0.0, np.ravel(arms)]


def walker() -> Walker:
    """The humanoid on its soles."""
    return Walker(humanoid(), standing(), FEET, SOLE)


def _of_box(mass: float, box: tuple[float, float, float]) -> np.ndarray:
    squares = np.square(box)
    return np.diag(mass / 12.0 * (squares.sum() - squares))


def _add(builder: dynamics.ModelBuilder, chain: tuple, left: float, side: str) -> None:
    """Add the bodies of a limb, given by the parameters of the left one, mirrored on the right."""
    mirror = np.array([1.0, left, 1.0])
    for name, parent, axis, at, mass, com, box, torque in chain:
        builder.add_body(
            f"{side}{name}", parent if parent in ("pelvis", "waist", "chest") else f"{side}{parent}",
            dynamics.Revolute(axis), placement=(np.eye(3), mirror * at), mass=mass, com=mirror * com,
            inertia=_of_box(mass, box), effort=torque,
        )  # fmt: skip
        if name != "sole":  # the sole is drawn where it touches the ground
            _show(builder, f"{side}{name}", mirror * com, box)


def _show(builder: dynamics.ModelBuilder, body: str, at: ArrayLike, box: ArrayLike) -> None:
    """Add a box to draw a body, darker on the right, without collisions."""
    shape, color = dynamics.Box(0.5 * np.asarray(box)), _DARK if body.startswith("right") else None
    builder.add_geometry(body, shape, (np.eye(3), at), purpose="visual", color=color)
