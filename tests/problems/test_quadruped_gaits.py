"""The quadruped's problems: their plans in knots, and what their solutions keep and reach."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dynamics
import problems
import trajopt
from dynamics.gait import reach
from experiments.ilqr_vs_ddp.starts import controls
from experiments.ilqr_vs_ddp.study import settled
from experiments.quadruped.gaits import SOLVERS, TOLERANCE, feasibility
from problems import quadruped_jump, quadruped_stand, quadruped_trot, quadruped_walk
from problems.gaits import DEFAULT, Gait, knots_of
from problems.quadruped_model import FEET, LEGS, quadruped, standing, walker

PLANS = {"walk": quadruped_walk.PLAN, "trot": quadruped_trot.PLAN, "jump": quadruped_jump.PLAN}
IMPACTS = {"walk": 4, "trot": 2, "jump": 1}
STRIDES = {"walk": 0.08, "trot": 0.1, "jump": 0.2}
NAMES = ("quadruped_stand", *(f"quadruped_{gait}" for gait in PLANS))


@given(st.sampled_from(sorted(PLANS)), st.integers(1, 300))
def test_knots_fill_the_horizon(gait, horizon):
    plan, impacts = PLANS[gait], IMPACTS[gait]
    if horizon < len(plan) + impacts:
        with pytest.raises(ValueError, match=f"expected at least {len(plan) + impacts} for this gait"):
            knots_of(plan, horizon)
        return
    counts = knots_of(plan, horizon)
    assert sum(counts) == horizon - impacts and min(counts) >= 1
    shares = np.array([share for share, _ in plan])
    wanted = shares / shares.sum() * (horizon - impacts)
    assert np.abs(counts - wanted).max() <= 2.0 + len(plan)


def test_legs_reach_their_feet(rng):
    model, K = quadruped(), 5
    q = np.tile(standing(), (K, 1))
    feet = {f: dynamics.frame_placement(model, q, f).p + rng.uniform(-0.04, 0.04, (K, 3)) for f in FEET}
    bent, _ = reach(model, q, {foot: (None, place) for foot, place in feet.items()})
    assert np.array_equal(bent[:, :7], q[:, :7])
    for foot, place in feet.items():
        assert np.abs(dynamics.frame_placement(model, bent, foot).p - place).max() < 1e-12


@pytest.mark.parametrize("gait", PLANS)
def test_the_first_states_follow_the_plan(gait):
    problem = problems.make(f"quadruped_{gait}")
    system, xs = problem.system, problem.xs_init
    assert system.idle.sum() == IMPACTS[gait] and np.abs(xs[0] - problem.x0).max() < 1e-12
    places, frames = system.contact_points(xs), system.contact_frames
    for segment in system.segments:
        held = [frames.index(frame) for frame in segment.system.contact_frames]
        stay = places[segment.start : segment.stop + 1, held]
        assert np.abs(stay - stay[:1]).max(initial=0.0) < 1e-12
    assert np.abs(places[-1] - places[0] - [STRIDES[gait], 0.0, 0.0]).max() < 1e-12
    assert np.abs(places[..., 2]).max() > 0.03 and places[..., 2].min() > -1e-12


def test_standing_starts_with_its_feet_on_the_ground():
    problem = problems.make("quadruped_stand")
    places, xs = problem.system.contact_points(problem.xs_init), problem.xs_init
    assert np.abs(xs[0] - problem.x0).max() < 1e-12 and np.abs(places - places[0]).max() < 1e-12
    assert np.abs(xs[-1, :3] - xs[0, :3] - quadruped_stand.SHIFT).max() < 1e-12
    moved = problem.system.difference(xs[:-1], xs[1:])[:, :18]
    assert np.abs(moved - problem.system.dt * xs[1:, 19:]).max() < 1e-12


@pytest.mark.parametrize("solver", [trajopt.ILQR(), trajopt.DDP()], ids=["ilqr", "parallel"])
def test_standing_from_noisy_torques(solver, solved):
    """Torques that alone let the robot fall; multipliers times slacks are to be as small as the difference of costs."""
    solver = replace(solver, complementarity_tolerance=1e-10)
    problem, reference = problems.make("quadruped_stand"), solved("quadruped_stand", "parallel")
    for number in range(4):
        us = controls("quadruped_stand", problem, number, seed=0)
        fallen = problem.system.rollout(problem.x0, us)
        assert not np.isfinite(fallen).all() or np.abs(fallen[-1, 19:]).max() > 1.0
        solution = solver.solve(replace(problem, us_init=us))
        assert solution.converged and solution.cost == pytest.approx(reference.cost, rel=1e-8)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("solver", ["ilqr", "parallel"])
def test_solutions_keep_the_limits(name, solver, solved):
    solution = solved(name, solver)
    problem = solution.problem
    assert solution.converged and solution.violation < 1e-7
    found = feasibility(problem, solution)
    assert found["torque_excess"] == 0.0 and found["cone_excess"] < 1e-4 and found["drift"] < 1e-4
    assert np.abs(solution.xs[-1, 19:]).max() < 0.05, "it comes to rest"


@pytest.mark.parametrize("gait", PLANS)
def test_feet_come_down_on_their_footholds(gait, solved):
    solution = solved(f"quadruped_{gait}", "parallel")
    system = solution.problem.system
    places = system.contact_points(solution.xs)
    assert np.abs(places[-1] - places[0] - [STRIDES[gait], 0.0, 0.0]).max() < 5e-4
    assert places[..., 2].max() > 0.03 and places[..., 2].min() > -1e-3
    assert abs(solution.xs[-1, 0] - solution.xs[0, 0] - STRIDES[gait]) < 5e-3


def test_the_jump_flies(solved):
    """Between take-off and touch-down the centre of mass is in free fall."""
    solution = solved("quadruped_jump", "parallel")
    system = solution.problem.system
    (flight,) = [s for s in system.segments if system.durations[s.start] > 0 and not s.system.contact_frames]
    heights = system.center_of_mass(solution.xs[flight.start : flight.stop + 1])[:, 2]
    fall = np.diff(heights, 2) / system.dt**2
    assert abs(fall.mean() + 9.81) < 0.02 and np.abs(fall + 9.81).max() < 0.5 and heights.max() - standing()[2] > 0.05
    assert not system.contact_forces(solution.xs, solution.us)[flight.start : flight.stop].any()


@pytest.mark.parametrize("name", ["quadruped_trot", "quadruped_jump"])
def test_ddp_needs_fewer_iterations(name, solved):
    early = SOLVERS["DDP parallel"].solve(problems.make(name))
    assert early.cost == pytest.approx(solved(name, "ilqr").cost, rel=1e-9)
    assert settled(early, TOLERANCE).iteration < settled(solved(name, "ilqr"), TOLERANCE).iteration


def test_legs_and_feet_have_the_same_order():
    assert [foot.split("_")[0] for foot in FEET] == list(LEGS)


@pytest.mark.parametrize("mass", [4.0, 6.0, 7.0])
def test_a_trot_with_a_load(mass):
    """Two to three times the quadruped's own weight on its back, where most limits of motors press."""
    robot = walker()
    load = {"mass": mass, "com": (0.0, 0.0, 0.06), "inertia": mass * 0.1**2 / 6.0 * np.eye(3)}
    loaded = robot._replace(model=robot.model.with_body("load", "base", **load))
    gait = Gait(loaded, PLANS["trot"], (0.12, 0.04, 0.0), 0.04, 62, 0.01, DEFAULT)
    solution = trajopt.DDP().solve(gait.problem("loaded"))
    assert solution.converged and solution.violation < 1e-7
    assert solution.iterations < 100
