"""A quadruped of the Solo12 class: 2.5 kg, a floating base and four legs of three motors each.

Sources, SI units: F. Grimminger et al., "An Open Torque-Controlled Modular Robot Architecture for Legged Locomotion
Research", IEEE Robotics and Automation Letters 5(2), 2020, as the robot's open description (robot_properties_solo of
the Open Dynamic Robot Initiative) gives them:

    joint placements, masses, centres of mass, inertias   its model of Solo12
    armature                                              rotor inertia 4.5e-6 kg m^2 behind gears of 9:1
    torque limit                                          0.025 N m/A at the motor, 9:1, 12 A

Two parameters are changed, so that the four legs are mirror images, left and right, front and hind: the centre
of mass of the upper leg, published 0.014 mm beside the plane of its joint axes, lies in it; and the product of inertia
of the hind hips takes the sign of their mirrored shape, where the description repeats that of the front hips.  A foot
touches the ground in one point, where the description has the foot's origin.  Position and speed limits, damping and
friction are not published, so absent.

Layout.  x forwards, y to the left, z upwards.  Each leg, from the base: abduction `haa` about x, flexion of the hip
`hfe` and of the knee `kfe` about y, the axes the same in all legs.  At zero angles the legs hang straight down.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import dynamics
from problems.walker import Walker

LEGS = {"lf": (1.0, 1.0), "rf": (1.0, -1.0), "lh": (-1.0, 1.0), "rh": (-1.0, -1.0)}
"""Legs in the order of their joints, each with the signs of x and y on its side."""
FEET = tuple(f"{leg}_foot" for leg in LEGS)
SEGMENT = 0.16
"""Length of the upper and of the lower leg between their axes, m."""

_TRUNK, _LIGHT, _DARK = (0.33, 0.42, 0.53), (0.86, 0.88, 0.90), (0.40, 0.43, 0.48)
"""Colours of the drawn shapes, which are about the size of the robot's and have no collisions."""
_SOLE = 0.012
"""Radius of the drawn feet, which touch the ground at the contact points, m."""

_MOTOR = {"armature": 9.0**2 * 4.5e-6, "effort": 9.0 * 0.025 * 12.0}


def quadruped() -> dynamics.RigidBodyModel:
    """The model: q = [base position, quaternion x y z w, 12 angles] (19,), v (18,), frames `FEET` at the feet."""
    builder = dynamics.ModelBuilder(name="quadruped")
    builder.add_body(
        "base", "world", dynamics.FreeFlyer(), joint_name="floating_base", mass=1.16115091,
        inertia=np.diag([0.00578574, 0.01938108, 0.02476124]),
    )  # fmt: skip
    _show(builder, "base", dynamics.Box((0.20, 0.055, 0.022)), (0.0, 0.0, 0.005), _TRUNK)
    _show(builder, "base", dynamics.Box((0.07, 0.04, 0.01)), (0.06, 0.0, 0.037), _DARK)
    for leg, (front, left) in LEGS.items():
        _add_leg(builder, leg, np.array([front, left, 1.0]))
    return builder.build()


def standing(height: float = 0.24) -> np.ndarray:
    """The configuration (19,) that stands on z = 0, base level at `height` (m), feet below the hips, knees inwards.

    The two segments and the height are a triangle of two equal sides.  Raises ValueError unless 0 < height < 0.32.
    """
    if not 0.0 < height < 2.0 * SEGMENT:
        raise ValueError(f"height: got {height!r}, expected more than 0 and less than {2.0 * SEGMENT} m")
    hip = np.arccos(height / (2.0 * SEGMENT))
    legs = [(0.0, front * hip, -2.0 * front * hip) for front, _ in LEGS.values()]
    return np.r_[0.0, 0.0, height, 0.0, 0.0, 0.0, 1.0, np.ravel(legs)]


def walker() -> Walker:
    """The quadruped on its four points."""
    return Walker(quadruped(), standing(), FEET)


def _add_leg(builder: dynamics.ModelBuilder, leg: str, mirror: np.ndarray) -> None:
    """Add hip, upper leg, lower leg and foot: the parameters of the left front leg, mirrored by the signs (3,) of x, y,
    z."""

    def add(part, parent, joint, at, mass, com, moments, xy=0.0, yz=0.0, **more):
        inertia = np.diag(moments) + [[0.0, xy, 0.0], [xy, 0.0, yz], [0.0, yz, 0.0]]
        builder.add_body(
            f"{leg}_{part}", parent, joint, placement=(np.eye(3), mirror * at), mass=mass, com=mirror * com,
            inertia=np.outer(mirror, mirror) * inertia, **more,
        )  # fmt: skip

    add(
        "hip", "base", dynamics.Revolute("x"), at=(0.1946, 0.0875, 0.0), joint_name=f"{leg}_haa",
        mass=0.14853845, com=(-0.078707, 0.01, 0.0), moments=(3.024e-5, 4.1193e-4, 4.1107e-4), xy=4.671e-5, **_MOTOR,
    )  # fmt: skip
    add(
        "upper_leg", f"{leg}_hip", dynamics.Revolute("y"), at=(0.0, 0.014, 0.0), joint_name=f"{leg}_hfe",
        mass=0.14853845, com=(0.0, 0.01935853, -0.078707), moments=(4.1107e-4, 4.1193e-4, 3.024e-5), yz=4.671e-5,
        **_MOTOR,
    )  # fmt: skip
    add(
        "lower_leg", f"{leg}_upper_leg", dynamics.Revolute("y"), at=(0.0, 0.03745, -SEGMENT), joint_name=f"{leg}_kfe",
        mass=0.03070001, com=(0.0, 0.00787644, -0.08928215), moments=(1.2024e-4, 1.2029e-4, 2.16e-6), yz=3.05e-6,
        **_MOTOR,
    )  # fmt: skip
    add(
        "foot", f"{leg}_lower_leg", dynamics.Fixed(), at=(0.0, 0.008, -SEGMENT),
        mass=0.00693606, com=(0.0, 0.0, 0.00035767), moments=(5.7e-7, 8.4e-7, 5.3e-7),
    )  # fmt: skip
    for part, radius, start, end, color in (
        ("hip", 0.030, (-0.035, 0.0, 0.0), (0.030, 0.0, 0.0), _TRUNK),  # the motors
        ("upper_leg", 0.026, (0.0, -0.004, 0.0), (0.0, 0.030, 0.0), _DARK),
        ("upper_leg", 0.016, (0.0, 0.020, 0.0), (0.0, 0.026, -SEGMENT), _LIGHT),
        ("lower_leg", 0.009, (0.0, 0.000, 0.0), (0.0, 0.008, _SOLE - SEGMENT), _DARK),
    ):
        _show(builder, f"{leg}_{part}", dynamics.Capsule(radius, mirror * start, mirror * end), np.zeros(3), color)
    _show(builder, f"{leg}_foot", dynamics.Sphere(_SOLE), (0.0, 0.0, _SOLE), _TRUNK)


def _show(builder: dynamics.ModelBuilder, body: str, shape: Any, at: ArrayLike, color: ArrayLike) -> None:
    builder.add_geometry(body, shape, (np.eye(3), at), purpose="visual", color=color)
