"""How a solve can end.  Every end has a name and a sentence; none is an exception."""

from enum import StrEnum


class Status(StrEnum):
    """Named end of a solve; compares equal to its string."""

    CONVERGED = "converged"
    MAX_ITERATIONS = "max_iterations"
    LINE_SEARCH_FAILED = "line_search_failed"
    NOT_POSITIVE_DEFINITE = "not_positive_definite"
    INVALID_DERIVATIVES = "invalid_derivatives"
    NOT_FINITE = "not_finite"
    DIVERGED = "diverged"
    STOPPED_BY_CALLBACK = "stopped_by_callback"
    INTERRUPTED = "interrupted"
    TIME_LIMIT = "time_limit"
    INFEASIBLE = "infeasible"

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.CONVERGED: "The predicted decrease of the cost is within the tolerance, or too small to show in the cost.",
    Status.MAX_ITERATIONS: "The limit of iterations was reached before the predicted decrease and the violation of "
    "constraints fell below their tolerances.",
    Status.LINE_SEARCH_FAILED: "No step length lowers the cost, even with the largest regularization; "
    "the derivatives of the dynamics or of a cost may be wrong.",
    Status.NOT_POSITIVE_DEFINITE: "Quu is not positive definite even with the largest regularization.",
    Status.INVALID_DERIVATIVES: "The derivatives of the dynamics or of a cost are not finite at the last iterate.",
    Status.NOT_FINITE: "Every step from the last iterate, however short, leads to a state, a cost or a constraint that "
    "is not finite.",
    Status.DIVERGED: "The initial controls drive the state, the cost or a constraint to infinity; start from other "
    "controls. The states returned are the initial state, repeated.",
    Status.STOPPED_BY_CALLBACK: "The callback asked to stop.",
    Status.INTERRUPTED: "The solve was interrupted; this is the best iterate until then.",
    Status.TIME_LIMIT: "The time limit was reached; this is the best iterate until then.",
    Status.INFEASIBLE: "The constraints are locally infeasible: near this trajectory no small change of the controls "
    "lowers their violation. From another start they may well be met.",
}
