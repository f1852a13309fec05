"""The experiment on Python between the kernels runs at small size."""

import json
import shutil

from experiments import without_python


def test_quick_run(tmp_path, capsys):
    path = tmp_path / "without_python.json"
    assert without_python.main(["--quick", "--out", str(path)]) == 0
    found = json.loads(path.read_text(encoding="utf-8"))
    rows = [(row["integrator"], row["solver"], row["knots"]) for row in found["iterations"]]
    assert rows == [(name, solver, 10) for name in without_python.INTEGRATORS for solver in ("iLQR", "DDP")]
    assert len(found["cycles"]) == (0 if shutil.which("cc") is None else 2)
    assert all(row["median_us"] > 0.0 and row["jitter"] >= 1.0 for row in found["cycles"])
    assert "an iteration of the arm" in capsys.readouterr().out
