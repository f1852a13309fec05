"""The tables printed at the end."""

from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table


def table(title: str, left: tuple[str, ...], right: tuple[str, ...]) -> Table:
    """An empty table with these columns, text and figures."""
    result = Table(title=title, box=SIMPLE_HEAD, show_edge=False)
    for heading in left:
        result.add_column(heading, no_wrap=True)
    for heading in right:
        result.add_column(heading, justify="right", no_wrap=True)
    return result


def spread(values: list[float] | None, scale: float = 1.0) -> str:
    """Median and quartiles."""
    if values is None:
        return "-"
    low, median, high = (f"{x:.0f}" if x >= 100 else f"{x:.3g}" for x in scale * np.array(values))
    return f"{median} ({low} .. {high})"


def solvers_table(results: dict[str, Any]) -> Table:
    """Every problem and solver: shares of all starts, medians and quartiles of those that converged."""
    result = table(
        "random starts; median (quartiles) of the runs that converged",
        ("problem", "solver", "other ends"),
        ("converged", "to the\nbest", "iterations\nto 1e-8", "ms to 1e-8", "iterations", "ms"),
    )
    for name, record in results.items():
        for solver, entry in record["solvers"].items():
            s = entry["summary"]
            ends = ", ".join(f"{n} {status}" for status, n in s["statuses"].items() if status != "converged")
            q = s["quartiles"]
            result.add_row(
                name, solver, ends, f"{s['converged']:.0%}", f"{s['best']:.0%}", spread(q["iterations_to"]),
                spread(q["seconds_to"], 1e3), spread(q["iterations"]), spread(q["seconds"], 1e3),
            )  # fmt: skip
        result.add_section()
    return result


def pairs_table(results: dict[str, Any]) -> Table:
    """DDP against iLQR: ratios of medians, and from the same start to the same minimum."""
    result = table(
        "DDP over iLQR, to 1e-8 of the minimum",
        ("problem",),
        (
            "best cost", "iterations,\nof medians", "time,\nof medians", "same\nminimum", "iterations,\nmedian",
            "time,\nmedian", "DDP needs\nfewer", "more",
        ),
    )  # fmt: skip
    for name, record in results.items():
        quartiles = {solver: entry["summary"]["quartiles"] for solver, entry in record["solvers"].items()}
        pairs = record["pairs"]
        result.add_row(
            name, number(record["best_cost"], ".10g"),
            *(number(ratio_of_medians(quartiles, measure)) for measure in ("iterations_to", "seconds_to")),
            str(pairs["count"]), *(number(ratio) for ratio in pairs["ratio"].values()),
            str(pairs["ddp_fewer"]), str(pairs["ddp_more"]),
        )  # fmt: skip
    return result


def ratio_of_medians(quartiles: dict[str, Any], measure: str) -> float | None:
    """Median of DDP over that of iLQR; None where one of them never converged."""
    ilqr, ddp = quartiles["ilqr"][measure], quartiles["ddp"][measure]
    return None if ilqr is None or ddp is None else ddp[1] / ilqr[1]


def number(value: float | None, form: str = ".2f") -> str:
    """The number, or a dash."""
    return "-" if value is None else format(value, form)
