"""Solve thousands of random bad problems; no exception, no NaN, and every end has a name.

    python -m experiments.fuzz [--count N] [--seed N] [--workers N] [--out DIR]

Writes OUT/fuzz.json.  The exit code is 1 if anything failed.  To see one case again:

    from tests.reference.fuzz import fuzz_case, run;  solution = run(fuzz_case(SEED))
"""

import os
import sys
from collections import Counter
from typing import Any

from experiments.fuzz.study import verdicts
from experiments.fuzz.tables import failures_table, statuses_table
from experiments.harness import Experiment, Run, count

COUNT = 10000


def study(run: Run) -> dict[str, Any]:
    """The verdicts on all cases; prints how they ended."""
    options = run.options
    seeds, found = range(options.seed, options.seed + options.count), []
    advance = run.counter("solving", len(seeds))
    for chunk in verdicts(seeds, options.workers):
        found.extend(chunk)
        advance(len(chunk))
    found.sort()
    failures = [verdict for verdict in found if verdict.complaints]
    run.show(statuses_table(found), *([failures_table(failures)] if failures else []))
    return {
        "first_seed": found[0].seed,
        "count": len(found),
        "statuses": dict(Counter(verdict.status for verdict in found)),
        "seconds": sum(verdict.seconds for verdict in found),
        "slowest": [verdict._asdict() for verdict in sorted(found, key=lambda v: -v.seconds)[:10]],
        "failures": [verdict._asdict() for verdict in failures],
    }


main = Experiment(
    "fuzz",
    __doc__,
    study,
    options=[
        count("--count", COUNT, "how many cases"),
        count("--seed", 0, "of the first; the others follow", least=0),
        count("--workers", os.cpu_count() or 1, "processes"),
    ],
    width=140,
    failed=lambda results: bool(results["failures"]),
)

if __name__ == "__main__":
    sys.exit(main())
