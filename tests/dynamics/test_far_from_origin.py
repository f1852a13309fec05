"""Robots far from the world's origin: nothing that does not depend on where the robot is loses digits there."""

import numpy as np
import pytest

import dynamics
from dynamics import PointContact, RigidBodySystem
from problems.quadruped_model import FEET, quadruped
from tests.reference.random_robots import random_states, random_tree
from tests.tolerances import relative_error

FAR = np.array([5e6, -3e6, 4e5])
"""m; more than from the equator to the pole, in the finest steps of 1e-9 m."""
ROOTS = {"free flyer": slice(0, 3), "planar": slice(0, 2), "translation": slice(0, 3)}
"""Roots that travel, and where their positions are in q."""


def moved(root, q):
    """The same configuration far away."""
    there = q.copy()
    there[..., ROOTS[root]] += FAR[: ROOTS[root].stop]
    return there


def flat(*results):
    """All numbers of results, as a list of arrays."""
    return [np.asarray(x) for each in results for x in (each if isinstance(each, tuple) else (each,))]


def tree(root, rng):
    return random_tree([root, "revolute", "spherical", "prismatic", "revolute"], [-1, 0, 1, 2, 0], rng)


@pytest.mark.parametrize("root", ROOTS)
def test_dynamics_are_the_same_anywhere(root, rng):
    """To the last bit, with derivatives, Hessians and loads."""
    model = tree(root, rng)
    q, v, a, w = random_states(model, 3, rng, 3)
    tau, wrenches = rng.normal(size=v.shape), rng.normal(size=(3, len(model.body_names), 6))

    def everything(q):
        loads = {"external_wrenches": wrenches, "wrench_reference": "local_world_aligned"}
        return flat(
            dynamics.inverse_dynamics(model, q, v, a, **loads), dynamics.mass_matrix(model, q),
            dynamics.forward_dynamics(model, q, v, tau), dynamics.kinetic_energy(model, q, v),
            dynamics.inverse_dynamics_derivatives(model, q, v, a),
            dynamics.forward_dynamics_derivatives(model, q, v, tau),
            dynamics.inverse_dynamics_hessian(model, q, v, a, w),
            dynamics.forward_dynamics_hessian(model, q, v, tau, w),
            *(dynamics.frame_jacobian(model, q, "body 3", each) for each in ("local", "local_world_aligned")),
            dynamics.frame_acceleration(model, q, v, a, "body 4"),
            dynamics.FrameVelocity(model, "body 3").evaluate(np.hstack([q, v]), np.zeros((3, 0))),
            dynamics.ControlGravity(model).evaluate(np.hstack([q, v]), tau),
        )  # fmt: skip

    for near, far in zip(everything(q), everything(moved(root, q)), strict=True):
        np.testing.assert_array_equal(far, near)


def test_two_robots_side_by_side(rng):
    """Positions of all trees count from the first body, and what they weigh, from their own centre of mass."""
    model = dynamics.combine({"one": quadruped(), "other": quadruped()})
    (q,), (v,), (a,) = random_states(model, 1, rng, 2)
    far = q.copy()
    for root in np.flatnonzero(model.arrays.parent < 0):
        far[model.q_index[root] :][:3] += FAR
    near_tau, far_tau = (dynamics.inverse_dynamics(model, x, v, a) for x in (q, far))
    assert relative_error(far_tau, near_tau) < 1e-8  # places are known to 1e-9 m there
    momentum = dynamics.CentroidalMomentum(model)
    near_h, far_h = (momentum.evaluate(np.r_[x, v][None], np.zeros((1, 0))) for x in (q, far))
    assert relative_error(far_h, near_h) < 1e-8


def test_contacts_hold_points_of_the_world(rng):
    """With their drift taken back: places in the world and their references are compared before all else."""
    model = quadruped()
    (q,), (v,) = random_states(model, 1, rng, 1)
    there, tau = moved("free flyer", q), np.zeros(model.nv)
    places = {foot: dynamics.frame_placement(model, q, foot).p + 0.01 * rng.normal(size=3) for foot in FEET[:2]}

    def held(q, shift):
        contacts = [PointContact(model, foot, reference=p + shift) for foot, p in places.items()]
        system = RigidBodySystem(model, 0.01, contacts=contacts)
        x, lam = system.state(q, v), np.ones((1, system.ndx))
        parts = system.linearize(x[None], tau[None]), system.contact_forces(x[None], tau[None])
        return flat(system.step(x, tau)[model.nq :], *parts, system.hessian_products(x[None], tau[None], lam))

    for near, far in zip(held(q, 0.0), held(there, FAR), strict=True):
        assert relative_error(far, near) < 1e-7  # of references, 1e-9 m, times a gain of 100/s^2
