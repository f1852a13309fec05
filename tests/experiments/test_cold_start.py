"""Start-up with a filled cache, at small size; `make budget` runs the rest."""

import json

from experiments import cold_start


def test_scripts_find_their_kernels(tmp_path, capsys):
    assert cold_start.main(["--warm", "--starts", "1", "--out", str(tmp_path)]) == 0
    printed, results = capsys.readouterr().out, json.loads((tmp_path / "cold_start.json").read_text())
    assert [row["script"] for row in results["warm"]] == list(cold_start.WARM)
    for row in results["warm"]:
        assert row["compiled"] == 0 and row["script"] in printed
        assert 0.0 < row["processor seconds"] and 0.0 < row["seconds"]
