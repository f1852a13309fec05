"""The fuzzed solves at tiny size, and that nothing that goes wrong in one goes unnoticed."""

import json
import os
import warnings
from dataclasses import replace

import numpy as np
import pytest

from experiments.fuzz.__main__ import main
from experiments.fuzz.study import Verdict, judge, verdicts
from tests.reference import fuzz

DEADLY = 6


def deadly_judge(seed):
    """Kills its process over one case; the verdicts on the others tell which process made them."""
    if seed == DEADLY:
        os._exit(1)
    return Verdict(seed, "none", "none", "converged", os.getpid(), 0.0, ())


def test_small_run(tmp_path, capsys):
    assert main(["--count", "12", "--seed", "30", "--workers", "1", "--out", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "fuzz.json").read_text())
    assert (result["first_seed"], result["count"], result["failures"]) == (30, 12, [])
    assert sum(result["statuses"].values()) == 12
    expected = [str(fuzz.run(fuzz.fuzz_case(seed)).status) for seed in range(30, 42)]
    assert result["statuses"] == {status: expected.count(status) for status in set(expected)}
    text = capsys.readouterr().out
    assert "12 fuzzed solves" in text and "converged" in text and f"wrote {tmp_path / 'fuzz.json'}" in text


def test_failures_are_told(tmp_path, capsys, monkeypatch):
    bad = Verdict(7, "pendulum", "DDP", "exception", 0, 0.1, ("ValueError: no", "a gap of 1.5e+01"))
    alike = bad._replace(seed=8, complaints=("a gap of 2",))
    good = Verdict(6, "linear", "ILQR", "converged", 3, 0.1, ())
    monkeypatch.setattr("experiments.fuzz.__main__.verdicts", lambda seeds, workers: iter([[bad], [alike, good]]))
    assert main(["--count", "3", "--seed", "6", "--out", str(tmp_path)]) == 1
    result = json.loads((tmp_path / "fuzz.json").read_text())
    assert [failure["seed"] for failure in result["failures"]] == [7, 8] and result["first_seed"] == 6
    text = capsys.readouterr().out
    assert "2 with complaints" in text and "ValueError: no" in text
    row = next(line for line in text.splitlines() if "a gap of #" in line)
    assert row.split()[0] == "2" and row.split()[-2:] == ["7,", "8"]


def test_exceptions_and_warnings_are_complaints(monkeypatch):
    def warn(case):
        warnings.warn("overflow", RuntimeWarning, stacklevel=1)

    monkeypatch.setattr(fuzz, "run", warn)
    verdict = judge(1)
    assert verdict.status == "exception" and verdict.complaints == ("RuntimeWarning: overflow",)
    monkeypatch.setattr(fuzz, "run", lambda case: 1 / 0)
    assert judge(2).complaints == ("ZeroDivisionError: division by zero",)


@pytest.mark.parametrize("part", ["xs", "us", "K", "gaps"])
def test_nan_is_a_complaint(monkeypatch, part):
    solve = fuzz.run

    def spoil(case):
        solution = solve(case)
        return replace(solution, **{part: np.full_like(getattr(solution, part), np.nan)})

    assert judge(0).complaints == ()
    monkeypatch.setattr(fuzz, "run", spoil)
    assert f"{part} is not finite" in judge(0).complaints


def test_a_state_off_the_dynamics_is_a_complaint(monkeypatch):
    solve = fuzz.run

    def spoil(case):
        solution = solve(case)
        return replace(solution, xs=solution.xs + 1e-3 * np.arange(solution.xs.size).reshape(solution.xs.shape))

    monkeypatch.setattr(fuzz, "run", spoil)
    assert any(complaint.startswith("gaps are off") for complaint in judge(0).complaints)


# ------------------------------------------------------------------------------------------------ another look
SEVERAL = 16
"""A case that converges with controls on their limits, at a state that it must end in."""


def spoiled(monkeypatch, seed, **changes):
    """The complaints about a case whose solution has some attributes changed."""
    solve = fuzz.run
    monkeypatch.setattr(fuzz, "run", lambda case: replace(solution := solve(case), **{
        name: change(solution) for name, change in changes.items()
    }))  # fmt: skip
    return " ".join(judge(seed).complaints)


def with_multipliers(change):
    """Reports with other multipliers."""
    return lambda solution: tuple(r._replace(multipliers=change(r)) for r in solution.constraints)


def test_multipliers_and_controls_are_those_of_a_minimum(monkeypatch):
    assert judge(SEVERAL).status == "converged" and judge(SEVERAL).complaints == ()
    with monkeypatch.context() as patch:
        found = spoiled(patch, SEVERAL, constraints=with_multipliers(lambda r: 0.5 * r.multipliers))
        assert "due to multipliers" in found
    with monkeypatch.context() as patch:
        assert "slack" in spoiled(patch, SEVERAL, constraints=with_multipliers(lambda r: r.multipliers + 1.0))
    with monkeypatch.context() as patch:
        found = spoiled(patch, SEVERAL, us=lambda s: s.us + 0.1 * np.cos(np.arange(len(s.us)))[:, None])
        assert "left to gain" in found


@pytest.mark.parametrize("seed", [0, 7, 16])
def test_false_infeasibility_is_a_complaint(monkeypatch, seed):
    """Of a linear system by all controls, of others by those near."""
    found = spoiled(monkeypatch, seed, status=lambda solution: "infeasible")
    assert "infeasible, but controls" in found


def test_a_death_is_told_of_the_case_that_killed(monkeypatch):
    monkeypatch.setattr("experiments.fuzz.study.CHUNK", 2)
    seeds = range(DEADLY - 1, DEADLY + 3)
    found = sorted(verdict for chunk in verdicts(seeds, 1, deadly_judge) for verdict in chunk)
    assert [verdict.seed for verdict in found] == list(seeds)
    dead = [verdict for verdict in found if verdict.status != "converged"]
    assert [(v.seed, v.status, v.complaints) for v in dead] == [(DEADLY, "process died", ("the process died",))]
    assert os.getpid() not in {verdict.iterations for verdict in found}
