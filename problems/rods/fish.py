"""A fish of a rigid head and two soft segments with a pair of tendons each, which swims in a plane.

    head        a cylinder, 12 cm long, 25 mm in radius, along x; free to move and turn in the horizontal plane
    segments    "front" and "rear", 20 cm each, from the head backwards; radius 20 mm, at the end of the rear one 10 mm;
                bending about the vertical of order 2: three coordinates each
    material    E = 0.2 MPa, nu = 0.45, as dense as water, viscosity 2 kPa s
    tendons     left and right in each segment, 12 mm from its axis at its start, 7 mm at its end
    water       1000 kg/m^3: drag and added mass of slender bodies on the segments, of a cylinder on the head; no weight

All parameters are our own choice.
"""

from __future__ import annotations

import numpy as np

from dynamics.model.joints import Planar
from dynamics.rods.loads.external_loads import Fluid
from dynamics.rods.loads.tendons import Tendon
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot

HEAD, SEGMENTS = "head", ("front", "rear")
WATER = Fluid(density=1000.0, drag=(0.01, 1.1, 1.1), lift=0.0, added_mass=(1.0, 1.0), buoyancy=False, smoothing=1e-2)
HEAD_LENGTH, HEAD_RADIUS, LENGTH, RADII, OFFSET = 0.12, 0.025, 0.2, (0.02, 0.02, 0.01), 0.012
DRAG_ALONG, DRAG_ACROSS = 0.3, 1.1
"""Drag coefficients of the head, on its front and on its side."""


def fish() -> SoftRobot:
    """The fish; controls are the tensions front left, front right, rear left, rear right."""
    builder = RodModelBuilder(gravity=(0.0, 0.0, 0.0), name="fish")
    front, side, density = np.pi * HEAD_RADIUS**2, 2.0 * HEAD_RADIUS * HEAD_LENGTH, WATER.density
    mass = density * front * HEAD_LENGTH
    across = mass * (3.0 * HEAD_RADIUS**2 + HEAD_LENGTH**2) / 12.0
    inertia = np.diag([0.5 * mass * HEAD_RADIUS**2, across, across])
    builder.add_body(HEAD, "world", Planar("z"), mass=mass, inertia=inertia)
    drag = 0.5 * density * np.array([DRAG_ALONG * front, DRAG_ACROSS * side, DRAG_ACROSS * side])
    builder.add_drag(HEAD, np.diag([0.0, 0.0, 0.0, *drag]), smoothing=WATER.smoothing)
    builder.add_added_mass(HEAD, np.diag([0.0, across, across, 0.0, mass, mass]))
    material = Elastic(young=2e5, poisson=0.45, density=density, viscosity=2e3)
    placement, parent = (np.diag([-1.0, -1.0, 1.0]), [-0.5 * HEAD_LENGTH, 0.0, 0.0]), HEAD
    for name, radii in zip(SEGMENTS, (RADII[:2], RADII[1:]), strict=True):
        basis = LegendreBasis(bending_z=2)
        builder.add_rod(name, parent, LENGTH, Circular(*radii), material, basis, placement=placement, points=4)
        builder.add_fluid(name, WATER)
        placement, parent = None, name
    tendons = [
        Tendon(name, lambda X, side=side: side * OFFSET * (1.0 - 2.0 * X), 0.0, name=f"{name} {label}")
        for name in SEGMENTS
        for label, side in (("left", -1.0), ("right", 1.0))
    ]
    return SoftRobot(builder.build(), tendons)
