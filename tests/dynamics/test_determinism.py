"""The same bits however many threads share the work, and on every repetition."""

import numpy as np
import pytest

import dynamics
from dynamics.simd import LANES, threads
from tests.reference.random_robots import random_states
from tests.reference.rigid_body_models import load_reference

K = 5 * LANES + 3
FUNCTIONS = {
    "inverse_dynamics": 2,
    "forward_dynamics": 2,
    "mass_matrix": 0,
    "inverse_mass_matrix": 0,
    "bias_forces": 1,
    "kinetic_energy": 1,
    "center_of_mass_jacobian": 0,
    "inverse_dynamics_derivatives": 2,
    "forward_dynamics_derivatives": 2,
    "inverse_dynamics_second_derivatives": 2,
    "forward_dynamics_second_derivatives": 2,
    "inverse_dynamics_hessian": 3,
    "inverse_dynamics_regressor": 2,
    "forward_dynamics_hessian": 3,
}  # and how many velocity-like arguments they take
METHODS = ("step", "linearize", "hessian_products", "hessians", "closed_loop_rollout")


@pytest.fixture
def teams(monkeypatch):
    """Sizes of the teams that did the work; the smallest call may be split, and the number of threads is restored."""
    before, sizes = dynamics.num_threads(), []

    def scratch(numbers, count=1):
        sizes.append(count)
        return original(numbers, count)

    original = threads.scratch
    monkeypatch.setattr(threads, "scratch", scratch)
    monkeypatch.setattr(threads, "MINIMUM_WORK", 1)
    yield sizes
    dynamics.set_num_threads(before)


def with_threads(count, call):
    dynamics.set_num_threads(count)
    results = call()
    return results if isinstance(results, tuple) else (results,)


def check(call, teams):
    expected = with_threads(1, call)
    assert set(teams) == {1}
    for count in (2, 3, 2, 1):
        teams.clear()
        results = with_threads(count, call)
        assert max(teams) == count, "the work was split"
        for x, y in zip(results, expected, strict=True):
            assert np.array_equal(x, y)


@pytest.mark.parametrize("name", ["ur5", "joint_zoo"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(function, name, teams):
    model, _ = load_reference(name)
    arguments = random_states(model, K, np.random.default_rng(109), vectors=FUNCTIONS[function])
    check(lambda: getattr(dynamics, function)(model, *arguments), teams)


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
@pytest.mark.parametrize("name", ["ur5", "joint_zoo"])
@pytest.mark.parametrize("method", METHODS)
def test_systems(method, name, integrator, teams):
    model, _ = load_reference(name)
    rng = np.random.default_rng(110)
    system = dynamics.RigidBodySystem(model, 0.01, integrator)
    q, v, us, lam_q, lam_v = random_states(model, K, rng, vectors=4)
    xs, ndx = np.hstack([q, v]), system.ndx
    arguments = {
        "hessian_products": (xs, us, np.hstack([lam_q, lam_v])),
        "closed_loop_rollout": (xs[0], xs[:4], us[:3], us[3:6], np.zeros((3, system.nu, ndx)), rng.uniform(0, 1, K)),
    }
    call = getattr(system, method)
    check(lambda: call(*arguments.get(method, (xs, us))), teams)


def test_nothing_is_left_over_from_other_calls():
    """Workspaces are reused: what other robots and functions left there does not show."""
    rng = np.random.default_rng(111)
    model, _ = load_reference("hyq")
    arguments = random_states(model, 3, rng, vectors=3)
    before = dynamics.forward_dynamics_hessian(model, *arguments)
    for block in threads._state.blocks.values():
        block.fill(np.nan)
    for x, y in zip(dynamics.forward_dynamics_hessian(model, *arguments), before, strict=True):
        assert np.array_equal(x, y)


@pytest.mark.parametrize("count", [0, -1, 1.5, True, None])
def test_number_of_threads_must_be_positive(count):
    with pytest.raises(ValueError, match=r"count: got .*, expected an integer of at least 1"):
        dynamics.set_num_threads(count)
