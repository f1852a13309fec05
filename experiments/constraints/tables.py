"""The tables printed at the end, and the one in Markdown."""

from collections import Counter
from typing import Any

from rich.table import Table

from experiments.harness import NONE, cell, table

HEADINGS = {"ddp": "DDP", "ilqr": "iLQR", "ipopt": "IPOPT", "fatrop": "FATROP"}
PEERS = ("ipopt", "fatrop")


def solvers_of(problems: dict[str, Any]) -> list[str]:
    """The solvers that took part."""
    return list(next(iter(problems.values()))["solvers"])


def counts(summary: dict[str, Any]) -> str:
    """Successes, and of these at the best minimum where they differ."""
    more = "" if summary["best"] == summary["successes"] else f" ({summary['best']})"
    return f"{summary['successes']}{more}"


def columns(problems: dict[str, Any]) -> list[str]:
    """Headings of the table of feasible problems."""
    names = [HEADINGS[solver] for solver in solvers_of(problems)]
    return [*names, *(f"{n} it" for n in names), *(f"{n} ms" for n in names), *(f"t/{HEADINGS[p]}" for p in PEERS)]


def row(name: str, record: dict[str, Any]) -> list[str]:
    """Of one feasible problem."""
    parts = [entry["summary"] for entry in record["solvers"].values()]
    times = [cell(1e3 * s["seconds"] / s["starts"], ".3g") for s in parts]
    shares = [cell(record["ratios"].get(peer, {}).get("all"), ".2g") for peer in PEERS]
    return [name, *map(counts, parts), *(cell(s["iterations"], ".0f") for s in parts), *times, *shares]


def feasible_rows(problems: dict[str, Any]) -> list[list[str]]:
    """Of all feasible problems, and their sums."""
    records = {name: record for name, record in problems.items() if record["feasible"]}
    rows = [row(name, record) for name, record in records.items()]
    if not rows:
        return rows
    sums = []
    for solver in solvers_of(problems):
        parts = [record["solvers"][solver]["summary"] for record in records.values()]
        starts = sum(s["starts"] for s in parts)
        sums.append(f"{sum(s['successes'] for s in parts)}/{starts}")
    return [*rows, ["sum", *sums, *[""] * (len(rows[0]) - 1 - len(sums))]]


def infeasible_rows(problems: dict[str, Any]) -> list[list[str]]:
    """What every solver says of problems without a feasible trajectory."""
    return [
        [
            name, HEADINGS[solver], ", ".join(f"{n} {word}" for word, n in s["statuses"].items()),
            cell(s["iterations"], ".0f"), cell(1e3 * s["seconds"] / s["starts"], ".3g"),
        ]
        for name, record in problems.items() if not record["feasible"]
        for solver, s in ((solver, entry["summary"]) for solver, entry in record["solvers"].items())
    ]  # fmt: skip


def lost_rows(problems: dict[str, Any]) -> list[list[str]]:
    """Where peers gave no answer, and how it came to that."""
    rows = []
    for name, record in problems.items():
        for solver, entry in record["solvers"].items():
            lost = Counter(run["status"] for run in entry["runs"] if run["iterations"] is None)
            if lost:
                rows.append([name, HEADINGS[solver], ", ".join(f"{n} {how}" for how, n in lost.items())])
    return rows


def means(results: dict[str, Any]) -> list[str]:
    """Geometric means as sentences."""
    return [
        f"total time of DDP over {HEADINGS[peer]}, geometric mean: {value['ratio']:.2f} "
        f"({value['problems']} problems, {words})"
        for peer, of in results["geometric_means"].items()
        for which, words in (("all", "all starts"), ("both", "starts where both succeed"))
        if (value := of.get(which)) is not None
    ]


LOST = ("problem", "solver", "lost")
INFEASIBLE = ("infeasible problem", "solver", "says", "iterations", "ms")


def printed(results: dict[str, Any]) -> list[Table | str]:
    """Tables for the terminal."""
    if "scaled" in results:
        return [scaled_table(results["scaled"])]
    if "gains" in results:
        return [gains_table(results["gains"])]
    if "pose" in results:
        return [pose_table(results["pose"])]
    if "poses" in results:
        return [poses_table(results["poses"])]
    if "ablation" in results:
        return [ablation_table(results["ablation"])]
    problems = results["problems"]
    shown: list[Table | str] = []
    if rows := feasible_rows(problems):
        title = "successes (to the best minimum), median iterations, mean ms of a solve, DDP's total time over peers'"
        shown.append(table(title, ("problem",), columns(problems), (rows[:-1], rows[-1:])))
    if rows := infeasible_rows(problems):
        shown.append(table("infeasible problems", INFEASIBLE[:3], INFEASIBLE[3:], (rows,)))
    if rows := lost_rows(problems):
        shown.append(table("solves without an answer", LOST[:2], (), (rows,), LOST[2:]))
    return [*shown, "\n".join(means(results))]


def scaled_table(scaled: dict[str, Any]) -> Table:
    """Iterations of DDP with rows multiplied."""
    factors = list(next(iter(scaled.values())))

    def iterations(record: dict[str, Any]) -> list[str]:
        base = next(iter(record.values()))
        cells = [" ".join(map(str, of["iterations"])) for of in record.values()]
        alike = all(of["iterations"] == base["iterations"] for of in record.values())
        return [*cells, "yes" if alike else "no"]

    rows = [[name, *iterations(record)] for name, record in scaled.items()]
    return table("iterations of DDP, rows multiplied", ("problem", *(f"by {f}" for f in factors)), ("same",), (rows,))


def gains_table(gains: dict[str, Any]) -> Table:
    """Errors and sizes of gains by the penalty, and of those of solutions."""

    def row(heading: str, records: list[dict[str, float] | None]) -> list[str | float | None]:
        return [heading, *(r[what] if r else None for what in ("error", "largest") for r in records)]

    penalties = next(iter(gains.values()))["penalties"]
    rows = [row(f"{float(rho):.0e}", [of["penalties"][rho] for of in gains.values()]) for rho in penalties]
    last = row("solution's", [of["solution"] for of in gains.values()])
    title = "K at knot 0, relative error; largest entry of K at the last five knots"
    headings = [f"{name}\n{what}" for what in ("error", "largest") for name in gains]
    return table(title, ("penalty",), headings, (rows, [last]))


def pose_table(pose: dict[str, Any]) -> Table:
    """Iterations, cost and end by the weight of torques."""
    rows = [
        [HEADINGS[solver], weight, r["iterations"], f"{r['cost']:.4f}", f"{r['violation']:.0e}", r["status"]]
        for solver, record in pose.items()
        for weight, r in record.items()
    ]
    headings = ("weight", "iterations", "cost", "violation", "status")
    return table("an arm's terminal pose and rest", ("solver",), headings, (rows,))


def poses_table(poses: dict[str, Any]) -> Table:
    """How solves for random poses end, and the median iterations of those that converge."""
    rows = [[status, count] for status, count in poses["statuses"].items()]
    sums = [["poses", poses["poses"]], ["iterations", cell(poses["iterations"], ".0f")]]
    return table("random poses", ("an arm's",), ("DDP",), (rows, sums))


def ablation_table(ablation: dict[str, Any]) -> Table:
    """Starts that converge and steps of all solves, with each part left out, and what changes by problem."""
    whole = next(iter(ablation.values()))

    def row(what: str, record: dict[str, Any]) -> list[str]:
        changes = [
            f"{name} {solved - whole['problems'][name]:+d}"
            for name, solved in record["problems"].items() if solved != whole["problems"][name]
        ]  # fmt: skip
        steps = f"{record['steps'] / max(whole['steps'], 1):.2f}"
        return [what, str(record["converged"]), steps, ", ".join(changes)]

    rows = [row(what, record) for what, record in ablation.items()]
    title = "DDP with parts left out: starts that converge, steps of all solves relative to all parts"
    return table(title, ("left out",), ("converged", "steps"), (rows[:1], rows[1:]), ("changes",))


def markdown(results: dict[str, Any]) -> str:
    """The same for a file."""
    problems = results["problems"]
    parts: list[str] = []
    if rows := feasible_rows(problems):
        parts.append(_grid(["problem", *columns(problems)], rows))
    if rows := infeasible_rows(problems):
        parts.append(_grid(list(INFEASIBLE), rows))
    if rows := lost_rows(problems):
        parts.append(_grid(list(LOST), rows))
    return "\n\n".join([*parts, *means(results)]) + "\n"


def _grid(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "\n".join("| " + " | ".join(value or NONE for value in line) + " |" for line in lines)
