"""The paper's table 3, with the times measured here beside its own."""

from typing import Any

from rich.table import Table

from experiments.harness import NONE, table
from experiments.rods.measure import METHODS
from experiments.rods.paper import TABLE


def seconds(value: float | None) -> str:
    """A time with three digits."""
    return NONE if value is None else (f"{value:.0f}" if value >= 100.0 else f"{value:.3g}")


def _label(name: str, method: str) -> str:
    if method == "newmark":
        return f"newmark, {1e3 * TABLE[name].step:g} ms"
    return "newmark, adaptive" if method == "adaptive" else f"bdf, {method}"


def simulations_table(results: dict[str, dict[str, Any]], duration: float) -> Table:
    """A row for every method of every system; the paper's times are those of ten seconds."""

    def row(name: str, n: int, method: str, r: dict[str, Any]) -> tuple:
        paper = TABLE[name]
        of_paper = dict(zip(METHODS, (paper.exact, paper.differences, paper.newmark, None), strict=True))
        own, theirs = (name, _label(name, method), n), seconds(of_paper[method])
        if "failed" in r:
            return *own, "failed", *3 * (NONE,), theirs, NONE
        ratio = f"{paper.best / r['seconds']:.1f}" if duration == 10.0 else NONE
        error = NONE if r["error"] is None else f"{1e3 * r['error']:.2g}"
        return *own, seconds(r["seconds"]), r["steps"], r["jacobians"], error, theirs, ratio

    return table(
        f"{duration:g} s of motion; the paper's times: 10 s",
        ("system", "method"),
        ("n", "s", "steps", "Jacobians", "error,\nmm", "paper,\ns", "its best\nover ours"),
        (
            [row(name, entry["coordinates"], method, r) for method, r in entry["simulations"].items()]
            for name, entry in results.items()
        ),
    )


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

    def row(name: str, entry: dict[str, Any]) -> tuple:
        jacobian, statics, paper = entry["jacobian"], entry["statics"], TABLE[name]
        figures = [NONE] * 8
        if jacobian is not None:
            pairs = ((jacobian["exact"], paper.jacobian[1]), (jacobian["differences"], paper.jacobian[0]))
            figures[:4] = [seconds(x) for pair in pairs for x in pair]
        if statics is not None:
            of_paper = seconds(paper.statics[1] if paper.statics else None)
            figures[4:] = seconds(statics["ms"]), of_paper, f"{statics['steps']:.1f}", f"{statics['converged']:.0%}"
        return name, *figures

    return table(
        "milliseconds per call",
        ("system",),
        (
            "Jacobian,\nexact", "paper", "by\ndifferences", "paper", "equilibrium,\nexact", "paper", "steps",
            "converged",
        ),
        [[row(name, entry) for name, entry in results.items()]],
    )  # fmt: skip
