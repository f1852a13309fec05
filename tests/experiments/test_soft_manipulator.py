"""The study of soft robots at small size."""

import json

import numpy as np
from matplotlib.image import imread

from experiments.soft_manipulator.__main__ import main
from experiments.soft_manipulator.study import PROBLEMS, SOLVERS, random_targets


def test_study(tmp_path, capsys):
    assert main(["--targets", "2", "--out", str(tmp_path)]) == 0
    data = json.loads((tmp_path / "soft_manipulator.json").read_text())
    for name in PROBLEMS:
        costs = [data["problems"][name][solver]["cost"] for solver in SOLVERS]
        assert np.ptp(costs) < 1e-8 * min(costs)
        assert data["problems"][name]["DDP"]["iterations"] < data["problems"][name]["iLQR"]["iterations"]
        assert imread(tmp_path / f"{name}_convergence.png").std() > 0.05
        assert imread(tmp_path / f"{name}_controls.png").std() > 0.05
    targets = data["targets"]
    assert targets["same_optimum"] == 1.0 and all(s["success"] == 1.0 for s in targets["summary"].values())
    np.testing.assert_array_equal([run["target"] for run in targets["runs"]], random_targets(2, 0))
    assert imread(tmp_path / "soft_manipulator_track_shapes.png").std() > 0.05
    printed = capsys.readouterr().out
    assert "2 targets, the same optimum in 100%" in printed and "hybrid_arm_reach" in printed
