"""Time the parts of one iteration on a standing quadruped, and write table and data.

    python -m experiments.quadruped.iteration [--knots N] [--repeats N] [--out DIR]

Writes DIR/iteration.json: least microseconds per knot of every part, for one thread and for two.
"""

import sys
from typing import Any

from experiments.harness import Experiment, Run, count
from experiments.quadruped.parts import KNOTS, measure
from experiments.quadruped.tables import parts_table


def study(run: Run) -> dict[str, Any]:
    """Microseconds per knot of every part."""
    knots, repeats = run.options.knots, run.options.repeats
    return {"knots": knots, "repeats": repeats, "microseconds_per_knot": measure(knots, repeats)}


main = Experiment(
    "quadruped.iteration",
    __doc__,
    study,
    options=[count("--knots", KNOTS, "knots"), count("--repeats", 100, "repeats")],
    tables=lambda results: (parts_table(results["microseconds_per_knot"]),),
    width=100,
)

if __name__ == "__main__":
    sys.exit(main())
