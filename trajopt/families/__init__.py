"""Families of solutions along a path of parameters."""
