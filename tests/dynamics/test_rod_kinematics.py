"""Placements of links and centre lines of soft robots against the kernels and closed forms."""

import numpy as np
import pytest

from dynamics import FreeFlyer, Revolute
from dynamics.rods.kinematics.center_lines import center_lines, link_placements, skeleton
from dynamics.rods.model.cross_section import Circular, Rectangular
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from tests.reference.rod_robots import REFERENCE, ROBOTS, SOFT, tip
from tests.tolerances import IDENTITY, relative_error


def bent_model(strains=(0, 0, 0, 0, 0, 0), points: int = 4):
    builder = RodModelBuilder()
    builder.add_rod("rod", "world", 0.5, Circular(0.02, 0.01), SOFT, LegendreBasis(*strains), points=points)
    return builder.build()


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("size", [1e-9, 0.5, 2.0])
def test_placements_are_those_of_the_kernels(name, size, rng):
    robot = ROBOTS[name]()
    qs = size * rng.uniform(-1.0, 1.0, (3, robot.nq))
    R, p = link_placements(robot.model, qs)
    for k, q in enumerate(qs):
        for i, link in enumerate(robot.model.link_names):
            place = tip(robot, link, q)
            assert relative_error(R[k, i], place[:3, :3]) < IDENTITY
            assert relative_error(p[k, i], place[:3, 3], floor=1.0) < IDENTITY
    single = link_placements(robot.model, qs[1])
    assert relative_error(single[0], R[1]) < IDENTITY and relative_error(single[1], p[1]) < IDENTITY


def test_a_joint_may_turn_more_than_once():
    builder = RodModelBuilder()
    builder.add_body("arm", "world", Revolute("z"), mass=1.0, com=(1.0, 0.0, 0.0))
    R, _ = link_placements(builder.build(), [17.0])
    assert relative_error(R[0, :2, 0], [np.cos(17.0), np.sin(17.0)]) < IDENTITY


@pytest.mark.parametrize("case", REFERENCE["helix"]["cases"][:1])
def test_points_of_a_helix(case):
    """A rod of constant strains: every point is exp(X xi)."""
    builder = RodModelBuilder()
    builder.add_rod("rod", "world", case["L"], Circular(0.01), SOFT, LegendreBasis(0, 0, 0, 0, 0, 0), points=4)
    strains = np.array(case["xi"]) - [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    line = center_lines(builder.build(), strains, points=13)["rod"]
    radius, pitch = REFERENCE["helix"]["helix_radius"], REFERENCE["helix"]["helix_pitch"]
    assert relative_error(line.points[-1], np.array(case["g_tip"])[:3, 3]) < IDENTITY
    axis = np.array([case["xi"][0], 0.0, case["xi"][2]])
    rate = np.linalg.norm(axis)
    along = line.points @ axis / rate
    X = np.linspace(0.0, case["L"], 13)
    assert relative_error(along, X * rate * pitch / (2.0 * np.pi)) < IDENTITY
    across = line.points - along[:, None] * axis / rate
    chord = 2.0 * radius * np.abs(np.sin(0.5 * rate * X))
    assert relative_error(np.linalg.norm(across - across[0], axis=1), chord) < IDENTITY


def test_curves_converge(rng):
    """Curves of few quadrature points against those of many: a fraction of a percent of the length."""
    q = rng.uniform(-1.0, 1.0, 24) * np.repeat([3.0, 0.1], [15, 9])
    coarse, fine = (
        center_lines(bent_model((4, 4, 4, 2, 2, 2), points), q, points=40)["rod"].points for points in (5, 30)
    )
    assert 1e-9 < np.abs(coarse - fine).max() < 2e-3 * 0.5


def test_lines_and_skeleton_of_a_hybrid_robot(rng):
    model = ROBOTS["hybrid"]().model
    qs = rng.uniform(-0.5, 0.5, (2, model.nq))
    lines, (_, p) = center_lines(model, qs, points=7), link_placements(model, qs)
    assert list(lines) == list(model.link_names)
    for i, (name, line) in enumerate(lines.items()):
        if name in model.rods:
            assert line.points.shape == (2, 7, 3) and line.radii.shape == (7,)
            assert relative_error(line.points[:, -1], p[:, i]) < IDENTITY
        else:
            assert not line.radii.any() and (np.abs(line.points - p[:, None, i]).max(axis=-1) < 1e-12).any()
    assert relative_error(lines["trunk"].radii[[0, -1]], [0.02, 0.01]) < IDENTITY
    assert relative_error(lines["flap"].radii, np.full(7, 0.01)) < IDENTITY
    segments = skeleton(model, qs, points=7)
    assert segments.ndim == 4 and segments.shape[2:] == (2, 3) and len(segments) == 2
    ends = segments.reshape(2, -1, 3)
    reached = [np.abs(ends - p[:, None, i]).max(axis=-1).min(axis=1) for i in range(p.shape[1])]
    assert np.max(reached) < 1e-12


def test_nothing_ties_a_free_body_to_the_world():
    builder = RodModelBuilder()
    builder.add_body("body", "world", FreeFlyer(), mass=1.0, inertia=np.eye(3))
    builder.add_rod("tail", "body", 0.3, Rectangular(0.01, 0.02), SOFT, LegendreBasis(bending_y=0))
    q = np.array([0.0, 0.0, 0.0, 5.0, 6.0, 7.0, 0.0])
    segments = skeleton(builder.build(), q)
    assert np.linalg.norm(segments - [5.0, 6.0, 7.0], axis=-1).max() == pytest.approx(0.3)
