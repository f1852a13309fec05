"""What the experiment on standing legs times is right: each way gives what contact dynamics gives."""

import json

import numpy as np
import pytest

import dynamics
from dynamics.simd import launch
from experiments.quadruped.following import drive_torques, following_numbers
from experiments.quadruped.structure import ITERATION, PLAIN, Rollouts, calls, full_torques, iterate_at, main, split
from tests.tolerances import relative_error
from trajopt.solvers.iterate import ALPHAS

KNOTS = 12
TOLERANCE, TRAJECTORY = 1e-10, 1e-8


@pytest.fixture(scope="module")
def iterate():
    return iterate_at(KNOTS)


def test_rollouts_are_the_same_trajectories(iterate):
    """All step lengths by elimination; and following the base's accelerations of one of them."""
    rollouts = Rollouts(iterate)
    system, steps = iterate.problem.system, range(len(ALPHAS))
    rollouts.contact_dynamics()
    expected = [rollouts.trajectory(i) for i in steps]
    rollouts.elimination()
    for i in steps:
        np.testing.assert_allclose(rollouts.trajectory(i), expected[i], rtol=0, atol=TRAJECTORY)
    assert np.abs(expected[0] - iterate.xs).max() > 1e3 * TRAJECTORY
    base = slice(system.nq, system.nq + 6)
    followed = rollouts.follow(np.diff(expected[0][:, base], axis=0) / system.dt)
    np.testing.assert_allclose(followed, expected[0], rtol=0, atol=TRAJECTORY)


def test_iterations_are_the_same(iterate):
    timed = calls(iterate)
    step, plain = timed[ITERATION](), timed[PLAIN]()
    np.testing.assert_allclose(plain.candidate.xs, step.candidate.xs, rtol=0, atol=TRAJECTORY)


def test_feedback_to_the_base_is_that_of_the_torques_to_first_order(iterate):
    rollouts = Rollouts(iterate)
    rollouts.contact_dynamics()
    expected = [rollouts.trajectory(i) for i in range(len(ALPHAS))]
    rollouts.following()
    apart = [np.abs(rollouts.trajectory(i) - expected[i]).max() for i in (1, 2, 3)]
    assert 0.0 < apart[0] < 0.1 * np.abs(expected[1] - iterate.xs).max()
    np.testing.assert_allclose(np.divide(apart[:-1], apart[1:]), 4.0, rtol=0.15)


@pytest.mark.processor
def test_torques_give_the_accelerations_and_are_the_least(iterate):
    system = iterate.problem.system
    model, feet, legs = system.model, system.contacts, system.legs
    q, v = split(model, iterate.xs[:-1])
    tau = np.empty_like(iterate.us)
    launch(drive_torques, KNOTS, following_numbers(model, feet, legs), model.block, legs, q, v, iterate.a, tau)
    found = dynamics.contact_dynamics(model, q, v, full_torques(tau), feet).a
    assert relative_error(found, iterate.a) < TOLERANCE
    units = np.eye(tau.shape[1])
    moved = np.stack([dynamics.contact_dynamics(model, q, v, full_torques(tau + e), feet).a - found for e in units], 2)
    _, sizes, rows = np.linalg.svd(moved)  # accelerations are affine in torques: those of all but six rows move nothing
    assert np.all(sizes[:, 6:] < TOLERANCE * sizes[:, :1]) and np.all(sizes[:, 5] > 1e-3 * sizes[:, 0])
    internal = np.einsum("tij,tj->ti", rows[:, 6:], tau)  # on these the least torques stand upright
    assert np.all(np.abs(internal) < TOLERANCE * np.linalg.norm(tau, axis=1, keepdims=True))
    assert np.all(np.linalg.norm(tau, axis=1) < (1.0 + TOLERANCE) * np.linalg.norm(iterate.us, axis=1))


def test_table_and_data(tmp_path, capsys):
    assert main(["--knots", str(KNOTS), "--repeats", "1", "--out", str(tmp_path)]) == 0
    times = json.loads((tmp_path / "structure.json").read_text())["microseconds_per_knot"]
    printed = capsys.readouterr().out
    assert all(name in printed and 0.0 < t < np.inf for name, t in times.items())
    assert ITERATION in times and len(times) == 8
