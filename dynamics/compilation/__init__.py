"""What compiles for which kind of problem, and its compilation ahead, by several processes at once."""

from dynamics.simd.stages import EXECUTED, EXPLAINED, PREPARED

SOLVERS = frozenset({"ILQR", "DDP"})
STAGES = frozenset({PREPARED, EXECUTED, EXPLAINED})
"""What is done with a problem besides solving it: prepared solves, policies and simulations, explanations."""
