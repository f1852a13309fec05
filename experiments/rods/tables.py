"""The paper's table 3, with the times measured here beside its own."""

from typing import Any

from rich.table import Table

from experiments.ilqr_vs_ddp.tables import table
from experiments.rods.measure import METHODS
from experiments.rods.paper import TABLE

NONE = "-"


def seconds(value: float | None) -> str:
    """A time with three digits."""
    return NONE if value is None else (f"{value:.0f}" if value >= 100.0 else f"{value:.3g}")


def _label(name: str, method: str) -> str:
    if method == "newmark":
        return f"newmark, {1e3 * TABLE[name].step:g} ms"
    return "newmark, adaptive" if method == "adaptive" else f"bdf, {method}"


def simulations_table(results: dict[str, dict[str, Any]], duration: float) -> Table:
    """A row for every method of every system; the paper's times are those of ten seconds."""
    result = table(
        f"{duration:g} s of motion; the paper's times: 10 s",
        ("system", "method"),
        ("n", "s", "steps", "Jacobians", "error,\nmm", "paper,\ns", "its best\nover ours"),
    )
    for name, entry in results.items():
        paper = TABLE[name]
        of_paper = dict(zip(METHODS, (paper.exact, paper.differences, paper.newmark, None), strict=True))
        for method, row in entry["simulations"].items():
            own, theirs = (name, _label(name, method), str(entry["coordinates"])), seconds(of_paper[method])
            if "failed" in row:
                result.add_row(*own, "failed", *3 * (NONE,), theirs, NONE)
                continue
            ratio = f"{paper.best / row['seconds']:.1f}" if duration == 10.0 else NONE
            error = NONE if row["error"] is None else f"{1e3 * row['error']:.2g}"
            counts = str(row["steps"]), str(row["jacobians"]), error
            result.add_row(*own, seconds(row["seconds"]), *counts, theirs, ratio)
        result.add_section()
    return result


def failures(results: dict[str, dict[str, Any]]) -> list[str]:
    """A line for every simulation that failed."""
    return [
        f"{name}, {_label(name, method)}: {row['failed']}"
        for name, entry in results.items()
        for method, row in entry["simulations"].items()
        if "failed" in row
    ]


def calls_table(results: dict[str, dict[str, Any]]) -> Table:
    """Milliseconds of a Jacobian and of an equilibrium."""
    result = table(
        "milliseconds per call",
        ("system",),
        (
            "Jacobian,\nexact", "paper", "by\ndifferences", "paper", "equilibrium,\nexact", "paper", "steps",
            "converged",
        ),
    )  # fmt: skip
    for name, entry in results.items():
        jacobian, statics, paper = entry["jacobian"], entry["statics"], TABLE[name]
        row = [NONE] * 4
        if jacobian is not None:
            pairs = ((jacobian["exact"], paper.jacobian[1]), (jacobian["differences"], paper.jacobian[0]))
            row = [seconds(x) for pair in pairs for x in pair]
        rest = [NONE] * 4
        if statics is not None:
            of_paper = paper.statics[1] if paper.statics else None
            rest = [seconds(statics["ms"]), seconds(of_paper), f"{statics['steps']:.1f}", f"{statics['converged']:.0%}"]
        result.add_row(name, *row, *rest)
    return result
