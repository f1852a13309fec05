"""The trot over speed and payload at small size."""

import json

import pytest
from matplotlib.image import imread

from experiments import trot_speeds


def test_short_families(tmp_path):
    assert trot_speeds.main(["--quick", "--out", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "trot_speeds.json").read_text())
    for family, (start, end) in trot_speeds.SHORT.items():
        found = results[family]
        rows = found["rows"]
        assert found["status"] == "complete" and [rows[0][family], rows[-1][family]] == pytest.approx([start, end])
        for row in rows:
            assert row["cold"] is not None and row["eigenvalue"] > 0.05 and row["torque"] <= 2.7 + 1e-9
            assert 0.2 < row["transport"] < 1.0 and row["iterations"] <= row["cold"] + 1
    assert min(imread(tmp_path / "trot_speeds.png").shape[:2]) > 500
