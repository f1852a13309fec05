"""Constrained optimal control problems from the literature, stated once, solved here and by IPOPT and FATROP."""
