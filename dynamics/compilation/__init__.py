"""What compiles for which kind of problem, and its compilation ahead, by several processes at once."""

SOLVERS = frozenset({"ILQR", "DDP"})
PREPARED, EXECUTED, EXPLAINED = "(prepared)", "(executed)", "(explained)"
STAGES = frozenset({PREPARED, EXECUTED, EXPLAINED})
"""What is done with a problem besides solving it: prepared solves, policies and simulations, explanations."""
