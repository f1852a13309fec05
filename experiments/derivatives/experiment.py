"""What the experiments on derivatives have in common: their options and where they write."""

from collections.abc import Callable
from typing import Any

from experiments.harness import Experiment, Option, Run, quick, seed


def derivatives(
    name: str, doc: str | None, study: Callable[[Run], dict[str, Any]], *options: Option, **settings: Any
) -> Experiment:
    """The experiment `experiments.derivatives.NAME`, on one thread if nothing else is said; its JSON has the seed.

    Parameters: options, besides --quick and --seed; settings, those of `Experiment`.
    """
    return Experiment(
        f"derivatives.{name}",
        doc,
        lambda run: {"seed": run.options.seed, **study(run)},
        options=[quick("smallest sizes and few rounds, to see that it runs"), seed("random states"), *options],
        **{"width": 180, "threads": 1} | settings,
    )
