"""Time the parts of one iteration on a standing quadruped, and write table and data.

    python -m experiments.quadruped.iteration [--knots N] [--repeats N] [--out DIR]

Writes DIR/iteration.json: least microseconds per knot of every part, for one thread and for two.
"""

import sys

from experiments.quadruped.parts import measure
from experiments.quadruped.tables import parts_table
from experiments.quadruped.timing import timing

main = timing("iteration", __doc__, measure, parts_table, repeats=100)

if __name__ == "__main__":
    sys.exit(main())
