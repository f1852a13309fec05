"""Experiments that time calls on a standing quadruped: options, a table, a file of microseconds."""

from collections.abc import Callable
from typing import Any

from rich.table import Table

from experiments.harness import Experiment, Run, count
from experiments.quadruped.parts import KNOTS


def timing(
    name: str, doc: str | None, measure: Callable[[int, int], Any], table: Callable[[Any], Table], repeats: int
) -> Experiment:
    """The experiment of that name in `experiments.quadruped`: measure(knots, repeats), microseconds per knot.

    Parameters: docstring of its module; repeats by default.
    """

    def study(run: Run) -> dict[str, Any]:
        knots, repeats = run.options.knots, run.options.repeats
        return {"knots": knots, "repeats": repeats, "microseconds_per_knot": measure(knots, repeats)}

    return Experiment(
        f"quadruped.{name}",
        doc,
        study,
        options=[count("--knots", KNOTS, "knots"), count("--repeats", repeats, "repeats")],
        tables=lambda results: (table(results["microseconds_per_knot"]),),
        width=100,
    )
