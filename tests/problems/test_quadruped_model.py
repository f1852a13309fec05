"""The quadruped's figures, its symmetry, its stance, and the published description it comes from."""

import re
from pathlib import Path

import numpy as np
import pytest

import dynamics
from problems.quadruped_model import FEET, LEGS, quadruped, standing

# Signs of x, y, z under a reflection; rotations, those of the joints too, take the opposite ones.
MIRRORS = {"left and right": (1.0, -1.0, 1.0), "front and hind": (-1.0, 1.0, 1.0)}


@pytest.fixture(scope="module")
def model():
    return quadruped()


def reflected(signs, q, v):
    """The configuration and velocity of the mirror image: signs of x, y, z reversed, legs exchanged."""
    linear = np.array(signs)
    angular = -linear
    joints = angular[[0, 1, 1]]
    sides = list(LEGS.values())
    swap = [sides.index((front * signs[0], left * signs[1])) for front, left in sides]
    q_image = np.r_[linear * q[:3], angular * q[3:6], q[6], (joints * q[7:].reshape(4, 3)[swap]).ravel()]
    v_image = np.r_[linear * v[:3], angular * v[3:6], (joints * v[6:].reshape(4, 3)[swap]).ravel()]
    return q_image, v_image


def test_figures(model):
    assert (model.nq, model.nv, model.nb) == (19, 18, 13)
    assert model.total_mass == pytest.approx(2.5, abs=1e-3)
    joints = tuple(f"{leg}_{joint}" for leg in ("lf", "rf", "lh", "rh") for joint in ("haa", "hfe", "kfe"))
    assert model.joint_names == ("floating_base", *joints)
    np.testing.assert_allclose(model.effort_limit[6:], 2.7, rtol=1e-14)
    np.testing.assert_allclose(model.armature, np.r_[np.zeros(6), np.full(12, 3.645e-4)], rtol=1e-14)
    assert np.isinf(model.effort_limit[:6]).all()


@pytest.mark.parametrize("signs", MIRRORS.values(), ids=MIRRORS)
def test_a_mirror_image_has_the_same_dynamics(model, rng, signs):
    q = dynamics.random_configuration(model, rng)
    v = rng.normal(size=model.nv)
    q_image, v_image = reflected(signs, q, v)
    M, M_image = dynamics.mass_matrix(model, q), dynamics.mass_matrix(model, q_image)
    image_of_momentum = reflected(signs, q, M @ v)[1]
    np.testing.assert_allclose(M_image @ v_image, image_of_momentum, rtol=0, atol=1e-12 * np.abs(M).max())
    image_of_forces = reflected(signs, q, dynamics.bias_forces(model, q, v))[1]
    np.testing.assert_allclose(dynamics.bias_forces(model, q_image, v_image), image_of_forces, rtol=0, atol=1e-12 * 25)


@pytest.mark.parametrize("height", [0.1, 0.24, 0.31])
def test_stance(model, height):
    q = standing(height)
    feet = np.array([dynamics.frame_placement(model, q, foot)[1] for foot in FEET])
    np.testing.assert_allclose(feet[:, 2], 0.0, rtol=0, atol=1e-12)
    expected = np.array([(0.1946 * front, 0.14695 * left) for front, left in LEGS.values()])
    np.testing.assert_allclose(feet[:, :2], expected, rtol=0, atol=1e-12)
    com = dynamics.center_of_mass(model, q)
    np.testing.assert_allclose(com[:2], 0.0, rtol=0, atol=1e-12)  # the middle of the rectangle of the feet
    assert 0.0 < com[2] < height
    for signs in MIRRORS.values():
        np.testing.assert_array_equal(reflected(signs, q, np.zeros(18))[0], q)


def test_a_quarter_of_the_weight_on_each_foot_keeps_the_balance(model):
    q = standing()
    quarter = np.array([0.0, 0.0, 9.81 * model.total_mass / 4])
    forces = sum(
        dynamics.frame_jacobian(model, q, foot, reference="local_world_aligned")[:3].T @ quarter for foot in FEET
    )
    torques = dynamics.gravity_forces(model, q) - forces
    np.testing.assert_allclose(torques[:6], 0.0, rtol=0, atol=1e-12 * 25)
    assert np.abs(torques[6:]).max() < 0.5 * model.effort_limit[6]


@pytest.mark.parametrize("height", [0.0, 0.32, -0.1, np.nan])
def test_heights_out_of_reach(height):
    with pytest.raises(ValueError, match="height"):
        standing(height)


def mirrored_legs(text):
    """The published description with the two figures changed that are not mirror images."""
    text, upper_legs = re.subn(r"0\.00001377", "0", text)
    front, hind = text.split('<link name="HL_SHOULDER">')
    hind, hips = re.subn(r'ixy="(-?)0\.00004671"', lambda ixy: f'ixy="{"" if ixy[1] else "-"}0.00004671"', hind)
    assert (upper_legs, hips) == (4, 2)
    return f'{front}<link name="HL_SHOULDER">{hind}'


@pytest.mark.peer
@pytest.mark.parametrize(("change", "tolerance"), [(mirrored_legs, 1e-12), (str, 1e-4)], ids=["mirrored", "as it is"])
def test_against_the_published_description(model, rng, change, tolerance):
    """Equal to rounding once the description is mirrored, nearly so as it is."""
    package = pytest.importorskip("example_robot_data")
    text = Path(package.load("solo12").urdf).read_text(encoding="utf-8")
    peer = dynamics.load_urdf(change(text), floating_base=True)
    qs = np.array([dynamics.random_configuration(model, rng) for _ in range(5)])
    vs = rng.normal(size=(5, model.nv))
    M, bias = dynamics.mass_matrix(peer, qs), dynamics.bias_forces(peer, qs, vs)
    M_model = dynamics.mass_matrix(model, qs) - np.diag(model.armature)
    np.testing.assert_allclose(M_model, M, rtol=0, atol=tolerance * np.abs(M).max())
    np.testing.assert_allclose(dynamics.bias_forces(model, qs, vs), bias, rtol=0, atol=tolerance * np.abs(bias).max())
    for foot, link in zip(FEET, ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"), strict=True):
        placement, published = dynamics.frame_placement(model, qs, foot), dynamics.frame_placement(peer, qs, link)
        np.testing.assert_allclose(placement[1], published[1], rtol=0, atol=1e-12 * max(1.0, np.abs(qs[:, :3]).max()))
