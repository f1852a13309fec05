"""Plans executed at 1 kHz, at small size."""

import json

from experiments import execution


def test_two_problems_and_a_plant(tmp_path, capsys):
    assert execution.main(["--quick", "--out", str(tmp_path)]) == 0
    printed, results = capsys.readouterr().out, json.loads((tmp_path / "execution.json").read_text())
    assert [row["problem"] for row in results["execution"]] == list(execution.SHORT[0])
    for row in results["execution"]:
        assert row["status"] == "converged" and row["problem"] in printed and row["call"] > 0.0
        for law in execution.LAWS:
            right, wrong = row["right"][law], row["wrong"][law]
            assert right["rms"] <= right["off"] < 1e-4 < wrong["off"] < 0.5
            assert right["jump"] < 1.1
    (row,) = results["gains"]
    assert row["plant"] == "cartpole" and row["draws"] == 2
    for law in ("gains held", "gains interpolated", "controls linear"):
        assert row[law]["kept"] == 2 and 0.0 < row[law]["rms"] < row[law]["off"] < 0.5
        assert 0.5 < row[law]["off over held"] < 2.0
    assert row["gains held"]["off over held"] == 1.0
    (row,) = results["legs"]
    assert row["problem"] == "quadruped_stand" and row["status"] == "converged" and "gains, joints, hold" in printed
    assert row["gains"]["stiffness"][0] < row["gains, hold"]["stiffness"][0] < 0.0
    assert row["gains, hold"]["stiffness"][0] < row["gains, joints, hold"]["stiffness"][0]
    for key in ("gains, hold", "gains, joints, hold"):
        assert row[key]["right"]["off"] < 1e-4 and row[key]["right"]["after"] < 1e-4
    assert row["gains, joints, hold"]["wrong"]["after"] < row["gains, hold"]["wrong"]["after"] < 0.1
    assert row["gains"]["right"]["after"] > 10.0 * row["gains, hold"]["right"]["after"]
