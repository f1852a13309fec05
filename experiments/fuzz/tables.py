"""The tables printed at the end."""

import re
from collections import Counter, defaultdict

from rich.box import SIMPLE_HEAD
from rich.table import Table

from experiments.fuzz.study import Verdict
from tests.reference.fuzz import SYSTEMS

SEEDS = 10
FIGURE = re.compile(r"\d[\d.]*(e[+-]\d+)?")


def statuses_table(verdicts: list[Verdict]) -> Table:
    """How many cases of each system ended in which way."""
    result = Table(title=f"{len(verdicts)} fuzzed solves", box=SIMPLE_HEAD, show_edge=False)
    result.add_column("status", no_wrap=True)
    for heading in (*SYSTEMS, "iLQR", "DDP", "all"):
        result.add_column(heading.replace(" ", "\n"), justify="right", no_wrap=True)
    by_system = Counter((v.status, v.system) for v in verdicts)
    by_solver = Counter((v.status, v.solver) for v in verdicts)
    for status, count in Counter(v.status for v in verdicts).most_common():
        counts = [by_system[status, system] for system in SYSTEMS]
        result.add_row(status, *map(str, [*counts, by_solver[status, "ILQR"], by_solver[status, "DDP"], count]))
    return result


def failures_table(failures: list[Verdict]) -> Table:
    """What went wrong, alike but for figures in one row, with the first seeds."""
    result = Table(title=f"{len(failures)} with complaints", box=SIMPLE_HEAD, show_edge=False)
    result.add_column("cases", justify="right", no_wrap=True)
    result.add_column("status", no_wrap=True)
    result.add_column("complaint", overflow="fold")
    result.add_column("seeds", overflow="fold")
    seeds = defaultdict(list)
    for v in failures:
        for complaint in v.complaints:
            seeds[v.status, FIGURE.sub("#", complaint)].append(v.seed)
    for (status, complaint), those in sorted(seeds.items(), key=lambda item: -len(item[1])):
        first = ", ".join(map(str, those[:SEEDS]))
        result.add_row(str(len(those)), status, complaint, first + (", ..." if len(those) > SEEDS else ""))
    return result
