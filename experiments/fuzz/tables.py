"""The tables printed at the end."""

import re
from collections import Counter, defaultdict

from rich.table import Table

from experiments.fuzz.study import Verdict
from experiments.harness import table
from tests.reference.fuzz import SYSTEMS

SEEDS = 10
FIGURE = re.compile(r"\d[\d.]*(e[+-]\d+)?")


def statuses_table(verdicts: list[Verdict]) -> Table:
    """How many cases of each system ended in which way."""
    by_system = Counter((v.status, v.system) for v in verdicts)
    by_solver = Counter((v.status, v.solver) for v in verdicts)
    rows = [
        (
            status, *(by_system[status, system] for system in SYSTEMS),
            by_solver[status, "ILQR"], by_solver[status, "DDP"], count,
        )
        for status, count in Counter(v.status for v in verdicts).most_common()
    ]  # fmt: skip
    headings = [heading.replace(" ", "\n") for heading in (*SYSTEMS, "iLQR", "DDP", "all")]
    return table(f"{len(verdicts)} fuzzed solves", ("status",), headings, [rows])


def failures_table(failures: list[Verdict]) -> Table:
    """What went wrong, alike but for figures in one row, with the first seeds."""
    seeds = defaultdict(list)
    for v in failures:
        for complaint in v.complaints:
            seeds[v.status, FIGURE.sub("#", complaint)].append(v.seed)
    rows = [
        (len(those), status, complaint, ", ".join(map(str, those[:SEEDS])) + (", ..." if len(those) > SEEDS else ""))
        for (status, complaint), those in sorted(seeds.items(), key=lambda item: -len(item[1]))
    ]
    return table(f"{len(failures)} with complaints", ("cases", "status"), (), [rows], folded=("complaint", "seeds"))
