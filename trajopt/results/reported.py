"""Results that write a report of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Reported:
    """Base of a solution and of several solutions of one problem."""

    def report(self, path: str | Path, solver: Any = None) -> Path:
        """Write a report of the solve: one HTML file that opens in any browser, and fetches nothing from anywhere.

        It has the problem in words, how each solver ended, second-order conditions where they can be told
        (`Solution.certificate`), a picture in space that plays, motion and convergence against time, constraints with
        multipliers and worst knots, `Solution.explain`, times, versions, and the machine.  A system that cannot be
        drawn has no picture in space; of several solutions the cheapest feasible one is in it.

        Parameters
        ----------
        path : file to write, .html
            Its folder is made as needed, and it appears complete or not at all.
        solver : DDP or ILQR, optional, or a mapping of names to them for several solutions
            What solved it, which makes the explanation more precise.

        Returns
        -------
        path

        Raises
        ------
        ValueError : another extension, a solution without its problem, or unknown names of solvers.
        TypeError : a path or a solver that is none.
        """
        from trajopt.plotting import write_report

        return write_report(self, path, solver)
