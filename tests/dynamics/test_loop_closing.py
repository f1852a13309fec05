"""Configurations that close loops, what holds them still, and what is refused."""

import numpy as np
import pytest

import dynamics
from dynamics import (
    ContactSet,
    JointCoupling,
    LoopConstraint,
    ModelBuilder,
    PointContact,
    RigidBodySystem,
    Spherical,
    close_loops,
    contact_dynamics,
)
from dynamics.contacts.loop_constraint import loop_gap, loop_rows
from tests.reference.loop_cases import framed_tree, hinges, planar_four_bar
from tests.reference.random_robots import random_states


@pytest.fixture
def tree(rng):
    return framed_tree(rng)


def test_a_loop_is_held_still(tree, rng):
    held = hinges(tree)[:2]
    q = close_loops(tree, random_states(tree, 1, rng, 0)[0][0], held)
    system = RigidBodySystem(tree, 0.01, contacts=held)
    x = system.state(q)
    system.check_start(x)
    assert np.abs(system.step(x, system.quasi_static(x)) - x).max() < 1e-9
    assert system.contact_points(x[None]).shape == (1, 2, 3)


def test_kept_joints_stay_where_they_are(tree, rng):
    loop = LoopConstraint(tree, "f0", "f1")
    q = random_states(tree, 1, rng, 0)[0][0]
    closed = close_loops(tree, q, [loop], fixed=["body 0_joint"])
    assert closed[0] == q[0]
    assert np.abs(loop_rows(tree, closed[None], loop).error).max() < 1e-10


def limb():
    """Three rods on ball joints, and a place that the last of them can reach in any direction."""
    builder = ModelBuilder()
    for name, parent, x, length in (("a", "world", 0.0, 0.5), ("b", "a", 0.5, 0.5), ("c", "b", 0.5, 0.3)):
        rod = {"mass": 1.0, "com": (length / 2, 0.0, 0.0), "inertia": 0.01 * np.eye(3)}
        builder.add_body(name, parent, Spherical(), placement=(np.eye(3), (x, 0.0, 0.0)), **rod)
    builder.add_frame("tip", "c", (np.eye(3), (0.3, 0.0, 0.0)))
    builder.add_frame("goal", "world", (np.eye(3), (0.5, 0.1, 0.2)))
    return builder.build()


@pytest.mark.parametrize("kind", ["hinge", "weld"])
def test_hinges_and_welds_are_not_closed_the_wrong_way_round(kind, rng):
    """Their rows vanish half a turn away, too."""
    model = limb()
    loop = LoopConstraint(model, "tip", "goal", kind)
    for _ in range(20):
        q = close_loops(model, dynamics.random_configuration(model, rng), [loop])
        assert max(loop_gap(model, q, loop)) < 1e-9
    builder = dynamics.model.edits.builder_of(model)
    builder.add_frame("back", "world", (np.diag([1.0, -1.0, -1.0]), (0.5, 0.1, 0.2)))
    model = builder.build()
    q = close_loops(model, q, [LoopConstraint(model, "tip", "back", kind)])
    loop = LoopConstraint(model, "tip", "goal", kind)
    assert np.abs(loop_rows(model, q[None], loop).error).max() < 1e-9
    system = RigidBodySystem(model, 0.01, contacts=[loop])
    with pytest.raises(ValueError, match=r"x0: the loop of 'tip' and 'goal' is turned by 3\.14 rad, expected at most"):
        system.check_start(system.state(q))


@pytest.mark.parametrize("tilt", [1e-9, 3.7e-6])
def test_a_planar_chain_of_rounded_figures_moves(tilt):
    """As the planar one: a right angle of 1.5708 does not lock it."""
    start, found = np.array([-1.0, -0.3, -1.8]), []
    for model in (planar_four_bar(), planar_four_bar(tilt)):
        loop = LoopConstraint(model, "end of rod", "end of rocker")
        q = close_loops(model, start, [loop])
        system = RigidBodySystem(model, 0.01, contacts=[loop])
        system.check_start(system.state(q))
        found.append(contact_dynamics(model, q, [0.0] * 3, [0.0] * 3, [loop]))
        assert not found[-1].redundant and found[-1].smallest_pivot > 0.1
    assert np.abs(found[0].a).min() > 1.0 and np.abs(found[1].a - found[0].a).max() < 1e-3
    assert np.abs(found[1].f - found[0].f).max() < 1e-3


def test_links_beside_each_other_do_not_close():
    """Across the plane, where nothing moves."""
    builder = dynamics.model.edits.builder_of(planar_four_bar())
    builder.add_frame("beside", "rocker", (np.eye(3), (0.4, 0.02, 0.0)))
    model = builder.build()
    loop = LoopConstraint(model, "end of rod", "beside")
    with pytest.raises(ValueError, match=r"'end of rod - beside' do not close .* a gap of 0\.02 m is left"):
        close_loops(model, np.array([-1.0, -0.3, -1.8]), [loop])


# ------------------------------------------------------------------------------------------------ bad input
def test_what_is_refused(tree):
    loop = LoopConstraint(tree, "f0", "f1")
    far = LoopConstraint(tree, "body 0", "f3")
    both = {"body 0_joint": 1.0, "body 4_joint": 1.0}
    cases = [
        (lambda: LoopConstraint(tree, "f0", "f9"), "frame: got 'f9'"),
        (lambda: LoopConstraint(tree, "f0", "body 2"), "frame2: got 'body 2' on body 'body 2', as 'f0'"),
        (lambda: LoopConstraint(tree, "f3", "f4"), "frame2: got 'f4' on the world, as 'f3'"),
        (lambda: LoopConstraint(tree, "f0", "f1", "bolt"), "kind: got 'bolt', expected one of 'ball', 'hinge', 'weld'"),
        (lambda: LoopConstraint(tree, "f0", "f1", axis="w"), "axis: got 'w'"),
        (lambda: LoopConstraint(tree, "f0", "f1", gains=(-1.0, 0.0)), "gains: got"),
        (lambda: LoopConstraint(tree, "f0", "f1", size=0.0), "size: got 0"),
        (lambda: ContactSet(tree, [loop, LoopConstraint(tree, "f0", "f1", "weld")]), "'f0 - f1' is already in contact"),
        (lambda: ContactSet(planar_four_bar(), [loop]), "belongs to another model"),
        (lambda: close_loops(tree, dynamics.neutral(tree), [far]), "'body 0 - f3' do not close.*a gap of"),
        (lambda: close_loops(planar_four_bar(), np.zeros(3), [loop]), "'f0 - f1' belongs to another model"),
        (lambda: close_loops(tree, np.zeros(3), [loop]), "q: got shape"),
        (lambda: close_loops(tree, dynamics.neutral(tree), [loop], fixed=["nothing"]), "fixed: got 'nothing'"),
        (lambda: JointCoupling(tree, {"body 0_joint": 1.0}), "expected at least two joints"),
        (lambda: JointCoupling(tree, both, offset=np.nan), "offset: got nan"),
        (lambda: JointCoupling(tree, both, gains=(-1.0, 0.0)), "gains: got"),
        (lambda: JointCoupling(tree, {"body 0_joint": 1.0, "body 1_joint": 1.0}), "has 3 degrees of freedom"),
        (lambda: JointCoupling(tree, {"body 0_joint": 1.0, "nothing": 1.0}), "joints: got 'nothing'"),
    ]  # fmt: skip
    for call, words in cases:
        with pytest.raises(ValueError, match=words):
            call()
    system = RigidBodySystem(tree, 0.01, contacts=[loop])
    with pytest.raises(ValueError, match=r"x0: the loop of 'f0' and 'f1' is open by .* m"):
        system.check_start(system.neutral_state)
    with pytest.raises(TypeError, match=r"loops\[0\]: got str"):
        close_loops(tree, dynamics.neutral(tree), ["f0"])
    with pytest.raises(ValueError, match="frame: got 'f0 - f1'"):
        dynamics.ContactForce(RigidBodySystem(tree, 0.01, contacts=[loop, PointContact(tree, "f2")]), "f0 - f1")
