"""The tapered manipulator with five tendons of Mathew et al. 2025, section 4.5: 24 coordinates."""

import numpy as np
from numpy.typing import ArrayLike

from dynamics.rods.builder import RodModelBuilder
from dynamics.rods.cross_section import Circular, Elastic
from dynamics.rods.soft_robot import SoftRobot
from dynamics.rods.strain_basis import LegendreBasis
from dynamics.rods.tendons import Tendon

ROD = "arm"
LENGTH, RADII = 0.5, (0.03, 0.015)  # m


def cable_manipulator(
    points: int = 5, gravity: ArrayLike = (0.0, 0.0, -9.81), viscosity: float = 1e4
) -> SoftRobot:
    """The manipulator, clamped at the origin along x.

    Three tendons run straight to the axis at the tip, 120 degrees apart; two are helices of opposite sense around it.

    Parameters
    ----------
    points : Gauss-Legendre points along the rod
    gravity : (3,), m/s^2
    viscosity : of the material, Pa s

    Raises
    ------
    ValueError : fewer points than the strains need, or a figure out of range.
    """
    builder = RodModelBuilder(gravity)
    material = Elastic(young=1e6, poisson=0.5, density=1000.0, viscosity=viscosity)
    builder.add_rod(ROD, "world", LENGTH, Circular(*RADII), material, LegendreBasis(4, 4, 4, 2, 2, 2), points=points)
    c = np.sqrt(0.75)
    tendons = (
        Tendon(ROD, 0.0, lambda X: 0.03 - 0.03 * X),
        Tendon(ROD, lambda X: -c * (0.03 - 0.03 * X), lambda X: -0.5 * (0.03 - 0.03 * X)),
        Tendon(ROD, lambda X: c * (0.03 - 0.03 * X), lambda X: -0.5 * (0.03 - 0.03 * X)),
        Tendon.helix(ROD, 0.015, turns=-2, phase=np.pi / 2),
        Tendon.helix(ROD, 0.015, turns=2, phase=np.pi / 2),
    )
    return SoftRobot(builder.build(), tendons)
