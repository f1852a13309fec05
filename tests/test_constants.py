"""Tuned numbers of the solver: each has a text below it that says what it means; `experiments.constants` tables them.

Their number may fall and is then to be lowered here; the aim of the design is 50.
"""

import json

from experiments.constants import changed, compiled_names, constants, main, times
from trajopt.backward import regularization
from trajopt.solvers import constrained, ddp

MOST = 53


def test_each_constant_says_what_it_means():
    found = constants()
    assert 20 < len(found) <= MOST
    assert not [(each.module, each.name) for each in found if not each.text]


def test_a_constant_changes_everywhere_for_a_time():
    """Also in modules that import it."""
    constant = next(each for each in constants() if each.name == "LONG_STEP")
    before = regularization.LONG_STEP
    with changed(constant, 0.5):
        assert regularization.LONG_STEP == ddp.LONG_STEP == constrained.LONG_STEP == 0.5 * before
    assert regularization.LONG_STEP == ddp.LONG_STEP == constrained.LONG_STEP == before


def test_integers_stay_above_zero_and_fractions_below_one():
    assert (times(3, 0.5), times(1, 0.5), times(3, 2.0), times((1, 0.5), 2.0)) == (2, 1, 6, (2, 0.75))
    assert times(0.3, 2.0) == 0.6 and times(1.5, 2.0) == 3.0
    twice = times(constrained.CLOSE, 2.0)
    assert twice.left == constrained.CLOSE.left and twice.raises == 2 * constrained.CLOSE.raises


def test_half_and_twice_of_constants(tmp_path, capsys, monkeypatch):
    """One that matters not to a problem without steps that lead nowhere, and one that kernels contain."""
    monkeypatch.setattr("experiments.constants.NAMES", ("bead_on_circle",))
    assert "ROUNDING" in compiled_names() and "TURN" not in compiled_names()
    assert main(["--starts", "1", "--only", "TURN", "ROUNDING", "--out", str(tmp_path)]) == 0
    whole, *rows = json.loads((tmp_path / "constants.json").read_text())["constants"]
    figures = {row["name"]: row["figures"] for row in rows}
    assert whole["figures"]["half"]["converged"] == 1 and figures["ROUNDING"] == {}
    assert figures["TURN"] == {what: whole["figures"]["half"] for what in ("half", "twice")}
    assert "1, 1.00" in capsys.readouterr().out
