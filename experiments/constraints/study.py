"""The measurements, as plain dicts: every problem by every solver from the same starts.

Feasible: no violation above `FEASIBLE`, in the problem's units, computed from the trajectory alone.  A local minimum
is known if some solver converged to it, feasible and stationary (`certificate`), in this run or in one before
(`known_minima.json`).  A start succeeds if the solver says so and is feasible and its cost is within `SAME`, relative,
of a known minimum; it is at the best one within `SAME` of the lowest.
"""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.constraints.catalogue import statement
from experiments.constraints.contestants import Attempt, contestant
from experiments.constraints.starts import controls, states
from experiments.constraints.statement import Statement

FEASIBLE, SAME = 1e-6, 1e-4
SCALES = (1.0, 1e3, 1e-3)
KNOWN = Path(__file__).with_name("known_minima.json")

Attempts = dict[str, list[Attempt]]


def known_minima(name: str) -> list[float]:
    """Costs of the minima known from before."""
    return json.loads(KNOWN.read_text(encoding="utf-8")).get(name, []) if KNOWN.is_file() else []


def same(cost: float, other: float) -> bool:
    """Whether two costs are those of one minimum."""
    return abs(cost - other) <= SAME * max(abs(other), 1e-12)


def attempts_of(
    each: Statement, solvers: Sequence[str], starts: int, seed: int, limit: float, advance: Callable[..., None]
) -> Attempts:
    """Every solver from every start, in turns, so that a busy machine slows all of them alike."""
    contestants = {solver: contestant(solver, each, limit) for solver in solvers}
    found: Attempts = {solver: [] for solver in solvers}
    for number in range(starts):
        us = controls(each, number, seed)
        xs = states(each, us)
        for solver, one in contestants.items():
            found[solver].append(one.solve(us, xs))
            advance()
    for one in contestants.values():
        one.close()
    return found


def done(attempt: Attempt) -> bool:
    """Whether the solver says that it converged, and where it did is feasible."""
    return attempt.status == "converged" and attempt.violation <= FEASIBLE


def minima_of(each: Statement, found: Attempts) -> tuple[list[float], list[float]]:
    """Costs of all known minima, and those of runs that converged where nothing is stationary; both sorted."""
    known, refused = known_minima(each.name), []
    candidates = sorted((a for runs in found.values() for a in runs if done(a)), key=lambda a: a.cost)
    certifier: Any = None
    for a in candidates:
        if any(same(a.cost, m) for m in (*known, *refused)):
            continue
        if importlib.util.find_spec("casadi"):
            if certifier is None:
                from experiments.constraints.certificate import STATIONARY, Certifier
                from experiments.constraints.programme import programme

                certifier = Certifier(programme(each))
            if certifier.residual(a.xs, a.us) > STATIONARY:
                refused.append(a.cost)
                continue
        known.append(a.cost)
    return sorted(known), refused


def run_record(number: int, a: Attempt, minima: list[float]) -> dict[str, Any]:
    """One start."""
    success = done(a) and any(same(a.cost, m) for m in minima)
    return {
        "number": number,
        "status": a.status,
        "success": success,
        "best": success and same(a.cost, minima[0]),
        "iterations": a.iterations,
        "seconds": a.seconds,
        "cost": a.cost if np.isfinite(a.cost) else None,
        "violation": a.violation if np.isfinite(a.violation) else None,
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Of one solver on one problem; iterations are medians of the successes, or of all that ended if there are none."""
    ended = [r for r in runs if r["iterations"] is not None]
    counted = [r["iterations"] for r in ended if r["success"]] or [r["iterations"] for r in ended]
    return {
        "starts": len(runs),
        "successes": sum(r["success"] for r in runs),
        "best": sum(r["best"] for r in runs),
        "named_infeasible": sum(r["status"] == "infeasible" for r in runs),
        "iterations": float(np.median(counted)) if counted else None,
        "seconds": float(sum(r["seconds"] for r in runs)),
        "statuses": dict(Counter(r["status"] for r in runs)),
    }


def ratios(solvers: dict[str, Any]) -> dict[str, Any]:
    """Total time of DDP over that of each peer: of all starts, and of those where both succeed."""
    result: dict[str, Any] = {}
    for peer in ("ipopt", "fatrop"):
        if peer not in solvers or "ddp" not in solvers:
            continue
        pairs = list(zip(solvers["ddp"]["runs"], solvers[peer]["runs"], strict=True))
        both = [(a["seconds"], b["seconds"]) for a, b in pairs if a["success"] and b["success"]]
        everything = np.sum([(a["seconds"], b["seconds"]) for a, b in pairs], axis=0)
        shared = np.sum(both, axis=0) if both else None
        result[peer] = {
            "all": float(everything[0] / everything[1]),
            "both": None if shared is None else float(shared[0] / shared[1]),
        }
    return result


def problem_record(
    name: str, solvers: Sequence[str], starts: int, seed: int, limit: float, advance: Callable[..., None]
) -> dict[str, Any]:
    """Everything about one problem."""
    each = statement(name)
    found = attempts_of(each, solvers, starts, seed, limit, advance)
    minima, refused = minima_of(each, found) if each.feasible else ([], [])
    records = {solver: [run_record(i, a, minima) for i, a in enumerate(runs)] for solver, runs in found.items()}
    entries = {solver: {"summary": summary(runs), "runs": runs} for solver, runs in records.items()}
    return {
        "source": each.source,
        "feasible": each.feasible,
        "horizon": each.horizon,
        "minima": minima,
        "not_stationary": refused,
        "solvers": entries,
        "ratios": ratios(entries) if each.feasible else {},
    }


def geometric_means(problems: dict[str, Any]) -> dict[str, Any]:
    """Of the ratios of all problems, with the number of problems they are of."""
    result: dict[str, Any] = {}
    for peer in ("ipopt", "fatrop"):
        for which in ("all", "both"):
            values = [r["ratios"][peer][which] for r in problems.values() if peer in r["ratios"]]
            values = [v for v in values if v is not None]
            if values:
                mean = float(np.exp(np.mean(np.log(values))))
                result.setdefault(peer, {})[which] = {"ratio": mean, "problems": len(values)}
    return result


def scaled_record(name: str, starts: int, seed: int, limit: float, advance: Callable[..., None]) -> dict[str, Any]:
    """Iterations and ends of DDP from every start with all rows multiplied by each of `SCALES`."""
    record: dict[str, Any] = {}
    for factor in SCALES:
        found = attempts_of(statement(name).scaled(factor), ("ddp",), starts, seed, limit, advance)["ddp"]
        record[f"{factor:g}"] = {
            "iterations": [a.iterations for a in found],
            "statuses": [a.status for a in found],
            "feasible": sum(done(a) for a in found),
        }
    return record
