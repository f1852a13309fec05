"""Two copies of the library timed in turns: here one and the same."""

import json

import pytest

from experiments import revisions


def test_a_copy_beside_itself(tmp_path):
    arguments = ["--base", str(revisions.ROOT), "--turns", "3", "--only", "rollout arm", "--out", str(tmp_path)]
    assert revisions.main(arguments) == 0
    results = json.loads((tmp_path / "revisions.json").read_text(encoding="utf-8"))
    assert [row["call"] for row in results["rows"]] == ["rollout arm", "rollout arm_minimum_time"]
    for row in results["rows"]:
        assert row["here_us"] > 0.0 and row["base_us"] > 0.0 and row["ratio"] > 0.0
        assert row["quartiles"][0] <= row["ratio"] <= row["quartiles"][1]


def test_every_call_has_its_name():
    names = revisions.calls(None)
    assert len(set(names)) == len(names) > 30
    assert revisions.calls(["DDP"]) == [name for name in names if "DDP" in name]


@pytest.mark.parametrize("name", ["iteration iLQR arm+limits 10", "benchmark bead_on_circle", "cycle DDP constrained"])
def test_solves_and_cycles_tell_their_iterations(name):
    assert name in revisions.calls(None)
    copy = revisions.Copy(revisions.ROOT)
    row = revisions.compared((copy, copy), name, 2)
    copy.close()
    assert row["iterations"][0] == row["iterations"][1] > 0 and min(row["least_us_an_iteration"]) > 0.0


def test_what_is_not_known_is_said():
    with pytest.raises(SystemExit, match="--only: got nonsense, expected words of first arm, "):
        revisions.calls(["nonsense"])
    with pytest.raises(SystemExit, match="--base: got no-such-revision, expected a revision or a folder"):
        revisions.main(["--base", "no-such-revision", "--only", "rollout arm"])


def test_a_process_that_ends_is_told():
    copy = revisions.Copy(revisions.ROOT)
    with pytest.raises(RuntimeError, match="first nothing: the process has ended with 1"):
        copy.seconds("first nothing")
    copy.close()
