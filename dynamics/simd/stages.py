"""What else than solves a problem's kernels may be compiled for."""

PREPARED, EXECUTED, EXPLAINED = "(prepared)", "(executed)", "(explained)"
