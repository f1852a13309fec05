"""Solve thousands of random bad problems; no exception, no NaN, and every end has a name.

    python -m experiments.fuzz [--count N] [--seed N] [--workers N] [--out DIR]

Writes OUT/fuzz.json.  The exit code is 1 if anything failed.  To see one case again:

    from tests.reference.fuzz import fuzz_case, run;  solution = run(fuzz_case(SEED))
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from experiments.fuzz.study import Verdict, verdicts
from experiments.fuzz.tables import failures_table, statuses_table

COUNT = 10000


def parser() -> argparse.ArgumentParser:
    """The options."""
    description = (__doc__ or "").split("\n", 1)[0]
    result = argparse.ArgumentParser(prog="python -m experiments.fuzz", description=description)
    result.add_argument("--count", type=int, default=COUNT, metavar="N", help="how many cases (default: %(default)s)")
    result.add_argument("--seed", type=int, default=0, metavar="N", help="of the first; the others follow (default: 0)")
    result.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: all processors)"
    )
    result.add_argument("--out", type=Path, default=Path("results/fuzz"), help="folder (default: %(default)s)")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Solve the cases; returns the exit code."""
    options = parser().parse_args(argv)
    for name, least in (("count", 1), ("seed", 0), ("workers", 1)):
        if getattr(options, name) < least:
            parser().error(f"--{name}: got {getattr(options, name)}, wanted at least {least}")
    seeds, found = range(options.seed, options.seed + options.count), []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("solving", total=len(seeds))
        for chunk in verdicts(seeds, options.workers):
            found.extend(chunk)
            progress.advance(task, len(chunk))
    found.sort()
    return report(found, options.out)


def report(found: list[Verdict], out: Path) -> int:
    """Print the tables and write the data; returns the exit code."""
    failures = [verdict for verdict in found if verdict.complaints]
    console = Console(width=140)
    console.print(statuses_table(found))
    if failures:
        console.print()
        console.print(failures_table(failures))
    data = {
        "first_seed": found[0].seed,
        "count": len(found),
        "statuses": dict(Counter(verdict.status for verdict in found)),
        "seconds": sum(verdict.seconds for verdict in found),
        "slowest": [verdict._asdict() for verdict in sorted(found, key=lambda v: -v.seconds)[:10]],
        "failures": [verdict._asdict() for verdict in failures],
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "fuzz.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    console.print(f"wrote {out / 'fuzz.json'}", highlight=False, soft_wrap=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
