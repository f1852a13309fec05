"""A soft manipulator with five cables.

    rod         0.5 m long, radius 30 mm at the base, 15 mm at the tip, along x of its base
    strains     polynomials of order 4 in torsion and bending, of order 2 in stretch and shear: 24 coordinates
    material    E = 1 MPa, nu = 0.5, 1000 kg/m^3, viscosity 10 kPa s
    cables      three straight ones on the surface, at (y, z) = r (0, 1), r (-sqrt(3)/2, -1/2), r (sqrt(3)/2, -1/2);
                two helices of the tip's radius and two turns, in opposite sense

Parameters: Mathew et al. 2025, section 4.5 and table 2, where the fifth cable is printed like the fourth; its sense is
an assumption.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from dynamics.rods.loads.contacts import CylinderContact
from dynamics.rods.loads.tendons import Tendon
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import Placement, RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot

ROD = "arm"
LENGTH, BASE, TIP = 0.5, 0.03, 0.015
"""Length, radii at both ends, m."""
SOFT = Elastic(young=1e6, poisson=0.5, density=1000.0, viscosity=1e4)
"""The material of all but one robot of the paper."""


def cable_manipulator(
    points: int = 5,
    gravity: ArrayLike = (0.0, 0.0, -9.81),
    viscosity: float = SOFT.viscosity,
    base: Placement | None = None,
    contact: CylinderContact | None = None,
    density: float = SOFT.density,
) -> SoftRobot:
    """The manipulator; its rod is called `ROD`.

    Parameters
    ----------
    points : Gauss-Legendre points
    gravity : (3,), m/s^2
    viscosity : of the material, Pa s
    base : (R, p) of its base in the world; by default the world's frame
    contact : a cylinder around it
    density : of the material, kg/m^3

    Raises
    ------
    ValueError : fewer points than the strains need, or a parameter out of range.
    """
    builder = RodModelBuilder(gravity, "cable manipulator", base)
    material, basis = replace(SOFT, viscosity=viscosity, density=density), LegendreBasis(4, 4, 4, 2, 2, 2)
    builder.add_rod(ROD, "world", LENGTH, Circular(BASE, TIP), material, basis, points=points)
    if contact is not None:
        builder.add_contact(ROD, contact)
    return SoftRobot(builder.build(), (*_straight_cables(), *_helices()))


def _radius(X):
    return BASE + (TIP - BASE) * X / LENGTH


def _straight_cables() -> list[Tendon]:
    """Three straight cables on the surface of the cone, 120 degrees apart."""
    c = np.sqrt(0.75)
    return [
        Tendon(ROD, 0.0, _radius, name="cable 1"),
        Tendon(ROD, lambda X: -c * _radius(X), lambda X: -0.5 * _radius(X), name="cable 2"),
        Tendon(ROD, lambda X: c * _radius(X), lambda X: -0.5 * _radius(X), name="cable 3"),
    ]


def _helices() -> list[Tendon]:
    return [
        Tendon.helix(ROD, TIP, turns=sense * 2.0, phase=0.5 * np.pi, name=f"cable {number}")
        for number, sense in ((4, -1.0), (5, 1.0))
    ]
