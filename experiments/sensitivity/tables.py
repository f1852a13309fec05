"""The tables of derivatives of solutions."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.table import Table

from experiments.harness import table
from experiments.sensitivity.study import NAMES

Results = dict[str, Any]


def largest(record: Results, kind: str, name: str) -> float | None:
    """Of the errors by all parameters; None of multipliers where there are none."""
    values = np.array(record["errors"][kind])[:, NAMES.index(name)]
    return None if name == "multipliers" and not any(record["held"]) else float(values.max())


def middle(record: Results, kind: str, name: str) -> float | None:
    """Their median, as `largest`."""
    values = np.array(record["errors"][kind])[:, NAMES.index(name)]
    return None if name == "multipliers" and not any(record["held"]) else float(np.median(values))


def errors_table(results: Results) -> Table:
    """A row a problem: largest errors by its parameters, and medians of those of Gauss and Newton."""

    def row(name: str, record: Results) -> tuple:
        worst = [scientific(largest(record, "exact", each)) for each in NAMES]
        others = [each for each in NAMES if each != "cost"]
        typical = [percent(of(record, "gauss_newton", each)) for each in others for of in (middle, largest)]
        two = scientific(largest(record, "differences", "us"))
        gains = percent(record["gains"]["ilqr"]), scientific(record["gains"]["ddp"])
        N, n, m = record["sizes"]
        return name, f"{N} {n} {m}", len(record["parameters"]), *record["held"], *worst, *typical, two, *gains

    return table(
        "relative errors against problems solved again: exact, the largest; Gauss-Newton, median and largest",
        ("problem", "N n m"),
        (
            "p", "on\nlimits", "active\nrows", "exact\nxs", "\nus", "\ncost", "\nmult.", "GN\nxs", "", "\nus", "",
            "\nmult.", "", "2 solves\nus", "K, iLQR\ndu/dx0", "K, DDP\ndu/dx0",
        ),
        [[row(name, record) for name, record in results["problems"].items()]],
    )  # fmt: skip


def scientific(value: float | None) -> str | None:
    """A number far below one."""
    return None if value is None else f"{value:.0e}"


def percent(value: float | None) -> str | None:
    """Of one."""
    return None if value is None else f"{value:.1%}" if value < 0.1 else f"{value:.0%}"


def times_table(results: Results) -> Table:
    """A row a problem: milliseconds of derivatives by all parameters, and what the check takes of an iteration."""

    def row(name: str, record: Results) -> tuple:
        t = record["times"]
        keys = ("make", "iteration", "solve", "forward", "vjp", "next_vjp", "differences")
        checks = [t[key] / t["iteration"] for key in ("check", "certificate")]
        return name, *(1e3 * t[key] for key in keys), t["differences"] / t["forward"], *checks

    return table(
        "milliseconds, by all parameters together",
        ("problem",),
        ("make", "iteration", "solve", "forward", "vjp", "the next\nvjp", "2 solves\neach", "times\nforward",
         "check,\niterations", "certificate,\niterations"),
        [[row(name, record) for name, record in results["problems"].items()]],
        caption="2 solves each: central differences, warm-started; their errors are in the first table",
    )  # fmt: skip


def predictions_table(results: Results) -> Table:
    """A row a problem: the error of predicted controls, and how it falls."""

    def row(name: str, record: Results) -> tuple:
        at, s = len(record["changes"]) // 2, record["slopes"]
        errors = [scientific(record["errors"][kind][at]) for kind in ("none", "gauss_newton", "exact")]
        slopes = [f"{s[kind]:.2f}" for kind in ("none", "gauss_newton", "exact")]
        return name, record["parameter"], f"{record['changes'][at]:.2g}", *errors, *slopes

    return table(
        "controls predicted for a parameter that has changed: relative errors, and their slopes",
        ("problem", "parameter"),
        ("change", "as they\nare", "Gauss-\nNewton", "exact", "slopes", "", ""),
        [[row(name, record) for name, record in results["predictions"].items()]],
    )


def certificates_table(results: Results) -> Table:
    """Smallest eigenvalues of minima and saddles."""
    def row(r: Results, kind: str) -> tuple:
        values = f"{r['dense']:.6e}", f"{r['counted']:.6e}"
        return r["problem"] + kind, *r["negative"], *values, scientific(r["difference"])

    rows = [[row(r, kind) for r in results[key]] for key, kind in (("minima", ""), ("saddles", ", a saddle"))]
    return table(
        "smallest eigenvalue of the reduced Hessian, relative to the cost of the controls",
        ("problem",),
        ("negative,\ndense", "counted", "smallest,\ndense", "counted", "relative\ndifference"),
        rows,
    )


def saddles_table(results: Results) -> Table:
    """Costs where solvers end."""
    rows = [
        (r["problem"], *(f"{c:.5g}" for c in (*r["stuck"].values(), r["cost"])), *r["iterations"], str(r["minimum"]))
        for r in results["saddles"]
    ]
    return table(
        "saddles: costs where solvers end",
        ("problem",),
        ("iLQR", "DDP without\nescape", "DDP", "iterations\nwithout", "with", "a minimum"),
        [rows],
    )


def escapes_table(results: Results) -> Table:
    """A row a problem."""
    return table(
        "DDP with and without escapes, from a problem's own start and random ones",
        ("problem",),
        (
            "starts",
            "iterations\nwithout",
            "with",
            "most\nmore",
            "looked\nat",
            "saddles",
            "most\ngained",
            "check,\niterations",
        ),
        [[escape_row(record) for record in results["escapes"]]],
        caption="iterations: of all starts together; looked at: ends without an exact sweep that shows a minimum; "
        "most gained: of the cost, relative; check: had there been one",
    )  # fmt: skip


def escape_row(record: Results) -> tuple:
    """Sums over the starts of a problem."""
    counts = np.array([run["iterations"] for run in record["runs"]])
    gained = max((a - b) / abs(a) if a != b else 0.0 for a, b in (run["costs"] for run in record["runs"]))
    times, left = record["times"], sum(run["costs"][0] != run["costs"][1] or run["saddle"] for run in record["runs"])
    share = times["check"] / times["iteration"] if times else None
    more = int((counts[:, 1] - counts[:, 0]).max())
    looked = sum(run["looked_at"] for run in record["runs"])
    return record["problem"], len(counts), *map(int, counts.sum(axis=0)), more, looked, left, percent(gained), share


def many_table(results: Results) -> Table:
    """A row a number of parameters."""

    def row(r: Results) -> tuple:
        solve, made, direct = (r["milliseconds"][key] for key in ("solve", "made", "direct"))
        return r["parameters"], solve, made, direct, direct / solve, scientific(r["error"])

    return table(
        "gradient of a loss of the arm's trajectory by references and weights: problems made, and one backward pass",
        ("parameters",),
        ("solve, ms", "problems\nmade, ms", "direct, ms", "direct,\nsolves", "difference\nof the two"),
        [[row(record) for record in results["many"]]],
    )


def inertial_table(results: Results) -> Table:
    """Gradients by inertial parameters, in units of an iteration."""
    r = results["inertial"]
    times = (r["milliseconds"][key] for key in ("exact iteration", "gradient"))
    errors = map(scientific, r["errors"].values())
    row = f"chain of {r['links']} links", r["parameters"], *times, r["iterations"], *errors
    return table(
        "gradient of a loss of the trajectory by all inertial parameters",
        ("robot",),
        ("parameters", "iteration, ms", "gradient, ms", "iterations", *(f"error,\n{name}" for name in r["errors"])),
        [[row]],
    )


def pressing_table(results: Results) -> Table:
    """A row a random point."""
    rows = [
        (f"{r['payload']:.3f}", r["friction"], r["stride"], r["small"], r["weak"], "yes" if r["kink"] else "",
         scientific(r["error"]), scientific(r["unpolished"]))
        for r in results["pressing"]
    ]  # fmt: skip
    return table(
        "derivatives of a robot's step by friction that barely presses, against differences",
        ("payload, kg",),
        ("friction", "stride, m", "rows with small\nmultipliers", "weak rows", "kink", "error", "error,\nunpolished"),
        [rows],
    )
