"""Base of results that write a report of themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Reported:
    """Base of a solution and of several solutions of one problem."""

    def report(self, path: str | Path, solver: Any = None) -> Path:
        """Write a report of the solve: one HTML file that opens in any browser, without loading other files.

        It contains the problem in words, how each solver ended, second-order conditions where they can be computed
        (`Solution.certificate`), an animation in space, motion and convergence against time, constraints with
        multipliers and worst knots, `Solution.explain`, times, versions, and the machine.  A system that cannot be
        drawn has no animation; for several solutions it shows the cheapest feasible one.

        Parameters
        ----------
        path : file to write, .html
            Its folder is made as needed, and it appears complete or not at all.
        solver : DDP or ILQR, optional, or a mapping of names to them for several solutions
            The solver used, which makes the explanation more precise.

        Returns
        -------
        path

        Raises
        ------
        ValueError : another extension, a solution without its problem, or unknown names of solvers.
        TypeError : the argument is no path or no solver.
        """
        from trajopt.plotting import write_report

        return write_report(self, path, solver)
