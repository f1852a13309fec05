"""Draw every problem, and measure iterations, processor times and costs of iLQR and DDP, for the gallery of the site.

    python -m experiments.gallery [--only NAME ...] [--turns N] [--out DIR]

Writes DIR/gallery.json and a picture of every problem, NAME.png or NAME.webp; with --only of these alone, and what the
JSON says of others stays.  The site shows those of docs/gallery.  One thread; the solvers take turns.
"""

import json
import sys
from typing import Any

import problems
from experiments.gallery.study import SOLVERS, look_of, record, texts
from experiments.harness import Experiment, Run, count, option, table


def study(run: Run) -> dict[str, Any]:
    """All problems, or those that are named and what is known of the others."""
    about, names = texts(), problems.names()
    file = run.folder / "gallery.json"
    only = run.options.only or names
    known = json.loads(file.read_text(encoding="utf-8"))["problems"] if run.options.only and file.exists() else {}
    run.folder.mkdir(parents=True, exist_ok=True)
    for name in run.track(only, "problems"):
        known[name] = record(name, run.folder, run.options.turns, look_of(about[name]))
        run.files.append(run.folder / known[name]["picture"])
    return {"problems": {name: known[name] for name in names if name in known}}


def shown(results: dict[str, Any]) -> Any:
    """Iterations and milliseconds of both solvers."""
    rows = []
    for name, each in results["problems"].items():
        by = each["solvers"]
        rows.append([
            name,
            " and ".join(dict.fromkeys(by[key]["status"] for key in SOLVERS)),
            *(by[key]["iterations"] for key in SOLVERS),
            *(1e3 * by[key]["seconds"] for key in SOLVERS),
            f"{by['ddp']['cost']:.6g}",
        ])  # fmt: skip
    right = ["iterations: iLQR", "DDP", "processor time, ms: iLQR", "DDP", "cost"]
    return table("iLQR and DDP on every problem", ["problem", "ended"], right, [rows])


main = Experiment(
    "gallery",
    __doc__,
    study,
    options=[
        option("--only", nargs="+", choices=problems.names(), metavar="NAME", help="these problems (default: all)"),
        count("--turns", 5, "turns of both solvers, of which the median counts"),
    ],
    tables=lambda results: (shown(results),),
    threads=1,
)

if __name__ == "__main__":
    sys.exit(main())
