"""Kinematic trees of any size for scaling studies, and a humanoid of Talos' size, both made from formulas alone."""

import dataclasses

import numpy as np

import dynamics

TOTAL_LENGTH, TOTAL_MASS = 2.0, 20.0  # m, kg: of a chain, shared by its links
SLENDERNESS = 0.1  # radius of a link over its length
ROTOR = 0.1  # rotor inertia of every joint over the mean diagonal entry of the mass matrix


def parents(links: int, branching: int = 1) -> list[int]:
    """Parent of each of `links` bodies, counted from 0 and -1 the world, in a tree where every body has `branching`
    children.  With bodies counted from 1, parent(i) = floor((i - 2 + branching) / branching).   [Featherstone 2008]"""
    for name, value in (("links", links), ("branching", branching)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name}: got {value!r}, expected an integer of at least 1")
    return [(i - 2 + branching) // branching - 1 for i in range(1, links + 1)]


def depths(model: dynamics.RigidBodyModel) -> np.ndarray:
    """Number of degrees of freedom on the path from each to the root, itself included (nv,)."""
    found = np.ones(model.nv, dtype=int)
    for k, parent in enumerate(model.arrays.dof_parent):
        if parent >= 0:
            found[k] = found[parent] + 1
    return found


def _rod(length: float, mass: float) -> dict:
    """Figures of a uniform rod along x."""
    along, across = 0.5 * (SLENDERNESS * length) ** 2, length**2 * (3 * SLENDERNESS**2 + 1) / 12
    return {"mass": mass, "com": (length / 2, 0.0, 0.0), "inertia": mass * np.diag([along, across, across])}


def chain(links: int, branching: int = 1) -> dynamics.RigidBodyModel:
    """A tree of revolute joints: serial with `branching` 1, else every link carries that many children at its tip.

    The links are rods along x that turn about y and z in turn, lengths and masses differing by up to a fifth; both
    totals are the same for any number of links.  Joint frames are parallel, and inertias diagonal, at zero motion,
    which helps algorithms that work on symbols and no other.

    A serial chain of rods alone has a mass matrix of condition 3 N^3 and worse (6e8 at 500 links).  Rotors of a
    tenth of its mean diagonal, as geared motors have, keep it below 2e3 at 500 links for any branching.

    Parameters: links, branching: at least 1; ValueError otherwise.
    """
    builder = dynamics.ModelBuilder(name=f"chain_{links}_{branching}")
    tree = parents(links, branching)
    i = np.arange(links)
    lengths = TOTAL_LENGTH / links * (1.0 + 0.2 * np.sin(1.3 * i))
    masses = TOTAL_MASS / links * (1.0 + 0.2 * np.cos(0.7 * i))
    for number, parent in enumerate(tree):
        builder.add_body(
            f"link_{number}",
            "world" if parent < 0 else f"link_{parent}",
            dynamics.Revolute("yz"[number % 2]),
            placement=(np.eye(3), (0.0 if parent < 0 else lengths[parent], 0.0, 0.0)),
            **_rod(lengths[number], masses[number]),
        )
    return _with_rotors(builder.build())


def _with_rotors(model: dynamics.RigidBodyModel) -> dynamics.RigidBodyModel:
    rotor = ROTOR * np.diag(dynamics.mass_matrix(model, dynamics.neutral(model))).mean()
    arrays = model.arrays._replace(armature=np.full(model.nv, rotor))
    return dataclasses.replace(model, arrays=arrays)


def humanoid(torso: str = "zy", arm: str = "zxzyzyx", head: str = "yz", hands: bool = True) -> dynamics.RigidBodyModel:
    """A humanoid on a floating base with 50 degrees of freedom, Talos' size: base 6, torso 2, head 2, and on either
    side a leg of 6, an arm of 7 and a hand of 7; or with other axes of torso, arms and head, and without hands."""
    builder = dynamics.ModelBuilder(name="humanoid")
    box = {"com": (0.0, 0.0, 0.05), "inertia": np.diag([0.08, 0.06, 0.06])}
    builder.add_body("pelvis", "world", dynamics.FreeFlyer(), joint_name="root_joint", mass=15.0, **box)

    def limb(name: str, parent: str, axes: str, start: tuple, step: tuple, mass: float) -> str:
        """Bodies in a row, one per axis, `step` (m) apart and lighter outwards; returns the last one's name."""
        length = float(np.linalg.norm(step))
        for number, axis in enumerate(axes):
            body, share = f"{name}_{number}", mass * 0.8**number
            inertia = share * (length**2 / 12 * np.eye(3) + 1e-4 * np.diag([1.0, 2.0, 1.5]))
            builder.add_body(
                body, parent, dynamics.Revolute(axis), placement=(np.eye(3), start if number == 0 else step),
                mass=share, com=0.5 * np.array(step) + (0.01, -0.005, 0.0), inertia=inertia, armature=0.01,
            )  # fmt: skip
            parent = body
        return parent

    for side, sign in (("left", 1.0), ("right", -1.0)):
        limb(f"{side}_leg", "pelvis", "zxyyyx", (0.0, sign * 0.085, -0.1), (0.0, 0.0, -0.19), 5.0)
    chest = limb("torso", "pelvis", torso, (0.0, 0.0, 0.1), (0.0, 0.0, 0.15), 12.0)
    for side, sign in (("left", 1.0), ("right", -1.0)):
        wrist = limb(f"{side}_arm", chest, arm, (0.0, sign * 0.16, 0.2), (0.0, sign * 0.09, -0.06), 2.5)
        if not hands:
            continue
        palm = limb(f"{side}_palm", wrist, "z", (0.0, 0.0, -0.05), (0.0, 0.0, -0.08), 0.4)
        for finger in range(3):
            base = (0.0, 0.03 * (finger - 1), -0.08)
            limb(f"{side}_finger_{finger}", palm, "yy", base, (0.0, 0.0, -0.04), 0.05)
    limb("head", chest, head, (0.0, 0.0, 0.32), (0.0, 0.0, 0.1), 2.0)
    return builder.build()


def atlas_sized() -> dynamics.RigidBodyModel:
    """A humanoid with Atlas' 30 joints on a floating base: back 3, neck 1, and on either side a leg of 6 and an arm
    of 7, about the axes that Atlas has; the figures are those of `humanoid`."""
    return humanoid("zyx", "zxyxyxy", "y", hands=False)
