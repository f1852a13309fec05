"""The leg that jumps: its figures against their sources, its motion against finer steps, its cost by its lengths."""

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from problems import leg_jump
from problems.leg_jump import QUADRUPED, Design, crouching, leg
from problems.quadruped_model import SEGMENT, quadruped

NAMES = "upper", "lower"


def make(lengths):
    return problems.make("leg_jump", design=lengths)


def test_links_are_those_of_the_quadruped():
    """Masses, torques, and about the centres of mass: links there are no even tubes."""
    robot, model = quadruped(), leg(QUADRUPED)
    masses, coms = [], []
    for one, names in ((model, NAMES), (robot, ("lf_upper_leg", "lf_lower_leg"))):
        links = [one.body_names.index(name) for name in names]
        parameters = dynamics.inertial_parameters(one)[links]
        masses.append(parameters[:, 0])
        coms.append(parameters[:, 3] / parameters[:, 0])
    assert masses[0] == pytest.approx(masses[1], rel=1e-9)
    np.testing.assert_allclose(coms[0], coms[1], rtol=0.2)
    assert model.effort_limit[1:] == pytest.approx(robot.effort_limit[6:8]) and model.total_mass < 0.26 * 2.6


@pytest.mark.parametrize("design", [QUADRUPED, Design(0.1, 0.21), Design(0.2, 0.12)])
def test_the_foot_is_below_the_hip(design):
    model, q0 = leg(design), crouching(design)
    assert np.abs(dynamics.frame_placement(model, q0, "foot").p).max() < 1e-12 and q0[2] == pytest.approx(-2.0)
    assert np.ptp(make(design).x0[:3] - q0) < 1e-12


def test_it_jumps(solved):
    solution = solved("leg_jump", "parallel")
    system = solution.problem.system
    places = system.contact_points(solution.xs)[:, 0]
    assert np.abs(places[:27]).max() < 1e-4 and places[-1, 2] == pytest.approx(leg_jump.RISE, abs=1e-3)
    forces = system.contact_forces(solution.xs, solution.us)[:26, 0]
    assert (forces[:, 2] > 0.0).all() and (np.abs(forces[:, 0]) < 0.6 * forces[:, 2] + 1e-6).all()
    assert np.abs(solution.us).max() == pytest.approx(2.7) and (solution.xs[:, 2] <= leg_jump.STRAIGHT + 1e-6).all()
    assert np.abs(solution.xs[-1, 3:]).max() < 0.05, "at rest for a moment"
    heights = system.center_of_mass(solution.xs[26:])[:, 2]
    assert np.diff(heights, 2).mean() / system.dt**2 == pytest.approx(-9.81, rel=1e-2)


def test_the_plan_holds_in_finer_steps(solved):
    solution = solved("leg_jump", "parallel")
    assert solution.discretization_error().relative < 1e-3
    motion = trajopt.simulate(solution, dt=5e-4, policy="open loop")
    assert motion.largest_deviation[:3].max() < 1e-3


def test_the_cost_by_the_lengths(solved):
    """The envelope theorem against problems solved again."""
    solution, start, h = solved("leg_jump", "parallel"), np.array(QUADRUPED), 2e-4
    derivatives = trajopt.sensitivity(make, start, solution)
    assert (derivatives.cost > 0.0).all(), "shorter links take less effort"
    for number, along in enumerate(np.eye(2) * h):
        costs = [trajopt.DDP().solve(make(start + s * along), warm_start=derivatives.predict(s * along)).cost
                 for s in (2.0, 1.0, -1.0, -2.0)]  # fmt: skip
        slope = (-costs[0] + 8.0 * costs[1] - 8.0 * costs[2] + costs[3]) / (12.0 * h)
        assert derivatives.cost[number] == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("design", [(0.1,), (0.1, -0.1), 0.2])
def test_lengths_are_two_positive_numbers(design):
    with pytest.raises(ValueError, match="design: got"):
        make(design)


def test_segments_are_those_of_the_quadruped():
    assert QUADRUPED == (SEGMENT, SEGMENT)
