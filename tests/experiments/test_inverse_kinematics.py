"""The experiment on inverse kinematics runs at small size, and reaches all poses."""

import json

from experiments import inverse_kinematics


def test_quick_run(tmp_path, capsys):
    path = tmp_path / "ik.json"
    assert inverse_kinematics.main(["--quick", "--out", str(path)]) == 0
    assert "bounded alone" in capsys.readouterr().out
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    assert [(row["poses"], row["way"]) for row in rows] == [
        (kind, way) for kind in ("far", "near") for way in inverse_kinematics.WAYS
    ]
    assert all(row["reached"] == row["of"] == 10 for row in rows if row["way"] == "default")
