"""Reactions of closed chains and forces of prescribed joints: equations, identities, and derivatives by differences."""

from functools import cache

import numpy as np
import pytest

from dynamics import Prismatic, Revolute, Spherical, rods
from tests.reference.rod_robots import SOFT, hybrid_builder
from tests.tolerances import CENTRAL_DIFFERENCES, IDENTITY, relative_error

BASIS = rods.LegendreBasis(torsion=0, bending_y=2, bending_z=1, stretch=0)


@cache
def moving() -> rods.SoftRobot:
    """The branched robot, held to the world along a rod and by a slide between its branches."""
    builder = hybrid_builder()
    builder.add_wrench("plate", point=(0.1, -0.2, 0.3))
    builder.add_closure("ball", "flap", "world", Spherical(), None, (np.eye(3), [0.5, 0.1, 0.3]), 0.7)
    builder.add_closure("slide", "tail", "weight", (Prismatic("x"), Spherical()), stiffness=2.0)
    return rods.SoftRobot(builder.build(), torques=("shoulder", "slide"))


@cache
def resting() -> rods.SoftRobot:
    """Two arms joined by a hinge, one of them on a table that turns."""
    builder = rods.RodModelBuilder()
    builder.add_body("table", "world", Revolute("z"), mass=1.0, inertia=0.01 * np.eye(3))
    builder.add_rod("one", "table", 0.4, rods.Circular(0.02), SOFT, BASIS, placement=(np.eye(3), [0.0, 0.05, 0.0]))
    turned = np.diag([-1.0, -1.0, 1.0])
    builder.add_rod("two", "world", 0.4, rods.Circular(0.015), SOFT, BASIS, placement=(turned, [0.75, 0.0, 0.0]))
    builder.add_closure("joint", "one", "two", Revolute("y"), None, (turned, np.zeros(3)))
    builder.add_wrench("one", at=0.5)
    builder.add_wrench("two", "moment", follower=True)
    return rods.SoftRobot(builder.build(), [rods.Tendon.straight("two", 0.008, 0.0)])


@pytest.mark.parametrize("prescribed", [{}, {"weight": 0.7, "shoulder": [-0.4]}])
def test_reactions_and_their_derivatives(prescribed, rng):
    robot = moving()
    n, nu = robot.nq, robot.nu
    q, v = rng.uniform(-0.4, 0.4, (2, n))
    u, wrenches = rng.normal(size=nu), rng.normal(size=(1, 6))
    found = rods.reactions(robot, q, v, u, prescribed, wrenches)
    r = robot.residual(q, v, found.a, u, wrenches, found.multipliers)
    size = np.abs(robot.residual(q, v, 0.0 * v, u, wrenches)).max()
    for name, force in found.forces.items():
        own = robot.model.joint_coordinates[name]
        assert relative_error(force, r[own]) < 1e-8 and np.array_equal(found.a[own], np.ravel(prescribed[name]))
        r[own] = 0.0
    assert np.abs(r).max() < 1e-8 * size
    derivatives = rods.reaction_derivatives(robot, q, v, u, prescribed, wrenches)
    if not prescribed:
        assert np.abs(found.a - robot.forward_dynamics(q, v, u, wrenches)).max() <= IDENTITY * np.abs(found.a).max()
        for one, other in zip(derivatives, robot.forward_dynamics_derivatives(q, v, u, wrenches), strict=False):
            assert relative_error(one.a, other) < 1e-8

    def at(dq, dv, du, dp):
        given = {name: np.ravel(a) + dp[k] for k, (name, a) in enumerate(prescribed.items())}
        return rods.reactions(robot, q + dq, v + dv, u + du, given, wrenches)

    for k, (part, count) in enumerate(zip(derivatives, (n, n, nu, len(prescribed)), strict=True)):
        if not count:
            assert part.a.shape == (n, 0) and part.multipliers.shape == (robot.model.constraint_count, 0)
            continue
        d = [np.zeros(size) for size in (n, n, nu, len(prescribed))]
        d[k] = rng.normal(size=count)
        h = 1e-5 if k < 2 else 1.0  # they are linear in controls and accelerations
        ends = [at(*(sign * h * x for x in d)) for sign in (1.0, -1.0)]
        pairs = [(part.a, ends[0].a - ends[1].a), (part.multipliers, ends[0].multipliers - ends[1].multipliers)]
        pairs += [(part.forces[name], ends[0].forces[name] - ends[1].forces[name]) for name in prescribed]
        for exact, difference in pairs:
            assert relative_error(exact @ d[k], difference / (2.0 * h)) < CENTRAL_DIFFERENCES


def test_batches_and_robots_without_closed_chains(rng):
    """A batch gives what its points give; without chains there is an acceleration alone."""
    robot = moving()
    q, v = rng.uniform(-0.4, 0.4, (2, 3, robot.nq))
    u = rng.normal(size=robot.nu)
    together, one = (rods.reactions(robot, q[k], v[k], u, {"weight": 1.0}) for k in (slice(None), 1))
    assert np.array_equal(together.a[1], one.a) and np.array_equal(together.forces["weight"][1], one.forces["weight"])
    whole, single = (rods.reaction_derivatives(robot, q[k], v[k], u, {"weight": 1.0}) for k in (slice(None), 1))
    for x, y in zip(whole, single, strict=True):
        assert np.array_equal(x.multipliers[1], y.multipliers)
    free = rods.SoftRobot(hybrid_builder().build())
    n = free.nq
    found = rods.reactions(free, q[0, :n], v[0, :n], [])
    assert found.multipliers.shape == (0,) and not found.forces
    assert relative_error(found.a, free.forward_dynamics(q[0, :n], v[0, :n], [])) < 1e-8
    assert rods.reaction_derivatives(free, q[0, :n], v[0, :n], []).du.a.shape == (n, 0)


def test_derivatives_of_equilibria(rng):
    """Of the shape, of the forces between the arms, and of the moment that holds the table, in all that loads them."""
    robot, h = resting(), 1e-5
    u, wrenches, held = np.array([3.0]), 0.05 * rng.normal(size=(2, 6)), 0.1

    def rest(du, dw, dp, q0=None):
        given = {"prescribed": {"table": held + dp[0]}, "tolerance": 1e-12}
        return rods.static_equilibrium(robot, u + du, q0, wrenches + dw.reshape(2, 6), **given)

    zeros = [np.zeros(1), np.zeros(12), np.zeros(1)]
    found = rest(*zeros)
    assert found.converged and robot.model.constraint_count == 5
    derivatives = rods.equilibrium_derivatives(robot, found, u, wrenches)
    for k, part in enumerate(derivatives):
        d = [x.copy() for x in zeros]
        d[k] = rng.normal(size=len(d[k]))
        ends = [rest(*(sign * h * x for x in d), found.q) for sign in (1.0, -1.0)]
        for exact, values in (
            (part.q, [end.q for end in ends]), (part.multipliers, [end.multipliers for end in ends]),
            (part.prescribed_forces["table"], [end.prescribed_forces["table"] for end in ends]),
        ):  # fmt: skip
            assert relative_error(exact @ d[k], (values[0] - values[1]) / (2.0 * h)) < 10.0 * CENTRAL_DIFFERENCES


def test_no_derivatives_where_there_is_no_rest():
    robot = resting()
    found = rods.static_equilibrium(robot, [3.0], max_iterations=1, method="newton")
    with pytest.raises(ValueError, match=r"rest: got an equilibrium that has not converged \(too many"):
        rods.equilibrium_derivatives(robot, found, [3.0])
