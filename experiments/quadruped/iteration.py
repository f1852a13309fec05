"""Time the parts of one iteration on a standing quadruped, and write table and data.

    python -m experiments.quadruped.iteration [--knots N] [--repeats N] [--out DIR]

Writes DIR/iteration.json: least microseconds per knot of every part, for one thread and for two.
"""

import sys
from collections.abc import Sequence

from experiments.quadruped.parts import measure
from experiments.quadruped.tables import parts_table
from experiments.quadruped.timing import run

REPEATS = 100


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; returns the exit code."""
    return run("iteration", __doc__ or "", REPEATS, measure, parts_table, argv)


if __name__ == "__main__":
    sys.exit(main())
