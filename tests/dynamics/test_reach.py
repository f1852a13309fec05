"""Legs that bend for their feet to be somewhere: of three, six and seven joints, also among those of others."""

import numpy as np
import pytest

import dynamics
from dynamics.gait import own_joints, reach
from problems.humanoid_model import humanoid
from problems.humanoid_model import standing as humanoid_standing
from problems.quadruped_model import FEET, quadruped, standing

INERTIA = 1e-2 * np.eye(3)
LINK = (0.0, 0.0, -0.3)


def biped(axes: str, tails: bool = False):
    """Two legs with joints about these axes, a link above every pitch but the first; with a tail on every link, which
    comes before what is below it."""
    builder = dynamics.ModelBuilder(name="biped")
    builder.add_body("base", "world", dynamics.FreeFlyer(), mass=5.0, inertia=INERTIA)
    for side, y in (("left", 0.1), ("right", -0.1)):
        parent = "base"
        for i, axis in enumerate(axes):
            at = (0.0, y, 0.0) if i == 0 else LINK if "y" in axes[:i] and axis == "y" else np.zeros(3)
            name = f"{side}_{i}"
            joint, link = dynamics.Revolute(axis), {"mass": 1.0, "inertia": INERTIA}
            builder.add_body(name, parent, joint, placement=(np.eye(3), at), **link)
            if tails:
                builder.add_body(f"{name}_tail", name, dynamics.Revolute("x"), mass=0.1, inertia=INERTIA)
            parent = name
        builder.add_frame(f"{side}_foot", parent, (np.eye(3), LINK))
    return builder.build()


def bent(model, axes: str):
    """Its knees bent: the pitches fore, back, fore."""
    q = dynamics.neutral(model)
    for side in ("left", "right"):
        pitches = [i for i, axis in enumerate(axes) if axis == "y"]
        for i, angle in zip(pitches, (-0.5, 1.0, -0.5), strict=False):
            q[model.q_index[model.joint_index(f"{side}_{i}_joint")]] = angle
    return q


def bend(model, q, targets):
    """`reach` for one configuration or several, and one place or several: what moved, and what is missing of each."""
    rows, places = np.atleast_2d(q), {}
    for frame, place in targets.items():
        R, p = place if isinstance(place, tuple) else (None, place)
        R = None if R is None else np.broadcast_to(R, (len(rows), 3, 3))
        places[frame] = R, np.broadcast_to(p, (len(rows), 3))
    found, missing = reach(model, rows, places)
    return found.reshape(np.shape(q)), missing


def assert_at(model, q, targets):
    for frame, place in targets.items():
        now = dynamics.frame_placement(model, q, frame)
        R, p = place if isinstance(place, tuple) else (None, place)
        assert np.abs(now.p - p).max() < 1e-6
        assert R is None or np.abs(now.R - R).max() < 1e-6


@pytest.mark.parametrize("tails", [False, True], ids=["alone", "among others"])
@pytest.mark.parametrize(("axes", "sole"), [("xyy", False), ("zxyyyx", True), ("zxyyyxz", True), ("zxyyyx", False)])
def test_legs_of_any_number_of_joints(axes, sole, tails, rng):
    """Their joints move, and no others do."""
    model = biped(axes, tails)
    K, q = 4, np.tile(bent(model, axes), (4, 1))
    q[:, :3] += rng.uniform(-0.03, 0.03, (K, 3))
    q = dynamics.integrate(model, q, np.r_[np.zeros(3), 0.05, -0.04, 0.1, np.zeros(model.nv - 6)])
    targets = {}
    for foot in ("left_foot", "right_foot"):
        p = dynamics.frame_placement(model, bent(model, axes), foot).p + rng.uniform([-0.05, -0.05, 0.0], 0.05, (K, 3))
        targets[foot] = (np.eye(3), p) if sole else p
    found, _ = bend(model, q, targets)
    assert_at(model, found, targets)
    others = [i for i, name in enumerate(model.joint_names) if "tail" in name]
    assert np.array_equal(found[:, [model.q_index[i] for i in others]], q[:, [model.q_index[i] for i in others]])
    np.testing.assert_allclose(found[:, :7], q[:, :7], rtol=0, atol=1e-15)
    second = {foot: (p[0], p[1][1]) if sole else p[1] for foot, p in targets.items()}
    one, _ = bend(model, q[1], second)
    np.testing.assert_allclose(one, found[1], rtol=0, atol=1e-12)


def test_stretched_legs_bend(rng):
    """Where Newton's matrix is nearly singular: straight knees, the feet of which are to come up; they keep theirs."""
    model, q = humanoid(), humanoid_standing(1e-3)
    targets = {}
    for foot in ("left_foot", "right_foot"):
        R, p = dynamics.frame_placement(model, q, foot)
        targets[foot] = R, p + [0.0, 0.0, 0.05]
    found, _ = bend(model, q, targets)
    assert_at(model, found, targets)
    assert (found[[10, 16]] > 0.5).all()


def test_turned_soles():
    model, q = humanoid(), humanoid_standing()
    c, s = np.cos(0.4), np.sin(0.4)
    R = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    targets = {"left_foot": (R, dynamics.frame_placement(model, q, "left_foot").p + [0.1, 0.0, 0.02])}
    found, _ = bend(model, q, targets)
    assert_at(model, found, targets)
    hand = [dynamics.frame_placement(model, each, "left_hand").p for each in (q, found)]
    assert np.array_equal(*hand)


def test_out_of_reach_says_which_frame_and_how_far():
    """Legs of 32 cm, stretched along the line to the target at best."""
    model, q = quadruped(), np.tile(standing(), (3, 1))
    place = np.tile(dynamics.frame_placement(model, q[0], FEET[1]).p, (3, 1))
    place[2, 2] -= 0.2
    missing = bend(model, q, {FEET[1]: place})[1][FEET[1]]
    assert missing[:2].max() < 1e-9 and 0.118 < missing[2] < 0.12


def test_joints_that_move_two_frames_stay():
    model, q = quadruped(), standing()
    model = model.with_body("mast", "base", dynamics.Fixed(), mass=0.1)
    with pytest.raises(ValueError, match="frame 'mast': expected joints that move it alone, got none"):
        own_joints(model, q[None], {"mast": None})
