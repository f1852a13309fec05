"""Gaits executed by MuJoCo, at small size; and MuJoCo's model of a robot on a free base."""

import json

import numpy as np
import pytest

import dynamics

pytestmark = pytest.mark.peer
mujoco = pytest.importorskip("mujoco")

from experiments import mujoco_gaits  # noqa: E402
from experiments.derivatives.chains import chain  # noqa: E402
from problems.quadruped_model import quadruped, standing  # noqa: E402
from tests.reference.random_robots import random_states, random_tree  # noqa: E402
from tests.tolerances import relative_error  # noqa: E402


def test_a_robot_on_a_free_base_falls_as_in_mujoco(rng):
    model = quadruped()
    peer = mujoco_gaits.specification(model).compile()
    q = dynamics.integrate(model, standing(), 0.3 * rng.standard_normal(model.nv))
    v, tau = rng.standard_normal(model.nv), rng.standard_normal(model.nv)
    tau[:6] = 0.0
    data = mujoco.MjData(peer)
    data.qpos[:], data.qvel[:] = dynamics.to_mujoco_state(model, np.r_[q, v])
    data.qfrc_applied[:] = tau
    mujoco.mj_forward(peer, data)
    a = dynamics.forward_dynamics(model, q, v, tau)
    np.testing.assert_allclose(data.qacc[6:], a[6:], rtol=0.0, atol=1e-9 * np.abs(a).max())


def test_inverse_dynamics_of_hinges_and_slides_as_in_mujoco(rng):
    kinds = ["revolute", "prismatic", "revolute", "prismatic", "continuous"]
    for model in (chain(6, 2), random_tree(kinds, [-1, 0, 1, 0, 3], rng)):
        spec = mujoco_gaits.specification(model)
        spec.option.disableflags = mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        peer = spec.compile()
        data, (q, v, a) = mujoco.MjData(peer), random_states(model, 1, rng)
        data.qpos, data.qvel, data.qacc = q[0], v[0], a[0]
        mujoco.mj_inverse(peer, data)
        assert relative_error(data.qfrc_inverse, dynamics.inverse_dynamics(model, q[0], v[0], a[0])) < 1e-8


def test_one_plan_on_two_floors(tmp_path, capsys):
    pytest.importorskip("example_robot_data")
    assert mujoco_gaits.main(["--quick", "--out", str(tmp_path)]) == 0
    printed, results = capsys.readouterr().out, json.loads((tmp_path / "mujoco_gaits.json").read_text())
    (row,) = results["gaits"]
    assert row["status"] == "converged" and row["plan"] in printed
    for law in mujoco_gaits.LAWS:
        assert list(row["laws"][law]) == list(mujoco_gaits.SHORT[1])
        assert not row["laws"][law]["as planned"]["fell"]
    for run in row["laws"]["default"].values():
        assert not run["fell"] and run["base"] < 20.0 and run["slip"] < 100.0


def test_a_touch_down_is_found_near_its_time():
    pressed = np.zeros(600, bool)
    pressed[[*range(100), *range(253, 600)]] = True
    assert mujoco_gaits.lateness(pressed, 0.25) == 3.0
    assert mujoco_gaits.lateness(np.zeros(600, bool), 0.25) == mujoco_gaits.WINDOW
