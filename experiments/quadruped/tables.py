"""The measurements as a table for the terminal."""

from rich.box import SIMPLE_HEAD
from rich.table import Table

from experiments.quadruped.study import ITERATION


def parts_table(times: dict[str, dict[int, float]]) -> Table:
    """A row a part, a column for each number of threads."""
    counts = list(next(iter(times.values())))
    result = Table(title="standing quadruped, us per knot, least of all repeats", box=SIMPLE_HEAD, show_edge=False)
    result.add_column("part", no_wrap=True)
    for count in counts:
        result.add_column(f"{count} thread{'s' if count > 1 else ''}", justify="right", no_wrap=True)
    for name, of_counts in times.items():
        if name == ITERATION[0]:
            result.add_section()
        result.add_row(name, *(f"{of_counts[count]:.2f}" for count in counts))
    return result
