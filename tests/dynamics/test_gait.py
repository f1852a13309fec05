"""Plans of steps: what holds where, the paths of feet and base, and states along these."""

import numpy as np
import pytest

import dynamics
import trajopt
from problems.humanoid_model import FEET as SOLES
from problems.humanoid_model import SOLE, humanoid
from problems.humanoid_model import standing as humanoid_standing
from problems.quadruped_model import FEET, quadruped, standing

DIAGONALS = ("lf_foot", "rh_foot"), ("rf_foot", "lh_foot")
STRIDE = np.array([0.08, 0.02, 0.0])


def trot(steps: int, stride=STRIDE, **options):
    plan = [(5, ()), *((15, DIAGONALS[i % 2]) for i in range(steps)), (5, ())]
    return dynamics.Gait(quadruped(), standing(), FEET, plan, stride, 0.04, 0.01, **options)


def assert_follows(gait, xs):
    """Feet are on their paths, held feet on their contacts, impacts change no configuration, velocities are right."""
    model, system = gait.model, gait.system
    assert xs.shape == (system.horizon + 1, system.nx) and np.abs(xs[0] - gait.start).max() < 1e-12
    q, v = xs[:, : model.nq], xs[:, model.nq :]
    for foot, path in gait.foot_targets.items():
        placed = dynamics.frame_placement(model, q, foot)
        assert np.abs(placed.p - path).max() < 1e-6
        if gait.sole is not None:
            assert np.abs(placed.R - placed.R[0]).max() < 1e-6
    for segment in system.segments:
        for contact in segment.system.contacts.contacts:
            wanted = contact.reference if gait.sole is None else contact.pose[1]
            there = gait.foot_targets[contact.frame][segment.start : segment.stop + 1]
            assert np.abs(there - wanted).max() < 1e-12
    np.testing.assert_allclose(q[:, :3], gait.base_path, rtol=0, atol=1e-12)
    moved = dynamics.difference(model, q[:-1], q[1:])
    assert np.abs(moved - system.durations[:, None] * v[1:]).max() < 1e-12


@pytest.mark.parametrize("steps", [1, 2, 12])
def test_a_trot_of_any_number_of_steps(steps):
    """The base stays among the feet, however long the way."""
    gait = trot(steps)
    assert_follows(gait, gait.states())
    assert gait.system.idle.sum() == steps and len(gait.swings) == 2 * steps
    feet = np.mean(list(gait.foot_targets.values()), axis=0)
    assert np.abs(gait.base_shift - (feet - feet[0])).max() < 0.05
    np.testing.assert_allclose(gait.base_shift[-1], 0.5 * steps * STRIDE, rtol=0, atol=1e-12)
    np.testing.assert_allclose(gait.end[:3] - gait.start[:3], 0.5 * steps * STRIDE, rtol=0, atol=1e-12)


def test_footholds_and_strides_of_steps():
    """Onto a box, by a place; then by a stride of its own."""
    up = dynamics.frame_placement(quadruped(), standing(), "lf_foot").p + [0.1, 0.0, 0.05]
    plan = [(5, ()), (20, {"lf_foot": up, "rh_foot": None}), (5, ()), (20, FEET[:1]), (5, ())]
    strides = np.array([[0.0, 0, 0], [0.04, 0, 0], [0.0, 0, 0], [0.0, 0.03, 0], [0, 0, 0]])
    gait = dynamics.Gait(quadruped(), standing(), FEET, plan, strides, 0.04, 0.01)
    first, other, second = gait.swings
    assert first[:3] == ("lf_foot", 5, 25) and np.array_equal(first.path[-1], up)
    np.testing.assert_allclose(other.path[-1] - other.path[0], strides[1], rtol=0, atol=1e-15)
    np.testing.assert_allclose(second.path[-1] - up, strides[3], rtol=0, atol=1e-15)
    assert first.path[:, 2].max() > up[2] and repr(first).startswith("Swing(foot='lf_foot', start=5, stop=25")
    assert_follows(gait, gait.states())


def test_a_foot_that_is_in_the_air_over_phases_makes_one_step():
    """A run: between the diagonals nothing holds."""
    plan = [(5, ()), (10, DIAGONALS[0]), (8, FEET), (10, DIAGONALS[1]), (5, ())]
    gait = dynamics.Gait(quadruped(), standing(), FEET, plan, STRIDE, 0.04, 0.01)
    assert [(s.foot, s.start, s.stop) for s in gait.swings] == [
        ("lf_foot", 5, 23), ("rh_foot", 5, 23), ("rf_foot", 15, 34), ("lh_foot", 15, 34),
    ]  # fmt: skip
    assert all(np.allclose(s.path[-1] - s.path[0], STRIDE, rtol=0, atol=1e-15) for s in gait.swings)
    assert_follows(gait, gait.states())


def test_a_plan_may_end_in_the_air():
    plan = [(5, ()), (10, FEET[:1])]
    gait = dynamics.Gait(quadruped(), standing(), FEET, plan, STRIDE, 0.04, 0.01)
    assert gait.system.horizon == 15 and gait.swings[0].stop == 15
    assert_follows(gait, gait.states())


def test_soles():
    plan = [(8, ()), (10, SOLES[1:]), (4, ()), (10, SOLES[:1]), (8, ())]
    gait = dynamics.Gait(humanoid(), humanoid_standing(), SOLES, plan, (0.2, 0, 0), 0.05, 0.02, SOLE)
    assert_follows(gait, gait.states())
    cones = gait.friction_cones(0.6)
    assert {cone.name for cone in cones} == {f"friction of {feet}" for feet in (", ".join(SOLES), *SOLES)}
    assert sorted(np.concatenate([cone.knots for cone in cones])) == gait.moving.tolist()
    assert all(isinstance(cone.residual, dynamics.WrenchCone) for cone in cones)
    landings = gait.friction_cones(0.6, impacts=True)
    landings = [cone for cone in landings if cone.name not in {each.name for each in cones}]
    assert {cone.name for cone in landings} == {f"impulses on {', '.join(SOLES)}"}
    assert all(isinstance(cone.residual, dynamics.WrenchCone) and cone.residual.nu is None for cone in landings)
    idle = sorted(set(range(gait.system.horizon)) - set(gait.moving.tolist()))
    assert np.concatenate([cone.knots for cone in landings]).tolist() == idle
    with pytest.raises(TypeError, match="impacts: got 1"):
        gait.friction_cones(0.6, impacts=1)


def test_legs_that_cannot_reach_are_named():
    gait = trot(4, (0.5, 0.0, 0.0))
    with pytest.raises(ValueError, match=r"plan: foot '\w+' cannot reach its path, at knot \d+ it is 0\.\d+ m away"):
        gait.states()
    far = trot(2, base=lambda times: np.outer(times, [0.0, 0.0, 1.0]))
    with pytest.raises(ValueError, match=rf"at knot {far.system.horizon} it is"):
        far.states()


def test_a_way_of_the_base_of_its_own():
    gait = trot(2, base=lambda times: np.outer(times / times[-1], [0.08, 0.0, -0.02]))
    np.testing.assert_allclose(gait.base_path[-1] - gait.base_path[0], [0.08, 0.0, -0.02], rtol=0, atol=1e-15)
    assert_follows(gait, gait.states())
    with pytest.raises(ValueError, match="base: got shape"):
        trot(2, base=lambda times: times)
    with pytest.raises(TypeError, match="base: got float, expected a function of times"):
        trot(2, base=0.5)


def test_it_needs_a_floating_base_and_feet_of_their_own():
    builder = dynamics.ModelBuilder()
    builder.add_body("leg", "world", dynamics.Revolute("y"), mass=1.0, inertia=np.eye(3))
    with pytest.raises(ValueError, match="model: expected one with a floating base"):
        dynamics.Gait(builder.build(), [0.0], ["leg"], [(3, ())], np.zeros(3), 0.0, 0.01)
    with pytest.raises(ValueError, match="frame 'lf_foot': expected joints that move it alone, got none"):
        dynamics.Gait(quadruped(), standing(), ["lf_foot", "lf_lower_leg"], [(3, ())], np.zeros(3), 0.0, 0.01)


def problem_of(gait, **given):
    model, system = gait.model, gait.system
    posture = trajopt.StateCost(system, gait.start, np.r_[np.zeros(3), np.ones(15), np.full(18, 1e-2)])
    costs = [[posture, trajopt.ControlCost(0.1)] if t in gait.moving else [] for t in range(system.horizon)]
    for foot, start, stop, path in gait.swings:
        place = dynamics.FrameTranslation(model, foot, np.zeros(3))
        for t in range(start, stop):
            costs[t].append(trajopt.ResidualCost(place, 1e3, reference=path[t - start]))
        costs[stop].append(trajopt.ResidualCost(place, 1e5, reference=path[-1]))
    limits = [
        trajopt.ResidualConstraint(cone, cone.lower, cone.upper, at=knots, name=name)
        for cone, knots, name in gait.friction_cones(0.6)
    ]
    return trajopt.Problem(
        system, gait.start, system.horizon, costs, [trajopt.StateCost(system, gait.end, 1e3)],
        [trajopt.ControlBounds.from_model(system), *limits], us_init="quasi_static", **given,
    )  # fmt: skip


def test_four_steps_from_the_states_of_the_gait_and_what_is_said_without():
    """From torques that stand alone the solve does not arrive, and the advice is to take these states."""
    gait, advice = trot(4), "Try: start from states in which feet are where they are to be, xs_init=gait.states() of a"
    solution = trajopt.DDP().solve(problem_of(gait, xs_init=gait.states()))
    assert solution.converged and np.abs(solution.xs[-1, :3] - gait.end[:3]).max() < 0.01
    assert "Try:" not in solution.explain()
    short = trajopt.DDP(max_iterations=3)
    alone = short.solve(problem_of(gait))
    assert not alone.converged and advice in " ".join(alone.explain().split())
    for given in (short.solve(problem_of(gait), xs=gait.states()), short.solve(problem_of(gait), warm_start=solution)):
        assert "gait.states()" not in given.explain()
