"""Derivatives of robots beside Pinocchio: first and second order, inverse and forward dynamics.

    python -m experiments.derivatives.robots_table [--quick] [--out DIR] [--seed N]

Paper 000, figure 5, and paper 004, figure 4: UR3, UR5, Baxter, HyQ, ANYmal and Talos (extra `peers`), and without the
extra an arm of 6 joints, a chain of 24, a humanoid of Talos' size, and one with the joints of Atlas, whose file no
package has.  64 knots, one thread, times per knot:

    public      the public function, arguments checked, results as arrays
    lanes       the same kernels, results left in the lanes for a caller's kernel (packed tensors are stored)
    Pinocchio   computeRNEADerivatives beside what concerns inverse dynamics, computeABADerivatives beside forward
                dynamics, called once per point from Python, as its users do
    net         the same less what a call costs, which the same function takes on a model without joints

Writes DIR/robots_table.json and DIR/robots_table.png.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

import dynamics
from experiments.derivatives import main_kernels, pinocchio_peer
from experiments.derivatives.chains import atlas_sized, chain, humanoid
from experiments.derivatives.main_kernels import FIRST, FORWARD, HESSIAN, TENSORS
from experiments.derivatives.trees import derivatives, microseconds
from experiments.harness import Run, records
from experiments.harness.pictures import grouped_bars
from problems import arm
from trajopt.plotting.style import new_figure

KNOTS = 64
DENSE, CURVATURE = "inverse, dense tensors", "forward, Hessian"
CONTESTS = (FIRST, FORWARD, HESSIAN, CURVATURE), (TENSORS, DENSE)
"""Quantities that take turns, Pinocchio with either group: tensors displace from the caches what comes after them."""
QUANTITIES = tuple(quantity for contest in CONTESTS for quantity in contest)
OWN: dict[str, Callable[[], dynamics.RigidBodyModel]] = {
    "arm6": lambda: dynamics.load_urdf(arm.MODEL), "chain 24": lambda: chain(24), "humanoid": humanoid,
    "Atlas' joints": atlas_sized,
}  # fmt: skip
"""Robots that need no extra."""
TARGETS = (
    *((FIRST, name, 0.12) for name in ("ur5", "hyq", "chain 24")),
    *((FORWARD, name, 0.25) for name in ("ur5", "hyq", "chain 24")),
    (FORWARD, "humanoid", 0.35), (HESSIAN, "hyq", 0.25), (HESSIAN, "anymal", 0.25),
)  # fmt: skip
"""Quantity, robot, largest time over Pinocchio's first-order time that was aimed at."""


def models() -> dict[str, tuple]:
    """Robot -> our model and Pinocchio's; None for Pinocchio's, and no published robots, where it is missing."""
    own = {name: make() for name, make in OWN.items()}
    try:
        pinocchio_peer.pinocchio()
    except ImportError:
        return {name: (model, None) for name, model in own.items()}
    published = {name: pinocchio_peer.robot(name) for name in pinocchio_peer.ROBOTS}
    return published | {name: (model, pinocchio_peer.build(model)) for name, model in own.items()}


def public(model, q, v, u, w) -> main_kernels.Calls:
    """The public functions at K knots; u is the acceleration or the torque."""
    return main_kernels.with_arrays(model, q, v, u, w) | {
        DENSE: partial(dynamics.inverse_dynamics_second_derivatives, model, q, v, u),
        CURVATURE: partial(dynamics.forward_dynamics_hessian, model, q, v, u, w),
    }


def pinocchios(peer, q, v, u) -> dict[str, Callable[[], object]]:
    """Pinocchio's two functions at the same points, and at as many points of a model without joints."""
    nothing = pinocchio_peer.pinocchio().Model()
    points = [np.empty((len(q), 0))] * 3
    return {
        "inverse": pinocchio_peer.inverse_derivatives(peer, q, v, u),
        "forward": pinocchio_peer.forward_derivatives(peer, q, v, u),
        "inverse, call": pinocchio_peer.inverse_derivatives(nothing, *points),
        "forward, call": pinocchio_peer.forward_derivatives(nothing, *points),
    }


# ------------------------------------------------------------------------------------------------ measuring
def measure(name: str, model, peer, K: int, seconds: float, seed: int) -> list[dict]:
    """Per quantity microseconds per knot, all contestants in turns, and their ratios."""
    q, v, u, w = main_kernels.states(model, K, seed)
    sides = {"public": public(model, q, v, u, w), "lanes": main_kernels.in_lanes(model, q, v, u, w)}
    if peer is not None:
        sides["Pinocchio"] = pinocchios(peer, q, v, u)
    error = None if peer is None else pinocchio_peer.disagreement(model, peer, q[0], v[0], u[0])
    rows = []
    for contest in CONTESTS:
        taking_part = {
            (side, x): call
            for side, calls in sides.items()
            for x, call in calls.items()
            if side == "Pinocchio" or x in contest
        }
        us = microseconds(taking_part, K, seconds)
        for quantity in contest:
            kind = quantity.split(",")[0]
            theirs, call = us.get(("Pinocchio", kind)), us.get(("Pinocchio", f"{kind}, call"))
            times = {
                "public": us["public", quantity], "lanes": us.get(("lanes", quantity)), "Pinocchio": theirs,
                "net": None if theirs is None or call is None else theirs - call,
            }  # fmt: skip
            of = {"robot": name, "nv": model.nv, "quantity": quantity, "knots": K, "error": error}
            rows.append(of | times | {"call": call} | ratios(times))
    return rows


def ratios(times: dict) -> dict[str, float | None]:
    """Our times over Pinocchio's, where there are both."""
    return {
        f"{ours} / {theirs}": times[ours] / times[theirs] if times[ours] and times[theirs] else None
        for ours in ("public", "lanes")
        for theirs in ("Pinocchio", "net")
    }


def targets(rows: list[dict]) -> list[dict]:
    """What was aimed at and what was measured, for the robots at hand."""
    found = {(row["quantity"], row["robot"]): row for row in rows if row["Pinocchio"]}
    return [
        {
            "quantity": quantity, "robot": name, "nv": row["nv"], "aim": aim,
            **ratios(row), **{f"reached, {x}": row[f"{x} / Pinocchio"] <= aim for x in ("public", "lanes")},
        }
        for quantity, name, aim in TARGETS
        if (row := found.get((quantity, name)))
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------ report
def table_row(row: dict) -> dict:
    """What the table shows of a measurement."""
    times = {f"{key} [µs]": row[key] for key in ("public", "lanes", "Pinocchio", "net")}
    return {key: row[key] for key in ("robot", "nv", "quantity")} | times | ratios(row)


def draw(results: dict[str, Any]) -> Figure:
    """Ratios to Pinocchio where it is there, else times: a group of bars per robot, one per quantity."""
    rows, figure = results["rows"], new_figure(11.0, 4.4)
    axes, beside = figure.subplots(), any(row["Pinocchio"] for row in rows)
    grouped_bars(axes, rows, "robot", "quantity", lambda row: row["public / Pinocchio" if beside else "public"])
    if beside:
        axes.axhline(1.0, color="0.5", linewidth=1.0)
    sizes = {row["robot"]: row["nv"] for row in rows}
    axes.set_xticks(range(len(sizes)), [f"{name}\n$n_v$ = {nv}" for name, nv in sizes.items()], fontsize=8)
    axes.set_yscale("log")
    axes.set_ylabel("time / Pinocchio's first order [-]" if beside else "time per knot [µs]")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


def tables(results: dict[str, Any]) -> Iterator[Table]:
    """All quantities, and what was aimed at beside Pinocchio."""
    rows = results["rows"]
    yield records(f"Derivatives per knot, {rows[0]['knots']} knots", [table_row(row) for row in rows])
    if results["targets"]:
        yield records("Aims: time over Pinocchio's first order", results["targets"])


def study(run: Run) -> dict[str, Any]:
    """All robots."""
    how = (*((8, 0.02) if run.options.quick else (KNOTS, 3.0)), run.options.seed)
    robots = models()
    rows = [row for name in run.track(robots, "robots") for row in measure(name, *robots[name], *how)]
    return {"rows": rows, "targets": targets(rows)}


main = derivatives("robots_table", __doc__, study, tables, draw)

if __name__ == "__main__":
    sys.exit(main())
