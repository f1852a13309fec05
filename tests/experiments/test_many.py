"""The experiment on many small problems runs at small size."""

import json

from experiments import many


def test_quick_run(tmp_path, capsys):
    path = tmp_path / "many.json"
    assert many.main(["--quick", "--out", str(path)]) == 0
    assert "6 swing-ups" in capsys.readouterr().out
    ways = json.loads(path.read_text(encoding="utf-8"))["ways"]
    assert [(way["way"], way["workers"]) for way in ways] == [
        ("loop", 1), ("processes", 2), ("threads", 2),
    ]  # fmt: skip
    assert all(way["seconds"] > 0.0 and way["speed"] > 0.0 for way in ways)
