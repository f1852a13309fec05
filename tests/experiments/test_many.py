"""The experiment on many small problems runs at small size."""

import json

from experiments import many


def test_quick_run(tmp_path, capsys):
    path = tmp_path / "many.json"
    assert many.main(["--quick", "--out", str(path)]) == 0
    out = capsys.readouterr().out
    assert "6 swing-ups" in out and "12 arms" in out
    results = json.loads(path.read_text(encoding="utf-8"))
    ways, of_arms = results["ways"], results["of_arms"]
    assert [(way["way"], way["workers"]) for way in ways] == [
        ("loop", 1), ("processes", 2), ("threads", 2),
    ]  # fmt: skip
    assert all(way["seconds"] > 0.0 and way["speed"] > 0.0 for way in ways)
    assert len(of_arms["ways"]) == 7 and all(way["seconds"] > 0.0 for way in of_arms["ways"])
    assert of_arms["large"]["converged"] == of_arms["large"]["arms"] == 12
