"""The backward-pass experiment runs at small size, and its contestants agree."""

import json

from experiments import backward_pass


def test_quick_run(tmp_path, capsys):
    path = tmp_path / "backward_pass.json"
    assert backward_pass.main(["--quick", "--out", str(path)]) == 0
    assert "structured, constant sizes" in capsys.readouterr().out
    sizes = json.loads(path.read_text(encoding="utf-8"))["sizes"]
    assert sizes
    for contestants in sizes.values():
        assert all(row["error"] < 1e-11 and row["us_per_knot"] > 0 for row in contestants.values())
