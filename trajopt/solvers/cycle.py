"""A solve of one step from a warm start, as in a cycle of predictive control: what is known where that step led.

Nothing is expanded there.  The gains are those of the step's sweep,

    u = us + alpha k + K (xs_new - xs) + (1 - alpha) k + K (x - xs_new)

so that (1 - alpha) k is left of k; its value function moves along, V_x + V_xx dx.  Multipliers are those that the step
was taken with, moved by it; the gradient is that of the iterate before.  Values of constraints are new.
"""

from __future__ import annotations

import numpy as np

from trajopt.backward.sweep import SweepResult
from trajopt.solvers.iterate import Direction, Formulation, Iterate, LocalModel
from trajopt.solvers.line_search import Step
from trajopt.solvers.multipliers import Multipliers
from trajopt.solvers.predicted_change import gradient_at
from trajopt.validation import same_shape


def arrived(
    formulation: Formulation,
    model: LocalModel,
    iterate: Iterate,
    c: np.ndarray | None,
    m: Multipliers | None,
    soft: bool,
) -> LocalModel:
    """The model of the iterate before as that of the one that a step led to, where rows are c (R,); soft: whether
    constraints are."""
    if m is None or c is None or model.rows is None or formulation.rows is None:
        return model._replace(iterate=iterate)
    dual = m.weights(formulation.rows, c)[1].p if soft else m.dual
    return model._replace(iterate=iterate, rows=model.rows._replace(c=c, dual=dual, weights=None))


def left_of(formulation: Formulation, iterate: Iterate, direction: Direction, step: Step) -> Direction:
    """The direction as one from where a step along it led."""
    system, sweep, (alpha, xs, *_) = formulation.problem.system, direction.sweep, step.candidate
    dx = same_shape("difference", system.difference(iterate.xs, xs), (len(xs), system.ndx))
    dx = dx if iterate.gaps is None else dx - iterate.gaps
    k = np.zeros_like(sweep.k) if alpha == 1.0 else (1.0 - alpha) * sweep.k
    moved = SweepResult(k, sweep.K, gradient_at(sweep.Vx, sweep.Vxx, dx), sweep.Vxx, sweep.d1, sweep.d2, sweep.ok)
    return direction._replace(sweep=moved)
