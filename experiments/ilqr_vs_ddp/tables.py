"""The tables printed at the end."""

from typing import Any

import numpy as np
from rich.table import Table

from experiments.harness import NONE, cell, table


def spread(values: list[float] | None, scale: float = 1.0) -> str:
    """Median and quartiles."""
    if values is None:
        return NONE
    low, median, high = (f"{x:.0f}" if x >= 100 else f"{x:.3g}" for x in scale * np.array(values))
    return f"{median} ({low} .. {high})"


def solvers_table(results: dict[str, Any]) -> Table:
    """Every problem and solver: shares of all starts, medians and quartiles of those that converged."""

    def row(name: str, solver: str, s: dict[str, Any]) -> tuple:
        ends = ", ".join(f"{n} {status}" for status, n in s["statuses"].items() if status != "converged")
        q = s["quartiles"]
        return (
            name, solver, ends, f"{s['converged']:.0%}", f"{s['best']:.0%}", spread(q["iterations_to"]),
            spread(q["seconds_to"], 1e3), spread(q["iterations"]), spread(q["seconds"], 1e3),
        )  # fmt: skip

    return table(
        "random starts; median (quartiles) of the runs that converged",
        ("problem", "solver", "other ends"),
        ("converged", "to the\nbest", "iterations\nto 1e-8", "ms to 1e-8", "iterations", "ms"),
        (
            [row(name, solver, entry["summary"]) for solver, entry in record["solvers"].items()]
            for name, record in results.items()
        ),
    )


def pairs_table(results: dict[str, Any]) -> Table:
    """DDP against iLQR: ratios of medians, and from the same start to the same minimum."""

    def row(name: str, record: dict[str, Any]) -> tuple:
        quartiles = {solver: entry["summary"]["quartiles"] for solver, entry in record["solvers"].items()}
        pairs = record["pairs"]
        return (
            name, cell(record["best_cost"], ".10g"),
            *(cell(ratio_of_medians(quartiles, measure), ".2f") for measure in ("iterations_to", "seconds_to")),
            pairs["count"], *(cell(ratio, ".2f") for ratio in pairs["ratio"].values()),
            pairs["ddp_fewer"], pairs["ddp_more"],
        )  # fmt: skip

    return table(
        "DDP over iLQR, to 1e-8 of the minimum",
        ("problem",),
        (
            "best cost", "iterations,\nof medians", "time,\nof medians", "same\nminimum", "iterations,\nmedian",
            "time,\nmedian", "DDP needs\nfewer", "more",
        ),
        [[row(name, record) for name, record in results.items()]],
    )  # fmt: skip


def ratio_of_medians(quartiles: dict[str, Any], measure: str) -> float | None:
    """Median of DDP over that of iLQR; None where one of them never converged."""
    ilqr, ddp = quartiles["ilqr"][measure], quartiles["ddp"][measure]
    return None if ilqr is None or ddp is None else ddp[1] / ilqr[1]
