"""Contacts of points and feet and sets of them: what they hold, and what they refuse."""

import numpy as np
import pytest

from dynamics import ContactSet, PointContact, RigidBodySystem, RigidContact, frame_placement, neutral
from tests.reference.rigid_body_models import load_reference


@pytest.fixture(scope="module")
def model():
    return load_reference("hyq")[0]


def test_a_contact_keeps_its_own_reference(model):
    reference = np.ones(3)
    contact = PointContact(model, "lf_foot", (10, 2), reference)
    reference[:] = 7.0
    assert contact.gains == (10.0, 2.0) and np.array_equal(contact.reference, np.ones(3))
    with pytest.raises(ValueError, match="read-only"):
        contact.reference[0] = 1.0
    assert "lf_foot" in repr(contact) and "(10.0, 2.0)" in repr(contact)


@pytest.mark.parametrize("rigid", [False, True])
def test_a_contact_comes_to_the_reference_that_it_states(model, rigid):
    """Critically damped, without gains given; what has no reference has nothing to come to."""
    q = neutral(model)
    place = frame_placement(model, q, "lf_foot")
    p = place.p - [0.0, 0.0, 5e-4]
    kind, reference = (RigidContact, (place.R, p)) if rigid else (PointContact, p)
    foot = kind(model, "lf_foot", reference=reference)
    assert foot.gains == (100.0, 20.0) and kind(model, "lf_foot").gains == (0.0, 0.0)
    system = RigidBodySystem(model, 1e-3, "rk4", contacts=[foot])
    xs = system.rollout(system.state(q), np.zeros((200, system.nu)))
    left = frame_placement(model, xs[-1, : model.nq], "lf_foot").p - p
    assert left == pytest.approx([0.0, 0.0, 5e-4 * (1.0 + 2.0) * np.exp(-2.0)], abs=1e-7)


@pytest.mark.parametrize("kind", [PointContact, RigidContact])
def test_gains_want_a_reference(model, kind):
    with pytest.raises(ValueError, match=r"reference: needed where kp is not zero, got kp = 5\.0"):
        kind(model, "lf_foot", (5.0, 1.0))


def test_a_frame_of_the_world_cannot_touch():
    model, _ = load_reference("ur5")
    with pytest.raises(ValueError, match="frame: 'base_link' is fixed in the world"):
        PointContact(model, "base_link")


def test_errors_of_a_set(model):
    foot = PointContact(model, "lf_foot")
    with pytest.raises(ValueError, match=r"contacts\[2\]: frame 'lf_foot' is already in contact, by contacts\[0\]"):
        ContactSet(model, [foot, PointContact(model, "rf_foot"), PointContact(model, "lf_foot", (0, 1))])
    with pytest.raises(ValueError, match=r"contacts\[0\]: the contact of 'lf_foot' belongs to another model"):
        ContactSet(load_reference("solo12")[0], [foot])
    assert ContactSet(load_reference("hyq")[0], [foot]).frames == ("lf_foot",)  # an equal robot is the same


def test_a_foot_keeps_its_own_reference(model):
    R, p = np.eye(3), np.ones(3)
    foot = RigidContact(model, "lf_foot", (10, 2), (R, p))
    R[:], p[:] = 7.0, 7.0
    assert np.array_equal(foot.reference[0], np.eye(3)) and np.array_equal(foot.reference[1], np.ones(3))
    with pytest.raises(ValueError, match="read-only"):
        foot.reference[0][0, 0] = 1.0
    assert repr(foot).startswith("RigidContact('lf_foot', gains=(10.0, 2.0)")


def test_a_frame_is_held_once(model):
    with pytest.raises(ValueError, match=r"contacts\[1\]: frame 'lf_foot' is already in contact, by contacts\[0\]"):
        ContactSet(model, [PointContact(model, "lf_foot"), RigidContact(model, "lf_foot")])


def test_rows_of_feet_and_points(model):
    """Forces of all contacts first, then the moments of the feet."""
    contacts = ContactSet(model, [RigidContact(model, "lf_foot"), PointContact(model, "rf_foot")])
    assert contacts.rows == 9
    rows = np.arange(18.0).reshape(2, 9)
    f, moment = contacts.forces_and_moments(rows)
    assert np.array_equal(f, rows[:, :6].reshape(2, 2, 3))
    assert np.array_equal(moment[:, 0], rows[:, 6:]) and not moment[:, 1].any()
    assert np.array_equal(contacts.multiplier_rows(f, moment, 2), rows)
    assert np.array_equal(contacts.multiplier_rows(f, None, 2), rows * (np.arange(9) < 6))


def test_a_set_names_its_frames(model):
    contacts = ContactSet(model, [PointContact(model, "lf_foot"), PointContact(model, "rh_foot")])
    assert len(contacts) == 2 and repr(contacts) == "ContactSet('lf_foot', 'rh_foot')"
    assert len(ContactSet(model, [])) == 0
