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
    (row,) = (row for row in results["gains"] if row["masses"] == 1.0)
    assert row["plant"] == "pendulum" and row["gains held"]["off"] < 1e-5
    assert row["gains interpolated"]["off"] < 1e-5 < row["controls linear"]["off"] < 1e-2
    assert len(results["gains"]) == len(execution.MASSES) and 0.5 < results["interpolated over held"]["rms"] < 2.0
