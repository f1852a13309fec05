"""Steps near compliant ground."""

import json

from experiments.rods import near_contact


def test_few_states(tmp_path, capsys):
    assert near_contact.main(["--states", "4", "--starts", "1", "--out", str(tmp_path)]) == 0
    printed, results = capsys.readouterr().out, json.loads((tmp_path / "near_contact.json").read_text())
    assert "Steps without a solution, of 4 states" in printed and "How solves end" in printed
    assert [row["integrator"] for row in results["steps"]] == list(near_contact.INTEGRATORS)
    assert all(row["5 ms [%]"] == 0.0 for row in results["steps"])
    assert [row["plans not finite"] for row in results["solves"]] == [0, 0]
