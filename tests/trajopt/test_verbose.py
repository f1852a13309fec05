"""Solves that print their iterations."""

from dataclasses import replace

import numpy as np
import pytest

import trajopt
from tests.trajopt.cases import pendulum
from trajopt.solvers.solver import HEADER, line_of

LIMITED = replace(pendulum(), constraints=[trajopt.ControlBounds(-8.0, 8.0)])


@pytest.mark.parametrize("solver", [trajopt.ILQR, trajopt.DDP])
@pytest.mark.parametrize("prepared", [False, True])
def test_a_line_for_each_iteration(solver, prepared, capsys):
    """Of the log of the solution, which is that of a silent solve, in plain text."""
    loud = solver(verbose=True)
    solution = loud.prepare(LIMITED).solve() if prepared else loud.solve(LIMITED)
    header, *lines, end = capsys.readouterr().out.splitlines()
    silent = solver().solve(LIMITED)
    assert not capsys.readouterr().out and np.array_equal(silent.us, solution.us)
    assert header == HEADER and "\x1b" not in header and end.startswith("converged: ")
    assert lines[:-1] == [line_of(record) for record in solution.log[:-1]]
    assert float(lines[-1].split()[1]) == pytest.approx(solution.cost) and len(lines) == len(solution.log)


def test_callbacks_still_stop_the_solve(capsys):
    seen = []

    def stop(progress):
        seen.append(progress.record.iteration)
        return len(seen) == 2

    solution = trajopt.DDP(verbose=True).solve(LIMITED, callback=stop)
    assert solution.status == "stopped_by_callback" and seen == [0, 1]
    assert capsys.readouterr().out.splitlines()[-1].startswith("stopped_by_callback: ")


def test_a_solve_that_diverges_says_so(capsys):
    wild = trajopt.CallableSystem(lambda x, u: x**3 + u[0], nx=1, nu=1, dt=0.1)
    problem = trajopt.Problem(wild, [10.0], 30, [trajopt.ControlCost(1.0)], [trajopt.StateCost(wild, 0.0, 1.0)])
    solution = trajopt.ILQR(verbose=True).solve(problem)
    assert capsys.readouterr().out.splitlines()[-1] == f"{solution.status}: {solution.message}"


def test_what_is_wrong_is_named():
    with pytest.raises(TypeError, match="verbose: got 1"):
        trajopt.DDP(verbose=1)
    with pytest.raises(TypeError, match="callback: got int"):
        trajopt.DDP(verbose=True).solve(LIMITED, callback=3)
