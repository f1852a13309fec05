"""What the Hessian of the dynamics is good for besides fast convergence: exact derivatives of solutions, certificates.

    python -m experiments.sensitivity [--quick] [--escape] [--starts N] [--out DIR] [--seed N]

Writes OUT/sensitivity.json (all errors and times), OUT/errors.png and OUT/predictions.png.  With --escape every
problem that `trajopt list` shows is solved with and without DDP's escape from saddles, too.
"""

import sys
from collections.abc import Iterable
from typing import Any

from rich.table import Table

import problems
from experiments.harness import Experiment, Run, count, option, quick, seed
from experiments.sensitivity import many_parameters, pressing, tables
from experiments.sensitivity.cases import CASES
from experiments.sensitivity.certificates import escape_record, minimum_record, saddle_record
from experiments.sensitivity.dense import DENSE
from experiments.sensitivity.figures import plot_errors, plot_predictions
from experiments.sensitivity.inertial import measure
from experiments.sensitivity.saddles import SADDLES
from experiments.sensitivity.study import CHANGES, PREDICTED, case_record, prediction

SECONDS, QUICK_SECONDS = 0.3, 0.02
"""For a time."""
QUICK_CASES, QUICK_COUNT = ("pendulum", "arm_obstacle"), 2
QUICK_PROBLEMS = ["pendulum", "soft_manipulator_reach"]


def study(run: Run) -> dict[str, Any]:
    """Errors, times, predictions, eigenvalues, and with --escape all problems."""
    fast, seconds = run.options.quick, QUICK_SECONDS if run.options.quick else SECONDS
    cases, number = (list(QUICK_CASES), QUICK_COUNT) if fast else (list(CASES), None)
    predicted = dict(list(PREDICTED.items())[: 1 if fast else None])
    results = {
        "problems": {name: case_record(CASES[name], number, seconds) for name in run.track(cases, "derivatives")},
        "predictions": {
            name: prediction(CASES[name], predicted[name], CHANGES[: 4 if fast else None])
            for name in run.track(list(predicted), "predictions")
        },
        "minima": [minimum_record(name) for name in run.track(list(DENSE[: 2 if fast else None]), "certificates")],
        "saddles": [saddle_record(name) for name in run.track(list(SADDLES), "saddles")],
    }
    counts = many_parameters.QUICK if fast else tuple(many_parameters.PARAMETERS)
    limits = (1, seconds) if fast else (many_parameters.ROUNDS, many_parameters.SECONDS)
    results["many"] = [many_parameters.measure(count, *limits) for count in run.track(list(counts), "many parameters")]
    results["pressing"] = pressing.measure(1 if fast else pressing.POINTS, run.options.seed)
    if not fast:
        results["inertial"] = measure()
    if run.options.escape:
        names = QUICK_PROBLEMS if fast else problems.names()
        starts = run.options.starts
        results["escapes"] = [
            escape_record(name, starts, run.options.seed, seconds) for name in run.track(names, "escapes")
        ]
    return results


def shown(results: dict[str, Any]) -> Iterable[Table]:
    """The tables of what was measured."""
    yield tables.errors_table(results)
    yield tables.times_table(results)
    yield tables.predictions_table(results)
    yield tables.certificates_table(results)
    yield tables.saddles_table(results)
    yield tables.many_table(results)
    yield tables.pressing_table(results)
    if "inertial" in results:
        yield tables.inertial_table(results)
    if "escapes" in results:
        yield tables.escapes_table(results)


main = Experiment(
    "sensitivity",
    __doc__,
    study,
    options=[
        quick("two problems by two parameters, short times"),
        option("--escape", action="store_true", help="solve all problems with and without escapes from saddles, too"),
        count("--starts", 3, "random starts of each problem for --escape", least=0),
        seed("random starts and random points"),
    ],
    tables=shown,
    pictures={"errors.png": plot_errors, "predictions.png": plot_predictions},
    width=200,
    threads=1,
)

if __name__ == "__main__":
    sys.exit(main())
